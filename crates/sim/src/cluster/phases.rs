//! The phases of a run of a cluster, and its final judgement.

use super::client::{Client, check_lists, forget_what_never_came};
use super::world::{N_LIVE, World};
use crate::checks::linearizable;
use crate::coverage::Mark;
use crate::plan::MS;
use crate::queue::Happening;
use crate::trace::{Topic, Trace};
use crate::world::Phase;
use crate::{Outcome, Property};
use check::End;

/// The time that the cluster gets before it must serve.
const HEALING_NS: u64 = 3_000 * MS;
/// The same, in a run of a day.
const IDLE_NS: u64 = 3 * 3_600_000 * MS;
/// The time that it may then take to answer each client.
const LIVENESS_NS: u64 = 8_000 * MS;

impl World {
    pub(super) fn on_phase(&mut self) {
        match self.phase {
            Phase::Safety => {
                self.phase = Phase::Healing;
                self.heal();
                self.push_in(self.healing_ns(), Happening::Phase);
            }
            Phase::Healing => {
                self.phase = Phase::Liveness;
                self.mend_copies();
                // (Where every disk has to have a write, a member that is away keeps writes back.)
                self.aims.is_to_depose = self.outlives_leaders()
                    && !self.waits_for_all
                    && self.kind.protocol.replicas().is_none()
                    && !self.plan.lasts_a_day();
                self.aims.is_to_hide = self.aims.is_to_hide && self.aims.is_to_depose;
                self.clients.iter_mut().for_each(|client| {
                    (client.counts.n_live, client.counts.n_refused) = (0, 0);
                });
                self.plan_last_reads();
                if self.plan.lasts_a_day() {
                    self.rouse();
                }
                self.push_in(LIVENESS_NS * self.plan.pace, Happening::Phase);
            }
            Phase::Liveness if self.aims.silence.lasts_until(self.now()).is_some() => return,
            Phase::Liveness | Phase::Over => {
                if let Some(detail) = self.unachieved() {
                    self.violate(Property::Liveness, detail);
                } else if let Some(detail) = self.differing() {
                    self.violate(Property::Digest, detail);
                }
                self.phase = Phase::Over;
            }
        }
        let net = &mut *self.net.borrow_mut();
        net.trace.record(net.queue.now(), 0, Topic::Phase, self.phase as u64, 0);
    }

    /// Ends the clients' rests.
    fn rouse(&mut self) {
        let now = self.now();
        for client in 0..self.clients.len() {
            self.clients[client].asks_at = now;
            self.wake_client(client, now + 1);
        }
    }

    /// The time that the cluster gets before it must serve. In a run of a day sessions and keys
    /// that no client uses expire meanwhile.
    fn healing_ns(&self) -> u64 {
        if self.plan.lasts_a_day() { IDLE_NS } else { HEALING_NS }
    }

    /// I5: plans the last reads, by client and member.
    fn plan_last_reads(&mut self) {
        let seated: Vec<usize> = self.seated().collect();
        let keys = self.talk.shared_keys(self.clients.len());
        self.last_reads.plan(keys, seated.into_iter());
    }

    /// A client without all the answers that are required (I5).
    fn laggard(&self) -> Option<&Client> {
        let lacks = |client: &&Client| {
            client.counts.n_live < N_LIVE
                || client.n_waiting() > 0
                || self.last_reads.n_left(client.id as usize) > 0
        };
        self.clients.iter().find(lacks)
    }

    fn executed(&self, node: usize) -> Option<Vec<u64>> {
        self.members[node].as_ref().map(|member| member.executed())
    }

    /// A member that has not executed what the first one has (I5).
    fn straggler(&self) -> Option<usize> {
        let of_first = self.executed(self.seated().next()?);
        self.seated().find(|node| self.executed(*node) != of_first)
    }

    /// A member at which more connections are open than there are clients (I8).
    fn leak(&self) -> Option<String> {
        let n_connected = self.clients.iter().filter(|client| client.connection.is_some()).count();
        let n_open = |node: usize| self.members[node].as_ref().and_then(|member| member.n_open());
        self.seated().find_map(|node| {
            let n = n_open(node).filter(|n| *n > n_connected)?;
            Some(format!("r{node} has {n} connections open, of {n_connected} clients"))
        })
    }

    /// I21: a member whose verdicts count other members than those that are in, in words.
    fn miscounted(&self) -> Option<String> {
        let all = self.seats.members().all();
        self.seated().find_map(|node| {
            let compared = self.members[node].as_ref()?.compared()?;
            (compared != all)
                .then(|| format!("r{node} compares the copies of {compared:?}, not of {all:?}"))
        })
    }

    /// I5: the missing part, in words.
    fn unachieved(&self) -> Option<String> {
        if let Some(client) = self.laggard() {
            let say = |node: usize| {
                let view = self.members[node].as_ref().map(|member| member.view());
                view.map_or("dead".to_owned(), |view| {
                    format!(
                        "r{node} {:?} of {:?}, {} of {} executed",
                        view.role, view.trusted, view.applied, view.committed
                    )
                })
            };
            let members: Vec<String> = (0..self.plan.members).map(say).collect();
            return Some(format!(
                "client {} of {:?} has {} answers, waits for {} and has {} to read; {}",
                client.id,
                client.connection,
                client.counts.n_live,
                client.n_waiting(),
                self.last_reads.n_left(client.id as usize),
                members.join("; ")
            ));
        }
        if let Some(detail) = self.unachieved_goal().or_else(|| self.ghost()) {
            return Some(detail);
        }
        if let Some(detail) = self.open_request() {
            return Some(detail);
        }
        if let Some(detail) = self.leak().or_else(|| self.deviant()).or_else(|| self.miscounted()) {
            return Some(detail);
        }
        let node = self.straggler()?;
        let first = self.seated().next()?;
        let executed = |node| match self.executed(node) {
            Some(n) => format!("r{node} has executed {n:?}"),
            None => format!("r{node} is dead"),
        };
        Some(format!("{}, {}", executed(first), executed(node)))
    }

    /// Continues when the liveness phase has all that it requires: the leader dies once more,
    /// during requests, and the same is required again (I6).
    pub(super) fn finish_early(&mut self) {
        let is_asked_for = self.phase == Phase::Liveness && !self.aims.deposes && !self.is_silent();
        if is_asked_for && self.laggard().is_none() && self.unhide() {
            return;
        }
        let is_settled = || {
            self.unachieved_goal().is_none()
                && self.ghost().is_none()
                && self.leak().is_none()
                && self.deviant().is_none()
                && self.miscounted().is_none()
        };
        if !is_asked_for || self.laggard().is_some() || self.straggler().is_some() || !is_settled()
        {
            return;
        }
        if let Some(detail) = self.differing() {
            return self.violate(Property::Digest, detail);
        }
        if std::mem::take(&mut self.aims.is_to_hide) && self.hide() {
            return;
        }
        if self.aims.is_to_depose {
            self.aims.is_to_depose = false;
            self.aims.deposes = true;
            let soon = self.outages.rng.below(20 * MS);
            self.push_in(soon, Happening::Depose);
            self.clients.iter_mut().for_each(|client| client.counts.n_live = 0);
            let now = self.now();
            (0..self.clients.len()).for_each(|client| self.wake_client(client, now + 1));
            return;
        }
        if !self.begin_silence() {
            self.phase = Phase::Over;
        }
    }

    /// Judges the properties of a whole history.
    pub(super) fn judge(mut self) -> Outcome {
        (0..self.plan.members).for_each(|node| self.cover(node));
        let count = |of: fn(&Client) -> u32| self.clients.iter().map(of).sum::<u32>();
        let (n_transactions, n_touched) =
            (count(|client| client.counts.n_transactions), count(|client| client.counts.n_touched));
        let reached = [
            (Mark::TransactionExecuted, n_transactions),
            (Mark::WatchedKeyTouched, n_touched),
            (Mark::CallRepeated, count(|client| client.caller.n_repeated)),
            (Mark::CallEchoed, count(|client| client.caller.n_echoes)),
            (Mark::ScriptByName, self.talk.scripts.n_by_name),
            (Mark::SessionExpired, self.talk.calls.n_expired),
            (Mark::AllFlushed, self.talk.wipes.n_sent),
        ];
        for (mark, _) in reached.into_iter().filter(|(_, n)| *n > 0) {
            self.net.borrow_mut().coverage.hit(mark);
        }
        let mut history = std::mem::take(&mut self.talk.recorder).finish();
        let mut is_judged = true;
        if self.net.borrow().violation.is_none() {
            // I2
            if let Err(detail) = check_lists(&history) {
                self.violate(Property::Order, detail);
            }
            // I12
            match self.talk.leases.check() {
                Ok((n_gone, n_executed)) => {
                    let coverage = &mut self.net.borrow_mut().coverage;
                    let reached = [(Mark::KeySeenGone, n_gone), (Mark::LeaseGuarded, n_executed)];
                    let reached = reached.into_iter().filter(|(_, n)| *n > 0);
                    reached.for_each(|(mark, _)| coverage.hit(mark));
                }
                Err(detail) => self.violate(Property::StateTime, detail),
            }
            forget_what_never_came(&mut history);
            self.talk.several.make_blind(&mut history);
            // I1
            match linearizable::check_history(&history) {
                Ok(judged) => is_judged = judged == linearizable::Judged::Whole,
                Err(detail) => self.violate(Property::Linearizable, detail),
            }
        }
        let answered = |op: &&check::Op| matches!(op.end, End::Answered { .. });
        let n_answered = history.ops.iter().filter(answered).count();
        self.members.clear();
        let net = &mut *self.net.borrow_mut();
        Outcome {
            violation: net.violation.take(),
            fingerprint: net.trace.fingerprint(),
            n_records: net.trace.n_records(),
            virtual_ns: net.queue.now(),
            is_judged,
            n_asked: history.ops.len(),
            n_answered,
            coverage: net.coverage.clone(),
            trace: std::mem::replace(&mut net.trace, Trace::new(false)).into_text(),
        }
    }
}
