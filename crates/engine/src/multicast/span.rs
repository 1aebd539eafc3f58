//! The bound by which a node's messages may run ahead of its oldest one that some destination has
//! not delivered: the machines' T3, which bounds what they remember of a sender.
//!
//! - W1 Fewer than [`WINDOW`] sequences lie between the oldest own message that some destination is
//!   not known to have delivered and the newest one. The outcome that the sender was told of the
//!   old one does not matter: an unknown outcome may still become a delivery. By [`Span::is_full`],
//!   which `Desk::multicast` checks first; asserted in [`Span::issue`].
//! - W2 A destination has delivered a message as soon as one of its members has, for good. Every
//!   later message comes later in the group's order, at each member (uniform prefix order). Where
//!   messages commute, a later one may come earlier at another member, but not by a window: the
//!   machine holds it back (PrimCast's P25). By `Node::deliver`, and by asking
//!   ([`Span::next_to_ask`]).
//!
//! Deliveries here are noted directly. About groups without a member here, and about messages that
//! a state included, the node asks when many messages have accumulated.

use base::Instant;
use core::time::Duration;
use proto::amcast::{GroupId, GroupSet, WINDOW};
use std::collections::VecDeque;

/// The number of sequences in the span from which it is worth asking.
const ASK_FROM: usize = WINDOW as usize / 8;

/// The most messages that one question names.
pub(crate) const ASKED_MAX: usize = 512;

/// The time after which a question without an answer is repeated.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// The reason for a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// The outcome of some message is unknown, and its sender was told so.
    NothingKnown,
    /// Many messages may have accumulated.
    Many,
}

/// The span of a node's messages; see the module's text.
#[derive(Debug)]
pub(crate) struct Span {
    /// The sequence of the first of `left`.
    first: u64,
    /// The destinations that are not known to have delivered each message, by sequence.
    left: VecDeque<GroupSet>,
    ask_at: Instant,
}

impl Span {
    /// A span whose first message will have this sequence.
    pub(crate) const fn new(first: u64) -> Span {
        Span { first, left: VecDeque::new(), ask_at: Instant::ZERO }
    }

    /// Whether another message would break W1.
    pub(crate) fn is_full(&self) -> bool {
        self.left.len() as u64 >= WINDOW - 1
    }

    /// The destinations that have not delivered the oldest message.
    pub(crate) fn waits_for(&self) -> GroupSet {
        self.left.front().copied().unwrap_or_default()
    }

    /// Notes that the next message goes out.
    pub(crate) fn issue(&mut self, sequence: u64, dest: GroupSet) {
        assert_eq!(sequence, self.first + self.left.len() as u64, "sequences have no gaps");
        assert!(sequence - self.first < WINDOW, "W1: {sequence} is issued, {} waits", self.first);
        self.left.push_back(dest);
    }

    /// Notes that a member of `group` has delivered it (W2).
    pub(crate) fn delivered(&mut self, sequence: u64, group: GroupId) {
        let at = sequence.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        if let Some(left) = at.and_then(|at| self.left.get_mut(at)) {
            *left = left.without(group);
        }
        while self.left.pop_front_if(|left| left.is_empty()).is_some() {
            self.first += 1;
        }
    }

    /// The oldest messages to ask about now, with the destinations that are not known to have
    /// delivered them.
    pub(crate) fn next_to_ask(&mut self, now: Instant, urges: Urgency) -> Vec<(u64, GroupSet)> {
        let from = if urges == Urgency::NothingKnown { 1 } else { ASK_FROM };
        if self.left.len() < from || now < self.ask_at {
            return Vec::new();
        }
        self.ask_at = now.plus(ASK_EVERY);
        let left = (self.first..).zip(self.left.iter().copied());
        left.filter(|(_, left)| !left.is_empty()).take(ASKED_MAX).collect()
    }

    /// Notes that an answer has come: more may be asked at once.
    pub(crate) fn ask_more(&mut self, now: Instant) {
        self.ask_at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w1_the_oldest_message_that_a_destination_lacks_bounds_the_span() {
        let (near, far) = (GroupId::at(0), GroupId::at(1));
        let mut span = Span::new(1);
        span.issue(1, GroupSet::all(2));
        for sequence in 2..WINDOW {
            assert!(!span.is_full());
            span.issue(sequence, near.alone());
            span.delivered(sequence, near);
        }
        span.delivered(1, near);
        assert!(span.is_full(), "the other destination may still deliver it");
        assert_eq!(span.waits_for(), far.alone());
        assert_eq!(span.next_to_ask(Instant::ZERO, Urgency::Many), [(1, far.alone())]);
        assert_eq!(span.next_to_ask(Instant::ZERO, Urgency::Many), [], "an answer takes its time");
        span.delivered(1, far);
        assert!(!span.is_full() && span.waits_for().is_empty());
        span.issue(WINDOW, far.alone());
        span.delivered(5, far);
        assert_eq!(span.waits_for(), far.alone(), "what is settled stays so");
    }
}
