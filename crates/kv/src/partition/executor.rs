//! Execution of the messages that are delivered to a process's replicas. See [`super`].

use super::gate::Gate;
use super::hash::Partitions;
use super::merge::{self, Merging};
use super::plan::{Map, Shape, is_read};
use super::sender::COMMANDS_MAX;
use super::together::{Own, Together};
use super::{Name, Order, Part, Place, snapshot};
use crate::command::resolve;
use crate::entry::{Batch, Command, EntryError, Frame, Origin, Sequence};
use crate::reply::{Protocol, Reply};
use crate::store::{Db, DbKey, Outbox, Published};
use crate::text;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A message that was delivered to a replica here and that not all of its partitions have executed.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) place: Place,
    pub(super) all: Partitions,
    pub(super) payload: Arc<[u8]>,
    /// The partitions that have not executed it.
    pub(super) left: Partitions,
    /// The commands that are executed piece by piece, by their places in the batch, with their
    /// answers.
    pub(super) merging: BTreeMap<usize, Merging>,
    /// The answers to this process's own commands, in any order.
    pub(super) answers: Vec<(Sequence, Vec<u8>)>,
    /// The approximate bytes of the answers and pieces.
    answer_bytes: usize,
    /// The places of own reads that are not executed: since the message's answers are long enough,
    /// or since time has to be decided first (`snapshot`'s R3).
    pub(super) put_off: BTreeSet<usize>,
    /// Whether it came with a state. Its own commands are not answered: the process that gave the
    /// state may have executed pieces of them, and no asker waits (`Sender::abandon`).
    is_kept: bool,
}

/// The bytes of answers to own reads in one message above which its other reads are put off. A
/// batch of reads is short, but its answers may be long.
const ANSWERS_BYTES_MAX: usize = 4 << 20;

/// The answer to a read that its owner must send again. No reply is empty.
pub const PUT_OFF: &[u8] = b"";

impl Message {
    /// A message that was just delivered.
    pub(super) fn new(place: Place, all: Partitions, payload: Arc<[u8]>) -> Message {
        Message {
            place,
            all,
            payload,
            left: all,
            merging: BTreeMap::new(),
            answers: Vec::new(),
            answer_bytes: 0,
            put_off: BTreeSet::new(),
            is_kept: false,
        }
    }

    /// A message that came with a state.
    pub(super) fn kept(place: Place, all: Partitions, payload: Arc<[u8]>) -> Message {
        Message { is_kept: true, ..Message::new(place, all, payload) }
    }
}

/// The figures of one partition at this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Messages executed.
    pub executed: u64,
    /// Keys.
    pub keys: u64,
    /// Keys that expire.
    pub expiring: u64,
    /// Bytes of keys and values.
    pub memory_bytes: u64,
    /// Changes of keys, counted.
    pub changes: u64,
}

/// The executor of a process's replicas; see [`super`].
#[derive(Debug)]
pub struct Executor {
    me: Origin,
    map: Map,
    order: Order,
    pub(super) parts: Vec<Part>,
    /// Each partition's part of the memory limit.
    pub(super) share: u64,
    /// The messages that wait to be executed.
    pub(super) gate: Gate,
    /// The messages that wait to be answered ([`Order::Reply`]).
    counter: Gate,
    pub(super) messages: BTreeMap<Name, Message>,
    /// The own reads on their way that may be put off.
    yielding: BTreeSet<Sequence>,
    /// The messages that the partitions have published, in the order of execution.
    published: Outbox,
    /// A buffer for the reply that is being made.
    reply: Reply,
}

impl Executor {
    /// The replicas of all partitions before the first message. `memory_bytes_max` (zero: none) is
    /// the limit of all together, and the same in every process.
    pub fn new(me: Origin, n: usize, order: Order, memory_bytes_max: u64) -> Executor {
        let share = memory_bytes_max.div_ceil(n as u64);
        Executor {
            me,
            map: Map { n, is_limited: memory_bytes_max != 0 },
            order,
            parts: vec![Part::new(share); n],
            share,
            gate: Gate::new(n),
            counter: Gate::new(n),
            messages: BTreeMap::new(),
            yielding: BTreeSet::new(),
            published: Outbox::default(),
            reply: Reply::default(),
        }
    }

    /// Forgets everything, so that another process's replicas can be installed: all of them, as
    /// they were at one moment ([`Executor::restore`]).
    pub fn begin_again(&mut self) {
        let n = self.map.n;
        self.parts = vec![Part::new(self.share); n];
        (self.gate, self.counter) = (Gate::new(n), Gate::new(n));
        self.messages.clear();
    }

    /// The map from keys to partitions.
    pub fn map(&self) -> Map {
        self.map
    }

    /// The figures of a partition.
    pub fn figures(&self, partition: usize) -> Figures {
        let Part { store, executed, .. } = &self.parts[partition];
        Figures {
            executed: *executed,
            keys: store.len() as u64,
            expiring: store.expiring() as u64,
            memory_bytes: store.used_bytes(),
            changes: store.counters().changes,
        }
    }

    /// The Unix time in milliseconds at which the first key of a partition expires, which may have
    /// passed.
    pub fn next_expiry_ms(&self, partition: usize) -> Option<u64> {
        self.parts[partition].store.next_expiry_ms()
    }

    /// Whether a partition keeps keys that are due at its own state time: the last message has not
    /// removed all of them.
    pub(crate) fn has_due_keys_left(&self, partition: usize) -> bool {
        let store = &self.parts[partition].store;
        store.next_expiry_ms().is_some_and(|due_ms| due_ms <= store.now_ms())
    }

    /// Whether a message was delivered here and a partition that it is for has not executed it.
    pub(crate) fn is_waiting(&self, name: Name) -> bool {
        self.messages.get(&name).is_some_and(|message| !message.left.is_empty())
    }

    /// State time: the largest stamp that any partition here has executed, Unix milliseconds; 0
    /// before the first.
    pub fn state_ms(&self) -> u64 {
        self.parts.iter().map(|part| part.store.now_ms()).max().unwrap_or(0)
    }

    /// Keys of a database in all partitions, and how many of them expire.
    pub fn keys_of(&self, db: Db) -> (u64, u64) {
        let stores = || self.parts.iter().map(|part| &part.store);
        let keys = stores().map(|store| store.len_of(db) as u64).sum();
        (keys, stores().map(|store| store.expiring_of(db) as u64).sum())
    }

    /// The messages that were published since the last call, in the order of execution.
    pub fn take_published(&mut self) -> Vec<Published> {
        self.published.take()
    }

    /// The number of messages that wait here for another partition's replica.
    pub fn waiting(&self) -> usize {
        self.messages.len()
    }

    /// A hash of each partition's keys, values, expiries and sessions: equal at replicas that have
    /// executed the same. For tests and audits.
    pub fn digest(&self, partition: usize) -> u64 {
        let Part { store, clients, .. } = self.parts[partition].clone();
        crate::machine::Machine::of_state(store, clients).digest()
    }

    /// Delivers the next message of `partition`: a batch, addressed to `all`. Answers to this
    /// process's own commands that become available are given to `answers`.
    ///
    /// # Errors
    /// The payload is not a batch, which is a bug of its sender. No replica executes any of it.
    ///
    /// # Panics
    /// If the place does not follow the previous one (X1), or `all` misses `partition`.
    pub fn deliver(
        &mut self,
        partition: usize,
        place: Place,
        all: Partitions,
        payload: &Arc<[u8]>,
        answers: &mut impl FnMut(Sequence, &[u8]),
    ) -> Result<(), EntryError> {
        let part = &mut self.parts[partition];
        assert!(part.delivered.is_none_or(|last| last < place), "X1: {place:?} in {partition}");
        assert!(all.contains(partition), "X1: it is addressed to whom it is delivered to");
        part.delivered = Some(place);
        // Every replica sees the same bytes, so every replica skips them.
        let batch = Batch::check(payload)?;
        let stands = if self.waits_for_all(&batch, all) { all } else { Partitions::one(partition) };
        self.stand(partition, place, (all, stands), payload, answers);
        Ok(())
    }

    /// Adds a message to the queue of `partition`. It is executed when it is first in each queue of
    /// `stands`.
    pub(super) fn stand(
        &mut self,
        partition: usize,
        place: Place,
        (all, stands): (Partitions, Partitions),
        payload: &Arc<[u8]>,
        answers: &mut impl FnMut(Sequence, &[u8]),
    ) {
        let message = || Message::new(place, all, Arc::clone(payload));
        self.messages.entry(place.name).or_insert_with(message);
        self.gate.join(partition, place.name, stands);
        self.pass(answers);
    }

    /// Executes the messages that have reached the front of their queues.
    pub(super) fn pass(&mut self, answers: &mut impl FnMut(Sequence, &[u8])) {
        while let Some((name, passed)) = self.gate.pass() {
            // Every name in a queue was put into the map first.
            let message = self.messages.remove(&name).expect("a message that waits is kept");
            let message = if name.sender == snapshot::SENDER {
                self.seen(message, passed)
            } else {
                self.executed(message, passed)
            };
            self.keep_or_answer(message, passed, answers);
        }
    }

    /// Removes `name`, which no reader waits for; that changes no state.
    pub(super) fn withdraw(&mut self, name: Name, answers: &mut impl FnMut(Sequence, &[u8])) {
        self.messages.remove(&name);
        self.gate.leave(name);
        self.counter.leave(name);
        self.pass(answers);
        self.answer_those_that_may(answers);
    }

    /// The name of this process in its commands.
    pub(super) const fn origin(&self) -> Origin {
        self.me
    }

    /// The own read `sequence` may be answered with [`PUT_OFF`]: it follows no write of its client.
    pub fn may_put_off(&mut self, sequence: Sequence) {
        // Reads that were never sent leave no other trace; the oldest is dropped.
        if self.yielding.len() >= 2 * COMMANDS_MAX {
            self.yielding.pop_first();
        }
        self.yielding.insert(sequence);
    }

    /// Whether the own read at `at` is put off instead of executed. Decided once, at its first
    /// piece.
    fn puts_off(&mut self, message: &mut Message, at: usize, sequence: Sequence) -> bool {
        if message.put_off.contains(&at) {
            return true;
        }
        let yields = self.yielding.remove(&sequence);
        if !yields || message.answer_bytes < ANSWERS_BYTES_MAX {
            return false;
        }
        message.put_off.insert(at);
        message.answers.push((sequence, PUT_OFF.to_vec()));
        true
    }

    /// Whether a message has to be executed by all of its partitions at once.
    fn waits_for_all(&self, batch: &Batch<'_>, all: Partitions) -> bool {
        let is_together = |frame: Frame<'_>| match Command::decode(frame.bytes) {
            Ok(command) => matches!(self.map.shape(&command), Shape::Together(_)),
            Err(_) => false,
        };
        all.len() > 1 && (self.order == Order::Signals || batch.frames().any(is_together))
    }

    /// Executes a message that is first in the queues of `passed`.
    fn executed(&mut self, mut message: Message, passed: Partitions) -> Message {
        let payload = Arc::clone(&message.payload);
        let batch = Batch::check(&payload).expect("checked when it was delivered");
        let mut together = Together { map: self.map, parts: &mut self.parts, all: passed };
        together.advance(batch.stamp_ms);
        let changes: SmallVec<[u64; 8]> =
            passed.iter().map(|at| self.parts[at].store.n_changes()).collect();
        for (at, frame) in batch.frames().enumerate() {
            let is_own = frame.origin == self.me && !message.is_kept;
            let Ok(command) = Command::decode(frame.bytes) else {
                self.malformed(&mut message, passed, frame, is_own);
                continue;
            };
            if is_read(&command) && (!is_own || self.puts_off(&mut message, at, frame.sequence)) {
                continue;
            }
            self.command(&mut message, passed, at, frame, &command, is_own);
        }
        message.left = passed.iter().fold(message.left, Partitions::without);
        for (at, n_changes) in passed.iter().zip(changes) {
            let store = &mut self.parts[at].store;
            store.remove_expired(batch.removals(store.n_changes() - n_changes));
            self.parts[at].executed += 1;
            self.published.append(self.parts[at].store.published_mut());
        }
        message
    }

    /// A malformed command has one answer, so one of its partitions gives it.
    fn malformed(&self, message: &mut Message, passed: Partitions, frame: Frame<'_>, is_own: bool) {
        if is_own && message.all.lowest().is_some_and(|first| passed.contains(first)) {
            let answer = merge::answer_of(Protocol::Resp2, |reply| reply.error(text::MALFORMED));
            message.answers.push((frame.sequence, answer));
        }
    }

    fn command(
        &mut self,
        message: &mut Message,
        passed: Partitions,
        at: usize,
        frame: Frame<'_>,
        command: &Command<'_>,
        is_own: bool,
    ) {
        // The only randomness, which is the same at every replica.
        let seed =
            message.place.at.rotate_left(20) ^ message.place.name.sequence ^ (at as u64) << 48;
        let shape = match self.map.shape(command) {
            // The sender decides in which partition a session is opened.
            Shape::One(_) if message.all.len() == 1 => {
                Shape::One(message.all.lowest().unwrap_or_default())
            }
            shape => shape,
        };
        if let Shape::Each(each, how) = shape
            && each == message.all
        {
            for partition in passed.iter() {
                let answer = self.piece(command, partition, seed);
                if is_own {
                    let merging =
                        message.merging.entry(at).or_insert_with(|| Merging::new(how, each));
                    merging.add(partition, &answer.bytes, &answer.places);
                    message.answer_bytes += answer.bytes.len();
                    if merging.is_complete()
                        && let Some(merging) = message.merging.remove(&at)
                    {
                        let whole = merge::answer_of(answer.protocol, |reply| merging.put(reply));
                        message.answers.push((frame.sequence, whole));
                    }
                }
            }
            return;
        }
        if shape.partitions() != message.all || passed != message.all {
            return self.malformed(message, passed, frame, is_own);
        }
        let mut together = Together { map: self.map, parts: &mut self.parts, all: passed };
        let too_long = if is_read(command) { text::ANSWER_TOO_LONG } else { text::UNKNOWN_REPLY };
        self.reply.clear();
        self.reply.bounded(too_long, |reply| together.execute(frame.bytes, seed, reply));
        if is_own {
            message.answer_bytes += self.reply.len();
            message.answers.push((frame.sequence, self.reply.as_bytes().to_vec()));
        }
    }

    /// Executes the part of `partition` in a command that each partition executes for its own keys.
    fn piece(&mut self, command: &Command<'_>, partition: usize, seed: u64) -> Piece {
        let store = &mut self.parts[partition].store;
        match command {
            Command::Plain { db, protocol, args } => {
                let mut places = Vec::new();
                let bytes = merge::answer_of(*protocol, |reply| {
                    if let Some(spec) = resolve(args, reply) {
                        let piece = merge::piece(&self.map, spec, args, partition);
                        let own = Own { map: self.map, at: partition };
                        own.execute(store, *db, spec, &piece, seed, reply);
                        places = merge::places(&self.map, spec, args, partition);
                    }
                });
                Piece { bytes, places, protocol: *protocol }
            }
            Command::Versions { db, keys } => {
                let places = merge::places_of_keys(&self.map, keys, partition);
                let bytes = merge::answer_of(Protocol::Resp2, |reply| {
                    reply.array(places.len());
                    let version = |at: usize| store.version(DbKey { db: *db, key: keys[at] });
                    places.iter().for_each(|&at| reply.integer(version(at) as i64));
                });
                Piece { bytes, places, protocol: Protocol::Resp2 }
            }
            Command::Transaction { .. } | Command::Session(_) => {
                unreachable!("transactions and sessions are executed together")
            }
        }
    }

    /// Answers `message`, which `passed` have executed, if it may be answered.
    fn keep_or_answer(
        &mut self,
        message: Message,
        passed: Partitions,
        answers: &mut impl FnMut(Sequence, &[u8]),
    ) {
        let name = message.place.name;
        if self.order != Order::Reply {
            if message.left.is_empty() {
                give(message, answers);
            } else {
                self.messages.insert(name, message);
            }
            return;
        }
        passed.iter().for_each(|at| self.counter.join(at, name, message.all));
        self.messages.insert(name, message);
        self.answer_those_that_may(answers);
    }

    fn answer_those_that_may(&mut self, answers: &mut impl FnMut(Sequence, &[u8])) {
        while let Some((name, _)) = self.counter.pass() {
            if let Some(message) = self.messages.remove(&name) {
                assert!(message.left.is_empty(), "it came to every counter by being executed");
                give(message, answers);
            }
        }
    }
}

/// The answer of one partition to its piece of a command.
struct Piece {
    bytes: Vec<u8>,
    places: Vec<usize>,
    protocol: Protocol,
}

fn give(mut message: Message, answers: &mut impl FnMut(Sequence, &[u8])) {
    assert!(message.merging.is_empty(), "every piece of an executed message is answered");
    message.answers.sort_by_key(|(sequence, _)| *sequence);
    for (sequence, reply) in message.answers {
        answers(sequence, &reply);
    }
}
