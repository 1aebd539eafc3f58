//! The end of a view: suspicion, wedging, the leader's change, its echoes, the decision (paper 000,
//! A.4, B.1, B.3 and B.5).
//!
//! ```text
//! active --suspicion, leave, join, or another's wedge--> wedged --decision--> the next view
//! ```
//!
//! A *change* is the next view and the trims of this one, together. To agree on it is consensus, in
//! the form of Paxos with the leader's standing as its ballot: to suspect a member is to promise
//! that no change of it will be echoed, and to echo a change is to accept it.
//!
//! - C1 *Wedged rows are final.* A member that has wedged neither receives nor sends, and a row
//!   says that it is wedged behind what it has received.
//! - C2 *Suspicion spreads.* A member suspects what a member that it does not suspect suspects, and
//!   its row is frozen at once. One that finds itself suspected stops. Mutant `SUSPICION_KEPT`.
//! - C3 *Promise.* A member echoes a change only if its leader proposed it, and its leader is the
//!   first member that it does not suspect. Its row says which it suspects behind what it has
//!   echoed (`columns`), so that a row with a suspicion shows every echo that was made before it.
//!   Mutant `ECHO_SUSPECTED`.
//! - C4 *Lead.* A member leads when it suspects every member before it, and every member that it
//!   does not suspect has wedged and suspects them too. The rows of these, a majority of the view
//!   (C7), are read again each time: A.4.1 forgets to ask again. Mutants `LEAD_ALONE`,
//!   `TRIM_UNWEDGED`.
//! - C5 *Adoption.* A leader proposes the change that the last leader before it proposed, of those
//!   that rows of unsuspected members show. Frozen rows are not asked: one may have been read while
//!   it was written. Mutants `NO_ADOPTION`, `ADOPT_FIRST`.
//! - C6 *Trims.* Otherwise it has, for each shard, the shortest of the orders that its
//!   *unsuspected* members hold, all of them wedged. The row of a suspected member is stale, and
//!   could cut off what was delivered. What any member delivered before, every member had received
//!   (V3), so no trim is below that. A shard without such a member has no member that needs its
//!   trim. Mutants `TRIM_OF_SUSPECTED`, `TRIM_UNWEDGED`, `ONE_TRIM`.
//! - C7 *Majority.* A member that does not trust a strict majority of the view stops, and tells it.
//!   (A.4.1 counts what all rows suspect; it is the own row that counts.) Mutant
//!   `MINORITY_CONTINUES`.
//! - C8 *Decision.* A change is decided when a majority of the view has echoed it under one leader;
//!   members that leave count. It is acted upon only then. Mutants `UNECHOED_CHANGE`,
//!   `ECHO_OF_HALF`, `LEAVER_UNCOUNTED`.
//! - C9 *Commit.* A member that acts on a change says so in its old row, which stays readable. A
//!   member that did not see the echoes of those that have moved on, or died, learns it there.
//!   Mutant `NO_COMMIT`.
//!
//! *One change is decided in a view.* Say the leader of standing b has its change echoed by a
//! majority, and a later one, b' > b, proposes. It trusts a majority, so some member q that echoed
//! b is in it; q suspects b (C4), it echoed before that (C3), and its row shows the echo (`sst`,
//! S1). So b' adopts (C5): the change of the last leader before it that any such row shows. That is
//! b, or one between them, whose change is that of b by induction. Two changes of one leader do not
//! exist: it proposes once. And rows with echoes of b are not read while they are overwritten: q
//! echoes later leaders only after it suspects b, and by then, of those between b and b', none.

use super::End;
use super::bugs::{Bug, Plantings};
use super::clock::Time;
use super::columns::ballot;
use super::current::Current;
use super::journal::Journal;
use super::order::Standing;
use super::shard::{Shard, ShardId, Subgroup};
use super::view::{Change, Knock};
use alloc::vec::Vec;
use base::{Rank, SeatSet};

/// A change that this view ends with: only `Current::decided` makes one (C8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decided {
    /// The leader's that it was decided under.
    ballot: u64,
    change: Change,
}

impl Decided {
    pub(super) const fn change(&self) -> &Change {
        &self.change
    }
}

/// How a turn leaves a view.
#[expect(clippy::large_enum_variant, reason = "a turn has one, and it is taken apart at once")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It lasts.
    Stay,
    /// It ends with this change.
    Install(Decided),
    /// This process is no longer a member of anything.
    End(End),
}

/// The processes that ask to be let in, and how members are seated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking<'a> {
    pub(super) knocks: &'a [Knock],
    /// The description of the subgroups.
    pub(super) layout: &'a [Subgroup],
}

impl<P: Plantings> Current<P> {
    // ---- suspicion ----

    /// Suspects `seat`: from now on its row is frozen (C2), and this member is wedged.
    pub(super) fn suspect(&mut self, seat: Rank) {
        if seat == self.me || !self.seats.contains(seat) || !self.trusted().contains(seat) {
            return;
        }
        if !self.planted.has(Bug::EchoSuspected) {
            self.table.freeze(seat);
        }
        self.wedge();
        let mut suspected = self.suspected(self.me);
        suspected.insert(seat);
        self.row.suspect(&mut self.table, suspected);
    }

    /// C2: takes over what the rows of trusted members suspect, one row after the other. Returns
    /// whether one of them suspects this member.
    fn spread(&mut self) -> bool {
        if self.planted.has(Bug::SuspicionKept) {
            return false;
        }
        for seat in self.others().iter() {
            if !self.trusted().contains(seat) {
                continue;
            }
            let theirs = self.suspected(seat);
            if theirs.contains(self.me) {
                return true;
            }
            theirs.iter().for_each(|seat| self.suspect(seat));
        }
        false
    }

    /// C7
    fn has_majority(&self) -> bool {
        self.planted.has(Bug::MinorityContinues) || self.view.is_majority(self.trusted())
    }

    /// Whether no member that is left has the state, or can have it, in a group without a layout.
    /// (With one, shards begin again: `roster`, L5. Not those that are durable: W5.)
    fn is_state_lost(&self) -> bool {
        if self.has_disks() {
            return self.is_shard_lost();
        }
        self.is_whole && self.table.all(self.trusted(), |seat| !self.has_state(seat, 0))
    }

    // ---- wedging ----

    /// Wedges if there is a reason to end the view. For its leader a process that can join is one.
    fn wedge_if_due(&mut self, asking: Asking<'_>) {
        let row = self.row;
        let wedged = self.trusted().iter().any(|seat| self.of(seat, row.wedged) == 1);
        let is_due = wedged
            || !self.leavers().is_empty()
            || !self.suspected(self.me).is_empty()
            || self.leader() == self.me && self.can_grow(asking);
        if is_due {
            self.wedge();
        }
    }

    /// Whether one of those that ask may join now.
    fn can_grow(&self, asking: Asking<'_>) -> bool {
        !asking.knocks.is_empty() && !self.admitted(&self.unjoined(), asking).is_empty()
    }

    // ---- the leader ----

    /// Proposes a change, if this member leads and has not done so.
    fn propose(&mut self, asking: Asking<'_>, journal: &mut Journal) {
        if self.leader() != self.me || self.has_accepted(self.standing) {
            return;
        }
        if !self.leads() {
            return;
        }
        let change = self.adopted().unwrap_or_else(|| self.fresh(asking));
        self.accept(self.standing, change, journal);
    }

    /// C4, and so V8
    fn leads(&self) -> bool {
        let before = self.view.before(self.standing);
        let agrees = |seat| {
            let is_wedged = self.of(seat, self.row.wedged) == 1;
            let is_with = self.suspected(seat).covers(before);
            (is_wedged || self.planted.has(Bug::TrimUnwedged))
                && (is_with || self.planted.has(Bug::LeadAlone))
        };
        self.table.all(self.trusted(), agrees)
    }

    /// C5
    fn adopted(&self) -> Option<Change> {
        if self.planted.has(Bug::NoAdoption) {
            return None;
        }
        let proposals = self.trusted().iter().map(|seat| (self.of(seat, self.row.proposer), seat));
        let proposals = proposals.filter(|(ballot, _)| *ballot > 0);
        let (_, seat) = if self.planted.has(Bug::AdoptFirst) {
            proposals.min_by_key(|(ballot, _)| *ballot)
        } else {
            proposals.max_by_key(|(ballot, _)| *ballot)
        }?;
        Some(self.row.change(&self.table, seat))
    }

    /// A change of this member's own making (C6).
    fn fresh(&self, asking: Asking<'_>) -> Change {
        let unjoined = self.unjoined();
        let trusted = self.trusted();
        let asked = if self.planted.has(Bug::TrimOfSuspected) { self.seats } else { trusted };
        Change {
            joined: self.admitted(&unjoined, asking),
            trims: self.trims(asked),
            time: self.latest_seen(trusted),
            ..unjoined
        }
    }

    /// Of such a change, which members go, and which have the states.
    fn unjoined(&self) -> Change {
        let trusted = self.trusted();
        Change {
            removed: self.seats.difference(trusted),
            left: self.leavers(),
            bearers: (0..self.lanes.len()).map(|at| self.bearers(trusted, at)).collect(),
            ..Change::default()
        }
    }

    /// C6
    fn trims(&self, asked: SeatSet) -> Vec<u64> {
        let trim = |(id, shard): (ShardId, &Shard)| {
            let (asked, order) = (asked.intersection(shard.members()), shard.order());
            let held = |seat| self.safe_at(id.subgroup.into(), (shard, &order), seat);
            let held = asked.iter().map(held);
            held.min().unwrap_or(0)
        };
        let mut trims: Vec<u64> = self.view.shards().map(trim).collect();
        if self.planted.has(Bug::OneTrim) {
            let first = trims.first().copied().unwrap_or(0);
            trims.iter_mut().for_each(|trim| *trim = (*trim).min(first));
        }
        trims
    }

    /// K4: the latest time that `seats` have seen.
    fn latest_seen(&self, seats: SeatSet) -> Time {
        let clocks = seats.iter().map(|seat| self.of(seat, self.row.seen));
        let latest = clocks.max().filter(|_| !self.planted.has(Bug::ViewWithoutTime));
        Time(latest.unwrap_or(0))
    }

    /// Those of `seats` that have the state of their shard.
    fn bearers(&self, seats: SeatSet, subgroup: usize) -> SeatSet {
        self.table.those(seats, |seat| self.has_state(seat, subgroup))
    }

    /// The members that may leave now: all that want to, unless of those that stay in a shard more
    /// would wait for its state than have it, so that a failure that the view tolerates could lose
    /// it. Newcomers get it, or the view changes when they fail: so no wish waits for ever.
    fn leavers(&self) -> SeatSet {
        let trusted = self.trusted();
        let leavers = self.table.those(trusted, |seat| self.of(seat, self.row.leaving) == 1);
        if leavers.is_empty() || self.planted.has(Bug::LastLeaves) {
            return leavers;
        }
        let mut kept_back = SeatSet::EMPTY;
        if self.has_disks() {
            kept_back = self.last_of_shards(leavers);
        }
        for (id, shard) in self.view.shards() {
            let members = trusted.intersection(shard.members());
            let (staying, leaving) = (members.difference(leavers), members.intersection(leavers));
            let n_ready = self.bearers(staying, id.subgroup.into()).len();
            if n_ready < staying.len() - n_ready {
                kept_back = kept_back.union(self.bearers(leaving, id.subgroup.into()));
            }
        }
        leavers.difference(kept_back)
    }

    /// The first of those that ask that may join those that stay behind `change`: of every majority
    /// of the next view at least one member must have the states of its shards, or a failure of
    /// less could lose them. A member that the next view seats in another shard has no state there,
    /// and one that was in no shard had none to have. And those that wait for no state now are a
    /// majority of the next view, be all newcomers dead. (One that is alone lets one in.)
    fn admitted(&self, change: &Change, Asking { knocks, layout }: Asking<'_>) -> Vec<Knock> {
        let next = self.view.after(change, layout, self.planted);
        let is_in = |seat| move |(_, shard): &(ShardId, &Shard)| shard.seats.contains(&seat);
        let keeps =
            |seat| next.shards().filter(is_in(seat)).all(|(_, of)| of.bearers.contains(seat));
        let staying = next.seats();
        let settled = self.table.those(staying, |seat| self.has_states(seat));
        let n_ready = settled.iter().filter(|seat| keeps(*seat)).count();
        let n_waiting = staying.len() - settled.len();
        let n_survived = match staying.len() {
            1 => 1,
            _ => settled.len().saturating_sub(n_waiting + 1),
        };
        let mut n_most = n_survived.min((2 * n_ready).saturating_sub(staying.len()));
        if self.planted.has(Bug::CrowdOfNewcomers) {
            n_most = usize::MAX;
        }
        let free = |knock: &&Knock| !self.seats.contains(knock.seat);
        knocks.iter().filter(free).take(n_most).copied().collect()
    }

    /// Whether the member on `seat` has the states of all shards that it is in.
    fn has_states(&self, seat: Rank) -> bool {
        let is_in = |subgroup: &usize| self.view.shard_of(seat, *subgroup).is_some();
        (0..self.lanes.len()).filter(is_in).all(|subgroup| self.has_state(seat, subgroup))
    }

    // ---- the others ----

    /// Echoes what the leader proposes (C3).
    fn echo(&mut self, journal: &mut Journal) {
        let bound = self
            .seats
            .iter()
            .filter(|seat| *seat == self.leader() || self.planted.has(Bug::EchoSuspected));
        for leader in bound.collect::<Vec<_>>() {
            let standing = self.view.standing(leader).expect("V1: a member stands somewhere");
            let proposed = self.of(leader, self.row.proposer);
            if proposed == ballot(standing) && !self.has_accepted(standing) {
                let change = self.row.change(&self.table, leader);
                self.accept(standing, change, journal);
            }
        }
    }

    // ---- the decision ----

    /// The change of this view, once it is decided (C8, C9).
    pub(super) fn decided(&self) -> Option<Decided> {
        let row = self.row;
        let committed = self.seats.iter().find(|seat| self.of(*seat, row.committed) == 1);
        // (Most rows show one ballot: its echoes are counted once.)
        let mut tried = Vec::new();
        let mut is_untried = |seat: &Rank| {
            let ballot = self.of(*seat, row.proposer);
            let is_new = ballot > 0 && !tried.contains(&ballot);
            tried.extend(is_new.then_some(ballot));
            is_new
        };
        let mut shown = self.seats.iter().filter(|seat| is_untried(seat));
        let seat = committed.or_else(|| shown.find(|seat| self.is_echoed(*seat)))?;
        let ballot = self.of(seat, row.proposer);
        Some(Decided { ballot, change: row.change(&self.table, seat) })
    }

    /// Whether a majority has echoed the change that the row of `seat` shows, under its leader.
    fn is_echoed(&self, seat: Rank) -> bool {
        let ballot = self.of(seat, self.row.proposer);
        if ballot == 0 {
            return false;
        }
        if self.planted.has(Bug::UnechoedChange) {
            return true;
        }
        let is_echo = |seat| self.of(seat, self.row.proposer) == ballot;
        let mut echoes = self.table.those(self.seats, is_echo);
        if self.planted.has(Bug::LeaverUncounted) {
            echoes = self.table.those(echoes, |seat| self.of(seat, self.row.leaving) == 0);
        }
        let is_half = 2 * echoes.len() >= self.seats.len();
        self.view.is_majority(echoes)
            || is_half && self.planted.has(Bug::EchoOfHalf)
            || echoes.covers(self.trusted()) && self.planted.has(Bug::MinorityContinues)
    }

    /// Says in the old row that a change is decided, and which (C9).
    pub(super) fn commit(&mut self, decided: &Decided) {
        if self.planted.has(Bug::NoCommit) {
            return;
        }
        // (A later change that this member has echoed is the same one.)
        if decided.ballot > self.own(self.row.proposer) {
            let standing = Standing(decided.ballot as u16 - 1);
            self.row.publish(&mut self.table, &decided.change, standing);
        }
        self.raise(self.row.committed);
    }

    // ---- all of it ----

    /// The part of a turn that is about the end of the view.
    pub(super) fn turn_of_change(
        &mut self,
        silent: SeatSet,
        asking: Asking<'_>,
        journal: &mut Journal,
    ) -> Turn {
        if let Some(decided) = self.decided() {
            return Turn::Install(decided);
        }
        if self.spread() {
            return Turn::End(End::Excluded);
        }
        silent.iter().for_each(|seat| self.suspect(seat));
        if !self.has_majority() {
            return Turn::End(End::Partitioned);
        }
        if self.is_state_lost() {
            return Turn::End(End::StateLost);
        }
        self.wedge_if_due(asking);
        if self.is_wedged() {
            self.tell_accepted(journal);
            self.propose(asking, journal);
            self.echo(journal);
        }
        self.decided().map_or(Turn::Stay, Turn::Install)
    }
}
