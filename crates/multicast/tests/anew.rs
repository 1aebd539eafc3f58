//! Real processes without data directories: `kill -9` of one at a time, which comes back as a new
//! incarnation; a node that is removed while it lives; processes that come too late.

mod common;
#[path = "common/ledger.rs"]
mod ledger;
#[path = "common/process.rs"]
mod process;

use common::{PATIENCE, Town};
use ledger::{GROUPS, Heard, Node};
use multicast::{
    Application, Data, Delivery, Descriptors, Desk, Door, FabricKind, MessageId, Outcome, Protocol,
    Seat, System, run,
};
use std::path::Path;
use std::time::Instant;

/// The entry of the processes that the other tests start; not a test of its own.
#[test]
fn child() {
    ledger::run_child();
}

fn town(fabric: FabricKind) -> Town {
    let mut town = Town::new(fabric, 3, GROUPS.map(|group| group.to_vec()).to_vec());
    // The children bind the ports themselves.
    town.listeners.clear();
    town
}

fn start(node: usize, town: &Town, order: &str, how: &str) -> Node {
    Node::start(node, town, order, (how, Path::new("-")))
}

/// The rest of the next line of a node with this beginning.
fn answer(number: usize, node: &Node, heard: &mut Heard, begins: &str) -> String {
    let until = Instant::now() + PATIENCE;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let line = node.lines.recv_timeout(left);
        let line = line.unwrap_or_else(|_| panic!("node {number} never says {begins:?}"));
        if let Some(rest) = line.strip_prefix(begins) {
            return rest.to_owned();
        }
        heard.note(number, &line);
    }
}

/// Rounds of death and return, with messages to all sets of groups under way all the time.
fn the_dead_come_back_anew(fabric: FabricKind, order: &str, rounds: &[usize]) {
    let town = town(fabric);
    let mut nodes: Vec<Node> = (1..=3).map(|node| start(node, &town, order, "first")).collect();
    let mut heard = Heard::default();
    heard.progress(&nodes, &[1, 2, 3], 100);
    for &dead in rounds {
        nodes[dead - 1].kill();
        heard.drain(dead, &nodes[dead - 1]);
        // The others' messages continue, without it and while it returns.
        let living: Vec<usize> = (1..=3).filter(|node| *node != dead).collect();
        heard.progress(&nodes, &living, 50);
        nodes[dead - 1] = start(dead, &town, order, "anew");
        // Its own messages are delivered only after its groups have seated it.
        heard.progress(&nodes, &[1, 2, 3], 100);
    }
    ledger::judge(&mut nodes, &mut heard);
    assert!(heard.n_states >= rounds.len(), "who remembers nothing is given states");
    ledger::end(&mut nodes);
}

#[test]
fn the_dead_come_back_anew_on_tcp() {
    the_dead_come_back_anew(FabricKind::Tcp, "plain", &[3, 1, 2, 1, 1, 3]);
}

#[test]
fn the_dead_come_back_anew_on_shared_memory() {
    the_dead_come_back_anew(FabricKind::Shm, "hop", &[1, 2, 3, 3, 2, 1]);
}

#[test]
fn a_node_that_lives_is_removed_and_may_come_back() {
    let town = town(FabricKind::Tcp);
    let mut nodes: Vec<Node> = (1..=3).map(|node| start(node, &town, "plain", "first")).collect();
    let mut heard = Heard::default();
    heard.progress(&nodes, &[1, 2, 3], 20);
    nodes[1].tell("remove 9");
    assert!(answer(2, &nodes[1], &mut heard, "R ").contains("node 9 of a system of 3"));
    // It leads two groups: others have to lead first.
    nodes[1].tell("remove 1");
    assert_eq!(answer(2, &nodes[1], &mut heard, "R "), "it is asked for");
    let error = answer(1, &nodes[0], &mut heard, "E ");
    assert!(error.contains("its groups have removed this node"), "{error}");
    assert!(!nodes[0].child.wait().unwrap().success());
    let until = Instant::now() + PATIENCE;
    for node in [2, 3] {
        loop {
            nodes[node - 1].tell("voters");
            let voters = answer(node, &nodes[node - 1], &mut heard, "V ");
            if voters == "23 23 23" {
                break;
            }
            assert!(Instant::now() < until, "node {node} knows of the voters {voters}");
        }
    }
    heard.progress(&nodes, &[2, 3], 20);
    nodes[0] = start(1, &town, "plain", "anew");
    heard.progress(&nodes, &[1, 2, 3], 20);
    ledger::judge(&mut nodes, &mut heard);
    ledger::end(&mut nodes);
}

/// An application that claims to keep states, and has none.
struct Nothing;

impl Descriptors for Nothing {}

impl Application for Nothing {
    fn deliver(&mut self, _: Delivery, _: &mut Desk) {}

    fn outcome(&mut self, _: MessageId, _: Outcome, _: &mut Desk) {}

    fn keeps_states(&self) -> bool {
        true
    }
}

#[test]
fn who_cannot_come_back_anew_is_told_why() {
    let refused = |system: &System, seat: Seat| match run(system, seat, Nothing, |_| true) {
        Ok(_) => panic!("it was let in"),
        Err(error) => error.to_string(),
    };
    let town = town(FabricKind::Shm);
    let data = Some(Data::Reopen("/nowhere".into()));
    let both = Seat { data, ..Seat::anew(3) };
    assert!(refused(&town.system, both).contains("leave out one of the two"));
    let mut small = town.system.clone();
    small.groups[0] = vec![2, 3];
    assert!(refused(&small, Seat::anew(3)).contains("group of fewer than three"));
    let whitebox = System { protocol: Protocol::Whitebox, ..town.system.clone() };
    assert!(refused(&whitebox, Seat::anew(3)).contains("use primcast"));
    let commuting = System { commutes: true, ..town.system.clone() };
    assert!(refused(&commuting, Seat::anew(3)).contains("leave it out"));
    // The application of a `Door` has no states: it can neither come back like this nor seat
    // another.
    let error = Door::open(&town.system, Seat::anew(3)).map(drop).unwrap_err().to_string();
    assert!(error.contains("takes no states"), "{error}");
    let _door = Door::open(&town.system, Seat::new(1)).expect("the node opens");
    let until = Instant::now() + PATIENCE;
    let is_late = |_: &mut Nothing| Instant::now() > until;
    let error = run(&town.system, Seat::anew(3), Nothing, is_late).map(drop).unwrap_err();
    assert!(error.to_string().contains("takes no new incarnations"), "{error}");
}

/// The same system, but node 3 at another address and with another region.
fn elsewhere(of: &Town) -> Town {
    let mut other = town(FabricKind::Tcp);
    other.system.addresses[..2].copy_from_slice(&of.system.addresses[..2]);
    other
}

#[test]
fn a_process_that_was_replaced_is_told_and_stops() {
    let town = town(FabricKind::Tcp);
    let elsewhere = elsewhere(&town);
    let mut nodes: Vec<Node> = (1..=3).map(|node| start(node, &town, "hop", "first")).collect();
    let mut heard = Heard::default();
    heard.progress(&nodes, &[1, 2, 3], 20);
    let next = start(3, &elsewhere, "hop", "anew");
    let old = std::mem::replace(&mut nodes[2], next);
    let error = answer(3, &old, &mut heard, "E ");
    assert!(error.contains("knows a later incarnation of this node"), "{error}");
    heard.progress(&nodes, &[1, 2, 3], 20);
    ledger::judge(&mut nodes, &mut heard);
    ledger::end(&mut nodes);
}

#[test]
fn a_process_that_has_forgotten_and_does_not_say_so_is_told_and_stops() {
    let town = town(FabricKind::Tcp);
    let elsewhere = elsewhere(&town);
    let mut nodes: Vec<Node> = (1..=3).map(|node| start(node, &town, "plain", "first")).collect();
    let mut heard = Heard::default();
    heard.progress(&nodes, &[1, 2, 3], 20);
    nodes[2].kill();
    heard.drain(3, &nodes[2]);
    let wrong = start(3, &town, "plain", "first");
    let error = answer(3, &wrong, &mut heard, "E ");
    assert!(error.contains("node-3.region"), "its region shows that it was there: {error}");
    // Without that region only the others know the incarnation.
    let wrong = start(3, &elsewhere, "plain", "first");
    let error = answer(3, &wrong, &mut heard, "E ");
    assert!(error.contains("knew another process as this node"), "{error}");
    nodes[2] = start(3, &town, "plain", "anew");
    heard.progress(&nodes, &[1, 2, 3], 20);
    ledger::judge(&mut nodes, &mut heard);
    ledger::end(&mut nodes);
}
