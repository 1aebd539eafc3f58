//! Questions of other nodes that are not answered now.
//!
//! A member repeats its question until it is answered (P12). While another node stands still, for
//! instance because it reads a long log, the repetitions arrive there together, and each asks for a
//! part of a log, a state or a message's body. One answer to each would exceed what is kept for the
//! asker, which would be given up for having asked (S3).
//!
//! - R1 A question that this node accepted less than half a patience ago from the same life of the
//!   same node is skipped: its answer is in a stream that loses nothing while both live. An asker
//!   without an answer asks again after a whole patience. Questions of an earlier life do not
//!   count, since their answers are lost: by construction, the life is part of the [`Asker`].
//! - R2 A question of a node that has not taken `backlog_bytes` of its stream is skipped too: it
//!   gets its next long answer when it has taken the others. By `Node::passes_over`
//!   (node/records.rs).
//! - R3 The memory is bounded: with more questions than [`QUESTIONS_MAX`] all are forgotten, and
//!   the next ones are answered.

use base::{Instant, Rank};
use core::time::Duration;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The most questions that are remembered.
const QUESTIONS_MAX: usize = 1 << 16;

/// A node, and its life that asks.
pub(crate) type Asker = (Rank, Option<u64>);

/// The recent questions; see the module's text.
#[derive(Debug)]
pub(crate) struct Repeats {
    /// The time for which a question is remembered.
    within: Duration,
    /// The time at which each question was last accepted, by its asker and a digest of its bytes.
    /// Two questions with one digest are taken for one: the other is asked again.
    asked: BTreeMap<(Asker, u64), Instant>,
}

impl Repeats {
    /// The questions of members that ask again after `patience`.
    pub(crate) fn new(patience: Duration) -> Repeats {
        Repeats { within: patience / 2, asked: BTreeMap::new() }
    }

    /// Whether `from` has just asked the same question (R1). If not, it is noted.
    pub(crate) fn has(&mut self, from: Asker, question: &[u8], now: Instant) -> bool {
        let mut hasher = DefaultHasher::new();
        question.hash(&mut hasher);
        if self.asked.len() >= QUESTIONS_MAX {
            self.asked.clear(); // R3
        }
        match self.asked.insert((from, hasher.finish()), now) {
            Some(before) if now.since(before) < self.within => {
                self.asked.insert((from, hasher.finish()), before);
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Asker = (Rank::at(0), Some(1));
    const A_AGAIN: Asker = (Rank::at(0), Some(2));
    const B: Asker = (Rank::at(1), Some(1));

    #[test]
    fn r1_a_question_is_passed_on_once_in_half_a_patience_and_to_a_new_life() {
        let mut repeats = Repeats::new(Duration::from_millis(200));
        let at = |ms| Instant::ZERO.plus(Duration::from_millis(ms));
        assert!(!repeats.has(A, b"more?", at(1000)));
        assert!(repeats.has(A, b"more?", at(1000)) && repeats.has(A, b"more?", at(1099)));
        assert!(!repeats.has(B, b"more?", at(1000)), "another asks");
        assert!(!repeats.has(A, b"more of that?", at(1000)), "another question");
        assert!(!repeats.has(A, b"more?", at(1100)), "counted from the one that was passed on");
        assert!(!repeats.has(A_AGAIN, b"more?", at(1101)), "its earlier life had the answer");
        assert!(repeats.has(A_AGAIN, b"more?", at(1102)));
    }

    #[test]
    fn r3_what_is_remembered_is_bounded() {
        let mut repeats = Repeats::new(Duration::from_millis(200));
        for n in 0..3 * QUESTIONS_MAX as u64 {
            assert!(!repeats.has(A, &n.to_le_bytes(), Instant::ZERO));
            assert!(repeats.asked.len() <= QUESTIONS_MAX);
        }
    }
}
