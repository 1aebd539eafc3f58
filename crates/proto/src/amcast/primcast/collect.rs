//! Garbage: delivered messages are forgotten, and a process that lacks what others forgot gets a
//! state instead.
//!
//! Every process reports the place up to which it has delivered everything (P15), with each report
//! of its clock: one mark covers all of its messages.
//!
//! - P6 A record is forgotten once every member of every destination has delivered the message.
//!   With a host that can hand over states also earlier: a majority of each destination has
//!   delivered it, and more than [`Config::retain`](crate::amcast::Config::retain) are kept. So a
//!   dead member costs only that many records, and a removed one nothing. The newest known members
//!   determine whose marks count, and the size of a majority (P21). Global: sim checker `bounded`.
//! - P7 A message that is missing in a log was delivered at or below its `floor`, by a majority: a
//!   process remembers everything that it has delivered above its floor, also what it has from a
//!   state. A process that takes over that log (NEW-STATE) without having delivered that far
//!   neither proposes nor delivers before it has a state that reaches the floor. By
//!   `Machine::is_behind`; a live member that has it exists, since it meets the majority, and the
//!   primary gets it first. Global: the simulator asks after each step (`Multicast::unrecorded`).
//! - P8 A delivered message is never proposed, acknowledged or delivered again: its name outlives
//!   its record ([`Seen`](crate::amcast::Seen)).

use super::clocks::Clocks;
use super::record::Record;
use super::{Handover, Machine, Phase, PrimcastWire};
use crate::amcast::bugs::Bug;
use crate::amcast::{
    GroupId, GroupSet, Host, Layout, Message, MessageId, Pid, Place, Timestamp, To,
};
use crate::planted::Planting;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use base::{Instant, Rank};
use core::mem;

/// A delivered message: its place, its name, and the bytes of its payload.
type Kept = (Place, MessageId, usize);

/// The number and the bytes of the messages that may be kept for members that lack them.
type Most = (usize, usize);

/// The delivered messages that are kept, and the known marks of all members.
#[derive(Clone, Debug)]
pub(super) struct Retained {
    /// The messages by destinations, so that a silent group delays only those that it shares.
    queues: BTreeMap<GroupSet, VecDeque<Kept>>,
    n_kept: usize,
    /// The bytes of their payloads.
    n_bytes: usize,
    /// The amount from which another look is worth it.
    look_from: Most,
    /// The mark of each member of each group.
    marks: Vec<Vec<Place>>,
}

impl Retained {
    pub(super) fn new(layout: &Layout) -> Retained {
        let marks = layout.groups().iter();
        Retained {
            queues: BTreeMap::new(),
            n_kept: 0,
            n_bytes: 0,
            look_from: (1, 1),
            marks: marks
                .map(|group| alloc::vec![Place::default(); layout.members(group)])
                .collect(),
        }
    }

    /// Notes that a process has delivered up to `place`. Returns whether that is new.
    fn hear(&mut self, from: Pid, place: Place) -> bool {
        let mark = &mut self.marks[from.group.index()][from.rank.index()];
        let is_news = *mark < place;
        *mark = place.max(*mark);
        is_news
    }

    /// Notes that a message was delivered here, at `place` or before.
    pub(super) fn keep(&mut self, message: &Message, at: Timestamp) {
        let (place, id, n_bytes) = ((at, message.id), message.id, message.payload.len());
        let queue = self.queues.entry(message.dest).or_default();
        // Its place is at the end, unless messages commute.
        let at = queue.partition_point(|(before, ..)| *before < place);
        queue.insert(at, (place, id, n_bytes));
        self.n_kept += 1;
        self.n_bytes += n_bytes;
    }

    /// The bytes that are kept.
    pub(super) const fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// Whether enough has come since the last look for another.
    const fn is_worth_a_look(&self) -> bool {
        self.n_kept >= self.look_from.0 || self.n_bytes >= self.look_from.1
    }

    /// P18: forgets the mark of an incarnation that is gone.
    pub(super) fn forget_mark(&mut self, who: Pid) {
        self.marks[who.group.index()][who.rank.index()] = Place::default();
    }

    /// The mark that the seat's present incarnation has reported.
    pub(super) fn mark_of(&self, group: GroupId, rank: Rank) -> Place {
        self.marks[group.index()][rank.index()]
    }

    /// The place up to which `n` members of each destination have delivered.
    fn mark(
        &self,
        dest: GroupSet,
        clocks: &[Clocks],
        planted: impl Planting<Bug>,
        n: impl Fn(usize) -> usize,
    ) -> Place {
        let of_group = |group: GroupId| {
            let (marks, seats) = (&self.marks[group.index()], &clocks[group.index()].seats);
            let members = seats.newest();
            let mut sorted: [Place; base::MAX_MEMBERS] = Default::default();
            let sorted = &mut sorted[..members.voters.len()];
            for (mark, rank) in sorted.iter_mut().zip(members.voters.iter()) {
                if seats.sits(rank, members, planted) {
                    *mark = marks[rank.index()];
                }
            }
            sorted.sort_unstable();
            sorted[sorted.len() - n(sorted.len())]
        };
        dest.iter().map(of_group).min().unwrap_or_default()
    }

    /// Drops the messages that all have delivered, and beyond `most` those that majorities have;
    /// nothing above `mark`, the own one: messages delivered ahead of it are remembered until it
    /// passes them (P15).
    fn give_up(
        &mut self,
        clocks: &[Clocks],
        (mark, most): (Place, Most),
        n_enough: fn(usize) -> usize,
        planted: impl Planting<Bug>,
        mut forget: impl FnMut(Place, MessageId),
    ) {
        let mut queues = mem::take(&mut self.queues);
        for (dest, queue) in &mut queues {
            let everybody = self.mark(*dest, clocks, planted, |members| members).min(mark);
            while let Some(kept) = queue.pop_front_if(|(place, ..)| *place <= everybody) {
                self.n_kept -= 1;
                self.n_bytes -= kept.2;
                forget(kept.0, kept.1);
            }
        }
        for (dest, queue) in &mut queues {
            let majority = self.mark(*dest, clocks, planted, n_enough).min(mark);
            while self.n_kept > most.0 || self.n_bytes > most.1 {
                let Some(kept) = queue.pop_front_if(|(place, ..)| *place <= majority) else {
                    break;
                };
                self.n_kept -= 1;
                self.n_bytes -= kept.2;
                forget(kept.0, kept.1);
            }
        }
        queues.retain(|_, queue| !queue.is_empty());
        self.queues = queues;
        let next = |n: usize, most: usize| n + 1 + n.min(most) / 4;
        self.look_from = (next(self.n_kept, most.0), next(self.n_bytes, most.1));
    }
}

impl<P: Planting<Bug>> Machine<P> {
    /// Whether this message was delivered here and its record is forgotten (P8).
    pub(super) fn is_gone(&self, id: MessageId) -> bool {
        !self.records.contains(id) && self.delivered.has(id) && !self.planted.has(Bug::ForgetNames)
    }

    /// P7: whether others have forgotten messages that were not delivered here.
    pub(super) fn is_behind(&self) -> bool {
        self.delivered.last() < self.log.floor && !self.planted.has(Bug::IgnoreFloor)
    }

    /// The number of messages that it remembers.
    pub(super) fn n_held(&self) -> usize {
        self.records.len().max(self.log.names.len())
    }

    /// P7: a message that was delivered here above the floor, and is not remembered.
    pub(super) fn find_unrecorded(
        &self,
        delivered: &[(MessageId, Timestamp)],
    ) -> Option<MessageId> {
        let is_lost = |id: MessageId| {
            let record = self.records.get(id);
            record.is_none_or(|record| record.body.is_none() || !record.is_delivered)
        };
        let above = delivered.iter().filter(|(id, at)| (*at, *id) > self.log.floor);
        above.map(|(id, _)| *id).find(|id| is_lost(*id))
    }

    /// P6, at intervals.
    pub(super) fn collect<H: Host<PrimcastWire>>(&mut self, is_due: bool, host: &H) {
        if !is_due && !self.retained.is_worth_a_look() {
            return;
        }
        self.retained.hear(self.me, self.delivered.last());
        let most = match host.keeps_states() {
            true => (self.config.retain, self.config.retain_bytes),
            false => (usize::MAX, usize::MAX),
        };
        let (records, floor) = (&mut self.records, &mut self.log.floor);
        let n_before = records.len();
        let n_enough = if self.planted.has(Bug::ForgetEarly) { |_| 1 } else { base::majority };
        let most = if self.planted.has(Bug::ForgetEarly) { (0, 0) } else { most };
        let bounds = (self.delivered.last(), most);
        self.retained.give_up(&self.clocks, bounds, n_enough, self.planted, |place, id| {
            records.remove(id);
            *floor = place.max(*floor);
        });
        if records.len() < n_before {
            self.log.names.retain(|id| records.contains(*id));
        }
    }

    /// Takes a process's report of how far it has delivered.
    pub(super) fn hear_mark(&mut self, from: Pid, place: Place, now: Instant) {
        let knows = self.clocks[from.group.index()].seats.knows_from(from.rank);
        if knows && self.retained.hear(from, place) && self.retained.n_kept > 0 {
            self.tell_later(now);
        }
    }

    /// Notes a delivery: the processes that share it must learn of that before long, and this
    /// process then checks what it may forget itself.
    pub(super) fn tell_later(&mut self, now: Instant) {
        self.alarms.tell_at.get_or_insert(now.plus(self.config.patience));
    }

    /// Reports how far this process has delivered to those that may keep messages until they know,
    /// unless a clock report told them already.
    pub(super) fn tell_if_due<H: Host<PrimcastWire>>(&mut self, now: Instant, host: &mut H) {
        if self.alarms.tell_at.is_none_or(|at| at > now) {
            return;
        }
        self.alarms.tell_at = None;
        if !self.office.has_begun {
            // P21: its epoch's members are not known for good.
            return self.tell_later(now);
        }
        let owed = mem::take(&mut self.owed.marks);
        let to = self.said.behind_mark(self.delivered.last(), owed);
        let uninformed = to.difference(self.said.informed);
        self.report_to(uninformed, host);
        let to = to.difference(uninformed);
        if !to.is_empty() {
            self.said.tell(self.delivered.last(), to);
            host.send(To::Groups(to), &PrimcastWire::Delivered(self.delivered.last()));
        }
        self.collect(true, host);
    }

    /// P7: asks the primary for its state; a primary asks one member after another.
    pub(super) fn fetch_if_behind<H: Host<PrimcastWire>>(&mut self, now: Instant, host: &mut H) {
        if !self.is_behind() || !self.fetching.is_due(now, self.config.patience) {
            return;
        }
        let me = self.me.rank;
        let leader = self.office.current.proposer().filter(|leader| *leader != me);
        let Some(rank) = self.fetching.next(leader, self.seat.members.voters, me) else { return };
        if rank != me {
            let to = Pid { group: self.me.group, rank };
            host.send(To::One(to), &PrimcastWire::Fetch(self.delivered.last()));
        }
    }

    /// Takes a request of a member of the own group that has delivered only to a place, and cannot
    /// continue by itself.
    pub(super) fn on_fetch<H: Host<PrimcastWire>>(
        &mut self,
        from: Pid,
        last: Place,
        now: Instant,
        host: &mut H,
    ) {
        let is_fresh = self.fetching.is_fresh(from.rank, now, self.config.patience);
        if self.delivered.last() <= last || is_fresh {
            return;
        }
        let Some(app) = host.state() else {
            if host.keeps_states() && last < self.log.floor {
                // Its host brings it a state, as soon as it knows that it needs one.
                host.send(To::One(from), &PrimcastWire::Forgotten(self.log.floor));
            }
            return;
        };
        self.fetching.sent(from.rank, now);
        let state = self.handover(app);
        host.send(To::One(from), &PrimcastWire::State(state));
    }

    /// The state that another member needs to reach this one's position.
    pub(super) fn handover(&self, app: Vec<u8>) -> Handover {
        Handover {
            through: self.delivered.last(),
            floor: self.log.floor,
            audience: self.said.audience,
            seen: self.delivered.seen().clone(),
            kept: self.kept(),
            app,
        }
    }

    /// Notes that a member has forgotten what was delivered up to `floor`.
    pub(super) fn on_forgotten(&mut self, floor: Place) {
        self.log.floor = floor.max(self.log.floor);
    }

    /// The delivered messages that are kept for others, with the final timestamps.
    pub(super) fn kept(&self) -> Vec<(Timestamp, Arc<Message>)> {
        let kept = self.retained.queues.values().flatten().map(|((at, _), id, _)| {
            let record = self.records.get(*id).expect("it is kept");
            (*at, record.body.clone().expect("what was delivered was here"))
        });
        kept.collect()
    }

    /// Takes the state of a member that has delivered more, whichever epochs the two are in.
    ///
    /// The state may cover proposals that this process has no record of: those on their way here,
    /// those that were lost with an earlier life (P11), or those of an epoch that has not come
    /// here. The ones that the giver remembers are remembered here too, so that the log of a later
    /// epoch has them (P7); the rest is at or below the giver's floor. And each proposal that comes
    /// later still has its turn (P4).
    pub(super) fn on_state<H: Host<PrimcastWire>>(
        &mut self,
        state: &Handover,
        now: Instant,
        host: &mut H,
    ) {
        let (before, through) = (self.delivered.last(), state.through);
        // Where messages commute, a delivery here must not be undone (P8). A giver that lacks some
        // of them delivers them before long, and is asked again.
        let keeps_ours = self.delivered.is_within(&state.seen);
        if through <= before || !keeps_ours && !self.planted.has(Bug::StateUndoes) {
            return;
        }
        host.install(&state.app, through);
        let is_ahead = |(at, message): &&(Timestamp, Arc<Message>)| (*at, message.id) > through;
        let ahead = state.kept.iter().filter(is_ahead);
        let ahead = ahead.map(|(at, message)| ((*at, message.id), message.dest)).collect();
        let was_ahead = self.delivered.install(state.seen.clone(), through, ahead);
        self.miss_cuts(host);
        let is_in_it =
            |id: &MessageId, record: &Record| !record.is_delivered && state.seen.contains(*id);
        for id in self.records.names(is_in_it) {
            let record = self.records.known(id);
            record.is_delivered = true;
            if let Some(bound) = record.bound.take() {
                self.log.pending.remove(&(bound, id));
            }
        }
        // Messages that wait to enter the log keep their turn (P4).
        let mut kept = state.kept.clone();
        kept.sort_unstable_by_key(|(at, message)| (*at, message.id));
        let is_new = |place: &Place| *place > before && !was_ahead.contains_key(place);
        for (at, message) in kept.into_iter().filter(|(at, message)| is_new(&(*at, message.id))) {
            if !self.records.contains(message.id) && self.planted.has(Bug::KeepKnownOnly) {
                continue;
            }
            let record = self.record(message.id, message.dest, now);
            record.body.get_or_insert_with(|| message.clone());
            (record.is_delivered, record.final_at) = (true, Some(at));
            self.retained.keep(&message, at);
        }
        let is_kept: BTreeSet<MessageId> =
            self.retained.queues.values().flatten().map(|(_, id, _)| *id).collect();
        let is_gone =
            |id: &MessageId, record: &Record| record.is_delivered && !is_kept.contains(id);
        for id in self.records.names(is_gone) {
            self.records.remove(id);
        }
        let records = &self.records;
        self.log.names.retain(|id| records.contains(*id));
        self.log.floor = state.floor.max(self.log.floor);
        // Others may wait for a clock that this process would have passed on the way.
        self.clock = self.clock.max(through.0);
        self.said.audience = self.said.audience.union(state.audience);
        let to = self.said.audience.union(self.me.group.alone());
        self.report_at_least(through.0, to);
        self.note_replaced(Some(&state.app));
        self.fetching.ask_from(now);
        self.owed.marks = self.owed.marks.union(to);
        self.tell_later(now);
    }

    /// Whether this process may propose and deliver at all.
    pub(super) fn takes_part(&self) -> bool {
        let is_in = matches!(self.office.phase, Phase::Primary | Phase::Follower);
        is_in && !self.is_behind() && !self.office.rests
    }
}
