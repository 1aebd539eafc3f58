//! Durability: when a node calls a prefix committed, the disks of a majority of its voters hold it,
//! such that a power cut of all members at that moment loses nothing of it.
//!
//! Why no false alarm: a disk holds a prefix if its synced entries, or its snapshot, reach so far
//! and its last entry is the same; a copy that a voter has acknowledged is cut only for a later
//! leader, which cannot be elected without the committed prefix. A disk that the operator has
//! removed counts as it was: losing a minority of disks afterwards is allowed.

use base::{Incarnation, Prefix, Rank};

/// The prefix whose copies were examined, and the prefixes of disks that are gone.
#[derive(Default)]
pub(crate) struct Copies {
    upto: Prefix,
    gone: Vec<(Rank, Incarnation, Prefix)>,
}

impl Copies {
    /// The prefix whose copies were examined.
    pub(crate) fn upto(&self) -> Prefix {
        self.upto
    }

    /// Whether `committed` is new; then it has to be examined, once.
    pub(crate) fn is_news(&mut self, committed: Prefix) -> bool {
        let is_news = committed > self.upto;
        self.upto = self.upto.max(committed);
        is_news
    }

    /// Notes that a disk that held everything below `prefix` is gone.
    pub(crate) fn lost(&mut self, rank: Rank, incarnation: Incarnation, prefix: Prefix) {
        self.gone.push((rank, incarnation, prefix));
    }

    /// The prefix that a disk held that is gone.
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
