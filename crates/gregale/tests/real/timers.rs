//! Programs that see the log's time (`--program-time log`): what they say of it, when their timers
//! end, and the deaths of members meanwhile.

use crate::copies::{REDIS, all_say, digests, pid_of, program};
use crate::support::{Cluster, Ends, signal, wait_until};
use crate::unmodified::{Client, are_level};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

fn the_digest(cluster: &Cluster) -> String {
    let mut found = BTreeSet::new();
    wait_until("the copies to be equal", || {
        found = digests(cluster);
        found.len() == 1 && are_level(cluster)
    });
    found.pop_first().unwrap()
}

/// Appends the time that the program sees to a list, and returns it.
const NOTE: &str = "local now = redis.call('TIME'); local at = now[1] * 1000000 + now[2]; \
    redis.call('RPUSH', 'times', at); \
    redis.call('SET', KEYS[1], at, 'PX', 1 + at % 997); return at";

/// The most times that a client notes: a member that comes back executes all of them.
const NOTES_MAX: u64 = 2000;

#[test]
fn redis_sees_the_same_time_at_every_copy_while_members_die() {
    let mut cluster = Cluster::start_with(&["--replicate", REDIS, "--program-time", "log"]);
    let is_over = AtomicBool::new(false);
    let n_noted: u64 = std::thread::scope(|scope| {
        let ends = Ends(&is_over);
        let writers = [0, 1, 2].map(|writer| {
            let mut connection = cluster.connect(1);
            let is_over = &is_over;
            scope.spawn(move || {
                let (mut n, mut last) = (0u64, 0u64);
                while n < NOTES_MAX && !is_over.load(Ordering::Relaxed) {
                    let mut note = redis::cmd("EVAL");
                    note.arg(NOTE).arg(1).arg(format!("key-{writer}-{}", n % 40));
                    let at: u64 = note.query(&mut connection).unwrap();
                    assert!(at >= last, "time falls from {last} to {at}");
                    (n, last) = (n + 1, at);
                }
                n
            })
        });
        for victim in [2, 3, 2] {
            signal(pid_of(&cluster, 1, victim), "KILL");
            wait_until("the member to be back", || cluster.cli(victim, &["PING"]) == "PONG");
        }
        drop(ends);
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    assert_eq!(cluster.cli(2, &["LLEN", "times"]), n_noted.to_string());
    the_digest(&cluster);
    // The time stands still between two ticks, so all copies show the same at some moment.
    for ask in [&["TIME"][..], &["OBJECT", "IDLETIME", "times"], &["INFO", "keyspace"]] {
        wait_until("the copies to say the same", || all_say(&cluster, ask).len() == 1);
    }
    // Nothing is asked from here on: ticks alone let keys expire.
    let gone = "keys=1,expires=0";
    wait_until("keys to expire", || {
        all_say(&cluster, &["INFO", "keyspace"]).iter().all(|said| said.contains(gone))
    });
    assert_eq!(cluster.cli(3, &["SET", "k", "v", "EX", "100"]), "OK");
    wait_until("the copies to be level", || are_level(&cluster));
    assert_eq!(all_say(&cluster, &["PEXPIRETIME", "k"]).len(), 1);
    wait_until("some time to pass", || cluster.cli(1, &["TTL", "k"]) != "100");
    wait_until("the copies to say the same", || all_say(&cluster, &["PTTL", "k"]).len() == 1);
    let verdicts = program(&cluster, 1, 1)["verdicts"].clone();
    assert_eq!((&verdicts["differed"], &verdicts["split"]), (&0.into(), &0.into()), "{verdicts}");
    println!("{n_noted} times noted");
    assert_eq!(cluster.stop(), Some(0));
}

/// All copies execute everything again, and see the times of then.
#[test]
fn redis_sees_the_same_time_again_after_a_restart_of_all() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().to_str().unwrap();
    let mut cluster = Cluster::start_with(&[
        "--replicate",
        REDIS,
        "--program-time",
        "log",
        "--durability",
        "disk-quorum",
        "--data",
        path,
    ]);
    for n in 0..40 {
        let at = cluster.cli(n % 3 + 1, &["EVAL", NOTE, "1", "key"]);
        assert!(at.parse::<u64>().is_ok(), "{at}");
    }
    wait_until("keys to expire", || cluster.cli(1, &["DBSIZE"]) == "1");
    let digest = the_digest(&cluster);
    assert_eq!(cluster.stop(), Some(0));
    cluster.start_again();
    assert_eq!(cluster.cli(2, &["LLEN", "times"]), "40");
    assert_eq!(the_digest(&cluster), digest);
    assert_eq!(cluster.stop(), Some(0));
}

/// A server that waits for time in each way. Its answers hold times, and are compared.
#[test]
fn each_wait_ends_by_the_logs_time() {
    let directory = tempfile::tempdir().unwrap();
    let server = directory.path().join("timers");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/timers.c");
    let compiled =
        Command::new("cc").args(["-O1", "-pthread", "-o"]).args([&server, &source]).status();
    assert!(compiled.unwrap().success());
    let command = format!("{} {{socket}}", server.display());
    let flags = ["--replicate", &command, "--program-time", "log", "--program-compare", "10"];
    let mut cluster = Cluster::start_with(&flags);
    let mut client = Client::of(&cluster, 1);
    let mut last = 0.0;
    for how in "unapPsemtcbunapPsemtcb".chars() {
        let said = client.ask(&format!("{how}\n"));
        let words: Vec<f64> = said.split(' ').map(|word| word.parse().unwrap()).collect();
        let [result, took_us, now, seconds] = words[..] else { panic!("{how}: {said}") };
        let expected = match how {
            't' => 110.0, // ETIMEDOUT
            'm' => -1.0,
            _ => 0.0,
        };
        assert_eq!(result, expected, "{how}: {said}");
        // A thread of its own ends the last one's wait, a minute early.
        let least_us = if how == 'c' { 15_000.0 } else { 20_000.0 };
        assert!((least_us..60e6).contains(&took_us), "{how}: {said}");
        assert!(now >= last && now.floor() == seconds, "{how}: {said} after {last}");
        last = now;
    }
    let mut other = Client::of(&cluster, 2);
    for _ in 0..10 {
        assert!(other.ask("u\n").starts_with("0 "));
    }
    wait_until("all answers to be compared", || {
        let verdicts = program(&cluster, 1, 1)["verdicts"].clone();
        assert_eq!((&verdicts["differed"], &verdicts["split"]), (&0.into(), &0.into()));
        verdicts["matched"].as_u64() > Some(2)
    });
    let spins = program(&cluster, 1, 1)["clock_spins"].as_u64();
    assert!(spins > Some(0), "a loop that reads the clock was noticed: {spins:?}");
    assert_eq!(cluster.stop(), Some(0));
}

/// A delay ends while no client says anything.
#[test]
fn a_delayed_job_is_ready_when_the_logs_time_has_come() {
    let command = "beanstalkd -l unix:{socket}";
    let mut cluster = Cluster::start_with(&["--replicate", command, "--program-time", "log"]);
    let mut client = Client::of(&cluster, 1);
    assert_eq!(client.ask("put 0 1 60 1\r\nx\r\n"), "INSERTED 1");
    assert_eq!(client.ask("peek-ready\r\n"), "NOT_FOUND");
    assert_eq!(client.ask("reserve-with-timeout 20\r\n"), "RESERVED 1 1");
    assert_eq!(client.line(), "x");
    assert_eq!(client.ask("reserve-with-timeout 1\r\n"), "TIMED_OUT");
    assert_eq!(cluster.stop(), Some(0));
}

/// memcached's clock is a timer of its own, and threads of it sleep.
#[test]
fn memcacheds_values_expire_by_the_logs_time() {
    let command = "memcached -s {socket} -U 0 -t 4 -u root";
    let mut cluster = Cluster::start_with(&["--replicate", command, "--program-time", "log"]);
    let mut client = Client::of(&cluster, 1);
    assert_eq!(client.ask("set soon 0 2 1\r\nx\r\n"), "STORED");
    assert_eq!(client.ask("set late 0 1000 1\r\nx\r\n"), "STORED");
    assert_eq!(client.ask("mg soon t\r\n").chars().next(), Some('H'), "it is there");
    wait_until("the value to expire", || client.ask("mg soon t\r\n") == "EN");
    let left = client.ask("mg late t\r\n");
    assert!(left.starts_with("HD t9"), "{left}");
    wait_until("the copies to be level", || are_level(&cluster));
    assert_eq!(cluster.stop(), Some(0));
}
