//! The names of atomic multicast: processes, groups, messages, and timestamps.

use crate::codec::{self, Varints};
use alloc::vec::Vec;
use base::{Rank, majority};
use core::fmt;

/// The most groups in one system.
pub const MAX_GROUPS: usize = 32;

/// A process group: one partition of the service. Groups are disjoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(alias = "partition")]
pub struct GroupId(u8);

impl GroupId {
    /// The group at `position`, or `None` from [`MAX_GROUPS`] on.
    pub const fn new(position: usize) -> Option<GroupId> {
        if position < MAX_GROUPS { Some(GroupId(position as u8)) } else { None }
    }

    /// The group at `position`.
    ///
    /// # Panics
    /// From [`MAX_GROUPS`] on: for positions that our own code counted.
    #[track_caller]
    pub const fn at(position: usize) -> GroupId {
        match GroupId::new(position) {
            Some(group) => group,
            None => panic!("no such group"),
        }
    }

    /// The index in an array.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// A set of this group alone.
    pub const fn alone(self) -> GroupSet {
        GroupSet(1 << self.0)
    }
}

impl fmt::Debug for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "g{}", self.0)
    }
}

/// A set of groups: a message's destinations.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupSet(u32);

impl GroupSet {
    /// No group.
    pub const EMPTY: GroupSet = GroupSet(0);

    /// The set of the bits that [`GroupSet::bits`] gave.
    pub const fn from_bits(bits: u32) -> GroupSet {
        GroupSet(bits)
    }

    /// The bits, one a group.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The first `n` groups.
    pub fn all(n: usize) -> GroupSet {
        (0..n).map(GroupId::at).collect()
    }

    /// Adds `group`.
    pub fn insert(&mut self, group: GroupId) {
        self.0 |= 1 << group.0;
    }

    /// Whether `group` is there.
    pub const fn contains(self, group: GroupId) -> bool {
        self.0 & (1 << group.0) != 0
    }

    /// The number of groups.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether the set has no group.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether every group here is in `other` too.
    pub const fn is_within(self, other: GroupSet) -> bool {
        self.0 & !other.0 == 0
    }

    /// Whether some group is in both.
    pub const fn meets(self, other: GroupSet) -> bool {
        self.0 & other.0 != 0
    }

    /// The groups that are in either.
    #[must_use]
    pub const fn union(self, other: GroupSet) -> GroupSet {
        GroupSet(self.0 | other.0)
    }

    /// The groups that are in both.
    #[must_use]
    pub const fn intersection(self, other: GroupSet) -> GroupSet {
        GroupSet(self.0 & other.0)
    }

    /// The groups that are not in `other`.
    #[must_use]
    pub const fn difference(self, other: GroupSet) -> GroupSet {
        GroupSet(self.0 & !other.0)
    }

    /// The groups except `group`.
    #[must_use]
    pub const fn without(self, group: GroupId) -> GroupSet {
        GroupSet(self.0 & !(1 << group.0))
    }

    /// The groups in order.
    pub fn iter(self) -> impl Iterator<Item = GroupId> {
        let mut left = self.0;
        core::iter::from_fn(move || {
            let next = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            (next < u32::BITS).then_some(GroupId(next as u8))
        })
    }
}

impl FromIterator<GroupId> for GroupSet {
    fn from_iter<I: IntoIterator<Item = GroupId>>(groups: I) -> GroupSet {
        let mut set = GroupSet::EMPTY;
        groups.into_iter().for_each(|group| set.insert(group));
        set
    }
}

impl fmt::Debug for GroupSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// A process: one member of one group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pid {
    /// Its group.
    pub group: GroupId,
    /// Its rank there.
    pub rank: Rank,
}

impl fmt::Debug for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}{:?}", self.group, self.rank)
    }
}

codec::coded! {
    /// A message's name, unique for ever, and the tie-breaker between equal timestamps.
    #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct MessageId in Varints {
        /// The sender.
        pub sender: u64,
        /// The ordinal of the message at that sender.
        pub sequence: u64,
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m{}.{}", self.sender, self.sequence)
    }
}

/// A logical clock's value. Zero is below every timestamp that a message can get.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Below all others.
    pub const ZERO: Timestamp = Timestamp(0);

    /// The next timestamp.
    #[must_use]
    pub const fn next(self) -> Timestamp {
        let next = self.0.checked_add(1);
        Timestamp(next.expect("T5: nobody asks for the end of time"))
    }

    /// The timestamp before; zero gives zero.
    #[must_use]
    pub const fn before(self) -> Timestamp {
        Timestamp(self.0.saturating_sub(1))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

/// A place in the order: final timestamp, then name.
pub type Place = (Timestamp, MessageId);

/// The number of members of each group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout(Vec<u8>);

impl Layout {
    /// A system of groups with these numbers of members.
    ///
    /// # Panics
    /// Without groups, with more than [`MAX_GROUPS`], or with a group of none or of more than
    /// [`base::MAX_MEMBERS`]: the configuration is checked before it comes here.
    pub fn new(members: &[usize]) -> Layout {
        assert!((1..=MAX_GROUPS).contains(&members.len()), "1 to {MAX_GROUPS} groups");
        assert!(
            members.iter().all(|n| (1..=base::MAX_MEMBERS).contains(n)),
            "each group has 1 to {} members",
            base::MAX_MEMBERS
        );
        Layout(members.iter().map(|n| *n as u8).collect())
    }

    /// The number of groups.
    pub fn n_groups(&self) -> usize {
        self.0.len()
    }

    /// The number of members of `group`; zero if there is no such group.
    pub fn members(&self, group: GroupId) -> usize {
        self.0.get(group.index()).map_or(0, |n| usize::from(*n))
    }

    /// The number of members of `group` that make a quorum.
    pub fn quorum(&self, group: GroupId) -> usize {
        majority(self.members(group))
    }

    /// Every group.
    pub fn groups(&self) -> GroupSet {
        GroupSet::all(self.n_groups())
    }

    /// Whether this process exists.
    pub fn has(&self, pid: Pid) -> bool {
        pid.rank.index() < self.members(pid.group)
    }

    /// Every process of `groups`, in order.
    pub fn processes(&self, groups: GroupSet) -> impl Iterator<Item = Pid> + '_ {
        groups.iter().flat_map(move |group| {
            Rank::all(self.members(group)).map(move |rank| Pid { group, rank })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_groups_is_iterated_in_order() {
        let set: GroupSet = [3, 0, 31].into_iter().map(GroupId::at).collect();
        let order: Vec<usize> = set.iter().map(GroupId::index).collect();
        assert_eq!(order, [0, 3, 31]);
        assert_eq!(set.len(), 3);
        assert!(GroupId::at(3).alone().is_within(set) && !set.is_within(GroupSet::all(31)));
        assert!(set.meets(GroupSet::all(1)) && !set.meets(GroupId::at(4).alone()));
        assert_eq!(GroupSet::all(MAX_GROUPS).len(), MAX_GROUPS);
        assert_eq!(GroupSet::EMPTY.iter().count(), 0);
    }

    #[test]
    fn a_layout_lists_its_processes() {
        let layout = Layout::new(&[1, 3]);
        assert_eq!(layout.processes(layout.groups()).count(), 4);
        assert_eq!(layout.quorum(GroupId::at(1)), 2);
        assert!(!layout.has(Pid { group: GroupId::at(0), rank: Rank::at(1) }));
        assert!(!layout.has(Pid { group: GroupId::at(2), rank: Rank::at(0) }));
    }
}
