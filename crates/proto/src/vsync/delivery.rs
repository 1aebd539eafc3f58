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
//! - V13 *On its way.* What some member has not received of this one's messages is at most
//!   [`FLIGHT_BYTES_MAX`] long, and what is written again into a ring is not more: so it fits into
//!   what a fabric keeps for a link. Mutant `FLIGHT_UNBOUNDED`.
//! - V5 *Turns.* A sender without messages sends nulls as soon as a later turn of another sender
//!   has come, and only the sender itself does. Mutants `NO_NULLS`, `NULLS_INVENTED`.

use super::bugs::{Bug, Plantings};
use super::current::Current;
use super::outbox::Outbox;
use super::payload::Payload;
use super::slots::{Damaged, Header, Run, WRITE_WORDS_MAX, is_small};
use super::{Delivery, Mode, Output};
use alloc::vec::Vec;
use base::{At, Port, Rank, SeatSet};
use core::ops::Range;

impl<P: Plantings> Current<P> {
    fn mode(&self) -> Mode {
        self.layout.shape.mode
    }

    /// Receives what the others have sent, and delivers what can be delivered, unless the
    /// application takes nothing (V12) or the state that it belongs to is missing.
    pub(super) fn receive(
        &mut self,
        is_held: bool,
        outbox: &mut Outbox,
        port: &impl Port,
        out: &mut Vec<Output>,
    ) -> Result<(), Damaged> {
        match self.mode() {
            Mode::Ordered => {
                self.note_received();
                if !is_held && self.is_ready() {
                    let take = |one| out.push(Output::Deliver(one));
                    self.deliver_before(self.stable(), outbox, port, take)?;
                }
            }
            Mode::Unordered if !is_held => self.deliver_received(outbox, port, out)?,
            Mode::Unordered => {}
        }
        Ok(())
    }

    fn note_received(&mut self) {
        for seat in self.others().iter() {
            let sent = self.of(seat, self.row.sent);
            self.table.set(self.row.received, seat.index(), sent);
        }
    }

    /// Sends what waits, as far as there is room; and nulls, if others wait for this member's turn.
    /// True if something was sent.
    pub(super) fn send(&mut self, outbox: &mut Outbox, port: &mut impl Port) -> bool {
        let before = outbox.n_sent();
        let end = self.end_of_room();
        if self.is_ready() {
            let received = self.received_of_me();
            while outbox.n_sent() < end
                && (outbox.bytes_since(received) + self.longest() <= FLIGHT_BYTES_MAX
                    || self.planted.has(Bug::FlightUnbounded))
                && outbox.send_next()
            {}
        }
        let due = self.due().min(end);
        while outbox.n_sent() < due {
            outbox.send_null();
        }
        let n_sent = outbox.n_sent();
        self.write_slots(outbox, before..n_sent, self.others(), port);
        self.table.set(self.row.received, self.me.index(), n_sent);
        // The guard of the ring: pushed behind the slots.
        self.table.set(self.row.sent, 0, n_sent);
        n_sent > before
    }

    /// The number of this member's messages that every other member has received.
    pub(super) fn received_of_me(&self) -> u64 {
        let others = self.others();
        let received = others.iter().map(|seat| self.received(seat, self.me));
        received.min().unwrap_or_else(|| self.received(self.me, self.me))
    }

    /// The number of the messages of `sender` that the member on `seat` has received.
    pub(super) fn received(&self, seat: Rank, sender: Rank) -> u64 {
        self.table.get(seat, self.row.received, sender.index())
    }

    /// The bytes of the longest message.
    fn longest(&self) -> u64 {
        u64::from(self.layout.shape.message_bytes)
    }

    /// V4: the index of the first own message that has no slot yet.
    fn end_of_room(&self) -> u64 {
        let turns = |seat| self.turns_before(self.of(seat, self.row.delivered));
        let done = match self.mode() {
            Mode::Ordered => self.seats.iter().map(turns).min().unwrap_or(0),
            // What was received was delivered (V14).
            Mode::Unordered => self.received_of_me(),
        };
        // The inverted test finds no room while there is some.
        if self.planted.has(Bug::WindowInverted) {
            0
        } else {
            done + u64::from(self.layout.shape.window)
        }
    }

    /// The number of this member's turns before a position of the order.
    fn turns_before(&self, position: u64) -> u64 {
        let (next, index) = self.order.turn(position);
        index + u64::from(next > self.standing)
    }

    /// V5
    fn due(&self) -> u64 {
        if self.mode() == Mode::Unordered || self.planted.has(Bug::NoNulls) {
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
        if self.mode() == Mode::Unordered {
            return 0;
        }
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
                self.read_slot(sender.seat, index, port)?.map(|(_, message)| message)
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

    /// Writes these own messages and nulls, which are not delivered yet, into the ring of this
    /// member at `peers`. What a WRITE holds may land in any order: `sent` follows all of them.
    fn write_slots(
        &mut self,
        outbox: &Outbox,
        indices: Range<u64>,
        peers: SeatSet,
        port: &mut impl Port,
    ) {
        let mut write = |at: At, words: &[u64]| {
            for (piece, n) in words.chunks(WRITE_WORDS_MAX).zip(0..) {
                let at = at.plus(n * WRITE_WORDS_MAX as u32);
                peers.iter().for_each(|peer| port.write(peer, at, piece, None));
            }
        };
        let mut run = Run::new(&mut self.scratch);
        for index in indices {
            let at = self.layout.slot_of(self.me, self.view.id.0, index, self.planted);
            let (header, message) = outbox.sent(index).expect("V7: it is under way");
            match message {
                Some(message) if !is_small(message) => {
                    write(at, &[header.word()]);
                    write(at.plus(1), message.words());
                }
                small => run.put(at, header, small.map_or(&[], Payload::words), &mut write),
            }
        }
        run.end(&mut write);
    }

    /// Writes everything that may be missing there into the ring of this member at `peers`, whose
    /// links were down. The row follows.
    pub(super) fn write_ring(&mut self, outbox: &Outbox, peers: SeatSet, port: &mut impl Port) {
        for peer in peers.iter() {
            // V13: a row tells what its owner holds for good.
            let first = self.received(peer, self.me).max(outbox.n_delivered());
            let peer = [peer].into_iter().collect();
            self.write_slots(outbox, first..outbox.n_sent(), peer, port);
        }
    }

    /// The message in a slot, with its number; `None` for a null.
    pub(super) fn read_slot(
        &self,
        seat: Rank,
        index: u64,
        port: &impl Port,
    ) -> Result<Option<(u64, Payload)>, Damaged> {
        let at = self.layout.slot_of(seat, self.view.id.0, index, self.planted);
        match Header::of(port.load(at)) {
            Header::Null => Ok(None),
            Header::Message { number, n_bytes } if u64::from(n_bytes) <= self.longest() => {
                let load = |offset, to: &mut [u64]| port.load_into(at.plus(1 + offset), to);
                Ok(Some((number, Payload::loaded(n_bytes as usize, load))))
            }
            Header::Message { .. } => Err(Damaged(seat)),
        }
    }
}

/// The most bytes of a sender's that are on their way to a member.
pub const FLIGHT_BYTES_MAX: u64 = 8 << 20;

fn last_of(view: &super::view::View) -> u64 {
    view.members.len() as u64
}
