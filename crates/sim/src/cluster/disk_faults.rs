//! The disks of a simulated cluster: the end of what they were asked for, and their faults.
//!
//! - F1 a disk is damaged only where two voters are left without it, and all of those have theirs
//!   whole, whatever is decided next. By [`World::may_rot`], and because the operator begins no
//!   change while one is damaged, but for that member's replacement.
//! - F2 a member whose disk has failed ends, after the turn in which it hears of that at the
//!   latest; the supervisor starts it again, and what is on the disk is not known. By
//!   [`World::ends_failed`].
//! - F3 no member starts on a log that is damaged: it says so, and the operator replaces it. Judged
//!   in [`World::revive`].

use super::disk::Platter;
use super::world::World;
use crate::Property;
use crate::checks::configurations::votes;
use crate::coverage::Mark;
use crate::plan::{Kind, MS};
use crate::queue::{Fault, Happening};
use crate::stored::Unusable;
use crate::world::Phase;
use crate::world::flushes::Completed;
use base::Rank;
use proto::members::Members;

impl World {
    /// The disk at `node`, of a process or without one.
    pub(super) fn platter(&mut self, node: usize) -> Option<&mut Platter> {
        match &mut self.members[node] {
            Some(member) => member.disk(),
            None => self.platters[node].as_mut(),
        }
    }

    // ---- flushes ----

    pub(super) fn plan_flushes(&mut self, node: usize) {
        let World { members, net, plan, .. } = self;
        if let Some(disk) = members[node].as_mut().and_then(|member| member.disk()) {
            net.borrow_mut().plan_flushes(node, &mut disk.log, &plan.disks);
        }
    }

    pub(super) fn on_disk(&mut self, node: usize, life: u32) {
        if self.net.borrow().processes[node].life == life && self.complete_flush(node) {
            self.wake(node);
        }
    }

    /// Completes another flush of `node`. Returns whether one was complete.
    fn complete_flush(&mut self, node: usize) -> bool {
        let World { members, net, plan, .. } = self;
        let disk = members[node].as_mut().and_then(|member| member.disk());
        let Some(disk) = disk.filter(|disk| !disk.has_failed()) else { return false };
        let completed = net.borrow_mut().complete_flush(node, &mut disk.log, plan.pace);
        disk.note();
        let Ok(Completed { is_done, .. }) = completed else {
            disk.fail();
            self.wake(node);
            return false;
        };
        is_done
    }

    // ---- faults that end by themselves ----

    pub(super) fn strike_disk(&mut self, kind: Kind, node: usize, lasts: u64) {
        if kind == Kind::DiskRot {
            return self.rot(node, lasts);
        }
        // Some stand for seconds.
        let is_long = kind == Kind::DiskStall && self.outages.rng.chance(1, 4);
        let lasts = if is_long { MS * self.outages.rng.range(1000, 4000) } else { lasts };
        let World { members, net, outages, .. } = self;
        let Some(disk) = members[node].as_mut().and_then(|member| member.disk()) else { return };
        if kind == Kind::SyncFails && outages.rng.chance(1, 4) {
            disk.shelf.fails_next = true;
            return;
        }
        if !disk.log.strike(kind, lasts, &mut outages.rng) {
            return;
        }
        if kind == Kind::DiskStall {
            net.borrow_mut().coverage.hit(Mark::DiskStalled);
        }
        self.wake(node);
        self.push_in(lasts, Happening::Mend(Fault::Disk(node as u16)));
    }

    pub(super) fn release_disk(&mut self, node: usize) {
        if let Some(disk) = self.platter(node) {
            disk.log.mend();
            disk.shelf.fails_next = false;
        }
        while self.complete_flush(node) {}
        self.wake(node);
    }

    /// F2, and so I18: ends the process of `node` if its disk has failed. True if it did.
    pub(super) fn ends_failed(&mut self, node: usize) -> bool {
        let failed = self.members[node].as_ref().and_then(|member| member.failure());
        if failed.is_none() {
            return false;
        }
        self.crash(node);
        if self.phase == Phase::Safety {
            let soon = 1 + self.outages.rng.below(self.plan.fault_ns_max);
            self.push_in(soon, Happening::Mend(Fault::Crash(node as u16)));
        } else {
            self.restart(node);
        }
        true
    }

    // ---- damage ----

    /// Flips a bit. Its process dies, or finds the bit when it reads it.
    fn rot(&mut self, node: usize, lasts: u64) {
        if !self.is_alive(node) || !self.may_rot(node) {
            return;
        }
        let may_lose_log = self.seats.operator.is_some();
        let World { members, outages, .. } = self;
        let Some(disk) = members[node].as_mut().and_then(|member| member.disk()) else { return };
        if disk.rot(&mut outages.rng, may_lose_log) && outages.rng.chance(2, 3) {
            self.crash(node);
            self.push_in(lasts, Happening::Mend(Fault::Crash(node as u16)));
        }
    }

    /// F1. (What every disk holds is not judged of disks that are damaged.)
    fn may_rot(&mut self, node: usize) -> bool {
        let is_busy = self
            .seats
            .operator
            .as_ref()
            .is_some_and(|of| of.pursuit.is_some() || of.asked.is_some());
        let members = self.plan.members;
        let is_calm = !is_busy && !(0..members).any(|node| self.seats.is_haunted(node));
        if !is_calm || self.waits_for_all || self.phase != Phase::Safety {
            return false;
        }
        let rotten: Vec<bool> = (0..members).map(|node| self.is_rotten(node)).collect();
        let is_sound = |members: &Members, of: Rank| {
            votes(members, of, self.seats.incarnation(of.index())) && !rotten[of.index()]
        };
        !rotten[node] && self.seats.configurations.can_spare(Rank::at(node), is_sound)
    }

    fn is_rotten(&mut self, node: usize) -> bool {
        self.platter(node).is_some_and(|disk| disk.is_rotten())
    }

    /// Whether the disk of a member is damaged.
    pub(super) fn has_damage(&mut self) -> bool {
        (0..self.plan.members).any(|node| self.seats.sits(node) && self.is_rotten(node))
    }

    /// A seat of `members` whose process has said that its log is damaged.
    pub(super) fn damaged_seat(&self, members: &Members) -> Option<usize> {
        (0..self.plan.members).find(|seat| {
            let rank = Rank::at(*seat);
            let is_in = members.all().contains(rank)
                && members.incarnation(rank) == self.seats.incarnation(*seat);
            is_in && self.seats.seats[*seat].says_damaged
        })
    }

    /// Lets those that run on a damaged log find that out, since all is well from now on.
    pub(super) fn find_damage(&mut self, node: usize) {
        let is_unusable = self.platter(node).is_some_and(|disk| disk.log.is_unusable());
        if is_unusable && self.is_alive(node) {
            self.crash(node);
        }
    }

    /// F3: recovers what is on the disk of `node`. False if no process can start there.
    pub(super) fn revive(&mut self, node: usize, platter: &mut Platter) -> bool {
        // (A node of partitions has its states in its log.)
        let has_snapshots = self.kind.protocol.replicas().is_none();
        let revived = platter.revive(&mut self.net.borrow_mut().rng, has_snapshots);
        let is_unusable = platter.log.is_unusable();
        self.seats.seats[node].says_damaged = is_unusable;
        match revived {
            Ok(()) if is_unusable => {
                let detail = format!("r{node} starts on a damaged disk, and does not notice");
                self.violate(Property::Durability, detail);
                false
            }
            Err(Unusable::Damaged(_)) if is_unusable => {
                self.net.borrow_mut().coverage.hit(Mark::DamageFound);
                false
            }
            Err(Unusable::Damaged(detail) | Unusable::Broken(detail)) => {
                self.violate(Property::Durability, format!("r{node}: {detail}"));
                false
            }
            Ok(()) => {
                if platter.shelf.is_spoiled() {
                    self.net.borrow_mut().coverage.hit(Mark::DamageFound);
                }
                true
            }
        }
    }
}
