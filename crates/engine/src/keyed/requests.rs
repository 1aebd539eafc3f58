//! Requests that have no answer yet, and the order in which their parts are begun.

use super::registers::Plan;
use crate::service::Asker;
use base::Instant;
use proto::keyed::{Op, Ticket};
use std::collections::{BTreeMap, VecDeque};

/// The most requests at a time.
pub(super) const REQUESTS_MAX: usize = 4096;

/// About the most bytes of them.
const BYTES_MAX: usize = 32 << 20;

/// A ticket has the part's number in its low bits: a request has fewer arguments than this.
const PART_BITS: u32 = 20;

/// One operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Part {
    request: u64,
    pub(super) at: usize,
}

impl Part {
    pub(super) fn of(ticket: Ticket) -> Part {
        Part { request: ticket.0 >> PART_BITS, at: (ticket.0 & ((1 << PART_BITS) - 1)) as usize }
    }

    pub(super) fn ticket(self) -> Ticket {
        Ticket(self.request << PART_BITS | self.at as u64)
    }
}

/// How a part, or a whole request, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    NotDone,
    Unknown,
}

impl Outcome {
    /// Of two parts of one request.
    fn and(self, other: Outcome) -> Outcome {
        if self == other { self } else { Outcome::Unknown }
    }
}

/// One request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) asker: Asker,
    /// Requests of one lane about one key are done one after the other (E2).
    lane: u64,
    pub(super) bytes: Box<[u8]>,
    pub(super) is_write: bool,
    pub(super) replies: Vec<Vec<u8>>,
    /// Of the parts that have ended, together.
    pub(super) outcome: Outcome,
    keys: Vec<Vec<u8>>,
    deadline: Instant,
    n_ended: usize,
    n_answered: usize,
}

/// A part, as a machine is told of it.
#[derive(Debug)]
pub(super) struct Begun {
    key: Vec<u8>,
    is_write: bool,
    pub(super) deadline: Instant,
}

impl Begun {
    pub(super) fn op(&self) -> Op<'_> {
        if self.is_write { Op::Write { key: &self.key } } else { Op::Read { key: &self.key } }
    }
}

/// A lane's parts about one key, in the order in which they came.
type Lanes = BTreeMap<(u64, Vec<u8>), VecDeque<Part>>;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Requests {
    all: BTreeMap<u64, Request>,
    next: u64,
    n_bytes: usize,
    lanes: Lanes,
    /// Parts that are the first in their lane and were not begun.
    ready: VecDeque<Part>,
}

impl Requests {
    pub(super) fn has_room(&self) -> bool {
        self.all.len() < REQUESTS_MAX && self.n_bytes < BYTES_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// A lane that no request has.
    pub(super) fn new_lane(&self) -> u64 {
        self.next
    }

    pub(super) fn take(
        &mut self,
        (asker, lane): (Asker, u64),
        bytes: &[u8],
        plan: Plan,
        deadline: Instant,
    ) {
        let Plan { keys, is_write } = plan;
        assert!(!keys.is_empty() && keys.len() < 1 << PART_BITS, "a request is about some keys");
        let number = self.next;
        self.next += 1;
        self.n_bytes += bytes.len();
        for (at, key) in keys.iter().enumerate() {
            let part = Part { request: number, at };
            let parts = self.lanes.entry((lane, key.clone())).or_default();
            parts.push_back(part);
            if parts.len() == 1 {
                self.ready.push_back(part);
            }
        }
        let request = Request {
            asker,
            lane,
            bytes: bytes.into(),
            is_write,
            replies: vec![Vec::new(); keys.len()],
            outcome: Outcome::Done,
            keys,
            deadline,
            n_ended: 0,
            n_answered: 0,
        };
        self.all.insert(number, request);
    }

    /// The next part whose turn it is; it is begun, or given back by [`Requests::again`].
    pub(super) fn next_part(&mut self) -> Option<Part> {
        self.ready.pop_front()
    }

    pub(super) fn begin(&self, part: Part) -> Option<Begun> {
        let Request { keys, is_write, deadline, .. } = self.all.get(&part.request)?;
        Some(Begun { key: keys[part.at].clone(), is_write: *is_write, deadline: *deadline })
    }

    pub(super) fn again(&mut self, part: Part) {
        self.ready.push_front(part);
    }

    /// Takes out the parts that were not begun by their deadline.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<Part> {
        let Requests { all, ready, .. } = self;
        let is_due = |part: &Part| all.get(&part.request).is_none_or(|of| of.deadline <= now);
        let due = ready.iter().copied().filter(is_due).collect();
        ready.retain(|part| !is_due(part));
        due
    }

    /// Does a part, with what it is to do and room for its answer.
    pub(super) fn perform(
        &mut self,
        part: Part,
        perform: impl FnOnce(&[u8], usize, &mut Vec<u8>) -> bool,
    ) -> bool {
        let Some(request) = self.all.get_mut(&part.request) else { return false };
        let reply = &mut request.replies[part.at];
        reply.clear();
        perform(&request.bytes, part.at, reply)
    }

    /// The mistake of a planted bug: other parts' outcomes count as this one's.
    pub(super) fn forget_outcome(&mut self, part: Part, outcome: Outcome) {
        if let Some(request) = self.all.get_mut(&part.request) {
            request.outcome = outcome;
        }
    }

    /// A part has ended: the next in its lane may begin (E2).
    pub(super) fn end(&mut self, part: Part, outcome: Outcome) {
        let Some(request) = self.all.get_mut(&part.request) else { return };
        request.outcome = if request.n_ended == 0 { outcome } else { request.outcome.and(outcome) };
        request.n_ended += 1;
        let lane = (request.lane, request.keys[part.at].clone());
        let Some(queue) = self.lanes.get_mut(&lane) else { return };
        assert_eq!(queue.pop_front(), Some(part), "E2: the first of its lane ends");
        match queue.front() {
            Some(next) => self.ready.push_back(*next),
            None => drop(self.lanes.remove(&lane)),
        }
    }

    /// The request of a part that has ended, if that was the last one (E1).
    pub(super) fn finish(&mut self, part: Part) -> Option<Request> {
        let request = self.all.get_mut(&part.request)?;
        request.n_answered += 1;
        if request.n_answered < request.keys.len() {
            return None;
        }
        let request = self.all.remove(&part.request)?;
        self.n_bytes -= request.bytes.len();
        Some(request)
    }
}
