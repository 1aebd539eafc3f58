//! Messages of one view: rings, receipt, the order, stability.
//!
//! A sender writes a message into its ring in every other member's region, and then the number of
//! messages into its row (`sent`, which guards the ring). A receiver tells how many it has of each
//! sender. What all members have received without a gap of the order is *stable* and is delivered.
//!
//! - V2 *Order.* All members deliver the same messages in the order of `order`, each once. By
//!   construction: positions are delivered one after the other, and a position names one message of
//!   one ring. Mutants `LAST_LAGGING`, `NULLS_INVENTED`.
//! - V3 *Stability.* Before the end of a view, a member delivers only what every member of the view
//!   has received, the suspected ones included. So the trim covers it. Mutant `DELIVER_UNSTABLE`.
//! - V4 *Room.* A slot of a ring is used again when every member has delivered its message, so a
//!   message that is delivered is read from the ring. The paper's listing (A.2.3) has the test
//!   inverted. Mutant `WINDOW_INVERTED`.
//! - V5 *Turns.* A sender without messages sends nulls as soon as a later turn of another sender
//!   has come, and only the sender itself does. Mutants `NO_NULLS`, `NULLS_INVENTED`.

use super::bugs::{Bug, Plantings};
use super::current::Current;
use super::outbox::Outbox;
use super::{Delivery, Output};
use alloc::vec;
use alloc::vec::Vec;
use base::{Port, Rank};

/// The header of a null; that of a message is the number of its bytes.
const NULL: u64 = u64::MAX;

/// A slot that holds no message: its seat's process, or the memory, is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damaged(pub(super) Rank);

impl<P: Plantings> Current<P> {
    /// Receives what the others have sent.
    pub(super) fn receive(&mut self) {
        for seat in self.others().iter() {
            let sent = self.of(seat, self.row.sent);
            self.table.set(self.row.received, seat.index(), sent);
        }
    }

    /// Sends what waits, as far as there is room; and nulls, if others wait for this member's turn.
    /// True if something was sent.
    pub(super) fn send(&mut self, outbox: &mut Outbox, port: &mut impl Port) -> bool {
        let before = outbox.n_sent();
        while self.is_ready() && outbox.n_waiting() > 0 && self.has_room(outbox) {
            let index = outbox.n_sent();
            if let Some(message) = outbox.send_next() {
                self.write_slot(index, Some(message), self.others(), port);
            }
        }
        while outbox.n_sent() < self.due() && self.has_room(outbox) {
            self.write_slot(outbox.n_sent(), None, self.others(), port);
            outbox.send_null();
        }
        let n_sent = outbox.n_sent();
        self.table.set(self.row.received, self.me.index(), n_sent);
        // The guard of the ring: pushed behind the slots.
        self.table.set(self.row.sent, 0, n_sent);
        n_sent > before
    }

    /// V4
    fn has_room(&self, outbox: &Outbox) -> bool {
        let turns = |seat| self.turns_before(self.of(seat, self.row.delivered));
        let done = self.seats.iter().map(turns).min().unwrap_or(0);
        let is_room = outbox.n_sent() - done < u64::from(self.layout.shape.window);
        is_room != self.planted.has(Bug::WindowInverted)
    }

    /// The number of this member's turns before a position of the order.
    fn turns_before(&self, position: u64) -> u64 {
        let (next, index) = self.order.turn(position);
        index + u64::from(next > self.standing)
    }

    /// V5
    fn due(&self) -> u64 {
        if self.planted.has(Bug::NoNulls) {
            return 0;
        }
        self.order.due(self.standing, self.counts(self.me))
    }

    /// The numbers of messages that the member on `seat` holds, by the standing of their senders.
    fn counts(&self, seat: Rank) -> impl Iterator<Item = u64> + '_ {
        let received = self.table.words(seat, self.row.received);
        self.view.members.iter().map(|sender| received[sender.seat().index()])
    }

    /// The length of the order that the member on `seat` holds without a gap.
    pub(super) fn held_by(&self, seat: Rank) -> u64 {
        if self.planted.has(Bug::NullsInvented) {
            let least = self.counts(seat).filter(|count| *count > 0).min().unwrap_or(0);
            return self.order.prefix(self.counts(seat).map(|count| count.max(least)));
        }
        if self.planted.has(Bug::LastLagging) {
            let least = self.counts(seat).min().unwrap_or(0);
            let last = self.counts(seat).collect::<Vec<_>>();
            let last = last.iter().rposition(|count| *count == least).unwrap_or(0) as u64;
            return least * last_of(&self.view) + last;
        }
        self.order.prefix(self.counts(seat))
    }

    /// V3
    fn stable(&self) -> u64 {
        if self.planted.has(Bug::DeliverUnstable) {
            return self.held_by(self.me);
        }
        self.seats.iter().map(|seat| self.held_by(seat)).min().unwrap_or(0)
    }

    /// Delivers what is stable, if this member has the state that it belongs to.
    pub(super) fn deliver_stable(
        &mut self,
        outbox: &mut Outbox,
        port: &impl Port,
        out: &mut Vec<Output>,
    ) -> Result<(), Damaged> {
        if self.is_ready() {
            self.deliver_before(self.stable(), outbox, port, |one| out.push(Output::Deliver(one)))?;
        }
        Ok(())
    }

    /// Takes every position before `end` that has not been taken; `take` gets the messages.
    pub(super) fn deliver_before(
        &mut self,
        end: u64,
        outbox: &mut Outbox,
        port: &impl Port,
        mut take: impl FnMut(Delivery),
    ) -> Result<(), Damaged> {
        assert!(end <= self.held_by(self.me), "V3: nothing is delivered that is not here");
        loop {
            let at = self.position();
            if at.at >= end {
                return Ok(());
            }
            let (sender, index) = self.order.turn(at.at);
            let sender = self.view.members[sender.index()].process;
            let message = if sender.seat == self.me {
                outbox.delivered()
            } else {
                self.read_slot(sender.seat, index, port)?
            };
            self.table.set(self.row.delivered, 0, at.at + 1);
            if let Some(message) = message {
                take(Delivery { at, sender, message });
            }
        }
    }

    /// Skips to `position`, which a state that was given to this member covers.
    pub(super) fn skip_to(&mut self, position: u64, outbox: &mut Outbox) {
        let n_own = self.turns_before(position);
        while outbox.n_delivered() < n_own {
            outbox.delivered();
        }
        self.table.set(self.row.delivered, 0, position);
    }

    // ---- slots ----

    /// Writes into the ring of this member at `peers`: in one WRITE, which may land in any order.
    fn write_slot(
        &self,
        index: u64,
        message: Option<&[u8]>,
        peers: base::SeatSet,
        port: &mut impl Port,
    ) {
        let at = self.layout.slot_of(self.me, self.view.id.0, index, self.planted);
        let mut words = vec![message.map_or(NULL, |bytes| bytes.len() as u64)];
        words.extend(message.into_iter().flat_map(|bytes| bytes.chunks(8)).map(crate::le_word));
        peers.iter().for_each(|peer| port.write(peer, at, &words, None));
    }

    /// Writes everything that may be missing there into the ring of this member at `peers`, whose
    /// links were down. The row follows.
    pub(super) fn write_ring(&self, outbox: &Outbox, peers: base::SeatSet, port: &mut impl Port) {
        for index in outbox.n_delivered()..outbox.n_sent() {
            let message = outbox.sent(index).expect("V7: it is under way");
            self.write_slot(index, message, peers, port);
        }
    }

    fn read_slot(
        &self,
        seat: Rank,
        index: u64,
        port: &impl Port,
    ) -> Result<Option<Vec<u8>>, Damaged> {
        let at = self.layout.slot_of(seat, self.view.id.0, index, self.planted);
        let header = port.load(at);
        if header == NULL {
            return Ok(None);
        }
        if header > u64::from(self.layout.shape.message_bytes) {
            return Err(Damaged(seat));
        }
        let n_bytes = header as usize;
        let mut words = vec![0; n_bytes.div_ceil(8)];
        port.load_into(at.plus(1), &mut words);
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        bytes.truncate(n_bytes);
        Ok(Some(bytes))
    }
}

fn last_of(view: &super::view::View) -> u64 {
    view.members.len() as u64
}
