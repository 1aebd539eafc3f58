//! The verbs that one node has posted to one peer and not seen completed.
//!
//! - I1 Verbs of one link take effect in posting order (T2): only the first in the queue ever acts,
//!   and it leaves the queue when all its words have.
//! - I2 Completions of one link come in posting order (T4): one queue, times that never fall.
//! - I3 Nothing is allocated per verb: payloads are in the order of the verbs, in one queue of
//!   words.

use crate::words::Words;
use base::Token;
use std::collections::VecDeque;

/// The effect of a verb.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Write,
    Read,
    Cas {
        expected: u64,
        desired: u64,
    },
    FetchAdd(u64),
    /// A message of this length in bytes.
    Message(u32),
    /// A parcel (`parcels`).
    Parcel,
}

/// A verb on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verb {
    pub(crate) action: Action,
    pub(crate) at: u32,
    /// The words that it moves; for a message those that hold its bytes.
    pub(crate) n_words: u32,
    pub(crate) token: Option<Token>,
    /// The time before which it takes no effect.
    pub(crate) arrives_at: u64,
    /// Whether its bytes are in the memory of its receiver, where that takes time (`costs`).
    pub(crate) is_here: bool,
    /// Its number, if it finds a witness (`checks::witnesses`, I1); otherwise 0.
    pub(crate) witness: u64,
}

impl Verb {
    /// The number of words of its payload.
    pub(crate) fn payload(&self) -> usize {
        match self.action {
            Action::Write | Action::Message(_) | Action::Parcel => self.n_words as usize,
            Action::Read | Action::Cas { .. } | Action::FetchAdd(_) => 0,
        }
    }
}

/// The result of a verb.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Result {
    Written,
    Read(u32),
    Before(u64),
    Refused,
    Unknown,
}

/// A completion on its way back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) token: Token,
    pub(crate) result: Result,
    pub(crate) ready_at: u64,
    /// As that of the verb.
    pub(crate) witness: u64,
}

/// One direction between two nodes, as its poster sees it.
pub(crate) struct Link {
    /// The node that posts.
    pub(crate) from: usize,
    /// The node of the region.
    pub(crate) to: usize,
    pub(crate) verbs: VecDeque<Verb>,
    pub(crate) payload: Words,
    pub(crate) done: VecDeque<Done>,
    pub(crate) done_words: Words,
    /// The words of the first verb, a READ, that were sampled already.
    pub(crate) sample: Vec<u64>,
    /// The words of the first verb that have taken effect: those whose bit in the repeated pattern
    /// is set. `None` before it has begun.
    pub(crate) half: Option<u64>,
    pub(crate) last_arrival: u64,
    pub(crate) last_done: u64,
    /// Whether the poster takes it for connected. If not, the verbs left in `verbs` have no tokens:
    /// they were on their way when the link broke and may still take effect, until the next LinkUp.
    pub(crate) up: bool,
    /// Whether it broke, and its poster has not handled that report yet (T10).
    pub(crate) unheard: bool,
    /// Whether it is back, and is up as soon as its poster has handled the break.
    pub(crate) returning: bool,
    /// The messages that came before the receiver's side of a new connection was up (T7).
    pub(crate) early: Vec<Vec<u8>>,
    /// Whether no queued verb will ever take effect, since the process that would perform it is
    /// gone.
    pub(crate) dead_end: bool,
    /// Whether the poster stopped in the middle of posting.
    pub(crate) frozen: bool,
}

impl Link {
    /// Whether there is room for one more message, of `n_most` verbs and messages on the way, and
    /// of so many messages.
    pub(crate) fn has_room(&self, n_most: usize, n_messages_max: Option<u8>) -> bool {
        let is_message = |verb: &&Verb| matches!(verb.action, Action::Message(_));
        let is_narrow = |n: u8| self.verbs.iter().filter(is_message).count() >= usize::from(n);
        self.verbs.len() < n_most && !n_messages_max.is_some_and(is_narrow)
    }

    pub(crate) fn new(from: usize, to: usize) -> Link {
        Link {
            from,
            to,
            verbs: VecDeque::new(),
            payload: Words::default(),
            done: VecDeque::new(),
            done_words: Words::default(),
            sample: Vec::new(),
            half: None,
            last_arrival: 0,
            last_done: 0,
            up: true,
            unheard: false,
            returning: false,
            early: Vec::new(),
            dead_end: false,
            frozen: false,
        }
    }

    /// Whether there is a connection, whatever its poster knows of it.
    pub(crate) fn is_connected(&self) -> bool {
        self.up || self.returning
    }

    /// Resets the poster's side for a new process, which has heard of nothing: what the one before
    /// it sent on another connection than the peer's next one never comes (T7).
    pub(crate) fn renew(&mut self) {
        self.clear();
        self.early.clear();
        (self.up, self.unheard, self.returning) = (false, false, false);
    }

    /// Forgets everything that is on its way, in both directions.
    pub(crate) fn clear(&mut self) {
        self.verbs.clear();
        self.payload.clear();
        self.done.clear();
        self.done_words.clear();
        self.sample.clear();
        self.half = None;
        self.dead_end = false;
    }

    /// Limits the verbs that may still take effect to the first `n`, without any report to their
    /// poster. Their completions are dropped too.
    pub(crate) fn orphan(&mut self, n: usize) {
        self.lose_behind(n);
        self.done.clear();
        self.done_words.clear();
    }

    /// The same, but for completions that are on their way: a verb that was posted while the link
    /// was down has one, and completes once (T4), whatever becomes of the link.
    pub(crate) fn lose_behind(&mut self, n: usize) {
        self.verbs.truncate(n);
        let payload = self.verbs.iter().map(Verb::payload).sum();
        self.payload.truncate(payload);
        self.verbs.iter_mut().for_each(|verb| verb.token = None);
        if self.verbs.is_empty() {
            self.half = None;
            self.sample.clear();
        }
    }

    /// Makes everything on its way arrive by `latest`.
    pub(crate) fn hurry(&mut self, latest: u64) {
        self.verbs.iter_mut().for_each(|verb| verb.arrives_at = verb.arrives_at.min(latest));
        self.done.iter_mut().for_each(|done| done.ready_at = done.ready_at.min(latest));
        self.last_arrival = self.last_arrival.min(latest);
        self.last_done = self.last_done.min(latest);
    }

    /// Takes the first verb and its payload out.
    pub(crate) fn pop(&mut self) {
        if let Some(verb) = self.verbs.pop_front() {
            self.payload.take(verb.payload());
        }
        self.half = None;
        self.sample.clear();
    }
}

/// Whether the word at `index` belongs to the first half that a torn verb touches.
pub(crate) fn in_first_half(pattern: u64, index: usize) -> bool {
    pattern >> (index % 64) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i1_an_orphaned_link_keeps_a_prefix_and_its_payload() {
        let mut link = Link::new(0, 1);
        for n in 1..=4u32 {
            let payload: Vec<u64> = (0..n).map(|word| u64::from(n * 10 + word)).collect();
            link.payload.push(&payload);
            link.verbs.push_back(Verb {
                action: Action::Write,
                at: n,
                n_words: n,
                token: Some(Token(u64::from(n))),
                arrives_at: 0,
                is_here: false,
                witness: 0,
            });
        }
        link.orphan(2);
        assert_eq!(link.payload.first(3), [10, 20, 21]);
        assert!(link.verbs.iter().all(|verb| verb.token.is_none()));
        link.pop();
        assert_eq!(link.payload.first(2), [20, 21]);
        link.done.push_back(Done {
            token: Token(9),
            result: Result::Unknown,
            ready_at: 5,
            witness: 0,
        });
        link.lose_behind(0);
        assert_eq!(link.done.len(), 1, "T4: what was posted while it was down completes");
        link.orphan(0);
        assert!(link.verbs.is_empty() && link.done.is_empty());
        link.payload.push(&[7]);
        assert_eq!(link.payload.first(1), [7], "the others' payload is gone");
    }
}
