//! Disks: the completion of their flushes, and their faults.
//!
//! - I1 At most a minority of the disks is damaged in a run: a majority's content is safe, and so
//!   is everything acknowledged. Where members change: at most one voter's at a time (the
//!   operator's I1).

use crate::Provider;
use crate::coverage::Mark;
use crate::plan::{Kind as FaultKind, MS};
use crate::queue::{Fault, Happening};
use crate::world::flushes::Completed;
use crate::world::{Phase, World};
use base::{Ballot, majority};

impl World {
    pub(crate) fn strike_disks(&mut self, kind: FaultKind, node: usize, lasts: u64) {
        let until = self.net.now() + lasts;
        match kind {
            FaultKind::PowerCut if self.net.processes[node].alive => {
                self.crash(node);
                self.lose_power(node);
                self.fault_ends(until, Fault::Crash(node as u16));
            }
            FaultKind::Relapse if self.net.processes[node].alive => {
                self.crash(node);
                let rng = &mut self.net.rng;
                let back = 1 + rng.below(5 * MS);
                let disks = &self.plan.disks;
                let cut = back + rng.below(4 * (disks.latency_ns + disks.jitter_ns));
                let now = self.net.now();
                self.fault_ends(now + back, Fault::Crash(node as u16));
                self.net.queue.push(now + cut, Happening::PowerCut(node as u16));
            }
            FaultKind::PowerCutAll => {
                for node in 0..self.plan.members {
                    if self.net.processes[node].alive {
                        self.crash(node);
                        // They come back one by one, and not all of them soon.
                        let at = self.net.now() + 1 + self.net.rng.below(lasts);
                        self.fault_ends(at, Fault::Crash(node as u16));
                    }
                }
                self.net.coverage.hit(Mark::PowerCutAll);
                self.hit_amid_change(Mark::PowerCutAllAmidChange);
                for node in 0..self.plan.members {
                    self.lose_power(node);
                    // No message is on its way any longer, and no memory has content.
                    for peer in 0..self.plan.members {
                        let out = self.net.link_index(node, peer);
                        self.net.links[out].orphan(0);
                    }
                    self.net.clear_region(node);
                }
            }
            FaultKind::DiskStall | FaultKind::DiskFull | FaultKind::SyncFails => {
                self.ail(kind, node, lasts);
            }
            FaultKind::DiskRot if self.net.processes[node].alive && self.may_rot(node) => {
                self.rot(node, until);
            }
            _ => {}
        }
    }

    /// Begins a fault that ends by itself.
    fn ail(&mut self, kind: FaultKind, node: usize, lasts: u64) {
        let World { disks, net, .. } = self;
        let can_be = kind != FaultKind::SyncFails || net.processes[node].alive;
        if !can_be || !disks[node].strike(kind, lasts, &mut net.rng) {
            return;
        }
        if kind == FaultKind::DiskStall {
            self.net.coverage.hit(Mark::DiskStalled);
            self.hit_amid_change(Mark::DiskStalledAmidChange);
            if !self.disks[node].events.is_empty() {
                self.net.arm_run(node, self.net.now());
            }
        }
        self.fault_ends(self.net.now() + lasts, Fault::Disk(node as u16));
    }

    /// Cuts the power, as the second part of a relapse.
    pub(crate) fn on_power_cut(&mut self, node: usize) {
        if self.phase == Phase::Safety {
            let all = self.plan.weather.provider == Provider::Shm;
            let kind = if all { FaultKind::PowerCutAll } else { FaultKind::PowerCut };
            let lasts = 1 + self.net.rng.below(self.plan.fault_ns_max);
            self.strike_disks(kind, node, lasts);
        }
    }

    fn lose_power(&mut self, node: usize) {
        self.net.coverage.hit(Mark::PowerCut);
        self.disks[node].lose_power(&mut self.net.rng);
    }

    /// Flips a bit and kills the process: the next one finds out.
    fn rot(&mut self, node: usize, until: u64) {
        let known = self.machines[node].as_ref().map(|machine| machine.status().ballot);
        if self.disks[node].rot(&mut self.net.rng, known.unwrap_or(Ballot::NONE)) {
            self.crash(node);
            self.fault_ends(until, Fault::Crash(node as u16));
        }
    }

    /// I1.
    fn may_rot(&self, node: usize) -> bool {
        if self.subject.has_operator {
            return self.can_spare(node);
        }
        let n_rotten = self.disks.iter().filter(|disk| disk.is_rotten()).count();
        n_rotten + 1 + majority(self.plan.members) <= self.plan.members
    }

    /// Makes the disk of `node` work again.
    pub(crate) fn release_disk(&mut self, node: usize) {
        if !self.disks[node].is_well() {
            self.disks[node].mend();
            while self.complete(node) {}
            self.plan_step(node);
            self.net.arm_run(node, self.net.now());
        }
    }

    // ---- flushes ----

    /// Plans the end of the flushes that `node` has just requested.
    pub(crate) fn plan_flushes(&mut self, node: usize) {
        let World { disks, net, plan, .. } = self;
        net.plan_flushes(node, &mut disks[node], &plan.disks);
    }

    /// Completes a flush, unless the disk is held: then all complete when it is released.
    pub(crate) fn on_disk(&mut self, node: usize, life: u32) {
        let process = &self.net.processes[node];
        if !process.alive || process.life != life {
            return;
        }
        if self.complete(node) {
            self.net.arm_run(node, self.net.now());
        }
    }

    /// Completes another flush of `node`. Returns whether one was complete.
    fn complete(&mut self, node: usize) -> bool {
        let World { disks, net, plan, .. } = self;
        let Ok(Completed { is_done, fills }) =
            net.complete_flush(node, &mut disks[node], plan.pace)
        else {
            // The disk's content is unknown now. The next life finds out.
            self.hit_amid_change(Mark::SyncFailedAmidChange);
            self.crash(node);
            let back = 1 + self.net.rng.below(self.plan.fault_ns_max);
            self.fault_ends(self.net.now() + back, Fault::Crash(node as u16));
            return false;
        };
        if fills {
            self.hit_amid_change(Mark::DiskFullAmidChange);
        }
        is_done
    }
}
