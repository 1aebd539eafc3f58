//! White-Box atomic multicast (Gotsman, Lefort, Chockler; paper 004, section 4.6.2), to compare
//! PrimCast with: three steps to the leaders, four to all others.
//!
//! Assumes: crash-stop, a majority of each group lives; T1, T2 of [`crate::amcast`].
//!
//! - WB1 A process delivers in the order of (final timestamp, name). By construction at followers
//!   (what is not above the last is dropped); asserted at leaders.
//! - WB2 `current <= promised`. Asserted after each event.
//! - WB3 A committed message has a quorum of accepts in each destination group, all under the
//!   ballots that one vector names. By construction: acknowledgements are counted by vector.
//!
//! Differs from the paper: a sender multicasts to all members of the destinations, not to the
//! leaders alone, so that no retry timer is needed when a leader dies; an ACCEPT names the message
//! instead of carrying it; a process without the message pulls it after a while.

mod leader;
mod spec;
mod wire;

pub use spec::Spec;
pub use wire::{Kept, WhiteboxWire};

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
use base::{Ballot, Instant, MemberSet, Rank};
use core::iter;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Leader,
    Follower,
    /// The process has promised a ballot whose state it does not have; a candidate if the ballot is
    /// its own.
    Recovering,
}

/// The ballots of the proposals that an acknowledgement is about.
type Vector = Vec<(GroupId, Ballot)>;

#[derive(Clone, Debug)]
struct Record {
    dest: GroupSet,
    body: Option<Arc<Message>>,
    /// The own group's timestamp that was proposed (at the leader) or accepted.
    local: Option<Timestamp>,
    is_accepted: bool,
    /// The newest proposal of each destination's leader.
    accepts: BTreeMap<GroupId, (Ballot, Timestamp)>,
    /// The vector that this process acknowledged last.
    acked: Vector,
    /// The members that acknowledged each vector, kept by the leader.
    acks: BTreeMap<Vector, BTreeMap<GroupId, MemberSet>>,
    global: Option<Timestamp>,
    /// Whether DELIVER was sent under the present ballot.
    is_announced: bool,
    is_delivered: bool,
}

/// One process.
#[derive(Clone, Debug)]
pub struct Whitebox<P: Planting<Bug> = Sound> {
    me: Pid,
    config: Config,
    role: Role,
    current: Ballot,
    promised: Ballot,
    clock: Timestamp,
    records: BTreeMap<MessageId, Record>,
    /// The messages that are known, without a timestamp of the own group.
    unproposed: BTreeSet<MessageId>,
    missing: Missing,
    /// At the leader: the messages proposed or accepted, not committed, by local timestamp.
    open: BTreeSet<Place>,
    /// At the leader: the messages committed, not announced, by final timestamp.
    committed: BTreeSet<Place>,
    /// At a follower: the messages that the leader announced and that are not here yet.
    announced: VecDeque<Place>,
    last: Place,
    trusted: Option<Rank>,
    promises: BTreeMap<Rank, (Ballot, Timestamp, Vec<Kept>)>,
    taken_over: MemberSet,
    since: Instant,
    planted: P,
}

impl<P: Planting<Bug>> Whitebox<P> {
    fn record(&mut self, id: MessageId, dest: GroupSet, now: Instant) -> &mut Record {
        let missing = &mut self.missing;
        self.records.entry(id).or_insert_with(|| {
            missing.add(id, now);
            Record {
                dest,
                body: None,
                local: None,
                is_accepted: false,
                accepts: BTreeMap::new(),
                acked: Vector::new(),
                acks: BTreeMap::new(),
                global: None,
                is_announced: false,
                is_delivered: false,
            }
        })
    }

    fn learn(&mut self, message: &Arc<Message>, now: Instant) {
        let record = self.record(message.id, message.dest, now);
        if record.body.is_none() {
            record.body = Some(message.clone());
            if record.local.is_none() {
                self.unproposed.insert(message.id);
            }
            self.missing.remove(message.id);
        }
    }

    fn on_accept<H: Host<WhiteboxWire>>(
        &mut self,
        from: GroupId,
        (id, dest): (MessageId, GroupSet),
        (ballot, ts): (Ballot, Timestamp),
        now: Instant,
        host: &mut H,
    ) {
        let record = self.record(id, dest, now);
        let known = record.accepts.entry(from).or_insert((ballot, ts));
        if ballot >= known.0 {
            *known = (ballot, ts);
        }
        self.acknowledge(id, host);
    }

    /// Acknowledges the message if everything that this needs is here.
    fn acknowledge<H: Host<WhiteboxWire>>(&mut self, id: MessageId, host: &mut H) {
        let (own, me, current) = (self.me.group, self.me, self.current);
        if self.role == Role::Recovering {
            return;
        }
        let record = self.records.get_mut(&id).expect("it is known");
        let is_complete = record.accepts.len() == record.dest.len() && record.body.is_some();
        let own_accept = record.accepts.get(&own).copied();
        let Some((_, local)) = own_accept.filter(|(ballot, _)| *ballot == current) else { return };
        if !is_complete {
            return;
        }
        let vector: Vector = record.accepts.iter().map(|(g, (ballot, _))| (*g, *ballot)).collect();
        if vector == record.acked {
            return;
        }
        record.acked.clone_from(&vector);
        if record.global.is_none() {
            if let Some(old) = record.local.replace(local) {
                self.open.remove(&(old, id));
            }
            record.is_accepted = true;
            if self.role == Role::Leader {
                self.open.insert((local, id));
            }
        }
        let largest = record.accepts.values().map(|(_, ts)| *ts).max().unwrap_or_default();
        if !self.planted.has(Bug::NoClockUpdate) {
            self.clock = self.clock.max(largest);
        }
        self.unproposed.remove(&id);
        for (group, ballot) in &vector {
            let leader = Pid { group: *group, rank: ballot.proposer().unwrap_or(Rank::at(0)) };
            if leader != me {
                let ack = WhiteboxWire::Ack { id, ballots: vector.clone() };
                host.send(To::One(leader), &ack);
            }
        }
        self.on_ack(me, id, &vector);
    }

    fn on_deliver<H: Host<WhiteboxWire>>(
        &mut self,
        id: MessageId,
        ballot: Ballot,
        global: Timestamp,
        host: &mut H,
    ) {
        if self.role != Role::Follower || ballot != self.current || !self.records.contains_key(&id)
        {
            return;
        }
        self.clock = self.clock.max(global);
        self.announced.push_back((global, id));
        self.deliver_announced(host);
    }

    /// WB1: delivers in the leader's order, and drops what was delivered before.
    fn deliver_announced<H: Host<WhiteboxWire>>(&mut self, host: &mut H) {
        while let Some(&(global, id)) = self.announced.front() {
            let record = self.records.get_mut(&id).expect("it was looked up when announced");
            if record.body.is_none() {
                break;
            }
            record.global = Some(global);
            self.announced.pop_front();
            if (global, id) > self.last {
                self.deliver((global, id), host);
            }
        }
    }

    fn deliver<H: Host<WhiteboxWire>>(&mut self, place: Place, host: &mut H) {
        assert!(self.last < place, "WB1: {place:?} comes after {:?}", self.last);
        self.last = place;
        self.unproposed.remove(&place.1);
        let record = self.records.get_mut(&place.1).expect("it is known");
        record.is_delivered = true;
        host.deliver(record.body.as_ref().expect("only what is here is delivered"), place.0);
    }

    fn advance<H: Host<WhiteboxWire>>(&mut self, host: &mut H) {
        if self.role == Role::Leader {
            self.propose_all(host);
            self.announce(host);
        }
        assert!(self.current <= self.promised, "WB2");
    }
}

impl<P: Planting<Bug>> Multicast for Whitebox<P> {
    type Wire = WhiteboxWire;

    type Planted = P;

    const SURVIVES_CRASHES: bool = true;

    fn new(config: &Config, me: Pid, planted: P) -> Whitebox<P> {
        let ballot = Ballot::above(Ballot::NONE, Rank::at(0));
        Whitebox {
            me,
            config: config.clone(),
            role: if me.rank == Rank::at(0) { Role::Leader } else { Role::Follower },
            current: ballot,
            promised: ballot,
            clock: Timestamp::ZERO,
            records: BTreeMap::new(),
            unproposed: BTreeSet::new(),
            missing: Missing::default(),
            open: BTreeSet::new(),
            committed: BTreeSet::new(),
            announced: VecDeque::new(),
            last: Place::default(),
            trusted: None,
            promises: BTreeMap::new(),
            taken_over: MemberSet::EMPTY,
            since: Instant::ZERO,
            planted,
        }
    }

    fn on_start<H: Host<WhiteboxWire>>(
        &mut self,
        message: &Arc<Message>,
        now: Instant,
        host: &mut H,
    ) {
        let is_ours = message.dest.contains(self.me.group);
        if is_ours && is_addressable(message.dest, &self.config.layout) {
            self.learn(message, now);
            self.acknowledge(message.id, host);
            self.deliver_announced(host);
            self.advance(host);
        }
    }

    fn on_wire<H: Host<WhiteboxWire>>(
        &mut self,
        from: Pid,
        wire: &WhiteboxWire,
        now: Instant,
        host: &mut H,
    ) {
        if !self.config.layout.has(from) || from == self.me {
            return;
        }
        let is_own = from.group == self.me.group;
        match wire {
            WhiteboxWire::Accept { id, dest, ballot, ts } => {
                let is_ours = dest.contains(self.me.group) && dest.contains(from.group);
                if is_ours && is_addressable(*dest, &self.config.layout) {
                    self.on_accept(from.group, (*id, *dest), (*ballot, *ts), now, host);
                }
            }
            WhiteboxWire::Ack { id, ballots } => {
                if self.records.contains_key(id) {
                    self.on_ack(from, *id, ballots);
                }
            }
            WhiteboxWire::Deliver { id, ballot, global } if is_own => {
                self.on_deliver(*id, *ballot, *global, host);
            }
            WhiteboxWire::Pull(id) => {
                let known = self.records.get(id).and_then(|record| record.body.clone());
                if let Some(message) = known {
                    host.send(To::One(from), &WhiteboxWire::Body(message));
                }
            }
            WhiteboxWire::Body(message) => {
                if self.records.contains_key(&message.id) {
                    self.learn(message, now);
                    self.acknowledge(message.id, host);
                    self.deliver_announced(host);
                }
            }
            WhiteboxWire::NewLeader(ballot) if is_own => {
                self.on_new_leader(from, *ballot, now, host);
            }
            WhiteboxWire::NewLeaderAck { ballot, current, clock, kept } if is_own => {
                let promise = (*current, *clock, kept.clone());
                self.on_promise(from.rank, *ballot, promise, now, host);
            }
            WhiteboxWire::NewState { ballot, clock, kept } if is_own => {
                self.on_new_state(*ballot, *clock, kept, now, host);
            }
            WhiteboxWire::NewStateAck(ballot) if is_own => {
                self.on_taken_over(from.rank, *ballot, now, host);
            }
            WhiteboxWire::Deliver { .. }
            | WhiteboxWire::NewLeader(_)
            | WhiteboxWire::NewLeaderAck { .. }
            | WhiteboxWire::NewState { .. }
            | WhiteboxWire::NewStateAck(_) => {}
        }
        self.advance(host);
    }

    fn trust<H: Host<WhiteboxWire>>(&mut self, leader: Rank, now: Instant, host: &mut H) {
        let is_news = self.trusted != Some(leader);
        self.trusted = Some(leader);
        if is_news {
            self.stand(now, host);
            self.advance(host);
        }
    }

    fn tick<H: Host<WhiteboxWire>>(&mut self, now: Instant, host: &mut H) {
        for id in self.missing.take_due(now, self.config.patience) {
            host.send(To::Groups(self.records[&id].dest), &WhiteboxWire::Pull(id));
        }
        self.mend(now, host);
        self.advance(host);
    }

    fn deadline(&self) -> Option<Instant> {
        let patience = self.config.patience;
        let role = self.is_unsettled().then(|| self.since.plus(patience));
        [role, self.missing.due_at(patience)].into_iter().flatten().min()
    }

    fn is_primary(&self) -> bool {
        self.role == Role::Leader
    }

    fn about(wire: &WhiteboxWire) -> impl Iterator<Item = About> {
        iter::once(match wire {
            WhiteboxWire::Accept { id, .. }
            | WhiteboxWire::Ack { id, .. }
            | WhiteboxWire::Deliver { id, .. }
            | WhiteboxWire::Pull(id) => About::Message(*id),
            WhiteboxWire::Body(message) => About::Message(message.id),
            WhiteboxWire::NewLeader(_)
            | WhiteboxWire::NewLeaderAck { .. }
            | WhiteboxWire::NewState { .. }
            | WhiteboxWire::NewStateAck(_) => About::Group,
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
        let proposal = |machine: &Whitebox, id, dest, ts| WhiteboxWire::Accept {
            id,
            dest,
            ballot: machine.current,
            ts,
        };
        is_asked_for_behind_many(proposal, WhiteboxWire::Pull);
    }
}
