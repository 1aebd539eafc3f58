//! A program that sleeps before it accepts its first connection (`late.py`).

use crate::copies::{program, sockets};
use crate::support::{Cluster, process_with, signal, wait_until, with_replaced_program};
use crate::unmodified::Client;
use tempfile::TempDir;

/// The bytes that were decided for the copies.
fn transcript_bytes(cluster: &Cluster) -> u64 {
    program(cluster, 1, 1)["transcript_bytes"].as_u64().unwrap_or(0)
}

/// Three copies of the program, and the directory with which they begin.
fn started() -> (Cluster, TempDir) {
    let genesis = tempfile::tempdir().unwrap();
    std::fs::write(genesis.path().join("late.py"), include_str!("late.py")).unwrap();
    let from = genesis.path().to_str().unwrap();
    let command = "python3 {dir}/late.py {socket}";
    let how = ["--replicate", command, "--genesis", from, "--program-rest", "waits"];
    (Cluster::start_with(&how), genesis)
}

#[test]
fn a_program_that_sleeps_before_it_accepts_is_fed_one_connection_after_the_other() {
    let (mut cluster, _genesis) = started();
    let names = ["a", "b", "c", "d"];
    let mut clients = names.map(|name| {
        let before = transcript_bytes(&cluster);
        let mut client = Client::of(&cluster, 1);
        let said = format!("note {name}\n");
        client.say(&said);
        let least = before + said.len() as u64;
        wait_until("the entry", || transcript_bytes(&cluster) > least);
        client
    });
    for (client, noted) in clients.iter_mut().zip(["a", "a b", "a b c", "a b c d"]) {
        assert_eq!(client.bare_line(), noted);
    }
    for id in 1..=3 {
        let mut client = Client::of(&cluster, id);
        client.say("list\n");
        assert_eq!(client.bare_line(), "a b c d", "{id}");
    }
    assert_eq!(cluster.stop(), Some(0));
}

/// An upgrade replaces the program's file; then a copy dies, and its member with it.
#[test]
fn a_copy_begins_again_though_the_file_of_this_program_was_replaced() {
    let ((mut cluster, _genesis), _place) = with_replaced_program(started);
    let socket = sockets(&cluster).pop().expect("three copies");
    let socket = socket.to_str().unwrap();
    signal(process_with(socket).expect("a copy's program"), "KILL");
    cluster.wait_for(" serves again");
    assert_eq!(cluster.stop(), Some(0));
}
