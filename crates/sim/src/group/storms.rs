//! The faults around a simulated group, and their end.
//!
//! - S1 a run that is not harsh kills a process only if every living member of the latest view is
//!   in it, and the rest are a majority of it with the state. What follows for mild runs is judged
//!   in `phases`. (What is aimed at proposers and installers may kill more.)

use super::process::Process;
use super::scenario::Manner;
use super::world::World;
use crate::plan::{Kind, MS};
use crate::queue::{Fault, Happening};
use crate::world::Phase;
use base::{Rank, SeatSet};

impl World {
    pub(super) fn on_strike(&mut self) {
        if self.phase != Phase::Safety || self.scenario.plan.kinds.is_empty() {
            return;
        }
        let plan = &self.scenario.plan;
        let rng = &mut self.outages.rng;
        let pause = 1 + rng.below(2 * plan.strike_every_ns);
        let kind = plan.kinds[rng.below(plan.kinds.len() as u64) as usize];
        let lasts = 1 + rng.below(plan.fault_ns_max);
        self.push_in(pause, Happening::Strike);
        self.strike(kind, lasts);
    }

    /// The seat of the first member of the latest view: it leads, if it is not suspected.
    pub(super) fn leader(&self) -> Option<usize> {
        Some(self.latest()?.members.first()?.seat().index())
    }

    fn strike(&mut self, kind: Kind, lasts: u64) {
        let at_leader = matches!(kind, Kind::CrashLeader | Kind::PauseLeader | Kind::Deaf);
        let any = self.outages.rng.below(self.n_seats() as u64) as usize;
        let seat = if at_leader { self.leader().unwrap_or(any) } else { any };
        match kind {
            Kind::Crash | Kind::CrashLeader if self.may_die(seat) => self.crash_for(seat),
            Kind::Pause | Kind::PauseLeader => self.pause_for(seat, lasts),
            Kind::PowerCut if self.may_die(seat) => self.cut_power(seat),
            Kind::PowerCutAll => self.cut_power_of_all(),
            Kind::DiskStall => self.stall_disk(seat, lasts),
            _ => self.outages.strike(&mut self.net.borrow_mut(), kind, seat, lasts),
        }
    }

    /// S1.
    pub(super) fn may_die(&self, seat: usize) -> bool {
        if !self.is_alive(seat) {
            return false;
        }
        let is_harsh = self.scenario.manner == Manner::Harsh;
        let Some(latest) = self.latest().filter(|_| !is_harsh) else { return true };
        let rest = self.living().filter(|one| latest.has(&one.knock)).map(|one| one.knock.seat);
        let rest: SeatSet = rest.filter(|other| *other != Rank::at(seat)).collect();
        self.are_all_there() && latest.is_majority(rest)
    }

    /// Whether every living member of the latest view is in it, with the state, and no change is
    /// under way.
    pub(super) fn are_all_there(&self) -> bool {
        let Some(latest) = self.latest() else { return false };
        let is_there = |one: &Process| {
            let is_in = one.view().is_some_and(|view| view.id == latest.id);
            is_in && one.is_ready() && !one.is_wedged()
        };
        self.living().filter(|one| latest.has(&one.knock)).all(is_there)
    }

    pub(super) fn crash_for(&mut self, seat: usize) {
        self.crash(seat);
        self.start_later(seat);
    }

    pub(super) fn pause_for(&mut self, seat: usize, lasts: u64) {
        if !self.outages.is_paused(seat) {
            self.outages.pause(&mut self.net.borrow_mut(), seat);
            self.push_in(lasts, Happening::Mend(Fault::Pause(seat as u16)));
        }
    }

    // ---- mending ----

    pub(super) fn mend(&mut self, fault: Fault) {
        match fault {
            Fault::Crash(seat) => return self.start(seat as usize),
            Fault::Disk(seat) => return self.release_disk(seat as usize),
            _ => {}
        }
        self.outages.mend(&mut self.net.borrow_mut(), fault);
    }

    /// Ends all faults.
    pub(super) fn heal(&mut self) {
        let n_seats = self.n_seats();
        (0..self.disks.len()).for_each(|seat| self.release_disk(seat));
        self.processes.iter_mut().flatten().for_each(|process| process.is_slow = false);
        let net = &mut *self.net.borrow_mut();
        net.weather.clear_up();
        self.outages.unite(net);
        (0..n_seats * n_seats).for_each(|wire| self.outages.repair_wire(net, wire));
        for seat in 0..n_seats {
            self.outages.resume(net, seat);
            let now = net.now();
            net.processes[seat].effort = 500;
            net.processes[seat].clock.run_at(now, crate::clock::TRUE_RATE);
            net.arm_run(seat, now);
            // What a durable group needs may be on any disk.
            let founds = seat < self.scenario.n_founders || self.history.is_durable;
            let founds = founds && !net.processes[seat].alive;
            if founds && self.awaited.insert(Rank::at(seat)) {
                net.queue.push(now + 50 * MS, Happening::Mend(Fault::Crash(seat as u16)));
            }
        }
    }
}
