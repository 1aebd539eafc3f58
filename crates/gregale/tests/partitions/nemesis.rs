//! The nemesis: it kills and pauses members while clients continue.
//!
//! - I1 a majority of the members lives at any time: two of five are killed, one after the other.
//! - I2 no member dies except by the nemesis: one that failed by itself fails the run.

use crate::NODES;
use crate::PARTITIONS;
use crate::client::Shared;
use crate::support::{Cluster, signal, wait_until};
use base::Rng;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Writes that are acknowledged between two faults, so that each hits a cluster at work.
const WRITES_BETWEEN: u64 = 60;
/// The longest pause of a member that hangs for a random time; suspicion takes less.
const HANG_MS_MAX: u64 = 900;

/// The nemesis of one run; see the module's text.
pub(crate) struct Nemesis<'a> {
    cluster: &'a Cluster,
    shared: &'a Shared,
    rng: Rng,
    alive: Vec<u16>,
    pids: Vec<u32>,
}

impl<'a> Nemesis<'a> {
    pub(crate) fn new(cluster: &'a Cluster, shared: &'a Shared, seed: u64) -> Nemesis<'a> {
        let pids = (1..=NODES).map(|id| cluster.pid_of(id)).collect();
        let alive = (1..=NODES).collect();
        Nemesis { cluster, shared, rng: Rng::new(seed), alive, pids }
    }

    /// Hangs and kills leaders; returns the members that are left.
    pub(crate) fn run(mut self) -> Vec<u16> {
        self.wait_for_writes("a leader hangs");
        let hung = self.a_leader();
        self.signal(hung, "STOP");
        self.wait_for_leaders_other_than(hung);
        self.pause();
        self.signal(hung, "CONT");
        for n in 0..2 {
            self.wait_for_writes("somebody hangs");
            let at = self.rng.below(self.alive.len() as u64) as usize;
            let hung = self.alive[at];
            self.signal(hung, "STOP");
            self.pause();
            self.signal(hung, "CONT");
            self.wait_for_writes(&format!("leader {n} is killed"));
            let killed = self.a_leader();
            self.signal(killed, "KILL");
            self.alive.retain(|id| *id != killed);
            self.wait_for_leaders_other_than(killed);
        }
        self.wait_for_writes("the end");
        // No member has died by itself (I2).
        for id in &self.alive {
            let status = self.cluster.status_at(self.alive[0]);
            let pid = status["members"][usize::from(*id) - 1]["pid"].as_u64();
            let expected = self.pids[usize::from(*id) - 1];
            assert_eq!(pid, Some(expected.into()), "member {id} has another process");
        }
        self.alive
    }

    fn signal(&self, id: u16, name: &str) {
        signal(self.pids[usize::from(id) - 1], name);
    }

    fn wait_for_writes(&self, before: &str) {
        let count = || self.shared.n_acknowledged_writes.load(Ordering::Relaxed);
        let enough = count() + WRITES_BETWEEN;
        wait_until(&format!("writes to be acknowledged before {before}"), || count() >= enough);
    }

    /// Waits for the duration of a fault, which decides what members notice. No condition ends it.
    fn pause(&mut self) {
        std::thread::sleep(Duration::from_millis(self.rng.below(HANG_MS_MAX)));
    }

    /// The leaders of all partitions, as member `at` sees them.
    fn leaders(&self, at: u16) -> Vec<u16> {
        let status = self.cluster.status_at(at);
        let partitions = status["partitions"].as_array().cloned().unwrap_or_default();
        partitions.iter().map(|of| of["leader"].as_u64().unwrap_or(0) as u16).collect()
    }

    /// The leader of some partition.
    fn a_leader(&mut self) -> u16 {
        let partition = self.rng.below(PARTITIONS as u64) as usize;
        let mut leader = 0;
        wait_until("a leader", || {
            leader = self.leaders(self.alive[0]).get(partition).copied().unwrap_or(0);
            self.alive.contains(&leader)
        });
        leader
    }

    fn wait_for_leaders_other_than(&self, old: u16) {
        let Some(other) = self.alive.iter().find(|id| **id != old) else { return };
        wait_until(&format!("other leaders than member {old}"), || {
            let leaders = self.leaders(*other);
            !leaders.is_empty() && leaders.iter().all(|id| *id != 0 && *id != old)
        });
    }
}
