//! The identities of members.

use core::fmt;

/// The most members that one group can have.
///
/// Seven: a slot word's tag has four bits, which name one of two value areas of one of seven
/// proposers, or none (see `proto::velos::word`).
pub const MAX_MEMBERS: usize = 7;

/// The most seats of a group that has views, and of a fabric of the simulator.
pub const SEATS_MAX: usize = 512;

/// The most seats of a fabric that ships. A group whose size no slot word bounds may take all.
pub const FABRIC_SEATS_MAX: usize = 32;

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

impl Incarnation {
    /// That of a new cluster's members.
    pub const FIRST: Incarnation = Incarnation(1);
}

/// A member's position in its view, from 0, below [`MAX_MEMBERS`]; in a group of views, its seat,
/// below [`SEATS_MAX`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(u16);

impl Rank {
    /// The member at `position`, or `None` from [`MAX_MEMBERS`] on.
    pub const fn new(position: usize) -> Option<Rank> {
        if position < MAX_MEMBERS { Some(Rank(position as u16)) } else { None }
    }

    /// The member at `position`.
    ///
    /// # Panics
    /// From [`SEATS_MAX`] on: for positions that our own code counted.
    #[track_caller]
    pub const fn at(position: usize) -> Rank {
        match Rank::seat(position) {
            Some(rank) => rank,
            None => panic!("no such rank"),
        }
    }

    /// The seat at `position`, or `None` from [`SEATS_MAX`] on.
    pub const fn seat(position: usize) -> Option<Rank> {
        if position < SEATS_MAX { Some(Rank(position as u16)) } else { None }
    }

    /// The seat at `position` of a fabric that ships, or `None` from [`FABRIC_SEATS_MAX`] on.
    pub const fn on_fabric(position: usize) -> Option<Rank> {
        if position < FABRIC_SEATS_MAX { Some(Rank(position as u16)) } else { None }
    }

    /// The seat of a fabric with this number: people count seats from 1. `None` for 0, and above
    /// [`FABRIC_SEATS_MAX`].
    pub const fn numbered(number: usize) -> Option<Rank> {
        match number.checked_sub(1) {
            Some(position) => Rank::on_fabric(position),
            None => None,
        }
    }

    /// This position as an array index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Every rank of a group of `members`, in order.
    pub fn all(members: usize) -> impl DoubleEndedIterator<Item = Rank> + Clone {
        assert!(members <= SEATS_MAX, "{members} members, the most is {SEATS_MAX}");
        (0..members as u16).map(Rank)
    }

    /// The rank of a statically configured member: ids start at 1, ranks at 0.
    pub const fn of_member(id: NodeId) -> Option<Rank> {
        if id.0 == 0 { None } else { Rank::new(id.0 as usize - 1) }
    }

    /// The inverse of [`Rank::of_member`].
    pub const fn member(self) -> NodeId {
        NodeId(self.0 + 1)
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
    /// The empty set.
    pub const EMPTY: MemberSet = MemberSet(0);

    /// All members of a group of `members`.
    pub const fn all(members: usize) -> MemberSet {
        assert!(members <= MAX_MEMBERS, "more members than there may be");
        MemberSet(((1u16 << members) - 1) as u8)
    }

    /// The set with the bits that [`MemberSet::bits`] gave; bits that name no member are dropped.
    pub const fn from_bits(bits: u8) -> MemberSet {
        MemberSet(bits & ((1 << MAX_MEMBERS) - 1))
    }

    /// One bit per rank.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Adds `rank`; true if it was not in the set.
    ///
    /// # Panics
    /// If it is a seat that no log's member has.
    pub fn insert(&mut self, rank: Rank) -> bool {
        assert!(rank.index() < MAX_MEMBERS, "{rank} is no member's: use a SeatSet");
        let before = self.0;
        self.0 |= 1 << rank.0;
        self.0 != before
    }

    /// Removes `rank`; true if it was in the set.
    pub fn remove(&mut self, rank: Rank) -> bool {
        let before = self.0;
        self.0 &= !(1 << rank.0);
        self.0 != before
    }

    /// Whether the set contains `rank`.
    pub const fn contains(self, rank: Rank) -> bool {
        self.0 & (1 << rank.0) != 0
    }

    /// The number of members.
    pub const fn len(self) -> usize {
        SIZES[self.0 as usize] as usize
    }

    /// Whether the set is empty.
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
    pub const fn iter(self) -> Ranks {
        Ranks(self.0)
    }
}

/// How many bits a byte has: a processor that every x86-64 program runs on must count them.
const SIZES: [u8; 256] = {
    let mut sizes = [0; 256];
    let mut bits = 0;
    while bits < 256 {
        sizes[bits] = (bits as u8).count_ones() as u8;
        bits += 1;
    }
    sizes
};

/// The ranks of a [`MemberSet`], in order.
#[derive(Clone, Debug)]
pub struct Ranks(u8);

impl Iterator for Ranks {
    type Item = Rank;

    #[inline]
    fn next(&mut self) -> Option<Rank> {
        if self.0 == 0 {
            return None;
        }
        let rank = Rank(self.0.trailing_zeros() as u16);
        self.0 &= self.0 - 1;
        Some(rank)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = MemberSet(self.0).len();
        (len, Some(len))
    }
}

impl ExactSizeIterator for Ranks {}

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
    fn a_set_has_the_ranks_that_were_put_into_it_in_order() {
        for bits in 0..1 << MAX_MEMBERS {
            let set = MemberSet::from_bits(bits);
            assert!(set.iter().is_sorted() && set.iter().all(|rank| set.contains(rank)));
            assert_eq!((set.iter().len(), set.iter().count()), (set.len(), set.len()));
            assert_eq!(set.iter().collect::<MemberSet>(), set);
        }
        assert_eq!(MemberSet::all(3).bits(), 0b111);
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
        assert_eq!(Rank::numbered(0), None);
        assert_eq!(Rank::numbered(FABRIC_SEATS_MAX), Some(Rank::at(FABRIC_SEATS_MAX - 1)));
        assert_eq!(Rank::numbered(FABRIC_SEATS_MAX + 1), None);
        assert!(Rank::seat(SEATS_MAX - 1).is_some() && Rank::seat(SEATS_MAX).is_none());
        assert_eq!(Rank::at(2).member(), NodeId(3));
    }
}
