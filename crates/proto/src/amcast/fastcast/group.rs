//! The change of a group's leader, without loss of decisions.

use super::{Entry, Fastcast, FastcastWire, Role, clock_after};
use crate::amcast::bugs::Bug;
use crate::amcast::{Host, Message, Pid, Timestamp, To};
use crate::planted::Planting;
use alloc::sync::Arc;
use alloc::vec::Vec;
use base::{Ballot, Instant, Rank, majority};
use core::mem;

/// The epoch of a log, the log, and its messages.
pub(super) type Promise = (Ballot, Vec<Entry>, Vec<Arc<Message>>);

impl<P: Planting<Bug>> Fastcast<P> {
    fn promise(&self) -> Promise {
        let body = |entry: &Entry| match entry {
            Entry::Hard { id, .. } => self.records[id].body.clone(),
            Entry::Sync(_) => None,
        };
        (self.current, self.log.clone(), self.log.iter().filter_map(body).collect())
    }

    /// Notes that Ω names this process.
    pub(super) fn stand<H: Host<FastcastWire>>(&mut self, now: Instant, host: &mut H) {
        let is_candidate =
            self.role == Role::Waiting && self.promised.proposer() == Some(self.me.rank);
        if self.trusted != Some(self.me.rank) || self.role == Role::Leader || is_candidate {
            return;
        }
        self.role = Role::Waiting;
        self.since = now;
        self.promised = Ballot::above(self.promised, self.me.rank);
        self.promises.clear();
        let epoch = self.promised;
        host.send(To::Groups(self.me.group.alone()), &FastcastWire::NewEpoch(epoch));
        let promise = self.promise();
        self.on_promise(self.me.rank, epoch, promise, now, host);
    }

    pub(super) fn on_new_epoch<H: Host<FastcastWire>>(
        &mut self,
        from: Pid,
        epoch: Ballot,
        now: Instant,
        host: &mut H,
    ) {
        let Some(leader) = epoch.proposer() else { return };
        if epoch < self.promised {
            host.send(To::One(from), &FastcastWire::NewEpoch(self.promised));
            return;
        }
        if epoch == self.promised || leader == self.me.rank {
            return;
        }
        self.role = Role::Waiting;
        self.since = now;
        self.promised = epoch;
        self.waiting.clear();
        let (current, log, bodies) = self.promise();
        let promise = FastcastWire::Promise { epoch, current, log, bodies };
        host.send(To::One(Pid { group: self.me.group, rank: leader }), &promise);
    }

    pub(super) fn on_promise<H: Host<FastcastWire>>(
        &mut self,
        from: Rank,
        epoch: Ballot,
        promise: Promise,
        now: Instant,
        host: &mut H,
    ) {
        let is_awaited = self.role == Role::Waiting
            && epoch == self.promised
            && epoch.proposer() == Some(self.me.rank)
            && self.current < epoch;
        if !is_awaited {
            return;
        }
        self.promises.insert(from, promise);
        if self.promises.len() < self.config.layout.quorum(self.me.group) {
            return;
        }
        let promises = mem::take(&mut self.promises);
        let newest = promises.into_values().max_by_key(|(current, log, _)| (*current, log.len()));
        let (_, log, bodies) = newest.expect("a quorum is not empty");
        let state = FastcastWire::NewState { epoch, log: log.clone(), bodies: bodies.clone() };
        host.send(To::Groups(self.me.group.alone()), &state);
        self.on_new_state(epoch, &log, &bodies, now, host);
    }

    pub(super) fn on_new_state<H: Host<FastcastWire>>(
        &mut self,
        epoch: Ballot,
        log: &[Entry],
        bodies: &[Arc<Message>],
        now: Instant,
        host: &mut H,
    ) {
        if epoch != self.promised || epoch <= self.current {
            return;
        }
        // A mutant's decisions may be lost.
        assert!(
            log.get(..self.applied) == Some(&self.log[..self.applied])
                || self.planted.has(Bug::CommitWithoutQuorum),
            "F2: what is applied stays"
        );
        self.current = epoch;
        self.since = now;
        self.waiting.clear();
        for message in bodies {
            self.learn(message, now);
        }
        for record in self.records.values_mut() {
            record.is_logged = false;
        }
        self.log.clear();
        self.ahead = Timestamp::ZERO;
        for entry in log {
            self.ahead = clock_after(self.ahead, entry);
            if let Entry::Hard { id, dest, .. } = entry {
                self.record(*id, *dest, now).is_logged = true;
            }
            self.log.push(entry.clone());
        }
        let open = self.records.iter().filter(|(_, one)| one.body.is_some() && !one.is_logged);
        self.unproposed = open.map(|(id, _)| *id).collect();
        if epoch.proposer() != Some(self.me.rank) {
            self.role = Role::Follower;
        }
        self.say_accepted(host);
    }

    /// A candidate whose log a quorum has accepted leads.
    pub(super) fn begin<H: Host<FastcastWire>>(&mut self, now: Instant, host: &mut H) {
        let is_candidate = self.role == Role::Waiting
            && self.current == self.promised
            && self.current.proposer() == Some(self.me.rank);
        let has_accepted = |(epoch, _): &&(Ballot, u64)| *epoch == self.current;
        let n_accepted = self.accepted.iter().filter(has_accepted).count();
        if !is_candidate || n_accepted < majority(self.accepted.len()) {
            return;
        }
        self.role = Role::Leader;
        self.since = now;
        // The former leader may have told only some: decisions are sent again, and clocks that wait
        // for a sync entry get one.
        let own = self.me.group;
        let known: Vec<_> = self
            .records
            .iter()
            .map(|(id, record)| {
                (*id, record.dest, record.hard.get(&own).copied(), record.final_ts())
            })
            .collect();
        for (id, dest, hard, final_ts) in known {
            if let Some(ts) = hard {
                let others = dest.without(own);
                host.send(To::Groups(others), &FastcastWire::Hard { id, dest, ts });
            }
            if let Some(ts) = final_ts {
                self.sync(ts, host);
            }
        }
    }

    /// Whether this process does not have the role that Ω gives it.
    pub(super) fn is_unsettled(&self) -> bool {
        match self.role {
            Role::Leader => false,
            Role::Follower => {
                self.trusted.is_some_and(|leader| self.current.proposer() != Some(leader))
            }
            Role::Waiting => true,
        }
    }

    /// Repeats a change of leaders that does not end, or follows a choice of Ω that was overtaken.
    pub(super) fn mend<H: Host<FastcastWire>>(&mut self, now: Instant, host: &mut H) {
        if !self.is_unsettled() || self.since.plus(self.config.patience) > now {
            return;
        }
        self.since = now;
        self.stand(now, host);
        if let Some(leader) = self.trusted.filter(|leader| *leader != self.me.rank) {
            let to = Pid { group: self.me.group, rank: leader };
            host.send(To::One(to), &FastcastWire::NewEpoch(self.promised));
        }
    }
}
