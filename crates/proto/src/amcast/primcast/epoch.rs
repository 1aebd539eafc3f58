//! Algorithm 3: how a group changes its primary.

use super::{Logged, Machine, Phase, PrimcastWire, Promise};
use crate::amcast::variant::Variant;
use crate::amcast::{Host, Pid, Place, Timestamp, To};
use alloc::vec::Vec;
use base::{Ballot, Instant, MemberSet, Rank};
use core::mem;

impl<V: Variant> Machine<V> {
    /// Lines 57 to 60: Ω names this process.
    pub(super) fn stand<H: Host<PrimcastWire>>(&mut self, now: Instant, host: &mut H) {
        let leads = matches!(self.phase, Phase::Primary | Phase::Candidate);
        if self.trusted != Some(self.me.rank) || leads {
            return;
        }
        self.say(Vec::new(), host); // under the promise that it was acknowledged under
        self.enter(Phase::Candidate, now);
        let epoch = Ballot::above(self.promised, self.me.rank);
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
        if epoch < self.promised {
            // Its candidate would wait for ever: the higher epoch's may be dead.
            host.send(To::One(from), &PrimcastWire::NewEpoch(self.promised));
            return;
        }
        if epoch == self.promised || leader == self.me.rank {
            return;
        }
        self.say(Vec::new(), host); // under the promise that it was acknowledged under
        self.enter(Phase::Promised, now);
        self.promised = epoch;
        let Promise { clock, current, length, floor, log } = self.promise();
        let to = Pid { group: self.me.group, rank: leader };
        let promise = PrimcastWire::Promise { epoch, clock, current, length, floor, log };
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
        if self.promises.len() < self.config.layout.quorum(self.me.group) {
            return;
        }
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
        let state = PrimcastWire::NewState { epoch, length, floor, log: log.clone(), clock };
        host.send(To::Groups(self.me.group.alone()), &state);
        self.on_new_state(epoch, (length, floor), &log, clock, now, host);
    }

    /// Lines 70 to 74.
    pub(super) fn on_new_state<H: Host<PrimcastWire>>(
        &mut self,
        epoch: Ballot,
        (length, floor): (u64, Place),
        log: &[Logged],
        clock: Timestamp,
        now: Instant,
        host: &mut H,
    ) {
        if epoch != self.promised || epoch <= self.current {
            return;
        }
        self.current = epoch;
        self.acked_upto = Timestamp::ZERO;
        self.clock = self.clock.max(clock);
        self.floor = floor.max(self.floor);
        self.install(length, log, now);
        self.clocks[self.me.group.index()].forget_before(epoch);
        let group = self.me.group.alone();
        let report = self.report(group);
        host.send(To::Groups(group), &PrimcastWire::Accept { epoch, report });
        self.on_accept(self.me.rank, epoch, now, host);
    }

    /// The log is replaced; whatever follows from it is made anew.
    fn install(&mut self, length: u64, log: &[Logged], now: Instant) {
        self.waiting.clear();
        self.pending.clear();
        self.records.for_each(|record| {
            (record.tuple, record.bound, record.waits) = (None, None, false);
        });
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
        let members = self.config.layout.members(self.me.group);
        let is_begun = accepted.is_majority_of(members)
            || V::LEAD_WITHOUT_ACCEPTS && self.phase == Phase::Candidate;
        if self.current != self.promised || !is_begun {
            return;
        }
        match self.phase {
            Phase::Promised => self.enter(Phase::Follower, now),
            Phase::Candidate => self.enter(Phase::Primary, now),
            Phase::Primary | Phase::Follower => return,
        }
        if self.phase == Phase::Primary {
            self.unproposed = self.records.names(|_, record| record.body.is_some());
        }
        for id in self.log.clone() {
            let record = self.records.known(id);
            let tuple = record.tuple.expect("it stands in the log");
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
            self.stand(now, host);
            // Ω's choice may believe to lead, in an epoch that was overtaken by one whose leader
            // died before its NEW-EPOCH reached everybody.
            if let Some(leader) = self.trusted.filter(|leader| *leader != self.me.rank) {
                let to = Pid { group: self.me.group, rank: leader };
                host.send(To::One(to), &PrimcastWire::NewEpoch(self.promised));
            }
        }
    }
}
