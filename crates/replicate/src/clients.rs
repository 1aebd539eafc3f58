//! Clients: the connections of one process, from their streams to entries, and from the output of
//! their legs back.
//!
//! - C1 what a client sends becomes entries in its order, with consecutive indices.
//! - C2 a client is read only while there is room: on the desk, in its own share of what is not
//!   decided ([`IN_FLIGHT_BYTES_MAX`]), and while the own copy keeps up ([`LAG_BYTES_MAX`]) and a
//!   majority's do (`pace`). The own copy has been fed all that own clients have said and that was
//!   executed: while it works, what they say next gathers, and becomes one value of the log. A
//!   client that does not take its output is closed when [`OUTPUT_BYTES_MAX`] bytes wait for it.
//! - C3 a connection of which the fate of one entry is unknown is closed, and aborted by an entry,
//!   so that what the client sent before is executed up to some point, or not at all.
//! - C4 each connection that was opened is ended by one entry that is decided: a Close or Abort
//!   whose fate is unknown is followed by an Abort, until one is decided.
//! - C5 no client is let in before the process's own Begin is executed: it ends the connections of
//!   the process before it.
//! - C6 reads (`reads`) that a client sends while nothing of its connection is on its way wait for
//!   a check, in place of becoming an entry, and the client is not read before they are answered.
//!   So they see what was answered to it, and what it says next is ordered behind them. Reads
//!   behind what is on its way are a part of their entry, as all else is.
//! - C7 where answers are held (`held`), what the copy has sent leaves by [`Clients::release`]
//!   alone.

mod output;

use crate::bugs::Bug;
use crate::entry::{ConnectionId, Entry};
use crate::framing::Protocol;
use crate::held::Held;
use crate::outbox::Outbox;
use crate::reads::Scanner;
use crate::table::Table;
use crate::verdict::Output;
use base::{Incarnation, Rank};
use engine::streams::{Broken, Interest, Ready, Received, STREAMS_MAX, Streams, key_of, place_of};
use engine::{Answer, Asker, Desk};
use proto::planted::{Planting, Sound};
use std::collections::{BTreeMap, BTreeSet};

/// The bytes of one client that are not decided, at most.
pub const IN_FLIGHT_BYTES_MAX: usize = 256 << 10;
/// The bytes of the transcript that the own copy has not been fed, from which clients wait.
pub const LAG_BYTES_MAX: u64 = 4 << 20;
/// The output that waits for a client, at most.
pub const OUTPUT_BYTES_MAX: usize = 64 << 20;
/// The bytes of one client that are read in one turn, at most.
const TURN_BYTES_MAX: usize = 64 << 10;

/// Names of requests that are no client's: [`Asker::connection`] 0.
const BEGIN: u64 = 0;
const WORD: u64 = 1;
/// What an [`Asker::request`] of a connection's last entry is.
const LAST: u64 = u64::MAX;

/// What a client waits for beside the log (C6).
#[derive(Debug, PartialEq, Eq)]
enum Reading {
    Nothing,
    /// The check of these reads, and their number.
    Check(Vec<u8>, u64),
    /// The copy's answers.
    Answers,
}

/// A client's connection.
#[derive(Debug)]
struct Client<B> {
    key: u64,
    next_index: u64,
    /// The entries that are not decided, the opening among them, and their bytes.
    n_in_flight: u64,
    in_flight_bytes: usize,
    /// What the client sends, if reads run beside the log.
    scanner: Option<Scanner<B>>,
    reading: Reading,
    output: Outbox,
    /// The client has ended its input.
    has_ended: bool,
    /// The program has closed the connection: it is closed when the output has left.
    is_over: bool,
    interest: Interest,
}

impl<B> Client<B> {
    /// C2, C6, and O4 of `held`
    fn may_be_read(&self, held_bytes_max: usize) -> bool {
        self.in_flight_bytes < IN_FLIGHT_BYTES_MAX
            && self.reading == Reading::Nothing
            && self.output.n_held() < held_bytes_max
    }
}

/// What the copies have room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// They are not far behind (C2).
    pub(crate) is_in_step: bool,
    /// The own one takes reads beside the log while fewer than so many wait for their check.
    pub(crate) n_reads: u64,
}

/// The parameters of the clients of a process.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The member.
    pub me: Rank,
    /// Its process.
    pub run: Incarnation,
    /// The most connections at a time.
    pub clients_max: usize,
    /// The longest input of one entry.
    pub input_bytes_max: usize,
    /// The protocol whose reads run beside the log, if any do: none where answers are held.
    pub reads: Option<Protocol>,
    /// When answers leave.
    pub output: Output,
}

/// The clients of the module's text.
#[derive(Debug)]
pub struct Clients<B = Sound> {
    planted: B,
    config: Config,
    /// By number.
    clients: BTreeMap<u64, Client<B>>,
    /// The numbers of the connections by the places of their streams.
    places: Vec<Option<u64>>,
    n_accepted: u64,
    /// The reads that wait for their check.
    pub(crate) n_unchecked: u64,
    /// The connections with output, or with an end, that has not been handed to their streams.
    dirty: BTreeSet<u64>,
    /// The clients that were not read for lack of room.
    waiting: BTreeSet<u64>,
    /// The clients whose opening was not said for lack of room; they are waiting too.
    to_open: BTreeSet<u64>,
    /// The connections that are to be closed, if they are not, and aborted.
    to_abort: BTreeSet<u64>,
    held: Held<B>,
    begin: Begin,
    /// Whether an entry is on its way that no client has caused: a leader's about a member that is
    /// dead or removed, a halt, or what has answers compared.
    has_word_under_way: bool,
    /// Room for an entry's bytes, and for a client's.
    scratch: Vec<u8>,
    piece: Vec<u8>,
}

/// The fate of this process's own [`Entry::Begin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    /// The member may not have its seat yet.
    Unseated,
    ToSay,
    Said,
    Executed,
}

impl<B: Planting<Bug>> Clients<B> {
    /// None yet.
    pub fn new(config: Config, planted: B) -> Clients<B> {
        assert!(
            config.output == Output::AtOnce || config.reads.is_none(),
            "O1: no other copy gives the answer to a read beside the log"
        );
        Clients {
            planted,
            config,
            held: Held::new(config.output, planted),
            clients: BTreeMap::new(),
            places: Vec::new(),
            n_accepted: 0,
            n_unchecked: 0,
            dirty: BTreeSet::new(),
            waiting: BTreeSet::new(),
            to_open: BTreeSet::new(),
            to_abort: BTreeSet::new(),
            begin: Begin::Unseated,
            has_word_under_way: false,
            scratch: Vec::new(),
            piece: vec![0; config.input_bytes_max],
        }
    }

    /// The number of clients.
    pub fn len(&self) -> usize {
        self.clients.len()
    }

    /// Whether there is no client.
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// The process may say that it begins: its member has its seat.
    pub fn let_begin(&mut self) {
        if self.begin == Begin::Unseated {
            self.begin = Begin::ToSay;
        }
    }

    /// Whether clients may be let in (C5). A leader may answer before this member has executed.
    pub fn may_enter(&self, table: &Table<B>) -> bool {
        self.begin == Begin::Executed && table.run_of(self.config.me) == self.config.run
    }

    /// Whether a later process of this member has begun: nothing that is said here is executed.
    pub fn is_followed(&self, table: &Table<B>) -> bool {
        table.run_of(self.config.me) > self.config.run
    }

    /// The process whose clients they are.
    pub fn process(&self) -> (Rank, Incarnation) {
        (self.config.me, self.config.run)
    }

    /// Ends every connection, as soon as streams are at hand.
    pub fn abort_all(&mut self) {
        self.to_abort.extend(self.clients.keys());
    }

    fn id(&self, number: u64) -> ConnectionId {
        ConnectionId { owner: self.config.me, run: self.config.run, number }
    }

    fn say(&mut self, asker: Asker, entry: &Entry<'_>, desk: &mut Desk) {
        self.scratch.clear();
        entry.write(&mut self.scratch);
        desk.write(asker, &self.scratch);
    }

    /// Accepts clients that wait. One that there is no place for is closed.
    pub fn accept<S: Streams>(&mut self, streams: &mut S, table: &Table<B>, desk: &mut Desk) {
        while self.may_enter(table)
            && let Some(incoming) = streams.accept()
        {
            let number = self.n_accepted + 1;
            let has_place = self.clients.len() < self.config.clients_max.min(STREAMS_MAX);
            if !has_place || !table.has_room(self.config.me, number) {
                streams.refuse(incoming, b"");
                continue;
            }
            let free = self.places.iter().position(Option::is_none).unwrap_or(self.places.len());
            let key = key_of(number, free);
            if streams.admit(incoming, key).is_err() {
                continue;
            }
            if free == self.places.len() {
                self.places.push(None);
            }
            self.places[free] = Some(number);
            self.n_accepted = number;
            let client = Client {
                key,
                next_index: 1,
                n_in_flight: 1,
                in_flight_bytes: 0,
                scanner: self.config.reads.map(|of| Scanner::new(of, self.planted)),
                reading: Reading::Nothing,
                output: Outbox::default(),
                has_ended: false,
                is_over: false,
                interest: Interest::Read,
            };
            self.clients.insert(number, client);
            self.to_open.insert(number);
            if !self.open(desk) {
                self.waiting.insert(number);
                self.watch(number, streams);
            }
        }
    }

    /// Says the openings that are due, in order. Returns whether all are said.
    fn open(&mut self, desk: &mut Desk) -> bool {
        while desk.has_room()
            && let Some(number) = self.to_open.pop_first()
        {
            let open = Entry::Open { id: self.id(number) };
            self.say(Asker { connection: number, request: 0 }, &open, desk);
        }
        self.to_open.is_empty()
    }

    /// A client's stream is ready.
    pub(crate) fn on_ready<S: Streams>(
        &mut self,
        ready: Ready,
        room: Room,
        streams: &mut S,
        desk: &mut Desk,
    ) {
        let Some(number) = self.number_of(ready.key) else { return };
        let Some(client) = self.clients.get(&number).filter(|client| client.key == ready.key)
        else {
            return;
        };
        if ready.readable && !client.interest.reads() {
            // A stream that is not read, and reports more than room, is broken. It would report
            // that for ever.
            self.leave(number, streams, desk);
            return;
        }
        if ready.writable {
            self.dirty.insert(number);
        }
        if ready.readable {
            self.read(number, room, streams, desk);
        }
    }

    /// C1, C2.
    fn read<S: Streams>(&mut self, number: u64, room: Room, streams: &mut S, desk: &mut Desk) {
        let mut piece = std::mem::take(&mut self.piece);
        self.read_into(&mut piece, number, room, streams, desk);
        self.piece = piece;
    }

    fn read_into<S: Streams>(
        &mut self,
        piece: &mut [u8],
        number: u64,
        room: Room,
        streams: &mut S,
        desk: &mut Desk,
    ) {
        let (mut budget, piece_bytes) = (TURN_BYTES_MAX, piece.len());
        let held_bytes_max = self.held.bytes_max();
        loop {
            let Some(client) = self.clients.get_mut(&number) else { return };
            if client.has_ended || client.is_over {
                self.watch(number, streams);
                return;
            }
            let may_be_read = client.may_be_read(held_bytes_max);
            let has_room = desk.has_room() && may_be_read && room.is_in_step;
            if !has_room {
                self.waiting.insert(number);
                if self.try_watch(number, streams).is_err() {
                    self.leave(number, streams, desk);
                }
                return;
            }
            if budget == 0 {
                return;
            }
            let (key, index) = (client.key, client.next_index);
            let id = self.id(number);
            let mut asker = Asker { connection: number, request: 0 };
            let entry = match streams.read(key, piece) {
                Ok(Received::Bytes(n)) if self.reads_beside(number, &piece[..n], room) => {
                    desk.read(asker);
                    return;
                }
                Ok(Received::Bytes(n)) => {
                    asker.request = n as u64;
                    budget = budget.saturating_sub(n);
                    Entry::Input { id, index, bytes: &piece[..n] }
                }
                Ok(Received::Nothing) => return,
                Ok(Received::End) => Entry::HalfClose { id, index },
                Err(Broken) => {
                    self.leave(number, streams, desk);
                    return;
                }
            };
            let client = self.clients.get_mut(&number).expect("found above");
            client.next_index += 1;
            client.n_in_flight += 1;
            client.in_flight_bytes += asker.request as usize;
            client.has_ended = matches!(entry, Entry::HalfClose { .. });
            self.say(asker, &entry, desk);
            if matches!(entry, Entry::Input { bytes, .. } if bytes.len() < piece_bytes) {
                return; // that was all; what comes later makes the stream ready again
            }
        }
    }

    /// C6: whether what the client has sent is to run beside the log. Then it waits for its check.
    fn reads_beside(&mut self, number: u64, bytes: &[u8], room: Room) -> bool {
        let Some(client) = self.clients.get_mut(&number) else { return false };
        let Some(scanner) = &mut client.scanner else { return false };
        let n_reads = scanner.take(bytes);
        let is_open = client.n_in_flight < client.next_index;
        let overtakes = self.planted.has(Bug::ReadOvertakes) && is_open;
        let may_read = client.n_in_flight == 0 || overtakes;
        let is_beside = n_reads > 0 && may_read && self.n_unchecked < room.n_reads;
        if is_beside {
            client.reading = Reading::Check(bytes.to_vec(), n_reads);
            self.n_unchecked += n_reads;
        }
        is_beside
    }

    /// The client whose stream has this name.
    pub(crate) fn number_of(&self, key: u64) -> Option<u64> {
        self.places.get(place_of(key)).copied().flatten()
    }

    /// The check of a client's reads was made. Returns them and their number, with their
    /// connection: the copy is to have them next.
    pub(crate) fn checked(&mut self, number: u64) -> Option<(ConnectionId, Vec<u8>, u64)> {
        let client = self.clients.get_mut(&number)?;
        let Reading::Check(bytes, n) = &mut client.reading else { return None };
        let (bytes, n) = (std::mem::take(bytes), *n);
        client.reading = Reading::Answers;
        self.n_unchecked -= n;
        Some((self.id(number), bytes, n))
    }

    /// Closes a client's stream. Returns the index of the connection's next entry.
    fn close<S: Streams>(&mut self, number: u64, streams: &mut S) -> Option<u64> {
        let client = self.clients.remove(&number)?;
        if let Reading::Check(_, n) = client.reading {
            self.n_unchecked -= n;
        }
        streams.close(client.key);
        self.places[place_of(client.key)] = None;
        self.dirty.remove(&number);
        self.waiting.remove(&number);
        if self.held.is_on() {
            self.held.forget(client.output.n_held() as u64);
        }
        Some(client.next_index)
    }

    /// Closes a client's stream, and ends its connection by an entry behind all that it said.
    fn leave<S: Streams>(&mut self, number: u64, streams: &mut S, desk: &mut Desk) {
        let Some(index) = self.close(number, streams) else { return };
        let is_opened = !self.to_open.remove(&number);
        if !desk.has_room() || !is_opened {
            self.to_abort.insert(number);
            return;
        }
        let close = Entry::Close { id: self.id(number), index };
        self.say(Asker { connection: number, request: LAST }, &close, desk);
    }

    /// An entry has its answer.
    pub fn answer(&mut self, asker: Asker, answer: Answer<'_>) {
        let Asker { connection: number, request } = asker;
        let is_decided = matches!(answer, Answer::Executed(..));
        match (number, request) {
            (0, BEGIN) => self.begin = if is_decided { Begin::Executed } else { Begin::ToSay },
            (0, _) => self.has_word_under_way = false,
            (_, LAST) => {
                if !is_decided && !self.planted.has(Bug::AbortSaidOnce) {
                    self.to_abort.insert(number); // C4
                }
            }
            _ => {
                let Some(client) = self.clients.get_mut(&number) else { return };
                client.n_in_flight = client.n_in_flight.saturating_sub(1);
                client.in_flight_bytes = client.in_flight_bytes.saturating_sub(request as usize);
                if !is_decided && !self.planted.has(Bug::UnknownStaysOpen) {
                    // C3, as soon as streams are at hand.
                    self.to_abort.insert(number);
                }
            }
        }
    }

    /// Says what is due: the own beginning, aborts, and a `word` that no client has caused (only
    /// while [`Clients::may_say_word`]).
    /// Reads clients again that there is room for. Returns whether it did anything.
    pub fn resume<S: Streams>(
        &mut self,
        word: Option<Entry<'_>>,
        is_in_step: bool,
        streams: &mut S,
        desk: &mut Desk,
    ) -> bool {
        let mut worked = false;
        if self.begin == Begin::ToSay && desk.has_room() {
            let begin = Entry::Begin { owner: self.config.me, run: self.config.run };
            self.say(Asker { connection: 0, request: BEGIN }, &begin, desk);
            (self.begin, worked) = (Begin::Said, true);
        }
        if let Some(word) = word.filter(|_| desk.has_room()) {
            self.say(Asker { connection: 0, request: WORD }, &word, desk);
            (self.has_word_under_way, worked) = (true, true);
        }
        while desk.has_room()
            && let Some(number) = self.to_abort.pop_first()
        {
            self.close(number, streams);
            self.to_open.remove(&number);
            let abort = Entry::Abort { id: self.id(number) };
            self.say(Asker { connection: number, request: LAST }, &abort, desk);
            worked = true;
        }
        if desk.has_room() && !self.to_open.is_empty() {
            self.open(desk);
            worked = true;
        }
        if desk.has_room() && is_in_step {
            let held_bytes_max = self.held.bytes_max();
            let may_be_read = |client: &Client<B>| client.may_be_read(held_bytes_max);
            let has_room = |number: &u64| self.clients.get(number).is_none_or(may_be_read);
            for number in self.waiting.extract_if(.., has_room).collect::<Vec<_>>() {
                self.watch(number, streams);
                worked = true;
            }
        }
        worked
    }

    /// Whether the process may say something now that no client has caused.
    pub fn may_say_word(&self) -> bool {
        !self.has_word_under_way
    }

    /// Watches a client's stream for what it may do now. A broken one is aborted.
    fn watch<S: Streams>(&mut self, number: u64, streams: &mut S) {
        if self.try_watch(number, streams).is_err() {
            self.to_abort.insert(number);
        }
    }

    /// Watches a client's stream for what it may do now.
    ///
    /// # Errors
    /// It is broken.
    fn try_watch<S: Streams>(&mut self, number: u64, streams: &mut S) -> Result<(), Broken> {
        let Some(client) = self.clients.get_mut(&number) else { return Ok(()) };
        let reads = !client.has_ended && !client.is_over && !self.waiting.contains(&number);
        let writes = !client.output.to_send().is_empty();
        let interest = match (reads, writes) {
            (true, true) => Interest::ReadWrite,
            (true, false) => Interest::Read,
            (false, true) => Interest::Write,
            (false, false) => Interest::Nothing,
        };
        match std::mem::replace(&mut client.interest, interest) == interest {
            true => Ok(()),
            false => streams.watch(client.key, interest),
        }
    }
}
