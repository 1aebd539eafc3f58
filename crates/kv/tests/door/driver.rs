//! One replica without a network: it executes what connections ask for, at once or late.

use std::sync::Arc;

use base::{Incarnation, Instant, Rank, Rng, Slot};
use kv::Reply;
use kv::connection::{ClientFilter, Config, Connection, Identity, Request, RequestId};
use kv::entry::{BatchWriter, Origin, Sequence};
use kv::machine::{Machine, ReadOutcome};

const ME: Origin = Origin { rank: Rank::at(0), incarnation: Incarnation(1) };

/// A request of a connection.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    Write(RequestId, Vec<u8>),
    Read(RequestId, Vec<u8>),
    Wait(RequestId),
    Info(RequestId),
    Clients(RequestId, ClientFilter),
    Kill(RequestId, ClientFilter),
}

impl Asked {
    fn from(request: Request<'_>) -> Asked {
        match request {
            Request::Write { id, command } => Asked::Write(id, command.to_vec()),
            Request::Read { id, command } => Asked::Read(id, command.to_vec()),
            Request::Wait { id, .. } => Asked::Wait(id),
            Request::Info { id, .. }
            | Request::Member { id, .. }
            | Request::Channels { id, .. }
            | Request::Topology { id, .. } => Asked::Info(id),
            Request::Clients { id, filter } => Asked::Clients(id, filter.clone()),
            Request::Kill { id, filter } => Asked::Kill(id, filter.clone()),
        }
    }
}

pub(crate) struct Driver {
    pub(crate) machine: Machine,
    pub(crate) config: Arc<Config>,
    next: Slot,
    sequence: u64,
    n_connections: u64,
    now_ms: u64,
}

impl Driver {
    pub(crate) fn new(config: Config) -> Driver {
        Driver {
            machine: Machine::new(config.memory_bytes_max),
            config: Arc::new(config),
            next: Slot::ZERO,
            sequence: 0,
            n_connections: 0,
            now_ms: 1_700_000_000_000,
        }
    }

    pub(crate) fn connect(&mut self) -> Connection {
        self.n_connections += 1;
        let identity = Identity {
            id: self.n_connections,
            address: "127.0.0.1:50000".to_owned(),
            local_address: "127.0.0.1:7000".to_owned(),
        };
        Connection::new(self.config.clone(), identity, Instant::ZERO)
    }

    /// The next request of the connection.
    pub(crate) fn ask(&self, connection: &mut Connection) -> Option<Asked> {
        connection.next_request().map(Asked::from)
    }

    /// Executes the request, and answers it.
    pub(crate) fn answer(&mut self, connection: &mut Connection, asked: &Asked) {
        let was_waiting = match asked {
            Asked::Write(id, command) => {
                let (mut value, mut writer) = (Vec::new(), BatchWriter::new());
                let mut heard = None;
                self.sequence += 1;
                writer.begin(self.now_ms, &mut value);
                writer.append(ME, Sequence(self.sequence), command, 1 << 20, &mut value);
                let slot = self.next;
                self.next = slot.next();
                let mut sink = |_, _, reply: &[u8]| heard = Some(reply.to_vec());
                self.machine.apply(slot, &value, &mut sink).unwrap();
                connection.executed(*id, slot, &heard.expect("every command is answered"))
            }
            Asked::Read(id, command) => {
                assert_eq!(connection.read_command(*id), Some(&command[..]));
                let mut reply = Reply::default();
                let outcome = self.machine.read(command, self.now_ms, 0, &mut reply);
                assert_eq!(outcome, ReadOutcome::Done, "no test lets a key expire here");
                connection.answer(*id, reply.as_bytes())
            }
            // It knows no other connection.
            Asked::Kill(id, filter) => connection.answer_kill(*id, filter, 0),
            Asked::Wait(id) => connection.answer_integer(*id, 0),
            Asked::Info(id) => connection.answer_text(*id, "# gregale\r\n"),
            Asked::Clients(id, filter) => {
                let mut list = String::new();
                if filter.accepts(connection) {
                    list = connection.describe(Instant::ZERO) + "\n";
                }
                connection.answer_text(*id, &list)
            }
        };
        assert!(was_waiting, "C4: {asked:?}");
    }

    /// Feeds bytes, answers everything at once, and returns what comes back.
    pub(crate) fn feed(&mut self, connection: &mut Connection, bytes: &[u8]) -> Vec<u8> {
        connection.feed(bytes, Instant::ZERO);
        while let Some(asked) = self.ask(connection) {
            self.answer(connection, &asked);
        }
        drain(connection)
    }

    /// Feeds one command, as above.
    pub(crate) fn call(&mut self, connection: &mut Connection, args: &[&[u8]]) -> Vec<u8> {
        self.feed(connection, &encode(args))
    }

    /// Feeds bytes in pieces and answers late: reads in any order, writes in theirs.
    pub(crate) fn feed_late(
        &mut self,
        connection: &mut Connection,
        mut bytes: &[u8],
        rng: &mut Rng,
    ) -> Vec<u8> {
        let (mut output, mut asked) = (Vec::new(), Vec::new());
        while !bytes.is_empty() || !asked.is_empty() {
            output.append(&mut drain(connection));
            if connection.is_finished() {
                break; // the rest would not be read
            }
            if !bytes.is_empty() && connection.wants_input() && rng.chance(1, 2) {
                let (piece, rest) = bytes.split_at(bytes.len().min(1 + rng.below(90) as usize));
                connection.feed(piece, Instant::ZERO);
                bytes = rest;
            }
            while let Some(next) = self.ask(connection) {
                asked.push(next);
            }
            if !asked.is_empty() && rng.chance(2, 3) {
                let at = rng.below(asked.len() as u64) as usize;
                let is_write = |asked: &Asked| matches!(asked, Asked::Write(..));
                // C2: requests that overlap are of one kind.
                assert!(asked.iter().all(|one| is_write(one) == is_write(&asked[at])), "C2");
                let at = if is_write(&asked[at]) { 0 } else { at };
                let next = asked.remove(at);
                self.answer(connection, &next);
            }
        }
        while let Some(next) = self.ask(connection) {
            self.answer(connection, &next);
        }
        output.append(&mut drain(connection));
        output
    }
}

/// Takes the output, in two pieces.
pub(crate) fn drain(connection: &mut Connection) -> Vec<u8> {
    let mut output = Vec::new();
    while !connection.output().is_empty() {
        let n = connection.output().len().div_ceil(2);
        output.extend_from_slice(&connection.output()[..n]);
        connection.sent(n);
    }
    output
}

pub(crate) fn encode(args: &[&[u8]]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        request.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        request.extend_from_slice(arg);
        request.extend_from_slice(b"\r\n");
    }
    request
}
