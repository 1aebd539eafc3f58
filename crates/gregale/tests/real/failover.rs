//! Clients' observations while members die, hang and return.

use crate::support::{
    Cluster, GREGALE, PATIENCE, is_alive, process_with, role, signal, wait_until, with_program,
};
use redis::{Commands, RedisResult};
use std::process::Command;

over_both_fabrics! {
    the_next_command_after_the_leaders_death_just_works
    every_member_can_die_in_turn
    a_dead_members_port_answers_again_by_itself
    without_restarts_the_dead_stay_dead_and_status_says_so
    a_paused_leader_is_replaced_and_never_serves_stale_reads
    a_write_at_a_paused_member_is_executed_at_most_once
    a_terminated_leader_hands_over_first
    a_member_that_missed_more_than_a_ring_catches_up
    when_all_have_died_the_loss_is_named
    nothing_is_left_when_the_supervisor_is_interrupted
    nothing_is_left_when_the_supervisor_is_killed
    a_paused_replica_does_not_keep_the_cluster_from_stopping
}

fn the_next_command_after_the_leaders_death_just_works(flags: &[&str]) {
    let mut cluster = Cluster::start_with(flags);
    let leader = cluster.leader();
    let follower = leader % 3 + 1;
    let mut connection = cluster.connect(follower);
    let _: () = connection.set("k", "before").unwrap();
    signal(cluster.pid_of(leader), "KILL");
    let read: String = connection.get("k").unwrap();
    assert_eq!(read, "before");
    let _: () = connection.set("k", "after").unwrap();
    let read: String = connection.get("k").unwrap();
    assert_eq!(read, "after");
    cluster.wait_for(&format!("member {leader} died"));
    cluster.wait_for(&format!("member {leader} serves again"));
    let read: String = cluster.connect(leader).get("k").unwrap();
    assert_eq!(read, "after", "the restarted member has the state");
}

fn every_member_can_die_in_turn(flags: &[&str]) {
    let mut cluster = Cluster::start_with(flags);
    for round in 0..4i64 {
        for victim in 1..=3 {
            signal(cluster.pid_of(victim), "KILL");
            let other = victim % 3 + 1;
            let mut connection = cluster.connect(other);
            let n: i64 = connection.incr("n", 1).unwrap();
            assert_eq!(n, round * 3 + i64::from(victim), "none lost, none twice");
            cluster.wait_for(&format!("member {victim} serves again"));
        }
    }
}

fn a_dead_members_port_answers_again_by_itself(flags: &[&str]) {
    let mut cluster = Cluster::start_with(flags);
    signal(cluster.pid_of(2), "KILL");
    // The supervisor holds the listening socket: this connection waits for the next life.
    let mut connection = cluster.connect(2);
    let _: () = connection.set("k", 1).unwrap();
    cluster.wait_for("member 2 serves again");
}

fn without_restarts_the_dead_stay_dead_and_status_says_so(flags: &[&str]) {
    let mut cluster = Cluster::start_with(&[flags, &["--no-restart"]].concat());
    let leader = cluster.leader();
    let pid = cluster.pid_of(leader);
    signal(pid, "KILL");
    cluster.wait_for("stays dead");
    let other = leader % 3 + 1;
    cluster.wait_for_role(other, leader, &["down"]);
    let status = cluster.status_at(other);
    assert_eq!(status["members"][usize::from(leader) - 1]["pid"], pid);
    let mut connection = cluster.connect(other);
    for n in 1..=2000i64 {
        let counted: i64 = connection.incr("n", 1).unwrap();
        assert_eq!(counted, n, "two of three go on, far beyond one ring");
    }
    assert_eq!(cluster.stop(), Some(0));
}

fn a_paused_leader_is_replaced_and_never_serves_stale_reads(flags: &[&str]) {
    let cluster = Cluster::start_with(flags);
    let leader = cluster.leader();
    let follower = leader % 3 + 1;
    let mut old = cluster.connect(leader);
    let mut new = cluster.connect(follower);
    let _: () = new.set("k", "before").unwrap();
    let pid = cluster.pid_of(leader);
    signal(pid, "STOP");
    // This needs a new leader: it waits for the suspicion and then succeeds.
    let written: RedisResult<()> = new.set("k", "after");
    signal(pid, "CONT");
    written.unwrap();
    let read: String = old.get("k").unwrap();
    assert_eq!(
        read, "after",
        "the woken leader believes that it leads, and must not answer from it"
    );
    wait_until("one leader", || {
        let status = cluster.status_at(follower);
        (1..=3).filter(|id| role(&status, *id) == "leader").count() == 1
    });
}

fn a_write_at_a_paused_member_is_executed_at_most_once(flags: &[&str]) {
    let cluster = Cluster::start_with(flags);
    let leader = cluster.leader();
    let follower = leader % 3 + 1;
    let pid = cluster.pid_of(follower);
    let mut connection = cluster.connect(follower);
    let _: i64 = connection.incr("n", 1).unwrap();
    for _ in 0..5 {
        signal(pid, "STOP");
        let counting = std::thread::scope(|scope| {
            let counting = scope.spawn(|| connection.incr::<_, _, i64>("n", 1));
            std::thread::sleep(std::time::Duration::from_millis(50));
            signal(pid, "CONT");
            counting.join().unwrap()
        });
        counting.unwrap();
    }
    let n: i64 = cluster.connect(leader).get("n").unwrap();
    assert_eq!(n, 6);
}

fn a_terminated_leader_hands_over_first(flags: &[&str]) {
    let mut cluster = Cluster::start_with(flags);
    let leader = cluster.leader();
    let follower = leader % 3 + 1;
    let mut connection = cluster.connect(follower);
    let _: () = connection.set("k", 1).unwrap();
    signal(cluster.pid_of(leader), "TERM");
    let n: i64 = connection.incr("k", 1).unwrap();
    assert_eq!(n, 2);
    let line = cluster.wait_for(&format!("member {leader} died"));
    assert!(line.contains("exit code 0"), "{line}");
    cluster.wait_for(&format!("member {leader} serves again"));
}

fn a_member_that_missed_more_than_a_ring_catches_up(flags: &[&str]) {
    let mut cluster = Cluster::start_with(flags);
    let leader = cluster.leader();
    let (follower, other) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    let pid = cluster.pid_of(follower);
    let mut connection = cluster.connect(other);
    signal(pid, "STOP");
    for n in 1..=3000i64 {
        let counted: i64 = connection.incr("n", 1).unwrap();
        assert_eq!(counted, n);
    }
    signal(pid, "CONT");
    let n: i64 = cluster.connect(follower).get("n").unwrap();
    assert_eq!(n, 3000);
    assert_eq!(cluster.stop(), Some(0));
}

/// Members never change here. (Elsewhere the member comes back as a new incarnation: `memories`.)
#[test]
fn a_member_whose_memory_is_gone_takes_part_in_no_quorum() {
    let mut cluster = Cluster::start_with(&["--fabric", "tcp", "--protocol", "mu"]);
    let leader = cluster.leader();
    let follower = leader % 3 + 1;
    let region = cluster.directory().join(format!("node-{follower}.region"));
    std::fs::remove_file(&region).unwrap();
    signal(cluster.pid_of(follower), "KILL");
    let line = cluster.wait_for("learner");
    assert!(line.starts_with(&format!("member {follower} ")), "{line}");
    assert!(!region.exists(), "no region is made without a bootstrap");
    cluster.wait_for_role(leader, follower, &["learner"]);
    // It answers for all members, and does not pretend to have data.
    assert_ne!(cluster.leader_seen_by(follower), follower);
    let refused: RedisResult<String> = cluster.connect(follower).get("k");
    assert!(refused.is_err());
    let _: () = cluster.connect(leader).set("k", 1).unwrap();
}

fn when_all_have_died_the_loss_is_named(flags: &[&str]) {
    let mut cluster = Cluster::start_with(flags);
    let _: () = cluster.connect(1).set("k", 1).unwrap();
    let pids: Vec<u32> = (1..=3).map(|id| cluster.pid_of(id)).collect();
    pids.iter().for_each(|pid| signal(*pid, "STOP"));
    pids.iter().for_each(|pid| signal(*pid, "KILL"));
    // In whatever order they come.
    let mut missing: Vec<String> = (1..=3).map(|id| format!("member {id} restarted")).collect();
    while !missing.is_empty() {
        let line = cluster.wait_for("restarted");
        missing.retain(|text| !line.contains(text));
    }
    wait_until("the loss to be named", || {
        let mut connection = cluster.connect(1);
        let answer: RedisResult<i64> = connection.get("k");
        answer.unwrap_err().to_string().contains("data lost")
    });
}

fn nothing_is_left_when_the_supervisor_is_interrupted(flags: &[&str]) {
    let mut cluster = Cluster::start_with(flags);
    let pids: Vec<u32> = (1..=3).map(|id| cluster.pid_of(id)).collect();
    signal(cluster.pid(), "INT");
    assert_eq!(cluster.wait_for_end(), Some(0));
    assert!(!cluster.directory().exists());
    assert!(!pids.iter().any(|pid| is_alive(*pid)));
}

fn nothing_is_left_when_the_supervisor_is_killed(flags: &[&str]) {
    // A cluster of its own: an `up` of any other test would sweep it too.
    let base = tempfile::tempdir_in("/dev/shm").unwrap();
    let flags = &[flags, &["--directory", base.path().to_str().unwrap()]].concat();
    let mut cluster = Cluster::start_with(flags);
    let pids: Vec<u32> = (1..=3).map(|id| cluster.pid_of(id)).collect();
    signal(cluster.pid(), "KILL");
    cluster.wait_for_end();
    wait_until("the replicas to end with their supervisor", || {
        !pids.iter().any(|pid| is_alive(*pid))
    });
    assert!(cluster.directory().exists(), "nobody was there to remove it");
    let next = Cluster::start_with(flags);
    assert!(!cluster.directory().exists(), "the next `up` sweeps it");
    drop(next);
}

fn a_paused_replica_does_not_keep_the_cluster_from_stopping(flags: &[&str]) {
    let mut cluster = Cluster::start_with(flags);
    let pid = cluster.pid_of(2);
    signal(pid, "STOP");
    assert_eq!(cluster.stop(), Some(0));
    assert!(!is_alive(pid) && !cluster.directory().exists());
}

/// It became a learner in memory, and with a disk it ended `up`.
#[test]
fn a_member_that_dies_while_the_cluster_is_founded_is_founded_again() {
    let data = tempfile::tempdir().unwrap();
    let on_disk = ["--durability", "disk-quorum", "--data", data.path().to_str().unwrap()];
    for flags in [&["--durability", "memory-quorum"][..], &on_disk] {
        let cluster = Cluster::begin_with(None, flags, PATIENCE, |port| {
            let config = format!("-{port}/member-3.toml");
            wait_until("its process", || {
                process_with(&config).inspect(|pid| signal(*pid, "KILL")).is_some()
            });
        });
        let said = cluster.said();
        assert!(said.iter().any(|line| line.starts_with("member 3 died")), "{said:?}");
        assert!(said.iter().all(|line| !line.contains("learner")), "{said:?}");
        let status = cluster.status_at(3);
        assert!(["leader", "follower"].contains(&role(&status, 3).as_str()), "{status}");
    }
}

/// `nohup gregale up &` ended with its terminal, and the data in memory with it.
#[test]
fn a_cluster_that_ignores_hangups_from_the_start_survives_one() {
    let place = tempfile::tempdir().unwrap();
    let script = place.path().join("nohup");
    // Written by a child: the child of another test would hold a file that is written here, which
    // could not be run then.
    let text = format!("#!/bin/sh\ntrap '' HUP\nexec {GREGALE} \"$@\"\n");
    let write = "printf %s \"$0\" > \"$1\" && chmod 700 \"$1\"";
    let written = Command::new("sh").args(["-c", write, &text]).arg(&script).status();
    assert!(written.unwrap().success());
    let mut cluster = with_program(&script, Cluster::start);
    signal(cluster.pid(), "HUP");
    signal(cluster.pid_of(1), "HUP");
    signal(cluster.pid_of(2), "KILL");
    cluster.wait_for("member 2 serves again");
    assert_eq!(cluster.stop(), Some(0));
}
