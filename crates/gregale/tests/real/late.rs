//! A program that sleeps before it accepts its first connection (`late.py`).

use crate::copies::program;
use crate::support::{Cluster, wait_until};
use crate::unmodified::Client;

/// The bytes that were decided for the copies.
fn transcript_bytes(cluster: &Cluster) -> u64 {
    program(cluster, 1, 1)["transcript_bytes"].as_u64().unwrap_or(0)
}

#[test]
fn a_program_that_sleeps_before_it_accepts_is_fed_one_connection_after_the_other() {
    let genesis = tempfile::tempdir().unwrap();
    std::fs::write(genesis.path().join("late.py"), include_str!("late.py")).unwrap();
    let from = genesis.path().to_str().unwrap();
    let command = "python3 {dir}/late.py {socket}";
    let how = ["--replicate", command, "--genesis", from, "--program-rest", "waits"];
    let mut cluster = Cluster::start_with(&how);
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
