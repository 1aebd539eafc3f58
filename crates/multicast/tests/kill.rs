//! Real processes, and `kill -9` of one that leads.
//!
//! The test binary starts itself again, one process per node ([`child`]): each multicasts one
//! message after the other to all sets of groups in turn, and prints its members' deliveries.

mod common;
#[path = "common/heard.rs"]
mod heard;
#[path = "common/process.rs"]
mod process;

use common::{PATIENCE, Town};
use heard::Heard;
use multicast::{
    Delivery, Door, FabricKind, Failed, GroupId, GroupSet, Limits, Message, MessageId, Options,
    Order, Protocol, Seat, System, Timestamp,
};
use process::Started;
use std::fmt::Display;
use std::io::{BufRead, Write};
use std::process::{Child, ChildStdin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// The variable that tells a child its node and its system.
const ROLE: &str = "GREGALE_TEST_NODE";
const GROUPS: [[usize; 3]; 3] = [[1, 2, 3], [1, 3, 2], [2, 3, 1]];

/// The entry of the processes that the other tests start; not a test of its own.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let mut words = role.split(' ');
    let mut word = || words.next().expect("the parent gives four words").to_owned();
    let (node, fabric, directory, order) = (word(), word(), word(), word());
    let fabric = if fabric == "tcp" { FabricKind::Tcp } else { FabricKind::Shm };
    let order = if order == "hop" { Order::Hop } else { Order::Plain };
    let addresses = words.map(|address| address.parse().expect("an address")).collect();
    let system = System {
        cluster: "kill".into(),
        secret: "sesame".into(),
        protocol: Protocol::Primcast,
        order,
        fabric,
        directory: directory.into(),
        nodes: 3,
        addresses,
        groups: GROUPS.map(|group| group.to_vec()).to_vec(),
        commutes: false,
        clock_error_us: None,
        clock_by: Default::default(),
        limits: Limits { suspect_ms: 400, ..Limits::default() },
        settings: String::new(),
        rules: 0,
    };
    let door = Door::open(&system, Seat::new(node.parse().expect("a node"))).expect("it opens");
    let ends = Arc::new(AtomicBool::new(false));
    let hears = ends.clone();
    // The parent closes the input when enough was multicast, and the pipe when it is done.
    let input = std::thread::spawn(move || {
        let lines = std::io::stdin().lock().lines().map_while(Result::ok);
        lines.for_each(|_| hears.store(true, Ordering::SeqCst));
    });
    let mut out = std::io::stdout().lock();
    let mut tell = |delivery: &Delivery| {
        let Message { id, dest, .. } = &*delivery.message;
        writeln!(
            out,
            "\nD {} {} {} {} {}",
            delivery.group.index(),
            delivery.at.0,
            id.sender,
            id.sequence,
            dest.bits()
        )
        .expect("the parent reads");
        out.flush().expect("the parent reads");
    };
    let mut n = 0;
    while !ends.load(Ordering::SeqCst) {
        n += 1;
        let dest = GroupSet::from_bits(1 + n % 7);
        let options = Options { patience: PATIENCE, ..Options::default() };
        let pending = door.multicast(dest, n.to_le_bytes(), &options).expect("one at a time");
        match pending.wait() {
            Ok(_) => {}
            Err(Failed::Refused(refused)) => panic!("{refused}"),
            Err(Failed::Unknown) => panic!("a majority lives, and a minute has passed"),
        }
        while let Some(delivery) = door.next(Duration::ZERO) {
            tell(&delivery);
        }
    }
    while !input.is_finished() {
        if let Some(delivery) = door.next(Duration::from_millis(20)) {
            tell(&delivery);
        }
    }
}

struct Node {
    number: usize,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Node {
    fn start(number: usize, town: &Town, order: &str) -> Node {
        let system = &town.system;
        let (fabric, directory) = (system.fabric.name(), system.directory.display());
        let words: [&dyn Display; 4] = [&number, &fabric, &directory, &order];
        let Started { child, input, lines } = process::start(ROLE, &words, system);
        Node { number, child, input: Some(input), lines }
    }

    /// Reads what the node has printed so far. True if there was something.
    fn hear(&self, heard: &mut Heard, patience: Duration) -> bool {
        let Ok(line) = self.lines.recv_timeout(patience) else { return false };
        let Some(numbers) = line.strip_prefix("D ") else { return true };
        let numbers: Vec<u64> = numbers.split(' ').map(|word| word.parse().unwrap()).collect();
        // A line that the kill cut off would have too few.
        if let [group, at, sender, sequence, dest] = numbers[..] {
            let id = MessageId { sender, sequence };
            let message = Message::new(id, GroupSet::from_bits(dest as u32), *b"");
            let group = GroupId::at(group as usize);
            let delivery = Delivery { group, message: Arc::new(message), at: Timestamp(at) };
            heard.note(self.number, &delivery);
        }
        true
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended already.
        let _dead = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn count(heard: &Heard, node: usize) -> usize {
    (0..GROUPS.len()).map(|group| heard.by.get(&(node, group)).map_or(0, Vec::len)).sum()
}

/// Reads from all of `nodes` until `enough` returns true.
fn hear_until(nodes: &[Node], heard: &mut Heard, mut enough: impl FnMut(&Heard) -> bool) {
    let until = Instant::now() + PATIENCE;
    while !enough(heard) {
        assert!(Instant::now() < until, "only {:?}", heard.counts());
        for node in nodes {
            while node.hear(heard, Duration::from_millis(1)) {}
        }
    }
}

fn a_killed_primary_is_replaced(fabric: FabricKind, order: &str) {
    let mut town = Town::new(fabric, 3, GROUPS.map(|group| group.to_vec()).to_vec());
    // The children bind the ports themselves.
    town.listeners.clear();
    let mut nodes: Vec<Node> = (1..=3).map(|number| Node::start(number, &town, order)).collect();
    let mut heard = Heard::default();
    hear_until(&nodes, &mut heard, |heard| (1..=3).all(|node| count(heard, node) >= 300));
    // Node 1 leads groups 0 and 1 at first.
    nodes[0].child.kill().unwrap();
    nodes[0].child.wait().unwrap();
    while nodes[0].hear(&mut heard, Duration::from_millis(100)) {}
    nodes.remove(0);
    let before = [2, 3].map(|node| count(&heard, node));
    hear_until(&nodes, &mut heard, |heard| {
        [2, 3].iter().zip(before).all(|(node, before)| count(heard, *node) >= before + 600)
    });
    // That is enough: no more is multicast, and both reach the same end.
    for node in &mut nodes {
        writeln!(node.input.as_mut().unwrap(), "enough").unwrap();
    }
    let same = |heard: &Heard| {
        (0..GROUPS.len()).all(|group| heard.by.get(&(2, group)) == heard.by.get(&(3, group)))
    };
    let until = Instant::now() + PATIENCE;
    // All are quiet for a while, and equal: nothing is under way.
    loop {
        assert!(Instant::now() < until, "the survivors disagree: {:?}", heard.counts());
        let mut is_quiet = true;
        for node in &nodes {
            while node.hear(&mut heard, Duration::from_millis(150)) {
                is_quiet = false;
            }
        }
        if is_quiet && same(&heard) {
            break;
        }
    }
    heard.judge();
    // Everything that the dead node delivered, the live ones have delivered: uniform agreement.
    for group in 0..GROUPS.len() {
        let of = |node| heard.by.get(&(node, group)).map_or(&[][..], Vec::as_slice);
        assert!(of(2).starts_with(of(1)), "group {group}");
    }
}

#[test]
fn a_killed_primary_is_replaced_on_shared_memory() {
    a_killed_primary_is_replaced(FabricKind::Shm, "plain");
}

#[test]
fn a_killed_primary_is_replaced_on_tcp() {
    a_killed_primary_is_replaced(FabricKind::Tcp, "hop");
}
