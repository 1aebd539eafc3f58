//! Feeder: it feeds the transcript to a copy of the program, and hands the output to the own
//! clients.
//!
//! - I1 a copy is fed with executed entries alone, each once, in the order of the transcript. By
//!   the one cursor, which begins where the state begins when the copy is started.
//! - I2 under [`Order::Serial`] an entry of another connection than the last one's is fed when the
//!   program is at rest: it has read everything, has answered every request, and has closed every
//!   leg whose input ended. So all copies take all input in one order. Otherwise a program takes
//!   what lies in its sockets in an order of its own.
//! - I3 a program that waits for an entry behind (a lock, a queue that another connection fills)
//!   never answers before. When nothing has moved for [`BLOCKED_AFTER`] and each of its threads
//!   sleeps, it is taken to be at rest. Where replies are not known, that is the rule for all,
//!   after [`QUIET_AFTER`]. What is fed later may wake a leg that still owes a reply. So while a
//!   leg owes one, the program has to sleep before each entry of another connection. (A leg whose
//!   requests are no longer counted is asked for as in I7, where the program says when it is at
//!   rest.)
//! - I4 output of legs of other processes, those of earlier processes of this member among them, is
//!   read and dropped: it reached the clients there, or they have gone.
//! - I5 of what a program does not read one entry at most lies here: the rest stays in the
//!   transcript. A leg that the program does not read while it sleeps is blocked too (I3): of its
//!   input, up to [`STUCK_BYTES_MAX`] lie here, so that entries behind it are fed. A program that
//!   sleeps is given what it has room for before it is taken to be at rest: the poller, which tells
//!   of room, was asked earlier. (`ROOM_UNASKED`)
//! - I7 a program that says itself when it is at rest ([`Rest::Waits`]) is fed when it says so. It
//!   is asked again after each entry, an opening among them. It may never say so, where a thread
//!   waits in a way that is not seen: then I3 holds. Under [`Order::Serial`] that goes for entries
//!   of one connection too: a client says the next when it has its answer, and a program may look
//!   whether more has come before that. (PostgreSQL ends a connection with bytes behind a request
//!   for TLS that it has not answered.) Another copy may be behind, or execute all of it again.
//! - I8 under [`Order::Loop`] what one value of the log says about open connections lies before the
//!   program when it looks: it is held while that is fed, and it is at rest before. (No look splits
//!   one entry: where replies are known, a value with one is fed without holding.) What begins or
//!   ends several connections is fed alone, as is each end where answers are compared, and a point
//!   (I6) ends a turn. So if what a program does is a function of what it finds at each turn, all
//!   copies do the same: where a value ends is the same at all members, and what the entries of a
//!   value had to do with each other in time is not.
//! - I9 a time of the transcript is told to the program between two rests, by what its threads say
//!   (or I3): behind all that the entries before it have set going, and before what stands behind
//!   it is fed, when the waits that end by it have done what they do. So what a program does at
//!   which time is the log's. The program is started at the time at which the state begins. Under
//!   [`Order::Relaxed`] the time is told at once.
//! - I10 reads (`reads`) of an own client are fed beside the entries, to this copy alone, when it
//!   has executed all that their check covers: it was fed all of that, and is at rest by I2. Their
//!   leg owes nothing then, and is fed no entry before all of them are answered. So what it says in
//!   between is their answer, which no hash has. Between two such feedings an entry is fed, if one
//!   waits; none is fed at a point (I6).
//! - I11 where answers are held (`held`), a point lies behind each value of the log: what is fed
//!   behind it is fed when its hash was taken. The audience is told of each point, behind all that
//!   was sent before it.
//! - I12 a halt ends all connections, and a point lies behind it. Where copies begin again there
//!   (`checkpoint`, K7), the program is ended when its hash was taken, at rest and without a
//!   connection; it is started with its files, at the log's time, before it is fed on. The copy
//!   that is chosen saves its files in between, and hands them on while it is fed.
//! - I13 a program that sleeps before it has accepted its first connection is not at rest: it may
//!   listen, and sleep a moment before it looks at its connections. (memcached does.) What was fed
//!   meanwhile would lie before it all at once, and its threads would take that up in an order of
//!   their own. One that has not accepted it [`ACCEPTS_WITHIN`] after it was opened is taken to do
//!   so unseen.
//! - I6 where answers are compared (`hash`), the program is at rest at each point, and before the
//!   end of a connection is fed: it has answered, or sleeps, and all that it has sent was read, its
//!   own end of the connection too. So the answers that are hashed do not depend on how fast a copy
//!   or its member is. A copy is saved there too (`checkpoint`).

mod beginning;
mod beside;
mod leg;
mod legs;
mod output;
mod points;
mod renewal;
mod rest;
mod time;

use crate::bugs::Bug;
use crate::entry::{ConnectionId, Entry};
use crate::framing::{Framing, Protocol};
use crate::hash::{Answers, Hashes, Taken};
use crate::program::{Connected, Program};
use crate::restoring::Restoring;
use crate::session::{Common, Session};
use crate::shown::Shown;
use crate::state::State;
use crate::transcript::{Record, Transcript};
use crate::verdict::Output;
use base::{Incarnation, Instant, Rank};
use core::time::Duration;
use engine::streams::Interest;
use proto::planted::{Planting, Sound};

use beside::Beside;
pub(crate) use beside::Reads;
use leg::Leg;
pub use leg::STUCK_BYTES_MAX;
use legs::Legs;
pub(crate) use points::Saved;
use renewal::Renewal;
pub use rest::ACCEPTS_WITHIN;
use rest::{Asking, First};
use time::Clock;

/// See I3.
pub const BLOCKED_AFTER: Duration = Duration::from_millis(5);
/// See I3.
pub const QUIET_AFTER: Duration = Duration::from_millis(2);
/// The time between two looks at a program that does not sleep.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// The time between two looks at a program whose threads are about to sleep, or to wake.
const SOON_AFTER: Duration = Duration::from_micros(30);
/// The time within which a program that sleeps lets itself be held (I8).
const HELD_WITHIN: Duration = Duration::from_secs(10);

/// The most entries that are fed in one call.
const ENTRIES_MAX: usize = 256;
/// The bytes of the transcript that are read at once.
const AHEAD_BYTES: usize = 64 << 10;

/// The order in which a copy sees entries of different connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// One after the other (I2).
    #[default]
    Serial,
    /// What one value of the log says at once, to a program with one loop that waits (I8).
    Loop,
    /// As the program takes them: copies of a program that has several threads, or looks at its
    /// sockets in another order, may differ.
    Relaxed,
}

/// The way in which it is known that a program is at rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rest {
    /// By its silence and its sleep (I3).
    #[default]
    Quiet,
    /// By what it says itself (I7).
    Waits,
}

/// The parameters of a feeder.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The member.
    pub me: Rank,
    /// Its process.
    pub run: Incarnation,
    /// See [`Order`].
    pub order: Order,
    /// See [`Rest`].
    pub rest: Rest,
    /// The protocol of the program's clients, if its replies tell when it is at rest. [`Rest`] does
    /// so for what has no reply.
    pub replies: Option<Protocol>,
    /// The protocol of the program's clients, if it is known: it says which answers are the copy's
    /// own (`hash`, H3).
    pub speaks: Option<Protocol>,
    /// The entries from one comparison of the copies' answers to the next; 0 for none.
    pub compare: u64,
    /// When answers leave: if it is behind a comparison, one follows each value of the log.
    pub output: Output,
    /// Whether the copy begins again at halts (`checkpoint`, K7).
    pub renews: bool,
}

/// The clients of this process, which take the output of their legs.
pub trait Audience {
    /// The program has sent these bytes to the connection.
    fn output(&mut self, number: u64, bytes: &[u8]);

    /// The program has sent all that it sends before a point, where the copy has taken this hash.
    fn pass_point(&mut self, taken: Taken, now: Instant);

    /// The reads of the connection have their answers.
    fn has_read(&mut self, number: u64);

    /// The reads of the connection never get answers.
    fn cut_off(&mut self, number: u64);

    /// The program has closed the connection; more output does not follow.
    fn ended(&mut self, number: u64);
}

/// How far a copy is.
#[derive(Debug)]
enum Phase {
    /// Nothing was executed that the program could begin with.
    Waiting,
    /// It begins from a checkpoint.
    Restoring(Restoring),
    /// It is fed.
    Feeding,
}

/// The feeder of the module's text.
#[derive(Debug)]
pub struct Feeder<B = Sound> {
    planted: B,
    config: Config,
    legs: Legs,
    /// Whether the program has slept since something was fed.
    has_slept: bool,
    /// The program has lost a leg, and has not slept since.
    has_lost_leg: bool,
    /// The connection of the entry that was fed last.
    turn: Option<ConnectionId>,
    /// The bytes of the transcript before this one were fed.
    cursor: u64,
    /// The bytes of the transcript from the cursor on, as far as they were read.
    ahead: Vec<u8>,
    /// The time when something was fed or read last.
    moved_at: Instant,
    /// The time of the next look at the program, if one is due.
    look_at: Option<Instant>,
    asking: Asking,
    clock: Clock,
    beside: Beside,
    n_fed: u64,
    hashes: Hashes<B>,
    common: Common,
    phase: Phase,
    renewal: Renewal,
    /// The pieces of output that were read, and the ends of legs.
    n_read: u64,
    failure: Option<String>,
}

impl<B: Planting<Bug>> Feeder<B> {
    /// A feeder of a copy that is not started.
    pub fn new(config: Config, planted: B) -> Feeder<B> {
        Feeder {
            planted,
            config,
            legs: Legs::default(),
            has_slept: false,
            has_lost_leg: false,
            turn: None,
            cursor: 0,
            ahead: Vec::new(),
            moved_at: Instant::ZERO,
            look_at: None,
            asking: Asking::default(),
            clock: Clock::default(),
            beside: Beside::default(),
            n_fed: 0,
            hashes: Hashes::new(config.compare, 0, planted).of(config.output),
            common: Common::default(),
            phase: Phase::Waiting,
            renewal: Renewal::default(),
            n_read: 0,
            failure: None,
        }
    }

    /// The time since when the copy has taken up nothing and said nothing, if something of it is
    /// waited for.
    pub fn still_since(&self, transcript: &impl Transcript) -> Option<Instant> {
        let is_waited_for = self.lag_bytes(transcript) > 0 || self.is_awaited();
        (self.is_feeding() && is_waited_for).then_some(self.moved_at)
    }

    /// Whether the copy has not passed the point `at` (I6).
    pub fn is_before(&self, at: u64) -> bool {
        let position = self.position();
        position < at || position == at && self.hashes.is_due()
    }

    /// The bytes of `transcript` that were not fed.
    pub fn lag_bytes(&self, transcript: &impl Transcript) -> u64 {
        transcript.len() - self.cursor
    }

    /// Whether it has begun, and is fed.
    pub fn is_feeding(&self) -> bool {
        matches!(self.phase, Phase::Feeding)
    }

    /// The number of entries of connections, and of ticks, that were fed.
    pub fn n_fed(&self) -> u64 {
        self.n_fed
    }

    /// The reason why this copy cannot be fed on, if there is one.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// The time of the next look at the program.
    pub fn deadline(&self) -> Option<Instant> {
        self.look_at.into_iter().chain(self.renewal.deadline()).min()
    }

    /// Feeds what may be fed now. Returns whether anything was.
    pub fn pump<H: Transcript, P: Program>(
        &mut self,
        state: &State<H, B>,
        program: &mut P,
        audience: &mut impl Audience,
        now: Instant,
    ) -> bool {
        let transcript = state.transcript();
        if self.failure.is_some() || self.is_behind(transcript) {
            self.look_at = None; // this copy is fed no more
            self.renewal.forget_looks();
            return false;
        }
        if !matches!(self.phase, Phase::Feeding) {
            return self.begin(state, program, audience, now);
        }
        if !self.renew(program, now) {
            self.look_at = None; // what it would be looked at for is over
            return false;
        }
        self.ask(program, now);
        if self.look_at.is_some_and(|at| at <= now) {
            self.look(program, now);
        }
        let has_fed_reads = self.feed_reads(transcript, program, audience, now);
        let mut n_fed = 0;
        while n_fed < ENTRIES_MAX
            && !self.reads_are_next(transcript)
            && self.failure.is_none()
            && self.pass_point(state, program, audience, now)
            && self.read_ahead(transcript)
        {
            let ahead = std::mem::take(&mut self.ahead);
            let (mut at, mut may_go_on) = (0, true);
            while let Some(record) = Record::first(&ahead[at..]).filter(|_| may_go_on) {
                // The state has read each of them.
                let parse = || Entry::parse(record.bytes).expect("a transcript of entries");
                let entry = (!record.is_tick()).then(parse);
                let input = entry.as_ref().filter(|entry| entry.is_input());
                if !record.continues {
                    self.end_turn_of_value(input.is_some(), program);
                }
                let ends_value = self.ends_value(at + record.len(), &ahead, transcript);
                may_go_on = (n_fed < ENTRIES_MAX || self.asking.is_held)
                    && self.pass_time(record.time_ms, program, now)
                    && input.is_none_or(|entry| {
                        self.begin_turn(entry, ends_value, program, now)
                            && self.feed(entry, program, audience, now)
                    });
                if may_go_on {
                    at += record.len();
                    n_fed += 1;
                    if input.is_some() || record.is_tick() {
                        self.beside.follow_an_entry();
                        self.n_fed += 1;
                        self.hashes.step();
                    }
                    if let Some(Entry::Halt { .. }) = input {
                        self.hashes.halt();
                    }
                }
                if may_go_on && ends_value && self.hashes.counts_values() {
                    self.hashes.end_value();
                }
                if self.hashes.is_due() {
                    break;
                }
            }
            self.ahead = ahead;
            self.ahead.drain(..at);
            self.cursor += at as u64;
            if !may_go_on {
                break;
            }
        }
        self.end_turn(program);
        if self.is_awaited() && self.look_at.is_none() {
            self.look_at = Some(self.moved_at.plus(self.patience()));
        }
        n_fed > 0 || has_fed_reads
    }

    /// Reads the transcript on, if what was read holds no whole entry. Returns whether it holds
    /// one.
    fn read_ahead(&mut self, transcript: &impl Transcript) -> bool {
        while Record::first(&self.ahead).is_none() {
            let from = self.ahead.len();
            let at = self.cursor + from as u64;
            let there = transcript.len() - at;
            self.ahead.resize(from + there.min(AHEAD_BYTES as u64) as usize, 0);
            let n = transcript.read(at, &mut self.ahead[from..]);
            self.ahead.truncate(from + n);
            if n == 0 {
                return false;
            }
        }
        true
    }

    fn leg(&self, key: u64) -> &Leg {
        self.legs.get(key)
    }

    fn leg_mut(&mut self, key: u64) -> &mut Leg {
        self.legs.get_mut(key)
    }

    /// Whether `entry` may be fed now (I2).
    fn may_feed(&self, entry: &Entry<'_>) -> bool {
        let id = entry.connection();
        let key = id.and_then(|id| self.legs.key(id));
        let n_bytes = if let Entry::Input { bytes, .. } = entry { bytes.len() } else { 0 };
        if key.is_some_and(|key| !self.leg(key).has_room(n_bytes)) {
            return false; // I5
        }
        if self.planted.has(Bug::NextBeforeRest) {
            return true;
        }
        match self.config.order {
            Order::Serial => {
                let is_same = id.is_some() && id == self.turn;
                let may_follow = !self.is_asked() || self.planted.has(Bug::NextOfOneBeforeRest);
                !self.is_awaited() || is_same && may_follow
            }
            Order::Loop => true,
            Order::Relaxed => {
                id.is_some()
                    || self.legs.keys_of(|_| true).iter().all(|key| self.leg(*key).has_room(0))
            }
        }
    }

    /// Feeds `entry`; false if it has to wait.
    fn feed(
        &mut self,
        entry: &Entry<'_>,
        program: &mut impl Program,
        audience: &mut impl Audience,
        now: Instant,
    ) -> bool {
        if !self.may_feed(entry) {
            return false;
        }
        let is_same = entry.connection().is_some_and(|id| Some(id) == self.turn);
        if !is_same && self.may_be_awake(program, now) {
            self.look_at = Some(now.plus(LOOK_EVERY));
            return false;
        }
        if self.ends_early(entry, program, audience, now) {
            return false;
        }
        let key = entry.connection().and_then(|id| self.legs.key(id));
        match (*entry, key) {
            (Entry::Open { id }, _) => {
                if !self.open(id, program, now) {
                    return false;
                }
            }
            (Entry::Input { bytes, .. }, Some(key)) => self.input(key, bytes, program),
            (Entry::HalfClose { .. }, Some(key)) => self.end(key, program),
            (Entry::Close { .. } | Entry::Abort { .. }, Some(key)) => {
                self.leave(key, program, audience);
            }
            (Entry::Begin { owner, .. } | Entry::Left { owner, .. }, _) => {
                self.leave_all(program, audience, |id| id.owner == owner);
            }
            (Entry::Gone { owner, run, below }, _) => {
                let ends = |id: &ConnectionId| id.run <= run && id.number < below;
                self.leave_all(program, audience, |id| id.owner == owner && ends(id));
            }
            (Entry::Halt { .. }, _) => self.leave_all(program, audience, |_| true),
            (Entry::Compare { .. }, _) => {}
            (Entry::Hash { .. } | Entry::Piece { .. }, _) => unreachable!("it is no input"),
            // The program has closed the leg.
            (
                Entry::Input { .. }
                | Entry::HalfClose { .. }
                | Entry::Close { .. }
                | Entry::Abort { .. },
                None,
            ) => {}
        }
        self.turn = entry.connection();
        self.has_slept = false;
        self.asking.is_restless = self.is_asked();
        self.clock.is_calm = false;
        self.moved_at = now;
        true
    }

    fn open(&mut self, id: ConnectionId, program: &mut impl Program, now: Instant) -> bool {
        match program.connect(self.legs.free_key()) {
            Connected::Done => {}
            Connected::Later => {
                // It may begin, and refuse connections until it is at rest (I7).
                self.asking.is_restless = self.config.rest == Rest::Waits;
                self.look_at = Some(now.plus(LOOK_EVERY));
                return false;
            }
            Connected::Refused => {
                self.failure = Some("the program does not take connections".to_owned());
                return false;
            }
        }
        if matches!(self.asking.first, First::Unopened) {
            self.asking.first = First::Opened(now.plus(ACCEPTS_WITHIN));
        }
        let framing = self.config.replies.map(Framing::new);
        let speaks = self.config.speaks.filter(|_| self.hashes.is_on());
        let leg = Leg {
            id,
            unwritten: Vec::new(),
            n_written: 0,
            framing,
            session: (speaks == Some(Protocol::Resp)).then(Session::default),
            shown: (speaks == Some(Protocol::Memcached)).then(Shown::default),
            answers: Answers::default(),
            interest: Interest::Read, // as it was opened
            n_owed: 0,
            is_reading: false,
            is_stuck: false,
            has_ended: false,
            is_end_told: false,
            is_over: false,
        };
        let key = self.legs.open(leg);
        if self.config.rest == Rest::Quiet && self.config.replies.is_none() {
            self.legs.wait_for(key); // it may greet its client
        }
        true
    }

    fn input(&mut self, key: u64, bytes: &[u8], program: &mut impl Program) {
        let leg = self.legs.get_mut(key);
        leg.session.iter_mut().for_each(|one| one.take(bytes, &mut self.common));
        leg.shown.iter_mut().for_each(|one| one.take(bytes));
        self.put(key, bytes, program);
    }

    /// Hands these bytes to the program.
    fn put(&mut self, key: u64, bytes: &[u8], program: &mut impl Program) {
        let leg = self.legs.get_mut(key);
        leg.unwritten.drain(..leg.n_written);
        leg.unwritten.extend_from_slice(bytes);
        leg.n_written = 0;
        if let Some(framing) = &mut leg.framing {
            leg.n_owed += framing.requests(bytes);
        }
        self.legs.wait_for(key);
        self.write(key, program);
    }

    /// Writes what the program has room for. Returns whether anything was written.
    fn write(&mut self, key: u64, program: &mut impl Program) -> bool {
        let leg = self.leg_mut(key);
        let mut n = 0;
        if !leg.is_written() {
            let rest = &leg.unwritten[leg.n_written..];
            // A leg that is broken reports its end to the reader.
            n = program.write(key, rest).unwrap_or(rest.len());
            leg.n_written += n;
            let interest = if leg.is_written() { Interest::Read } else { Interest::ReadWrite };
            if std::mem::replace(&mut leg.interest, interest) != interest {
                let _ = program.watch(key, interest);
            }
        }
        if leg.has_ended && leg.is_written() && !std::mem::replace(&mut leg.is_end_told, true) {
            program.end(key);
        }
        if n > 0 && std::mem::take(&mut leg.is_stuck) {
            self.legs.wait_for(key);
        }
        self.settle(key);
        n > 0
    }

    /// Ends the input of a leg, behind what is not written yet.
    fn end(&mut self, key: u64, program: &mut impl Program) {
        self.leg_mut(key).has_ended = true;
        self.legs.wait_for(key);
        self.write(key, program);
    }

    /// Takes a leg off the busy ones if nothing of it is waited for.
    fn settle(&mut self, key: u64) {
        let leg = self.leg(key);
        let is_uncounted = leg.framing.as_ref().is_some_and(Framing::has_lost_requests);
        let is_busy = leg.n_owed > 0 || !leg.is_written() || leg.has_ended || is_uncounted;
        let owes = leg.n_owed > 0 || !leg.is_written();
        if !is_busy && self.config.replies.is_some() {
            self.legs.wait_no_longer_for(key);
        }
        if !owes {
            self.legs.unblock(key);
        }
    }
}
