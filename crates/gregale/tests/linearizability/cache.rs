//! A client of memcached's protocol of lines: it records each call, and never guesses an outcome
//! (I1 and I2 of `client`).

use crate::client::{MEMBERS, Manner, Shared};
use crate::support::PATIENCE;
use base::Rng;
use check::{Action, Command, End, History, Op, Reply};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Four threads, and room for everything: nothing is evicted.
pub(crate) const MEMCACHED: &str = "memcached -s {socket} -U 0 -t 4 -M -u root";

/// Keys that hold one value each.
const REGISTERS: u64 = 8;
/// How long an impatient client waits for a reply: less than members hang.
const IMPATIENCE: Duration = Duration::from_millis(400);
/// The longest pause between two calls.
const PAUSE_US_MAX: u64 = 2500;

type Wire = BufReader<TcpStream>;

/// The client of the module's text.
pub(crate) struct Client<'a> {
    id: u64,
    shared: &'a Shared,
    rng: Rng,
    manner: Manner,
    wires: [Option<Wire>; MEMBERS],
    n_written: u64,
    history: History,
}

fn line(wire: &mut Wire) -> io::Result<String> {
    let mut line = String::new();
    wire.read_line(&mut line)?;
    match line.strip_suffix("\r\n") {
        Some(line) => Ok(line.to_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// The answers to these commands, which are sent at once.
fn ask(wire: &mut Wire, commands: &[Command]) -> io::Result<Vec<Reply>> {
    let mut bytes = Vec::new();
    for Command { key, action } in commands {
        let key = String::from_utf8_lossy(key);
        match action {
            Action::Get => bytes.extend(format!("get {key}\r\n").bytes()),
            Action::Delete => bytes.extend(format!("delete {key}\r\n").bytes()),
            Action::Set(value) => {
                bytes.extend(format!("set {key} 0 0 {}\r\n", value.len()).bytes());
                bytes.extend_from_slice(value);
                bytes.extend(b"\r\n");
            }
            other => panic!("{other:?} is not asked for here"),
        }
    }
    wire.get_mut().write_all(&bytes)?;
    commands.iter().map(|command| answer(wire, command)).collect()
}

/// # Panics
/// At an answer that no command of these tests may get.
fn answer(wire: &mut Wire, command: &Command) -> io::Result<Reply> {
    let said = line(wire)?;
    let reply = match (&command.action, said.split(' ').collect::<Vec<_>>().as_slice()) {
        (Action::Set(_), ["STORED"]) => Reply::Ok,
        (Action::Delete, ["DELETED"]) => Reply::Done(true),
        (Action::Delete, ["NOT_FOUND"]) => Reply::Done(false),
        (Action::Get, ["END"]) => Reply::Value(None),
        (Action::Get, ["VALUE", key, "0", len]) => {
            assert_eq!(key.as_bytes(), command.key, "another key's value");
            let mut value = vec![0; len.parse::<usize>().expect("a length") + 2];
            wire.read_exact(&mut value)?;
            value.truncate(value.len() - 2);
            assert_eq!(line(wire)?, "END");
            Reply::Value(Some(value))
        }
        _ => panic!("{command:?} answered {said:?}"),
    };
    Ok(reply)
}

impl<'a> Client<'a> {
    pub(crate) fn new(id: u64, seed: u64, manner: Manner, shared: &'a Shared) -> Client<'a> {
        let rng = Rng::new(seed << 32 | id);
        let wires = [const { None }; MEMBERS];
        Client { id, shared, rng, manner, wires, n_written: 0, history: History::new() }
    }

    fn connect(&self, member: usize) -> io::Result<Wire> {
        let stream = TcpStream::connect(("127.0.0.1", self.shared.ports[member]))?;
        let patience = match self.manner {
            Manner::Impatient => IMPATIENCE,
            Manner::Roaming | Manner::Loyal(_) => PATIENCE,
        };
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        Ok(BufReader::new(stream))
    }

    /// Asks until the run is over; returns the record.
    pub(crate) fn run(mut self) -> History {
        while !self.shared.is_over.load(Ordering::Relaxed) {
            let member = match self.manner {
                Manner::Roaming | Manner::Impatient => self.rng.below(MEMBERS as u64) as usize,
                Manner::Loyal(member) => member,
            };
            let wire = self.wires[member].take().or_else(|| self.connect(member).ok());
            if let Some(wire) = wire {
                // Several at once are each a call of its own: they overlap.
                let n = if self.rng.chance(1, 8) { self.rng.range(2, 6) } else { 1 };
                let commands = (0..n).map(|_| self.command()).collect();
                self.wires[member] = self.call(wire, member, commands);
            }
            std::thread::sleep(Duration::from_micros(self.rng.below(PAUSE_US_MAX)));
        }
        self.history
    }

    fn command(&mut self) -> Command {
        let key = format!("register{}", self.rng.below(REGISTERS));
        let action = match self.rng.below(10) {
            0..6 => Action::Get,
            6 => Action::Delete,
            _ => {
                self.n_written += 1;
                Action::Set(format!("{}.{};", self.id, self.n_written).into_bytes())
            }
        };
        Command::new(key, action)
    }

    /// Sends commands at once, and records each. Returns the wire if it is still usable.
    fn call(&mut self, mut wire: Wire, member: usize, commands: Vec<Command>) -> Option<Wire> {
        let invoke_ns = self.shared.now_ns();
        let replies = ask(&mut wire, &commands);
        let at_ns = self.shared.now_ns();
        let is_lost = replies.is_err();
        // What was answered before the connection was lost counts as unknown, too.
        let mut replies = replies.ok().map(Vec::into_iter);
        for command in commands {
            let reply = replies.as_mut().and_then(Iterator::next);
            let is_write = command.action != Action::Get;
            let end = match reply {
                Some(reply) => {
                    self.shared.n_answered_by[member].fetch_add(1, Ordering::Relaxed);
                    let n = &self.shared.n_acknowledged_writes;
                    n.fetch_add(u64::from(is_write), Ordering::Relaxed);
                    End::Answered { at_ns, replies: vec![reply] }
                }
                None => End::Unknown,
            };
            self.history.push(Op { client: self.id, invoke_ns, commands: vec![command], end });
        }
        (!is_lost).then_some(wire)
    }

    /// Reads every key at `member` (from 0), and records it too.
    pub(crate) fn read_all(mut self, member: usize) -> (Vec<Reply>, History) {
        let wire = self.connect(member).expect("a healed cluster takes connections");
        let keys = (0..REGISTERS).map(|n| format!("register{n}"));
        let reads = keys.map(|key| Command::new(key, Action::Get)).collect();
        self.call(wire, member, reads).expect("a healed cluster answers reads");
        let replies = self.history.ops.iter().flat_map(|op| match &op.end {
            End::Answered { replies, .. } => replies.clone(),
            end => panic!("a read at member {} of a healed cluster: {end:?}", member + 1),
        });
        (replies.collect(), self.history)
    }
}
