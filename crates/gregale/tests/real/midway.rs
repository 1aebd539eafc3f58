//! Members that die in the middle of an action: saving their state, another's replacement.

use crate::support::{
    Cluster, PATIENCE, gregale, signal, start_on_disk as start, wait_until, wait_within,
};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A state that takes some time to save and to send, and logs that are cut often.
const FLAGS: [&str; 2] = ["--snapshot-log-bytes", "300000"];
const N_KEYS: usize = 4000;
const VALUE_BYTES: usize = 8000;

fn fill(cluster: &Cluster) {
    let mut connection = cluster.connect(1);
    let value = "x".repeat(VALUE_BYTES);
    for batch in 0..N_KEYS / 50 {
        let mut pipeline = redis::pipe();
        (0..50).for_each(|n| {
            pipeline.set(format!("k{}", batch * 50 + n), &value).ignore();
        });
        pipeline.query::<()>(&mut connection).unwrap();
    }
}

/// A client's answers to its increments.
#[derive(Debug, Default)]
struct Told {
    last: i64,
    acknowledged: i64,
    /// Perhaps executed.
    unknown: i64,
}

impl Told {
    /// Increments at the port that `at` names, and writes a long value beside it, until `stop`.
    fn count(at: &AtomicU16, stop: &AtomicBool) -> Told {
        let mut told = Told::default();
        let value = "y".repeat(VALUE_BYTES);
        'connections: while !stop.load(Relaxed) {
            let port = at.load(Relaxed);
            let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
            let mut connection = client.get_connection().unwrap();
            connection.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            while !stop.load(Relaxed) && at.load(Relaxed) == port {
                let mut both = redis::pipe();
                both.cmd("INCR").arg("n").cmd("SET").arg("k7").arg(&value).ignore();
                match both.query::<(i64,)>(&mut connection) {
                    Ok((n,)) => {
                        assert!(n > told.last, "{n} after {told:?}");
                        told.last = n;
                        told.acknowledged += 1;
                    }
                    Err(_) => {
                        told.unknown += 1;
                        continue 'connections;
                    }
                }
            }
        }
        told
    }

    /// Checks that everything acknowledged is there, once, at every member.
    fn check(&self, cluster: &Cluster) {
        assert!(self.acknowledged > 20, "too little happened: {self:?}");
        for id in 1..=3 {
            let n: i64 = cluster.cli(id, &["GET", "n"]).parse().unwrap();
            let known = self.acknowledged..=self.acknowledged + self.unknown;
            assert!(known.contains(&n) && n >= self.last, "{n} at member {id}, {self:?}");
            assert_eq!(cluster.cli(id, &["DBSIZE"]), (N_KEYS + 1).to_string());
        }
    }
}

/// Runs `act` while a client counts at the port that `act` sets, and checks the client's answers.
fn beside_a_client(cluster: &Cluster, act: impl FnOnce(&AtomicU16)) {
    let (at, stop) = (AtomicU16::new(cluster.port_of(1)), AtomicBool::new(false));
    let told = std::thread::scope(|scope| {
        let counting = scope.spawn(|| Told::count(&at, &stop));
        let acted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| act(&at)));
        stop.store(true, Relaxed);
        let told = counting.join().unwrap();
        acted.unwrap_or_else(|why| std::panic::resume_unwind(why));
        told
    });
    told.check(cluster);
}

/// The file of a snapshot that is being written.
fn unfinished(directory: &Path) -> bool {
    let Ok(files) = std::fs::read_dir(directory) else { return false };
    files.flatten().any(|file| {
        let name = file.file_name().into_string().unwrap();
        name.starts_with("snapshot-") && name.ends_with(".part")
    })
}

fn is_up(cluster: &Cluster, at: u16, id: u16) -> bool {
    let status = cluster.status_at(at);
    let member = &status["members"][usize::from(id) - 1];
    member["role"] != "down" && member["role"] != "learner"
}

#[test]
fn a_member_that_dies_while_it_saves_its_state_loses_nothing() {
    let data = tempfile::tempdir().unwrap();
    let cluster = start(data.path(), &FLAGS);
    fill(&cluster);
    beside_a_client(&cluster, |at| {
        for round in 0..4 {
            let leader = cluster.leader();
            let id = if round % 2 == 0 { leader } else { leader % 3 + 1 };
            let other = id % 3 + 1;
            at.store(cluster.port_of(other), Relaxed);
            let directory = data.path().join(format!("member-{id}"));
            let end = Instant::now() + Duration::from_secs(60);
            // The snapshot may be complete between the look and the signal: then the death shows
            // nothing.
            loop {
                assert!(Instant::now() < end, "member {id} saves nothing, or too fast to be hit");
                let pid = cluster.pid_of(id);
                while !unfinished(&directory) {
                    assert!(Instant::now() < end, "member {id} saves nothing");
                }
                signal(pid, "STOP");
                let is_hit = unfinished(&directory);
                signal(pid, if is_hit { "KILL" } else { "CONT" });
                if is_hit {
                    break;
                }
            }
            wait_until("it to come back", || is_up(&cluster, other, id));
        }
    });
}

/// The member that dies while another is being replaced.
enum Dies {
    TheLeader,
    TheNewcomer,
}

fn a_replacement_survives_the_death_of(dies: &Dies) {
    let data = tempfile::tempdir().unwrap();
    let cluster = start(data.path(), &FLAGS);
    fill(&cluster);
    let leader = cluster.leader();
    let leader_pid = cluster.pid_of(leader);
    let id = leader % 3 + 1;
    let other = id % 3 + 1;
    let address = format!("127.0.0.1:{}", cluster.port_of(other));
    let replaces = || gregale(&["member", "replace", &id.to_string(), "--connect", &address]);
    beside_a_client(&cluster, |at| {
        at.store(cluster.port_of(other), Relaxed);
        std::thread::scope(|scope| {
            let replacing = scope.spawn(replaces);
            wait_until("the newcomer to learn", || {
                // (Or to have learned, between two looks.)
                let (membership, incarnation) = cluster.seat(other, id);
                membership == "learner" || (membership == "voter" && incarnation > 1)
            });
            let (dies, pid) = match dies {
                Dies::TheLeader => (leader, leader_pid),
                Dies::TheNewcomer => (id, cluster.pid_of(id)),
            };
            signal(pid, "KILL");
            // The command may report that the outcome is unknown.
            drop(replacing.join().unwrap());
            // The command alone may take as long as its own deadline.
            wait_within(4 * PATIENCE, "the newcomer to vote", || {
                let (membership, incarnation) = cluster.seat(other, id);
                if membership == "learner" && incarnation > 1 {
                    // After this answer an operator asks again.
                    drop(replaces());
                }
                let (membership, incarnation) = cluster.seat(other, id);
                membership == "voter" && incarnation > 1
            });
            wait_until("who died to come back", || is_up(&cluster, other, dies));
        });
    });
}

#[test]
fn a_replacement_survives_the_death_of_the_leader() {
    a_replacement_survives_the_death_of(&Dies::TheLeader);
}

#[test]
fn a_replacement_survives_the_death_of_the_newcomer() {
    a_replacement_survives_the_death_of(&Dies::TheNewcomer);
}
