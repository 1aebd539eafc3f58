//! The names of the delivered messages, long after everything else about them was forgotten.
//!
//! - S1 A marked name stays marked: [`Seen::contains`] never turns false. By construction: marks
//!   are only ever set, and names that fall out of a sender's window count as marked.
//! - S2 A sender costs [`WINDOW`] bits and one word at most. By construction.
//! - S3 A name less than [`WINDOW`] below the newest marked one of its sender counts as marked only
//!   if it was. By construction: whole words fall out, and one more word is kept than a window has,
//!   since a window seldom begins with a word.

use super::MessageId;
use crate::codec::{Coded, Malformed, Out, Reader, Varints, list, number};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

/// The distance between a sender's sequences, from the oldest that some destination has not
/// delivered to the newest: T3 of [`crate::amcast`]. Older names count as delivered.
pub const WINDOW: u64 = 1 << 16;

const BITS: u64 = u64::BITS as u64;
/// The most words of one sender (S3).
const WORDS: u64 = WINDOW / BITS + 1;

/// The marks of one sender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Marks {
    /// The number of whole words below the first one here, all of them marked.
    n_below: u64,
    words: VecDeque<u64>,
}

/// A set of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    senders: BTreeMap<u64, Marks>,
}

impl Seen {
    /// Whether this message was marked.
    pub fn contains(&self, id: MessageId) -> bool {
        let Some(marks) = self.senders.get(&id.sender) else { return false };
        let Some(word) = (id.sequence / BITS).checked_sub(marks.n_below) else { return true };
        marks.words.get(word as usize).is_some_and(|word| word >> (id.sequence % BITS) & 1 == 1)
    }

    /// Marks it.
    pub fn insert(&mut self, id: MessageId) {
        let word = id.sequence / BITS;
        let marks = self.senders.entry(id.sender).or_insert_with(|| {
            // A sender may begin anywhere: no more than a window's words are kept.
            let n_below = word.saturating_sub(WORDS - 1);
            Marks { n_below, words: VecDeque::new() }
        });
        if word >= marks.n_below + WORDS {
            let n_more = word + 1 - WORDS - marks.n_below;
            marks.words.drain(..marks.words.len().min(n_more as usize));
            marks.n_below += n_more;
        }
        let Some(at) = word.checked_sub(marks.n_below) else { return };
        if marks.words.len() <= at as usize {
            marks.words.resize(at as usize + 1, 0);
        }
        marks.words[at as usize] |= 1 << (id.sequence % BITS);
        while marks.words.front() == Some(&u64::MAX) {
            marks.words.pop_front();
            marks.n_below += 1;
        }
    }
}

impl Coded<'_, Varints> for Seen {
    fn put(&self, out: &mut impl Out) {
        number(self.senders.len() as u64, out);
        for (sender, marks) in &self.senders {
            number(*sender, out);
            number(marks.n_below, out);
            let words: Vec<u64> = marks.words.iter().copied().collect();
            list(&words, out, |word, out| out.extend_from_slice(&word.to_le_bytes()));
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let senders = from.list(|from| {
            let sender = from.number()?;
            let n_below = from.number()?;
            let words = from.list(Reader::word)?;
            Ok((sender, Marks { n_below, words: words.into() }))
        })?;
        Ok(Seen { senders: senders.into_iter().collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amcast::wire::round_trip;
    use alloc::collections::BTreeSet;
    use base::Rng;

    #[test]
    fn s1_a_mark_stays_and_others_are_not_marked() {
        let mut rng = Rng::new(4);
        let (mut seen, mut twin) = (Seen::default(), BTreeSet::new());
        for step in 0..4000u64 {
            let id = MessageId { sender: rng.below(3), sequence: step + rng.below(90) };
            seen.insert(id);
            twin.insert(id);
            let other = MessageId { sender: rng.below(3), sequence: step + rng.below(200) };
            assert!(seen.contains(id));
            assert_eq!(seen.contains(other), twin.contains(&other), "{other:?}");
        }
        assert_eq!(round_trip(&seen), seen);
    }

    /// The window moved by whole words, so that a message up to 63 sequences short of a window
    /// counted as delivered.
    #[test]
    fn s3_no_name_within_a_window_of_the_newest_counts_as_seen() {
        let id = |sequence| MessageId { sender: 1, sequence };
        for old in 0..130 {
            let mut seen = Seen::default();
            (0..old).for_each(|sequence| seen.insert(id(sequence)));
            (old + 1..old + WINDOW).for_each(|sequence| seen.insert(id(sequence)));
            assert!(!seen.contains(id(old)), "{old}");
        }
        // A sender may begin anywhere.
        for old in 5 * WINDOW..5 * WINDOW + 130 {
            let mut seen = Seen::default();
            seen.insert(id(old + WINDOW - 1));
            assert!(!seen.contains(id(old)), "{old}");
        }
    }

    #[test]
    fn s2_a_window_moves_on_and_what_it_leaves_counts_as_seen() {
        let mut seen = Seen::default();
        let id = |sequence| MessageId { sender: 1, sequence };
        for sequence in (0..4 * WINDOW).step_by(2) {
            seen.insert(id(sequence));
            assert!(seen.senders[&1].words.len() as u64 <= WINDOW / BITS + 1);
        }
        assert!(seen.contains(id(5)), "below the window");
        assert!(!seen.contains(id(4 * WINDOW - 3)) && !seen.contains(id(4 * WINDOW + 7)));
        assert_eq!(round_trip(&seen), seen);
    }
}
