//! Every word that is not changed by CAS or FETCH-ADD has exactly one writer (decisions: a general
//! invariant).
//!
//! Why it matters: two writers of one word can overwrite each other's record without noticing, and
//! a deposed leader that wakes up is such a second writer. Why no false alarm: the writer is a
//! member, not one of its lives, and zeroing by the region's creation is not a write.
//!
//! - I1 A word belongs to its first writer, or to the atomics; it never changes hands.

use base::Rank;
use std::fmt;

/// The way in which a word was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// By a store of its owner or a WRITE of a peer.
    Written(Rank),
    /// By CAS or FETCH-ADD.
    Atomic,
}

const UNWRITTEN: u16 = 0;
const ATOMIC: u16 = u16::MAX;

/// The words of a run, one bit each.
const RUN_WORDS: usize = 64;

/// The writers of words side by side.
#[derive(Clone, Default)]
struct Run {
    /// The first writer of any of them.
    mark: u16,
    /// The words that it has written, as long as it is the only one.
    written: u64,
    /// The writer of each, once there are several.
    each: Option<Box<[u16; RUN_WORDS]>>,
}

/// The writer of each word of one region. Most runs of words have one writer: the region of a large
/// group is mostly rows.
pub(crate) struct Writers(Vec<Run>);

impl Writers {
    pub(crate) fn new(n_words: usize) -> Writers {
        Writers(vec![Run::default(); n_words.div_ceil(RUN_WORDS)])
    }

    /// Notes a change of the word `at`.
    #[inline]
    pub(crate) fn note(&mut self, at: usize, change: Change) -> Result<(), Trespass> {
        let mark = match change {
            Change::Written(rank) => rank.index() as u16 + 1,
            Change::Atomic => ATOMIC,
        };
        let run = &mut self.0[at / RUN_WORDS];
        if run.mark == mark && run.each.is_none() {
            run.written |= 1 << (at % RUN_WORDS);
            return Ok(());
        }
        run.note(at, mark)
    }
}

impl Run {
    fn note(&mut self, at: usize, mark: u16) -> Result<(), Trespass> {
        if self.mark == UNWRITTEN {
            (self.mark, self.written) = (mark, 1 << (at % RUN_WORDS));
            return Ok(());
        }
        let (first, written) = (self.mark, self.written);
        let of_first = |word| if written >> word & 1 == 1 { first } else { UNWRITTEN };
        let each = self.each.get_or_insert_with(|| Box::new(std::array::from_fn(of_first)));
        let owner = &mut each[at % RUN_WORDS];
        if *owner == UNWRITTEN {
            *owner = mark;
        }
        if *owner == mark { Ok(()) } else { Err(Trespass { at: at as u32, owner: *owner, mark }) }
    }
}

/// A change of a word by another than its writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trespass {
    at: u32,
    owner: u16,
    mark: u16,
}

impl fmt::Display for Trespass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |mark: u16| match mark {
            ATOMIC => "the atomics".to_string(),
            rank => format!("r{}", rank - 1),
        };
        let (owner, by) = (name(self.owner), name(self.mark));
        write!(f, "word {} belongs to {owner} and was changed by {by}", self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i1_a_word_never_changes_hands() {
        let mut writers = Writers::new(3);
        let (a, b) = (Change::Written(Rank::at(0)), Change::Written(Rank::at(1)));
        assert!(writers.note(0, a).is_ok() && writers.note(0, a).is_ok());
        assert!(writers.note(0, b).is_err() && writers.note(0, Change::Atomic).is_err());
        assert!(writers.note(1, b).is_ok(), "each word for itself");
        assert!(writers.note(2, Change::Atomic).is_ok() && writers.note(2, Change::Atomic).is_ok());
        assert!(writers.note(2, a).is_err());
        assert!(writers.note(0, a).is_ok() && writers.note(1, a).is_err(), "as before");
    }
}
