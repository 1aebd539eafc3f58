//! The regions of the nodes: words that their owner and its peers change.
//!
//! A region outlives its process. Each word remembers its writer, for the check of the
//! single-writer discipline (`checks::single_writer`).

use crate::checks::single_writer::{Change, Trespass, Writers};
use crate::link::in_first_half;
use base::Rank;

/// The words of a run.
const RUN_WORDS: usize = 64;
/// The words from which on a region is sparse: most of a large group's are never written.
const SPARSE_WORDS: usize = 1 << 20;

/// The words of a region.
enum Store {
    Flat(Vec<u64>),
    /// Runs of words; one that is not there is zero.
    Sparse(Vec<Option<Box<[u64; RUN_WORDS]>>>),
}

/// One node's region.
pub(crate) struct Region {
    store: Store,
    n_words: usize,
    /// By run, the number of its changes.
    n_changes: Vec<u32>,
    writers: Writers,
    /// The place from which its owner admits one writer at a time: the words change their writer
    /// with the permission.
    exclusive_from: usize,
}

impl Region {
    pub(crate) fn new(n_words: usize) -> Region {
        Region {
            store: match n_words < SPARSE_WORDS {
                true => Store::Flat(vec![0; n_words]),
                false => Store::Sparse(vec![None; n_words.div_ceil(RUN_WORDS)]),
            },
            n_words,
            n_changes: vec![0; n_words.div_ceil(RUN_WORDS)],
            writers: Writers::new(n_words),
            exclusive_from: usize::MAX,
        }
    }

    #[inline]
    pub(crate) fn load(&self, at: usize) -> u64 {
        match &self.store {
            Store::Flat(words) => words[at],
            Store::Sparse(runs) => {
                runs[at / RUN_WORDS].as_ref().map_or(0, |run| run[at % RUN_WORDS])
            }
        }
    }

    /// The `n_words` at `at`, of a region that is not sparse: those of logs.
    #[inline]
    pub(crate) fn words(&self, at: usize, n_words: usize) -> &[u64] {
        match &self.store {
            Store::Flat(words) => &words[at..at + n_words],
            Store::Sparse(_) => panic!("{} words, of a large group", self.n_words),
        }
    }

    /// Copies the words at `at`.
    #[inline]
    pub(crate) fn load_into(&self, at: usize, words: &mut [u64]) {
        match &self.store {
            Store::Flat(all) => words.copy_from_slice(&all[at..at + words.len()]),
            Store::Sparse(runs) => {
                let (mut at, mut rest) = (at, words);
                while !rest.is_empty() {
                    let (run, first) = (&runs[at / RUN_WORDS], at % RUN_WORDS);
                    let n = rest.len().min(RUN_WORDS - first);
                    let (part, behind) = rest.split_at_mut(n);
                    match run {
                        Some(run) => part.copy_from_slice(&run[first..first + n]),
                        None => part.fill(0),
                    }
                    (at, rest) = (at + n, behind);
                }
            }
        }
    }

    /// The number of changes of the runs in which these words are.
    pub(crate) fn n_changes(&self, at: usize, n_words: usize) -> u64 {
        let runs = at / RUN_WORDS..(at + n_words).div_ceil(RUN_WORDS);
        self.n_changes[runs].iter().map(|n| u64::from(*n)).sum()
    }

    #[inline]
    fn set(&mut self, at: usize, word: u64) {
        self.n_changes[at / RUN_WORDS] += 1;
        match &mut self.store {
            Store::Flat(words) => words[at] = word,
            Store::Sparse(runs) => {
                let run = &mut runs[at / RUN_WORDS];
                if word != 0 || run.is_some() {
                    run.get_or_insert_with(|| Box::new([0; RUN_WORDS]))[at % RUN_WORDS] = word;
                }
            }
        }
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
        self.set(at, word);
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
        let before = self.load(at);
        if before != expected {
            return (before, Ok(()));
        }
        self.set(at, desired);
        (before, self.writers.note(at, Change::Atomic))
    }

    /// Performs an atomic addition and returns the word before.
    pub(crate) fn fetch_add(&mut self, at: usize, add: u64) -> (u64, Result<(), Trespass>) {
        let before = self.load(at);
        self.set(at, before.wrapping_add(add));
        (before, self.writers.note(at, Change::Atomic))
    }

    /// Excludes all writers but one from `from` on.
    pub(crate) fn set_exclusive(&mut self, from: usize) {
        self.exclusive_from = from;
    }

    pub(crate) fn n_words(&self) -> usize {
        self.n_words
    }
}
