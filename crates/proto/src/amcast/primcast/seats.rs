//! The members of one group, epoch by epoch, as one process knows them.
//!
//! - P17 The words of an epoch are counted by that epoch's members, at every process of every
//!   group; as long as they are not known, nothing counts. Every report that tells a group of a new
//!   epoch names its members (`Machine::report`), once that epoch has begun; since links are FIFO
//!   (T1) they are known before anything depends on them. By [`Seats::of`].
//! - P18 Of a seat only the present incarnation's clocks and marks count, and only where the
//!   members name it. By [`Seats::sits`] and `Machine::meet`.

use crate::amcast::bugs::Bug;
use crate::amcast::{FOUNDER, Members};
use crate::planted::Planting;
use alloc::vec::Vec;
use base::{Ballot, Incarnation, MAX_MEMBERS, MemberSet, Rank};

/// The number of changes whose epochs are remembered: a process that needs to count by older
/// members asks, and receives what was chosen meanwhile.
const CHANGES_MAX: usize = 8;

/// The known members of one group.
#[derive(Clone, Debug)]
pub(super) struct Seats {
    /// The members, and the last epoch that is known to have them; in order.
    known: Vec<(Ballot, Members)>,
    /// The incarnation that speaks on each seat.
    heard: [u64; MAX_MEMBERS],
    /// The members that have named the group's members, on the present link.
    informants: MemberSet,
}

impl Seats {
    /// A group of `n` whose first epoch is `first`. A process that was there then knows its
    /// members.
    pub(super) fn new(n: usize, first: Ballot) -> Seats {
        let founders = Members::founders(n, first);
        let known = alloc::vec![(first, founders)];
        Seats { known, heard: [FOUNDER.0; MAX_MEMBERS], informants: MemberSet::all(n) }
    }

    /// Forgets the informants, since this process was not there all the time.
    pub(super) fn ask_anew(&mut self) {
        self.informants = MemberSet::EMPTY;
    }

    /// The members in `epoch`.
    ///
    /// From the epoch that brought them to the last that has begun with them, as far as is known:
    /// each epoch in between that ever begins has them (docs/protocols/primcast.md, M2).
    pub(super) fn of(&self, epoch: Ballot, planted: impl Planting<Bug>) -> Option<&Members> {
        let is_in = |(upto, members): &&(Ballot, Members)| members.since <= epoch && epoch <= *upto;
        let known = self.known.iter().rev().find(is_in);
        let assumed = || self.known.first().filter(|_| planted.has(Bug::AssumeMembers));
        known.or_else(assumed).map(|(_, members)| members)
    }

    /// The newest members that are known.
    pub(super) fn newest(&self) -> &Members {
        let newest = self.known.last().expect("the founders, or who came after them, are known");
        &newest.1
    }

    /// Notes that `epoch` has begun, with these members.
    pub(super) fn learn(&mut self, epoch: Ballot, members: &Members) {
        let at = self.known.partition_point(|(_, known)| known.since < members.since);
        match self.known.get_mut(at) {
            Some((upto, known)) if known.since == members.since => *upto = epoch.max(*upto),
            _ => self.known.insert(at, (epoch, *members)),
        }
        if self.known.len() > CHANGES_MAX {
            self.known.remove(0);
        }
    }

    /// Notes that a member has named the members: its marks count from now on.
    pub(super) fn is_told_by(&mut self, rank: Rank) {
        self.informants.insert(rank);
    }

    /// Whether `rank` has done so.
    pub(super) fn knows_from(&self, rank: Rank) -> bool {
        self.informants.contains(rank)
    }

    /// The incarnation that speaks on this seat.
    pub(super) const fn heard(&self, rank: Rank) -> Incarnation {
        Incarnation(self.heard[rank.index()])
    }

    /// Notes another incarnation on the seat. False if it is not above the one before.
    pub(super) fn meet(&mut self, rank: Rank, incarnation: Incarnation) -> bool {
        let heard = &mut self.heard[rank.index()];
        let is_new = *heard < incarnation.0;
        *heard = incarnation.0.max(*heard);
        if is_new {
            self.informants.remove(rank);
        }
        is_new
    }

    /// P18: whether the incarnation that speaks on this seat is among those members.
    pub(super) fn sits(&self, rank: Rank, members: &Members, planted: impl Planting<Bug>) -> bool {
        members.has(rank, self.heard(rank))
            || planted.has(Bug::KeepOldWords) && members.voters.contains(rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planted::Sound;

    const FIRST: Ballot = Ballot(1);

    #[test]
    fn p17_nothing_counts_by_members_that_are_not_known() {
        let mut seats = Seats::new(3, FIRST);
        assert!(seats.of(FIRST, Sound).is_some());
        assert!(seats.of(Ballot(12), Sound).is_none(), "nobody has said who they are");
        let founders = *seats.newest();
        seats.learn(Ballot(12), &founders);
        assert_eq!(seats.of(Ballot(12), Sound), Some(&founders));
        let fewer = Members { since: Ballot(21), ..founders.without(Rank::at(2)) };
        seats.learn(Ballot(30), &fewer);
        assert_eq!(seats.of(Ballot(22), Sound), Some(&fewer), "between two that have them");
        assert_eq!(seats.of(Ballot(13), Sound), None, "between two changes");
        assert_eq!(seats.newest(), &fewer);
        seats.learn(Ballot(11), &founders);
        assert_eq!(seats.newest(), &fewer, "what is told late is no news");
        assert_eq!(seats.of(Ballot(12), Sound), Some(&founders), "and takes nothing back");
    }

    #[test]
    fn p18_a_seat_speaks_for_one_incarnation_at_a_time() {
        let (seat, next) = (Rank::at(2), Incarnation(4));
        let mut seats = Seats::new(3, FIRST);
        let founders = *seats.newest();
        assert!(seats.sits(seat, &founders, Sound) && seats.knows_from(seat));
        assert!(seats.meet(seat, next) && !seats.meet(seat, FOUNDER));
        assert!(!seats.sits(seat, &founders, Sound) && !seats.knows_from(seat));
        let replaced = founders.without(seat).with(seat, next);
        assert!(seats.sits(seat, &replaced, Sound));
        assert!(!seats.sits(seat, &replaced.without(seat), Sound));
    }
}
