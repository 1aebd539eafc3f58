//! Who takes part.

use core::fmt;

/// The most members that one group can have.
///
/// Seven: a slot word's tag has four bits, which name one of two value areas of one of seven
/// proposers, or none (see `proto::velos::word`).
pub const MAX_MEMBERS: usize = 7;

/// A node's identity for life, from 1. Printed in every listing and never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u16);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

/// Counts the lives of one node: a node that lost its memory comes back with a higher one.
///
/// Zero never names a life, so that a zeroed word cannot pass for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u64);

/// A member's position in its view, from 0, below [`MAX_MEMBERS`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(u8);

impl Rank {
    /// The member at `position`, or `None` from [`MAX_MEMBERS`] on.
    pub const fn new(position: usize) -> Option<Rank> {
        if position < MAX_MEMBERS { Some(Rank(position as u8)) } else { None }
    }

    /// The member at `position`.
    ///
    /// # Panics
    /// From [`MAX_MEMBERS`] on: for positions that our own code counted.
    #[track_caller]
    pub const fn at(position: usize) -> Rank {
        match Rank::new(position) {
            Some(rank) => rank,
            None => panic!("no such rank"),
        }
    }

    /// This position as an array index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Every rank of a group of `members`, in order.
    pub fn all(members: usize) -> impl DoubleEndedIterator<Item = Rank> + Clone {
        assert!(members <= MAX_MEMBERS, "{members} members, the most is {MAX_MEMBERS}");
        (0..members as u8).map(Rank)
    }

    /// The rank of a statically configured member: ids start at 1, ranks at 0.
    pub const fn of_member(id: NodeId) -> Option<Rank> {
        if id.0 == 0 { None } else { Rank::new(id.0 as usize - 1) }
    }

    /// The inverse of [`Rank::of_member`].
    pub const fn member(self) -> NodeId {
        NodeId(self.0 as u16 + 1)
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How many of `members` are more than half.
pub const fn majority(members: usize) -> usize {
    members / 2 + 1
}

/// A set of ranks.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct MemberSet(u8);

impl MemberSet {
    /// Nobody.
    pub const EMPTY: MemberSet = MemberSet(0);

    /// Everybody in a group of `members`.
    pub fn all(members: usize) -> MemberSet {
        Rank::all(members).collect()
    }

    /// From the bits that [`MemberSet::bits`] gave; bits that name nobody are dropped.
    pub const fn from_bits(bits: u8) -> MemberSet {
        MemberSet(bits & ((1 << MAX_MEMBERS) - 1))
    }

    /// One bit a rank.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Adds `rank`; true if it was not there.
    pub fn insert(&mut self, rank: Rank) -> bool {
        let before = self.0;
        self.0 |= 1 << rank.0;
        self.0 != before
    }

    /// Takes `rank` out; true if it was there.
    pub fn remove(&mut self, rank: Rank) -> bool {
        let before = self.0;
        self.0 &= !(1 << rank.0);
        self.0 != before
    }

    /// Whether `rank` is there.
    pub const fn contains(self, rank: Rank) -> bool {
        self.0 & (1 << rank.0) != 0
    }

    /// How many.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether nobody is there.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether these are more than half of a group of `members`.
    pub const fn is_majority_of(self, members: usize) -> bool {
        self.len() >= majority(members)
    }

    /// Those in both.
    pub const fn intersection(self, other: MemberSet) -> MemberSet {
        MemberSet(self.0 & other.0)
    }

    /// Those in either.
    pub const fn union(self, other: MemberSet) -> MemberSet {
        MemberSet(self.0 | other.0)
    }

    /// Those here that are not in `other`.
    pub const fn difference(self, other: MemberSet) -> MemberSet {
        MemberSet(self.0 & !other.0)
    }

    /// In order of rank.
    pub fn iter(self) -> impl Iterator<Item = Rank> {
        (0..MAX_MEMBERS as u8).filter(move |at| self.0 & (1 << at) != 0).map(Rank)
    }
}

impl FromIterator<Rank> for MemberSet {
    fn from_iter<I: IntoIterator<Item = Rank>>(ranks: I) -> MemberSet {
        let mut set = MemberSet::EMPTY;
        ranks.into_iter().for_each(|rank| {
            set.insert(rank);
        });
        set
    }
}

impl fmt::Debug for MemberSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_majorities_always_meet() {
        for members in 1..=MAX_MEMBERS {
            assert!(2 * majority(members) > members);
            assert!(majority(members) <= members);
        }
    }

    #[test]
    fn bits_that_name_nobody_are_dropped() {
        assert_eq!(MemberSet::from_bits(0xff), MemberSet::all(MAX_MEMBERS));
    }

    #[test]
    fn member_ids_start_at_one() {
        assert_eq!(Rank::of_member(NodeId(0)), None);
        assert_eq!(Rank::of_member(NodeId(1)), Some(Rank::at(0)));
        assert_eq!(Rank::of_member(NodeId(8)), None);
        assert_eq!(Rank::at(2).member(), NodeId(3));
    }
}
