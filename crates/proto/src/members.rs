//! The members of a replicated log, as an entry of the log names them, and the changes of them.

use crate::le_word;
use alloc::vec::Vec;
use base::{Ballot, Incarnation, MAX_MEMBERS, MemberSet, Prefix, Rank, majority};

/// The voters, the learners, and the incarnation of each.
///
/// A rank is a seat; the incarnation names the disk on it. A wiped disk comes back as another
/// incarnation, and its predecessor's promises do not bind it, so it counts only when a
/// configuration names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Members {
    /// The members whose votes and durable copies count.
    pub voters: MemberSet,
    /// The members that are sent the log and do not count.
    pub learners: MemberSet,
    /// The incarnation on each seat.
    pub incarnations: [u64; MAX_MEMBERS],
}

/// An encoded configuration: voters, learners, six zero bytes, the incarnations.
pub(crate) const MEMBERS_BYTES: usize = 8 + 8 * MAX_MEMBERS;

impl Members {
    /// The members of a new cluster: all are voters, in their first incarnation.
    pub fn first(voters: MemberSet) -> Members {
        let mut incarnations = [0; MAX_MEMBERS];
        voters.iter().for_each(|rank| incarnations[rank.index()] = Incarnation::FIRST.0);
        Members { voters, learners: MemberSet::EMPTY, incarnations }
    }

    /// The members that are sent the log.
    pub fn all(&self) -> MemberSet {
        self.voters.union(self.learners)
    }

    /// Whether `set` holds a majority of the voters.
    pub fn has_quorum(&self, set: MemberSet) -> bool {
        set.intersection(self.voters).len() >= majority(self.voters.len())
    }

    /// The incarnation on the seat `rank`.
    pub fn incarnation(&self, rank: Rank) -> Incarnation {
        Incarnation(self.incarnations[rank.index()])
    }

    /// The members after `change`, begun by the member at `me`.
    ///
    /// # Errors
    /// [`ChangeRefused`]: the change is impossible here.
    pub(crate) fn after(&self, change: Change, me: Rank) -> Result<Members, ChangeRefused> {
        if let Change::Add(rank, incarnation) | Change::Replace(rank, incarnation) = change
            && incarnation <= self.incarnation(rank)
        {
            return Err(ChangeRefused::Outdated);
        }
        let mut after = *self;
        match change {
            Change::Add(rank, incarnation) => {
                if self.all().contains(rank) {
                    return Err(ChangeRefused::NoSuchMember);
                }
                after.learners.insert(rank);
                after.incarnations[rank.index()] = incarnation.0;
            }
            Change::Promote(rank) => {
                if !self.learners.contains(rank) {
                    return Err(ChangeRefused::NoSuchMember);
                }
                after.learners.remove(rank);
                after.voters.insert(rank);
            }
            Change::Remove(rank) | Change::Replace(rank, _) => {
                if !self.all().contains(rank) {
                    return Err(ChangeRefused::NoSuchMember);
                }
                after.voters.remove(rank);
                after.learners.remove(rank);
                if after.voters.is_empty() {
                    return Err(ChangeRefused::Needed);
                }
                if let Change::Replace(_, incarnation) = change {
                    if rank == me {
                        return Err(ChangeRefused::Needed);
                    }
                    after.learners.insert(rank);
                    after.incarnations[rank.index()] = incarnation.0;
                }
            }
        }
        Ok(after)
    }

    pub(crate) fn encode(&self) -> [u8; MEMBERS_BYTES] {
        let mut bytes = [0; MEMBERS_BYTES];
        bytes[0] = self.voters.bits();
        bytes[1] = self.learners.bits();
        for (at, incarnation) in self.incarnations.iter().enumerate() {
            bytes[8 + 8 * at..16 + 8 * at].copy_from_slice(&incarnation.to_le_bytes());
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Members> {
        let bytes: &[u8; MEMBERS_BYTES] = bytes.try_into().ok()?;
        let mut incarnations = [0; MAX_MEMBERS];
        for (at, incarnation) in incarnations.iter_mut().enumerate() {
            *incarnation = le_word(&bytes[8 + 8 * at..]);
        }
        Some(Members {
            voters: MemberSet::from_bits(bytes[0]),
            learners: MemberSet::from_bits(bytes[1]),
            incarnations,
        })
    }
}

/// A change of the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The incarnation becomes a learner: it is sent the log from now on, and does not vote.
    Add(Rank, Incarnation),
    /// A learner that has caught up becomes a voter.
    Promote(Rank),
    /// The member leaves.
    Remove(Rank),
    /// The seat's present incarnation leaves; the given one becomes a learner.
    Replace(Rank, Incarnation),
}

/// The reason why the members stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeRefused {
    /// This node does not lead.
    NotLeader,
    /// The last change is not decided yet.
    Pending,
    /// The incarnation sits there already, or the seat is empty.
    NoSuchMember,
    /// The learner does not have the log yet: wait.
    LagsBehind,
    /// Nothing could be decided without the member: let another one take its part first.
    Needed,
    /// The incarnation is not above every earlier one on its seat.
    Outdated,
    /// This protocol's members never change.
    Fixed,
}

/// The members that one member's log names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// The prefix of the entry that names them: one past its slot.
    pub at: Prefix,
    /// The members.
    pub members: Members,
    /// Whether that entry is decided: then it is in every later leader's log.
    pub is_decided: bool,
    /// The members that lose their vote by it, if it is not decided.
    pub leaving: MemberSet,
}

impl Configuration {
    /// Whether this incarnation on `rank` has been replaced or removed for good: the decided
    /// configuration names another, or none, and no change seats an incarnation that is not above
    /// all before it.
    pub fn has_parted(&self, rank: Rank, incarnation: Incarnation) -> bool {
        let last = self.members.incarnation(rank);
        self.is_decided
            && (incarnation < last || incarnation == last && !self.members.all().contains(rank))
    }
}

/// The head of a state: a member that continues from the state can then lead, and distinguish a log
/// that belongs to it from one that does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateHead {
    /// The ballot of the last entry that the state covers.
    pub ballot: Ballot,
    /// The prefix of the configuration below: one past its slot; not above what the state covers.
    pub members_at: Prefix,
    /// The last configuration that the state covers and that governs what follows it.
    pub members: Members,
    /// A configuration that the state covers and that does not govern yet, with the prefix from
    /// which it does: for protocols where it governs only some slots after the one that decides it.
    pub coming: Option<(Prefix, Members)>,
}

impl StateHead {
    /// The length of the encoding without `coming`.
    const SHORT: usize = 16 + MEMBERS_BYTES;

    /// The encoding for the wire and for files: ballot, the configuration's prefix, the
    /// configuration; and the latter two once more for `coming`, if there is one; all little
    /// endian.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(2 * StateHead::SHORT);
        bytes.extend_from_slice(&self.ballot.0.to_le_bytes());
        for (at, members) in [(self.members_at, self.members)].into_iter().chain(self.coming) {
            bytes.extend_from_slice(&at.0.to_le_bytes());
            bytes.extend_from_slice(&members.encode());
        }
        bytes
    }

    /// The inverse of [`StateHead::encode`]; `None` for bytes of another length.
    pub fn decode(bytes: &[u8]) -> Option<StateHead> {
        let (short, rest) = bytes.split_at_checked(StateHead::SHORT)?;
        let placed = |bytes: &[u8]| {
            let (at, members) = bytes.split_at_checked(8)?;
            Some((Prefix(le_word(at)), Members::decode(members)?))
        };
        let (ballot, short) = short.split_at(8);
        let (members_at, members) = placed(short)?;
        let coming = if rest.is_empty() { None } else { Some(placed(rest)?) };
        Some(StateHead { ballot: Ballot(le_word(ballot)), members_at, members, coming })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_survives_encoding() {
        let mut members = Members::first(MemberSet::all(3));
        members.learners.insert(Rank::at(3));
        members.incarnations[3] = u64::MAX;
        assert_eq!(Members::decode(&members.encode()), Some(members));
        assert_eq!(Members::decode(&members.encode()[1..]), None);
        let head = StateHead { ballot: Ballot(9), members_at: Prefix(7), members, coming: None };
        let next = Members { voters: MemberSet::all(2), ..members };
        for head in [head, StateHead { coming: Some((Prefix(9), next)), ..head }] {
            assert_eq!(StateHead::decode(&head.encode()), Some(head));
            assert_eq!(StateHead::decode(&head.encode()[1..]), None);
        }
    }

    #[test]
    fn who_is_not_named_by_what_is_decided_has_parted_and_who_is_not_yet_has_not() {
        let seat = Rank::at(2);
        let mut members = Members::first(MemberSet::all(3));
        members.voters.remove(seat);
        members.incarnations[2] = 7;
        let mut of =
            Configuration { at: Prefix(4), members, is_decided: true, leaving: MemberSet::EMPTY };
        let parted = |of: &Configuration| {
            [6, 7, 8].map(|incarnation| of.has_parted(seat, Incarnation(incarnation)))
        };
        assert_eq!(parted(&of), [true, true, false], "removed");
        of.members.learners.insert(seat);
        assert_eq!(parted(&of), [true, false, false], "replaced by the seventh");
        of.is_decided = false;
        assert_eq!(parted(&of), [false; 3], "the next leader may undo it");
    }

    #[test]
    fn learners_and_strangers_make_no_quorum() {
        let mut members = Members::first(MemberSet::all(3));
        members.learners.insert(Rank::at(3));
        let set = |ranks: &[usize]| ranks.iter().map(|rank| Rank::at(*rank)).collect();
        assert!(members.has_quorum(set(&[0, 2])));
        assert!(!members.has_quorum(set(&[0, 3, 4])));
    }
}
