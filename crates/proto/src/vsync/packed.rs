//! Large messages in parcels: over the network, each byte is copied at most once a side.
//!
//! Where a fabric carries parcels ([`Port::has_parcels`]), the bytes of a large message go from its
//! sender's one copy of them into the link, and arrive where the receiver's application reads them.
//! Its slot has a header and a stamp alone. Its parcel goes beside the slot, to the same place, and
//! has the header for its tag. What is said of slots holds of parcels too: their order, their room
//! (V4), whose view they are of (V17), and that they are sent again in the next view (V7). A longer
//! message in a larger shard is relayed in blocks (`relay`). One without an order goes through the
//! rings.
//!
//! - V23 *Before its slot.* A parcel is posted before the slot, whenever the slot is written: also
//!   when a link is there again, which has lost what its predecessor brought (T11). So a receiver
//!   that sees a slot has the parcel (T2), or the link to the sender has broken since, and both are
//!   written again. Mutant `SLOT_ALONE`.
//! - V24 *Taken is received.* A member tells that it has received such a message when it has taken
//!   the parcel. So it can deliver the message, whatever becomes of the sender and the link. A
//!   parcel whose tag is another header is damage. Mutant `RECEIVED_UNTAKEN`.
//! - V25 *Gone with its view.* When a view ends, its members forget the parcels of it that they
//!   have not taken: its places are used again in the view after the next (V8). Mutant
//!   `PARCELS_KEPT`.
//!
//! **Cost.** A copy by `send`; none at receivers, but for short messages, and the few bytes of a
//! long one that arrive together with its head.

use super::End;
use super::bugs::{Bug, Plantings};
use super::current::Current;
use super::lane::{Lane, Sender};
use super::outbox::Outbox;
use super::payload::Payload;
use super::slots::Header;
use base::{At, Bulk, PARCEL_BYTES_MAX, Parcel, Port, SeatSet};
use core::ops::Range;

impl<P: Plantings> Current<P> {
    /// Whether a message goes in a parcel.
    pub(super) fn carries(&self, subgroup: usize, bulk: &Bulk, port: &impl Port) -> bool {
        self.is_ordered(subgroup) && port.has_parcels() && bulk.len() <= PARCEL_BYTES_MAX
    }

    /// V23: posts the parcels of these own messages to `peers`, but for those that are relayed.
    pub(super) fn put_parcels(
        &mut self,
        subgroup: usize,
        outbox: &Outbox,
        indices: Range<u64>,
        peers: SeatSet,
        port: &mut impl Port,
    ) {
        let lane = self.lanes[subgroup].as_ref().expect("a member of one of its shards");
        let ring = lane.senders[lane.turn.index()].ring;
        for index in indices {
            let sent = outbox.sent(index).expect("V7: it is under way");
            let Some(bulk) = sent.message.as_ref().and_then(Payload::bulk) else { continue };
            if lane.routed.n_blocks(bulk.len()).is_some() {
                continue;
            }
            self.relays.relayed.own_bytes += (bulk.len() * peers.len()) as u64;
            let parcel = Parcel { tag: sent.header.word(), bulk: bulk.clone() };
            let at = self.layout.slot_of(ring, index);
            peers.iter().for_each(|peer| port.put_parcel(peer, at, &parcel));
        }
    }

    /// V24: takes the parcel of the message of `sender` with this index, whose slot at `at` has
    /// this header. False if it is not there: then it comes again.
    pub(super) fn take_parcel(
        &mut self,
        subgroup: usize,
        (sender, index): (&Sender, u64),
        (at, header): (At, Header),
        port: &mut impl Port,
    ) -> Result<bool, End> {
        if let Some(is_whole) = self.take_relayed(subgroup, sender, index, header) {
            return Ok(is_whole);
        }
        let seat = sender.process.seat;
        let parcel = port.take_parcel(seat, at);
        // V17
        if !self.table.is_named_by(port.load(sender.named)) {
            return Err(End::Excluded);
        }
        let Some(Parcel { tag, bulk }) = parcel else {
            return Ok(self.planted.has(Bug::ReceivedUntaken));
        };
        let Header::Packed { n_bytes, .. } = header else { return Err(End::Damaged(seat)) };
        if tag != header.word() || bulk.len() != n_bytes as usize {
            return Err(End::Damaged(seat));
        }
        let lane = self.lanes[subgroup].as_mut().expect("a member of one of its shards");
        lane.hold(sender.turn, index, Payload::packed(bulk));
        Ok(true)
    }

    /// Releases and forgets all that others have sent in this view (V25), which ends.
    pub(super) fn let_all_go(&mut self, port: &mut impl Port) {
        self.lanes.iter_mut().flatten().for_each(Lane::let_all_go);
        if !port.has_parcels() || self.planted.has(Bug::ParcelsKept) {
            return;
        }
        for sender in self.lanes.iter().flatten().flat_map(|lane| &lane.senders) {
            for slot in 0..u64::from(self.layout.shape.window) {
                port.take_parcel(sender.process.seat, self.layout.slot_of(sender.ring, slot));
            }
        }
        self.forget_blocks(port);
    }
}
