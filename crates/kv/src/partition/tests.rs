//! Tests of partitions over a made-up multicast: one order of all messages, delivered to each
//! replica at its own pace.

use super::*;
use crate::command::resolve;
use crate::entry::command::{Queued, put_database, put_plain, put_transaction, put_versions};
use crate::entry::{Origin, Sequence, SessionCommand};
use crate::reply::{Protocol, Reply};
use crate::store::{Db, DbKey};
use base::{Incarnation, Instant, Rank, Rng};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

mod kept;
mod order;
mod scripts;
mod sender;
mod snapshot;

const NOW: u64 = 1_700_000_000_000;

/// A message for one replica.
pub(super) type Parcel = (Place, Partitions, Arc<[u8]>);

/// A process: its sender and its replicas.
pub(super) struct Process {
    pub(super) sender: Sender<u64>,
    pub(super) executor: Executor,
    /// The messages that were not delivered here yet, by partition.
    pub(super) inbox: Vec<VecDeque<Parcel>>,
    pub(super) answers: BTreeMap<u64, Vec<u8>>,
    /// The answers to reads at a timestamp, by their numbers.
    pub(super) seen: BTreeMap<u64, String>,
}

/// The first sequence of such reads, above those of commands.
const READS: u64 = 1 << 63;

impl Process {
    pub(super) fn new(rank: usize, n: usize, order: Order, memory_bytes_max: u64) -> Process {
        let me = Origin { rank: Rank::at(rank), incarnation: Incarnation(1) };
        let executor = Executor::new(me, n, order, memory_bytes_max);
        let sender = Sender::new(me, executor.map());
        let inbox = vec![VecDeque::new(); n];
        Process { sender, executor, inbox, answers: BTreeMap::new(), seen: BTreeMap::new() }
    }

    /// Delivers the next message of `partition`, if there is one.
    pub(super) fn deliver(&mut self, partition: usize) -> bool {
        let Some((place, all, payload)) = self.inbox[partition].pop_front() else { return false };
        let (sender, answers, seen) = (&mut self.sender, &mut self.answers, &mut self.seen);
        let mut hear = |sequence: Sequence, reply: &[u8]| {
            if sequence.0 >= READS {
                seen.insert(sequence.0 ^ READS, as_text(reply));
            } else if let Some(asker) = sender.answered(sequence) {
                assert!(answers.insert(asker, reply.to_vec()).is_none(), "K3: once");
            }
        };
        self.executor.deliver(partition, place, all, &payload, &mut hear).unwrap();
        true
    }

    /// Reports that `partition` has reached the timestamp of read `number`.
    fn look(&mut self, partition: usize, number: u64, all: Partitions, read: &[u8]) {
        self.look_at(0, partition, number, all, read);
    }

    /// The same, where it was asked for at `unix_ms`.
    fn look_at(
        &mut self,
        unix_ms: u64,
        partition: usize,
        number: u64,
        all: Partitions,
        read: &[u8],
    ) {
        let payload = self.executor.snapshot_payload(Sequence(READS | number), read, unix_ms);
        let (sender, answers, seen) = (&mut self.sender, &mut self.answers, &mut self.seen);
        self.executor.snapshot(partition, number, all, &payload, &mut |sequence, reply| {
            if sequence.0 >= READS {
                seen.insert(sequence.0 ^ READS, as_text(reply));
            } else if let Some(asker) = sender.answered(sequence) {
                answers.insert(asker, reply.to_vec());
            }
        });
    }

    fn deliver_all(&mut self) {
        for partition in 0..self.inbox.len() {
            while self.deliver(partition) {}
        }
    }
}

/// A process to which everything is delivered at once.
pub(super) struct Alone {
    pub(super) process: Process,
    n_asked: u64,
    n_sent: u64,
    now_ms: u64,
    /// Every message, in its place.
    log: Vec<Parcel>,
}

fn as_text(reply: &[u8]) -> String {
    String::from_utf8_lossy(reply).replace("\r\n", " ").trim_end().to_owned()
}

impl Alone {
    pub(super) fn new(n: usize, order: Order, memory_bytes_max: u64) -> Alone {
        let process = Process::new(0, n, order, memory_bytes_max);
        Alone { process, n_asked: 0, n_sent: 0, now_ms: NOW, log: Vec::new() }
    }

    pub(super) fn ask(&mut self, command: &[u8]) -> String {
        self.n_asked += 1;
        let asker = self.n_asked;
        self.process.sender.submit(1, asker, command, Instant::ZERO);
        while self.process.sender.wants_to_send() {
            let mut sent = Vec::new();
            self.process.sender.send(self.now_ms, |to, batch| {
                sent.push((to, Arc::from(batch)));
                true
            });
            for (to, batch) in sent {
                self.n_sent += 1;
                let name = Name { sender: 1, sequence: self.n_sent };
                let place = Place { at: self.n_sent, name };
                self.log.push((place, to, Arc::clone(&batch)));
                for partition in to.iter() {
                    self.process.inbox[partition].push_back((place, to, Arc::clone(&batch)));
                }
            }
            self.process.deliver_all();
        }
        let answer = self.process.answers.remove(&asker).expect("an answer");
        as_text(&answer)
    }

    pub(super) fn say(&mut self, text: &str) -> String {
        self.ask(&plain(text))
    }
}

pub(super) fn plain(text: &str) -> Vec<u8> {
    let args: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
    let mut bytes = Vec::new();
    put_plain(&args, Protocol::Resp2, &mut bytes);
    bytes
}

pub(super) fn transaction(guards: &[(&[u8], u64)], commands: &[&str]) -> Vec<u8> {
    let mut queued = Queued::default();
    for command in commands {
        let args: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        queued.push(&args);
    }
    let mut bytes = Vec::new();
    let guards = guards.iter().map(|(key, version)| (DbKey::from(*key), *version));
    put_transaction(guards, &queued, Protocol::Resp2, &mut bytes);
    bytes
}

/// Two keys of different partitions, among `n`.
pub(super) fn two_keys(n: usize) -> [String; 2] {
    let mut keys = (0..).map(|at| format!("k{at}"));
    let first = keys.next().unwrap();
    let apart = |key: &String| partition_of(key.as_bytes(), n) != partition_of(first.as_bytes(), n);
    let second = keys.find(apart).unwrap();
    [first, second]
}

const ORDERS: [Order; 3] = [Order::Linearizable, Order::Signals, Order::Reply];

#[test]
fn u1_partitions_answer_as_one_store() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let n = rng.range(2, 6) as usize;
        let mut alone = Alone::new(n, ORDERS[seed as usize % 3], 0);
        let mut twin = Store::new(0);
        for step in 0..400 {
            if rng.chance(1, 8) {
                alone.now_ms += rng.below(400);
            }
            twin.advance_time(alone.now_ms);
            let texts: Vec<String> = if rng.chance(1, 5) {
                (0..rng.range(2, 5))
                    .map(|_| match rng.chance(1, 4) {
                        true => format!("SELECT {}", rng.below(3)),
                        false => random_command(&mut rng),
                    })
                    .collect()
            } else {
                vec![random_command(&mut rng)]
            };
            let mut reply = Reply::default();
            let first = Db::new(rng.below(2) as i64).unwrap();
            let mut db = first;
            let mut run = |text: &str, reply: &mut Reply| {
                let args: crate::Args<'_> = text.split(' ').map(str::as_bytes).collect();
                if !crate::machine::select(&args, &mut db, reply)
                    && let Some(spec) = resolve(&args, reply)
                {
                    twin.execute(db, spec, &args, 0, reply);
                }
            };
            let in_first = |command: Vec<u8>| {
                let mut bytes = Vec::new();
                put_database(first, &mut bytes);
                [bytes, command].concat()
            };
            let found = if let [text] = &texts[..] {
                run(text, &mut reply);
                alone.ask(&in_first(plain(text)))
            } else {
                reply.array(texts.len());
                texts.iter().for_each(|text| run(text, &mut reply));
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                alone.ask(&in_first(transaction(&[], &texts)))
            };
            let expected = String::from_utf8_lossy(reply.as_bytes()).replace("\r\n", " ");
            let (expected, found) = (canonical(&expected), canonical(&found));
            assert_eq!(found, expected, "U1: seed {seed}, step {step}: {texts:?}");
            // Keys expire by the time of the partition; bring all of them to the same.
            alone.say("DBSIZE");
        }
        let keys: u64 = (0..n).map(|at| alone.process.executor.figures(at).keys).sum();
        let bytes: u64 = (0..n).map(|at| alone.process.executor.figures(at).memory_bytes).sum();
        assert_eq!((keys, bytes), (twin.len() as u64, twin.used_bytes()));
    }
}

/// KEYS answers in the order of partitions.
fn canonical(answer: &str) -> Vec<&str> {
    let mut words: Vec<&str> = answer.split_whitespace().collect();
    if words.first().is_some_and(|word| word.starts_with('*')) {
        words.sort_unstable();
    }
    words
}

fn random_command(rng: &mut Rng) -> String {
    let mut key = || format!("k{}", rng.below(12));
    let (a, b, c) = (key(), key(), key());
    let value = rng.below(30);
    match rng.below(31) {
        0..4 => format!("SET {a} {value}"),
        4 => format!("SET {a} {value} PX {}", rng.range(1, 900)),
        5 => format!("MSET {a} {value} {b} x {c} y"),
        6 => format!("MSETNX {a} {value} {b} z"),
        7 => format!("MGET {a} {b} {a} {c}"),
        8 => format!("DEL {a} {b}"),
        9 => format!("UNLINK {a} {b} {a}"),
        10 => format!("EXISTS {a} {a} {b}"),
        11 => format!("TOUCH {a} {b} {c}"),
        12 => format!("RENAME {a} {b}"),
        13 => format!("RENAMENX {a} {b}"),
        14 => format!("COPY {a} {b}"),
        15 => format!("COPY {a} {b} REPLACE"),
        16 => format!("INCR {a}"),
        17 => format!("APPEND {a} {value}"),
        18 => "DBSIZE".to_owned(),
        19 => "KEYS *".to_owned(),
        20 => format!("LCS {a} {b}"),
        21 => format!("PEXPIRE {a} {}", rng.range(1, 900)),
        22 => format!("MSET {a} 1 {b}"),
        23 if value == 0 => "FLUSHALL".to_owned(),
        23 => format!("GETSET {a} {value}"),
        24 => format!("PTTL {a}"),
        25 => format!("COPY {a} {b} DB {} REPLACE", value % 3),
        26 => format!("MOVE {a} {}", value % 3),
        27 if value < 5 => format!("SWAPDB {} {}", value % 2, value % 3),
        28 if value == 0 => "FLUSHDB".to_owned(),
        29 => format!("BITOP XOR {a} {b} {c}"),
        _ => format!("GET {a}"),
    }
}

#[test]
fn n1_a_scan_returns_every_key() {
    let mut alone = Alone::new(5, Order::Linearizable, 0);
    for at in 0..200 {
        alone.say(&format!("SET key{at} x"));
    }
    let (mut cursor, mut seen) = ("0".to_owned(), Vec::new());
    loop {
        let answer = alone.say(&format!("SCAN {cursor} COUNT 7"));
        let words: Vec<&str> = answer.split(' ').collect();
        cursor = words[2].to_owned();
        seen.extend(words[4..].iter().skip(1).step_by(2).map(|&key| key.to_owned()));
        if cursor == "0" {
            break;
        }
    }
    seen.sort();
    let count = seen.len();
    seen.dedup();
    assert_eq!((seen.len(), count), (200, 200));
    assert!(alone.say("SCAN 99999999999999999999999").starts_with("-ERR invalid cursor"));
    assert!(alone.say("SCAN 9007199254740991").starts_with("*2 $1 0 *0"));
    assert!(alone.say("RANDOMKEY").contains("key"));
}

#[test]
fn a_random_key_of_all_partitions_takes_steps_of_its_transaction() {
    let mut alone = Alone::new(3, Order::Linearizable, 0);
    alone.say(&format!("SET v {}", "x".repeat(500_000)));
    let mut n_spent = |commands: &[&str]| {
        alone.ask(&transaction(&[], commands)).matches("too many steps").count()
    };
    let spend = ["BITCOUNT v"; 300];
    let n = n_spent(&spend);
    assert!((1..300).contains(&n));
    assert_eq!(n_spent(&[&spend[..], &["RANDOMKEY"]].concat()), n + 1);
    assert_eq!(n_spent(&[&["RANDOMKEY"; 10_000][..], &spend].concat()), n + 1);
}

#[test]
fn u2_watched_keys_are_guarded() {
    for order in ORDERS {
        let mut alone = Alone::new(4, order, 0);
        let [a, b] = two_keys(4);
        let versions = |alone: &mut Alone| -> Vec<u64> {
            let mut bytes = Vec::new();
            put_versions(&[a.as_bytes(), b.as_bytes()], &mut bytes);
            let answer = alone.ask(&bytes);
            answer.split(' ').skip(1).map(|word| word[1..].parse().unwrap()).collect()
        };
        let exec = |alone: &mut Alone, seen: &[u64]| {
            let guards = [(a.as_bytes(), seen[0]), (b.as_bytes(), seen[1])];
            alone.ask(&transaction(&guards, &[&format!("INCR {a}"), &format!("INCR {b}")]))
        };
        let first = versions(&mut alone);
        assert_eq!(exec(&mut alone, &first), "*2 :1 :1");
        assert_eq!(exec(&mut alone, &first), "*-1", "both have changed");
        let seen = versions(&mut alone);
        // Touched together with others, but not changed.
        assert_eq!(alone.say(&format!("MSETNX {a} x {b} y")), ":0");
        assert_eq!(alone.say(&format!("LCS {a} {b}")), "$1 1");
        assert_eq!(versions(&mut alone), seen, "U2");
        assert_eq!(alone.say(&format!("RENAME {a} {b}")), "+OK");
        assert_eq!(exec(&mut alone, &seen), "*-1", "U2");
        let absent = versions(&mut alone);
        assert_eq!(alone.say(&format!("COPY {b} {a}")), ":1");
        assert_eq!(alone.say(&format!("DEL {a}")), ":1");
        assert_ne!(versions(&mut alone)[0], absent[0], "it was there in between");
    }
}

/// Four such LCS take all the steps that a transaction has.
#[test]
fn u1_a_transaction_has_its_steps_once_for_all_partitions() {
    let [a, b] = two_keys(4);
    for n in [1, 4] {
        for walk in ["KEYS *", "SCAN 0"] {
            let mut alone = Alone::new(n, Order::Signals, 0);
            let (x, y) = ("x".repeat(2047), "y".repeat(2047));
            assert_eq!(alone.say(&format!("MSET {a} {x} {b} {y}")), "+OK");
            let lcs = format!("LCS {a} {b} LEN");
            let answer = alone.ask(&transaction(&[], &[&lcs, &lcs, &lcs, walk]));
            assert!(!answer.contains('-'), "{n} {walk}: {answer}");
            let answer = alone.ask(&transaction(&[], &[&lcs, &lcs, &lcs, &lcs, walk]));
            assert!(answer.starts_with("*5 :0 :0 :0 :0 -ERR"), "{n} {walk}: {answer}");
        }
    }
}

#[test]
fn u2_exec_checks_the_watched_keys_of_every_partition() {
    for order in ORDERS {
        for changed in 0..2 {
            let mut alone = Alone::new(4, order, 0);
            let keys = two_keys(4);
            let watched = [keys[0].as_bytes(), keys[1].as_bytes()];
            let mut bytes = Vec::new();
            put_versions(&watched, &mut bytes);
            let answer = alone.ask(&bytes);
            let seen: Vec<u64> =
                answer.split(' ').skip(1).map(|word| word[1..].parse().unwrap()).collect();
            let guards = [(watched[0], seen[0]), (watched[1], seen[1])];
            alone.say(&format!("SET {} new", keys[changed]));
            // It writes in one partition, in either, or in both.
            for written in [&keys[..1], &keys[1..], &keys[..]] {
                let commands: Vec<String> =
                    written.iter().map(|key| format!("APPEND {key} x")).collect();
                let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
                assert_eq!(alone.ask(&transaction(&guards, &commands)), "*-1", "U2: {order:?}");
            }
            let [new, old] = [changed, 1 - changed].map(|at| format!("GET {}", keys[at]));
            assert_eq!(alone.say(&new), "$3 new");
            assert_eq!(alone.say(&old), "$-1");
        }
    }
}

#[test]
fn sessions_call_in_every_partition() {
    let mut alone = Alone::new(3, Order::Linearizable, 0);
    let [a, b] = two_keys(3);
    let session = |command: SessionCommand<'_>| {
        let mut bytes = Vec::new();
        command.put(&mut bytes);
        bytes
    };
    let ids: Vec<u64> = (0..3)
        .map(|_| {
            let answer = alone.ask(&session(SessionCommand::Open));
            answer.split(' ').nth(1).unwrap()[1..].parse().unwrap()
        })
        .collect();
    let mut homes: Vec<u64> = ids.iter().map(|id| id % 3).collect();
    homes.sort_unstable();
    assert_eq!(homes, [0, 1, 2], "they are spread");
    use crate::client_sessions::{CallNumber, SessionId};
    for id in ids.into_iter().map(SessionId) {
        let call = |number: u64, command: &[u8]| {
            let (number, acknowledged) = (CallNumber(number), CallNumber(0));
            session(SessionCommand::Call { id, number, acknowledged, command })
        };
        let both = transaction(&[], &[&format!("INCR {a}"), &format!("INCR {b}")]);
        let first = alone.ask(&call(1, &both));
        assert_eq!(alone.ask(&call(1, &both)), first, "once");
        assert!(alone.ask(&call(3, &both)).starts_with("-GAP"));
        let get = plain(&format!("GET {a}"));
        let read = |number| SessionCommand::Read { id, number: CallNumber(number), command: &get };
        assert!(alone.ask(&session(read(2))).starts_with("$1"));
        assert!(alone.ask(&session(read(3))).starts_with("-GAP"));
    }
    assert_eq!(alone.say(&format!("MGET {a} {b}")), "*2 $1 3 $1 3");
    let unknown = SessionCommand::Resume(SessionId(7));
    assert!(alone.ask(&session(unknown)).starts_with("-NOSESSION"));
}

#[test]
fn sessions_are_spread_whatever_is_executed_between_their_openings() {
    let mut alone = Alone::new(2, Order::Linearizable, 0);
    let mut open = Vec::new();
    SessionCommand::Open.put(&mut open);
    let mut homes = [0; 2];
    for at in 0..40 {
        let answer = alone.ask(&open);
        let id: usize = answer.split(' ').nth(1).unwrap()[1..].parse().unwrap();
        homes[id % 2] += 1;
        alone.say(&format!("SET key {at}"));
    }
    assert_eq!(homes, [20, 20]);
}

/// A transaction reads in the full partition, and writes in the other one.
#[test]
fn a_transaction_that_reads_in_a_full_partition_is_executed() {
    let mut alone = Alone::new(2, Order::Linearizable, 2000);
    let [full, free] = two_keys(2);
    assert_eq!(alone.say(&format!("SET {full} {}", "x".repeat(3000))), "+OK");
    let (read, write) = (format!("STRLEN {full}"), format!("SET {free} 1"));
    assert_eq!(alone.ask(&transaction(&[], &[&read, &write])), "*2 :3000 +OK");
    let refused = alone.ask(&transaction(&[], &[&write, &format!("APPEND {full} 1")]));
    assert!(refused.starts_with("-EXECABORT") && refused.contains("OOM"), "{refused}");
    assert_eq!(alone.say(&format!("GET {free}")), "$1 1");
}

/// Over the limit a transaction is executed whole or not at all, and its number is used up.
#[test]
fn a_call_in_a_full_partition_is_answered_with_the_cause() {
    use crate::client_sessions::{CallNumber, SessionId};
    let mut alone = Alone::new(2, Order::Linearizable, 2000);
    let [a, b] = two_keys(2);
    let session = |command: SessionCommand<'_>| {
        let mut bytes = Vec::new();
        command.put(&mut bytes);
        bytes
    };
    let opened = alone.ask(&session(SessionCommand::Open));
    let id = SessionId(opened.split(' ').nth(1).unwrap()[1..].parse().unwrap());
    let call = |number, command: &[u8]| {
        let (number, acknowledged) = (CallNumber(number), CallNumber(0));
        session(SessionCommand::Call { id, number, acknowledged, command })
    };
    assert_eq!(alone.say(&format!("SET {a} {}", "x".repeat(3000))), "+OK");
    let both = transaction(&[], &[&format!("SET {a} 1"), &format!("SET {b} 1")]);
    let refused = "-OOM command not allowed when used memory > 'maxmemory'.";
    assert_eq!(alone.ask(&call(1, &both)), refused);
    assert_eq!(alone.ask(&call(1, &both)), refused, "E3");
    let free = transaction(&[], &[&format!("DEL {a}"), &format!("GET {b}")]);
    assert_eq!(alone.ask(&call(2, &free)), "*2 :1 $-1", "nothing of it was executed");
}

#[test]
fn a_full_partition_refuses_all_of_a_write_or_nothing() {
    for order in ORDERS {
        let mut alone = Alone::new(2, order, 2000);
        let [a, b] = two_keys(2);
        assert_eq!(alone.say(&format!("SET {a} {}", "x".repeat(1500))), "+OK");
        for command in [format!("MSET {b} 1 {a} 2"), format!("MSETNX {a}x 1 {b} 2")] {
            if partition_of(a.as_bytes(), 2) != partition_of(format!("{a}x").as_bytes(), 2)
                && command.starts_with("MSETNX")
            {
                continue; // its keys happen to have room
            }
            assert!(alone.say(&command).starts_with("-OOM"), "{command}");
        }
        assert_eq!(alone.say(&format!("GET {b}")), "$-1", "nothing of it was executed");
        assert_eq!(alone.say(&format!("SET {b} 1")), "+OK", "it has room of its own");
    }
}
