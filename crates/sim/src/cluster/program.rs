//! A program that is replicated: a small server with Redis's protocol, which reads, executes and
//! answers in an order of its own.
//!
//! - P1 what a program reads next, in pieces of which size, and what it sends when, is drawn: two
//!   copies that are given the same input at once do different things. A copy that is given one
//!   request at a time does the same as all others.
//! - P2 a program is asleep when it has read, executed, sent and closed everything.
//! - P3 a program that *deviates* answers on legs of other members' clients with other bytes from
//!   some request on. Its own clients notice nothing, so the history stays linearizable, and the
//!   hashes alone can tell. Where answers are held until they are compared, it answers its own
//!   clients so too.
//! - P5 a program with a loop ([`Manner::InTurns`]) takes what is ready in the order in which it
//!   became so, a few connections a turn and a piece of each. It may do a part of a turn now and
//!   the rest later. What it does depends on what it finds alone, and not on what is drawn; when it
//!   looks does. There is always room for what one turn finds: it is at rest before, and has read
//!   everything.
//! - P6 a program that *stalls* reads, executes and sends nothing from some request on, as one that
//!   was stopped: it moves, for all that can be seen, and never comes to rest.
//! - P7 where reads run beside the log, a GET is no thing that a copy has seen (`timers`): other
//!   copies have not.
//! - P8 a program asked for the time draws it (`times`): that answer is the copy's own.
//! - P9 a program that is saved by its files is killed and begins again: its values and its timer
//!   are in its files, and what its connections have told it is not, nor is how much its process
//!   has seen (`timers`, P7).
//! - P10 a program that *strays* stores otherwise what it holds when it is first saved: nothing
//!   that it has answered before shows that. It answers a request of another member's client for
//!   one of these values otherwise, until that is written again. (What it hands over is right:
//!   `makers` judges whether that may count.)
//! - P11 a program sees that a connection is over, once all that came before is executed: that is a
//!   thing that it has seen (`timers`), so it must come at the same place at all copies. One that
//!   *holds on* does not close its end then. It sees that the connection is gone when it is taken
//!   away, and in its own time.
//! - P12 a program that *dozes* listens when it has begun, and sleeps. It looks at its connections
//!   later, and finds all that it was sent meanwhile. (Where its answers are held it is awake.)
//! - P4 is about what it saves (`saves`).

use super::compared::{CopyId, SharedSent};
use super::leg::{self, Leg, TURN_BYTES, TURN_MAX, Turns};
use super::resp::{self, Value};
use super::saves::Saves;
use super::timers::Timers;
use super::times;
use super::values::{Values, Words, number};
use base::Rng;
use engine::streams::{Broken, Interest, Received};
use replicate::entry::ConnectionId;
use replicate::program::{Connected, Program, Repose};
use std::collections::{BTreeMap, BTreeSet};

/// The most steps of a program in one turn of its member.
const STEPS_MAX: u64 = 32;

/// The programs of which one dozes, and for how long at the most (P12).
const DOZES: u64 = 8;
const N_DOZES_MAX: u64 = 16;

/// The most bytes of a value of the log (`World::new`).
const VALUE_BYTES_MAX: usize = 1024;

/// The way in which a program takes up input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// As it likes (P1).
    AsDrawn,
    /// By turns of a loop (P5).
    InTurns,
}

/// The values that a program has stored otherwise (P10).
#[derive(Debug, Default)]
enum Stray {
    #[default]
    Never,
    /// When it is saved.
    Will,
    /// Those of these keys.
    Has(BTreeSet<Vec<u8>>),
}

impl Stray {
    /// Whether the answer to a request shows it.
    fn shows(&self, words: &Words) -> bool {
        let reads = matches!(&words[0][..], b"GET" | b"GETSET" | b"APPEND" | b"INCRBY");
        matches!(self, Stray::Has(keys) if reads && keys.contains(&words[1]))
    }

    /// A value is written again.
    fn heal(&mut self, words: &Words) {
        if let Stray::Has(keys) = self
            && matches!(&words[0][..], b"SET" | b"GETSET" | b"DEL")
        {
            keys.remove(&words[1]);
        }
    }
}

/// The program of the module's text.
#[derive(Debug)]
pub(super) struct SimProgram {
    rng: Rng,
    legs: BTreeMap<u64, Leg>,
    values: Values,
    /// The most unread input of a leg.
    room_bytes: usize,
    n_executed: u64,
    /// The requests after which it deviates, if it does (P3).
    deviates_after: Option<u64>,
    has_deviated: bool,
    stray: Stray,
    /// The requests after which it stalls, if it does (P6).
    stalls_after: Option<u64>,
    /// See P7.
    reads_beside: bool,
    /// The legs of other members' clients.
    foreign: BTreeSet<u64>,
    /// The connections of the legs, and where it is noted what is sent on them, if that is.
    ids: BTreeMap<u64, ConnectionId>,
    sent: Option<(CopyId, SharedSent)>,
    /// See P4.
    saves: Saves,
    restored: Vec<u8>,
    is_tainted: bool,
    /// Where it is saved by its files (P9): how often it has begun again.
    n_renewed: Option<u64>,
    manner: Manner,
    turns: Turns,
    /// See `timers`.
    pub(super) timers: Timers,
}

impl SimProgram {
    pub(super) fn new(mut rng: Rng, manner: Manner, deviates_after: Option<u64>) -> SimProgram {
        let least_room = if manner == Manner::InTurns { VALUE_BYTES_MAX } else { 256 };
        SimProgram {
            manner,
            turns: Turns::default(),
            timers: Timers::default(),
            room_bytes: least_room << rng.below(4),
            rng,
            legs: BTreeMap::new(),
            values: Values::default(),
            n_executed: 0,
            deviates_after,
            has_deviated: false,
            stray: Stray::Never,
            stalls_after: None,
            reads_beside: false,
            foreign: BTreeSet::new(),
            ids: BTreeMap::new(),
            sent: None,
            saves: Saves::default(),
            restored: Vec::new(),
            is_tainted: false,
            n_renewed: None,
        }
    }

    /// Makes it stall after so many requests (P6).
    pub(super) fn stalling_after(self, stalls_after: Option<u64>) -> SimProgram {
        SimProgram { stalls_after, ..self }
    }

    /// Makes it stray (P10).
    pub(super) fn straying(self, strays: bool) -> SimProgram {
        SimProgram { stray: if strays { Stray::Will } else { Stray::Never }, ..self }
    }

    /// Tells it whether reads run beside the log (P7).
    pub(super) fn reading_beside(self, reads_beside: bool) -> SimProgram {
        SimProgram { reads_beside, ..self }
    }

    /// Tells it whether it is saved by its files (P9).
    pub(super) fn saved_by_files(mut self, by_files: bool) -> SimProgram {
        self.n_renewed = by_files.then_some(0);
        if by_files {
            self.timers.begin_process();
        }
        self
    }

    /// How often it has begun again (P9).
    pub(super) fn n_renewed(&self) -> u64 {
        self.n_renewed.unwrap_or(0)
    }

    /// P6
    pub(super) fn is_stalled(&self) -> bool {
        self.stalls_after.is_some_and(|n| self.n_executed > n)
    }

    /// It stalls no more.
    pub(super) fn mend(&mut self) {
        self.stalls_after = None;
    }

    /// Notes what it sends: its answers are held until they are compared.
    pub(super) fn noting(self, sent: Option<(CopyId, SharedSent)>) -> SimProgram {
        SimProgram { sent, ..self }
    }

    /// Says which legs there are, and which are those of own clients.
    pub(super) fn know_legs(&mut self, legs: &[(u64, ConnectionId, bool)]) {
        let foreign = legs.iter().filter(|(.., is_own)| !is_own);
        self.foreign = foreign.map(|(key, ..)| *key).collect();
        self.ids = legs.iter().map(|(key, id, _)| (*key, *id)).collect();
    }

    /// Sends some of the replies of a leg.
    fn send_some(&mut self, key: u64) {
        let SimProgram { rng, legs, ids, sent, .. } = self;
        let Some(leg) = legs.get_mut(&key) else { return };
        let n = 1 + rng.below(leg.replies.len() as u64) as usize;
        let bytes: Vec<u8> = leg.replies.drain(..n).collect();
        if let (Some((copy, sent)), Some(id)) = (sent, ids.get(&key)) {
            sent.borrow_mut().send(*copy, *id, &bytes);
        }
        leg.output.extend(bytes);
    }

    /// Whether it began with what a program had saved that deviated.
    pub(super) fn is_tainted(&self) -> bool {
        self.is_tainted
    }

    /// Whether it has answered otherwise than it should.
    pub(super) fn has_deviated(&self) -> bool {
        self.has_deviated
    }

    /// Does something, or nothing yet.
    pub(super) fn run(&mut self) {
        if self.is_stalled() {
            return;
        }
        if self.turns.n_dozes > 0 {
            let is_awaited = self.turns.is_begun || self.timers.is_over();
            self.turns.n_dozes -= u64::from(is_awaited); // P12
            return;
        }
        if self.timers.is_over() && !self.turns.is_held && self.rng.chance(1, 2) {
            self.timers.take();
        }
        if self.manner == Manner::InTurns {
            for _ in 0..self.rng.below(STEPS_MAX) {
                self.turn_on();
            }
            return;
        }
        for _ in 0..self.rng.below(STEPS_MAX) {
            if self.turns.n_taken_away > 0 && self.rng.chance(1, 4) {
                self.see_taken_away();
            }
            let able: Vec<u64> = self
                .legs
                .iter()
                .filter(|(_, leg)| !leg.is_at_rest())
                .map(|(key, _)| *key)
                .collect();
            let Some(last) = able.len().checked_sub(1) else { return };
            let at = self.rng.below(last as u64 + 1) as usize;
            self.step(able[at]);
        }
    }

    /// The legs with something for the feeder.
    pub(super) fn ready(&self) -> Vec<u64> {
        let is_ready = |leg: &Leg| {
            let has_room = leg.input.len() < self.room_bytes;
            !leg.output.is_empty() || leg.is_closed || leg.wants_room && has_room
        };
        self.legs.iter().filter(|(_, leg)| is_ready(leg)).map(|(key, _)| *key).collect()
    }

    /// P5: takes up the next connection of the turn, or begins a turn, or sends something.
    fn turn_on(&mut self) {
        let SimProgram { rng, legs, .. } = self;
        if let Some((key, _)) = legs.iter().find(|(_, leg)| !leg.replies.is_empty())
            && rng.chance(1, 2)
        {
            let key = *key;
            self.send_some(key);
            return;
        }
        let Turns { queue, turn, is_held, .. } = &mut self.turns;
        let Some(key) = turn.pop_front() else {
            if !*is_held {
                let n = queue.len().min(TURN_MAX);
                turn.extend(queue.drain(..n));
            }
            return;
        };
        if key == leg::TAKEN_AWAY {
            return self.see_taken_away();
        }
        let Some(leg) = self.legs.get_mut(&key) else { return };
        let n = leg.input.len().min(TURN_BYTES);
        if n == 0 && leg.see_end() {
            self.timers.see_end();
        }
        leg.read.extend(leg.input.drain(..n));
        self.execute_read(key);
        if self.legs[&key].is_to_be_read() {
            self.is_ready(key);
        }
    }

    /// A leg has input, or its end.
    fn is_ready(&mut self, key: u64) {
        if !self.turns.queue.contains(&key) {
            self.turns.queue.push_back(key);
        }
    }

    /// Executes the requests that were read as a whole.
    fn execute_read(&mut self, key: u64) {
        let Some(leg) = self.legs.get_mut(&key) else { return };
        let mut read = std::mem::take(&mut leg.read);
        let mut at = 0;
        while let Ok(Some((Value::List(Some(words)), n))) = resp::reply(&read[at..]) {
            at += n;
            self.execute(key, words.into_iter().map(bytes_of).collect());
        }
        read.drain(..at);
        self.legs.get_mut(&key).expect("it was there").read = read;
    }

    /// P1: sends a piece, reads a piece and executes what is whole, or closes.
    fn step(&mut self, key: u64) {
        let SimProgram { rng, legs, .. } = self;
        let Some(leg) = legs.get_mut(&key) else { return };
        if !leg.replies.is_empty() && rng.chance(1, 2) {
            self.send_some(key);
        } else if !leg.input.is_empty() {
            let n = 1 + rng.below(leg.input.len() as u64) as usize;
            leg.read.extend(leg.input.drain(..n));
            self.execute_read(key);
        } else if leg.see_end() {
            self.timers.see_end();
        }
    }

    /// P11
    fn see_taken_away(&mut self) {
        self.turns.n_taken_away -= 1;
        self.timers.see_end();
    }

    fn execute(&mut self, key: u64, words: Words) {
        let leg = self.legs.get_mut(&key).expect("a request of a leg");
        if !self.reads_beside || words[0] != b"GET" || leg.queue.is_some() {
            self.timers.execute(&words);
        }
        let is_astray = leg.queue.is_none() && self.stray.shows(&words);
        let mut reply = Vec::new();
        match (&words[0][..], &mut leg.queue) {
            (b"WATCH", _) => {
                let version = self.values.version_of(&words[1]);
                let leg = self.legs.get_mut(&key).expect("a request of a leg");
                leg.watched.push((words[1].clone(), version));
                reply.extend(b"+OK\r\n");
            }
            (b"MULTI", queue) => {
                *queue = Some(Vec::new());
                reply.extend(b"+OK\r\n");
            }
            (b"EXEC", queue) => {
                let commands = queue.take().unwrap_or_default();
                let watched = std::mem::take(&mut leg.watched);
                if watched.iter().any(|(key, version)| self.values.version_of(key) != *version) {
                    reply.extend(b"*-1\r\n");
                } else {
                    reply.extend(format!("*{}\r\n", commands.len()).bytes());
                    commands.iter().for_each(|words| self.command(key, words, &mut reply));
                }
            }
            (_, Some(queue)) => {
                queue.push(words);
                reply.extend(b"+QUEUED\r\n");
            }
            (_, None) => {
                leg.holds_on |= leg::holds_on(&words);
                self.command(key, &words, &mut reply);
            }
        }
        self.n_executed += 1;
        let deviates = self.deviates_after.is_some_and(|n| self.n_executed > n);
        let shows = (deviates || is_astray) && self.foreign.contains(&key);
        if shows || deviates && self.sent.is_some() {
            reply = b"+DIFFERENT\r\n".to_vec();
            self.has_deviated = true;
        }
        let leg = self.legs.get_mut(&key).expect("a request of a leg");
        leg.n_reply_bytes += reply.len();
        leg.replies.extend(reply);
    }

    /// Executes a command that a leg has asked for.
    fn command(&mut self, key: u64, words: &Words, reply: &mut Vec<u8>) {
        if words[0] != b"TIME" {
            self.stray.heal(words);
            return self.values.command(words, reply);
        }
        let own = times::answer(&mut self.rng, reply); // P8
        if let (Some((copy, sent)), Some(id)) = (&self.sent, self.ids.get(&key)) {
            let n_before = self.legs[&key].n_reply_bytes;
            sent.borrow_mut().draw(*copy, *id, n_before + own.start..n_before + own.end);
        }
    }

    /// What it holds, as bytes.
    fn held(&self) -> Vec<u8> {
        let mut out = vec![u8::from(self.has_deviated)];
        let mut put = |word: &[u8]| {
            out.extend_from_slice(&(word.len() as u64).to_le_bytes());
            out.extend_from_slice(word);
        };
        self.values.save(&mut put);
        self.timers.words().iter().for_each(|word| put(&word.to_le_bytes()));
        out
    }

    fn waits(&self) -> bool {
        let is_at_rest = self.legs.values().all(Leg::is_at_rest) && self.turns.n_taken_away == 0;
        let is_dozing = self.turns.n_dozes > 0;
        !self.is_stalled() && (is_at_rest || is_dozing) && !self.timers.is_over()
    }
}

fn bytes_of(word: Value) -> Vec<u8> {
    if let Value::Bytes(Some(word)) = word { word } else { Vec::new() }
}

impl Program for SimProgram {
    fn restore(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.restored.extend_from_slice(bytes);
        Ok(())
    }

    /// Reads what [`SimProgram::save`] wrote.
    fn start(&mut self, _: u64) -> Result<(), String> {
        let mut rng = self.rng.clone(); // all else is drawn as if it never dozed
        if self.sent.is_none() && rng.chance(1, DOZES) {
            self.turns.n_dozes = 1 + rng.below(N_DOZES_MAX);
        }
        let restored = std::mem::take(&mut self.restored);
        let Some((has_deviated, mut rest)) = restored.split_first() else { return Ok(()) };
        self.is_tainted = *has_deviated > 0;
        let mut word = || {
            let (len, left) = rest.split_first_chunk().expect("a length");
            let (word, left) = left.split_at(u64::from_le_bytes(*len) as usize);
            rest = left;
            word.to_vec()
        };
        self.values.restore(&mut word);
        self.timers.restore(std::array::from_fn(|_| number(word())));
        Ok(())
    }

    /// P4
    fn save(&mut self, at: u64) -> Result<Option<u64>, String> {
        if self.is_stalled() && self.n_renewed.is_none() {
            return Err("the program does not answer".to_owned());
        }
        let is_saved = match self.n_renewed {
            Some(_) => Saves::ask_for_files(&mut self.rng)?,
            None => {
                let (mut saves, mut rng) = (std::mem::take(&mut self.saves), self.rng.clone());
                let asked = saves.ask(at, || self.held(), &mut rng);
                (self.saves, self.rng) = (saves, rng);
                asked?
            }
        };
        if !is_saved {
            return Ok(None);
        }
        if matches!(self.stray, Stray::Will) {
            self.stray = Stray::Has(self.values.keys().cloned().collect());
        }
        Ok(Some(self.saves.len()))
    }

    /// P9
    fn end_for_renewal(&mut self, saves: bool) -> Result<bool, String> {
        assert!(self.legs.is_empty(), "it is killed with a leg");
        if self.rng.chance(1, 2) {
            return Ok(false);
        }
        if saves {
            let files = self.held();
            self.saves.put(files);
        }
        self.turns = Turns::default();
        self.timers.begin_process();
        self.n_renewed = self.n_renewed.map(|n| n + 1);
        Ok(true)
    }

    fn read_saved(&mut self, at: u64, into: &mut [u8]) -> Result<usize, String> {
        Ok(self.saves.read(at, into))
    }

    fn connect(&mut self, key: u64) -> Connected {
        if self.rng.chance(1, 8) {
            return Connected::Later;
        }
        self.turns.is_begun = true;
        let was_there = self.legs.insert(key, Leg::default());
        assert!(was_there.is_none(), "leg {key} is open");
        Connected::Done
    }

    fn read(&mut self, key: u64, into: &mut [u8]) -> Result<Received, Broken> {
        let leg = self.legs.get_mut(&key).ok_or(Broken)?;
        let n = leg.output.len().min(into.len());
        for (to, byte) in into.iter_mut().zip(leg.output.drain(..n)) {
            *to = byte;
        }
        Ok(match n {
            0 if leg.is_closed => Received::End,
            0 => Received::Nothing,
            n => Received::Bytes(n),
        })
    }

    fn write(&mut self, key: u64, bytes: &[u8]) -> Result<usize, Broken> {
        let leg = self.legs.get_mut(&key).filter(|leg| !leg.is_closed).ok_or(Broken)?;
        assert!(!leg.has_ended, "input behind its end");
        let n = bytes.len().min(self.room_bytes.saturating_sub(leg.input.len()));
        leg.input.extend(&bytes[..n]);
        self.is_ready(key);
        Ok(n)
    }

    fn end(&mut self, key: u64) {
        if let Some(leg) = self.legs.get_mut(&key) {
            leg.has_ended = true;
            self.is_ready(key);
        }
    }

    fn watch(&mut self, key: u64, interest: Interest) -> Result<(), Broken> {
        self.legs.get_mut(&key).ok_or(Broken)?.wants_room = interest.writes();
        Ok(())
    }

    /// P11
    fn close(&mut self, key: u64) {
        if self.legs.remove(&key).is_some_and(|leg| !leg.has_seen_end) {
            self.turns.n_taken_away += 1;
            self.turns.queue.push_back(leg::TAKEN_AWAY);
        }
    }

    /// P2
    fn is_asleep(&mut self) -> bool {
        self.waits() && !self.turns.is_held
    }

    /// P12
    fn has_accepted(&mut self) -> bool {
        self.turns.n_dozes == 0
    }

    fn tell_time(&mut self, time_ms: u64) -> bool {
        self.timers.tell(time_ms)
    }

    fn awaited_ms(&mut self) -> Option<u64> {
        self.timers.awaited_ms()
    }

    fn repose(&mut self) -> Repose {
        let waits = self.waits();
        match waits && self.rng.chance(3, 4) {
            true => Repose::AtRest,
            false if waits => Repose::Soon,
            false => Repose::Moves,
        }
    }

    fn hold(&mut self) -> bool {
        self.turns.is_held = self.waits() && self.rng.chance(7, 8);
        self.turns.is_held
    }

    fn let_go(&mut self) {
        self.turns.is_held = false;
    }
}
