//! Members that hang, which no process reports dead.

use crate::support::{Cluster, PATIENCE, signal, wait_until};
use redis::{Commands, ConnectionLike, RedisResult, cmd};
use std::time::Instant;

/// More than a sender keeps for a member that lives and lags before it refuses (8 MiB).
const VALUES: usize = 120;
const VALUE_BYTES: usize = 100_000;

#[test]
fn a_member_that_hangs_holds_up_no_writes() {
    let cluster = Cluster::start_with(&["--partitions", "2", "--fabric", "shm"]);
    let (mut client, value) = (cluster.connect(1), "x".repeat(VALUE_BYTES));
    signal(cluster.pid_of(3), "STOP");
    for n in 0..VALUES {
        let until = Instant::now() + PATIENCE;
        loop {
            let set: RedisResult<()> = client.set(format!("k{n}"), &value);
            match set {
                Ok(()) => break,
                Err(error) => assert!(Instant::now() < until, "value {n}: {error}"),
            }
            if !client.is_open() {
                client = cluster.connect(1);
            }
        }
    }
    signal(cluster.pid_of(3), "CONT");
    let mut third = cluster.connect(3);
    wait_until("the third member to have everything", || {
        if !third.is_open() {
            third = cluster.connect(3);
        }
        let n: RedisResult<usize> = cmd("DBSIZE").query(&mut third);
        n.is_ok_and(|n| n == VALUES)
    });
}

/// Snapshots that no partition can answer wait for their deadline; no other request waits behind
/// them.
#[test]
fn without_a_majority_every_request_ends() {
    let cluster = Cluster::start_with(&["--partitions", "2", "--fabric", "shm"]);
    let pids = [2, 3].map(|id| cluster.pid_of(id));
    let mut client = cluster.connect(1);
    for n in 0..20 {
        let _: () = client.set(format!("k{n}"), n).unwrap();
    }
    pids.iter().for_each(|pid| signal(*pid, "STOP"));
    // More than may wait at a time.
    let mut snapshots = redis::pipe();
    for _ in 0..300 {
        snapshots.cmd("GREGALE.SNAPSHOT").arg("GET").arg("k1");
    }
    let _ends: RedisResult<redis::Value> = snapshots.query(&mut client);
    let mut other = cluster.connect(1);
    let read: RedisResult<String> = other.get("k2");
    let wrote: RedisResult<()> = other.set("k2", 7);
    pids.iter().for_each(|pid| signal(*pid, "CONT"));
    for (what, error) in [("read", read.err()), ("write", wrote.err())] {
        let error = error.unwrap_or_else(|| panic!("a {what} without a majority"));
        assert!(error.code().is_some(), "no answer to a {what} within the patience: {error}");
    }
}
