//! Clients that do not read while they write, as many clients' pipelines do.

use crate::support::{Cluster, PATIENCE, start_on_disk, wait_until};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

/// The bytes of a reply.
const VALUE_BYTES: usize = 1000;

/// More than sockets hold each way: a side that does not read meanwhile waits for ever.
const N: usize = 30_000;

/// Writes `N` commands, ends its side if it `hangs_up`, and only then reads.
fn writes_before_it_reads(cluster: &Cluster, id: u16, hangs_up: bool) {
    let mut stream = TcpStream::connect(("127.0.0.1", cluster.port_of(id))).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let value = "x".repeat(VALUE_BYTES);
    let command =
        format!("*4\r\n$3\r\nSET\r\n$1\r\nk\r\n${VALUE_BYTES}\r\n{value}\r\n$3\r\nGET\r\n");
    stream.write_all(b"SET k ").unwrap();
    stream.write_all(value.as_bytes()).unwrap();
    stream.write_all(b"\r\n").unwrap();
    for _ in 0..N {
        stream.write_all(command.as_bytes()).unwrap();
    }
    let reply = format!("${VALUE_BYTES}\r\n{value}\r\n");
    let mut replies = vec![0; b"+OK\r\n".len() + N * reply.len()];
    if hangs_up {
        stream.shutdown(Shutdown::Write).unwrap();
    }
    stream.read_exact(&mut replies).unwrap();
    let (first, rest) = replies.split_at(5);
    assert_eq!(first, b"+OK\r\n");
    assert!(rest.chunks(reply.len()).all(|each| each == reply.as_bytes()));
}

#[test]
fn a_client_that_writes_before_it_reads_is_served_by_every_member() {
    let cluster = Cluster::start();
    for id in 1..=3 {
        writes_before_it_reads(&cluster, id, false);
    }
    writes_before_it_reads(&cluster, 1, true);
}

/// Writes and reads of one key in turn, in one pipeline: each read shows the write before it, and
/// they share decisions, each of which takes a sync on disk. There were as many decisions as pairs.
#[test]
fn reads_behind_writes_take_no_decisions_of_their_own() {
    const PAIRS: usize = 2000;
    let directory = tempfile::tempdir().unwrap();
    let cluster = start_on_disk(directory.path(), &[]);
    let committed = || cluster.status_at(1)["members"][0]["committed"].as_u64().unwrap();
    for id in 1..=3 {
        let before = committed();
        let mut stream = TcpStream::connect(("127.0.0.1", cluster.port_of(id))).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let pairs = || (0..PAIRS).map(|n| n + 10_000);
        let asked: String = pairs().map(|n| format!("SET k {n}\r\nGET k\r\n")).collect();
        let expected: String = pairs().map(|n| format!("+OK\r\n$5\r\n{n}\r\n")).collect();
        stream.write_all(asked.as_bytes()).unwrap();
        let mut replies = vec![0; expected.len()];
        stream.read_exact(&mut replies).unwrap();
        assert_eq!(String::from_utf8_lossy(&replies), expected, "at member {id}");
        wait_until("member 1 knows", || committed() > before);
        let n_decisions = committed() - before;
        assert!(n_decisions < PAIRS as u64 / 2, "{n_decisions} decisions at member {id}");
    }
}
