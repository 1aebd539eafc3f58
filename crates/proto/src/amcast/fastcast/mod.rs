//! FastCast (Coelho, Schiper, Pedone; paper 004, section 4.6.1), to compare PrimCast with: four
//! steps, by guessing timestamps ahead of two rounds of consensus in each group.
//!
//! Assumes: crash-stop, a majority of each group lives; T1, T2 of [`crate::amcast`].
//!
//! Each group decides a log of two kinds of entries: a message's local timestamp (hard), and a
//! value that the group's clock passes (sync). A message is delivered when all its hard timestamps
//! are known and the own group's clock has passed the largest. Leaders send each other their
//! guesses at once, so that the sync entry is usually decided by the time the hard ones are.
//!
//! - F1 A process delivers in the order of (final timestamp, name). Asserted at each delivery.
//! - F2 `applied <= decided <= accepted here`, and the applied prefix never changes. Asserted when
//!   a log is replaced.
//! - F3 Hard timestamps are a function of the log. By construction: `Fastcast::apply`.
//!
//! Differs from the paper: consensus is not a black box, but a log with epochs as PrimCast's; a
//! follower accepts a hard entry only with its message.

mod group;
mod spec;
mod wire;

pub use spec::Spec;
pub use wire::{Entry, FastcastWire};

use super::bugs::Bug;
use super::missing::Missing;
use super::wire::is_addressable;
use super::{
    About, Config, GroupId, GroupSet, Host, Message, MessageId, Multicast, Pid, Place, Timestamp,
    To,
};
use crate::planted::{Planting, Sound};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use base::{Ballot, Instant, Rank};
use core::iter;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Leader,
    Follower,
    /// The process has promised an epoch that has not begun here.
    Waiting,
}

#[derive(Clone, Debug)]
struct Record {
    dest: GroupSet,
    body: Option<Arc<Message>>,
    /// The leaders' guesses.
    soft: BTreeMap<GroupId, Timestamp>,
    /// The groups' decisions.
    hard: BTreeMap<GroupId, Timestamp>,
    /// Whether its hard entry is in the log.
    is_logged: bool,
    bound: Option<Timestamp>,
    is_delivered: bool,
}

impl Record {
    fn final_ts(&self) -> Option<Timestamp> {
        let is_known = self.hard.len() == self.dest.len();
        self.hard.values().max().copied().filter(|_| is_known)
    }
}

/// One process.
#[derive(Clone, Debug)]
pub struct Fastcast<P: Planting<Bug> = Sound> {
    me: Pid,
    config: Config,
    role: Role,
    current: Ballot,
    promised: Ballot,
    log: Vec<Entry>,
    applied: usize,
    /// The clock after all that is applied, and after all that is logged.
    clock: Timestamp,
    ahead: Timestamp,
    /// The leader's entries that this process cannot accept yet.
    waiting: VecDeque<Entry>,
    records: BTreeMap<MessageId, Record>,
    unproposed: BTreeSet<MessageId>,
    missing: Missing,
    pending: BTreeSet<Place>,
    /// The number of entries that each member accepted, and their epoch.
    accepted: Vec<(Ballot, u64)>,
    last: Place,
    trusted: Option<Rank>,
    promises: BTreeMap<Rank, group::Promise>,
    since: Instant,
    planted: P,
}

/// F3: the clock after one more entry, and the timestamp that a hard entry gets.
fn clock_after(clock: Timestamp, entry: &Entry) -> Timestamp {
    match entry {
        Entry::Hard { ts, .. } => clock.next().max(*ts),
        Entry::Sync(ts) => clock.max(*ts),
    }
}

impl<P: Planting<Bug>> Fastcast<P> {
    fn record(&mut self, id: MessageId, dest: GroupSet, now: Instant) -> &mut Record {
        let missing = &mut self.missing;
        self.records.entry(id).or_insert_with(|| {
            missing.add(id, now);
            Record {
                dest,
                body: None,
                soft: BTreeMap::new(),
                hard: BTreeMap::new(),
                is_logged: false,
                bound: None,
                is_delivered: false,
            }
        })
    }

    fn learn(&mut self, message: &Arc<Message>, now: Instant) {
        let record = self.record(message.id, message.dest, now);
        if record.body.is_none() {
            record.body = Some(message.clone());
            if !record.is_logged {
                self.unproposed.insert(message.id);
            }
            self.missing.remove(message.id);
        }
    }

    /// Appends an entry at the leader, and sends it to the whole group.
    fn append<H: Host<FastcastWire>>(&mut self, entry: Entry, host: &mut H) {
        let (epoch, index) = (self.current, self.log.len() as u64);
        let append = FastcastWire::Append { epoch, index, entry: entry.clone() };
        host.send(To::Groups(self.me.group.alone()), &append);
        self.accept(entry);
        let length = self.log.len() as u64;
        self.accepted[self.me.rank.index()] = (epoch, length);
        // The leader's proposal also tells the others that it accepted.
        host.send(To::Groups(self.me.group.alone()), &FastcastWire::Accepted { epoch, length });
    }

    fn accept(&mut self, entry: Entry) {
        self.ahead = clock_after(self.ahead, &entry);
        if let Entry::Hard { id, .. } = entry {
            self.unproposed.remove(&id);
            self.records.get_mut(&id).expect("it is known").is_logged = true;
        }
        self.log.push(entry);
    }

    fn propose_all<H: Host<FastcastWire>>(&mut self, host: &mut H) {
        while let Some(id) = self.unproposed.pop_first() {
            let record = &self.records[&id];
            let after = record.body.as_ref().map_or(Timestamp::ZERO, |message| message.after);
            let (dest, ts) = (record.dest, self.ahead.max(after).next());
            let others = dest.without(self.me.group);
            host.send(To::Groups(others), &FastcastWire::Soft { id, dest, ts });
            self.append(Entry::Hard { id, dest, ts }, host);
            let own = self.me.group;
            self.on_soft(own, id, ts, host);
        }
    }

    /// The optimistic path: once all guesses are known, the clock is moved to the largest.
    fn on_soft<H: Host<FastcastWire>>(
        &mut self,
        from: GroupId,
        id: MessageId,
        ts: Timestamp,
        host: &mut H,
    ) {
        let record = self.records.get_mut(&id).expect("it is known");
        record.soft.insert(from, ts);
        let largest = record.soft.values().max().copied().unwrap_or_default();
        if self.role == Role::Leader && record.soft.len() == record.dest.len() {
            self.sync(largest, host);
        }
    }

    fn on_hard<H: Host<FastcastWire>>(
        &mut self,
        from: GroupId,
        id: MessageId,
        ts: Timestamp,
        host: &mut H,
    ) {
        let record = self.records.get_mut(&id).expect("it is known");
        record.hard.entry(from).or_insert(ts);
        let (bound, final_ts) = (record.hard.values().max().copied(), record.final_ts());
        if let (Some(old), Some(new)) = (record.bound, bound) {
            record.bound = Some(new);
            self.pending.remove(&(old, id));
            self.pending.insert((new, id));
        }
        if let Some(final_ts) = final_ts.filter(|_| self.role == Role::Leader) {
            self.sync(final_ts, host);
        }
    }

    /// Appends a sync entry, unless the log moves the clock there already.
    fn sync<H: Host<FastcastWire>>(&mut self, ts: Timestamp, host: &mut H) {
        if ts > self.ahead && !self.planted.has(Bug::NoClockUpdate) {
            self.append(Entry::Sync(ts), host);
        }
    }

    /// Takes appended entries into the log, as far as their messages are here.
    fn drain<H: Host<FastcastWire>>(&mut self, host: &mut H) {
        let before = self.log.len();
        while self.role == Role::Follower {
            let Some(entry) = self.waiting.front() else { break };
            if let Entry::Hard { id, .. } = entry
                && self.records.get(id).is_none_or(|record| record.body.is_none())
            {
                break;
            }
            let entry = self.waiting.pop_front().expect("it was just seen");
            self.accept(entry);
        }
        if self.log.len() > before {
            self.say_accepted(host);
        }
    }

    fn say_accepted<H: Host<FastcastWire>>(&mut self, host: &mut H) {
        let (epoch, length) = (self.current, self.log.len() as u64);
        self.accepted[self.me.rank.index()] = (epoch, length);
        host.send(To::Groups(self.me.group.alone()), &FastcastWire::Accepted { epoch, length });
    }

    /// The number of entries that a quorum has accepted in the current epoch.
    fn n_decided(&self) -> usize {
        let mut lengths: Vec<u64> = self
            .accepted
            .iter()
            .map(|(epoch, length)| if *epoch == self.current { *length } else { 0 })
            .collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        let quorum = self.config.layout.quorum(self.me.group);
        let quorum = if self.planted.has(Bug::CommitWithoutQuorum) { 1 } else { quorum };
        (lengths[quorum - 1] as usize).min(self.log.len())
    }

    /// F3: applies decided entries, in order.
    fn apply<H: Host<FastcastWire>>(&mut self, host: &mut H) {
        while self.applied < self.n_decided() {
            let entry = self.log[self.applied].clone();
            self.applied += 1;
            self.clock = clock_after(self.clock, &entry);
            let Entry::Hard { id, dest, .. } = entry else { continue };
            let (own, ts) = (self.me.group, self.clock);
            let record = self.records.get_mut(&id).expect("what is logged is known");
            if !record.is_delivered {
                record.bound = Some(ts);
                self.pending.insert((ts, id));
            }
            self.on_hard(own, id, ts, host);
            if self.role == Role::Leader {
                let others = dest.without(own);
                host.send(To::Groups(others), &FastcastWire::Hard { id, dest, ts });
            }
        }
        while let Some(&(at, id)) = self.pending.first() {
            let record = self.records.get_mut(&id).expect("it is pending");
            let is_passed = at <= self.clock || self.planted.has(Bug::NoClockUpdate);
            if record.final_ts() != Some(at) || !is_passed || record.body.is_none() {
                break;
            }
            assert!(self.last < (at, id), "F1: {id:?} at {at:?} comes after {:?}", self.last);
            self.last = (at, id);
            self.pending.remove(&(at, id));
            record.bound = None;
            record.is_delivered = true;
            host.deliver(record.body.as_ref().expect("it was just seen"), at);
        }
    }

    fn advance<H: Host<FastcastWire>>(&mut self, now: Instant, host: &mut H) {
        self.drain(host);
        self.begin(now, host);
        if self.role == Role::Leader {
            self.propose_all(host);
        }
        self.apply(host);
        assert!(self.applied <= self.log.len() && self.current <= self.promised, "F2");
    }
}

impl<P: Planting<Bug>> Multicast for Fastcast<P> {
    type Wire = FastcastWire;

    type Planted = P;

    const SURVIVES_CRASHES: bool = true;

    fn new(config: &Config, me: Pid, planted: P) -> Fastcast<P> {
        let epoch = Ballot::above(Ballot::NONE, Rank::at(0));
        Fastcast {
            me,
            config: config.clone(),
            role: if me.rank == Rank::at(0) { Role::Leader } else { Role::Follower },
            current: epoch,
            promised: epoch,
            log: Vec::new(),
            applied: 0,
            clock: Timestamp::ZERO,
            ahead: Timestamp::ZERO,
            waiting: VecDeque::new(),
            records: BTreeMap::new(),
            unproposed: BTreeSet::new(),
            missing: Missing::default(),
            pending: BTreeSet::new(),
            accepted: alloc::vec![(Ballot::NONE, 0); config.layout.members(me.group)],
            last: Place::default(),
            trusted: None,
            promises: BTreeMap::new(),
            since: Instant::ZERO,
            planted,
        }
    }

    fn on_start<H: Host<FastcastWire>>(
        &mut self,
        message: &Arc<Message>,
        now: Instant,
        host: &mut H,
    ) {
        let is_ours = message.dest.contains(self.me.group);
        if is_ours && is_addressable(message.dest, &self.config.layout) {
            self.learn(message, now);
            self.advance(now, host);
        }
    }

    fn on_wire<H: Host<FastcastWire>>(
        &mut self,
        from: Pid,
        wire: &FastcastWire,
        now: Instant,
        host: &mut H,
    ) {
        if !self.config.layout.has(from) || from == self.me {
            return;
        }
        let is_own = from.group == self.me.group;
        match wire {
            FastcastWire::Soft { id, dest, ts } | FastcastWire::Hard { id, dest, ts } => {
                let is_ours = dest.contains(self.me.group) && dest.contains(from.group);
                if is_ours && !is_own && is_addressable(*dest, &self.config.layout) {
                    self.record(*id, *dest, now);
                    match wire {
                        FastcastWire::Soft { .. } => self.on_soft(from.group, *id, *ts, host),
                        _ => self.on_hard(from.group, *id, *ts, host),
                    }
                }
            }
            FastcastWire::Append { epoch, index, entry } if is_own => {
                let next = (self.log.len() + self.waiting.len()) as u64;
                if self.role == Role::Follower && *epoch == self.current && *index == next {
                    if let Entry::Hard { id, dest, .. } = entry {
                        self.record(*id, *dest, now);
                    }
                    self.waiting.push_back(entry.clone());
                }
            }
            FastcastWire::Accepted { epoch, length } if is_own => {
                let known = &mut self.accepted[from.rank.index()];
                *known = (*known).max((*epoch, *length));
            }
            FastcastWire::Pull(id) => {
                let known = self.records.get(id).and_then(|record| record.body.clone());
                if let Some(message) = known {
                    host.send(To::One(from), &FastcastWire::Body(message));
                }
            }
            FastcastWire::Body(message) => {
                if self.records.contains_key(&message.id) {
                    self.learn(message, now);
                }
            }
            FastcastWire::NewEpoch(epoch) if is_own => self.on_new_epoch(from, *epoch, now, host),
            FastcastWire::Promise { epoch, current, log, bodies } if is_own => {
                let promise = (*current, log.clone(), bodies.clone());
                self.on_promise(from.rank, *epoch, promise, now, host);
            }
            FastcastWire::NewState { epoch, log, bodies } if is_own => {
                self.on_new_state(*epoch, log, bodies, now, host);
            }
            FastcastWire::Append { .. }
            | FastcastWire::Accepted { .. }
            | FastcastWire::NewEpoch(_)
            | FastcastWire::Promise { .. }
            | FastcastWire::NewState { .. } => {}
        }
        self.advance(now, host);
    }

    fn trust<H: Host<FastcastWire>>(&mut self, leader: Rank, now: Instant, host: &mut H) {
        let is_news = self.trusted != Some(leader);
        self.trusted = Some(leader);
        if is_news {
            self.stand(now, host);
            self.advance(now, host);
        }
    }

    fn tick<H: Host<FastcastWire>>(&mut self, now: Instant, host: &mut H) {
        for id in self.missing.take_due(now, self.config.patience) {
            host.send(To::Groups(self.records[&id].dest), &FastcastWire::Pull(id));
        }
        self.mend(now, host);
        self.advance(now, host);
    }

    fn deadline(&self) -> Option<Instant> {
        let patience = self.config.patience;
        let role = self.is_unsettled().then(|| self.since.plus(patience));
        [role, self.missing.due_at(patience)].into_iter().flatten().min()
    }

    fn is_primary(&self) -> bool {
        self.role == Role::Leader
    }

    fn about(wire: &FastcastWire) -> impl Iterator<Item = About> {
        iter::once(match wire {
            FastcastWire::Soft { id, .. }
            | FastcastWire::Hard { id, .. }
            | FastcastWire::Pull(id) => About::Message(*id),
            FastcastWire::Body(message) => About::Message(message.id),
            FastcastWire::Append { .. }
            | FastcastWire::Accepted { .. }
            | FastcastWire::NewEpoch(_)
            | FastcastWire::Promise { .. }
            | FastcastWire::NewState { .. } => About::Group,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amcast::missing::tests::is_asked_for_behind_many;

    /// The first names alone were asked about, also those of messages that were here.
    #[test]
    fn a_missing_message_is_asked_for_behind_many_undelivered_ones() {
        let proposal = |machine: &Fastcast, id, dest, ts| {
            let (epoch, entry) = (machine.current, Entry::Hard { id, dest, ts });
            FastcastWire::Append { epoch, index: 0, entry }
        };
        is_asked_for_behind_many(proposal, FastcastWire::Pull);
    }
}
