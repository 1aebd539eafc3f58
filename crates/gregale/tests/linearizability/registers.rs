//! A run of a cluster that keeps each key by itself: there is no leader, so every member takes
//! writes, and each is killed and hung like any other.
//!
//! - I1 at most one member is without state at any time, as in [`nemesis`](crate::nemesis): one is
//!   killed only when the last one killed has merged the states of the others.
//! - I2 no member dies but by this hand.

use crate::client::{Client, MEMBERS, Manner, Repertoire, Shared};
use crate::scenario::{Record, ended};
use crate::support::{Cluster, Ends, role, signal, wait_until};
use base::Rng;
use check::History;
use std::sync::atomic::Ordering;
use std::time::Duration;

const N_CLIENTS: u64 = 9;
/// How often each member is killed.
const ROUNDS: u16 = 3;
/// Answers of the others between two faults, and while a member is dead or hung.
const ANSWERS_BETWEEN: u64 = 150;
/// The longest pause of a member.
const HANG_MS_MAX: u64 = 900;

struct Run<'a> {
    cluster: &'a Cluster,
    shared: &'a Shared,
    rng: Rng,
    pids: [u32; MEMBERS],
}

impl Run<'_> {
    /// Waits until members other than `but` (from 0) have answered for a while.
    fn wait_for_answers(&self, but: Option<usize>) {
        let answers = || -> u64 {
            let of = self.shared.n_answered_by.iter().enumerate();
            of.filter(|(at, _)| Some(*at) != but).map(|(_, n)| n.load(Ordering::Relaxed)).sum()
        };
        let before = answers();
        wait_until("the others to answer", || answers() >= before + ANSWERS_BETWEEN);
    }

    /// I2
    fn check(&self) {
        for id in 1..=MEMBERS as u16 {
            let pid = self.pids[usize::from(id) - 1];
            assert_eq!(self.cluster.pid_of(id), pid, "member {id} died by itself");
        }
    }

    /// SIGKILL. It comes back as another run, which counts when it has merged.
    fn kill(&mut self, id: u16) {
        let (at, before) = (usize::from(id) - 1, self.pids[usize::from(id) - 1]);
        signal(before, "KILL");
        self.wait_for_answers(Some(at));
        // I1
        let other = id % MEMBERS as u16 + 1;
        wait_until("the killed member to count again", || {
            let status = self.cluster.status_at(other);
            let pid = status["members"][at]["pid"].as_u64().unwrap_or(0) as u32;
            self.pids[at] = pid;
            pid != 0 && pid != before && role(&status, id) == "leader"
        });
    }

    /// SIGSTOP: the others continue.
    fn hang(&mut self, id: u16) {
        let at = usize::from(id) - 1;
        signal(self.pids[at], "STOP");
        self.wait_for_answers(Some(at));
        std::thread::sleep(Duration::from_millis(self.rng.below(HANG_MS_MAX)));
        signal(self.pids[at], "CONT");
    }
}

/// Runs it, and checks on the way that all members agree in the end.
pub(crate) fn run(fabric: &str, seed: u64) -> Record {
    let cluster = Cluster::start_with(&["--protocol", "abd", "--fabric", fabric]);
    let shared = Shared::new([1, 2, 3].map(|id| cluster.port_of(id)));
    let mut history = History::new();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..N_CLIENTS)
            .map(|id| {
                let client = Client::new(id, seed, Manner::of(id), &shared);
                scope.spawn(move || client.asking_for(Repertoire::Registers).run())
            })
            .collect();
        {
            let _ends = Ends(&shared.is_over);
            let pids = [1, 2, 3].map(|id| cluster.pid_of(id));
            let mut run = Run { cluster: &cluster, shared: &shared, rng: Rng::new(seed), pids };
            for round in 0..ROUNDS {
                for victim in 1..=MEMBERS as u16 {
                    run.wait_for_answers(None);
                    run.kill(victim);
                    run.wait_for_answers(None);
                    run.hang((victim + round) % MEMBERS as u16 + 1);
                }
            }
            run.wait_for_answers(None);
            run.check();
        }
        for client in clients {
            history.ops.extend(client.join().expect("its own message stands above").ops);
        }
    });
    ended(cluster, &shared, history, (N_CLIENTS, seed), 0)
}
