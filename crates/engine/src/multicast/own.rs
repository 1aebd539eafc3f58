//! The messages that a node has multicast and that are under way, and how each ends.
//!
//! - D1 Every message gets exactly one outcome: delivered, or unknown at its deadline. By
//!   [`Own::complete`] and [`Own::sweep`], which both remove it.
//! - D3 The messages that no destination is known to have delivered, those of unknown outcome among
//!   them, are bounded in bytes as well: they are sent again, all at once, to each node that comes
//!   back. By [`Own::too_long`], which `Desk::multicast` checks first. One message is always let
//!   through.

use crate::multicast::span::{Span, Urgency};
use base::Instant;
use core::time::Duration;
use proto::amcast::{Footprint, GroupId, GroupSet, Message, MessageId, Timestamp};
use std::collections::VecDeque;
use std::sync::Arc;

/// The interval at which deadlines are checked: an outcome becomes unknown at most this much late.
pub(crate) const SWEEP_EVERY: Duration = Duration::from_millis(5);

/// The bytes of a message beside its payload: its name and its like, and what members say of it.
const BESIDE_BYTES: usize = 64;

/// The options of a multicast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// A timestamp that the final one must exceed (4.4.2): the highest that its sender has seen.
    pub after: Timestamp,
    /// The keys that the message touches: where [`proto::amcast::Config::commutes`] is set it may
    /// overtake, and be overtaken by, messages that touch other keys.
    pub footprint: Footprint,
    /// The time after which its outcome is reported as unknown.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            after: Timestamp::ZERO,
            footprint: Footprint::ALL,
            patience: Duration::from_secs(10),
        }
    }
}

/// The outcome of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was delivered at a destination, at this final timestamp: therefore every correct member
    /// of every destination delivers it.
    Delivered(Timestamp),
    /// Its deadline came first. It may still be delivered, everywhere, or never be.
    Unknown,
}

#[derive(Clone, Debug)]
struct Open {
    /// The deadline of the outcome; `None` once it was reported as unknown.
    deadline: Option<Instant>,
    message: Arc<Message>,
}

/// The messages of the module's text.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) sender: u64,
    window: usize,
    /// The bound of D3.
    bytes_max: usize,
    /// The bytes of the messages in `open`.
    n_bytes: usize,
    /// The messages that were not sent to any destination yet.
    pub(crate) started: Vec<Arc<Message>>,
    /// The outcomes that were not told yet.
    pub(crate) outcomes: Vec<(MessageId, Outcome)>,
    /// The messages by sequence, from `first` on. Delivered messages leave a hole, and so do
    /// messages of unknown outcome where each name is remembered.
    open: VecDeque<Option<Open>>,
    n_open: usize,
    /// The number of messages of unknown outcome that may still have to be sent again.
    n_unknown: usize,
    first: u64,
    next_sweep_at: Instant,
    /// The bound on running ahead; `None` where the protocol remembers each name.
    pub(crate) span: Option<Span>,
}

impl Own {
    pub(crate) fn new(sender: u64, (window, bytes_max): (usize, usize)) -> Own {
        Own {
            sender,
            window,
            bytes_max,
            n_bytes: 0,
            started: Vec::new(),
            outcomes: Vec::new(),
            open: VecDeque::new(),
            n_open: 0,
            n_unknown: 0,
            first: 1,
            next_sweep_at: Instant::ZERO,
            span: Some(Span::new(1)),
        }
    }

    /// The number of messages without an outcome.
    pub(crate) const fn n_open(&self) -> usize {
        self.n_open
    }

    /// The most messages that may be under way, if as many are.
    pub(crate) fn full_window(&self) -> Option<usize> {
        (self.n_open + self.n_unknown >= self.window).then_some(self.window)
    }

    /// The bytes that are under way, if a message with such a payload is too long to join them
    /// (D3), and the destinations of the oldest one.
    pub(crate) fn too_long(&self, payload_bytes: usize) -> Option<(usize, GroupSet)> {
        let is_too_long = self.n_bytes + payload_bytes + BESIDE_BYTES > self.bytes_max;
        let oldest = self.open().next().filter(|_| is_too_long)?;
        Some((self.n_bytes, oldest.dest))
    }

    /// The destinations that have not delivered the oldest message, if another one would run too
    /// far ahead of it (W1 of the span).
    pub(crate) fn too_far_ahead_of(&self) -> Option<GroupSet> {
        self.span.as_ref().filter(|span| span.is_full()).map(Span::waits_for)
    }

    /// Starts a message.
    pub(crate) fn start(
        &mut self,
        dest: GroupSet,
        payload: Arc<[u8]>,
        options: &Options,
        now: Instant,
    ) -> MessageId {
        let sequence = self.first + self.open.len() as u64;
        let id = MessageId { sender: self.sender, sequence };
        let Options { after, footprint, .. } = *options;
        let message = Arc::new(Message { id, dest, after, footprint, payload });
        let deadline = Some(now.plus(options.patience));
        self.n_bytes += message.payload.len() + BESIDE_BYTES;
        self.open.push_back(Some(Open { deadline, message: message.clone() }));
        self.n_open += 1;
        if let Some(span) = &mut self.span {
            span.issue(sequence, dest);
        }
        self.started.push(message);
        id
    }

    /// Notes that a message was delivered, which ends it if it is one of these (D1).
    pub(crate) fn complete(&mut self, id: MessageId, at: Timestamp) {
        if id.sender == self.sender && self.take(id.sequence) {
            self.outcomes.push((id, Outcome::Delivered(at)));
        }
    }

    /// Notes that a member of `group` has delivered these messages, if they are this node's (W2).
    /// If the outcome of one is unknown, it need not be sent again.
    pub(crate) fn settle(&mut self, sender: u64, sequences: &[u64], group: GroupId) {
        let Some(span) = self.span.as_mut().filter(|_| sender == self.sender) else { return };
        sequences.iter().for_each(|sequence| span.delivered(*sequence, group));
        for sequence in sequences {
            let slot = self.slot(*sequence);
            if slot.is_some_and(|slot| slot.as_ref().is_some_and(|open| open.deadline.is_none())) {
                self.take(*sequence);
            }
        }
    }

    /// The own messages to ask others about: many have followed the oldest, or an outcome is
    /// unknown.
    pub(crate) fn next_to_ask(&mut self, now: Instant) -> Vec<(u64, GroupSet)> {
        let urges = if self.n_unknown > 0 { Urgency::NothingKnown } else { Urgency::Many };
        self.span.as_mut().map_or_else(Vec::new, |span| span.next_to_ask(now, urges))
    }

    fn slot(&mut self, sequence: u64) -> Option<&mut Option<Open>> {
        let at = usize::try_from(sequence.checked_sub(self.first)?).ok()?;
        self.open.get_mut(at)
    }

    /// Removes a message. True if it had no outcome.
    fn take(&mut self, sequence: u64) -> bool {
        let Some(open) = self.slot(sequence).and_then(Option::take) else { return false };
        let was_open = open.deadline.is_some();
        self.n_bytes -= open.message.payload.len() + BESIDE_BYTES;
        match was_open {
            true => self.n_open -= 1,
            false => self.n_unknown -= 1,
        }
        while self.open.front().is_some_and(Option::is_none) {
            self.open.pop_front();
            self.first += 1;
        }
        was_open
    }

    /// Ends the messages whose deadline has passed (D1).
    pub(crate) fn sweep(&mut self, now: Instant) {
        if self.n_open == 0 || now < self.next_sweep_at {
            return;
        }
        self.next_sweep_at = now.plus(SWEEP_EVERY);
        let is_late = |open: &Open| open.deadline.is_some_and(|at| at <= now);
        let late: Vec<u64> = (self.first..)
            .zip(&self.open)
            .filter(|(_, open)| open.as_ref().is_some_and(is_late))
            .map(|(sequence, _)| sequence)
            .collect();
        for sequence in late {
            self.give_up(sequence);
            let id = MessageId { sender: self.sender, sequence };
            self.outcomes.push((id, Outcome::Unknown));
        }
    }

    /// Reports a message as unknown. Where W1 waits for it, it is still sent to nodes that come
    /// back: otherwise it might never be delivered, and block all later ones for good.
    fn give_up(&mut self, sequence: u64) {
        if self.span.is_none() {
            self.take(sequence);
        } else if let Some(open) = self.slot(sequence).and_then(Option::as_mut) {
            open.deadline = None;
            self.n_open -= 1;
            self.n_unknown += 1;
        }
    }

    /// The own messages that were delivered nowhere, as far as is known.
    pub(crate) fn open(&self) -> impl Iterator<Item = &Arc<Message>> {
        self.open.iter().flatten().map(|open| &open.message)
    }

    /// The time at which [`Own::sweep`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let first = self.open.iter().flatten().filter_map(|open| open.deadline).min();
        first.map(|at| at.max(self.next_sweep_at))
    }
}
