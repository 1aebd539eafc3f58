//! Crash recovery: the stable storage of a process, and its return.
//!
//! The thesis assumes processes that stop for ever. Here one may come back, if its host releases no
//! result of a step (neither messages nor deliveries) before the step's changes are on stable
//! storage.
//!
//! - P10 A process that comes back still has everything that it has told others: its promise, its
//!   log, how far it delivered, and a clock that is not below any that it reported (a BUMP
//!   promises, too). By the host's holding back, and by the content of [`Stable`] and [`Change`].
//! - P11 A process that comes back is PROMISED in its old epoch and follows none that had begun
//!   here: its primary's proposals meanwhile are lost, and a later one would take their place in
//!   the log. By `Machine::has_lost`; it asks Ω's choice for a new epoch. A process that led that
//!   epoch has promised a new one at once: its clock would count as its primary's, which has sent
//!   all that it proposed.
//! - P12 Others tell it again what they told it: it reports that it has returned, and their clocks,
//!   marks and acknowledgements count as untold; it pulls what it lacks of single messages, and a
//!   process that has delivered one sends the timestamp (FINAL), which is agreed. Where a message
//!   waits for the clocks of groups that it is not addressed to, these are asked again after a
//!   while, and also repeat earlier answers.
//! - P13 It repeats an acknowledgement by name only if its epoch had begun here: a tuple of
//!   NEW-STATE has no acknowledgement before a quorum has accepted it (line 75), however old the
//!   tuple is.
//!
//! All members of a group may have stopped at once: this does not need one that has not.

use super::delivered::Delivered;
use super::record::Record;
use super::{Logged, Machine, Phase, PrimcastWire};
use crate::amcast::bugs::Bug;
use crate::amcast::{
    Config, GroupSet, Host, Members, Message, MessageId, Multicast, Pid, Place, Seen, Timestamp, To,
};
use crate::codec::{self, Coded, Malformed, Reader, Varints};
use crate::planted::Planting;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use base::{Ballot, Incarnation, Instant};

codec::coded! {
    /// The part that changes with nearly every step.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    struct Head in Varints {
        promised: Ballot,
        current: Ballot,
        /// Whether `current` has begun here: a quorum has accepted it.
        has_begun: bool,
        clock: Timestamp,
        /// The number of tuples that the log ever had.
        length: u64,
        floor: Place,
        /// The groups that ever received a clock.
        audience: GroupSet,
    }
}

codec::coded! {
    /// The state that has to be on stable storage before any other process learns of it.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    struct Stable in Varints {
        head: Head,
        last: Place,
        seen: Seen,
        log: Vec<Logged>,
        /// The delivered messages that are kept for others, with the final timestamps.
        kept: Vec<(Timestamp, Arc<Message>)>,
        /// The members of `current`.
        members: Members,
        /// The incarnation on its seat.
        incarnation: u64,
    }
}

codec::coded! {
    /// A change of the state.
    #[derive(Clone, Debug, PartialEq)]
    enum Change in Varints {
        Head(Head) = 0,
        /// A proposal entered the log.
        Append(Logged) = 1,
        /// A message was delivered; it is included if it was not in the log.
        Delivered { at: Timestamp, id: MessageId, message: Option<Arc<Message>> } = 2,
        /// NEW-STATE has replaced the log, or another member's state the delivered messages: then
        /// the application's state is included.
        Replaced { stable: Box<Stable>, app: Option<Vec<u8>> } = 3,
    }
}

/// The changes since the host's last call.
#[derive(Clone, Debug, Default)]
pub(super) struct Journal {
    changes: Vec<u8>,
    head: Head,
}

/// The stable storage while it is read back.
struct Replay {
    stable: Stable,
    /// Every message that a later change may name.
    messages: BTreeMap<MessageId, Arc<Message>>,
}

impl Replay {
    fn new(stable: Stable) -> Replay {
        let mut replay = Replay { stable: Stable::default(), messages: BTreeMap::new() };
        replay.replace(stable);
        replay
    }

    fn replace(&mut self, stable: Stable) {
        let logged = stable.log.iter().map(|logged| logged.message.clone());
        self.messages = logged.map(|message| (message.id, message)).collect();
        self.stable = stable;
    }

    fn take<W>(&mut self, change: Change, host: &mut impl Host<W>) -> Result<(), Malformed> {
        match change {
            Change::Head(head) => self.stable.head = head,
            Change::Append(logged) => {
                self.messages.insert(logged.message.id, logged.message.clone());
                self.stable.log.push(logged);
            }
            Change::Delivered { at, id, message } => {
                let message = message.or_else(|| self.messages.get(&id).cloned());
                let message = message.ok_or(Malformed)?;
                if (at, id) <= self.stable.last {
                    return Err(Malformed);
                }
                host.deliver(&message, at);
                self.stable.last = (at, id);
                self.stable.seen.insert(id);
                self.stable.kept.push((at, message));
            }
            Change::Replaced { stable, app } => {
                if let Some(app) = app {
                    host.install(&app, stable.last);
                }
                self.replace(*stable);
            }
        }
        Ok(())
    }
}

impl<P: Planting<Bug>> Machine<P> {
    fn head(&self) -> Head {
        let planted = self.planted;
        Head {
            promised: if planted.has(Bug::ForgetPromise) {
                self.office.current
            } else {
                self.office.promised
            },
            current: self.office.current,
            has_begun: self.office.has_begun || planted.has(Bug::AckUnbegun),
            clock: if planted.has(Bug::ForgetClock) { Timestamp::ZERO } else { self.clock },
            length: self.log.length,
            floor: self.log.floor,
            audience: self.said.audience,
        }
    }

    fn whole(&self) -> Stable {
        let log = self.logged().collect();
        let (head, last, seen) =
            (self.head(), self.delivered.last(), self.delivered.seen().clone());
        let (members, incarnation) = (self.seat.members, self.seat.incarnation.0);
        Stable { head, last, seen, log, kept: self.kept(), members, incarnation }
    }

    fn note(&mut self, change: &Change) {
        if let Some(journal) = &mut self.journal {
            change.put(&mut journal.changes);
        }
    }

    /// Notes that a proposal has entered the log.
    pub(super) fn note_appended(&mut self, id: MessageId) {
        if self.journal.is_none() {
            return;
        }
        let record = self.records.known(id);
        if let (Some((epoch, ts)), Some(message)) = (record.tuple, record.body.clone()) {
            self.note(&Change::Append(Logged { epoch, ts, message }));
        }
    }

    /// Notes that a message is delivered.
    pub(super) fn note_delivered(&mut self, at: Timestamp, id: MessageId) {
        if self.journal.is_none() || self.planted.has(Bug::ForgetDelivered) {
            return;
        }
        let record = self.records.known(id);
        let message = if record.tuple.is_some() { None } else { record.body.clone() };
        self.note(&Change::Delivered { at, id, message });
    }

    /// Notes that the log, or, with the application's state, the deliveries were replaced.
    pub(super) fn note_replaced(&mut self, app: Option<&[u8]>) {
        if self.journal.is_some() {
            let (stable, app) = (Box::new(self.whole()), app.map(<[u8]>::to_vec));
            self.note(&Change::Replaced { stable, app });
        }
    }

    pub(super) fn write_stable(&mut self, out: &mut Vec<u8>) {
        assert!(!self.config.commutes, "what was delivered ahead (P15) is not written down");
        let stable = self.whole();
        self.journal = Some(Journal { changes: Vec::new(), head: stable.head });
        stable.put(out);
    }

    pub(super) fn write_changes(&mut self, out: &mut Vec<u8>) {
        let head = self.head();
        let Some(journal) = &mut self.journal else { return };
        out.append(&mut journal.changes);
        if journal.head != head {
            journal.head = head;
            Change::Head(head).put(out);
        }
    }

    pub(super) fn read_back<H: Host<PrimcastWire>>(
        config: &Config,
        me: Pid,
        planted: P,
        stable: &[u8],
        changes: &[&[u8]],
        now: Instant,
        host: &mut H,
    ) -> Result<Machine<P>, Malformed> {
        let mut from = Reader::new(stable);
        let mut replay = Replay::new(Stable::take(&mut from)?);
        if !from.is_at_end() {
            return Err(Malformed);
        }
        for changes in changes {
            let mut from = Reader::new(changes);
            while !from.is_at_end() {
                replay.take(Change::take(&mut from)?, host)?;
            }
        }
        Ok(Machine::come_back(config, me, planted, replay.stable, now))
    }

    /// The process that wrote `stable`, after a crash (P11).
    fn come_back(config: &Config, me: Pid, planted: P, stable: Stable, now: Instant) -> Machine<P> {
        let Stable { head, last, seen, log, kept, members, incarnation } = stable;
        let mut machine = <Machine<P> as Multicast>::new(config, me, planted);
        machine.journal = Some(Journal { changes: Vec::new(), head });
        machine.office.enter(Phase::Promised, now);
        (machine.office.promised, machine.office.current) = (head.promised, head.current);
        machine.office.has_begun = head.has_begun;
        machine.seat.incarnation = Incarnation(incarnation);
        machine.take_members(members);
        // Others repeat their reports of their members (P12).
        machine.clocks.iter_mut().for_each(|clocks| clocks.seats.ask_anew());
        machine.on_meeting(me, machine.seat.incarnation);
        if head.has_begun {
            machine.be_seated();
        }
        if !planted.has(Bug::FollowAfterCrash) {
            (machine.office.lost, machine.office.returned) = (head.current, head.promised);
        }
        machine.clock = head.clock;
        if head.promised.proposer() == Some(me.rank) && !planted.has(Bug::SpeakAsBefore) {
            // Its followers would take its words under its epoch as a primary's about all its
            // proposals, and some of those may be lost.
            machine.office.promised = Ballot::above(head.promised, me.rank);
        }
        machine.log.floor = head.floor;
        machine.delivered = Delivered::restored(last, seen);
        machine.said.audience = head.audience;
        for (at, message) in kept {
            let mut record = Record::new(message.dest, now);
            record.body = Some(message.clone());
            (record.is_delivered, record.final_at) = (true, Some(at));
            machine.retained.keep(&message, at);
            machine.owed.marks = machine.owed.marks.union(message.dest);
            machine.records.insert(message.id, record);
        }
        machine.install(head.length, log.iter().map(|logged| (logged, None)), now);
        if head.has_begun {
            // P13.
            machine.records.for_each(|record| record.acked = record.tuple.map(|(epoch, _)| epoch));
        }
        let (promised, clock) = (machine.office.promised, machine.clock);
        machine.hear(me, promised, clock, false, &[]);
        // Groups that share kept messages wait for a report of them, whether they received one
        // before or not.
        machine.owed.marks = machine.owed.marks.union(head.audience);
        machine.tell_later(now);
        machine.seat.returned_to = Some(GroupSet::EMPTY);
        machine
    }

    /// Whether this process missed proposals of an epoch (P11).
    pub(super) fn has_lost(&self, epoch: Ballot) -> bool {
        epoch <= self.office.lost
    }

    /// P12: asks every process that ever told this one something to repeat it.
    pub(super) fn say_returned<H: Host<PrimcastWire>>(&mut self, host: &mut H) {
        let Some(told) = self.seat.returned_to.filter(|_| !self.seat.change.is_joining()) else {
            return;
        };
        // With an empty disk it learns of the others gradually.
        let to = self.said.audience.union(self.me.group.alone()).difference(told);
        if !to.is_empty() {
            self.seat.returned_to = Some(told.union(to));
            host.send(To::Groups(to), &PrimcastWire::Returned);
        }
    }

    pub(super) fn on_returned(&mut self, from: Pid, now: Instant) {
        let group = from.group;
        self.said.forget(group);
        if self.said.audience.contains(group) {
            self.owed.clocks = self.owed.clocks.union(group.alone());
            if self.said.acked_upto > Timestamp::ZERO && self.office.phase == Phase::Follower {
                self.owed.acks = self.owed.acks.union(group.alone());
            }
        }
        self.owed.marks = self.owed.marks.union(group.alone().intersection(self.said.audience));
        if group == self.me.group {
            self.fetching.lose(from.rank);
        }
        self.tell_later(now);
    }

    /// Takes the timestamp at which a process has delivered a message. It is agreed, so it counts
    /// at once; the clocks still have to pass it.
    pub(super) fn on_final(&mut self, from: Pid, id: MessageId, at: Timestamp) {
        let own = self.me.group;
        let Some(record) = self.records.get_mut(id) else { return };
        let dest = record.dest;
        if !record.is_delivered && dest.contains(from.group) && dest.contains(own) {
            record.final_at = Some(at);
            self.clock = self.clock.max(at);
            self.report_at_least(at, own.alone());
            if let Some(bound) = self.records.known(id).bound {
                self.expect(id, bound);
            }
        }
    }

    /// Takes the request of a member that cannot follow in any epoch up to this one: Ω's choice
    /// begins another.
    pub(super) fn on_stand<H: Host<PrimcastWire>>(
        &mut self,
        upto: Ballot,
        now: Instant,
        host: &mut H,
    ) {
        // A candidate asks all members again, and may be in the middle of a long log (P23).
        let asks =
            self.office.phase == Phase::Candidate && self.office.current < self.office.promised;
        let is_fresh = self.office.since.plus(self.config.patience) > now || asks;
        if self.office.trusted == Some(self.me.rank) && self.office.promised <= upto && !is_fresh {
            self.say(Vec::new(), host);
            self.office.enter(Phase::Promised, now);
            self.stand(now, host);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::bytes::golden_bytes;

    #[test]
    fn golden_bytes_of_each_change() {
        let id = MessageId { sender: 3, sequence: 900 };
        let message = Arc::new(Message::new(id, GroupSet::all(3), *b"payload"));
        let logged = Logged { epoch: Ballot(7), ts: Timestamp(300), message: message.clone() };
        let (last, audience) = ((Timestamp(5), id), GroupSet::all(2));
        let (promised, current, clock) = (Ballot(9), Ballot(7), Timestamp(1 << 50));
        let head =
            Head { promised, current, has_begun: true, clock, length: 4, floor: last, audience };
        let mut seen = Seen::default();
        seen.insert(id);
        let stable = Stable {
            head,
            last,
            seen,
            log: [logged.clone()].to_vec(),
            kept: [(Timestamp(6), message.clone())].to_vec(),
            members: Members::founders(3, Ballot(1)),
            incarnation: 2,
        };
        let examples = [
            Change::Head(head),
            Change::Append(logged),
            Change::Delivered { at: Timestamp(5), id, message: None },
            Change::Delivered { at: Timestamp(5), id, message: Some(message) },
            Change::Replaced { stable: Box::new(stable), app: Some(b"app".to_vec()) },
            Change::Replaced { stable: Box::default(), app: None },
        ];
        golden_bytes("amcast/primcast/scripts/changes.txt", &examples);
    }
}
