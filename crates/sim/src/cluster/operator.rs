//! The operator of a simulated cluster: its goal, and its command under way. Its actions are in
//! `changes`.

use crate::Config;
use crate::plan::{MS, Plan};
use base::{MemberSet, Rank, Rng};
use engine::streams::PipeId;
use proto::members::Members;

/// The goal of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// A new incarnation becomes a voter at that seat.
    Renew(usize),
    /// The seat becomes free.
    Remove(usize),
}

impl Goal {
    pub(super) const fn seat(self) -> usize {
        match self {
            Goal::Renew(seat) | Goal::Remove(seat) => seat,
        }
    }
}

/// The way by which a command has come to a member.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// A client's connection.
    Pipe(PipeId),
    /// The control port: the number of an order.
    Order(u64),
}

/// A command without an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) node: usize,
    /// The process there.
    pub(super) life: u32,
    pub(super) way: Way,
    pub(super) goal: Goal,
    pub(super) until: u64,
}

/// The pursuit of a goal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pursuit {
    pub(super) goal: Goal,
    /// Whether a member may be about to do it.
    pub(super) is_begun: bool,
    /// The node and the life whose process has told the supervisor, for a renewal.
    pub(super) told: Option<(usize, u32)>,
    /// The incarnation that is no longer wanted, for a renewal; 0 where the seat was empty.
    pub(super) before: u64,
}

/// What became of the removals that a member was told.
#[derive(Debug, Default)]
pub(super) struct Removals {
    /// The seats whose removal may be done.
    asked: MemberSet,
    /// Those of which one has an unknown end: it may be done at any time.
    unknown: MemberSet,
    /// The seats that were taken at the last look.
    taken: MemberSet,
}

impl Removals {
    pub(super) fn ask(&mut self, rank: Rank) {
        self.asked.insert(rank);
    }

    /// A member has said that it removes nothing.
    pub(super) fn refuse(&mut self, rank: Rank) {
        self.asked.remove(rank);
    }

    /// No member has said what becomes of it.
    pub(super) fn leave_open(&mut self, rank: Rank) {
        self.unknown.insert(rank);
    }

    /// O6: a seat that was taken at the last look, and is free, although no removal of it may have
    /// been done. From now on these seats are `taken`.
    pub(super) fn look(&mut self, taken: MemberSet) -> Option<Rank> {
        let gone = std::mem::replace(&mut self.taken, taken).difference(taken);
        let unasked = gone.difference(self.asked).difference(self.unknown).iter().next();
        self.asked = self.asked.difference(gone);
        unasked
    }
}

/// The operator of the module's text.
#[derive(Debug)]
pub(super) struct Operator {
    pub(super) removals: Removals,
    pub(super) rng: Rng,
    founders: MemberSet,
    pub(super) every_ns: u64,
    /// The share of replaced disks that are kept, in eighths.
    keeps: u64,
    pub(super) pursuit: Option<Pursuit>,
    pub(super) asked: Option<Asked>,
    /// The number of the last order.
    pub(super) n_orders: u64,
    /// Three voters stay: of two that run copies of a program neither can begin again (the limits
    /// in docs/replicate.md), so one whose copy lacks what is forgotten serves no client.
    keeps_three: bool,
}

impl Operator {
    /// Draws from a separate generator; the number of seats is the plan's from now on.
    pub(super) fn draw(
        seed: u64,
        config: &Config,
        plan: &mut Plan,
        has_disks: bool,
        keeps_three: bool,
    ) -> Option<Operator> {
        let mut rng = Rng::new(seed ^ 0x7365_6174_7321);
        if rng.chance(1, 2) {
            return None;
        }
        let n_seats = config.members.unwrap_or(rng.range(3, 5) as usize);
        plan.members = n_seats;
        // (In memory every seat is a founder's.)
        let n_founders = if has_disks && rng.chance(1, 2) { n_seats.min(3) } else { n_seats };
        Some(Operator {
            removals: Removals::default(),
            founders: MemberSet::all(n_founders),
            every_ns: MS * (4 << rng.below(6)),
            keeps: [0, 4, 8][rng.below(3) as usize],
            pursuit: None,
            asked: None,
            n_orders: 0,
            keeps_three,
            rng,
        })
    }

    pub(super) const fn founders(&self) -> MemberSet {
        self.founders
    }

    /// Whether the replaced disk is kept.
    pub(super) fn keeps_disk(&mut self) -> bool {
        self.rng.chance(self.keeps, 8)
    }

    /// Whether an old disk comes back now.
    pub(super) fn brings_back(&mut self) -> bool {
        self.rng.chance(1, 32)
    }

    /// The goal for a member whose disk is damaged, which can be spared (F1 of `disk_faults`).
    pub(super) fn repair(&mut self, seat: usize) -> Goal {
        let removes = self.rng.chance(1, 4) && !self.keeps_three;
        if removes { Goal::Remove(seat) } else { Goal::Renew(seat) }
    }

    /// O1: a possible next goal in a cluster of `members`.
    pub(super) fn think(&mut self, members: &Members, n_seats: usize) -> Option<Goal> {
        let n_voters = members.voters.len();
        let seat = self.rng.below(n_seats as u64) as usize;
        let rank = Rank::at(seat);
        if !members.all().contains(rank) {
            return Some(Goal::Renew(seat));
        }
        let is_learner = members.learners.contains(rank);
        if self.rng.chance(2, 3) && (n_voters >= 3 || is_learner) {
            return Some(Goal::Renew(seat));
        }
        let removes = match self.keeps_three {
            true => n_voters > 3,
            false => n_voters > 2 || n_voters == 2 && self.rng.chance(1, 8),
        };
        removes.then_some(Goal::Remove(seat))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o6_a_member_that_goes_although_its_removal_was_refused_is_noticed() {
        let (all, seat) = (MemberSet::all(3), Rank::at(2));
        let mut left = all;
        left.remove(seat);
        let begun = || {
            let mut removals = Removals::default();
            assert_eq!(removals.look(all), None);
            removals.ask(seat);
            removals
        };
        assert_eq!(begun().look(left), None, "it was asked for");
        let mut refused = begun();
        refused.refuse(seat);
        assert_eq!(refused.look(left), Some(seat));
        let mut open = begun();
        open.leave_open(seat);
        open.ask(seat);
        open.refuse(seat);
        assert_eq!(open.look(left), None, "the first one is done");
    }
}
