//! What two operators do at once, and what one leaves behind.

use crate::support::{PATIENCE, signal, start_on_disk as start};
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
    // In one write: the new incarnation may vote in a moment.
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

/// It was taken for one that had lost its disk, and let in again.
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
