//! Which members govern which slot, and whose answers count for it.
//!
//! ```text
//! slots:     ... s ........... s + alpha ...............
//! governed:  [--- the present era ---)[--- the coming era ---
//!                ^ decided here, applied before anybody prepares s + alpha
//! ```
//!
//! The parent's I9, I10 and I12 are kept here:
//! - a configuration that is decided for slot s governs from s + alpha on, so a slot has exactly
//!   one, and whoever has applied everything up to s knows it;
//! - an answer counts for a slot if the *incarnation* that gave it is a voter of that slot's
//!   configuration, and [`Eras::has_quorum`] is the one place where majorities are counted;
//! - an entry counts only if it was made from the configuration that governs its own slot, and none
//!   is coming: everybody judges that alike, from what is decided. So no more than two lie ahead.
//!
//! An era is *settled* once a majority of its voters has applied the prefix that it begins with:
//! from then on whoever it has removed may be taken away, and the next change may begin.

use crate::members::{Members, StateHead};
use base::{Ballot, Incarnation, MAX_MEMBERS, MemberSet, Prefix, Rank, Slot, majority};

/// Some members' time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Era {
    /// The first slot that they govern, as the prefix before it.
    pub(super) from: Prefix,
    pub(super) members: Members,
    /// The voters among those that were met, by incarnation.
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

/// What counts for whom, whatever a planted bug makes of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// So long after the slot that decides it a configuration begins to govern.
    pub(super) alpha: u64,
    /// Whatever sits on a voter's seat counts.
    pub(super) any_incarnation: bool,
    /// Whoever answers counts.
    pub(super) count_removed: bool,
    /// An entry counts whatever it was made from.
    pub(super) any_base: bool,
}

/// The members of the slots around the applied prefix.
#[derive(Debug)]
pub(super) struct Eras {
    me: Rank,
    own: Incarnation,
    rules: Rules,
    past: Era,
    /// It governs the next slot to apply. Nobody votes in it while that is not known.
    present: Era,
    coming: Option<Era>,
    /// A majority of the newest era's voters has applied all before it.
    is_settled: bool,
    /// Which incarnation was met last at the other end of each link.
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

    /// Whether it is known at all who takes part.
    #[inline]
    pub(super) const fn is_known(&self) -> bool {
        !self.present.members.voters.is_empty()
    }

    /// The era of `slot`; of those behind, as far as it is remembered.
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

    /// I10: whether `set` holds a majority of those that vote about `slot`.
    #[inline]
    pub(super) fn has_quorum(&self, slot: Slot, set: MemberSet) -> bool {
        self.of(slot).has_quorum(set)
    }

    /// Those whose answers count for `slot`.
    #[inline]
    pub(super) fn counted(&self, slot: Slot) -> MemberSet {
        self.of(slot).counted
    }

    /// Whether this incarnation votes about `slot`, and so may propose for it (I11).
    #[inline]
    pub(super) fn may_propose(&self, slot: Slot) -> bool {
        self.of(slot).votes(self.me, self.own)
    }

    /// Those that are sent what is proposed: who votes, and who learns.
    #[inline]
    pub(super) const fn fed(&self) -> MemberSet {
        self.fed
    }

    /// Whether this incarnation votes about `slot`, and the time of those that do is not over.
    #[inline]
    pub(super) fn may_lead(&self, slot: Slot, links: MemberSet) -> bool {
        let era = self.of(slot);
        era.votes(self.me, self.own) && !self.is_over(era, links)
    }

    /// Whether others sit where voters of `slot` sat, so that those who are left are no majority:
    /// its time is over, and only a state helps.
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

    /// `incarnation` was met on the seat of `rank`. True if another was there before.
    pub(super) fn meet(&mut self, rank: Rank, incarnation: Incarnation) -> bool {
        let before = core::mem::replace(&mut self.met[rank.index()], incarnation);
        self.refresh();
        before != incarnation && before != Incarnation(0)
    }

    /// Whether this incarnation was met last on the seat of `rank`.
    pub(super) fn is_met(&self, rank: Rank, incarnation: Incarnation) -> bool {
        self.met[rank.index()] == incarnation
    }

    /// `members` are decided for `slot`, made from those that governed from `base` on (I12). True
    /// if that changes anything.
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

    /// Everything below `applied` is applied: the coming era may have come.
    #[inline]
    pub(super) fn reach(&mut self, applied: Prefix) {
        if let Some(coming) = self.coming.take_if(|coming| coming.from <= applied) {
            self.past = core::mem::replace(&mut self.present, coming);
            self.refresh();
        }
    }

    /// Whether the newest era is settled, by what its voters claim to have applied.
    pub(super) fn has_settled(&self, claimed: impl Fn(Rank, Incarnation) -> Prefix) -> bool {
        let Era { from, members, .. } = &self.present;
        let there = |rank: &Rank| claimed(*rank, members.incarnation(*rank)) >= *from;
        let n_there = members.voters.iter().filter(there).count();
        self.is_known() && self.coming.is_none() && n_there >= majority(members.voters.len())
    }

    /// It stays so, whoever dies later.
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

    /// What goes with a state of everything below `prefix`; `None` if that is too long ago.
    pub(super) fn head(&self, prefix: Prefix, ballot: Ballot) -> Option<StateHead> {
        if !self.is_known() {
            return None;
        }
        let eras = [Some(&self.past), Some(&self.present), self.coming.as_ref()];
        let governs = |era: &&Era| era.from <= prefix;
        let Era { from, members, .. } = eras.into_iter().flatten().rfind(governs)?;
        let later = eras.into_iter().flatten().find(|era| era.from > prefix);
        let coming = later.map(|era| (era.from, era.members));
        Some(StateHead { ballot, members_at: *from, members: *members, coming })
    }

    /// A state was put in place, and nothing went with it: nobody knows who takes part.
    pub(super) fn forget(&mut self) {
        self.past = Era::default();
        self.present = Era::default();
        self.coming = None;
        self.is_settled = false;
        self.refresh();
    }

    /// A state was put in place, and this went with it.
    pub(super) fn install(&mut self, head: &StateHead) {
        let era = |from, members| Era { from, members, counted: MemberSet::EMPTY };
        let newest = self.newest().from;
        self.present = era(head.members_at, head.members);
        self.past = self.present;
        self.coming = head.coming.map(|(from, members)| era(from, members));
        // The founders' era begins with nothing: that everybody has.
        self.is_settled &= self.newest().from == newest;
        self.is_settled |= self.newest().from == Prefix::ZERO;
        self.refresh();
    }
}

/// The word beside a claim: which incarnation it is of. Both are written by whoever sits there, and
/// a new incarnation must not be credited with what its predecessor had (I13).
pub(super) const fn seal_claim(prefix: Prefix, incarnation: Incarnation) -> u64 {
    prefix.0 ^ incarnation.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The incarnation of a new region's owner, by how it starts.
pub(super) const fn founding(start: crate::node::Start) -> Option<Incarnation> {
    use crate::node::Start;
    match start {
        Start::Bootstrap | Start::Found { .. } => Some(Incarnation::FIRST),
        Start::Join { incarnation } => Some(incarnation),
        Start::Reattach | Start::Recovered { .. } => None,
    }
}
