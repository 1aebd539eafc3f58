//! The words of memory in which acceptors keep what they have accepted, for judges (`claims`).

use crate::memory::Region;
use base::At;
use proto::LogShape;
use proto::claims::Accepting;

/// See `proto::registry::LogSpec::spoils`.
pub(crate) type Spoils = fn(usize, &LogShape, &[u64], At, &[u64]) -> bool;

/// The words that may show that a value was accepted.
#[derive(Default)]
pub(crate) struct Accepts {
    pub(crate) accepting: Accepting,
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
