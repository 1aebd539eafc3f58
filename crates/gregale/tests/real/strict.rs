//! Answers of a replicated Redis that are held until a majority's copies have given them.

use crate::copies::{REDIS, digests, leader, pid_of, program, sockets};
use crate::support::{Cluster, Ends, PATIENCE, signal, wait_until};
use redis::Commands;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

fn start() -> Cluster {
    Cluster::start_with(&["--program-output", "strict", "--replicate", REDIS])
}

/// A connection to a member, which may close some before it has begun again.
fn connect(port: u16) -> redis::Connection {
    let address = format!("redis://127.0.0.1:{port}");
    let client = redis::Client::open(address).unwrap();
    let mut connection = None;
    wait_until("a connection", || {
        connection = client.get_connection_with_timeout(PATIENCE).ok();
        connection.is_some()
    });
    connection.expect("it was waited for")
}

/// Sets a key at the copy of member `id`, behind its member's back.
fn spoil(cluster: &Cluster, id: u16) {
    let begins = format!("copy-{id}.");
    let is_its = |path: &std::path::PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&begins))
    };
    let socket = sockets(cluster).into_iter().find(is_its).expect("its socket");
    let mut cli = Command::new("redis-cli");
    let output = cli.arg("-s").arg(socket).args(["SET", "k", "wrong"]).output().unwrap();
    assert_eq!(output.stdout, b"OK\n");
}

/// The clients of that copy's own member see nothing of it either.
#[test]
fn no_client_sees_what_one_copy_has_wrong() {
    let mut cluster = start();
    assert_eq!(cluster.cli(1, &["SET", "k", "right"]), "OK");
    wait_until("the copies to be equal", || digests(&cluster).len() == 1);
    let mut connections = [1, 2, 3].map(|id| cluster.connect(id));
    spoil(&cluster, 3);
    let answer: redis::RedisResult<String> = connections[2].get("k");
    assert!(answer.is_err(), "its client is told nothing: {answer:?}");
    for connection in &mut connections[..2] {
        let value: String = connection.get("k").unwrap();
        assert_eq!(value, "right");
    }
    cluster.wait_for("are not those of a majority's copies");
    cluster.wait_for("serves again");
    assert_eq!(cluster.cli(3, &["GET", "k"]), "right");
    let held = program(&cluster, 1, 1)["held"].clone();
    assert!(held["left"].as_u64() >= Some(3) && held["refused"] == 0, "{held}");
    drop(connections);
    assert_eq!(cluster.stop(), Some(0));
}

/// The three copies end a wait by their hosts' clocks, when no client says anything.
#[test]
fn o6_an_answer_that_no_request_has_caused_leaves() {
    let mut cluster = start();
    let mut connection = cluster.connect(1);
    let popped: Option<(String, String)> = connection.blpop("none", 1.0).unwrap();
    assert_eq!(popped, None);
    let held = program(&cluster, 1, 1)["held"].clone();
    assert_eq!(held["refused"], 0, "{held}");
    drop(connection);
    assert_eq!(cluster.stop(), Some(0));
}

/// The answers that a client has had.
#[derive(Default)]
struct Answers {
    n: AtomicI64,
    /// The number from which on it waits.
    enough: AtomicI64,
}

impl Answers {
    /// Waits while the client has had enough.
    fn pause(&self, is_over: &AtomicBool) {
        let has_enough = || self.n.load(Ordering::Relaxed) >= self.enough.load(Ordering::Relaxed);
        while has_enough() && !is_over.load(Ordering::Relaxed) {
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }
}

/// Clients count at all members and look at a key, while the leader is killed, and while a copy has
/// that key wrong: each increment that was answered is there, and no answer is wrong.
#[test]
fn answers_are_right_while_leaders_die_and_a_copy_differs() {
    let mut cluster = start();
    assert_eq!(cluster.cli(1, &["SET", "k", "right"]), "OK");
    let is_over = AtomicBool::new(false);
    let answered: [Answers; 6] = Default::default();
    let counted: Vec<(i64, i64)> = std::thread::scope(|scope| {
        let ends = Ends(&is_over);
        let counts = |at: usize| {
            let (port, is_over) = (cluster.port_of(1 + at as u16 % 3), &is_over);
            let answered = &answered[at];
            move || {
                let mut connection = connect(port);
                let (mut n_answered, mut n_unknown) = (0, 0);
                while !is_over.load(Ordering::Relaxed) {
                    answered.pause(is_over);
                    let both: redis::RedisResult<(i64, String)> =
                        redis::pipe().incr(format!("n {at}"), 1).get("k").query(&mut connection);
                    match both {
                        Ok((n, value)) => {
                            n_answered += 1;
                            answered.n.store(n_answered, Ordering::Relaxed);
                            assert_eq!(value, "right");
                            assert!((n_answered..=n_answered + n_unknown).contains(&n), "{n}");
                        }
                        Err(_) => {
                            n_unknown += 1;
                            connection = connect(port);
                        }
                    }
                }
                (n_answered, n_unknown)
            }
        };
        let counting: Vec<_> = (0..6).map(|at| scope.spawn(counts(at))).collect();
        // Answers come back at all members: their copies are level. Clients that have had some wait
        // for the others: a copy that begins again may execute no faster than they all send.
        let level = || {
            let counts = answered.each_ref().map(|of| of.n.load(Ordering::Relaxed) + 20);
            for (of, count) in answered.iter().zip(counts) {
                of.enough.store(count, Ordering::Relaxed);
            }
            let has_enough = |(of, count): (&Answers, i64)| of.n.load(Ordering::Relaxed) >= count;
            wait_until("the clients of all members to be answered", || {
                answered.iter().zip(counts).all(has_enough)
            });
            answered.iter().for_each(|of| of.enough.store(i64::MAX, Ordering::Relaxed));
        };
        for _ in 0..2 {
            level();
            let leader = leader(&cluster, 1);
            let asked = leader % 3 + 1;
            let pid = pid_of(&cluster, asked, leader);
            signal(pid, "KILL");
            wait_until("another process", || pid_of(&cluster, asked, leader) != pid);
        }
        level();
        let before = pid_of(&cluster, 1, 2);
        spoil(&cluster, 2);
        wait_until("the copy to be dropped", || pid_of(&cluster, 1, 2) != before);
        level();
        drop(ends);
        counting.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for (at, (n_answered, n_unknown)) in counted.into_iter().enumerate() {
        let n: i64 = cluster.cli(1, &["GET", &format!("n {at}")]).parse().unwrap();
        assert!((n_answered..=n_answered + n_unknown).contains(&n), "{n} of {n_answered}");
        assert!(n_answered > 0, "client {at} was answered nothing");
    }
    wait_until("the copies to be equal", || digests(&cluster).len() == 1);
    assert_eq!(cluster.stop(), Some(0));
}
