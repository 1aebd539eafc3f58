//! The members that govern each slot, and the answers that count for it.
//!
//! ```text
//! slots:     ... s ........... s + alpha ...............
//! governed:  [--- the present era ---)[--- the coming era ---
//!                ^ decided here, applied by a member before it prepares s + alpha
//! ```
//!
//! The parent's I9, I10 and I12 are kept here:
//! - a configuration that is decided for slot s governs from s + alpha on, so a slot has exactly
//!   one, and a member that has applied everything up to s knows it;
//! - an answer counts for a slot if the *incarnation* that gave it is a voter of that slot's
//!   configuration, and [`Eras::has_quorum`] is the one place where majorities are counted;
//! - an entry counts only if it was made from the configuration that governs its own slot, and no
//!   other is coming: all members judge that alike, from what is decided. So at most two lie ahead.
//!
//! An era is *settled* once a majority of its voters has applied the prefix that it begins with:
//! from then on the members that it has removed may be shut down, and the next change may begin.

use crate::members::{Members, StateHead};
use base::{Ballot, Incarnation, MAX_MEMBERS, MemberSet, Prefix, Rank, Slot, majority};

/// The slots that one set of members governs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Era {
    /// The prefix before the first slot that the members govern.
    pub(super) from: Prefix,
    pub(super) members: Members,
    /// The voters whose memory was identified as that of the right incarnation.
    counted: MemberSet,
}

impl Era {
    #[inline]
    fn votes(&self, rank: Rank, incarnation: Incarnation) -> bool {
        self.members.voters.contains(rank) && self.members.incarnation(rank) == incarnation
    }

    #[inline]
    fn has_quorum(&self, set: MemberSet) -> bool {
        set.intersection(self.counted).len() >= majority(self.members.voters.len())
    }
}

/// The rules of counting, which a planted bug may change.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Rules {
    /// The distance from the slot that decides a configuration to the first that it governs.
    pub(super) alpha: u64,
    /// Whether any incarnation at a voter's seat counts.
    pub(super) any_incarnation: bool,
    /// Whether every member that answers counts.
    pub(super) count_removed: bool,
    /// Whether an entry counts whatever configuration it was made from.
    pub(super) any_base: bool,
}

/// The members of the slots around the applied prefix.
#[derive(Clone, Debug, Hash)]
pub(super) struct Eras {
    me: Rank,
    own: Incarnation,
    rules: Rules,
    past: Era,
    /// The era of the next slot to apply. It has no voters while its members are unknown.
    present: Era,
    coming: Option<Era>,
    /// Whether a majority of the newest era's voters has applied everything before it.
    is_settled: bool,
    /// The incarnation that was last identified at the other end of each link.
    met: [Incarnation; MAX_MEMBERS],
    fed: MemberSet,
}

impl Eras {
    pub(super) fn new(me: Rank, own: Incarnation, founders: MemberSet, rules: Rules) -> Eras {
        let present = Era { members: Members::first(founders), ..Era::default() };
        let mut met = [Incarnation(0); MAX_MEMBERS];
        met[me.index()] = own;
        let (is_settled, fed) = (!founders.is_empty(), MemberSet::EMPTY);
        let mut eras =
            Eras { me, own, rules, past: present, present, coming: None, is_settled, met, fed };
        eras.refresh();
        eras
    }

    pub(super) const fn own(&self) -> Incarnation {
        self.own
    }

    /// Whether the members are known at all.
    #[inline]
    pub(super) const fn is_known(&self) -> bool {
        !self.present.members.voters.is_empty()
    }

    /// The era of `slot`; for a past slot, as far as eras are remembered.
    #[inline]
    fn of(&self, slot: Slot) -> &Era {
        match &self.coming {
            Some(coming) if slot.0 >= coming.from.0 => coming,
            _ if slot.0 >= self.present.from.0 => &self.present,
            _ => &self.past,
        }
    }

    #[inline]
    pub(super) fn present(&self) -> &Era {
        &self.present
    }

    #[inline]
    pub(super) fn coming(&self) -> Option<&Era> {
        self.coming.as_ref()
    }

    #[inline]
    pub(super) fn newest(&self) -> &Era {
        self.coming.as_ref().unwrap_or(&self.present)
    }

    #[inline]
    pub(super) const fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// I10: whether `set` holds a majority of the voters of `slot`.
    #[inline]
    pub(super) fn has_quorum(&self, slot: Slot, set: MemberSet) -> bool {
        self.of(slot).has_quorum(set)
    }

    /// The members whose answers count for `slot`.
    #[inline]
    pub(super) fn counted(&self, slot: Slot) -> MemberSet {
        self.of(slot).counted
    }

    /// Whether this incarnation is a voter of `slot`, and so may propose for it (I11).
    #[inline]
    pub(super) fn may_propose(&self, slot: Slot) -> bool {
        self.of(slot).votes(self.me, self.own)
    }

    /// The members that receive the proposals: voters and learners.
    #[inline]
    pub(super) const fn fed(&self) -> MemberSet {
        self.fed
    }

    /// Whether this incarnation is a voter of `slot`, in an era that is not outdated.
    #[inline]
    pub(super) fn may_lead(&self, slot: Slot, links: MemberSet) -> bool {
        let era = self.of(slot);
        era.votes(self.me, self.own) && !self.is_over(era, links)
    }

    /// Whether other incarnations sit where voters of `slot` sat, so that the remaining voters are
    /// no majority: the era is outdated, and only a state helps.
    #[inline]
    pub(super) fn is_outdated(&self, slot: Slot, links: MemberSet) -> bool {
        self.is_over(self.of(slot), links)
    }

    #[inline]
    fn is_over(&self, era: &Era, links: MemberSet) -> bool {
        let is_successor = |rank: &Rank| {
            links.contains(*rank) && self.met[rank.index()] > era.members.incarnation(*rank)
        };
        !era.has_quorum(links) && era.members.voters.iter().any(|rank| is_successor(&rank))
    }

    /// Notes that `incarnation` was identified on the seat of `rank`. True if another was there
    /// before.
    pub(super) fn meet(&mut self, rank: Rank, incarnation: Incarnation) -> bool {
        let before = core::mem::replace(&mut self.met[rank.index()], incarnation);
        self.refresh();
        before != incarnation && before != Incarnation(0)
    }

    /// Whether this incarnation was the last one identified on the seat of `rank`.
    pub(super) fn is_met(&self, rank: Rank, incarnation: Incarnation) -> bool {
        self.met[rank.index()] == incarnation
    }

    /// Notes that `members` are decided for `slot`, made from those that governed from `base` on
    /// (I12). True if that changes anything.
    pub(super) fn decide(&mut self, slot: Slot, base: Prefix, members: &Members) -> bool {
        let is_next = self.coming.is_none() && base == self.present.from;
        if !is_next && !self.rules.any_base {
            return false;
        }
        let from = Prefix(slot.0 + self.rules.alpha);
        assert!(from > self.present.from, "I12: eras follow each other");
        self.coming = Some(Era { from, members: *members, counted: MemberSet::EMPTY });
        self.is_settled = false;
        self.refresh();
        true
    }

    /// Notes that everything below `applied` is applied: the coming era may begin.
    #[inline]
    pub(super) fn reach(&mut self, applied: Prefix) {
        if let Some(coming) = self.coming.take_if(|coming| coming.from <= applied) {
            self.past = core::mem::replace(&mut self.present, coming);
            self.refresh();
        }
    }

    /// Whether the newest era is settled, according to its voters' claims.
    pub(super) fn has_settled(&self, claimed: impl Fn(Rank, Incarnation) -> Prefix) -> bool {
        let Era { from, members, .. } = &self.present;
        let there = |rank: &Rank| claimed(*rank, members.incarnation(*rank)) >= *from;
        let n_there = members.voters.iter().filter(there).count();
        self.is_known() && self.coming.is_none() && n_there >= majority(members.voters.len())
    }

    /// Notes that the newest era is settled; later deaths do not change that.
    pub(super) const fn note_settled(&mut self, is_settled: bool) {
        self.is_settled |= is_settled;
    }

    fn refresh(&mut self) {
        let (met, rules) = (self.met, self.rules);
        let is_met = |era: &Era, rank: &Rank| met[rank.index()] == era.members.incarnation(*rank);
        let mut fed = MemberSet::EMPTY;
        let present = [Some(&mut self.past), Some(&mut self.present), self.coming.as_mut()];
        for (at, era) in present.into_iter().enumerate() {
            let Some(era) = era else { continue };
            era.counted = era
                .members
                .voters
                .iter()
                .filter(|rank| is_met(era, rank) || rules.any_incarnation)
                .collect();
            if rules.count_removed {
                era.counted = MemberSet::all(MAX_MEMBERS);
            }
            if at > 0 {
                let named = era.members.all();
                fed = fed.union(named.iter().filter(|rank| is_met(era, rank)).collect());
            }
        }
        self.fed = if rules.count_removed || rules.any_incarnation {
            MemberSet::all(MAX_MEMBERS)
        } else {
            fed
        };
    }

    /// The head of a state of everything below `prefix`; `None` if that is too long ago.
    pub(super) fn head(&self, prefix: Prefix, ballot: Ballot) -> Option<StateHead> {
        if !self.is_known() {
            return None;
        }
        let eras = [Some(&self.past), Some(&self.present), self.coming.as_ref()];
        let governs = |era: &&Era| era.from <= prefix;
        let Era { from, members, .. } = eras.into_iter().flatten().rfind(governs)?;
        // What is decided behind the prefix is not the state's.
        let end = prefix.0 + self.rules.alpha;
        let is_coming = |era: &&Era| era.from > prefix && era.from.0 < end;
        let later = eras.into_iter().flatten().find(is_coming);
        let coming = later.map(|era| (era.from, era.members));
        Some(StateHead { ballot, members_at: *from, members: *members, coming })
    }

    /// Forgets the members, since a state without a head was installed.
    pub(super) fn forget(&mut self) {
        self.past = Era::default();
        self.present = Era::default();
        self.coming = None;
        self.is_settled = false;
        self.refresh();
    }

    /// Takes the members from the head of an installed state.
    pub(super) fn install(&mut self, head: &StateHead) {
        let era = |from, members| Era { from, members, counted: MemberSet::EMPTY };
        let newest = self.newest().from;
        self.present = era(head.members_at, head.members);
        self.past = self.present;
        self.coming = head.coming.map(|(from, members)| era(from, members));
        // The founders' era begins with nothing, and every member has applied that.
        self.is_settled &= self.newest().from == newest;
        self.is_settled |= self.newest().from == Prefix::ZERO;
        self.refresh();
    }
}

/// The word beside a claim, which seals the claim's incarnation. The seat's present owner writes
/// both words, and a new incarnation must not be credited with what its predecessor had (I13).
pub(super) const fn seal_claim(prefix: Prefix, incarnation: Incarnation) -> u64 {
    prefix.0 ^ incarnation.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The incarnation of a new region's owner, from the way it starts.
pub(super) const fn founding(start: crate::node::Start) -> Option<Incarnation> {
    use crate::node::Start;
    match start {
        Start::Bootstrap | Start::Found { .. } => Some(Incarnation::FIRST),
        Start::Join { incarnation } => Some(incarnation),
        Start::Reattach | Start::Recovered { .. } => None,
    }
}
