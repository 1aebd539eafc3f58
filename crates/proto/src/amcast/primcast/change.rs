//! How a group changes its members (docs/protocols/primcast.md, "Members").
//!
//! The members belong to the epoch. A primary changes them, one seat at a time, by beginning
//! another epoch with others. A process that lost its memory is another incarnation of its seat: it
//! is removed, and then added, since two majorities of which each counts another incarnation of one
//! seat need not meet.
//!
//! - P19 A proposal in the log with which an epoch of later members began is decided: the members
//!   that acknowledged it before may be gone. A process that repeats its acknowledgement says so
//!   (`chosen`), and its group takes it for decided. By `Machine::is_chosen`, `Record::choose`.
//! - P20 Any two quorums that matter meet. An epoch is established out of the newest epoch that
//!   its promises name, with promises of a quorum of *that* epoch's members, by one of those that
//!   it is begun with. Only the primary of an epoch that has begun establishes one with other
//!   members, out of that very epoch, and of these only one seat differs. By
//!   `Machine::next_members`.
//! - P21 A message that any member has forgotten, since enough members had delivered it, is held by
//!   a member of every quorum of the present members. One change removes at most one of those that
//!   hold it; before the next a majority has delivered everything that was delivered among earlier
//!   members. By `Machine::is_held`.
//! - P22 A process that is no member acknowledges nothing, counts in no quorum, and stops once it
//!   knows that. By [`Members::has`] wherever something is counted, and `Machine::on_parted`.

use super::{Machine, Phase, PrimcastWire};
use crate::amcast::bugs::Bug;
use crate::amcast::{
    Config, FOUNDER, GroupSet, Host, Members, Multicast, NoChange, Pid, Place, Timestamp, To,
};
use crate::planted::Planting;
use alloc::collections::BTreeMap;
use base::{Ballot, Incarnation, Instant, MemberSet, Rank};
use core::time::Duration;

/// The number of patiences after which a primary repeats a change that it had to give up.
const CHANGES_AGAIN: u32 = 4;

/// The most patiences for which a primary waits with a change.
const PATIENCES_MAX: u32 = 32;

/// A change of one seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Remove(Rank),
    Add(Rank, Incarnation),
}

impl Change {
    fn applied_to(self, members: Members) -> Members {
        match self {
            Change::Remove(seat) => members.without(seat),
            Change::Add(seat, incarnation) => members.with(seat, incarnation),
        }
    }
}

/// The seat of this process in its group.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    /// The incarnation of this process on it.
    pub(super) incarnation: Incarnation,
    /// The members of the current epoch.
    pub(super) members: Members,
    pub(super) change: Changes,
    /// The groups that know of this process's return, if it has come back.
    pub(super) returned_to: Option<GroupSet>,
}

impl Seat {
    /// A founder's.
    pub(super) fn founder(members: Members) -> Seat {
        let (incarnation, change) = (FOUNDER, Changes::default());
        Seat { incarnation, members, change, returned_to: None }
    }
}

/// The changes of this process's seat and, at a primary, of its group's members.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    /// The change of members that comes with this candidate's epoch.
    changing: Option<Change>,
    /// The processes that request a seat, and their promises.
    joins: BTreeMap<Rank, (Incarnation, Ballot)>,
    /// The seat to be removed.
    removal: Option<Rank>,
    /// The time before which no change begins, since the last one was given up...
    not_before: Instant,
    /// ... that one, and the number of patiences that it is given next.
    given_up: Option<(Change, u32)>,
    /// The number of patiences for which this candidate has waited with its change.
    n_waited: u32,
    /// The mark from which a member holds what the last change left behind (P21), and the epoch of
    /// that change: to the next one it says nothing.
    held_from: Option<(Ballot, Place)>,
    /// The time of the next request for the seat, if this process needs one.
    join_at: Option<Instant>,
    /// Whether it is no longer a member.
    parted: bool,
}

impl Changes {
    pub(super) const fn has_parted(&self) -> bool {
        self.parted
    }

    /// Whether this process needs a seat.
    pub(super) const fn is_joining(&self) -> bool {
        self.join_at.is_some()
    }

    pub(super) const fn join_at(&self) -> Option<Instant> {
        self.join_at
    }

    /// P22: stops for good.
    const fn part(&mut self) {
        (self.parted, self.join_at) = (true, None);
    }

    /// Whether the request for the seat is due; it is due again after `patience`.
    fn joins_now(&mut self, now: Instant, patience: Duration) -> bool {
        let is_due = !self.parted && self.join_at.is_some_and(|at| at <= now);
        if is_due {
            self.join_at = Some(now.plus(patience));
        }
        is_due
    }

    /// Lets this candidate's epoch have the members that there are.
    pub(super) const fn keep_members(&mut self) {
        self.changing = None;
    }

    fn begin(&mut self, change: Change) {
        (self.changing, self.n_waited) = (Some(change), 0);
    }

    /// The number of patiences that this change is given.
    fn n_allowed(&self, change: Change) -> u32 {
        self.given_up.filter(|(last, _)| *last == change).map_or(1, |(_, n)| n)
    }

    /// Counts a patience. Whether the change of this candidate is given another one.
    fn waits_on(&mut self) -> bool {
        self.n_waited += 1;
        self.changing.is_some_and(|change| self.n_waited < self.n_allowed(change))
    }

    fn give_up(&mut self, change: Change) {
        self.given_up = Some((change, PATIENCES_MAX.min(2 * self.n_allowed(change))));
    }

    fn is_asked_for(&self) -> bool {
        !self.joins.is_empty() || self.removal.is_some()
    }

    /// Forgets what was asked of a primary.
    fn forget_requests(&mut self) {
        self.joins.clear();
        self.removal = None;
    }

    /// The change of `members` that is due at the primary on the seat `me`, if there is one: of one
    /// seat. A predecessor is removed first, unless a change replaces it `at_once` (a planted bug).
    fn next(&mut self, members: &Members, me: Rank, at_once: bool) -> Option<Change> {
        self.removal = self.removal.filter(|seat| members.voters.contains(*seat));
        self.joins.retain(|seat, (incarnation, _)| members.incarnation(*seat) < *incarnation);
        if let Some(seat) = self.removal {
            return Some(Change::Remove(seat));
        }
        let (seat, (incarnation, _)) = self.joins.first_key_value()?;
        if members.voters.contains(*seat) && !at_once {
            // Its predecessor is removed first: see above.
            return Some(Change::Remove(*seat)).filter(|_| *seat != me);
        }
        Some(Change::Add(*seat, *incarnation))
    }

    /// The highest promise of those that request a seat.
    fn promised(&self) -> Ballot {
        let promises = self.joins.values().map(|(_, promised)| *promised);
        promises.max().unwrap_or_default()
    }

    #[cfg(test)]
    pub(super) const fn be_held_from(&mut self, since: Ballot, mark: Place) {
        self.held_from = Some((since, mark));
    }
}

impl<P: Planting<Bug>> Machine<P> {
    /// A process without knowledge that requests its seat.
    pub(super) fn as_newcomer(
        config: &Config,
        me: Pid,
        planted: P,
        life: Incarnation,
        now: Instant,
    ) -> Self {
        let mut machine = <Machine<P> as Multicast>::new(config, me, planted);
        machine.office.enter(Phase::Promised, now);
        (machine.office.current, machine.office.promised) = (Ballot::NONE, Ballot::NONE);
        machine.seat.members = Members::default();
        machine.office.has_begun = false;
        machine.seat.incarnation = life;
        machine.said.informed = GroupSet::EMPTY;
        machine.clocks.iter_mut().for_each(|clocks| clocks.seats.ask_anew());
        machine.on_meeting(me, life);
        machine.seat.change.join_at = Some(now);
        machine.seat.returned_to = Some(GroupSet::EMPTY);
        machine
    }

    /// Whether it has never been in an epoch, or will never be in one again (P22).
    pub(super) const fn is_outside(&self) -> bool {
        self.seat.change.has_parted() || self.office.current.0 == Ballot::NONE.0
    }

    /// Whether a message concerns a process outside the group's epochs. One that has parted takes
    /// no message.
    pub(super) const fn is_for_outsiders(wire: &PrimcastWire) -> bool {
        matches!(
            wire,
            PrimcastWire::NewEpoch { .. }
                | PrimcastWire::NewState(_)
                | PrimcastWire::Accept { .. }
                | PrimcastWire::Parted(_)
        )
    }

    /// P22: whether this process is a member, since only members ask for epochs.
    pub(super) fn may_lead(&self) -> bool {
        !self.is_outside() && self.seat.members.has(self.me.rank, self.seat.incarnation)
    }

    /// T4: notes that another incarnation speaks on this seat (P18).
    pub(super) fn on_meeting(&mut self, who: Pid, life: Incarnation) {
        let group = who.group.index();
        let is_known = self.config.layout.has(who);
        if !is_known || !self.clocks[group].meet(who.rank, life, self.planted) {
            return;
        }
        if !self.planted.has(Bug::KeepOldWords) && !self.planted.has(Bug::KeepMarks) {
            self.retained.forget_mark(who);
        }
        if who.group == self.me.group {
            self.transfer.forget_promise(who.rank);
            self.fetching.lose(who.rank);
        }
    }

    /// Takes the members of `current`.
    pub(super) fn take_members(&mut self, members: Members) {
        self.seat.members = members;
        self.said.informed = GroupSet::EMPTY;
    }

    /// Notes that `current` has begun: its members are known for good, and this process is one of
    /// them.
    pub(super) fn be_seated(&mut self) {
        let seats = &mut self.clocks[self.me.group.index()].seats;
        seats.learn(self.office.current, &self.seat.members);
        seats.is_told_by(self.me.rank);
        self.seat.change.join_at = None;
    }

    /// P19: whether a proposal of `epoch` in the log is thereby decided.
    pub(super) fn is_chosen(&self, epoch: Ballot) -> bool {
        self.office.has_begun
            && epoch < self.seat.members.since
            && !self.planted.has(Bug::NeverChosen)
    }

    /// Whether the incarnation that speaks on this seat has been removed for good, as far as is
    /// known for good.
    pub(super) fn has_parted_from(&self, seat: Rank) -> bool {
        let heard = self.clocks[self.me.group.index()].seats.heard(seat);
        self.office.has_begun && self.seat.members.has_parted(seat, heard)
    }

    /// Requests its seat, repeatedly until it has it.
    pub(super) fn join_if_due<H: Host<PrimcastWire>>(&mut self, now: Instant, host: &mut H) {
        if !self.seat.change.joins_now(now, self.config.patience) {
            return;
        }
        let (incarnation, promised) = (self.seat.incarnation, self.office.promised);
        let join = PrimcastWire::Join { incarnation, promised };
        host.send(To::Groups(self.me.group.alone()), &join);
        if self.is_outside() {
            // A request for a part of the state that seats it may have been in vain (P24).
            self.mend_transfer(host);
        }
    }

    /// Takes a process's request for its seat.
    pub(super) fn on_join<H: Host<PrimcastWire>>(
        &mut self,
        from: Pid,
        incarnation: Incarnation,
        promised: Ballot,
        now: Instant,
        host: &mut H,
    ) {
        if self.office.phase != Phase::Primary {
            return;
        }
        if self.seat.members.has(from.rank, incarnation) {
            // It has its seat, and has missed the beginning.
            if promised > self.office.promised {
                let held = self.held();
                self.on_new_epoch(from, promised, held, now, host);
            } else if self.office.has_begun {
                host.send(To::One(from), &PrimcastWire::NewState(self.beginning(Timestamp::ZERO)));
            }
        } else if self.seat.members.has_parted(from.rank, incarnation) {
            host.send(To::One(from), &PrimcastWire::Parted(incarnation));
        } else if host.keeps_states() {
            // Without a state it would never learn the messages that were forgotten.
            self.seat.change.joins.insert(from.rank, (incarnation, promised));
        }
    }

    /// P22: stops for good, since this process was removed.
    pub(super) fn on_parted(&mut self, incarnation: Incarnation, now: Instant) {
        if incarnation == self.seat.incarnation {
            self.seat.change.part();
            self.office.enter(Phase::Promised, now);
        }
    }

    pub(super) fn ask_for_removal(&mut self, seat: Rank) -> Result<(), NoChange> {
        if self.office.phase != Phase::Primary {
            return Err(NoChange::NotPrimary);
        }
        if seat == self.me.rank {
            return Err(NoChange::Itself);
        }
        if !self.seat.members.voters.contains(seat) {
            return Err(NoChange::NotMember);
        }
        self.seat.change.removal = Some(seat);
        Ok(())
    }

    /// Changes the group's members, if this process is the primary and a change is due and allowed.
    pub(super) fn change_if_due<H: Host<PrimcastWire>>(&mut self, now: Instant, host: &mut H) {
        if !self.seat.change.is_asked_for() {
            return;
        }
        if self.office.phase != Phase::Primary {
            // Another process leads: a newcomer asks again.
            if self.office.phase != Phase::Candidate {
                self.seat.change.forget_requests();
            }
            return;
        }
        let at_once = self.planted.has(Bug::ReplaceAtOnce);
        let next = self.seat.change.next(&self.seat.members, self.me.rank, at_once);
        let Some(change) = next else { return };
        if self.seat.change.not_before > now || !self.is_held() {
            return;
        }
        self.seat.change.begin(change);
        self.run(self.seat.change.promised(), now, host);
    }

    /// Gives up a change of a candidate that has waited for long: if the new members are the ones
    /// that do not promise, it continues with the old ones, and tries again later. It then waits
    /// twice as long, since their words may be on their way for more than a patience.
    pub(super) fn give_up_change<H: Host<PrimcastWire>>(&mut self, now: Instant, host: &mut H) {
        if self.seat.change.waits_on() {
            return;
        }
        let Some(change) = self.seat.change.changing.take() else { return };
        if self.office.current == self.office.promised {
            return;
        }
        self.establish(now, host);
        if self.office.current == self.office.promised {
            self.seat.change.not_before = now.plus(CHANGES_AGAIN * self.config.patience);
            self.seat.change.give_up(change);
        } else {
            self.seat.change.changing = Some(change);
        }
    }

    /// P21: whether a majority has delivered everything that was delivered among earlier members.
    fn is_held(&mut self) -> bool {
        let members = self.seat.members;
        if members.from == Timestamp::ZERO || self.planted.has(Bug::ChangeUnheld) {
            return true;
        }
        let mut mark = self.seat.change.held_from.filter(|(since, _)| *since == members.since);
        if mark.is_none() && self.takes_part() && self.safe_ts() >= members.from {
            mark = Some((members.since, self.delivered.last()));
            self.seat.change.held_from = mark;
        }
        let Some((_, upto)) = mark else { return false };
        let seats = &self.clocks[self.me.group.index()].seats;
        let has_it = |seat: &Rank| {
            *seat == self.me.rank && self.delivered.last() >= upto
                || seats.sits(*seat, &members, self.planted)
                    && self.retained.mark_of(self.me.group, *seat) >= upto
        };
        members.has_quorum(members.voters.iter().filter(has_it).collect())
    }

    /// P20: the members of the epoch that this candidate may establish out of `source`, whose
    /// members are `present`; `None` as long as too few have promised.
    pub(super) fn next_members(&self, source: Ballot, present: Members) -> Option<Members> {
        let seats = &self.clocks[self.me.group.index()].seats;
        let promised = |members: &Members| -> MemberSet {
            self.transfer
                .promises
                .keys()
                .copied()
                .filter(|rank| seats.sits(*rank, members, self.planted))
                .collect()
        };
        let is_enough = |members: &Members| members.has_quorum(promised(members));
        let is_its_own = source == self.office.current
            && source.proposer() == Some(self.me.rank)
            && self.office.has_begun;
        let change = self.seat.change.changing.filter(|_| is_its_own);
        let next = change.map(|change| change.applied_to(present));
        match next {
            Some(next) if self.planted.has(Bug::NewQuorumOnly) => is_enough(&next).then_some(next),
            // Agreement does not need the promises of the new ones' quorum: they show that those
            // members are there.
            Some(next) => (is_enough(&present) && is_enough(&next)).then_some(next),
            None => is_enough(&present).then_some(present),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Incarnation = Incarnation(5);

    #[test]
    fn p20_a_seat_is_emptied_before_another_incarnation_gets_it() {
        let (me, seat) = (Rank::at(0), Rank::at(1));
        let members = Members::founders(3, Ballot::NONE);
        let mut changes = Changes::default();
        changes.joins.insert(seat, (NEW, Ballot(7)));
        assert_eq!(changes.next(&members, me, false), Some(Change::Remove(seat)));
        assert_eq!(changes.next(&members, me, true), Some(Change::Add(seat, NEW)));
        assert_eq!(changes.next(&members, seat, false), None, "a primary does not remove itself");
        let without = Change::Remove(seat).applied_to(members);
        assert_eq!(changes.next(&without, me, false), Some(Change::Add(seat, NEW)));
        assert_eq!(changes.promised(), Ballot(7));
        let with = Change::Add(seat, NEW).applied_to(without);
        assert_eq!(changes.next(&with, me, false), None, "it has its seat");
        assert!(!changes.is_asked_for());
    }

    #[test]
    fn p22_a_process_that_has_parted_asks_for_no_seat() {
        let (now, patience) = (Instant::ZERO, Duration::from_millis(2));
        let mut changes = Changes { join_at: Some(now), ..Changes::default() };
        assert!(changes.joins_now(now, patience) && !changes.joins_now(now, patience));
        assert_eq!(changes.join_at(), Some(now.plus(patience)));
        changes.part();
        assert!(changes.has_parted() && !changes.is_joining());
        assert!(!changes.joins_now(now.plus(patience), patience));
    }
}
