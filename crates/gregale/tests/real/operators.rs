//! Two operators' actions at the same time, and what one leaves behind.

use crate::support::{
    Cluster, PATIENCE, gregale, is_alive, refused, signal, start_on_disk as start, wait_until,
};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

/// Both disks were put aside, and a majority was gone for good.
#[test]
fn two_replacements_at_once_leave_a_majority() {
    let data = tempfile::tempdir().unwrap();
    let mut cluster = start(data.path(), &[]);
    let leader = cluster.leader();
    let id = leader % 3 + 1;
    let other = 6 - id - leader;
    // Both requests go in one write: the new incarnation may vote in a moment.
    let asked = [("RENEW", id), ("RENEW", other), ("REMOVE", other), ("RENEW", leader)];
    let text = asked.map(|(verb, id)| {
        format!("*3\r\n$14\r\nGREGALE.MEMBER\r\n${}\r\n{verb}\r\n$1\r\n{id}\r\n", verb.len())
    });
    let text = text.concat();
    let mut stream = TcpStream::connect(("127.0.0.1", cluster.port_of(leader))).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    // The first answer has a length before it.
    let answers: Vec<String> =
        BufReader::new(stream).lines().take(1 + asked.len()).map(Result::unwrap).collect();
    assert!(answers[1].contains("begins a new incarnation"), "{answers:?}");
    assert!(answers[2..].iter().all(|line| line.starts_with("-BUSY")), "{answers:?}");
    cluster.wait_for(&format!("member {id} votes"));
    assert_eq!(cluster.cli(other, &["SET", "k", "v"]), "OK");
    assert_eq!(cluster.seat(other, other), ("voter".into(), 1));
    assert_eq!(cluster.stop(), Some(0));
}

/// The last of the three was refused for a minute.
#[test]
fn a_member_that_is_replaced_and_removed_may_be_added_at_once() {
    let data = tempfile::tempdir().unwrap();
    let mut cluster = start(data.path(), &[]);
    let leader = cluster.leader();
    let id = (leader % 3 + 1).to_string();
    for verb in ["replace", "remove", "add"] {
        let done = cluster.member(leader, &[verb, &id]);
        assert!(done.status.success(), "{verb}: {done:?}");
    }
    assert_eq!(cluster.cli(leader, &["SET", "k", "v"]), "OK");
    assert_eq!(cluster.stop(), Some(0));
}

/// The message named pid 0, then a region to bootstrap, and only after half a minute the remedy.
#[test]
fn where_a_majority_of_disks_is_lost_nothing_is_started_and_recover_is_named() {
    let data = tempfile::tempdir().unwrap();
    let mut cluster = start(data.path(), &[]);
    assert_eq!(cluster.cli(1, &["SET", "k", "v"]), "OK");
    assert_eq!(cluster.stop(), Some(0));
    let port = cluster.port.to_string();
    drop(cluster);
    for id in [1, 3] {
        std::fs::remove_dir_all(data.path().join(format!("member-{id}"))).unwrap();
    }
    let place = data.path().to_str().unwrap();
    let name = format!("test{}", std::process::id());
    let words = ["up", "--cluster", &name, "--port", &port, "--data", place];
    let output = gregale(&[&words[..], &["--durability", "disk-quorum"]].concat());
    let said = refused(&output);
    for part in ["nothing is started", "member-1", "member-3", "gregale recover"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("bootstrap") && !said.contains("member-2"), "{said}");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(!shown.contains("pid"), "{shown}");
}

/// The next one began empty without a message.
#[test]
fn after_a_killed_cluster_in_memory_the_next_one_says_that_it_begins_empty() {
    // A cluster of its own: an `up` of any other test would sweep it too.
    let base = tempfile::tempdir_in("/dev/shm").unwrap();
    let flags = ["--directory", base.path().to_str().unwrap()];
    let mut cluster = Cluster::start_with(&flags);
    assert_eq!(cluster.cli(1, &["SET", "k", "v"]), "OK");
    let pids: Vec<u32> = (1..=3).map(|id| cluster.pid_of(id)).collect();
    cluster.kill_all(&pids, || {});
    cluster.start_again();
    let said = cluster.said();
    assert!(said.iter().any(|line| line.contains("it begins empty")), "{said:?}");
    assert_eq!(cluster.cli(1, &["GET", "k"]), "");
    assert_eq!(cluster.stop(), Some(0));
    cluster.start_again();
    let said = cluster.said();
    assert!(!said.iter().any(|line| line.contains("empty")), "this one was stopped: {said:?}");
}

/// A leader's death that no sentinel reports costs the others ten times as long.
#[test]
fn a_dead_sentinel_is_replaced_and_status_says_so() {
    let cluster = Cluster::start_with(&["--fabric", "tcp"]);
    let sentinel = |id: usize| cluster.status_at(1)["members"][id - 1]["sentinel"].clone();
    let before: Vec<_> = (1..=3).map(sentinel).collect();
    for (id, shown) in (1..).zip(&before) {
        let pid = shown["pid"].as_u64().unwrap() as u32;
        assert!(is_alive(pid) && shown["replaced"] == 0, "{id}: {shown}");
        signal(pid, "KILL");
    }
    for (id, before) in (1..).zip(&before) {
        wait_until("another sentinel", || {
            let now = sentinel(id);
            now["replaced"] == 1 && now["pid"].is_u64() && now["pid"] != before["pid"]
        });
        assert!(is_alive(sentinel(id)["pid"].as_u64().unwrap() as u32));
    }
    let table = gregale(&["status", "--connect", &format!("127.0.0.1:{}", cluster.port_of(1))]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert_eq!(table.matches("1 died and were replaced").count(), 3, "{table}");
}

/// The member was taken for one that had lost its disk, and admitted again.
#[test]
fn a_member_that_was_dead_when_it_was_removed_stays_out() {
    let data = tempfile::tempdir().unwrap();
    let mut cluster = start(data.path(), &["--no-restart"]);
    let leader = cluster.leader();
    let id = leader % 3 + 1;
    let other = 6 - id - leader;
    signal(cluster.pid_of(id), "KILL");
    cluster.wait_for("it stays dead");
    let removed = cluster.member(other, &["remove", &id.to_string()]);
    assert!(removed.status.success(), "{removed:?}");
    cluster.wait_for(&format!("member {id} was removed and is not started again"));
    assert_eq!(cluster.stop(), Some(0));
    drop(cluster);
    let own = data.path().join(format!("member-{id}"));
    std::fs::remove_dir_all(&own).unwrap();
    let mut cluster = start(data.path(), &[]);
    assert_eq!(cluster.cli(other, &["SET", "k", "v"]), "OK");
    assert_eq!(cluster.seat(other, id).0, "none");
    let added = cluster.member(other, &["add"]);
    assert!(added.status.success(), "{added:?}");
    assert_eq!(cluster.stop(), Some(0));
}
