//! Views: the membership, as a value. A new view is a new value; nothing in one is ever changed.

use super::clock::Time;
use super::order::Standing;
use super::shard::{Seating, Shard, ShardId, ViewId};
use crate::codec::{self, Words};
use alloc::vec::Vec;
use base::{Incarnation, Rank, SeatSet, majority};

/// The words that a member carries in every view: its address, and its tags. No member interprets
/// them, but for tags that a layout asks for ([`TAGS_WORD`](super::TAGS_WORD)).
pub const METADATA_WORDS: usize = 2;

codec::coded! {
    /// What a process says of itself when it asks to be a member.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Knock in Words {
        /// The seat of the process, free of any earlier one.
        pub seat: Rank,
        /// The process: a later one on the same seat has a higher number.
        pub incarnation: Incarnation,
        /// The words that it carries in every view.
        pub metadata: [u64; METADATA_WORDS],
    }
}

/// One member of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// The process.
    pub process: Knock,
    /// The first view that it is a member of.
    pub since: ViewId,
}

impl Member {
    /// The seat of the process.
    pub const fn seat(&self) -> Rank {
        self.process.seat
    }
}

/// An agreed membership.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct View {
    /// Its number.
    pub id: ViewId,
    /// The group, where its founder named it ([`Config::group`](super::Config::group)).
    pub group: u64,
    /// The time that its messages are later than (K4).
    pub time: Time,
    /// Its members in the order of succession: the eldest first, those of one age by seat.
    pub members: Vec<Member>,
    /// Its subgroups, in the order of their descriptions (`roster`).
    pub roster: Vec<Seating>,
}

codec::coded! {
    /// The agreed end of a view: what the next one is, and how much of this one's order its
    /// survivors deliver.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub(super) struct Change in Words {
        /// Members that were suspected.
        pub removed: SeatSet,
        /// Members that asked to leave.
        pub left: SeatSet,
        /// The time of the next view (K4).
        pub time: Time,
        /// The ragged trims, of all shards in order: every message of a shard's order before this
        /// position is delivered, and none from it on. Deliveries end at the first gap of the
        /// order, so one number says it for all senders of a shard.
        pub trims: Vec<u64>,
        /// For each subgroup the members that have the state of their shard in it.
        pub bearers: Vec<SeatSet>,
        /// Processes that are members from the next view on, in order of their seats.
        pub joined: Vec<Knock>,
        /// Processes that take the places of those on their seats, with their logs (`restart`).
        pub renewed: Vec<Knock>,
    }
}

impl Change {
    /// Members of this view that are not in the next one.
    pub(super) fn departing(&self) -> SeatSet {
        self.removed.union(self.left)
    }
}

impl View {
    /// A view of these members, without subgroups.
    ///
    /// # Panics
    /// If two of them have one seat.
    pub fn new(id: ViewId, mut members: Vec<Member>) -> View {
        members.sort_by_key(|member| (member.since, member.seat()));
        let view = View { id, group: 0, time: Time::default(), members, roster: Vec::new() };
        assert_eq!(view.seats().len(), view.members.len(), "V1: a seat has one member: {view:?}");
        view
    }

    // ---- shards ----

    /// All shards, in order.
    pub fn shards(&self) -> impl Iterator<Item = (ShardId, &Shard)> {
        let numbered = |(subgroup, seating): (u16, &'_ Seating)| {
            (0..seating.shards.len() as u16).map(move |shard| ShardId { subgroup, shard })
        };
        let ids = (0..).zip(&self.roster).flat_map(numbered);
        ids.map(|id| (id, self.shard(id).expect("one of its own")))
    }

    /// A shard, if the layout has it.
    pub fn shard(&self, id: ShardId) -> Option<&Shard> {
        self.roster.get(usize::from(id.subgroup))?.shards.get(usize::from(id.shard))
    }

    /// The shard of a subgroup that has the member on `seat`, if one has.
    pub fn shard_of(&self, seat: Rank, subgroup: usize) -> Option<ShardId> {
        let shard = self.roster.get(subgroup)?.shard_of(seat)?;
        Some(ShardId { subgroup: subgroup as u16, shard: shard as u16 })
    }

    /// By subgroup, the trim of the shard that has the member on `seat`.
    pub(super) fn trims_of(&self, seat: Rank, change: &Change) -> Vec<u64> {
        let mut trims = alloc::vec![0; self.roster.len()];
        for ((id, shard), trim) in self.shards().zip(&change.trims) {
            if shard.seats.contains(&seat) {
                trims[usize::from(id.subgroup)] = *trim;
            }
        }
        trims
    }

    // ---- members ----

    /// The seats of all members.
    pub fn seats(&self) -> SeatSet {
        self.members.iter().map(Member::seat).collect()
    }

    /// The member on `seat`.
    pub fn member(&self, seat: Rank) -> Option<&Member> {
        self.members.iter().find(|member| member.seat() == seat)
    }

    /// The position of the member on `seat`.
    pub fn standing(&self, seat: Rank) -> Option<Standing> {
        let found = self.members.iter().position(|member| member.seat() == seat);
        found.map(|position| Standing(position as u16))
    }

    /// Whether `process` is a member: the process, and not its seat alone.
    pub fn has(&self, process: &Knock) -> bool {
        self.member(process.seat).is_some_and(|of| of.process.incarnation == process.incarnation)
    }

    /// The seats of the members before `standing`.
    pub fn before(&self, standing: Standing) -> SeatSet {
        self.members.iter().take(standing.index()).map(Member::seat).collect()
    }

    /// Whether `seats` are a strict majority of this view.
    pub fn is_majority(&self, seats: SeatSet) -> bool {
        seats.intersection(self.seats()).len() >= majority(self.members.len())
    }

    /// The number of members that may fail in this view, whichever these are: a majority is left
    /// then, and the state of each shard of the subgroups of which `keeps_state` says that they
    /// have one. A view of one or two survives none.
    pub fn n_tolerated(&self, keeps_state: impl Fn(usize) -> bool) -> usize {
        let has_state = |(id, shard): &(ShardId, &Shard)| {
            !shard.seats.is_empty() && keeps_state(id.subgroup.into())
        };
        let spare = |(_, shard): (ShardId, &Shard)| shard.bearers.len().saturating_sub(1);
        let spare = self.shards().filter(has_state).map(spare);
        let minority = self.members.len().saturating_sub(1) / 2;
        spare.fold(minority, usize::min)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::planted::Sound;
    use crate::vsync::shard::Subgroup;

    pub(crate) fn process(seat: usize, incarnation: u64) -> Knock {
        let incarnation = Incarnation(incarnation);
        Knock { seat: Rank::at(seat), incarnation, metadata: [seat as u64; METADATA_WORDS] }
    }

    /// A view without a layout.
    pub(crate) fn founded_by(founders: &[Knock]) -> View {
        View::founded_by(founders, &[Subgroup::whole()])
    }

    fn seats(seats: &[usize]) -> SeatSet {
        seats.iter().map(|at| Rank::at(*at)).collect()
    }

    #[test]
    fn the_eldest_stand_first_and_newcomers_behind_them() {
        let view = founded_by(&[4, 2, 7].map(|seat| process(seat, 1)));
        let change = Change {
            removed: seats(&[2]),
            joined: [0, 2].map(|seat| process(seat, 9)).to_vec(),
            ..Change::default()
        };
        let next = view.after(&change, &[Subgroup::whole()], Sound);
        let order: Vec<usize> = next.members.iter().map(|one| one.seat().index()).collect();
        assert_eq!((next.id, order), (ViewId(2), [4, 7, 0, 2].to_vec()));
        assert_eq!(next.standing(Rank::at(0)), Some(Standing(2)));
        assert_eq!(next.before(Standing(2)), seats(&[4, 7]));
        assert!(next.has(&process(2, 9)) && !next.has(&process(2, 1)), "another process");
    }

    #[test]
    fn a_view_of_two_survives_no_failure() {
        let of = |n: usize| founded_by(&(0..n).map(|seat| process(seat, 1)).collect::<Vec<_>>());
        let tolerated: Vec<usize> = (1..=7).map(|n| of(n).n_tolerated(|_| true)).collect();
        assert_eq!(tolerated, [0, 0, 1, 1, 2, 2, 3]);
        assert!(of(4).is_majority(seats(&[0, 1, 2])) && !of(4).is_majority(seats(&[0, 1])));
        assert!(!of(3).is_majority(seats(&[0, 5, 6])), "strangers do not count");
    }

    #[test]
    fn a_view_tolerates_no_failure_of_all_that_have_a_shard_s_state() {
        let mut view = founded_by(&[0, 1, 2, 3, 4].map(|seat| process(seat, 1)));
        let mut tolerated = |bearers: &[usize], keeps_state| {
            view.roster[0].shards[0].bearers = seats(bearers);
            view.n_tolerated(|_| keeps_state)
        };
        assert_eq!(tolerated(&[0, 1, 2], true), 2);
        assert_eq!((tolerated(&[1, 2], true), tolerated(&[2], true)), (1, 0));
        assert_eq!(tolerated(&[2], false), 2, "no newcomer waits for one");
    }
}
