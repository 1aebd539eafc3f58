//! Real processes with data directories, which come back after `kill -9` of one, of two, and of
//! all.

mod common;
#[path = "common/ledger.rs"]
mod ledger;
#[path = "common/process.rs"]
mod process;

use common::Town;
use ledger::{GROUPS, Heard, Node};
use multicast::FabricKind;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The entry of the processes that the other tests start; not a test of its own.
#[test]
fn child() {
    ledger::run_child();
}

const VERSION_BYTE: u64 = 8;
const BOOT_BYTE: u64 = 6 * 8;
const RULES_BYTE: u64 = 14 * 8;

/// Makes the memory that a dead node left another version's, or another boot's.
fn outdate(town: &Town, node: usize, byte: u64) {
    let region = town.system.directory.join(format!("node-{node}.region"));
    let region = File::options().write(true).open(region).unwrap();
    region.write_all_at(&99_u64.to_ne_bytes(), byte).unwrap();
}

fn nodes_come_back(fabric: FabricKind, order: &str) {
    let mut town = Town::new(fabric, 3, GROUPS.map(|group| group.to_vec()).to_vec());
    // The children bind the ports themselves.
    town.listeners.clear();
    let data = tempfile::tempdir().unwrap();
    let start = |node, how| Node::start(node, &town, order, (how, data.path()));
    let mut nodes: Vec<Node> = (1..=3).map(|node| start(node, "begin")).collect();
    let mut heard = Heard::default();
    heard.progress(&nodes, &[1, 2, 3], 100);
    // One, which leads two groups; two of three; all, at once; one again. The host starts again
    // meanwhile where the directory is no tmpfs, or the program is another version.
    let rounds = [
        (&[1][..], Some(VERSION_BYTE)),
        (&[2, 3], Some(RULES_BYTE)),
        (&[1, 2, 3], Some(BOOT_BYTE)),
        (&[3], None),
    ];
    for (dead, byte) in rounds {
        for node in dead {
            nodes[node - 1].kill();
        }
        for node in dead {
            heard.drain(*node, &nodes[node - 1]);
        }
        let live: Vec<usize> = (1..=3).filter(|node| !dead.contains(node)).collect();
        if live.len() >= 2 {
            heard.progress(&nodes, &live, 100);
        }
        for node in dead {
            if let Some(byte) = byte {
                outdate(&town, *node, byte);
            }
            nodes[node - 1] = start(*node, "reopen");
        }
        heard.progress(&nodes, &[1, 2, 3], 100);
    }
    ledger::judge(&mut nodes, &mut heard);
    assert!(heard.n_states > 0, "nobody lacked what others had forgotten");
    ledger::end(&mut nodes);
}

#[test]
fn nodes_come_back_from_their_disks_on_tcp() {
    nodes_come_back(FabricKind::Tcp, "hop");
}

#[test]
fn nodes_come_back_from_their_disks_on_shared_memory() {
    nodes_come_back(FabricKind::Shm, "plain");
}

/// While one node was away the others' logs grew beyond what is kept for a peer; their next
/// primary's message to the others was one record, and each gave the others up at every start.
#[test]
fn directories_that_hold_more_than_is_kept_for_a_peer_start_again() {
    let mut town = Town::new(FabricKind::Shm, 3, GROUPS.map(|group| group.to_vec()).to_vec());
    town.listeners.clear();
    let data = tempfile::tempdir().unwrap();
    let start = |node, how| Node::start(node, &town, "plain", (how, data.path()));
    let mut nodes: Vec<Node> = (1..=3).map(|node| start(node, "begin-long")).collect();
    let mut heard = Heard::default();
    heard.progress(&nodes, &[1, 2, 3], 10);
    nodes[2].kill();
    heard.drain(3, &nodes[2]);
    heard.progress(&nodes, &[1, 2], 250);
    for node in [1, 2] {
        nodes[node - 1].kill();
        heard.drain(node, &nodes[node - 1]);
    }
    let held = |node: &str| {
        let files = std::fs::read_dir(data.path().join(node)).unwrap();
        files.map(|file| file.unwrap().metadata().unwrap().len()).sum::<u64>()
    };
    assert!(held("1") > 16 << 20 && held("2") > 16 << 20, "twice what will be kept for a peer");
    let mut nodes: Vec<Node> = (1..=3).map(|node| start(node, "reopen-tight")).collect();
    heard.progress(&nodes, &[1, 2, 3], 50);
    ledger::judge(&mut nodes, &mut heard);
    ledger::end(&mut nodes);
}
