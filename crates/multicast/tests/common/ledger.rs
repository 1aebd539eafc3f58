//! Nodes as processes that keep all deliveries of their members as their application's state.
//!
//! The test binary starts itself again, one process per node ([`run_child`]). Each multicasts one
//! message after the other to all sets of groups in turn, and prints which were delivered.

use crate::common::{PATIENCE, Town};
use crate::process::{self, Started};
use multicast::{
    Application, Data, Delivery, Descriptors, Desk, FabricKind, GroupId, GroupSet, Limits,
    MessageId, Options, Order, Outcome, Protocol, Seat, System, run,
};
use proto::amcast::wire::{Reader, Wire, list};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io::{BufRead, Write};
use std::path::Path;
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// The variable that tells a child its node and its system.
const ROLE: &str = "GREGALE_TEST_LEDGER_NODE";
pub(crate) const GROUPS: [[usize; 3]; 3] = [[1, 2, 3], [1, 3, 2], [2, 3, 1]];

/// The least time between two multicasts of a node: its history is compared, and given to others,
/// whole.
const SAYS_EVERY: Duration = Duration::from_millis(2);

/// One delivery: final timestamp, name, destinations.
type Entry = (u64, MessageId, u32);

/// The body of each message where messages are long: some hundreds of them fill a log.
const LONG_BYTES: usize = 64 << 10;

/// An application that keeps every delivery.
struct Ledger {
    entries: BTreeMap<usize, Vec<Entry>>,
    commands: Receiver<String>,
    n_said: u64,
    body_bytes: usize,
    /// The number of own states still to be installed: one per group, if this is not its first
    /// life; later ones are other members'.
    n_own_states: usize,
    has_enough: bool,
    has_ended: bool,
    next_look_at: Option<base::Instant>,
    next_say_at: base::Instant,
}

impl Ledger {
    fn dump(&self) {
        let mut out = std::io::stdout().lock();
        let mut text = String::from("\nBEGIN\n");
        for (group, entries) in &self.entries {
            for (at, id, dest) in entries {
                text.push_str(&format!("D {group} {at} {} {} {dest}\n", id.sender, id.sequence));
            }
        }
        text.push_str("END\n");
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).expect("the parent reads");
    }
}

/// Prints the voters of each group.
fn say_voters(desk: &Desk) {
    let voters = desk.members().iter().map(|view| {
        let nodes = view.voters.iter().map(|node| (node.index() + 1).to_string());
        nodes.collect::<String>()
    });
    println!("\nV {}", voters.collect::<Vec<_>>().join(" "));
}

impl Descriptors for Ledger {}

impl Application for Ledger {
    fn deliver(&mut self, delivery: Delivery, _: &mut Desk) {
        let Delivery { group, message, at } = delivery;
        let entries = self.entries.entry(group.index()).or_default();
        entries.push((at.0, message.id, message.dest.bits()));
    }

    fn outcome(&mut self, id: MessageId, outcome: Outcome, _: &mut Desk) {
        if matches!(outcome, Outcome::Delivered(_)) {
            let mut out = std::io::stdout().lock();
            writeln!(out, "\nO {} {}", id.sender, id.sequence).expect("the parent reads");
            out.flush().expect("the parent reads");
        }
    }

    fn turn(&mut self, desk: &mut Desk) -> bool {
        self.next_look_at = Some(desk.now().plus(SAYS_EVERY));
        for command in self.commands.try_iter().collect::<Vec<_>>() {
            match command.as_str() {
                "enough" => self.has_enough = true,
                "dump" => self.dump(),
                "voters" => say_voters(desk),
                "end" => self.has_ended = true,
                other => {
                    let node = other.strip_prefix("remove ").expect("a command").parse();
                    match desk.remove(node.expect("a node")) {
                        Ok(()) => println!("\nR it is asked for"),
                        Err(refused) => println!("\nR {refused}"),
                    }
                }
            }
        }
        let says = !self.has_enough && desk.n_open() < 4 && desk.now() >= self.next_say_at;
        if says {
            self.next_say_at = desk.now().plus(SAYS_EVERY);
            self.n_said += 1;
            let dest = GroupSet::from_bits((1 + self.n_said % 7) as u32);
            // A message of a node that comes back may be in the state that it is given: then it is
            // unknown.
            let options = Options { patience: Duration::from_secs(1), ..Options::default() };
            // Refused while a node lags: the next turn tries again.
            let mut body = self.n_said.to_le_bytes().to_vec();
            body.resize(self.body_bytes, 0);
            let _id = desk.multicast(dest, body, &options);
        }
        false
    }

    fn deadline(&self) -> Option<base::Instant> {
        self.next_look_at
    }

    fn keeps_states(&self) -> bool {
        true
    }

    fn state(&mut self, group: GroupId) -> Vec<u8> {
        let mut out = Vec::new();
        let entries = self.entries.entry(group.index()).or_default();
        list(entries, &mut out, |(at, id, dest), out| {
            out.extend_from_slice(&at.to_le_bytes());
            id.encode(out);
            out.extend_from_slice(&dest.to_le_bytes());
        });
        out
    }

    fn install(&mut self, group: GroupId, state: &[u8], _: &mut Desk) {
        match self.n_own_states.checked_sub(1) {
            Some(left) => self.n_own_states = left,
            None => println!("\nS"),
        }
        if state.is_empty() {
            return;
        }
        let mut from = Reader::new(state);
        fn word<const N: usize>(from: &mut Reader<'_>) -> [u8; N] {
            std::array::from_fn(|_| from.byte().expect("a whole state"))
        }
        let entries = from.list(|from| {
            let at = u64::from_le_bytes(word(from));
            let id = MessageId::decode(from)?;
            Ok((at, id, u32::from_le_bytes(word(from))))
        });
        let entries = entries.expect("another ledger wrote it");
        let old = self.entries.insert(group.index(), entries).unwrap_or_default();
        // Deliveries that its giver had not handed over yet follow it, again if they are here: a
        // state may be shorter than the one that it replaces, but not different.
        let new = &self.entries[&group.index()];
        let n_both = old.len().min(new.len());
        assert_eq!(new[..n_both], old[..n_both], "a state goes on from ours, or leads there");
    }
}

/// The main function of a process that was started by [`Node::start`].
pub(crate) fn run_child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let mut words = role.split(' ');
    let mut word = || words.next().expect("the parent gives six words").to_owned();
    let (node, fabric, directory, order) = (word(), word(), word(), word());
    let (how, data) = (word(), word());
    let addresses = words.map(|address| address.parse().expect("an address")).collect();
    let system = System {
        cluster: "restart".into(),
        secret: "sesame".into(),
        protocol: Protocol::Primcast,
        order: if order == "hop" { Order::Hop } else { Order::Plain },
        fabric: if fabric == "tcp" { FabricKind::Tcp } else { FabricKind::Shm },
        directory: directory.into(),
        nodes: 3,
        addresses,
        groups: GROUPS.map(|group| group.to_vec()).to_vec(),
        commutes: false,
        clock_error_us: None,
        clock_by: Default::default(),
        limits: limits(&how),
        settings: String::new(),
        rules: 0,
    };
    let (to, commands) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if to.send(line).is_err() {
                break;
            }
        }
    });
    let ledger = Ledger {
        entries: BTreeMap::new(),
        commands,
        n_said: 0,
        body_bytes: if how == "begin-long" { LONG_BYTES } else { 8 },
        n_own_states: if how.starts_with("reopen") { GROUPS.len() } else { 0 },
        has_enough: false,
        has_ended: false,
        next_look_at: None,
        next_say_at: base::Instant::ZERO,
    };
    let node = node.parse().expect("a node");
    let mut seat = if how == "anew" { Seat::anew(node) } else { Seat::new(node) };
    seat.data = match how.as_str() {
        "begin" | "begin-long" => Some(Data::Begin(data.into())),
        "reopen" | "reopen-tight" => Some(Data::Reopen(data.into())),
        _ => None,
    };
    if let Err(error) = run(&system, seat, ledger, |ledger| ledger.has_ended) {
        println!("\nE {error}");
        std::process::exit(1);
    }
}

fn limits(how: &str) -> Limits {
    let limits = Limits { suspect_ms: 400, window: 16, ..Limits::default() };
    match how {
        // Content that was written under looser bounds than these is there when they begin to hold.
        "begin-long" => limits,
        "reopen-tight" => Limits { backlog_bytes: 1 << 20, kept_bytes: 8 << 20, ..limits },
        // Little is kept for an absent node: it needs a state, and the log of each node is often
        // begun again.
        _ => Limits { log_bytes: 64 << 10, ..limits },
    }
}

/// A process that is a node.
pub(crate) struct Node {
    pub(crate) child: Child,
    input: ChildStdin,
    pub(crate) lines: Receiver<String>,
}

impl Node {
    /// Starts a node. `how` is `begin` or `reopen` for its directory below `data` (`begin-long`
    /// with messages that fill its log, `reopen-tight` under bounds that this log exceeds), or
    /// without one `first` or `anew`.
    pub(crate) fn start(
        number: usize,
        town: &Town,
        order: &str,
        (how, data): (&str, &Path),
    ) -> Node {
        let system = &town.system;
        let (fabric, directory) = (system.fabric.name(), system.directory.display());
        let own = data.join(number.to_string());
        let words: [&dyn Display; 6] = [&number, &fabric, &directory, &order, &how, &own.display()];
        let Started { child, input, lines } = process::start(ROLE, &words, system);
        Node { child, input, lines }
    }

    pub(crate) fn tell(&mut self, command: &str) {
        writeln!(self.input, "{command}").expect("it lives");
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended already.
        let _dead = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// The parent's knowledge.
#[derive(Default)]
pub(crate) struct Heard {
    /// The messages that their senders know to be delivered, by sender and sequence.
    outcomes: BTreeSet<(u64, u64)>,
    n_of: BTreeMap<usize, usize>,
    /// The number of states that members gave to others.
    pub(crate) n_states: usize,
}

impl Heard {
    pub(crate) fn note(&mut self, node: usize, line: &str) {
        self.n_states += usize::from(line == "S");
        assert!(!line.starts_with("E "), "node {node} ended: {line}");
        let Some(words) = line.strip_prefix("O ") else { return };
        let words: Vec<u64> = words.split(' ').filter_map(|word| word.parse().ok()).collect();
        // A line that the kill cut off may lack its end: numbers then have fewer digits.
        if let [sender, sequence] = words[..] {
            self.outcomes.insert((sender, sequence));
            *self.n_of.entry(node).or_default() += 1;
        }
    }

    pub(crate) fn drain(&mut self, number: usize, node: &Node) {
        while let Ok(line) = node.lines.try_recv() {
            self.note(number, &line);
        }
    }

    /// Waits until each of `which` has had `more` of its messages delivered.
    pub(crate) fn progress(&mut self, nodes: &[Node], which: &[usize], more: usize) {
        let before = self.n_of.clone();
        let until = Instant::now() + PATIENCE;
        let of = |n_of: &BTreeMap<usize, usize>, node| n_of.get(node).copied().unwrap_or(0);
        while which.iter().any(|node| of(&self.n_of, node) < of(&before, node) + more) {
            assert!(Instant::now() < until, "from {before:?} only to {:?}", self.n_of);
            for (at, node) in nodes.iter().enumerate() {
                if let Ok(line) = node.lines.recv_timeout(Duration::from_millis(2)) {
                    self.note(at + 1, &line);
                }
                self.drain(at + 1, node);
            }
        }
    }
}

/// All deliveries of a node's members.
fn dump(number: usize, node: &mut Node, heard: &mut Heard) -> BTreeMap<usize, Vec<Entry>> {
    node.tell("dump");
    let mut all: BTreeMap<usize, Vec<Entry>> = BTreeMap::new();
    loop {
        let line = node.lines.recv_timeout(PATIENCE).expect("a node that lives answers");
        if let Some(words) = line.strip_prefix("D ") {
            let words: Vec<u64> = words.split(' ').map(|word| word.parse().unwrap()).collect();
            let [group, at, sender, sequence, dest] = words[..] else { panic!("{line}") };
            let entry = (at, MessageId { sender, sequence }, dest as u32);
            all.entry(group as usize).or_default().push(entry);
        } else if line == "END" {
            return all;
        }
        heard.note(number, &line);
    }
}

/// Has all of `nodes` reach the same end, and judges their deliveries: the same, in one order, and
/// including everything that any process knows to be delivered. The nodes stay alive.
pub(crate) fn judge(nodes: &mut [Node], heard: &mut Heard) {
    for node in &mut *nodes {
        node.tell("enough");
    }
    let until = Instant::now() + PATIENCE;
    let all = loop {
        let all: Vec<_> =
            nodes.iter_mut().enumerate().map(|(at, node)| dump(at + 1, node, heard)).collect();
        let is_whole = heard.outcomes.iter().all(|(sender, sequence)| {
            let is_it = |(_, id, _): &Entry| (id.sender, id.sequence) == (*sender, *sequence);
            all[0].values().flatten().any(is_it)
        });
        if all[0] == all[1] && all[1] == all[2] && is_whole {
            break all;
        }
        let counts: Vec<Vec<usize>> =
            all.iter().map(|of| of.values().map(Vec::len).collect()).collect();
        assert!(Instant::now() < until, "the nodes disagree: {counts:?}");
        std::thread::yield_now();
    };
    let delivered = &all[0];
    let mut places = BTreeMap::new();
    for (group, entries) in delivered {
        for pair in entries.windows(2) {
            assert!((pair[0].0, pair[0].1) < (pair[1].0, pair[1].1), "group {group}: {pair:?}");
        }
        for (at, id, dest) in entries {
            assert!(dest >> group & 1 == 1, "{id:?} is not addressed to group {group}");
            assert_eq!(*places.entry(*id).or_insert(*at), *at, "{id:?} has two timestamps");
        }
    }
    let by_name: BTreeMap<MessageId, BTreeSet<usize>> =
        delivered.iter().fold(BTreeMap::new(), |mut all, (group, entries)| {
            for (_, id, _) in entries {
                let groups: &mut BTreeSet<usize> = all.entry(*id).or_default();
                assert!(groups.insert(*group), "{id:?} was delivered twice in group {group}");
            }
            all
        });
    for (_, id, dest) in delivered.values().flatten() {
        assert_eq!(by_name[id].len(), dest.count_ones() as usize, "{id:?} is not everywhere");
    }
    for &(sender, sequence) in &heard.outcomes {
        let id = MessageId { sender, sequence };
        assert!(by_name.contains_key(&id), "{id:?} was delivered, and is nowhere");
    }
}

/// Ends live nodes.
pub(crate) fn end(nodes: &mut [Node]) {
    for node in &mut *nodes {
        node.tell("end");
    }
    for node in &mut *nodes {
        assert!(node.child.wait().unwrap().success());
    }
}
