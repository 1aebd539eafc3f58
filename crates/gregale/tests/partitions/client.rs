//! A client: single commands, commands of several keys, and transactions, at any member.
//!
//! - I1 `Failed` is recorded only if the service reported that nothing was changed. A lost
//!   connection, a late reply and `-UNKNOWN` are recorded as unknown.
//! - I2 every value is written once in a run, so a read identifies the write that it saw.

use crate::PARTITIONS;
use crate::support::PATIENCE;
use crate::wire::{Heard, Wire};
use base::Rng;
use check::{Action, Command, End, History, Op, Reply};
use redis::{Cmd, Value, cmd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long an impatient client waits: less than members hang.
const IMPATIENCE: Duration = Duration::from_millis(400);
/// The longest pause between two operations. It limits a run to what two judges can handle: all
/// keys are one object to them, and each write of unknown outcome may have come at any later time.
const PAUSE_US_MAX: u64 = 20_000;
/// Keys of each partition that hold one value each; one more counts.
const REGISTERS: usize = 2;

/// The state that the threads of one run share.
pub(crate) struct Shared {
    pub(crate) ports: Vec<u16>,
    /// The clock of all records; `Instant` is CLOCK_MONOTONIC.
    start: Instant,
    pub(crate) is_over: AtomicBool,
    pub(crate) n_acknowledged_writes: AtomicU64,
    /// The keys of each partition.
    registers: Vec<Vec<String>>,
    counters: Vec<String>,
}

impl Shared {
    pub(crate) fn new(ports: Vec<u16>) -> Shared {
        let keys_of = |name: &'static str, partition| {
            let keys = (0..).map(move |at| format!("{name}{at}"));
            keys.filter(move |key| {
                kv::partition::partition_of(key.as_bytes(), PARTITIONS) == partition
            })
        };
        Shared {
            ports,
            start: Instant::now(),
            is_over: AtomicBool::new(false),
            n_acknowledged_writes: AtomicU64::new(0),
            registers: (0..PARTITIONS)
                .map(|partition| keys_of("register", partition).take(REGISTERS).collect())
                .collect(),
            counters: (0..PARTITIONS)
                .filter_map(|partition| keys_of("counter", partition).next())
                .collect(),
        }
    }

    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}

/// A client; see the module's text.
pub(crate) struct Client<'a> {
    id: u64,
    shared: &'a Shared,
    rng: Rng,
    wires: Vec<Option<Wire>>,
    n_written: u64,
    history: History,
}

impl<'a> Client<'a> {
    pub(crate) fn new(id: u64, seed: u64, shared: &'a Shared) -> Client<'a> {
        let wires = shared.ports.iter().map(|_| None).collect();
        let rng = Rng::new(seed << 32 | id);
        Client { id, shared, rng, wires, n_written: 0, history: History::new() }
    }

    fn connect(&self, member: usize) -> Option<Wire> {
        // A third are impatient: they close before a hung member wakes to execute their requests.
        let patience = if self.id.is_multiple_of(3) { IMPATIENCE } else { PATIENCE };
        Wire::connect(self.shared.ports[member], patience).ok()
    }

    /// Asks until the run is over; returns the record.
    pub(crate) fn run(mut self) -> History {
        while !self.shared.is_over.load(Ordering::Relaxed) {
            let member = self.rng.below(self.wires.len() as u64) as usize;
            if let Some(wire) = self.wires[member].take().or_else(|| self.connect(member)) {
                self.wires[member] = self.step(wire);
            }
            std::thread::sleep(Duration::from_micros(self.rng.below(PAUSE_US_MAX)));
        }
        self.history
    }

    /// Reads every key at member `id`, at once.
    pub(crate) fn read_all(mut self, id: u16) -> (Vec<Reply>, History) {
        let wire = Wire::connect(self.shared.ports[usize::from(id) - 1], PATIENCE);
        let wire = wire.expect("a survivor takes connections");
        let keys = self.shared.registers.iter().flatten().chain(&self.shared.counters);
        let commands = keys.map(|key| Command::new(key.clone(), Action::Get)).collect();
        self.several(wire, commands, false);
        match self.history.ops.pop() {
            Some(Op { end: End::Answered { replies, at_ns }, client, invoke_ns, commands }) => {
                let end = End::Answered { at_ns, replies: replies.clone() };
                self.history.push(Op { client, invoke_ns, commands, end });
                (replies, self.history)
            }
            other => panic!("a read at a survivor came to {other:?}"),
        }
    }

    fn step(&mut self, wire: Wire) -> Option<Wire> {
        match self.rng.below(10) {
            // One key.
            0..3 => {
                let action = self.action();
                let key = self.key();
                self.several(wire, vec![Command::new(key, action)], false)
            }
            // Counters of two partitions, always together.
            3 => {
                let first = self.rng.below(PARTITIONS as u64) as usize;
                let both = [first, (first + 1) % PARTITIONS];
                let is_read = self.rng.chance(1, 3);
                let action = || if is_read { Action::Get } else { Action::Incr(1) };
                let key = |at: usize| self.shared.counters[at].clone();
                let commands = both.map(|at| Command::new(key(at), action())).into();
                self.several(wire, commands, true)
            }
            // MGET, MSET.
            4..7 => {
                let is_read = self.rng.chance(1, 2);
                let n = self.rng.range(2, 4) as usize;
                let commands = self.keys(n).into_iter().map(|key| {
                    let action = if is_read { Action::Get } else { Action::Set(self.fresh()) };
                    Command::new(key, action)
                });
                let commands = commands.collect();
                self.several(wire, commands, false)
            }
            // A mixture.
            _ => {
                let n = self.rng.range(2, 4) as usize;
                let commands = self.keys(n).into_iter().map(|key| {
                    let action = self.action();
                    Command::new(key, action)
                });
                let commands = commands.collect();
                self.several(wire, commands, true)
            }
        }
    }

    /// A value that is written once (I2).
    fn fresh(&mut self) -> Vec<u8> {
        self.n_written += 1;
        format!("{}.{}", self.id, self.n_written).into_bytes()
    }

    fn action(&mut self) -> Action {
        match self.rng.below(8) {
            0..4 => Action::Get,
            4..6 => Action::Set(self.fresh()),
            6 => Action::Swap(self.fresh()),
            _ => Action::Delete,
        }
    }

    fn key(&mut self) -> String {
        let partition = self.rng.below(PARTITIONS as u64) as usize;
        let register = self.rng.below(REGISTERS as u64) as usize;
        self.shared.registers[partition][register].clone()
    }

    /// Different keys.
    fn keys(&mut self, n: usize) -> Vec<String> {
        let mut keys = Vec::new();
        while keys.len() < n {
            let key = self.key();
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }

    /// Executes all `commands` at once: a single command by itself, others as MGET or MSET, or as a
    /// transaction. Returns the wire if it is still usable.
    fn several(
        &mut self,
        mut wire: Wire,
        commands: Vec<Command>,
        in_transaction: bool,
    ) -> Option<Wire> {
        let all = |wanted: fn(&Action) -> bool| commands.iter().all(|it| wanted(&it.action));
        let requests = match commands.as_slice() {
            [only] if !in_transaction => vec![request(only)],
            _ if !in_transaction && all(|action| *action == Action::Get) => {
                let mut request = cmd("MGET");
                for Command { key, .. } in &commands {
                    request.arg(key);
                }
                vec![request]
            }
            _ if !in_transaction && all(|action| matches!(action, Action::Set(_))) => {
                let mut request = cmd("MSET");
                for Command { key, action } in &commands {
                    if let Action::Set(value) = action {
                        request.arg(key).arg(value);
                    }
                }
                vec![request]
            }
            _ => {
                let each = commands.iter().map(request);
                std::iter::once(cmd("MULTI")).chain(each).chain([cmd("EXEC")]).collect()
            }
        };
        let is_alone = requests.len() == 1 && commands.len() == 1;
        let invoke_ns = self.shared.now_ns();
        let heard = wire.ask(&requests);
        let at_ns = self.shared.now_ns();
        let is_lost = matches!(heard, Heard::Lost);
        let end = match heard {
            // Only a definite report counts as failed (I1).
            Heard::Lost | Heard::Unknown => End::Unknown,
            Heard::Refused => End::Failed { at_ns },
            Heard::Reply(value) => {
                let replies = match value {
                    value if is_alone => vec![reply(&commands[0].action, value)],
                    Value::Array(values) => {
                        assert_eq!(values.len(), commands.len(), "a reply to each");
                        let each = commands.iter().zip(values);
                        each.map(|(command, value)| reply(&command.action, value)).collect()
                    }
                    // MSET has one reply for all.
                    Value::Okay => vec![Reply::Ok; commands.len()],
                    other => panic!("{commands:?} answered {other:?}"),
                };
                if commands.iter().any(|command| command.action != Action::Get) {
                    self.shared.n_acknowledged_writes.fetch_add(1, Ordering::Relaxed);
                }
                End::Answered { at_ns, replies }
            }
        };
        self.history.push(Op { client: self.id, invoke_ns, commands, end });
        (!is_lost).then_some(wire)
    }
}

fn request(Command { key, action }: &Command) -> Cmd {
    let mut request = Cmd::new();
    match action {
        Action::Get => request.arg("GET").arg(key),
        Action::Set(value) => request.arg("SET").arg(key).arg(value),
        Action::Swap(value) => request.arg("SET").arg(key).arg(value).arg("GET"),
        Action::Delete => request.arg("DEL").arg(key),
        Action::Incr(by) => request.arg("INCRBY").arg(key).arg(*by),
        Action::Append(_) | Action::Cas { .. } => panic!("no client here does {action:?}"),
    };
    request
}

fn reply(action: &Action, value: Value) -> Reply {
    match (action, value) {
        (Action::Get | Action::Swap(_), Value::Nil) => Reply::Value(None),
        (Action::Get | Action::Swap(_), Value::BulkString(bytes)) => Reply::Value(Some(bytes)),
        (Action::Set(_), Value::Okay) => Reply::Ok,
        (Action::Delete, Value::Int(n)) => Reply::Done(n == 1),
        (Action::Incr(_), Value::Int(n)) => Reply::Number(n),
        (action, value) => panic!("{action:?} answered {value:?}"),
    }
}
