//! Decides when this process's commands are sent, and records how they end.
//!
//! Commands for the same partitions share a *lane*: commands that come while a message of the lane
//! is under way go into the next message together, so a busy lane makes long batches by itself and
//! an idle lane waits for nothing.
//!
//! - K1 a lane has one message under way at a time, and its commands go out in the order in which
//!   they came: they are executed in that order.
//! - K2 a command does not overtake an earlier one of the same client that shares a partition with
//!   it: it waits until that one is executed, unless both are in the same lane (K1). Commands of
//!   one client for different partitions may overtake each other while both are under way, as in a
//!   Redis Cluster. Test `k2_a_client_keeps_its_order`.
//! - K3 each command ends once: with its answer, or at its deadline. An answer after the deadline
//!   finds no asker. By [`Sender::answered`] and [`Sender::expire`], which both remove the asker.
//! - K4 at most [`COMMANDS_MAX`] commands, and about [`BYTES_MAX`] bytes of them, are held here:
//!   [`Sender::has_room`] reports it. Asserted in `submit`.
//! - K5 a command is sent when the multicast has taken its batch. Until then it waits in its lane:
//!   at its deadline it leaves the batch and is never executed. Tests `k5_*`.
//! - K6 where the multicast takes some batches of several lanes, each lane has its turn: the first
//!   one that it refused comes first the next time. By [`Sender::send`].

use super::hash::Partitions;
use super::plan::Map;
use crate::entry::{self, Appended, BatchWriter, COMMAND_BYTES_MAX, Origin, Sequence};
use base::Instant;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The most commands of this process without an answer.
pub const COMMANDS_MAX: usize = 16_384;

/// The approximate most bytes of commands that wait here.
pub const BYTES_MAX: usize = 64 << 20;

/// The longest batch, unless one command alone is longer.
const BATCH_BYTES: usize = 64 << 10;

/// The bytes that a batch needs beside the bytes of one command.
const BATCH_OVERHEAD_BYTES: usize = 64;

/// The longest batch of all: the longest payload that a multicast has to carry.
pub const PAYLOAD_BYTES_MAX: usize = COMMAND_BYTES_MAX + BATCH_OVERHEAD_BYTES;

const _: () = assert!(entry::BATCH_BYTES_MIN <= BATCH_OVERHEAD_BYTES * 2);

/// The end of a command that has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The command was never sent: it is not executed, now or later.
    NotSent,
    /// The command was sent: it was executed, will be, or never is.
    Unknown,
}

/// One command.
#[derive(Debug)]
struct Ticket<A> {
    /// The asker that waits for it until the deadline.
    asker: Option<A>,
    client: u64,
    deadline: Instant,
    lane: Partitions,
    bytes: usize,
    is_sent: bool,
}

#[derive(Debug, Default)]
struct Lane {
    /// The commands that are not sent, in their order.
    waiting: VecDeque<(u64, Box<[u8]>)>,
    /// The batch that was refused, of the first ones that wait (K5). Empty if no batch was.
    batch: Vec<u8>,
    /// The number of commands in `batch`.
    in_batch: usize,
    /// The number of commands in the message that is under way.
    under_way: usize,
}

impl Lane {
    /// Makes a batch of the first commands that wait.
    fn fill(&mut self, me: Origin, stamp_ms: u64) {
        let mut writer = BatchWriter::new();
        writer.begin(stamp_ms, &mut self.batch);
        for (sequence, command) in &self.waiting {
            let bytes = command.len() + BATCH_OVERHEAD_BYTES;
            if self.in_batch > 0 && self.batch.len() + bytes > BATCH_BYTES {
                break;
            }
            let (sequence, bytes_max) = (Sequence(*sequence), BATCH_BYTES.max(bytes));
            let appended = writer.append(me, sequence, command, bytes_max, &mut self.batch);
            assert_eq!(appended, Appended::Whole, "there is room for it");
            self.in_batch += 1;
        }
    }

    /// Drops the batch; its commands still wait.
    fn empty(&mut self) {
        self.batch.clear();
        self.in_batch = 0;
    }
}

/// The commands of one client that have no answer.
#[derive(Debug, Default)]
struct Client {
    /// The commands in lanes.
    out: Vec<(u64, Partitions)>,
    /// The commands that may not go out yet (K2).
    held: VecDeque<(u64, Box<[u8]>)>,
}

/// The commands of one process; see the module's text. `A` names an asker that waits for an answer.
#[derive(Debug)]
pub struct Sender<A> {
    me: Origin,
    map: Map,
    lanes: BTreeMap<Partitions, Lane>,
    /// The lane that is the next one to be sent (K6).
    first_lane: Partitions,
    tickets: BTreeMap<u64, Ticket<A>>,
    clients: BTreeMap<u64, Client>,
    /// The lowest command that an asker may still wait for.
    first_open: u64,
    next: u64,
    /// The last command's deadline; deadlines rise.
    last_deadline: Instant,
    bytes: usize,
    /// The number of sessions opened, which spreads them over the partitions.
    opened: usize,
}

impl<A> Sender<A> {
    /// The sender of the process `me`.
    pub fn new(me: Origin, map: Map) -> Sender<A> {
        Sender {
            me,
            map,
            lanes: BTreeMap::new(),
            first_lane: Partitions::default(),
            tickets: BTreeMap::new(),
            clients: BTreeMap::new(),
            first_open: 1,
            next: 1,
            last_deadline: Instant::ZERO,
            bytes: 0,
            opened: 0,
        }
    }

    /// Whether another command may be submitted (K4).
    pub fn has_room(&self) -> bool {
        self.tickets.len() < COMMANDS_MAX && self.bytes < BYTES_MAX
    }

    /// The number of commands without an answer.
    pub fn len(&self) -> usize {
        self.tickets.len()
    }

    /// Whether every command is answered.
    pub fn is_empty(&self) -> bool {
        self.tickets.is_empty()
    }

    /// Accepts a command of `client`, for which `asker` waits until `deadline`; deadlines rise.
    /// Returns its name among the commands of this process.
    pub fn submit(&mut self, client: u64, asker: A, command: &[u8], deadline: Instant) -> Sequence {
        assert!(self.has_room(), "K4: the owner asks first");
        assert!(deadline >= self.last_deadline, "deadlines rise");
        self.last_deadline = deadline;
        let sequence = self.next;
        self.next += 1;
        let lane = self.map.route(command, &mut self.opened);
        self.bytes += command.len();
        let ticket = Ticket {
            asker: Some(asker),
            client,
            deadline,
            lane,
            bytes: command.len(),
            is_sent: false,
        };
        self.tickets.insert(sequence, ticket);
        self.clients.entry(client).or_default().held.push_back((sequence, command.into()));
        self.let_go(client);
        Sequence(sequence)
    }

    /// Moves the commands that `client` may send into their lanes (K2).
    fn let_go(&mut self, client: u64) {
        let Some(of) = self.clients.get_mut(&client) else { return };
        while let Some((sequence, _)) = of.held.front() {
            let Some(ticket) = self.tickets.get(sequence) else {
                of.held.pop_front(); // it expired here
                continue;
            };
            let lane = ticket.lane;
            if of.out.iter().any(|(_, other)| *other != lane && other.meets(lane)) {
                break;
            }
            if let Some((sequence, command)) = of.held.pop_front() {
                of.out.push((sequence, lane));
                self.lanes.entry(lane).or_default().waiting.push_back((sequence, command));
            }
        }
        if of.out.is_empty() && of.held.is_empty() {
            self.clients.remove(&client);
        }
    }

    /// Hands each batch that may go out to `multicast`, with the partitions that it concerns. A
    /// batch that it refuses, by returning false, is not sent. It is handed to it again the next
    /// time, without the commands that have expired (K5).
    pub fn send(&mut self, stamp_ms: u64, mut multicast: impl FnMut(Partitions, &[u8]) -> bool) {
        let after = self.lanes.range(self.first_lane..).map(|(to, _)| *to);
        let before = self.lanes.range(..self.first_lane).map(|(to, _)| *to);
        let mut refused = None;
        for to in after.chain(before).collect::<Vec<_>>() {
            let Some(lane) = self.lanes.get_mut(&to) else { continue };
            if lane.under_way > 0 || lane.waiting.is_empty() {
                continue;
            }
            if lane.batch.is_empty() {
                lane.fill(self.me, stamp_ms);
            }
            if !multicast(to, &lane.batch) {
                refused = refused.or(Some(to));
                continue;
            }
            for (sequence, command) in lane.waiting.drain(..lane.in_batch) {
                self.bytes -= command.len();
                if let Some(ticket) = self.tickets.get_mut(&sequence) {
                    ticket.is_sent = true;
                }
            }
            lane.under_way = lane.in_batch;
            lane.empty();
        }
        self.first_lane = refused.unwrap_or(self.first_lane);
    }

    /// Whether a batch may go out.
    pub fn wants_to_send(&self) -> bool {
        self.lanes.values().any(|lane| lane.under_way == 0 && !lane.waiting.is_empty())
    }

    /// Records that the command `sequence` was executed, and returns its asker, if there still is
    /// one (K3).
    pub fn answered(&mut self, sequence: Sequence) -> Option<A> {
        let ticket = self.tickets.remove(&sequence.0)?;
        assert!(ticket.is_sent, "K1: what was executed was sent");
        if let Some(lane) = self.lanes.get_mut(&ticket.lane) {
            lane.under_way -= 1;
            if lane.under_way == 0 && lane.waiting.is_empty() {
                self.lanes.remove(&ticket.lane);
            }
        }
        if let Some(client) = self.clients.get_mut(&ticket.client) {
            client.out.retain(|(out, _)| *out != sequence.0);
        }
        self.let_go(ticket.client);
        ticket.asker
    }

    /// Ends all sent commands and returns their askers: the replicas here were replaced by those of
    /// another process, which answers no asker here. Each command was executed, will be, or never
    /// is.
    pub fn abandon(&mut self, mut ended: impl FnMut(A)) {
        let sent = self.tickets.iter().filter(|(_, ticket)| ticket.is_sent);
        let sent: Vec<u64> = sent.map(|(sequence, _)| *sequence).collect();
        for sequence in sent {
            if let Some(asker) = self.answered(Sequence(sequence)) {
                ended(asker);
            }
        }
    }

    /// Ends the commands whose deadline is up to `now`, and returns their askers (K3).
    pub fn expire(&mut self, now: Instant, mut ended: impl FnMut(A, Fate)) {
        let mut gone = Vec::new();
        while let Some((sequence, deadline)) = self.first_open() {
            self.first_open = sequence;
            if deadline > now {
                break;
            }
            let Some(ticket) = self.tickets.get_mut(&sequence) else { break };
            let Some(asker) = ticket.asker.take() else { break };
            if ticket.is_sent {
                // The command stays: its lane, and its client's order, resume when it is executed.
                ended(asker, Fate::Unknown);
            } else {
                ended(asker, Fate::NotSent);
                gone.extend(self.tickets.remove(&sequence));
            }
        }
        if self.first_open().is_none() {
            self.first_open = self.next;
        }
        self.forget(&gone);
    }

    fn first_open(&self) -> Option<(u64, Instant)> {
        let mut open = self.tickets.range(self.first_open..);
        let (sequence, ticket) = open.find(|(_, ticket)| ticket.asker.is_some())?;
        Some((*sequence, ticket.deadline))
    }

    /// Removes commands that were not sent and have no ticket now: each lane and each client is
    /// walked once, however many of its commands end together.
    fn forget(&mut self, gone: &[Ticket<A>]) {
        self.bytes -= gone.iter().map(|ticket| ticket.bytes).sum::<usize>();
        let tickets = &self.tickets;
        for to in gone.iter().map(|ticket| ticket.lane).collect::<BTreeSet<_>>() {
            let Some(lane) = self.lanes.get_mut(&to) else { continue };
            lane.waiting.retain(|(waiting, _)| tickets.contains_key(waiting));
            lane.empty();
            if lane.under_way == 0 && lane.waiting.is_empty() {
                self.lanes.remove(&to);
            }
        }
        let clients: BTreeSet<u64> = gone.iter().map(|ticket| ticket.client).collect();
        for of in clients {
            if let Some(client) = self.clients.get_mut(&of) {
                client.out.retain(|(out, _)| self.tickets.contains_key(out));
                client.held.retain(|(held, _)| self.tickets.contains_key(held));
            }
            self.let_go(of);
        }
    }

    /// The time at which [`Sender::expire`] has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        self.first_open().map(|(_, deadline)| deadline)
    }
}
