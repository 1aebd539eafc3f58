//! Exactly once, for clients that ask for it, while members die repeatedly.

use crate::support::{Cluster, signal, wait_until};
use client::{Client, Options, Value};
use redis::Commands;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The time within which every call ends with a reply, whatever dies.
const DEADLINE: Duration = Duration::from_secs(60);
const CLIENTS: u16 = 4;

fn client(cluster: &Cluster, first: u16) -> Client {
    let ports = (0..cluster.nodes).map(|at| cluster.port + (first + at) % cluster.nodes);
    let addresses = ports.map(|port| format!("127.0.0.1:{port}"));
    Client::new(Options::new(addresses).deadline(DEADLINE).attempt(Duration::from_secs(2)))
}

/// Counts in a key of its own and in a shared one until it is told to stop. Returns its count, and
/// the number of retries. A second execution, or a missing one, would show in the very next reply.
fn count(mut client: Client, at: u16, stop: &AtomicBool, done: &AtomicU64) -> (i64, u64) {
    let (own, mut n) = (format!("own:{at}"), 0);
    while !stop.load(Ordering::Relaxed) {
        n += 1;
        assert_eq!(client.call(&["INCR", &own]), Ok(Value::Integer(n)), "client {at}");
        let both = client.transaction(&[&["INCR", "all"][..], &["GET", &own]]);
        let Ok(Value::Array(both)) = both else { panic!("client {at}: {both:?}") };
        assert_eq!(both[1].as_bytes(), Some(n.to_string().as_bytes()), "client {at}");
        let read = client.call(&["GET", &own]).unwrap();
        assert_eq!(read.as_bytes(), Some(n.to_string().as_bytes()), "client {at}");
        done.fetch_add(1, Ordering::Relaxed);
    }
    let retries = client.retries();
    assert!(client.close(), "client {at} can end its session");
    (n, retries)
}

/// Runs clients that count beside `disturb`; in the end every counter equals the acknowledged
/// calls, and no call ended without a reply.
fn count_through(cluster: &mut Cluster, disturb: impl FnOnce(&mut Cluster, &dyn Fn() -> u64)) {
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let (total, retries) = std::thread::scope(|scope| {
        let counting: Vec<_> = (0..CLIENTS)
            .map(|at| {
                let (client, stop, done) = (client(cluster, at), &stop, &done);
                scope.spawn(move || count(client, at, stop, done))
            })
            .collect();
        // The clients must not continue for ever after a failure.
        let disturbed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            disturb(cluster, &|| done.load(Ordering::Relaxed));
        }));
        stop.store(true, Ordering::Relaxed);
        let sums = counting.into_iter().map(|one| one.join().expect("a client saw it all"));
        let sums = sums.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        disturbed.expect("the disturbances came to their end");
        sums
    });
    assert!(retries > 0, "nothing had to be tried again: nobody was disturbed");
    let counted: i64 = cluster.connect(1).get("all").unwrap();
    assert_eq!(counted, total, "every acknowledged call once");
}

/// Until some more calls have been executed: the cluster serves.
fn wait_for_progress(done: &dyn Fn() -> u64) {
    let before = done();
    wait_until("calls to go on", || done() >= before + 20);
}

#[test]
fn counters_survive_the_leaders_death_again_and_again() {
    let mut cluster = Cluster::start();
    count_through(&mut cluster, |cluster, done| {
        for _ in 0..5 {
            wait_for_progress(done);
            let leader = cluster.leader();
            signal(cluster.pid_of(leader), "KILL");
            cluster.wait_for(&format!("member {leader} serves again"));
        }
        wait_for_progress(done);
    });
    assert_eq!(cluster.stop(), Some(0));
}

#[test]
fn counters_survive_the_death_of_all_at_once_on_disk() {
    let data = tempfile::tempdir().unwrap();
    let directory = data.path().to_str().unwrap();
    let mut cluster = Cluster::start_with(&["--durability", "disk-quorum", "--data", directory]);
    count_through(&mut cluster, |cluster, done| {
        for _ in 0..4 {
            wait_for_progress(done);
            let pids = [1, 2, 3].map(|id| cluster.pid_of(id));
            // First all stand still, so that no process outlives another.
            pids.iter().for_each(|pid| signal(*pid, "STOP"));
            pids.iter().for_each(|pid| signal(*pid, "KILL"));
            (0..3).for_each(|_| drop(cluster.wait_for("serves again")));
        }
        wait_for_progress(done);
    });
    assert_eq!(cluster.stop(), Some(0));
}

#[test]
fn a_session_is_known_at_every_member_and_after_its_end_at_none() {
    let cluster = Cluster::start();
    let ask = |id: u16, words: &[&str]| {
        let mut command = redis::Cmd::new();
        words.iter().for_each(|word| {
            command.arg(word);
        });
        (cluster.connect(id), command)
    };
    let (mut one, open) = ask(1, &["GREGALE.SESSION"]);
    let (session, executed, _): (u64, u64, u64) = open.query(&mut one).unwrap();
    assert_eq!(executed, 0);
    let call = |connection: &mut redis::Connection, n: u64| {
        redis::cmd("GREGALE.CALL").arg(n).arg("INCR").arg("k").query::<i64>(connection)
    };
    assert_eq!(call(&mut one, 1).unwrap(), 1);
    for id in 1..=3 {
        let (mut other, resume) = ask(id, &["GREGALE.SESSION", &session.to_string()]);
        let (same, executed, _): (u64, u64, u64) = resume.query(&mut other).unwrap();
        assert_eq!((same, executed), (session, 1), "at member {id}");
        assert_eq!(call(&mut other, 1).unwrap(), 1, "at member {id}");
        assert!(call(&mut other, 3).unwrap_err().to_string().contains("next one is 2"));
    }
    let (mut two, end) = ask(2, &["GREGALE.SESSION", &session.to_string()]);
    let _: (u64, u64, u64) = end.query(&mut two).unwrap();
    let _: () = redis::cmd("GREGALE.SESSION").arg("END").query(&mut two).unwrap();
    let refused = call(&mut one, 2).unwrap_err();
    assert_eq!(refused.code(), Some("NOSESSION"), "{refused}");
    assert_eq!(cluster.connect(3).get::<_, i64>("k").unwrap(), 1);
}
