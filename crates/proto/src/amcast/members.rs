//! The members of a group: its seats, and the incarnation on each.

use super::Timestamp;
use crate::codec::{self, Varints};
use base::{Ballot, Incarnation, MAX_MEMBERS, MemberSet, Rank, majority};

/// The incarnation of every process that was there when the system began.
pub const FOUNDER: Incarnation = Incarnation(1);

codec::coded! {
    /// The members of one group, as they are from one epoch on.
    ///
    /// A rank is a seat. A process that replaces one that died with its memory is another
    /// incarnation of the seat: its predecessor's words do not count for it, nor the reverse.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Members in Varints {
        /// The epoch that began with them.
        pub since: Ballot,
        /// The clock with which it began: no earlier delivery is above it.
        pub from: Timestamp,
        /// The voters.
        pub voters: MemberSet,
        /// The last incarnation on each seat.
        pub incarnations: [u64; MAX_MEMBERS],
    }
}

impl Members {
    /// The members of a new group of `n`, from its first epoch on.
    pub fn founders(n: usize, since: Ballot) -> Members {
        let mut incarnations = [0; MAX_MEMBERS];
        incarnations[..n].fill(FOUNDER.0);
        Members { since, from: Timestamp::ZERO, voters: MemberSet::all(n), incarnations }
    }

    /// The incarnation on the seat `rank`, or the last one that was there.
    pub const fn incarnation(&self, rank: Rank) -> Incarnation {
        Incarnation(self.incarnations[rank.index()])
    }

    /// Whether this incarnation is a voter.
    pub fn has(&self, rank: Rank, incarnation: Incarnation) -> bool {
        self.voters.contains(rank) && self.incarnation(rank) == incarnation
    }

    /// Whether this incarnation was a member once, and never will be again: no change seats one
    /// that is not above all before it.
    pub fn has_parted(&self, rank: Rank, incarnation: Incarnation) -> bool {
        let last = self.incarnation(rank);
        incarnation < last || incarnation == last && !self.voters.contains(rank)
    }

    /// The number of voters that make a quorum.
    pub const fn quorum(&self) -> usize {
        majority(self.voters.len())
    }

    /// Whether `set` holds a quorum.
    pub const fn has_quorum(&self, set: MemberSet) -> bool {
        set.intersection(self.voters).len() >= self.quorum()
    }

    /// The members without one of them.
    #[must_use]
    pub fn without(mut self, rank: Rank) -> Members {
        self.voters.remove(rank);
        self
    }

    /// The members with one more.
    #[must_use]
    pub fn with(mut self, rank: Rank, incarnation: Incarnation) -> Members {
        self.voters.insert(rank);
        self.incarnations[rank.index()] = incarnation.0;
        self
    }
}

/// The reason why a group does not change its members now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoChange {
    /// Only the group's primary can, and this process is not it.
    NotPrimary,
    /// The seat has no voter.
    NotMember,
    /// A primary does not remove itself: make another one lead first.
    Itself,
    /// The protocol keeps its members.
    NotPossible,
}

impl core::fmt::Display for NoChange {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            NoChange::NotPrimary => "this process does not lead the group: ask the one that does",
            NoChange::NotMember => "nobody votes on that seat",
            NoChange::Itself => "a primary does not remove itself: have another lead first",
            NoChange::NotPossible => "groups of this protocol keep their members: use PrimCast",
        })
    }
}

impl core::error::Error for NoChange {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amcast::wire::round_trip;

    #[test]
    fn a_seat_changes_hands_by_a_removal_and_an_addition() {
        let (seat, next) = (Rank::at(2), Incarnation(2));
        let founders = Members::founders(3, Ballot(1));
        assert!(founders.has(seat, FOUNDER) && !founders.has(seat, next));
        let removed = founders.without(seat);
        assert!(removed.has_parted(seat, FOUNDER) && !removed.has_parted(seat, next));
        assert_eq!((founders.quorum(), removed.quorum()), (2, 2));
        let replaced = removed.with(seat, next);
        assert!(replaced.has(seat, next) && replaced.has_parted(seat, FOUNDER));
        assert_eq!(round_trip(&replaced), replaced);
    }
}
