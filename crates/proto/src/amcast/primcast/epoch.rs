//! Algorithm 3: how a group changes its primary.

use super::turns::Turns;
use super::{Beginning, Logged, Machine, Phase, PrimcastWire, Promise};
use crate::amcast::variant::Variant;
use crate::amcast::{FOUNDER, Host, Members, Pid, Timestamp, To};
use alloc::vec::Vec;
use base::{Ballot, Instant, MemberSet, Rank};
use core::mem;

impl<V: Variant> Machine<V> {
    /// Lines 57 to 60: Ω names this process.
    pub(super) fn stand<H: Host<PrimcastWire>>(&mut self, now: Instant, host: &mut H) {
        let leads = matches!(self.phase, Phase::Primary | Phase::Candidate);
        if self.trusted != Some(self.me.rank) || leads || !self.may_lead() {
            return;
        }
        self.changing = None;
        self.run(self.promised, now, host);
    }

    /// Asks for promises of an epoch above `floor`.
    pub(super) fn run<H: Host<PrimcastWire>>(&mut self, floor: Ballot, now: Instant, host: &mut H) {
        self.say(Vec::new(), host); // under the promise that it was acknowledged under
        self.enter(Phase::Candidate, now);
        let epoch = Ballot::above(floor.max(self.promised), self.me.rank);
        self.promises.clear();
        self.promised = epoch;
        host.send(To::Groups(self.me.group.alone()), &PrimcastWire::NewEpoch(epoch));
        let promise = self.promise();
        self.on_promise(self.me.rank, epoch, promise, now, host);
    }

    pub(super) fn promise(&self) -> Promise {
        let log = self.log.iter().map(|id| {
            let record = self.records.get(*id).expect("it stands in the log");
            let (epoch, ts) = record.tuple.expect("it stands in the log");
            let message = record.body.clone().expect("P2: what stands in the log is here");
            Logged { epoch, ts, message }
        });
        Promise {
            clock: self.clock,
            current: self.current,
            members: self.members,
            length: self.log_length,
            floor: self.floor(),
            log: log.collect(),
        }
    }

    /// Lines 61 to 64.
    pub(super) fn on_new_epoch<H: Host<PrimcastWire>>(
        &mut self,
        from: Pid,
        epoch: Ballot,
        now: Instant,
        host: &mut H,
    ) {
        let Some(leader) = epoch.proposer() else { return };
        if self.has_parted_from(from.rank) {
            // It does not know, and would disturb for ever.
            let incarnation = self.clocks[self.me.group.index()].seats.heard(from.rank);
            host.send(To::One(from), &PrimcastWire::Parted(incarnation));
            return;
        }
        if epoch < self.promised {
            // Its candidate would wait for ever: the higher epoch's may be dead.
            host.send(To::One(from), &PrimcastWire::NewEpoch(self.promised));
            return;
        }
        if epoch > self.promised {
            self.say(Vec::new(), host); // under the promise that it was acknowledged under
            self.enter(Phase::Promised, now);
            self.promised = epoch;
        } else if self.current == epoch || from.rank != leader {
            return;
        }
        if leader == self.me.rank {
            // An earlier life of this seat asked for it: nobody leads it any more.
            return;
        }
        let Promise { clock, current, members, length, floor, log } = self.promise();
        let to = Pid { group: self.me.group, rank: leader };
        let promise = PrimcastWire::Promise { epoch, clock, current, members, length, floor, log };
        host.send(To::One(to), &promise);
    }

    /// Lines 65 to 69.
    pub(super) fn on_promise<H: Host<PrimcastWire>>(
        &mut self,
        from: Rank,
        epoch: Ballot,
        promise: Promise,
        now: Instant,
        host: &mut H,
    ) {
        let is_awaited = self.phase == Phase::Candidate
            && epoch == self.promised
            && self.current < self.promised;
        if !is_awaited {
            return;
        }
        self.promises.insert(from, promise);
        self.establish(now, host);
    }

    /// Lines 66 to 69, once enough have promised: those members' quorum whose epoch is the newest
    /// that any of them has accepted (P20).
    pub(super) fn establish<H: Host<PrimcastWire>>(&mut self, now: Instant, host: &mut H) {
        let Some(newest) = self.promises.values().max_by_key(|promise| promise.current) else {
            return;
        };
        let (source, of) = (newest.current, newest.members);
        let present = if V::OLDER_MEMBERS { self.members } else { of };
        let Some(members) = self.next_members(source, present) else { return };
        if !members.has(self.me.rank, self.incarnation) {
            self.promises.clear();
            self.enter(Phase::Promised, now);
            return;
        }
        let epoch = self.promised;
        let promises = mem::take(&mut self.promises);
        let clock = if V::OWN_CLOCK_ONLY {
            self.clock
        } else {
            promises.values().map(|promise| promise.clock).max().unwrap_or_default()
        };
        let rank_of = |promise: &Promise| {
            let epoch = if V::ANY_EPOCH_STATE { Ballot::NONE } else { promise.current };
            let length = if V::SHORTEST_STATE { u64::MAX - promise.length } else { promise.length };
            (epoch, length)
        };
        let newest = promises.into_values().max_by_key(rank_of);
        let Promise { length, floor, log, .. } = newest.expect("a quorum is not empty");
        let changes = members != present;
        let since = if changes { epoch } else { members.since };
        let from = if changes { clock } else { members.from };
        let members = Members { since, from, ..members };
        let has_begun = false;
        let beginning = Beginning { epoch, length, floor, log, clock, members, has_begun };
        host.send(To::Groups(self.me.group.alone()), &PrimcastWire::NewState(beginning.clone()));
        self.on_new_state(&beginning, now, host);
    }

    /// Lines 70 to 74.
    pub(super) fn on_new_state<H: Host<PrimcastWire>>(
        &mut self,
        beginning: &Beginning,
        now: Instant,
        host: &mut H,
    ) {
        let epoch = beginning.epoch;
        // Whoever wants its seat is told of epochs that it was not asked for.
        let is_late = epoch > self.promised && self.join_at.is_some();
        let is_seated = beginning.members.has(self.me.rank, self.incarnation);
        if epoch != self.promised && !is_late || !is_seated {
            return;
        }
        if epoch == self.current {
            // It is asked again: its ACCEPT was lost.
            let group = self.me.group.alone();
            let report = self.report(group);
            host.send(To::Groups(group), &PrimcastWire::Accept { epoch, report });
            if beginning.has_begun {
                self.begin(now, host);
            }
            return;
        }
        if is_late {
            self.enter(Phase::Promised, now);
            self.promised = epoch;
        }
        (self.current, self.has_begun) = (epoch, false);
        self.take_members(beginning.members);
        self.acked_upto = Timestamp::ZERO;
        self.clock = self.clock.max(beginning.clock);
        self.floor = beginning.floor.max(self.floor);
        self.install(beginning.length, &beginning.log, now);
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

    /// The log is replaced; whatever follows from it is made anew.
    pub(super) fn install(&mut self, length: u64, log: &[Logged], now: Instant) {
        let own = log.iter().filter(|logged| logged.epoch == self.current);
        let highest = own.map(|logged| logged.ts).max().unwrap_or_default();
        self.turns = Turns::begin_after(highest);
        self.pending.clear();
        self.records.for_each(|record| (record.tuple, record.bound) = (None, None));
        self.log.clear();
        self.log_length = length;
        for Logged { epoch, ts, message } in log {
            if self.is_gone(message.id) {
                // Delivered and forgotten here (P8); those who have not delivered it have a log.
                continue;
            }
            let record = self.record(message.id, message.dest, now);
            record.body.get_or_insert_with(|| message.clone());
            record.tuple = Some((*epoch, *ts));
            self.log.push(message.id);
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
        self.accepts.entry(epoch).or_default().insert(from);
        self.accepts = self.accepts.split_off(&self.promised);
        let accepted = self.accepts.get(&self.current).copied().unwrap_or(MemberSet::EMPTY);
        let is_begun = self.members.has_quorum(accepted)
            || V::LEAD_WITHOUT_ACCEPTS && self.phase == Phase::Candidate;
        if is_begun {
            self.begin(now, host);
        }
    }

    /// A quorum of the present epoch's members has accepted it.
    fn begin<H: Host<PrimcastWire>>(&mut self, now: Instant, host: &mut H) {
        if self.current != self.promised || self.has_lost(self.current) {
            return;
        }
        match self.phase {
            Phase::Promised => self.enter(Phase::Follower, now),
            Phase::Candidate => self.enter(Phase::Primary, now),
            Phase::Primary | Phase::Follower => return,
        }
        self.has_begun = true;
        self.be_seated();
        self.tell_later(now);
        if self.phase == Phase::Primary {
            self.unproposed = self.records.names(|_, record| record.body.is_some());
        }
        let chosen_before = Some(self.members.since).filter(|_| !V::NEVER_CHOSEN);
        for id in self.log.clone() {
            let record = self.records.known(id);
            let tuple = record.tuple.expect("it stands in the log");
            if chosen_before.is_some_and(|since| tuple.0 < since) {
                record.choose(self.me.group, tuple.0, tuple.1);
            }
            // By name: the primary that proposed it may have died before it told everybody.
            let is_untold = record.named != Some(tuple.0) && !record.is_delivered;
            let (dest, is_delivered) = (record.dest, record.is_delivered);
            if record.acked != Some(tuple.0) || is_untold {
                self.acknowledge(id, host);
            }
            if self.phase == Phase::Primary && !is_delivered {
                self.ask_all_groups(dest, tuple.1, host);
            }
        }
        if self.phase == Phase::Primary && !V::NO_REPORT_OF_NEW_PRIMARY {
            // What it said as a candidate proved nothing to other groups. (The own group has it
            // from ACCEPT: there the new epoch itself is the proof.)
            self.report_to(self.audience.without(self.me.group), host);
        }
    }

    /// Whoever was asked may have crashed, and come back without having heard it (P12): what was
    /// said is said again, and answered again.
    fn ask_again<H: Host<PrimcastWire>>(&self, host: &mut H) {
        let epoch = self.promised;
        let again = if self.current < epoch {
            PrimcastWire::NewEpoch(epoch)
        } else {
            PrimcastWire::NewState(self.beginning())
        };
        host.send(To::Groups(self.me.group.alone()), &again);
    }

    /// The present epoch, for somebody who is not in it yet.
    pub(super) fn beginning(&self) -> Beginning {
        let Promise { clock, members, length, floor, log, .. } = self.promise();
        let (epoch, has_begun) = (self.current, self.has_begun);
        Beginning { epoch, length, floor, log, clock, members, has_begun }
    }

    /// Whether this process is not where Ω would have it.
    pub(super) fn is_unsettled(&self) -> bool {
        match self.phase {
            Phase::Primary => false,
            Phase::Follower => {
                self.trusted.is_some_and(|leader| self.current.proposer() != Some(leader))
            }
            Phase::Promised | Phase::Candidate => true,
        }
    }

    /// An epoch that does not come to its beginning, or a choice of Ω that was overtaken.
    pub(super) fn mend_epoch<H: Host<PrimcastWire>>(&mut self, now: Instant, host: &mut H) {
        if self.phase_since.plus(self.config.patience) > now {
            return;
        }
        if self.is_unsettled() {
            self.phase_since = now;
            if self.phase == Phase::Candidate {
                self.give_up_change(now, host);
            }
            if self.phase == Phase::Candidate {
                self.ask_again(host);
            }
            self.stand(now, host);
            // Ω's choice may believe to lead, in an epoch that was overtaken by one whose leader
            // died before its NEW-EPOCH reached everybody.
            if let Some(leader) = self.trusted.filter(|leader| *leader != self.me.rank) {
                let to = Pid { group: self.me.group, rank: leader };
                host.send(To::One(to), &PrimcastWire::NewEpoch(self.promised));
                if self.phase == Phase::Promised && self.lost > Ballot::NONE {
                    host.send(To::One(to), &PrimcastWire::Stand(self.promised));
                }
                if self.phase == Phase::Promised && self.incarnation > FOUNDER {
                    // NEW-STATE may have been said before its sender met this incarnation (T4).
                    let (incarnation, promised) = (self.incarnation, self.promised);
                    host.send(To::One(to), &PrimcastWire::Join { incarnation, promised });
                }
            }
        }
    }
}
