//! A run of a cluster that replicates an unmodified program: clients speak to it through the
//! members.
//!
//! - I1 one member at most is dead or behind at any time: a member is killed only when the last one
//!   killed has executed what the others had.
//! - I2 no member dies but by this hand, and no copy ever answers otherwise than the others', not
//!   even one that is killed: else the run fails.
//! - I3 where reads run beside the log, some did at each member, or the run fails.

use crate::cache;
use crate::client::{Client, MEMBERS, Manner, Shared};
use crate::copies::{REDIS, copy_of, leader, pid_of, program, status};
use crate::scenario::{Record, ended, ended_by};
use crate::support::{Cluster, Ends, signal, wait_until};
use base::Rng;
use check::History;
use std::sync::atomic::Ordering;
use std::time::Duration;

const N_CLIENTS: u64 = 16;
const ROUNDS: u64 = 2;
/// Answers of the others between two faults, and while a member is dead or hung.
const ANSWERS_BETWEEN: u64 = 100;
/// Reads beside the log that the last process of each member answers.
const READS_AT_EACH: u64 = 20;
/// The longest pause of a member, or of its copy.
const HANG_MS_MAX: u64 = 900;

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// SIGKILL for the leader.
    KillLeader,
    /// SIGKILL for a follower: the owner of its clients' connections.
    KillFollower,
    /// SIGKILL for the copy of some member, which ends with it.
    KillProgram,
    /// SIGSTOP for the leader until another member leads.
    HangLeader,
    /// SIGSTOP for a follower, for a time that others may or may not notice.
    HangFollower,
    /// SIGSTOP for the copy of some member.
    HangProgram,
}

/// The program, and what it is struck by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Redis,
    Memcached,
}

impl Subject {
    fn command(self) -> &'static str {
        match self {
            Subject::Redis => REDIS,
            Subject::Memcached => cache::MEMCACHED,
        }
    }

    /// Answers are compared, and copies of Redis saved, again and again.
    fn flags(self) -> &'static [&'static str] {
        match self {
            Subject::Redis => &["--program-compare", "50", "--program-checkpoint", "400"],
            Subject::Memcached => &["--program-compare", "50"],
        }
    }

    fn round(self) -> &'static [Fault] {
        match self {
            Subject::Redis => &[
                Fault::KillLeader,
                Fault::HangProgram,
                Fault::KillFollower,
                Fault::HangLeader,
                Fault::KillProgram,
                Fault::HangFollower,
            ],
            Subject::Memcached => {
                &[Fault::KillLeader, Fault::HangFollower, Fault::KillFollower, Fault::HangLeader]
            }
        }
    }
}

struct Run<'a> {
    cluster: &'a Cluster,
    shared: &'a Shared,
    rng: Rng,
    pids: [u32; MEMBERS],
    n_leader_changes: usize,
}

/// Another member than `id`.
fn other(id: u16) -> u16 {
    id % MEMBERS as u16 + 1
}

impl Run<'_> {
    /// Waits until members other than `but` have answered for a while.
    fn wait_for_answers(&self, but: Option<u16>) {
        let answers = || -> u64 {
            let of = (1..).zip(&self.shared.n_answered_by);
            of.filter(|(id, _)| Some(*id) != but).map(|(_, n)| n.load(Ordering::Relaxed)).sum()
        };
        let before = answers();
        wait_until("the others to answer", || answers() >= before + ANSWERS_BETWEEN);
    }

    fn executed(&self, asked: u16, id: u16) -> u64 {
        program(self.cluster, asked, id)["executed"].as_u64().unwrap_or(0)
    }

    /// I1, I2. `victim` is a process of member `id`.
    fn kill(&mut self, id: u16, victim: u32) {
        let (at, before) = (usize::from(id) - 1, self.pids[usize::from(id) - 1]);
        signal(victim, "KILL");
        self.wait_for_answers(Some(id));
        let asked = other(id);
        let level = self.executed(asked, asked);
        wait_until("the killed member to have executed what others had", || {
            let status = status(self.cluster, asked).unwrap_or_default();
            let pid = status["members"][at]["pid"].as_u64().unwrap_or(0) as u32;
            self.pids[at] = pid;
            pid != 0 && pid != before && self.executed(asked, id) >= level
        });
    }

    /// SIGSTOP: the others continue.
    fn hang(&mut self, id: u16, victim: u32) {
        signal(victim, "STOP");
        self.wait_for_answers(Some(id));
        std::thread::sleep(Duration::from_millis(self.rng.below(HANG_MS_MAX)));
        signal(victim, "CONT");
    }

    fn commit(&mut self, fault: Fault) {
        let leads = leader(self.cluster, self.rng.range(1, MEMBERS as u64) as u16);
        let follows = (leads + self.rng.below(2) as u16) % MEMBERS as u16 + 1;
        let some = self.rng.range(1, MEMBERS as u64) as u16;
        let pid = |id: u16| self.pids[usize::from(id) - 1];
        println!(
            "{:?} {fault:?}: member {leads} leads, {follows} follows",
            self.shared.start.elapsed()
        );
        match fault {
            Fault::KillLeader => {
                self.n_leader_changes += 1;
                self.kill(leads, pid(leads));
            }
            Fault::KillFollower => self.kill(follows, pid(follows)),
            Fault::KillProgram => self.kill(some, copy_of(self.cluster, some)),
            Fault::HangLeader => {
                let victim = pid(leads);
                signal(victim, "STOP");
                let asked = other(leads);
                wait_until("another leader", || {
                    let status = status(self.cluster, asked).unwrap_or_default();
                    let members = status["members"].as_array().cloned().unwrap_or_default();
                    let is_other = |of: &serde_json::Value| of["id"] != leads;
                    members.iter().any(|of| of["role"] == "leader" && is_other(of))
                });
                self.wait_for_answers(Some(leads));
                signal(victim, "CONT");
                self.n_leader_changes += 1;
            }
            Fault::HangFollower => self.hang(follows, pid(follows)),
            Fault::HangProgram => self.hang(some, copy_of(self.cluster, some)),
        }
    }

    /// I3. A member's count begins with its process, and a process may be young.
    fn wait_for_reads(&self) {
        let reads = |id: u16| program(self.cluster, id, id)["reads"].as_u64().unwrap_or(0);
        for id in 1..=MEMBERS as u16 {
            println!("member {id}: {} reads beside the log", reads(id));
            wait_until("a member to read beside the log", || reads(id) >= READS_AT_EACH);
        }
    }

    /// I2
    fn check(&self) {
        for id in 1..=MEMBERS as u16 {
            let pid = self.pids[usize::from(id) - 1];
            assert_eq!(pid_of(self.cluster, id, id), pid, "member {id} died by itself");
            let verdicts = &program(self.cluster, id, id)["verdicts"];
            let differing = [&verdicts["differed"], &verdicts["split"]];
            assert_eq!(differing, [0, 0], "copies had different answers: {verdicts}");
        }
    }
}

/// Runs it, and checks on the way that all members agree in the end.
pub(crate) fn run(subject: Subject, flags: &[&str], seed: u64) -> Record {
    let command = ["--replicate", subject.command()];
    let cluster = Cluster::start_with(&[&command, subject.flags(), flags].concat());
    let shared = Shared::new([1, 2, 3].map(|id| cluster.port_of(id)));
    let mut history = History::new();
    let mut n_leader_changes = 0;
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..N_CLIENTS)
            .map(|id| {
                let (manner, shared) = (Manner::of(id), &shared);
                scope.spawn(move || match subject {
                    Subject::Redis => Client::new(id, seed, manner, shared).run(),
                    Subject::Memcached => cache::Client::new(id, seed, manner, shared).run(),
                })
            })
            .collect();
        {
            let _ends = Ends(&shared.is_over);
            let pids = [1, 2, 3].map(|id| pid_of(&cluster, id, id));
            let (cluster, shared, rng) = (&cluster, &shared, Rng::new(seed));
            let mut run = Run { cluster, shared, rng, pids, n_leader_changes: 0 };
            for _ in 0..ROUNDS {
                for fault in subject.round() {
                    run.wait_for_answers(None);
                    run.commit(*fault);
                }
            }
            run.wait_for_answers(None);
            cluster.heard().iter().for_each(|line| println!("{line}"));
            run.check();
            if flags.contains(&"--program-reads") {
                run.wait_for_reads();
            }
            n_leader_changes = run.n_leader_changes;
        }
        for client in clients {
            history.ops.extend(client.join().expect("its own message stands above").ops);
        }
    });
    match subject {
        Subject::Redis => ended(cluster, &shared, history, (N_CLIENTS, seed), n_leader_changes),
        Subject::Memcached => {
            let read_all = |id: u64, member: usize| {
                cache::Client::new(id, seed, Manner::Loyal(member), &shared).read_all(member)
            };
            ended_by(read_all, cluster, &shared, history, N_CLIENTS, n_leader_changes)
        }
    }
}
