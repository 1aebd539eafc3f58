//! The words of memory in which acceptors keep what they have accepted, and those that only rise,
//! for judges (`claims`).

use crate::memory::Region;
use base::At;
use proto::LogShape;
use proto::claims::{Accepting, Rising};

/// See `proto::registry::LogSpec::spoils`.
pub(crate) type Spoils = fn(usize, &LogShape, &[u64], At, &[u64]) -> bool;

/// The words that may show that a value was accepted.
#[derive(Default)]
pub(crate) struct Accepts {
    pub(crate) accepting: Accepting,
    /// The words that the owner of a region never lowers.
    pub(crate) rising: Rising,
    /// Says which WRITEs destroy what was accepted, in a log of this shape.
    pub(crate) spoils: Option<(Spoils, LogShape)>,
    /// The node of each word that has changed, and the index of its entry.
    pub(crate) news: Vec<(usize, u32)>,
}

impl Accepts {
    /// Notes that the word at `at` of the region of `node` has changed.
    #[inline]
    pub(crate) fn note(&mut self, node: usize, at: u32) {
        if let Some(index) = self.accepting.index(at) {
            self.news.push((node, index));
        }
    }

    /// Checks a store of `word` over `before`, by the owner of a region.
    #[inline]
    pub(crate) fn check_risen(&self, at: u32, before: u64, word: u64) -> Result<(), String> {
        if self.rising.contains(&at) && word < before {
            return Err(format!("the word {at} falls from {before} to {word}"));
        }
        Ok(())
    }

    /// Whether a WRITE of `words` destroys something in `region`.
    #[inline]
    pub(crate) fn are_spoilt(
        &self,
        region: &Region,
        members: usize,
        at: At,
        words: &[u64],
    ) -> bool {
        self.spoils.is_some_and(|(spoils, shape)| {
            spoils(members, &shape, region.words(0, region.n_words()), at, words)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_only_rises_is_not_lowered() {
        let accepts = Accepts { rising: 4..6, ..Accepts::default() };
        assert!(accepts.check_risen(4, 7, 7).is_ok() && accepts.check_risen(5, 7, 8).is_ok());
        assert!(accepts.check_risen(5, 7, 6).is_err());
        assert!(accepts.check_risen(6, 7, 6).is_ok(), "another word");
    }
}
