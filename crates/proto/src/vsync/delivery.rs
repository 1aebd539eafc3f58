//! Messages of one view: rings, receipt, the order, stability. All of it is there once for each
//! shard that this member is in; "every member" is every member of the shard.
//!
//! A sender writes a message into its ring in every other member's region, and then the number of
//! messages into its row (`sent`, which guards the ring). A receiver tells how many it has of each
//! sender. What all members have received without a gap of the order is *stable* and is delivered.
//!
//! - V2 *Order.* All members deliver the same messages in the order of `order`, each once. By
//!   construction: positions are delivered one after the other, and a position names one message of
//!   one ring. Mutants `LAST_LAGGING`, `NULLS_INVENTED`.
//! - V3 *Stability.* Before the end of a view, a member delivers only what every member of the
//!   shard has received, the suspected ones included. So the trim covers it. Mutant
//!   `DELIVER_UNSTABLE`.
//! - V4 *Room.* A slot of a ring is used again when every member has delivered its message, so a
//!   message that is delivered is read from the ring. The paper's listing (A.2.3) has the test
//!   inverted. Mutant `WINDOW_INVERTED`.
//! - V13 *On its way.* What some member has not received of this one's messages, in all subgroups,
//!   is at most [`FLIGHT_BYTES_MAX`] long, and a longest message more for each subgroup but one.
//!   What is written again into rings is not more: so it fits into what a fabric keeps for a link.
//!   Mutant `FLIGHT_UNBOUNDED`.
//! - V5 *Turns.* A sender without messages sends nulls as soon as a later turn of another sender
//!   has come, and only the sender itself does. Mutants `NO_NULLS`, `NULLS_INVENTED`.
//! - V17 *Of this view.* What is read from a ring is of the view: the row of its sender names it
//!   behind the reading, or this member was left behind, and ends (`sst`, S6). So a sender claims
//!   its place once more before it writes to a member whose link was down. Mutants
//!   `SLOT_OF_ANY_VIEW`, `CLAIMED_ONCE`.
//! - V16 *Enough members.* In a view that has fewer members than [`Config::n_adequate`], and in a
//!   subgroup that lacks members, nothing is multicast; what waits stays, and what was cut off.
//!   Mutant `SENDS_INADEQUATE`.
//!
//! [`Config::n_adequate`]: super::Config::n_adequate

use super::bugs::{Bug, Plantings};
use super::clock::Time;
use super::current::Current;
use super::landing::{Landing, take_hold};
use super::lane::Sender;
use super::order::Standing;
use super::outbox::Outbox;
use super::payload::Payload;
use super::place::{Hold, Use};
use super::shard::{Ordered, Shard};
use super::slots::{Header, Run, WRITE_WORDS_MAX, is_small};
use super::{Delivery, End, Mode, Output};
use alloc::sync::Arc;
use alloc::vec::Vec;
use base::{At, Port, Rank, SeatSet};
use core::ops::Range;

/// A message in a ring.
pub(super) struct Read {
    pub(super) number: u64,
    pub(super) stamp: Time,
    pub(super) message: Payload,
}

impl<P: Plantings> Current<P> {
    /// Whether the messages of a subgroup have one order.
    pub(super) fn is_ordered(&self, subgroup: usize) -> bool {
        self.modes[subgroup] != Mode::Unordered
    }

    /// Receives what the others have sent, and delivers what can be delivered, unless the
    /// application takes nothing (V12) or the state that it belongs to is missing.
    pub(super) fn receive(
        &mut self,
        subgroup: usize,
        is_held: bool,
        outbox: &mut Outbox,
        port: &mut impl Port,
        out: &mut Vec<Output>,
    ) -> Result<(), End> {
        if !self.is_ordered(subgroup) {
            return if is_held {
                Ok(())
            } else {
                self.deliver_received(subgroup, outbox, port, out)
            };
        }
        self.note_received(subgroup, port)?;
        if !is_held && self.is_ready(subgroup) {
            let take = |one| out.push(Output::Deliver(one));
            let stable = self.stable(subgroup);
            self.deliver_before(subgroup, stable, outbox, port, take)?;
            self.advance_frontier(subgroup);
        }
        Ok(())
    }

    /// The other members of the own shard of `subgroup`.
    pub(super) fn peers(&self, subgroup: usize) -> SeatSet {
        self.lane(subgroup).seats.intersection(self.others())
    }

    /// The number of messages and nulls that the member on `seat` has sent in a subgroup.
    pub(super) fn sent(&self, subgroup: usize, seat: Rank) -> u64 {
        self.table.get(seat, self.row.sent, subgroup)
    }

    /// Receives what was sent, and sees its stamps (K2).
    pub(super) fn note_received(
        &mut self,
        subgroup: usize,
        port: &mut impl Port,
    ) -> Result<(), End> {
        for turn in 0..self.lane(subgroup).senders.len() {
            let sender = self.lane(subgroup).senders[turn];
            let seat = sender.process.seat;
            if seat == self.me {
                continue;
            }
            let sent = self.sent(subgroup, seat);
            let new = self.received(subgroup, self.me, seat)..sent;
            let is_silent = !self.lane(subgroup).order.has(sender.turn); // L6
            let n_most = if is_silent { 0 } else { u64::from(self.layout.shape.window) };
            if new.end.saturating_sub(new.start) > n_most {
                return Err(End::Damaged(seat));
            }
            let mut received = new.start;
            self.take_blocks(subgroup, &sender, new.clone(), port)?;
            for index in new {
                if !self.take(subgroup, &sender, index, port)? {
                    break;
                }
                let stamp = self.read_stamp(&sender, index, port);
                if !self.planted.has(Bug::StampUnseen) {
                    self.clock.see(stamp);
                }
                received = index + 1;
            }
            self.table.set(self.row.received, self.row.of(subgroup, seat), received);
        }
        Ok(())
    }

    /// Takes the message of a slot, if its bytes are elsewhere. False if they are not there yet.
    fn take(
        &mut self,
        subgroup: usize,
        sender: &Sender,
        index: u64,
        port: &mut impl Port,
    ) -> Result<bool, End> {
        let at = self.layout.slot_of(sender.ring, index);
        match Header::of(port.load(at)) {
            Header::Null | Header::Message { .. } => Ok(true),
            Header::Landed { n_bytes, .. } => {
                self.take_hold(subgroup, (sender, index), (at, n_bytes), port)
            }
            header @ Header::Packed { .. } => {
                self.take_parcel(subgroup, (sender, index), (at, header), port)
            }
        }
    }

    /// V20: takes a hold of the message that has landed where the slot at `at` says. False if its
    /// place cannot be looked into yet.
    fn take_hold(
        &mut self,
        subgroup: usize,
        (sender, index): (&Sender, u64),
        (at, n_bytes): (At, u32),
        port: &impl Port,
    ) -> Result<bool, End> {
        if self.layout.landing.n_places == 0 || self.planted.has(Bug::ReceivedUnheld) {
            return Ok(true);
        }
        let hold = self.hold_of(sender, at, n_bytes, port);
        // V17
        if !self.table.is_named_by(port.load(sender.named)) {
            return Err(End::Excluded);
        }
        let Some(hold) = hold? else { return Ok(false) };
        let lane = self.lanes[subgroup].as_mut().expect("a member of one of its shards");
        lane.hold(sender.turn, index, Payload::landed(Arc::new(hold)));
        Ok(true)
    }

    /// A hold of the message that has landed where the slot at `at` says.
    fn hold_of(
        &self,
        sender: &Sender,
        at: At,
        n_bytes: u32,
        port: &impl Port,
    ) -> Result<Option<Hold>, End> {
        let held = Use::of(port.load(at.plus(self.layout.head_words())));
        if u64::from(n_bytes) > self.longest() {
            return Err(End::Damaged(sender.process.seat));
        }
        let (plan, of, n_bytes) = (&self.layout.landing, &sender.process, n_bytes as usize);
        Ok(take_hold(plan, of, held, self.me, n_bytes, port))
    }

    /// Sends what waits, as far as there is room; and nulls, if others wait for this member's turn.
    /// True if something was sent.
    pub(super) fn send(
        &mut self,
        subgroup: usize,
        outbox: &mut Outbox,
        landing: &mut Landing<P>,
        port: &mut impl Port,
    ) -> bool {
        let before = outbox.n_sent();
        let end = self.end_of_room(subgroup);
        let lane = self.lane(subgroup);
        assert!(
            lane.order.has(lane.turn)
                || outbox.n_waiting() == 0
                || self.planted.has(Bug::SilentSends),
            "L6: a member that is no sender has taken a message"
        );
        if self.is_ready(subgroup) && self.is_open(subgroup) {
            let received = self.received_of_me(subgroup);
            while outbox.n_sent() < end
                && (outbox.bytes_since(received) + self.longest() <= self.flight_bytes_max()
                    || self.planted.has(Bug::FlightUnbounded))
                && self.send_next(subgroup, outbox, port)
            {}
        }
        let due = self.due(subgroup).min(end);
        while outbox.n_sent() < due {
            outbox.send_null();
        }
        let n_sent = outbox.n_sent();
        let new = (before..n_sent).filter_map(|index| outbox.sent(index)?.message.as_ref());
        for message in new {
            let others = self.lane(subgroup).senders.iter().map(|sender| sender.process);
            landing.send(message, others.filter(|one| one.seat != self.me));
        }
        self.begin_own(subgroup, outbox, before..n_sent);
        let peers = self.peers(subgroup);
        self.put_parcels(subgroup, outbox, before..n_sent, peers, port);
        self.write_slots(subgroup, outbox, before..n_sent, peers, port);
        self.table.set(self.row.received, self.row.of(subgroup, self.me), n_sent);
        // The guard of the ring: pushed behind the slots.
        self.table.set(self.row.sent, subgroup, n_sent);
        n_sent > before
    }

    /// Notes that the next message is sent (K1); false if none waits.
    fn send_next(&mut self, subgroup: usize, outbox: &mut Outbox, port: &impl Port) -> bool {
        let is_bug = outbox.is_again() && self.planted.has(Bug::StampKept);
        let stamp = if outbox.n_waiting() == 0 || is_bug { Time(0) } else { self.clock.stamp() };
        outbox.send_next(|bulk| self.carries(subgroup, bulk, port), || stamp)
    }

    /// V16
    fn is_open(&self, subgroup: usize) -> bool {
        self.lane(subgroup).is_adequate || self.planted.has(Bug::SendsInadequate)
    }

    /// The number of this member's messages that every other member of the shard has received.
    pub(super) fn received_of_me(&self, subgroup: usize) -> u64 {
        let peers = self.peers(subgroup);
        let received = peers.iter().map(|seat| self.received(subgroup, seat, self.me));
        received.min().unwrap_or_else(|| self.received(subgroup, self.me, self.me))
    }

    /// The number of the messages of `sender` that the member on `seat` has received.
    pub(super) fn received(&self, subgroup: usize, seat: Rank, sender: Rank) -> u64 {
        self.table.get(seat, self.row.received, self.row.of(subgroup, sender))
    }

    /// The bytes of the longest message.
    fn longest(&self) -> u64 {
        u64::from(self.layout.shape.message_bytes)
    }

    /// V13: the share of a subgroup, in which its longest message has room.
    fn flight_bytes_max(&self) -> u64 {
        let longest = self.longest().min(FLIGHT_BYTES_MAX);
        longest + (FLIGHT_BYTES_MAX - longest) / self.lanes.len().max(1) as u64
    }

    /// V4: the index of the first own message that has no slot yet.
    fn end_of_room(&self, subgroup: usize) -> u64 {
        let delivered = |seat| self.table.get(seat, self.row.delivered, subgroup);
        let turns = |seat| self.turns_before(subgroup, delivered(seat));
        let done = if self.is_ordered(subgroup) {
            self.lane(subgroup).seats.iter().map(turns).min().unwrap_or(0)
        } else {
            // What was received was delivered (V14).
            self.received_of_me(subgroup)
        };
        // The inverted test finds no room while there is some.
        if self.planted.has(Bug::WindowInverted) {
            0
        } else {
            done + u64::from(self.layout.shape.window)
        }
    }

    /// The number of this member's turns before a position of the order.
    fn turns_before(&self, subgroup: usize, position: u64) -> u64 {
        let lane = self.lane(subgroup);
        lane.order.turns_before(lane.turn, position)
    }

    /// V5
    fn due(&self, subgroup: usize) -> u64 {
        if !self.is_ordered(subgroup) || self.planted.has(Bug::NoNulls) {
            return 0;
        }
        let (shard, order) = self.ordered(subgroup);
        order.due(self.lane(subgroup).turn, self.counts(subgroup, shard, self.me))
    }

    fn ordered(&self, subgroup: usize) -> Ordered<'_> {
        let lane = self.lane(subgroup);
        (self.view.shard(lane.id).expect("a shard of the view"), &lane.order)
    }

    /// The number of messages that the member on `seat` holds of each member of `shard`.
    fn counts<'a>(
        &'a self,
        subgroup: usize,
        shard: &'a Shard,
        seat: Rank,
    ) -> impl Fn(Standing) -> u64 + 'a {
        let received = &self.table.words(seat, self.row.received)[self.row.lane(subgroup)];
        |sender| received[shard.seats[sender.index()].index()]
    }

    /// The length of the order of its shard that the member on `seat` holds without a gap.
    pub(super) fn held_by(&self, subgroup: usize, seat: Rank) -> u64 {
        self.held_of(subgroup, self.ordered(subgroup), seat)
    }

    /// The same of any shard and its order, of which the member on `seat` is one.
    pub(super) fn held_of(&self, subgroup: usize, (shard, order): Ordered<'_>, seat: Rank) -> u64 {
        if !self.is_ordered(subgroup) {
            return 0;
        }
        let counts = |seat| self.counts(subgroup, shard, seat);
        if self.planted.has(Bug::NullsInvented) {
            let held = order.senders().iter().map(|sender| counts(seat)(*sender));
            let least = held.filter(|count| *count > 0).min().unwrap_or(0);
            return order.prefix(|sender| counts(seat)(sender).max(least));
        }
        if self.planted.has(Bug::LastLagging) {
            return order.prefix_of_last(counts(seat));
        }
        order.prefix(counts(seat))
    }

    /// V3
    fn stable(&self, subgroup: usize) -> u64 {
        if self.planted.has(Bug::DeliverUnstable) {
            return self.held_by(subgroup, self.me);
        }
        let (shard, seats) = (self.ordered(subgroup), self.lane(subgroup).seats);
        seats.iter().map(|seat| self.safe_at(subgroup, shard, seat)).min().unwrap_or(0)
    }

    /// Takes every position before `end` that has not been taken; `take` gets the messages.
    pub(super) fn deliver_before(
        &mut self,
        subgroup: usize,
        end: u64,
        outbox: &mut Outbox,
        port: &impl Port,
        mut take: impl FnMut(Delivery),
    ) -> Result<(), End> {
        assert!(
            end <= self.held_by(subgroup, self.me),
            "V3: nothing is delivered that is not here"
        );
        loop {
            let at = self.position(subgroup);
            if at.at >= end {
                return Ok(());
            }
            let lane = self.lane(subgroup);
            let (shard, (sender, index)) = (lane.id, lane.order.turn(at.at));
            let sender = lane.senders[sender.index()];
            let message = if sender.process.seat == self.me {
                let sent = outbox.delivered();
                sent.message.map(|message| (sent.stamp, message))
            } else {
                self.read_slot(&sender, index, port)?.map(|read| (read.stamp, read.message))
            };
            self.let_go(subgroup, sender.turn, index);
            self.table.set(self.row.delivered, subgroup, at.at + 1);
            if let Some((stamp, message)) = message {
                let time = self.time_of(subgroup, stamp);
                take(Delivery { shard, at, time, sender: sender.process, message });
            }
        }
    }

    /// K3: the time of the next message that is delivered, which has this stamp.
    fn time_of(&mut self, subgroup: usize, stamp: Time) -> Time {
        let is_bug = self.planted.has(Bug::TimeIsStamp);
        let lane = self.lanes[subgroup].as_mut().expect("a member of one of its shards");
        lane.time = lane.time.max(stamp);
        if is_bug { stamp } else { lane.time }
    }

    /// Skips to `position`, which a state that was given to this member covers. (It has not sent
    /// a message before, as it was not ready.)
    pub(super) fn skip_to(
        &mut self,
        subgroup: usize,
        position: u64,
        outbox: &mut Outbox,
        port: &impl Port,
    ) {
        let is_bug = self.planted.has(Bug::SkippedUnread);
        let first = if is_bug { position } else { self.position(subgroup).at };
        for at in first..position {
            let lane = self.lane(subgroup);
            let (sender, index) = lane.order.turn(at);
            let sender = lane.senders[sender.index()];
            if sender.process.seat != self.me {
                let stamp = self.read_stamp(&sender, index, port);
                self.time_of(subgroup, stamp);
                self.let_go(subgroup, sender.turn, index);
            }
        }
        let n_own = self.turns_before(subgroup, position);
        while outbox.n_delivered() < n_own {
            outbox.delivered();
        }
        self.table.set(self.row.delivered, subgroup, position);
    }

    fn let_go(&mut self, subgroup: usize, turn: Standing, index: u64) {
        let lane = self.lanes[subgroup].as_mut().expect("a member of one of its shards");
        lane.let_go(turn, index);
    }

    /// K5
    fn advance_frontier(&mut self, subgroup: usize) {
        let delivered = self.position(subgroup).at;
        let (lane, is_some) = (self.lane(subgroup), self.planted.has(Bug::FrontierOfSome));
        let clocks = lane.seats.iter().map(|seat| self.clock_of(seat));
        let earliest =
            if is_some { clocks.filter(|time| *time > Time(0)).min() } else { clocks.min() };
        let mut length = 0;
        for Sender { turn, process, .. } in &lane.senders {
            let last = self.sent(subgroup, process.seat).checked_sub(1);
            if let Some(last) = last.filter(|_| lane.order.has(*turn)) {
                length = length.max(lane.order.position(*turn, last) + 1);
            }
        }
        if self.planted.has(Bug::FrontierAtOnce) {
            length = 0;
        }
        let lane = self.lanes[subgroup].as_mut().expect("a member of one of its shards");
        if lane.frontier.advance(delivered) {
            lane.frontier.note(earliest.unwrap_or_default(), length);
            lane.frontier.advance(delivered);
        }
    }

    /// The clock that the member on `seat` has shown.
    fn clock_of(&self, seat: Rank) -> Time {
        Time(self.table.get(seat, self.row.clock, 0))
    }

    // ---- slots ----

    /// Writes these own messages and nulls, which are not delivered yet, into the ring of this
    /// member at `peers`. What a WRITE holds may land in any order: `sent` follows all of them.
    fn write_slots(
        &mut self,
        subgroup: usize,
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
        let lane = self.lanes[subgroup].as_ref().expect("a member of one of its shards");
        let ring = lane.senders[lane.turn.index()].ring;
        let n_head = self.layout.head_words() as usize;
        let mut run = Run::new(&mut self.scratch);
        for index in indices {
            let at = self.layout.slot_of(ring, index);
            let sent = outbox.sent(index).expect("V7: it is under way");
            let head = [sent.header.word(), sent.stamp.0];
            match &sent.message {
                Some(message) if message.hold().is_some() => {
                    let place = message.hold().map(|hold| hold.held.word());
                    run.put(at, &head[..n_head], place.as_slice(), &mut write);
                }
                Some(message) if message.bulk().is_some() => {
                    run.put(at, &head[..n_head], &[], &mut write);
                }
                Some(message) => {
                    let words = message.words().expect("its bytes are nowhere else");
                    if is_small(message) {
                        run.put(at, &head[..n_head], words, &mut write);
                    } else {
                        write(at, &head[..n_head]);
                        write(at.plus(n_head as u32), words);
                    }
                }
                None => run.put(at, &head[..1], &[], &mut write),
            }
        }
        run.end(&mut write);
    }

    /// Writes everything that may be missing there into the ring of this member at those of `peers`
    /// that are in the shard, whose links were down. The row follows.
    pub(super) fn write_ring(
        &mut self,
        subgroup: usize,
        outbox: &Outbox,
        peers: SeatSet,
        port: &mut impl Port,
    ) {
        if peers.is_empty() || !self.has_lane(subgroup) {
            return;
        }
        for peer in peers.intersection(self.peers(subgroup)).iter() {
            // V13: a row tells what its owner holds for good.
            let first = self.received(subgroup, peer, self.me).max(outbox.n_delivered());
            let peer = [peer].into_iter().collect();
            if !self.planted.has(Bug::SlotAlone) {
                self.put_parcels(subgroup, outbox, first..outbox.n_sent(), peer, port);
            }
            self.write_slots(subgroup, outbox, first..outbox.n_sent(), peer, port);
        }
    }

    /// The stamp of the message in a slot; zero for a null, and where messages have none.
    fn read_stamp(&self, sender: &Sender, index: u64, port: &impl Port) -> Time {
        let at = self.layout.slot_of(sender.ring, index);
        let is_null = Header::of(port.load(at)) == Header::Null;
        if is_null { Time(0) } else { self.stamp_at(at, port) }
    }

    fn stamp_at(&self, slot: At, port: &impl Port) -> Time {
        Time(if self.layout.is_timed() { port.load(slot.plus(1)) } else { 0 })
    }

    /// The message in a slot; `None` for a null.
    pub(super) fn read_slot(
        &self,
        sender: &Sender,
        index: u64,
        port: &impl Port,
    ) -> Result<Option<Read>, End> {
        let read = self.read_words(sender, index, port);
        // V17
        if self.table.is_named_by(port.load(sender.named)) || self.planted.has(Bug::SlotOfAnyView) {
            read
        } else {
            Err(End::Excluded)
        }
    }

    fn read_words(
        &self,
        sender: &Sender,
        index: u64,
        port: &impl Port,
    ) -> Result<Option<Read>, End> {
        let at = self.layout.slot_of(sender.ring, index);
        match Header::of(port.load(at)) {
            Header::Null => Ok(None),
            Header::Landed { number, n_bytes } => {
                let held = self.lane(sender.subgroup).held(sender.turn, index).cloned();
                let message = match held {
                    Some(message) => message,
                    None if self.planted.has(Bug::ReceivedUnheld) => {
                        let hold = self.hold_of(sender, at, n_bytes, port)?;
                        let seat = sender.process.seat;
                        Payload::landed(Arc::new(hold.ok_or(End::Damaged(seat))?))
                    }
                    None => return Err(End::Damaged(sender.process.seat)),
                };
                Ok(Some(Read { number, stamp: self.stamp_at(at, port), message }))
            }
            Header::Packed { number, .. } => {
                let message = self.lane(sender.subgroup).held(sender.turn, index).cloned();
                let message = message.ok_or(End::Damaged(sender.process.seat))?;
                Ok(Some(Read { number, stamp: self.stamp_at(at, port), message }))
            }
            Header::Message { number, n_bytes } if u64::from(n_bytes) <= self.longest() => {
                let (stamp, text) = (self.stamp_at(at, port), self.layout.head_words());
                let load = |offset, to: &mut [u64]| port.load_into(at.plus(text + offset), to);
                let message = Payload::loaded(n_bytes as usize, load);
                Ok(Some(Read { number, stamp, message }))
            }
            Header::Message { .. } => Err(End::Damaged(sender.process.seat)),
        }
    }
}

/// The most bytes of a sender's that are on their way to a member, of all subgroups: see V13.
pub const FLIGHT_BYTES_MAX: u64 = 8 << 20;
