//! Durability: when a node calls a prefix committed, the disks of a majority of its voters hold it,
//! such that a power cut of everybody in that moment loses nothing of it.
//!
//! Why no false alarm: a disk holds a prefix if what was reported as synced there, or its snapshot,
//! reaches so far and its last entry is the same; a copy that a voter has acknowledged is cut only
//! for a later leader, who cannot be elected without what is committed. A disk that the operator
//! has taken away counts as it was: losing a minority of disks afterwards is allowed.

use base::{Incarnation, Prefix, Rank};

/// How far commits were looked at, and what disks that are gone held.
#[derive(Default)]
pub(crate) struct Copies {
    upto: Prefix,
    gone: Vec<(Rank, Incarnation, Prefix)>,
}

impl Copies {
    /// How far commits were looked at.
    pub(crate) fn upto(&self) -> Prefix {
        self.upto
    }

    /// Whether `committed` is news; then it has to be looked at, once.
    pub(crate) fn is_news(&mut self, committed: Prefix) -> bool {
        let is_news = committed > self.upto;
        self.upto = self.upto.max(committed);
        is_news
    }

    /// A disk that held everything below `prefix` is no more.
    pub(crate) fn lost(&mut self, rank: Rank, incarnation: Incarnation, prefix: Prefix) {
        self.gone.push((rank, incarnation, prefix));
    }

    /// What a disk that is gone held everything below.
    pub(crate) fn once_held(&self, rank: Rank, incarnation: Incarnation) -> Prefix {
        let is_it = |gone: &&(Rank, Incarnation, Prefix)| gone.0 == rank && gone.1 == incarnation;
        self.gone.iter().find(is_it).map_or(Prefix::ZERO, |gone| gone.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_looked_at_once_and_what_is_gone_counts_as_it_was() {
        let mut copies = Copies::default();
        assert!(copies.is_news(Prefix(3)) && !copies.is_news(Prefix(3)));
        copies.lost(Rank::at(1), Incarnation(1), Prefix(3));
        assert_eq!(copies.once_held(Rank::at(1), Incarnation(1)), Prefix(3));
        assert_eq!(copies.once_held(Rank::at(1), Incarnation(2)), Prefix::ZERO);
    }
}
