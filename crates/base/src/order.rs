//! Where in the replicated order, and by what right.

use crate::{MAX_MEMBERS, Rank};
use core::fmt;

/// An ordinal in the replicated order, from 0.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u64);

impl Slot {
    /// The first slot.
    pub const ZERO: Slot = Slot(0);

    /// The slot after this one.
    #[must_use]
    pub const fn next(self) -> Slot {
        Slot(self.0 + 1)
    }

    /// The slot `n` further on.
    #[must_use]
    pub const fn plus(self, n: u64) -> Slot {
        Slot(self.0 + n)
    }

    /// Everything before this slot.
    pub const fn prefix_before(self) -> Prefix {
        Prefix(self.0)
    }

    /// Everything up to and with this slot.
    pub const fn prefix_through(self) -> Prefix {
        Prefix(self.0 + 1)
    }
}

/// A count of slots: every slot below it, and none other.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(pub u64);

impl Prefix {
    /// Nothing yet.
    pub const ZERO: Prefix = Prefix(0);

    /// Whether `slot` is in it.
    pub const fn contains(self, slot: Slot) -> bool {
        slot.0 < self.0
    }

    /// The first slot that is not in it.
    pub const fn next_slot(self) -> Slot {
        Slot(self.0)
    }

    /// How many slots this one has more than `shorter`; 0 if it has fewer.
    pub const fn ahead_of(self, shorter: Prefix) -> u64 {
        self.0.saturating_sub(shorter.0)
    }
}

/// The right to propose: unique to one proposer, and ordered. The papers' proposal number.
///
/// Its low bits name the proposer (its ballots are [`Ballot::STRIDE`] apart, whatever the group's
/// size, so that a change of members never makes two proposers share one). Zero belongs to no
/// proposer.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(alias = "proposal number")]
#[doc(alias = "term")]
pub struct Ballot(pub u64);

impl Ballot {
    /// The ballot of no proposer, below every other.
    pub const NONE: Ballot = Ballot(0);

    /// The distance between two ballots of one proposer.
    pub const STRIDE: u64 = MAX_MEMBERS as u64 + 1;

    /// The smallest ballot of `proposer` that is above `floor`.
    #[must_use]
    pub const fn above(floor: Ballot, proposer: Rank) -> Ballot {
        let own = proposer.index() as u64 + 1;
        let round = floor.0 / Self::STRIDE;
        let candidate = round * Self::STRIDE + own;
        if candidate > floor.0 { Ballot(candidate) } else { Ballot(candidate + Self::STRIDE) }
    }

    /// Whose it is, or `None` for [`Ballot::NONE`] and for numbers that no proposer makes.
    pub const fn proposer(self) -> Option<Rank> {
        match self.0 % Self::STRIDE {
            0 => None,
            own => Rank::new(own as usize - 1),
        }
    }
}

macro_rules! debug_as_number {
    ($($name:ident $letter:literal),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($letter, "{}"), self.0)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    )*};
}
debug_as_number!(Slot "s", Prefix "<", Ballot "b");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ballots_are_unique_and_above_their_floor() {
        for floor in 0..100 {
            for rank in Rank::all(MAX_MEMBERS) {
                let ballot = Ballot::above(Ballot(floor), rank);
                assert!(ballot.0 > floor && ballot.0 <= floor + Ballot::STRIDE);
                assert_eq!(ballot.proposer(), Some(rank));
            }
        }
        assert_eq!(Ballot::NONE.proposer(), None);
    }

    #[test]
    fn a_prefix_holds_the_slots_below_it() {
        let prefix = Slot(4).prefix_through();
        assert!(prefix.contains(Slot(4)) && !prefix.contains(prefix.next_slot()));
        assert_eq!(Slot(4).prefix_before().next_slot(), Slot(4));
        assert_eq!(Prefix(3).ahead_of(Prefix(9)), 0);
    }
}
