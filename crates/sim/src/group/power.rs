//! The disks of a durable group: their flushes, and the power of single processes and of all.
//!
//! - P1 *Only what was synced stays for sure.* A process that dies, and a host that loses its
//!   power, leave a prefix of what was written, which holds everything that was reported as synced
//!   (`disk`, I1 and I2). By construction: the disk is the one of all worlds.
//! - P2 *A durable group comes back.* Whatever happens, once every process is there again, and
//!   stays, the group is whole. Judged in `phases`.

use super::world::{World, knock};
use crate::Property;
use crate::coverage::Mark;
use crate::queue::{Fault, Happening};
use proto::vsync::Start;

impl World {
    pub(super) fn is_durable(&self) -> bool {
        self.history.is_durable
    }

    /// One process founds the group, and has its first view on its disk; the others join.
    pub(super) fn begin_on_disks(&mut self) {
        self.be_born(0, Start::Found(vec![knock(0, self.incarnation(1))]));
        self.on_run(0);
        while self.complete(0) {}
        for seat in 1..self.scenario.n_founders {
            self.be_born(seat, Start::Join);
        }
        self.set_out();
    }

    /// Plans the end of the flushes that the process on `seat` has asked for.
    pub(super) fn plan_flushes(&mut self, seat: usize) {
        let Some(disk) = self.disks.get_mut(seat) else { return };
        for _ in 0..disk.take_unplanned() {
            let disks = &self.scenario.plan.disks;
            let delay = disks.latency_ns + self.rng.below(disks.jitter_ns + 1);
            let life = self.net.borrow().processes[seat].life;
            self.push_in(delay, Happening::Disk { node: seat as u16, life });
        }
    }

    pub(super) fn on_disk(&mut self, seat: usize, life: u32) {
        let is_of_now = {
            let process = &self.net.borrow().processes[seat];
            process.alive && process.life == life
        };
        if is_of_now && self.complete(seat) {
            self.run_soon(seat);
        }
    }

    /// Completes a flush, unless the disk is held.
    fn complete(&mut self, seat: usize) -> bool {
        match self.disks[seat].complete() {
            Ok(is_done) => is_done,
            Err(_) => {
                self.violate(Property::Panic, "a sync failed that was not to".to_owned());
                false
            }
        }
    }

    pub(super) fn stall_disk(&mut self, seat: usize, lasts: u64) {
        if self.disks[seat].is_well() {
            self.net.borrow_mut().coverage.hit(Mark::DiskStalled);
            self.disks[seat].stall(false);
            self.push_in(lasts, Happening::Mend(Fault::Disk(seat as u16)));
        }
    }

    pub(super) fn release_disk(&mut self, seat: usize) {
        if !self.disks[seat].is_well() {
            self.disks[seat].mend();
            while self.is_alive(seat) && self.complete(seat) {}
            self.run_soon(seat);
        }
    }

    pub(super) fn lose_process(&mut self, seat: usize) {
        if let Some(disk) = self.disks.get_mut(seat) {
            disk.lose_process(&mut self.rng);
        }
    }

    /// The process on `seat` dies with its host.
    pub(super) fn cut_power(&mut self, seat: usize) {
        if self.is_alive(seat) {
            self.crash_for(seat);
        }
        if let Some(disk) = self.disks.get_mut(seat) {
            disk.lose_power(&mut self.rng);
        }
    }

    pub(super) fn cut_power_of_all(&mut self) {
        self.net.borrow_mut().coverage.hit(Mark::GroupWentDark);
        (0..self.n_seats()).for_each(|seat| self.cut_power(seat));
    }
}
