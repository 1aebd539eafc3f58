//! Large messages that members relay in blocks, over a network: by the schedules of
//! [`rdmc`](crate::rdmc), so that a sender sends each byte about once, and not once to each.
//!
//! In a shard of four members or more the bytes of a message that is long enough travel in blocks,
//! each in a parcel of its own, from its sender to some members and from these to others. Its slot
//! goes from the sender to each member, as that of any other (`packed`): so what is said of slots
//! holds of relayed messages too, their order, their stamps, their room (V4), their stability
//! (V3), and that they are sent again in the next view (V7). A relay that dies is no case of its
//! own: what did not come by way of it was not received, and the view ends without it.
//!
//! ```text
//! slot:   header | stamp | (where the bytes would be)
//! beside:                  block 0 | block 1 | ...
//! ```
//! A block is beside the word of the slot in which its first byte would be.
//!
//! - V26 *One writer.* Which member a block comes from follows from the members of the shard, in
//!   the order of turns, from the sender, and from the number of blocks: all members know it. A
//!   block is taken from that member alone; what another one puts there is never looked at.
//! - V27 *All of its blocks.* A member tells that it has received a message when it has all blocks
//!   of it, each as long as it has to be. So it can deliver the message, whatever becomes of relays
//!   (V24). Mutant `COUNTED_INCOMPLETE`.
//! - V28 *Kept until all have it.* A member keeps all blocks until the message is delivered here:
//!   then all have received it (V3). When a link is there again, it sends again what it was to send
//!   over that link of messages that the other one has not received; the link has lost what was
//!   not taken (T11). Mutants `BLOCKS_FREED`, `BLOCKS_LOST`.
//! - V29 *Of this message.* A block's tag has the view and the index of its message, and its place
//!   says of which sender and which block it is. A block with another tag is late, and is dropped
//!   and counted. Mutant `BLOCK_OF_ANY_MESSAGE`.
//! - V30 *Room.* A block is posted when the link to its receiver has room for it
//!   ([`Port::has_room`]), and waits here otherwise: so what is relayed for others comes on top of
//!   what V13 allows by little, and a link that is slow has what its kernel takes. No relay waits
//!   for another one in that, but for its receiver to read. What a receiver that is behind does
//!   not take has the fabric's bound, which costs its link (`fabric`, T11), and V28 mends that.
//!   Mutant `RELAYS_UNBOUNDED`.
//! - V31 *Not behind a wedge.* A member that has wedged takes and sends no block. By the returns at
//!   the heads of `Machine::turn` and [`Current::relay`].
//!
//! **Cost.** A copy at each receiver, which puts the blocks together; each message is kept until it
//! is delivered, as in a ring. Blocks go behind the row that tells of their slot, so that a relay
//! need not wait for all of a sender's blocks.

use super::End;
use super::bugs::{Bug, Plantings};
use super::current::Current;
use super::lane::Sender;
use super::outbox::Outbox;
use super::payload::Payload;
use super::relaying::Relayed;
use super::shard::ViewId;
use super::slots::Header;
use base::{Bulk, Instant, Parcel, Port, SeatSet};
use core::ops::Range;
use core::time::Duration;

/// The number of bits of a tag that have an index; the rest is the view's.
const INDEX_BITS: u32 = 40;
/// The time after which a member looks for room again, if nothing happens before.
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// V29
const fn tag(view: ViewId, index: u64) -> u64 {
    view.0 << INDEX_BITS | index & ((1 << INDEX_BITS) - 1)
}

impl<P: Plantings> Current<P> {
    /// Begins to relay these own messages, as far as they are relayed.
    pub(super) fn begin_own(&mut self, subgroup: usize, outbox: &Outbox, indices: Range<u64>) {
        let lane = self.lanes[subgroup].as_mut().expect("a member of one of its shards");
        for index in indices {
            let message = outbox.sent(index).and_then(|sent| sent.message.as_ref());
            if let Some(bulk) = message.and_then(Payload::bulk) {
                lane.routed.put(index, bulk);
            }
        }
    }

    /// Takes blocks of messages of `sender` with these indices, whose slots are here.
    pub(super) fn take_blocks(
        &mut self,
        subgroup: usize,
        sender: &Sender,
        indices: Range<u64>,
        port: &mut impl Port,
    ) -> Result<(), End> {
        let longest = self.layout.shape.message_bytes;
        let is_relayed = self.lane(subgroup).routed.n_blocks(longest as usize).is_some();
        if !is_relayed || !port.has_parcels() {
            return Ok(());
        }
        for index in indices {
            let header = Header::of(port.load(self.layout.slot_of(sender.ring, index)));
            // V17
            if !self.table.is_named_by(port.load(sender.named)) {
                return Err(End::Excluded);
            }
            let Header::Packed { n_bytes, .. } = header else { continue };
            if n_bytes > longest {
                return Err(End::Damaged(sender.process.seat));
            }
            let lane = self.lanes[subgroup].as_mut().expect("a member of one of its shards");
            let of = (sender.turn.index(), index);
            if !lane.routed.begin(of.0, index, n_bytes as usize) {
                continue;
            }
            let mut next = 0;
            while let Some((block, source, n_bytes)) = lane.routed.missing(of, next) {
                next = block + 1;
                let from = lane.senders[source].process.seat;
                let at = self.layout.block_of(sender.ring, index, block);
                let Some(Parcel { tag: named, bulk }) = port.take_parcel(from, at) else {
                    continue;
                };
                if named != tag(self.view.id, index) && !self.planted.has(Bug::BlockOfAnyMessage) {
                    self.relays.relayed.n_late += 1;
                } else if bulk.len() != n_bytes {
                    return Err(End::Damaged(from));
                } else {
                    lane.routed.take(of, block, bulk);
                }
            }
        }
        Ok(())
    }

    /// V27: takes a message of `sender` that is relayed. False if a block is missing; none if it is
    /// not relayed.
    pub(super) fn take_relayed(
        &mut self,
        subgroup: usize,
        sender: &Sender,
        index: u64,
        header: Header,
    ) -> Option<bool> {
        let Header::Packed { n_bytes, .. } = header else { return None };
        let lane = self.lanes[subgroup].as_mut()?;
        lane.routed.n_blocks(n_bytes as usize)?;
        let turn = sender.turn.index();
        let whole: Option<Bulk> = lane.routed.whole(turn, index).cloned();
        let is_hasty =
            self.planted.has(Bug::CountedIncomplete) && lane.routed.is_nearly_whole(turn, index);
        let is_whole = whole.is_some();
        whole.into_iter().for_each(|bulk| lane.hold(sender.turn, index, Payload::packed(bulk)));
        Some(is_whole || is_hasty)
    }

    /// Sends the blocks that are due, the own ones and others'. The links to those of `renewed` had
    /// broken.
    pub(super) fn relay(&mut self, renewed: SeatSet, now: Instant, port: &mut impl Port) {
        self.relays.look_at = Instant(u64::MAX);
        // V31
        if self.is_wedged() {
            return;
        }
        let Current { lanes, table, row, layout, planted, relays, .. } = self;
        for lane in lanes.iter_mut().flatten() {
            let (subgroup, me) = (lane.subgroup(), lane.turn.index());
            for (turn, peer) in lane.senders.iter().enumerate().filter(|(turn, _)| *turn != me) {
                let to = peer.process.seat;
                // V28
                if renewed.contains(to) && !planted.has(Bug::BlocksLost) {
                    lane.routed.renew(turn);
                }
                if lane.routed.is_idle() {
                    continue;
                }
                let received = |turn: usize| {
                    let sender = lane.senders[turn].process.seat;
                    table.get(to, row.received, row.of(subgroup, sender))
                };
                let mut is_news = false;
                lane.routed.send(turn, received, *planted, |posting| {
                    let ((turn, index), bulk) = (posting.of, posting.bulk.clone());
                    if !port.has_room(to, bulk.len()) && !planted.has(Bug::RelaysUnbounded) {
                        relays.look_at = now.plus(LOOK_EVERY);
                        return false;
                    }
                    let at = layout.block_of(lane.senders[turn].ring, index, posting.block);
                    relays.relayed.note(turn == me, bulk.len(), posting.is_again);
                    port.put_parcel(to, at, &Parcel { tag: tag(self.view.id, index), bulk });
                    is_news = true;
                    true
                });
                if is_news {
                    port.wake(to);
                }
            }
        }
    }

    /// V25: forgets blocks that were not taken.
    pub(super) fn forget_blocks(&self, port: &mut impl Port) {
        for lane in self.lanes.iter().flatten() {
            let longest = self.layout.shape.message_bytes as usize;
            let n_blocks = lane.routed.n_blocks(longest).unwrap_or(0);
            for sender in &lane.senders {
                for slot in 0..u64::from(self.layout.shape.window) {
                    for block in 0..n_blocks {
                        let at = self.layout.block_of(sender.ring, slot, block);
                        lane.seats.iter().for_each(|from| drop(port.take_parcel(from, at)));
                    }
                }
            }
        }
    }

    /// What this process has sent of large messages, in all views.
    pub(super) const fn relayed(&self) -> Relayed {
        self.relays.relayed
    }

    /// Whether others are to get blocks of others' messages by way of this member.
    pub(super) fn owes_blocks(&self) -> bool {
        self.lanes.iter().flatten().any(|lane| lane.routed.owes())
    }
}
