//! The operator's disks: put in place, removed, back when they are not wanted; and damaged ones.

use super::{Goal, Seat};
use crate::Birth;
use crate::checks::configurations::votes;
use crate::coverage::Mark;
use crate::disk::Disk;
use crate::trace::Topic;
use crate::world::{Phase, World};
use base::{Incarnation, Rank};
use proto::members::Members;

impl World {
    /// Whether what is at `seat` may be removed. A disk is the operator's; without disks, the
    /// cluster may need the memory.
    pub(super) fn may_take(&self, seat: usize, incarnation: Incarnation) -> bool {
        !self.memories_change() || self.may_put_memory(seat, incarnation)
    }

    /// Puts a new disk at `seat`, and a process on it.
    pub(super) fn put_disk(&mut self, seat: usize, incarnation: Incarnation) {
        self.exorcise(seat);
        if self.incarnation(seat) == incarnation {
            return;
        }
        self.vacate(seat);
        self.disks[seat].unplug();
        let before = std::mem::replace(
            &mut self.disks[seat],
            Disk::new(self.subject.store, self.subject.snapshots),
        );
        let Some(operator) = &mut self.operator else { return };
        let of = &mut operator.seats[seat];
        let was = std::mem::replace(&mut of.incarnation, incarnation);
        of.is_taken = true;
        let gone = if operator.rng.chance(operator.keeps, 8) {
            of.attic.replace((before, was))
        } else {
            Some((before, was))
        };
        if let Some((disk, of)) = gone {
            self.ledger.copies.lost(Rank::at(seat), of, disk.durable());
        }
        if self.memories_change() {
            self.operator.iter_mut().for_each(|operator| operator.seats[seat].attic = None);
        }
        self.be_born(seat, Birth::Joined { incarnation });
        let life = self.net.processes[seat].life;
        self.operator.iter_mut().for_each(|operator| operator.seats[seat].first_life = life);
    }

    /// Ends the process at `seat` for good.
    pub(super) fn vacate(&mut self, seat: usize) {
        if self.net.processes[seat].alive {
            self.crash(seat);
        }
        if let Some(operator) = &mut self.operator {
            operator.seats[seat].is_taken = false;
        }
    }

    /// Puts a replaced disk back in its place for a while, at intervals, with everything that it
    /// once promised and held, and without what its successor has.
    pub(super) fn mind_the_attic(&mut self) {
        let now = self.net.now();
        let Some(operator) = &mut self.operator else { return };
        let over = |seat: &Seat| seat.is_haunted_until.is_some_and(|until| until <= now);
        let calm = self.phase != Phase::Safety;
        let mut swap = None;
        for (at, seat) in operator.seats.iter().enumerate() {
            let begins = seat.is_haunted_until.is_none() && seat.attic.is_some() && seat.is_taken;
            // (A damaged disk stays where the operator looks for it.)
            let begins = begins && !self.disks[at].is_rotten();
            if over(seat) || begins && !calm && operator.rng.chance(1, 32) {
                swap = Some(at);
            }
        }
        if let Some(seat) = swap {
            self.swap_with_attic(seat);
        }
    }

    /// Puts the disk that belongs to `seat` in its place.
    pub(super) fn exorcise(&mut self, seat: usize) {
        let Some(operator) = &self.operator else { return };
        if operator.seats[seat].is_haunted_until.is_some() {
            self.swap_with_attic(seat);
        }
    }

    fn swap_with_attic(&mut self, seat: usize) {
        if self.net.processes[seat].alive {
            self.crash(seat);
        }
        self.disks[seat].unplug();
        let Some(operator) = &mut self.operator else { return };
        let of = &mut operator.seats[seat];
        let Some((disk, incarnation)) = &mut of.attic else { return };
        std::mem::swap(disk, &mut self.disks[seat]);
        std::mem::swap(incarnation, &mut of.incarnation);
        let begins = of.is_haunted_until.is_none();
        let lasts = 1 + operator.rng.below(self.plan.fault_ns_max);
        of.is_haunted_until = begins.then(|| self.net.now() + lasts);
        let number = of.incarnation.0;
        self.net.coverage.hit(Mark::OldDiskBack);
        self.net.trace.record(self.net.now(), seat, Topic::Operator, number, 2);
        self.net.clear_region(seat);
        if let Some(birth) = self.rebirth(seat) {
            self.be_born(seat, birth);
        }
    }

    // ---- damage ----

    /// I1: whether the disk at `seat` may be damaged. Two voters are left without it, whatever is
    /// decided next, and all of those have what they had; and the operator is not about to remove
    /// another.
    pub(crate) fn can_spare(&self, seat: usize) -> bool {
        let Some(operator) = &self.operator else { return false };
        let (rank, incarnation) = (Rank::at(seat), self.incarnation(seat));
        let configurations = &self.ledger.configurations;
        let possible = configurations.possible();
        let may_vote = possible.iter().any(|members| votes(members, rank, incarnation));
        let is_in_the_way = may_vote && operator.goal.is_some();
        let is_sound = |members: &Members, of: Rank| {
            let is_in_place = self.incarnation(of.index()) == members.incarnation(of);
            !is_in_place || !self.disks[of.index()].is_rotten()
        };
        !is_in_the_way && configurations.can_spare(rank, is_sound)
    }

    /// A seat whose disk belongs to one of `members` and is damaged.
    pub(super) fn damaged_member(&self, members: &Members) -> Option<usize> {
        members.all().iter().map(Rank::index).find(|seat| {
            let incarnation = members.incarnation(Rank::at(*seat));
            self.incarnation(*seat) == incarnation && self.disks[*seat].is_rotten()
        })
    }

    /// Handles a new disk that reports damage before it is a voter: it is unusable, and another
    /// takes its place.
    pub(super) fn look_at_new_disk(&mut self) {
        let goal = self.operator.as_ref().and_then(|operator| operator.goal);
        let Some(Goal::Add(seat, wanted) | Goal::Replace(seat, wanted)) = goal else { return };
        if self.incarnation(seat) == wanted
            && self.disks[seat].says_damaged
            && let Some(operator) = &mut self.operator
        {
            operator.goal = Some(Goal::Replace(seat, operator.next_incarnation()));
            self.net.coverage.hit(Mark::NewDiskDamaged);
        }
    }

    /// Counts a fault while the operator had a goal.
    pub(crate) fn hit_amid_change(&mut self, mark: Mark) {
        if self.has_goal() {
            self.net.coverage.hit(mark);
        }
    }
}
