//! What the application and its operator do: multicast, leave, suspect, start processes.

use super::process::Process;
use super::scenario::Manner;
use super::world::World;
use crate::queue::Happening;
use crate::world::Phase;
use base::Rank;

/// The most messages of a run's first phase, times the seats: a message costs the square of those.
const N_MESSAGES_MAX: u64 = 1200;
/// The mean time between two acts when all is well.
const CALM_NS: u64 = 5 * crate::plan::MS;

impl World {
    pub(super) fn on_operate(&mut self) {
        match self.phase {
            Phase::Safety => self.act(),
            Phase::Liveness if self.quiet_until.is_none() => self.multicast(2),
            Phase::Healing | Phase::Liveness | Phase::Over => {}
        }
        self.read_by_lease();
        self.make_short();
        let seat = self.rng_of_news.below(self.n_seats() as u64) as usize;
        if self.rng_of_news.chance(1, 8) {
            self.inform(seat);
        }
        let mean = if self.phase == Phase::Safety { self.scenario.act_every_ns } else { CALM_NS };
        let pause = 1 + self.rng.below(2 * mean);
        self.push_in(pause, Happening::Operate);
        self.finish_early();
    }

    fn act(&mut self) {
        let seat = self.rng.below(self.n_seats() as u64) as usize;
        let mut dice = self.rng.below(256);
        let mut is = |n: u64| {
            let hit = dice < n;
            dice = dice.saturating_sub(n);
            hit
        };
        let (leaves, suspects, starts) = (
            is(self.scenario.n_leaves),
            is(self.scenario.n_suspicions),
            is(self.scenario.n_starts),
        );
        if leaves && self.may_leave(seat) {
            self.with(seat, |process, record| process.leave(record));
            self.run_soon(seat);
        } else if suspects {
            let other = Rank::at(self.rng.below(self.n_seats() as u64) as usize);
            self.with(seat, |process, _| process.suspect(other));
            self.run_soon(seat);
        } else if starts && !self.awaited.contains(Rank::at(seat)) {
            self.start(seat);
        } else {
            let n = 1 + self.rng.below(self.scenario.n_burst);
            let n_most = N_MESSAGES_MAX / self.n_seats() as u64;
            let room = n_most.saturating_sub(self.n_messages);
            self.multicast(n.min(room));
        }
    }

    /// In a mild run a member leaves while all is well, and not as the last one that stays: of
    /// members that all want to leave none is left for a process that knocks. A process that is
    /// outside does not: it would be dead, and its knock on its way.
    fn may_leave(&self, seat: usize) -> bool {
        let is_in = |one: &&Process| one.view().is_some();
        let stays = |one: &Process| one.knock.seat.index() != seat && !self.has_asked_to_leave(one);
        self.scenario.manner != Manner::Mild
            || self.processes[seat].as_ref().as_ref().is_some_and(is_in)
                && self.living().filter(is_in).any(stays)
                && self.are_all_there()
    }

    fn multicast(&mut self, n: u64) {
        let seat = self.rng.below(self.n_seats() as u64) as usize;
        self.n_messages += n;
        let subgroup = self.rng_of_layout.below(self.scenario.shape.n_subgroups as u64) as usize;
        for _ in 0..n {
            let n_ballast = self.rng.below(200);
            self.with(seat, |process, record| {
                if !process.is_silent && !record.asked_to_leave {
                    process.multicast(subgroup, n_ballast, record);
                }
            });
        }
        self.run_soon(seat);
    }

    /// Reads come, at members that may be cut off or excluded.
    fn read_by_lease(&mut self) {
        if self.scenario.lease.is_none() || self.phase == Phase::Over {
            return;
        }
        self.cut_readers_off();
        let seats = [0, 1].map(|_| self.rng_of_reads.below(self.processes.len() as u64) as usize);
        for seat in seats.into_iter().chain(self.readers.clone()) {
            let rng = &mut self.rng_of_reads;
            let subgroup = rng.below(self.scenario.shape.n_subgroups as u64) as usize;
            self.with(seat, |process, _| process.read(subgroup));
            self.run_soon(seat);
        }
    }

    pub(super) fn run_soon(&self, seat: usize) {
        let net = &mut *self.net.borrow_mut();
        let now = net.now();
        net.arm_run(seat, now);
    }
}
