//! The regions of the nodes: words that their owner and its peers change.
//!
//! A region outlives its process. Each word remembers its writer, for the check of the
//! single-writer discipline (`checks::single_writer`).

use crate::checks::single_writer::{Change, Trespass, Writers};
use crate::link::in_first_half;
use base::Rank;

/// One node's region.
pub(crate) struct Region {
    words: Vec<u64>,
    writers: Writers,
    /// The place from which its owner admits one writer at a time: the words change their writer
    /// with the permission.
    exclusive_from: usize,
}

impl Region {
    pub(crate) fn new(n_words: usize) -> Region {
        Region {
            words: vec![0; n_words],
            writers: Writers::new(n_words),
            exclusive_from: usize::MAX,
        }
    }

    #[inline]
    pub(crate) fn load(&self, at: usize) -> u64 {
        self.words[at]
    }

    /// The `n_words` at `at`.
    #[inline]
    pub(crate) fn words(&self, at: usize, n_words: usize) -> &[u64] {
        &self.words[at..at + n_words]
    }

    /// Performs a WRITE by `writer` of those of `words` whose bit in the repeated pattern is set.
    #[inline]
    pub(crate) fn write_some(
        &mut self,
        at: usize,
        words: &[u64],
        pattern: u64,
        writer: Rank,
    ) -> Result<(), Trespass> {
        let mut verdict = Ok(());
        for (index, word) in words.iter().enumerate() {
            if in_first_half(pattern, index) {
                verdict = verdict.and(self.write(at + index, *word, writer));
            }
        }
        verdict
    }

    /// Performs a plain store or WRITE by `writer`; the error names the violator of the discipline.
    #[inline]
    pub(crate) fn write(&mut self, at: usize, word: u64, writer: Rank) -> Result<(), Trespass> {
        self.words[at] = word;
        if at >= self.exclusive_from {
            return Ok(());
        }
        self.writers.note(at, Change::Written(writer))
    }

    /// Performs an atomic change and returns the word before.
    #[inline]
    pub(crate) fn cas(
        &mut self,
        at: usize,
        expected: u64,
        desired: u64,
    ) -> (u64, Result<(), Trespass>) {
        let before = self.words[at];
        if before != expected {
            return (before, Ok(()));
        }
        self.words[at] = desired;
        (before, self.writers.note(at, Change::Atomic))
    }

    /// Performs an atomic addition and returns the word before.
    pub(crate) fn fetch_add(&mut self, at: usize, add: u64) -> (u64, Result<(), Trespass>) {
        let before = self.words[at];
        self.words[at] = before.wrapping_add(add);
        (before, self.writers.note(at, Change::Atomic))
    }

    /// Excludes all writers but one from `from` on.
    pub(crate) fn set_exclusive(&mut self, from: usize) {
        self.exclusive_from = from;
    }

    pub(crate) fn n_words(&self) -> usize {
        self.words.len()
    }
}
