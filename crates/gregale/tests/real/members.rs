//! Members that come, go, and are replaced while the cluster runs, on disk.

use crate::support::{
    Cluster, GREGALE, is_alive, refused, role, signal, start_on_disk as start, wait_until,
    with_program, with_replaced_program,
};
use redis::Commands;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

over_both_fabrics! {
    a_member_is_restarted_though_the_programs_file_was_replaced
}

fn done(output: &Output) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
}

fn follower_of(leader: u16) -> u16 {
    leader % 3 + 1
}

/// The two followers, by one look: the leader may change between two looks.
fn two_followers(cluster: &Cluster) -> (u16, u16) {
    let leader = cluster.leader();
    let one = follower_of(leader);
    (one, 6 - leader - one)
}

fn has_directory(data: &Path, name: &str) -> bool {
    data.join(name).join("identity").exists()
}

#[test]
fn a_dead_member_is_replaced_by_one_command() {
    let data = tempfile::tempdir().unwrap();
    let mut cluster = start(data.path(), &[]);
    assert_eq!(cluster.cli(1, &["SET", "k", "v"]), "OK");
    let (id, other) = two_followers(&cluster);
    assert_eq!(cluster.seat(other, id), ("voter".into(), 1));
    signal(cluster.pid_of(id), "KILL");
    // At the dead member's own port: any member that answers will do, or the command waits for its
    // restart.
    done(&cluster.member(other, &["replace", &id.to_string()]));
    let incarnation = cluster.votes_above(other, id, 1);
    cluster.wait_for(&format!("member {id} votes"));
    assert!(has_directory(data.path(), &format!("member-{id}.old-1")), "nothing is deleted");
    // It counts: with it and one other member the cluster makes progress.
    signal(cluster.pid_of(other), "STOP");
    wait_until("a write without the third", || cluster.cli(id, &["SET", "k", "w"]) == "OK");
    signal(cluster.pid_of(other), "CONT");
    assert_eq!(cluster.stop(), Some(0));
    drop(cluster);
    let cluster = start(data.path(), &[]);
    assert_eq!(cluster.cli(id, &["GET", "k"]), "w");
    assert_eq!(cluster.votes_above(other, id, 1), incarnation, "it is in the log");
}

#[test]
fn a_wiped_disk_comes_back_by_itself_while_the_cluster_runs_and_after_a_restart() {
    let data = tempfile::tempdir().unwrap();
    let mut cluster = start(data.path(), &["--snapshot-log-bytes", "20000"]);
    let value = "x".repeat(1000);
    for n in 0..100 {
        assert_eq!(cluster.cli(1, &["SET", &format!("k{n}"), &value]), "OK");
    }
    let (id, other) = two_followers(&cluster);
    let pid = cluster.pid_of(id);
    // The process must not write into the directory that is being removed.
    signal(pid, "STOP");
    std::fs::remove_dir_all(data.path().join(format!("member-{id}"))).unwrap();
    signal(pid, "KILL");
    cluster.wait_for(&format!("member {id} has lost its disk"));
    let second = cluster.votes_above(other, id, 1);
    assert_eq!(cluster.cli(id, &["DBSIZE"]), "100");
    assert_eq!(cluster.stop(), Some(0));
    drop(cluster);

    std::fs::remove_dir_all(data.path().join(format!("member-{id}"))).unwrap();
    let cluster = start(data.path(), &[]);
    cluster.votes_above(other, id, second);
    assert_eq!(cluster.cli(id, &["DBSIZE"]), "100");
}

#[test]
fn a_removed_member_ends_and_is_added_again() {
    let data = tempfile::tempdir().unwrap();
    let mut cluster = start(data.path(), &[]);
    // The leader itself is replaced, by a request to another member.
    let id = cluster.leader();
    let other = follower_of(id);
    let pid = cluster.pid_of(id);
    done(&cluster.member(other, &["remove", &id.to_string()]));
    let line = cluster.wait_for(&format!("member {id} was removed from the cluster"));
    assert!(line.contains(&format!("gregale member add {id}")), "{line}");
    wait_until("its process to end", || !is_alive(pid));
    assert_eq!(cluster.cli(other, &["SET", "k", "v"]), "OK");
    wait_until("the seat to be empty", || cluster.seat(other, id).0 == "none");
    let view = cluster.status_at(other)["view"].to_string();
    let info = cluster.cli(other, &["INFO", "gregale"]);
    assert!(view != "1" && info.contains(&format!("gregale_view:{view}")), "{view}: {info}");
    let again = refused(&cluster.member(other, &["remove", &id.to_string()]));
    assert!(again.contains("takes part no more"), "{again}");
    done(&cluster.member(other, &["add"]));
    cluster.votes_above(other, id, 1);
    assert_eq!(cluster.cli(id, &["GET", "k"]), "v");
    assert_eq!(cluster.stop(), Some(0));
}

#[test]
fn a_removed_member_stays_out_over_a_restart_of_all() {
    let data = tempfile::tempdir().unwrap();
    let mut cluster = start(data.path(), &[]);
    let (id, other) = two_followers(&cluster);
    done(&cluster.member(other, &["remove", &id.to_string()]));
    cluster.wait_for("was removed");
    assert_eq!(cluster.stop(), Some(0));
    drop(cluster);
    // The last line of the process says so: and an empty seat is not a loss.
    std::fs::remove_dir_all(data.path().join(format!("member-{id}"))).unwrap();
    let mut cluster = start(data.path(), &[]);
    assert_eq!(cluster.cli(other, &["SET", "k", "v"]), "OK");
    wait_until("two voters", || cluster.seat(other, id).0 == "none");
    assert!(!data.path().join(format!("member-{id}")).exists());
    assert_ne!(role(&cluster.status_at(other), id), "leader");
    assert_eq!(cluster.stop(), Some(0));
}

#[test]
fn a_cluster_grows_into_its_empty_seats() {
    let data = tempfile::tempdir().unwrap();
    let mut cluster = start(data.path(), &["--nodes", "1", "--seats", "3"]);
    assert_eq!(cluster.cli(1, &["SET", "k", "v"]), "OK");
    assert_eq!(cluster.seat(1, 3), ("none".into(), 0));
    done(&cluster.member(1, &["add", "3"]));
    done(&cluster.member(1, &["add"]));
    let full = refused(&cluster.member(1, &["add"]));
    assert!(full.contains("every seat is taken"), "{full}");
    for id in [2, 3] {
        cluster.votes_above(1, id, 0);
        assert_eq!(cluster.cli(id, &["GET", "k"]), "v");
    }
    // It is one of three now: its death stops no other.
    let pid = cluster.pid_of(1);
    signal(pid, "STOP");
    wait_until("a write without the first", || cluster.cli(2, &["SET", "k", "w"]) == "OK");
    signal(pid, "CONT");
    assert_eq!(cluster.stop(), Some(0));
    drop(cluster);
    let cluster = start(data.path(), &["--nodes", "3"]);
    assert_eq!(cluster.cli(3, &["GET", "k"]), "w");
}

/// The old disk reappears, in the place of the one that replaced it.
#[test]
fn an_old_incarnation_is_told_that_it_was_replaced_and_ends() {
    let data = tempfile::tempdir().unwrap();
    let mut cluster = start(data.path(), &[]);
    let (id, other) = two_followers(&cluster);
    done(&cluster.member(other, &["replace", &id.to_string()]));
    cluster.wait_for(&format!("member {id} votes"));
    let pid = cluster.pid_of(id);
    let [own, old] = ["", ".old-1"].map(|end| data.path().join(format!("member-{id}{end}")));
    std::fs::rename(&own, data.path().join("kept")).unwrap();
    std::fs::rename(&old, &own).unwrap();
    signal(pid, "KILL");
    let line = cluster.wait_for(&format!("member {id} was replaced by incarnation"));
    assert!(line.contains("counts no more"), "{line}");
    assert_eq!(cluster.cli(other, &["SET", "k", "v"]), "OK", "the other two go on");
    // The old disk has changed nothing.
    cluster.votes_above(other, id, 1);
    assert_eq!(cluster.stop(), Some(0));
}

#[test]
fn what_would_stop_the_cluster_is_refused_with_the_reason() {
    let data = tempfile::tempdir().unwrap();
    let cluster = start(data.path(), &["--no-restart"]);
    let leader = cluster.leader();
    let dead = follower_of(leader);
    let living = 6 - leader - dead;
    signal(cluster.pid_of(dead), "KILL");
    // Whichever of the two leads by then, it refuses by what it has heard itself.
    [leader, living].iter().for_each(|at| cluster.wait_until_missed(*at, dead));
    // (While there is no leader, the command reports that and no more.)
    wait_until("a refusal", || {
        let output = cluster.member(leader, &["replace", &living.to_string(), "--within", "0"]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "the living one is all that is left");
        text.contains("too few of the members that would be left")
    });
    let stranger = refused(&cluster.member(leader, &["replace", "9"]));
    assert!(stranger.contains("no member 9: the cluster has seats 1 to 3"), "{stranger}");
    let taken = refused(&cluster.member(leader, &["add", &living.to_string()]));
    assert!(taken.contains("takes part"), "{taken}");
    assert_eq!(cluster.cli(leader, &["SET", "k", "v"]), "OK");
    // Members never change here.
    let cluster = Cluster::start_with(&["--fabric", "tcp", "--protocol", "mu"]);
    let fixed = refused(&cluster.member(1, &["replace", "2"]));
    assert!(fixed.contains("that takes --protocol velos or durable"), "{fixed}");
}

/// As an upgrade does while the cluster runs: every member would be gone with the first that dies.
fn a_member_is_restarted_though_the_programs_file_was_replaced(flags: &[&str]) {
    let (mut cluster, _place) = with_replaced_program(|| Cluster::start_with(flags));
    let id = follower_of(cluster.leader());
    signal(cluster.pid_of(id), "KILL");
    cluster.wait_for(&format!("member {id} serves again"));
    let () = cluster.connect(id).set("k", "v").unwrap();
    assert_eq!(cluster.stop(), Some(0));
}

#[test]
fn a_cluster_whose_file_cannot_be_written_goes_on_and_writes_it_later() {
    let data = tempfile::tempdir().unwrap();
    let mut cluster = start(data.path(), &[]);
    // (As a full disk is: the new file cannot be made.)
    let in_the_way = data.path().join("cluster.new");
    std::fs::create_dir(&in_the_way).unwrap();
    let (id, other) = two_followers(&cluster);
    done(&cluster.member(other, &["remove", &id.to_string()]));
    cluster.wait_for("written when there is room");
    assert_eq!(cluster.cli(other, &["SET", "k", "v"]), "OK");
    std::fs::remove_dir(&in_the_way).unwrap();
    wait_until("the seat is noted", || {
        let noted = std::fs::read_to_string(data.path().join("cluster.toml")).unwrap();
        noted.contains(&format!("vacant = [{id}]"))
    });
    assert_eq!(cluster.stop(), Some(0));
}

/// A launcher may have it so: the kernel then forgets how a member ended, and `up` took that for an
/// error of its own.
#[test]
fn a_member_is_restarted_where_the_ends_of_children_are_ignored() {
    let place = tempfile::tempdir().unwrap();
    let launcher = place.path().join("launcher");
    let text = format!("#!/bin/bash\ntrap '' CHLD\nexec {GREGALE} \"$@\"\n");
    std::fs::write(&launcher, text).unwrap();
    std::fs::set_permissions(&launcher, Permissions::from_mode(0o755)).unwrap();
    let mut cluster = with_program(&launcher, Cluster::start);
    let (id, other) = two_followers(&cluster);
    signal(cluster.pid_of(id), "KILL");
    cluster.wait_for(&format!("member {id} serves again"));
    assert_eq!(cluster.cli(other, &["SET", "k", "v"]), "OK");
    assert_eq!(cluster.stop(), Some(0));
}
