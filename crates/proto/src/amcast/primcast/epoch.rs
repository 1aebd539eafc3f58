//! Algorithm 3: how a group changes its primary.
//!
//! - P24 Hosts may skip a message that asks for something long ([`Multicast::asks`]), so a process
//!   that waits for an answer asks again after each patience: a candidate repeats NEW-EPOCH or
//!   NEW-STATE, a process that has promised tells the leader so, a newcomer asks for the part that
//!   it lacks. A process that learns of a promise above its own was skipped itself: it tells the
//!   candidate of that promise what it has promised, and is asked again. The member that leads, by
//!   Ω, asks for a higher epoch then. Planted bugs `PROMISE_ONCE`, `WAIT_TO_BE_ASKED`.
//!
//! [`Multicast::asks`]: crate::amcast::Multicast::asks

use super::transfer::Promise;
use super::turns::Turns;
use super::wire::{Held, Logged, Part, Told};
use super::{Beginning, Machine, Phase, PrimcastWire};
use crate::amcast::bugs::Bug;
use crate::amcast::{FOUNDER, Host, Members, Pid, Timestamp, To};
use crate::planted::Planting;
use alloc::vec::Vec;
use base::{Ballot, Instant, Rank};
use core::mem;

impl<P: Planting<Bug>> Machine<P> {
    /// Lines 57 to 60: Ω names this process.
    pub(super) fn stand<H: Host<PrimcastWire>>(&mut self, now: Instant, host: &mut H) {
        let leads = matches!(self.office.phase, Phase::Primary | Phase::Candidate);
        let stands = self.office.trusted == Some(self.me.rank) && self.may_lead();
        if !stands || leads && !self.is_overtaken() {
            return;
        }
        self.seat.change.keep_members();
        self.run(self.newest_promise(), now, host);
    }

    /// Asks for promises of an epoch above `floor`.
    pub(super) fn run<H: Host<PrimcastWire>>(&mut self, floor: Ballot, now: Instant, host: &mut H) {
        self.say(Vec::new(), host); // under the promise that it was acknowledged under
        self.office.enter(Phase::Candidate, now);
        let epoch = Ballot::above(floor.max(self.office.promised), self.me.rank);
        self.transfer.forget_promises();
        self.office.promised = epoch;
        let asks = PrimcastWire::NewEpoch { epoch, held: self.held() };
        host.send(To::Groups(self.me.group.alone()), &asks);
        let promise = self.own_promise();
        self.transfer.promises.insert(self.me.rank, promise);
        self.establish(now, host);
    }

    /// Lines 61 to 64.
    pub(super) fn on_new_epoch<H: Host<PrimcastWire>>(
        &mut self,
        from: Pid,
        epoch: Ballot,
        held: Held,
        now: Instant,
        host: &mut H,
    ) {
        let Some(leader) = epoch.proposer() else { return };
        if self.has_parted_from(from.rank) {
            // The sender does not know that it was removed, and would disturb for ever.
            let incarnation = self.clocks[self.me.group.index()].seats.heard(from.rank);
            host.send(To::One(from), &PrimcastWire::Parted(incarnation));
            return;
        }
        if epoch < self.office.promised {
            // Its candidate would wait for ever: the higher epoch's may be dead.
            self.tell_promised(from, host);
            return;
        }
        if epoch > self.office.promised {
            self.say(Vec::new(), host); // under the promise that it was acknowledged under
            self.office.enter(Phase::Promised, now);
            self.office.promised = epoch;
            self.transfer.forget_promises();
        } else if self.office.current == epoch {
            // The process has promised, and a host skipped its promise or the answer; or it is in
            // the epoch, which has begun here, and the ACCEPTs of others died with them.
            let lacks = held.epoch < epoch || held.epoch == epoch && self.office.has_begun;
            if lacks && !self.planted.has(Bug::PromiseOnce) {
                self.tell_beginning(from.rank, held, host);
            }
            return;
        } else if from.rank != leader {
            return;
        }
        if leader == self.me.rank {
            // An earlier life of this seat asked for it: that epoch has no leader any longer.
            return;
        }
        // If another than its leader sent it, the leader's log is unknown: the leader asks.
        let held = if from.rank == leader { held } else { self.held() };
        self.say_promise(epoch, leader, self.held().shared_with(held), host);
    }

    /// Sends another member this process's promise.
    fn tell_promised<H: Host<PrimcastWire>>(&self, to: Pid, host: &mut H) {
        let (epoch, held) = (self.office.promised, self.held());
        host.send(To::One(to), &PrimcastWire::NewEpoch { epoch, held });
    }

    /// Lines 65 to 69.
    pub(super) fn on_promise<H: Host<PrimcastWire>>(
        &mut self,
        from: Pid,
        epoch: Ballot,
        (promise, part): (Promise, &Part),
        now: Instant,
        host: &mut H,
    ) {
        if epoch != self.office.promised {
            return;
        }
        if self.office.current == epoch {
            return self.tell_beginning(from.rank, promise.held, host);
        }
        if self.office.phase == Phase::Candidate {
            self.gather(from.rank, promise, part);
            self.establish(now, host);
        }
    }

    /// Lines 66 to 69, once enough have promised: a quorum of the members of the newest epoch that
    /// any of the promises has accepted (P20).
    pub(super) fn establish<H: Host<PrimcastWire>>(&mut self, now: Instant, host: &mut H) {
        let promises = &self.transfer.promises;
        let Some(newest) = promises.values().max_by_key(|promise| promise.held.epoch) else {
            return;
        };
        let (source, of, planted) = (newest.held.epoch, newest.members, self.planted);
        let present = if planted.has(Bug::OlderMembers) { self.seat.members } else { of };
        let Some(members) = self.next_members(source, present) else { return };
        if !members.has(self.me.rank, self.seat.incarnation) {
            self.transfer.forget_promises();
            self.office.enter(Phase::Promised, now);
            return;
        }
        let rank_of = |promise: &Promise| {
            let (held, length) = (promise.held.epoch, promise.length);
            let epoch = if planted.has(Bug::AnyEpochState) { Ballot::NONE } else { held };
            let length = if planted.has(Bug::ShortestState) { u64::MAX - length } else { length };
            (epoch, length)
        };
        // Of equal ones the own is taken, which is here.
        let promises = self.transfer.promises.iter();
        let newest = promises.max_by_key(|(rank, of)| (rank_of(of), **rank == self.me.rank));
        let newest = *newest.expect("a quorum is not empty").0;
        if self.asks_for_more(newest, host) {
            return; // P23
        }
        let epoch = self.office.promised;
        let promises = mem::take(&mut self.transfer.promises);
        self.transfer.forget_promises();
        let clock = if planted.has(Bug::OwnClockOnly) {
            self.clock
        } else {
            promises.values().map(|promise| promise.clock).max().unwrap_or_default()
        };
        let Promise { held, length, floor, log, .. } = promises[&newest].clone();
        let changes = members != present;
        let since = if changes { epoch } else { members.since };
        let from = if changes { clock } else { members.from };
        let members = Members { since, from, ..members };
        let (part, has_begun) = (Part::default(), false);
        let floor = floor.max(self.log.floor);
        let beginning =
            Beginning { epoch, length, floor, source: held, part, clock, members, has_begun };
        let log = self.joined(log);
        self.tell_beginnings(&beginning, &promises, &log, host);
        self.enter_epoch(&beginning, &log, now, host);
    }

    /// Lines 70 to 74.
    pub(super) fn on_new_state<H: Host<PrimcastWire>>(
        &mut self,
        beginning: &Beginning,
        now: Instant,
        host: &mut H,
    ) {
        let epoch = beginning.epoch;
        // A newcomer receives epochs for which it had no NEW-EPOCH.
        let is_late = epoch > self.office.promised && self.seat.change.is_joining();
        let is_seated = beginning.members.has(self.me.rank, self.seat.incarnation);
        if let Some(rank) = epoch.proposer().filter(|_| epoch > self.office.promised && !is_late) {
            // A host skipped its NEW-EPOCH: the epoch is promised first.
            let from = Pid { group: self.me.group, rank };
            return self.on_new_epoch(from, epoch, beginning.source, now, host);
        }
        if epoch != self.office.promised && !is_late || !is_seated {
            return;
        }
        if epoch == self.office.current {
            // The message is a repetition: the ACCEPT was lost.
            let group = self.me.group.alone();
            let report = self.report(group);
            host.send(To::Groups(group), &PrimcastWire::Accept { epoch, report });
            if beginning.has_begun {
                self.begin(now, host);
            }
            return;
        }
        let Some(log) = self.gather_state(beginning, host) else { return };
        if is_late {
            self.office.enter(Phase::Promised, now);
            self.office.promised = epoch;
        }
        self.enter_epoch(beginning, &log, now, host);
    }

    /// Lines 71 to 74: enters the epoch, whose state is here.
    fn enter_epoch<H: Host<PrimcastWire>>(
        &mut self,
        beginning: &Beginning,
        log: &[Told],
        now: Instant,
        host: &mut H,
    ) {
        let epoch = beginning.epoch;
        (self.office.current, self.office.has_begun) = (epoch, false);
        self.note_source(beginning.source);
        self.take_members(beginning.members);
        self.said.acked_upto = Timestamp::ZERO;
        self.clock = self.clock.max(beginning.clock);
        self.log.floor = beginning.floor.max(self.log.floor);
        self.install(beginning.length, log.iter().map(|told| (&told.logged, told.at)), now);
        self.note_replaced(None);
        self.clocks[self.me.group.index()].forget_before(epoch);
        let group = self.me.group.alone();
        let report = self.report(group);
        host.send(To::Groups(group), &PrimcastWire::Accept { epoch, report });
        self.on_accept(self.me.rank, epoch, now, host);
        if beginning.has_begun {
            self.begin(now, host);
        }
    }

    /// Replaces the log, and derives everything else from it.
    pub(super) fn install<'a>(
        &mut self,
        length: u64,
        log: impl Iterator<Item = (&'a Logged, Option<Timestamp>)> + Clone,
        now: Instant,
    ) {
        let own = log.clone().filter(|(logged, _)| logged.epoch == self.office.current);
        let highest = own.map(|(logged, _)| logged.ts).max().unwrap_or_default();
        self.log.turns = Turns::begin_after(highest);
        self.log.pending.clear();
        self.records.for_each(|record| (record.tuple, record.bound) = (None, None));
        self.log.names.clear();
        self.log.length = length;
        for (Logged { epoch, ts, message }, at) in log {
            if self.is_gone(message.id) {
                // It was delivered and forgotten here (P8); processes that have not delivered it
                // have a log.
                continue;
            }
            let record = self.record(message.id, message.dest, now);
            record.body.get_or_insert_with(|| message.clone());
            record.tuple = Some((*epoch, *ts));
            if let Some(at) = at.filter(|_| !record.is_delivered) {
                // This has the effect of FINAL: the sender has delivered it.
                record.final_at = Some(at);
                self.clock = self.clock.max(at);
                self.report_at_least(at, self.me.group.alone());
            }
            self.log.names.push(message.id);
            self.expect(message.id, *ts);
        }
    }

    /// Lines 75 to 81.
    pub(super) fn on_accept<H: Host<PrimcastWire>>(
        &mut self,
        from: Rank,
        epoch: Ballot,
        now: Instant,
        host: &mut H,
    ) {
        let accepted = self.office.accept(from, epoch);
        let is_begun = self.seat.members.has_quorum(accepted)
            || self.planted.has(Bug::LeadWithoutAccepts) && self.office.phase == Phase::Candidate;
        if is_begun {
            self.begin(now, host);
        }
    }

    /// Begins the epoch, which a quorum of its members has accepted.
    fn begin<H: Host<PrimcastWire>>(&mut self, now: Instant, host: &mut H) {
        if self.office.current != self.office.promised || self.has_lost(self.office.current) {
            return;
        }
        match self.office.phase {
            Phase::Promised => self.office.enter(Phase::Follower, now),
            Phase::Candidate => self.office.enter(Phase::Primary, now),
            Phase::Primary | Phase::Follower => return,
        }
        self.office.has_begun = true;
        self.be_seated();
        self.tell_later(now);
        if self.office.phase == Phase::Primary {
            self.log.unproposed = self.records.names(|_, record| record.body.is_some());
        }
        let chosen_before =
            Some(self.seat.members.since).filter(|_| !self.planted.has(Bug::NeverChosen));
        for id in self.log.names.clone() {
            let record = self.records.known(id);
            let tuple = record.tuple.expect("it stands in the log");
            if chosen_before.is_some_and(|since| tuple.0 < since) {
                record.choose(self.me.group, tuple.0, tuple.1);
            }
            // Acknowledges by name: the primary that proposed it may have died before it told all
            // processes.
            let is_untold = record.named != Some(tuple.0) && !record.is_delivered;
            let (dest, is_delivered) = (record.dest, record.is_delivered);
            // A process that delivered it tells where (FINAL): this one's acknowledgement is not
            // needed.
            let is_final = record.final_at.is_some() && !is_delivered;
            if !is_final && (record.acked != Some(tuple.0) || is_untold) {
                self.acknowledge(id, host);
            }
            if self.office.phase == Phase::Primary && !is_delivered {
                self.ask_all_groups(dest, tuple.1, host);
            }
        }
        if self.office.phase == Phase::Primary && !self.planted.has(Bug::NoReportOfNewPrimary) {
            // Its reports as a candidate proved nothing to other groups. (The own group has the
            // clock from ACCEPT: there the new epoch itself is the proof.)
            self.report_to(self.said.audience.without(self.me.group), host);
        }
    }

    /// Repeats what was reported, and requests it again: the process that was asked may have
    /// crashed, and come back without it (P12).
    fn ask_again<H: Host<PrimcastWire>>(&self, host: &mut H) {
        let epoch = self.office.promised;
        let again = if self.office.current < epoch {
            PrimcastWire::NewEpoch { epoch, held: self.held() }
        } else {
            PrimcastWire::NewState(self.beginning(self.held().upto))
        };
        host.send(To::Groups(self.me.group.alone()), &again);
    }

    /// The newest epoch that a member is known to have promised.
    fn newest_promise(&self) -> Ballot {
        self.clocks[self.me.group.index()].newest_promise(self.seat.members.voters)
    }

    /// Whether the NEW-EPOCH of a newer epoch did not come here: a host has skipped it, or it is on
    /// its way.
    pub(super) fn is_overtaken(&self) -> bool {
        self.newest_promise() > self.office.promised && !self.planted.has(Bug::WaitToBeAsked)
    }

    /// Whether this process does not have the role that Ω, or another member, gives it.
    pub(super) fn is_unsettled(&self) -> bool {
        match self.office.phase {
            Phase::Primary => self.is_overtaken(),
            Phase::Follower => {
                let leads = |leader| self.office.current.proposer() == Some(leader);
                self.is_overtaken() || self.office.trusted.is_some_and(|leader| !leads(leader))
            }
            Phase::Promised | Phase::Candidate => true,
        }
    }

    /// Repeats an epoch that does not begin, or follows a choice of Ω that was overtaken.
    pub(super) fn mend_epoch<H: Host<PrimcastWire>>(&mut self, now: Instant, host: &mut H) {
        if self.office.since.plus(self.config.patience) > now {
            return;
        }
        if self.is_unsettled() {
            self.office.since = now;
            if self.mend_transfer(host) {
                return;
            }
            if self.office.phase == Phase::Candidate {
                self.give_up_change(now, host);
            }
            if self.office.phase == Phase::Candidate {
                self.ask_again(host);
            }
            self.stand(now, host);
            if self.is_overtaken()
                && let Some(rank) = self.newest_promise().proposer()
                && rank != self.me.rank
            {
                // The candidate repeats its request.
                self.tell_promised(Pid { group: self.me.group, rank }, host);
            }
            // Ω's choice may still take itself for the leader, in an epoch that was overtaken by
            // one whose leader died before its NEW-EPOCH reached all members.
            if let Some(leader) = self.office.trusted.filter(|leader| *leader != self.me.rank) {
                let to = Pid { group: self.me.group, rank: leader };
                self.tell_promised(to, host);
                // An epoch that was promised in this life can be followed. To ask for another would
                // stop each that takes longer to begin than a patience.
                let is_of_before = self.office.promised <= self.office.returned;
                if self.office.phase == Phase::Promised && is_of_before {
                    host.send(To::One(to), &PrimcastWire::Stand(self.office.promised));
                }
                if self.office.phase == Phase::Promised && self.seat.incarnation > FOUNDER {
                    // NEW-STATE may have been sent before its sender met this incarnation (T4).
                    let (incarnation, promised) = (self.seat.incarnation, self.office.promised);
                    host.send(To::One(to), &PrimcastWire::Join { incarnation, promised });
                }
            }
        }
    }
}
