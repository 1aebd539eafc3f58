//! A client: it asks different members, records each call, and never guesses an outcome.
//!
//! - I1 `Failed` is recorded only if the service reported that nothing was changed, or if the
//!   command that would have changed something was never sent. A lost connection, a late reply and
//!   `-UNKNOWN` are recorded as unknown.
//! - I2 every value is written once in a run, so a read identifies the write that it saw.

use crate::support::PATIENCE;
use crate::wire::{Heard, Wire};
use base::Rng;
use check::{Action, Command, End, History, Op, Reply};
use redis::{Cmd, Value, cmd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The number of members of every cluster here.
pub(crate) const MEMBERS: usize = 3;
/// Keys that hold one value each.
const REGISTERS: u64 = 5;
/// Keys that grow by APPEND. They are many, since a judge has to try every order of the appends of
/// unknown outcome to one key: each order makes another value.
const TEXTS: u64 = 12;
/// Keys that count.
const COUNTERS: u64 = 4;
/// Keys that are mostly written and read together.
const PAIR: [&str; 2] = ["pair0", "pair1"];
/// The most commands that a client has in flight.
const BURST_MAX: u64 = 12;
/// The longest pause between two calls. It limits a run to as many operations as two judges can
/// handle; without any pause, a few seconds would already be too many.
const PAUSE_US_MAX: u64 = 2500;

/// The state that the threads of one run share.
pub(crate) struct Shared {
    /// The members' client ports.
    pub(crate) ports: [u16; MEMBERS],
    /// The clock of all records; `Instant` is CLOCK_MONOTONIC.
    pub(crate) start: Instant,
    /// Set when clients are to stop.
    pub(crate) is_over: AtomicBool,
    /// Set while clients are silent.
    pub(crate) is_quiet: AtomicBool,
    /// Writes that were acknowledged so far.
    pub(crate) n_acknowledged_writes: AtomicU64,
    /// Outcomes that the service itself reported as unknown so far.
    pub(crate) n_called_unknown: AtomicU64,
    /// Answers so far, by member.
    pub(crate) n_answered_by: [AtomicU64; MEMBERS],
}

impl Shared {
    pub(crate) fn new(ports: [u16; MEMBERS]) -> Shared {
        Shared {
            ports,
            start: Instant::now(),
            is_over: AtomicBool::new(false),
            is_quiet: AtomicBool::new(false),
            n_acknowledged_writes: AtomicU64::new(0),
            n_called_unknown: AtomicU64::new(0),
            n_answered_by: [const { AtomicU64::new(0) }; MEMBERS],
        }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}

/// All keys that a client may use.
pub(crate) fn keys() -> Vec<String> {
    let numbered = |name: &'static str, n: u64| (0..n).map(move |i| format!("{name}{i}"));
    let pair = PAIR.into_iter().map(str::to_owned);
    numbered("register", REGISTERS)
        .chain(numbered("text", TEXTS))
        .chain(numbered("counter", COUNTERS))
        .chain(pair)
        .collect()
}

/// The behaviour of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Manner {
    /// It asks a random member for each step, and waits longer than the service's own deadline: the
    /// next member must know what one member has answered.
    Roaming,
    /// It roams, and closes its connection before a hung member wakes to execute its requests.
    Impatient,
    /// It asks only this member (from 0), and waits.
    Loyal(usize),
}

impl Manner {
    /// The manner of a client by its number: a third each are roaming, impatient and loyal.
    pub(crate) fn of(id: u64) -> Manner {
        match id % 3 {
            0 => Manner::Roaming,
            1 => Manner::Impatient,
            _ => Manner::Loyal(id as usize / 3 % MEMBERS),
        }
    }
}

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repertoire {
    /// Whatever a store does.
    Everything,
    /// What registers do that are each kept by itself.
    Registers,
}

/// How often a quiet client looks whether it may speak again.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long an impatient client waits for a reply: less than members hang.
const IMPATIENCE: Duration = Duration::from_millis(400);

/// A client; see the module's text.
pub(crate) struct Client<'a> {
    id: u64,
    shared: &'a Shared,
    rng: Rng,
    manner: Manner,
    repertoire: Repertoire,
    wires: [Option<Wire>; MEMBERS],
    n_written: u64,
    history: History,
}

impl<'a> Client<'a> {
    /// A client with one of these behaviours.
    pub(crate) fn new(id: u64, seed: u64, manner: Manner, shared: &'a Shared) -> Client<'a> {
        let rng = Rng::new(seed << 32 | id);
        let wires = [const { None }; MEMBERS];
        let repertoire = Repertoire::Everything;
        let history = History::new();
        Client { id, shared, rng, manner, repertoire, wires, n_written: 0, history }
    }

    /// The same client, with this repertoire.
    pub(crate) fn asking_for(self, repertoire: Repertoire) -> Client<'a> {
        Client { repertoire, ..self }
    }

    fn connect(&self, member: usize) -> std::io::Result<Wire> {
        let patience = match self.manner {
            Manner::Impatient => IMPATIENCE,
            Manner::Roaming | Manner::Loyal(_) => PATIENCE,
        };
        Wire::connect(self.shared.ports[member], patience)
    }

    /// Asks until the run is over; returns the record.
    pub(crate) fn run(mut self) -> History {
        while !self.shared.is_over.load(Ordering::Relaxed) {
            let member = match self.manner {
                Manner::Roaming | Manner::Impatient => self.rng.below(MEMBERS as u64) as usize,
                Manner::Loyal(member) => member,
            };
            if self.shared.is_quiet.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK_EVERY);
                continue;
            }
            let wire = self.wires[member].take().or_else(|| self.connect(member).ok());
            if let Some(wire) = wire {
                self.wires[member] = self.step(wire, member);
            }
            std::thread::sleep(Duration::from_micros(self.rng.below(PAUSE_US_MAX)));
        }
        self.history
    }

    /// Reads every key at `member` (from 0), and records it too.
    pub(crate) fn read_all(mut self, member: usize) -> (Vec<Reply>, History) {
        let mut wire = self.connect(member).expect("a healed cluster takes connections");
        let mut replies = Vec::new();
        for key in keys() {
            let connected = self.commands(wire, member, vec![Command::new(key, Action::Get)]);
            wire = connected.expect("a healed cluster answers a read");
            match &self.history.ops.last().expect("just recorded").end {
                End::Answered { replies: seen, .. } => replies.extend_from_slice(seen),
                end => panic!("a read at member {} of a healed cluster: {end:?}", member + 1),
            }
        }
        (replies, self.history)
    }

    /// Performs one call, or several at once. Returns the wire if it is still usable.
    fn step(&mut self, wire: Wire, member: usize) -> Option<Wire> {
        if self.repertoire == Repertoire::Registers {
            let n = if self.rng.chance(1, 10) { self.rng.range(2, BURST_MAX) } else { 1 };
            let commands = (0..n).map(|_| self.register_command()).collect();
            return self.commands(wire, member, commands);
        }
        match self.rng.below(20) {
            0 => {
                let n = self.rng.range(2, BURST_MAX);
                let commands = (0..n).map(|_| self.command()).collect();
                self.commands(wire, member, commands)
            }
            1..4 => self.both(wire, member),
            4 | 5 => self.compare_and_set(wire, member),
            _ => {
                let command = self.command();
                self.commands(wire, member, vec![command])
            }
        }
    }

    /// A value that is written once (I2).
    fn fresh(&mut self) -> Vec<u8> {
        self.n_written += 1;
        format!("{}.{};", self.id, self.n_written).into_bytes()
    }

    fn key(&mut self, name: &str, n: u64) -> String {
        format!("{name}{}", self.rng.below(n))
    }

    fn command(&mut self) -> Command {
        match self.rng.below(10) {
            0..5 => {
                let key = self.key("register", REGISTERS);
                Command::new(key, self.register_action())
            }
            5 | 6 => {
                let key = self.key("text", TEXTS);
                let action = match self.rng.below(16) {
                    0..8 => Action::Get,
                    8..15 => Action::Append(self.fresh()),
                    // From time to time, so that it does not grow without a bound.
                    _ => Action::Swap(self.fresh()),
                };
                Command::new(key, action)
            }
            7 | 8 => {
                let key = self.key("counter", COUNTERS);
                let by = self.rng.range(1, 3) as i64;
                let action = if self.rng.chance(1, 3) { Action::Get } else { Action::Incr(by) };
                Command::new(key, action)
            }
            _ => {
                let key = PAIR[self.rng.below(2) as usize];
                let action =
                    if self.rng.chance(2, 3) { Action::Get } else { Action::Set(self.fresh()) };
                Command::new(key, action)
            }
        }
    }

    fn register_command(&mut self) -> Command {
        let key = self.key("register", REGISTERS);
        let action = if self.rng.chance(1, 2) { Action::Get } else { Action::Set(self.fresh()) };
        Command::new(key, action)
    }

    fn register_action(&mut self) -> Action {
        match self.rng.below(12) {
            0..6 => Action::Get,
            6..9 => Action::Set(self.fresh()),
            9 => Action::Swap(self.fresh()),
            10 => Action::Cas { expect: None, value: self.fresh() },
            _ => Action::Delete,
        }
    }

    /// Commands in flight together, each recorded by itself.
    fn commands(&mut self, mut wire: Wire, member: usize, commands: Vec<Command>) -> Option<Wire> {
        let requests: Vec<Cmd> = commands.iter().map(request).collect();
        let invoke_ns = self.shared.now_ns();
        let mut is_lost = wire.send(&requests).is_err();
        for command in commands {
            let heard = if is_lost { Heard::Lost } else { wire.receive() };
            is_lost |= matches!(heard, Heard::Lost);
            let replies = match heard {
                Heard::Reply(value) => Ok(vec![reply(&command.action, value)]),
                other => Err(other),
            };
            self.record(member, invoke_ns, vec![command], replies);
        }
        (!is_lost).then_some(wire)
    }

    /// Uses both keys of the pair at once, by a command of several keys or by a transaction.
    fn both(&mut self, wire: Wire, member: usize) -> Option<Wire> {
        let is_read = self.rng.chance(1, 2);
        let actions = match is_read {
            true => [Action::Get, Action::Get],
            false => [Action::Set(self.fresh()), Action::Set(self.fresh())],
        };
        let commands: Vec<Command> =
            PAIR.into_iter().zip(actions).map(|(key, action)| Command::new(key, action)).collect();
        if self.rng.chance(1, 2) {
            return self.transaction(wire, member, commands);
        }
        let mut request = cmd(if is_read { "MGET" } else { "MSET" });
        for Command { key, action } in &commands {
            request.arg(key);
            if let Action::Set(value) = action {
                request.arg(value);
            }
        }
        self.as_one(wire, member, &[request], commands)
    }

    fn transaction(&mut self, wire: Wire, member: usize, commands: Vec<Command>) -> Option<Wire> {
        let mut requests = vec![cmd("MULTI")];
        requests.extend(commands.iter().map(request));
        requests.push(cmd("EXEC"));
        self.as_one(wire, member, &requests, commands)
    }

    /// Sends `requests`, of which the last executes all `commands` at once, and records its reply.
    fn as_one(
        &mut self,
        mut wire: Wire,
        member: usize,
        requests: &[Cmd],
        commands: Vec<Command>,
    ) -> Option<Wire> {
        let invoke_ns = self.shared.now_ns();
        let heard = wire.ask(requests);
        let is_lost = matches!(heard, Heard::Lost);
        let replies = match heard {
            Heard::Reply(Value::Array(values)) => {
                let each = commands.iter().zip(values);
                Ok(each.map(|(command, value)| reply(&command.action, value)).collect())
            }
            // MSET has one reply for all.
            Heard::Reply(Value::Okay) => Ok(vec![Reply::Ok; commands.len()]),
            other => Err(other),
        };
        self.record(member, invoke_ns, commands, replies);
        (!is_lost).then_some(wire)
    }

    /// WATCH, GET, and a write that takes effect only if the value is still the one read.
    fn compare_and_set(&mut self, mut wire: Wire, member: usize) -> Option<Wire> {
        let key = self.key("register", REGISTERS);
        let read = Command::new(key.clone(), Action::Get);
        let invoke_ns = self.shared.now_ns();
        let heard = wire.ask(&[cmd("WATCH").arg(&key).to_owned(), request(&read)]);
        let Heard::Reply(value) = heard else {
            self.record(member, invoke_ns, vec![read], Err(heard));
            // The connection is closed, and with it a WATCH that it may have.
            return None;
        };
        let seen = reply(&read.action, value);
        self.record(member, invoke_ns, vec![read], Ok(vec![seen.clone()]));
        let Reply::Value(expect) = seen else { panic!("a read answered {seen}") };

        let value = self.fresh();
        let write = request(&Command::new(key.clone(), Action::Set(value.clone())));
        let cas = Command::new(key, Action::Cas { expect, value });
        let invoke_ns = self.shared.now_ns();
        let heard = wire.ask(&[cmd("MULTI"), write, cmd("EXEC")]);
        let is_lost = matches!(heard, Heard::Lost);
        let replies = match heard {
            Heard::Reply(Value::Array(_)) => Ok(vec![Reply::Done(true)]),
            // The write was not executed. That another write of this key prevented it is not
            // promised: watched keys may share a version.
            Heard::Reply(Value::Nil) => Err(Heard::Refused),
            other => Err(other),
        };
        self.record(member, invoke_ns, vec![cas], replies);
        (!is_lost).then_some(wire)
    }

    /// Records the outcome of a call (I1).
    fn record(
        &mut self,
        member: usize,
        invoke_ns: u64,
        commands: Vec<Command>,
        replies: Result<Vec<Reply>, Heard>,
    ) {
        let at_ns = self.shared.now_ns();
        let end = match replies {
            Ok(replies) => {
                self.shared.n_answered_by[member].fetch_add(1, Ordering::Relaxed);
                if commands.iter().any(|command| command.action != Action::Get) {
                    self.shared.n_acknowledged_writes.fetch_add(1, Ordering::Relaxed);
                }
                End::Answered { at_ns, replies }
            }
            Err(Heard::Refused) => End::Failed { at_ns },
            Err(Heard::Unknown) => {
                self.shared.n_called_unknown.fetch_add(1, Ordering::Relaxed);
                End::Unknown
            }
            Err(Heard::Lost) => End::Unknown,
            Err(Heard::Reply(value)) => panic!("{commands:?} answered {value:?}"),
        };
        self.history.push(Op { client: self.id, invoke_ns, commands, end });
    }
}

fn request(Command { key, action }: &Command) -> Cmd {
    let mut request = Cmd::new();
    match action {
        Action::Get => request.arg("GET").arg(key),
        Action::Set(value) => request.arg("SET").arg(key).arg(value),
        Action::Swap(value) => request.arg("SET").arg(key).arg(value).arg("GET"),
        Action::Cas { expect: None, value } => request.arg("SETNX").arg(key).arg(value),
        Action::Cas { expect: Some(_), .. } => panic!("only by WATCH"),
        Action::Delete => request.arg("DEL").arg(key),
        Action::Incr(by) => request.arg("INCRBY").arg(key).arg(*by),
        Action::Append(value) => request.arg("APPEND").arg(key).arg(value),
    };
    request
}

fn reply(action: &Action, value: Value) -> Reply {
    match (action, value) {
        (Action::Get | Action::Swap(_), Value::Nil) => Reply::Value(None),
        (Action::Get | Action::Swap(_), Value::BulkString(bytes)) => Reply::Value(Some(bytes)),
        (Action::Set(_), Value::Okay) => Reply::Ok,
        (Action::Cas { .. } | Action::Delete, Value::Int(n)) => Reply::Done(n == 1),
        (Action::Incr(_) | Action::Append(_), Value::Int(n)) => Reply::Number(n),
        (action, value) => panic!("{action:?} answered {value:?}"),
    }
}
