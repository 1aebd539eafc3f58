//! Real processes with data directories: `kill -9` of one, of two, and of all, and they come back.

mod common;
#[path = "common/ledger.rs"]
mod ledger;
#[path = "common/process.rs"]
mod process;

use common::Town;
use ledger::{GROUPS, Heard, Node};
use multicast::FabricKind;

/// Not a test of its own: what the other tests start.
#[test]
fn child() {
    ledger::run_child();
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
    // One, which leads two groups; two of three; all, at once; one again.
    for dead in [&[1][..], &[2, 3], &[1, 2, 3], &[3]] {
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
