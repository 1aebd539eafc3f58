//! Garbage: what was delivered is forgotten, and who has fallen behind what others forgot gets a
//! state instead.
//!
//! Every process says up to which place it has delivered, with each report of its clock. Since it
//! delivers in the order of places (P1), that one mark covers all of its messages.
//!
//! - P6 A record is forgotten once every member of every destination has delivered the message.
//!   With a host that can hand over states also earlier: a majority of each destination has
//!   delivered it, and more than [`Config::retain`](crate::amcast::Config::retain) are kept. So a
//!   dead member costs that many records and no more. Global: sim checker `bounded`.
//! - P7 What is missing in a log was delivered at or below its `floor`, by a majority. Whoever
//!   takes
//!   over that log (NEW-STATE) without having delivered so far neither proposes nor delivers before
//!   it has a state that reaches the floor. By `Machine::is_behind`; a live member that has it
//!   exists, since it meets the majority, and the primary gets it first.
//! - P8 What was delivered is never proposed, acknowledged or delivered again: its name outlives
//!   its record ([`Seen`](crate::amcast::Seen)).

use super::record::Record;
use super::{Handover, Machine, Phase, PrimcastWire};
use crate::amcast::variant::Variant;
use crate::amcast::{GroupId, GroupSet, Host, Layout, MessageId, Pid, Place, To};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use base::{Instant, Rank};

/// What is kept of what was delivered, and how far everybody is known to have delivered.
#[derive(Clone, Debug)]
pub(super) struct Retained {
    /// By destinations, so that a silent group holds up only what it has a part in.
    queues: BTreeMap<GroupSet, VecDeque<(Place, MessageId)>>,
    n_kept: usize,
    /// Looking again is worth it from here on.
    look_from: usize,
    /// Of each member of each group.
    marks: Vec<Vec<Place>>,
}

impl Retained {
    pub(super) fn new(layout: &Layout) -> Retained {
        let marks = layout.groups().iter();
        Retained {
            queues: BTreeMap::new(),
            n_kept: 0,
            look_from: 1,
            marks: marks
                .map(|group| alloc::vec![Place::default(); layout.members(group)])
                .collect(),
        }
    }

    /// A process has delivered up to `place`; whether that is news.
    fn hear(&mut self, from: Pid, place: Place) -> bool {
        let mark = &mut self.marks[from.group.index()][from.rank.index()];
        let is_news = *mark < place;
        *mark = place.max(*mark);
        is_news
    }

    /// It was delivered here, at `place` or before.
    pub(super) fn keep(&mut self, dest: GroupSet, place: Place, id: MessageId) {
        self.queues.entry(dest).or_default().push_back((place, id));
        self.n_kept += 1;
    }

    /// What `n` members of each destination have delivered.
    fn mark(&self, dest: GroupSet, n: impl Fn(usize) -> usize) -> Place {
        let of_group = |group: GroupId| {
            let marks = &self.marks[group.index()];
            let mut sorted: [Place; base::MAX_MEMBERS] = Default::default();
            sorted[..marks.len()].copy_from_slice(marks);
            let sorted = &mut sorted[..marks.len()];
            sorted.sort_unstable();
            sorted[marks.len() - n(marks.len())]
        };
        dest.iter().map(of_group).min().unwrap_or_default()
    }

    /// Gives up what all have delivered, and beyond `most` what majorities have.
    fn give_up(
        &mut self,
        most: usize,
        n_enough: fn(usize) -> usize,
        mut forget: impl FnMut(Place, MessageId),
    ) {
        let mut queues = core::mem::take(&mut self.queues);
        for (dest, queue) in &mut queues {
            let everybody = self.mark(*dest, |members| members);
            while let Some((place, id)) = queue.pop_front_if(|(place, _)| *place <= everybody) {
                forget(place, id);
                self.n_kept -= 1;
            }
        }
        for (dest, queue) in &mut queues {
            let majority = self.mark(*dest, n_enough);
            while self.n_kept > most {
                let Some((place, id)) = queue.pop_front_if(|(place, _)| *place <= majority) else {
                    break;
                };
                forget(place, id);
                self.n_kept -= 1;
            }
        }
        queues.retain(|_, queue| !queue.is_empty());
        self.queues = queues;
        self.look_from = self.n_kept + 1 + self.n_kept.min(most) / 4;
    }
}

impl<V: Variant> Machine<V> {
    /// Whether this message was delivered here, and nothing else is known of it any more (P8).
    pub(super) fn is_gone(&self, id: MessageId) -> bool {
        !self.records.contains(id) && self.seen.contains(id) && !V::FORGET_NAMES
    }

    /// P7: whether others have forgotten what was not delivered here.
    pub(super) fn is_behind(&self) -> bool {
        self.last < self.floor && !V::IGNORE_FLOOR
    }

    /// How many messages it remembers.
    pub(super) fn n_held(&self) -> usize {
        self.records.len().max(self.log.len())
    }

    /// P6, now and then.
    pub(super) fn collect<H: Host<PrimcastWire>>(&mut self, is_due: bool, host: &H) {
        if !is_due && self.retained.n_kept < self.retained.look_from {
            return;
        }
        self.retained.hear(self.me, self.last);
        let most = if host.keeps_states() { self.config.retain } else { usize::MAX };
        let (records, floor) = (&mut self.records, &mut self.floor);
        let n_before = records.len();
        let n_enough = if V::FORGET_EARLY { |_| 1 } else { base::majority };
        let most = if V::FORGET_EARLY { 0 } else { most };
        self.retained.give_up(most, n_enough, |place, id| {
            records.remove(id);
            *floor = place.max(*floor);
        });
        if records.len() < n_before {
            self.log.retain(|id| records.contains(*id));
        }
    }

    /// A process says how far it has delivered.
    pub(super) fn hear_mark(&mut self, from: Pid, place: Place, now: Instant) {
        if self.retained.hear(from, place) && self.retained.n_kept > 0 {
            self.tell_later(now);
        }
    }

    /// Something was delivered: who shares it shall hear of that before long, and this process
    /// looks then what it may forget itself.
    pub(super) fn tell_later(&mut self, now: Instant) {
        self.tell_at.get_or_insert(now.plus(self.config.patience));
    }

    /// Says how far this process has delivered to those who may keep something until they hear it,
    /// unless a report told them already.
    pub(super) fn tell_if_due<H: Host<PrimcastWire>>(&mut self, now: Instant, host: &mut H) {
        if self.tell_at.is_none_or(|at| at > now) {
            return;
        }
        self.tell_at = None;
        let owed = core::mem::take(&mut self.owed);
        let to: GroupSet =
            owed.iter().filter(|group| self.told[group.index()] < self.last).collect();
        if !to.is_empty() {
            to.iter().for_each(|group| self.told[group.index()] = self.last);
            host.send(To::Groups(to), &PrimcastWire::Delivered(self.last));
        }
        self.collect(true, host);
    }

    /// P7: asks the primary for its state; a primary asks one member after another.
    pub(super) fn fetch_if_behind<H: Host<PrimcastWire>>(&mut self, now: Instant, host: &mut H) {
        if !self.is_behind() || self.fetch_at > now {
            return;
        }
        self.fetch_at = now.plus(self.config.patience);
        let (members, me) = (self.config.layout.members(self.me.group), self.me.rank);
        let leader = self.current.proposer().filter(|leader| *leader != me);
        let next = (self.fetched_from.unwrap_or(me).index() + 1) % members;
        let rank = leader.unwrap_or(Rank::at(next));
        self.fetched_from = Some(rank);
        if rank != me {
            let to = Pid { group: self.me.group, rank };
            host.send(To::One(to), &PrimcastWire::Fetch(self.last));
        }
    }

    /// A member of the own group has delivered only so far, and cannot go on by itself.
    pub(super) fn on_fetch<H: Host<PrimcastWire>>(
        &mut self,
        from: Pid,
        last: Place,
        now: Instant,
        host: &mut H,
    ) {
        let sent_at = self.state_sent_at[from.rank.index()];
        let is_fresh = sent_at.is_some_and(|at| at.plus(self.config.patience) > now);
        if self.last <= last || is_fresh {
            return;
        }
        let Some(app) = host.state() else { return };
        self.state_sent_at[from.rank.index()] = Some(now);
        let kept = self.retained.queues.values().flatten().map(|((at, _), id)| {
            let record = self.records.get(*id).expect("it is kept");
            (*at, record.body.clone().expect("what was delivered was here"))
        });
        let state = Handover {
            through: self.last,
            floor: self.floor,
            seen: self.seen.clone(),
            kept: kept.collect(),
            app,
        };
        host.send(To::One(from), &PrimcastWire::State(state));
    }

    /// The state of a member that has delivered more.
    ///
    /// From the primary of the epoch only: by T1 every proposal of it that the state covers is here
    /// already, so none arrives later, unrecognised, and is missing in the log. (A primary or a
    /// candidate waits for nobody's proposals, and takes any.)
    pub(super) fn on_state<H: Host<PrimcastWire>>(
        &mut self,
        from: Rank,
        state: &Handover,
        now: Instant,
        host: &mut H,
    ) {
        let leads = matches!(self.phase, Phase::Primary | Phase::Candidate);
        let is_in_order = leads || self.current.proposer() == Some(from);
        let (before, through) = (self.last, state.through);
        if through <= before || !is_in_order {
            return;
        }
        host.install(&state.app, through);
        (self.seen, self.last) = (state.seen.clone(), through);
        let is_in_it =
            |id: &MessageId, record: &Record| !record.is_delivered && state.seen.contains(*id);
        for id in self.records.names(is_in_it) {
            let record = self.records.known(id);
            record.is_delivered = true;
            if let Some(bound) = record.bound.take() {
                self.pending.remove(&(bound, id));
            }
        }
        // What the sender remembers others may need from here, too; the rest it had forgotten, and
        // its floor says so (P7). What waits to enter the log keeps its turn (P4).
        let mut kept = state.kept.clone();
        kept.sort_unstable_by_key(|(at, message)| (*at, message.id));
        for (at, message) in kept.into_iter().filter(|(at, message)| (*at, message.id) > before) {
            if let Some(record) = self.records.get_mut(message.id) {
                record.body.get_or_insert_with(|| message.clone());
                self.retained.keep(message.dest, (at, message.id), message.id);
            }
        }
        let is_kept: BTreeSet<MessageId> =
            self.retained.queues.values().flatten().map(|(_, id)| *id).collect();
        let is_gone =
            |id: &MessageId, record: &Record| record.is_delivered && !is_kept.contains(id);
        for id in self.records.names(is_gone) {
            self.records.remove(id);
        }
        let records = &self.records;
        self.log.retain(|id| records.contains(*id));
        self.floor = state.floor.max(self.floor);
        // Others may wait for a clock that this process would have had to pass in between.
        self.clock = self.clock.max(through.0);
        let to = self.audience.union(self.me.group.alone());
        self.report_at_least(through.0, to);
        self.fetch_at = now;
        self.owed = self.owed.union(to);
        self.tell_later(now);
    }

    /// Where the log that this process hands on begins.
    pub(super) fn floor(&self) -> Place {
        self.floor
    }

    /// Whether this process may propose and deliver at all.
    pub(super) fn takes_part(&self) -> bool {
        matches!(self.phase, Phase::Primary | Phase::Follower) && !self.is_behind()
    }
}
