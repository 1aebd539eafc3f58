//! Members in memory that are away: the others continue, and a dead member comes back.

use crate::commands::apart;
use crate::support::{Cluster, process_with, role, signal, wait_until};
use redis::{Commands, ConnectionLike, RedisResult};
use std::time::Duration;

/// The time after which `up` continues without a member, and some more.
const READY_WITHIN: Duration = Duration::from_secs(60);

const WRITES: usize = 60;

/// Sends `SET` until a member reports success.
fn set(cluster: &Cluster, at: u16, key: &str, value: &str) {
    let mut client = cluster.connect(at);
    wait_until(&format!("{key} to be set"), || {
        if !client.is_open() {
            client = cluster.connect(at);
        }
        let done: RedisResult<()> = client.set(key, value);
        done.is_ok()
    });
}

/// Waits until member `id` serves as another process than `old`.
fn wait_for_another_life(cluster: &Cluster, id: u16, old: u32) {
    let at = if id == 1 { 2 } else { 1 };
    wait_until(&format!("member {id} to serve again"), || {
        let status = cluster.status_at(at);
        let pid = status["members"][usize::from(id) - 1]["pid"].as_u64();
        let is_new = pid.is_some_and(|pid| pid != u64::from(old));
        is_new && ["leader", "follower"].contains(&role(&status, id).as_str())
    });
}

/// Kills each of three members in turn, so that in the end all content came from members that had
/// it from others.
#[test]
fn a_killed_member_comes_back_by_itself_and_what_was_acknowledged_outlives_the_next() {
    let flags = ["--partitions", "2", "--durability", "memory-quorum"];
    let mut cluster = Cluster::start_with(&flags);
    let keys = apart(2, 2);
    let mut written: Vec<String> = Vec::new();
    for (round, victim) in [3, 1, 2].into_iter().enumerate() {
        let other = victim % 3 + 1;
        let mut write = |cluster: &Cluster, part: &str| {
            for n in 0..WRITES {
                let key = format!("{round}.{part}.{n}");
                set(cluster, other, &key, &key);
                written.push(key);
            }
            // The keys are in two partitions.
            let pairs = [(&keys[0], part), (&keys[1], part)];
            let done: RedisResult<()> = cluster.connect(other).mset(&pairs);
            done.unwrap();
        };
        write(&cluster, "before");
        let pid = cluster.pid_of(victim);
        signal(pid, "KILL");
        write(&cluster, "after");
        wait_for_another_life(&cluster, victim, pid);
        // First by its own replicas, then by all.
        let mut snapshot = redis::cmd("GREGALE.SNAPSHOT");
        snapshot.arg("MGET").arg(&written);
        wait_until("a snapshot at who came back", || {
            let values: RedisResult<Vec<String>> = snapshot.query(&mut cluster.connect(victim));
            values.is_ok_and(|values| values == written)
        });
        let values: Vec<String> = cluster.connect(victim).mget(&written).unwrap();
        assert_eq!(values, written, "round {round}");
        let both: Vec<String> = cluster.connect(victim).mget(&keys).unwrap();
        assert_eq!(both, ["after", "after"], "round {round}");
    }
    assert_eq!(cluster.stop(), Some(0), "the cluster stops in order");
}

/// The others keep more for the absent member than a stream keeps, and send none of it when another
/// of them leads.
#[test]
fn with_a_member_away_64_mib_of_commands_leave_a_change_of_leader_possible() {
    let flags = ["--nodes", "5", "--partitions", "1", "--fabric", "shm", "--no-restart"];
    let cluster = Cluster::start_with(&flags);
    signal(cluster.pid_of(5), "KILL");
    let value = "x".repeat(500_000);
    for n in 0..150 {
        set(&cluster, 1, &format!("big{}", n % 7), &value);
    }
    let leader = cluster.pid_of(1);
    signal(leader, "STOP");
    set(&cluster, 2, "after", "all");
    signal(leader, "CONT");
    let read: String = cluster.connect(3).get("after").unwrap();
    assert_eq!(read, "all");
}

/// Half a minute later the two others were ended too.
#[test]
fn a_member_that_dies_before_all_serve_takes_no_other_down() {
    let flags = ["--partitions", "2", "--no-restart"];
    let mut cluster = Cluster::begin_with(None, &flags, READY_WITHIN, |port| {
        let config = format!("-{port}/member-3.toml");
        wait_until("its process", || {
            process_with(&config).inspect(|pid| signal(*pid, "KILL")).is_some()
        });
    });
    let said = cluster.said();
    let is_missed = |line: &String| line.starts_with("member 3 does not serve");
    assert!(said.iter().any(is_missed), "it died too late: {said:?}");
    set(&cluster, 1, "k", "v");
    let read: String = cluster.connect(2).get("k").unwrap();
    assert_eq!(read, "v");
    assert_eq!(cluster.stop(), Some(0));
}
