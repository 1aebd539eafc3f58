//! The restart of a durable group all of whose processes have died (paper 000, B.4 to B.6).
//!
//! A process that finds a log in its place *returns*: it knocks, in case that the group lives; and
//! it looks for the others that return. The newest view that one of them has *governs*. They agree
//! on its end as its members would have (`change`), by messages in place of rows: one of them calls
//! for promises, each answers with what its log says, and once a majority of the view has promised,
//! the caller proposes a change, which ends the view when a majority has accepted it. This is Paxos
//! again, in the same instance: ballots of restarts are above those of all leaders of a view, and
//! what a process accepted of a leader counts. (The paper has one inspector, which is never run
//! twice at a time. Here, any number may be.)
//!
//! - R1 *Answers are synced.* A promise, and the acceptance of a change, are told when they are
//!   synced. A proposal below a promise is not accepted. Mutants `ANSWER_BEFORE_SYNC`,
//!   `PROMISE_UNLOGGED`, `ACCEPTS_BELOW`.
//! - R2 *A majority* of the members of the view has promised before a change of it is proposed, and
//!   has accepted it before it is acted upon. So what was decided before is found, and nothing else
//!   is decided. Mutant `RESTART_BY_FEW`. The caller is one of those that have promised: a ballot
//!   that it could lose with its unsynced promise would be used again, for another change. Mutant
//!   `PROPOSES_UNPROMISED`.
//! - R3 *Adoption.* The change that was accepted last, in any of their logs, is proposed, if there
//!   is one: it may have been acted upon. The view that it makes is then the newest one, and has to
//!   be ended in turn, by a majority of *its* members. Mutant `RESTART_FORGETS`.
//! - R4 *Trims.* Otherwise each shard's trim is the shortest of the orders that the logs hold of
//!   it, of processes that have its state: what was delivered is in all of them (W1). A shard of
//!   which members are missing, and no log has the state, is waited for; one in memory alone
//!   begins again (W7). Mutant `SHARD_FROM_NOTHING`.
//! - R5 *The newest view.* A process that knows a later view tells it, and promises nothing in an
//!   older one. A member of two views has the first on its disk (W4), so it lacks one at most, or
//!   is a member no longer: then its log is of no use, and it joins as a newcomer. What it has
//!   promised and accepted it keeps nevertheless, until it is in the next view. Mutant
//!   `RESTART_OF_THE_OLD`.
//! - R6 *One group.* Logs of another group do not count. Mutant `FOREIGN_LOG`.
//!
//! *A process that lives* may be a member of the view that governs. It echoes no change of it to
//! which it has not been asked by rows, and a majority of the members returns, all of them dead as
//! what they were: so what it may still see decided was accepted by one of them, and is found (R3).

use super::bugs::{Bug, Plantings};
use super::clock::Time;
use super::journal::{Journal, Record};
use super::records::{self, Found};
use super::shard::Subgroup;
use super::view::{Change, Knock, View};
use super::wire::{Call, Message, Report};
use super::{Mode, Timing, ViewId};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use base::{Instant, Port, Rank, SeatSet};

/// A process with the log of those before it. See the module's text.
#[derive(Debug)]
pub(super) struct Returning<P> {
    planted: P,
    me: Knock,
    n_seats: usize,
    timing: Timing,
    pub(super) found: Found,
    /// The newest view of which this process has heard that it is no member of it (R5).
    passed: ViewId,
    /// What this process calls for.
    round: Option<Round>,
    /// The number of the last round that it knows of.
    n_rounds: u64,
    /// Answers that wait for a sync (R1).
    owed: Vec<(Record, Rank, Message<'static>)>,
    /// The time at which it calls, unless another one does.
    next_call_at: Instant,
    /// The host's clock.
    wall: Time,
}

#[derive(Debug)]
struct Round {
    call: Call,
    since: Instant,
    told_at: Instant,
    reports: BTreeMap<Rank, Report>,
    change: Option<Change>,
    accepts: SeatSet,
}

/// The end of the view that governed, and what follows.
#[derive(Debug)]
pub(super) struct Restarted {
    pub(super) next: View,
    pub(super) trims: Vec<u64>,
    /// The processes that are told of it.
    pub(super) to: SeatSet,
}

impl<P: Plantings> Returning<P> {
    pub(super) fn new(
        me: Knock,
        n_seats: usize,
        timing: Timing,
        found: Found,
        planted: P,
        now: Instant,
    ) -> Returning<P> {
        let mut returning = Returning {
            planted,
            me,
            n_seats,
            timing,
            found,
            passed: ViewId(0),
            round: None,
            n_rounds: 0,
            owed: Vec::new(),
            next_call_at: now,
            wall: Time::default(),
        };
        returning.wait(now, 1);
        returning
    }

    /// Lets others call for a while: those on earlier seats for longer.
    fn wait(&mut self, now: Instant, n_spans: u32) {
        let span = self.timing.ask_every * (n_spans + self.me.seat.index() as u32);
        self.next_call_at = now.plus(span);
    }

    /// The ballot that it has promised, if no answer waits to tell that; else 0.
    pub(super) fn told(&self) -> u64 {
        if self.owed.is_empty() { self.found.promised } else { 0 }
    }

    fn view_id(&self) -> ViewId {
        self.found.view.as_ref().map_or(ViewId(0), |view| view.id)
    }

    fn group(&self) -> u64 {
        self.found.view.as_ref().map_or(0, |view| view.group)
    }

    /// The earliest time at which there is something to do.
    pub(super) fn deadline(&self) -> Instant {
        let round = self.round.as_ref().map(|round| round.told_at.plus(self.timing.ask_every));
        round.unwrap_or(self.next_call_at)
    }

    /// The latest time that this process knows of (K4).
    fn clock(&self) -> Time {
        let since = self.found.view.as_ref().map_or(Time::default(), |view| view.time);
        self.wall.max(self.found.clock).max(since)
    }

    fn newest(&self) -> Option<Message<'static>> {
        let view = self.found.view.clone()?;
        Some(Message::Welcome { trims: self.found.trims.clone(), view })
    }

    /// Takes it that the host's clock shows this time.
    pub(super) fn see(&mut self, wall: Time) {
        self.wall = self.wall.max(wall);
    }

    /// Takes `view`, which comes after the one that this process knows and has it as a member.
    pub(super) fn advance(
        &mut self,
        view: View,
        trims: Vec<u64>,
        journal: &mut Journal,
        now: Instant,
    ) {
        journal.put(|| records::view(&view, &trims));
        self.found.enter(view, trims, self.me.seat, self.planted);
        (self.round, self.n_rounds) = (None, 0);
        self.owed.clear();
        self.wait(now, 1);
    }

    /// Whether `view` is not later than those that this process knows of.
    pub(super) fn knows(&self, view: ViewId) -> bool {
        view <= self.passed.max(self.view_id())
    }

    /// Takes it that `next` is later than the view that this process knows, and has it not: its log
    /// is of no use, and it joins as a newcomer. Its vote stays, for a process that has not heard
    /// of `next`, or has lost it.
    pub(super) fn pass(&mut self, next: ViewId, now: Instant) {
        self.passed = next;
        (self.round, self.n_rounds) = (None, 0);
        self.wait(now, 1);
    }

    // ---- turns ----

    /// Calls, calls again, and tells what it owes.
    pub(super) fn turn(
        &mut self,
        subgroups: &[Subgroup],
        journal: &mut Journal,
        now: Instant,
        port: &mut impl Port,
    ) -> Option<Restarted> {
        if self.round.is_none() && self.next_call_at <= now {
            self.call(journal, now, port);
        }
        if self.round.as_ref().is_some_and(|round| round.told_at.plus(self.timing.ask_every) <= now)
        {
            self.call_again(now, port);
        }
        self.consider(subgroups, journal, now, port);
        self.pay(subgroups, journal, now, port)
    }

    fn call(&mut self, journal: &mut Journal, now: Instant, port: &mut impl Port) {
        self.wait(now, 1);
        let call = Call { group: self.group(), view: self.view_id(), ballot: 0 };
        if self.found.view.is_none() || self.passed > self.view_id() {
            // A view that has it may have begun, which it does not know of.
            return self.say_to_all(&Message::Call(call), port);
        }
        self.n_rounds = self.n_rounds.max(self.found.promised >> 8) + 1;
        let ballot = self.n_rounds << 8 | self.me.seat.index() as u64;
        self.round = Some(Round {
            call: Call { ballot, ..call },
            since: now,
            told_at: now,
            reports: BTreeMap::new(),
            change: None,
            accepts: SeatSet::EMPTY,
        });
        self.say_to_all(&Message::Call(Call { ballot, ..call }), port);
        self.on_call(self.me.seat, Call { ballot, ..call }, journal, now, port);
    }

    fn call_again(&mut self, now: Instant, port: &mut impl Port) {
        let Some(round) = &mut self.round else { return };
        round.told_at = now;
        let call = round.call;
        match round.change.clone() {
            None => self.say_to_all(&Message::Call(call), port),
            Some(change) => {
                let open = round.reports.keys().filter(|seat| !round.accepts.contains(**seat));
                let propose = Message::Propose { call, change }.encoded();
                for seat in open.filter(|seat| **seat != self.me.seat) {
                    let _ = port.send(*seat, &propose);
                }
            }
        }
    }

    fn say_to_all(&self, message: &Message<'_>, port: &mut impl Port) {
        let bytes = message.encoded();
        for seat in Rank::all(self.n_seats).filter(|seat| *seat != self.me.seat) {
            // What finds no room is said again.
            let _ = port.send(seat, &bytes);
        }
    }

    /// R1
    fn pay(
        &mut self,
        subgroups: &[Subgroup],
        journal: &mut Journal,
        now: Instant,
        port: &mut impl Port,
    ) -> Option<Restarted> {
        let hastens = self.planted.has(Bug::AnswerBeforeSync);
        let mut restarted = None;
        for (record, to, message) in core::mem::take(&mut self.owed) {
            if !hastens && !journal.is_synced(record) {
                self.owed.push((record, to, message));
            } else if to == self.me.seat {
                let said = self.on_message(to, message, subgroups, journal, now, port);
                restarted = restarted.or(said);
            } else {
                let _ = port.send(to, &message.encoded());
            }
        }
        restarted
    }

    fn owe(&mut self, to: Rank, message: Message<'static>, journal: &Journal) {
        self.owed.retain(|(_, other, _)| *other != to);
        self.owed.push((journal.last(), to, message));
    }

    // ---- messages ----

    /// Takes a message of another process that returns, or its own.
    pub(super) fn on_message(
        &mut self,
        from: Rank,
        message: Message<'_>,
        subgroups: &[Subgroup],
        journal: &mut Journal,
        now: Instant,
        port: &mut impl Port,
    ) -> Option<Restarted> {
        match message {
            Message::Call(call) => self.on_call(from, call, journal, now, port),
            Message::Report(report) => self.on_report(from, report, now, port),
            Message::Propose { call, change } => self.on_propose(from, call, change, journal),
            Message::Accepted(call) => return self.on_accepted(from, call, subgroups),
            Message::Knock(_)
            | Message::Welcome { .. }
            | Message::WantState(_)
            | Message::Piece(_) => {}
        }
        None
    }

    /// A process that was let in, and does not know it, is told: its view may need it.
    pub(super) fn on_knock(&self, knock: &Knock, port: &mut impl Port) {
        if let Some(newest) = self.newest()
            && self.found.view.as_ref().is_some_and(|view| view.has(knock))
        {
            let _ = port.send(knock.seat, &newest.encoded());
        }
    }

    /// R6
    fn is_of_group(&self, call: Call) -> bool {
        call.group == self.group() || self.planted.has(Bug::ForeignLog)
    }

    fn on_call(
        &mut self,
        from: Rank,
        call: Call,
        journal: &mut Journal,
        now: Instant,
        port: &mut impl Port,
    ) {
        let Some(newest) = self.newest() else { return };
        let asks_alone = call.ballot == 0;
        if !asks_alone && !self.is_of_group(call) {
            return;
        }
        // R5
        let is_old = call.view < self.view_id() && !self.planted.has(Bug::RestartOfTheOld);
        if asks_alone || is_old {
            let _ = port.send(from, &newest.encoded());
            return;
        }
        if call.view <= self.view_id() && call.ballot > self.found.promised {
            self.found.promised = call.ballot;
            if !self.planted.has(Bug::PromiseUnlogged) {
                journal.put(|| records::promise(call.ballot));
            }
        }
        if from != self.me.seat && call.ballot >= self.found.promised {
            self.wait(now, 8);
            self.round.take_if(|round| round.call.ballot < call.ballot);
        }
        let report = self.report(call);
        self.owe(from, Message::Report(report), journal);
    }

    fn report(&self, call: Call) -> Report {
        let (view, group) = (self.view_id().min(call.view), self.group());
        let group = if self.planted.has(Bug::ForeignLog) { call.group } else { group };
        let ends = self.found.pasts.iter().map(|past| {
            let past = past.as_ref().filter(|past| past.base.is_some())?;
            Some(past.end_in(view))
        });
        Report {
            call: Call { group, view, ballot: self.found.promised },
            process: self.me,
            accepted: self.found.accepted.clone().filter(|_| view == self.view_id()),
            ends: ends.collect(),
            clock: self.clock(),
        }
    }

    fn on_report(&mut self, from: Rank, report: Report, now: Instant, port: &mut impl Port) {
        let newest = self.newest();
        let is_of_group = self.is_of_group(report.call);
        let Some(round) = &mut self.round else { return };
        if !is_of_group {
            return;
        }
        if report.call.view < round.call.view {
            if let Some(newest) = newest {
                let _ = port.send(from, &newest.encoded());
            }
        } else if report.call.ballot > round.call.ballot {
            self.n_rounds = self.n_rounds.max(report.call.ballot >> 8);
            self.round = None;
            self.wait(now, 1);
        } else if report.call == round.call && round.change.is_none() {
            round.reports.insert(from, report);
        }
    }

    fn on_propose(&mut self, from: Rank, call: Call, change: Change, journal: &mut Journal) {
        if !self.is_of_group(call) || call.view != self.view_id() {
            return;
        }
        if call.ballot < self.found.promised && !self.planted.has(Bug::AcceptsBelow) {
            let report = self.report(call);
            return self.owe(from, Message::Report(report), journal);
        }
        let is_new = self.found.accepted.as_ref().is_none_or(|(ballot, _)| *ballot != call.ballot);
        if is_new {
            journal.put(|| records::accept(call.ballot, &change));
            self.found.promised = call.ballot;
            self.found.accepted = Some((call.ballot, change));
        }
        self.owe(from, Message::Accepted(call), journal);
    }

    fn on_accepted(&mut self, from: Rank, call: Call, subgroups: &[Subgroup]) -> Option<Restarted> {
        let (round, view) = (self.round.as_mut()?, self.found.view.as_ref()?);
        if round.call != call {
            return None;
        }
        round.accepts.insert(from);
        if !is_enough(view, round.accepts, self.planted) {
            return None;
        }
        let change = round.change.as_ref()?;
        let next = view.after(change, subgroups, self.planted);
        let to = view.seats().union(next.seats());
        let trims = change.trims.clone();
        self.round = None;
        Some(Restarted { next, trims, to })
    }

    // ---- the change ----

    /// Proposes a change, once enough have promised, and the rest has had its time.
    fn consider(
        &mut self,
        subgroups: &[Subgroup],
        journal: &mut Journal,
        now: Instant,
        port: &mut impl Port,
    ) {
        let (Some(round), Some(view)) = (&self.round, &self.found.view) else { return };
        let seats: SeatSet = round.reports.keys().copied().collect();
        let is_late = round.since.plus(self.timing.suspect_after) <= now;
        let has_promised =
            seats.contains(self.me.seat) || self.planted.has(Bug::ProposesUnpromised);
        if round.change.is_some()
            || !has_promised
            || !is_enough(view, seats, self.planted)
            || !seats.covers(view.seats()) && !is_late
        {
            return;
        }
        let change = adopted(&round.reports, self.planted)
            .or_else(|| fresh(view, &round.reports, subgroups, self.planted));
        let (Some(round), Some(change)) = (&mut self.round, change) else { return };
        round.change = Some(change.clone());
        let call = round.call;
        self.call_again(now, port);
        self.on_propose(self.me.seat, call, change, journal);
    }
}

/// R2
fn is_enough(view: &View, seats: SeatSet, planted: impl Plantings) -> bool {
    view.is_majority(seats) || planted.has(Bug::RestartByFew) && !seats.is_empty()
}

/// R3
fn adopted(reports: &BTreeMap<Rank, Report>, planted: impl Plantings) -> Option<Change> {
    if planted.has(Bug::RestartForgets) {
        return None;
    }
    let accepted = reports.values().filter_map(|report| report.accepted.as_ref());
    accepted.max_by_key(|(ballot, _)| *ballot).map(|(_, change)| change.clone())
}

/// R4; `None` while a shard's logs are missing.
fn fresh(
    view: &View,
    reports: &BTreeMap<Rank, Report>,
    subgroups: &[Subgroup],
    planted: impl Plantings,
) -> Option<Change> {
    let present: SeatSet = reports.keys().copied().collect::<SeatSet>().intersection(view.seats());
    let end = |seat: Rank, subgroup: usize| reports.get(&seat)?.ends.get(subgroup).copied()?;
    let mut bearers = alloc::vec![SeatSet::EMPTY; subgroups.len()];
    let mut trims = Vec::new();
    for (id, shard) in view.shards() {
        let subgroup = usize::from(id.subgroup);
        let own = present.intersection(shard.members());
        let ends: Vec<(Rank, u64)> =
            own.iter().filter_map(|seat| Some((seat, end(seat, subgroup)?))).collect();
        let is_missing = own != shard.members() || shard.since < view.id;
        // W7
        let is_durable = subgroups[subgroup].mode_in(Mode::Durable) == Mode::Durable;
        let is_logged = is_durable || planted.has(Bug::MemoryIsWaitedFor);
        let is_waited_for = is_logged && ends.is_empty() && is_missing && !shard.seats.is_empty();
        if is_waited_for && !planted.has(Bug::ShardFromNothing) {
            return None;
        }
        trims.push(ends.iter().map(|(_, end)| *end).min().unwrap_or(0));
        ends.iter().for_each(|(seat, _)| {
            bearers[subgroup].insert(*seat);
        });
    }
    let renewed = reports.values().map(|report| report.process);
    Some(Change {
        removed: view.seats().difference(present),
        renewed: renewed.filter(|process| present.contains(process.seat)).collect(),
        trims,
        bearers,
        time: reports.values().map(|report| report.clock).max().unwrap_or_default(),
        ..Change::default()
    })
}

#[cfg(test)]
mod tests;
