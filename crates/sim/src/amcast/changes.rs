//! The operator's work on groups in one seed: it replaces dead members, removes living ones, and
//! seats new ones there again.

use super::plan::{Driver, Step, WILD_NS};
use super::world::{MS, World};
use proto::amcast::wire::Wire;

/// The interval at which the operator checks whether its requests are done.
const OPERATES_EVERY_NS: u64 = 5 * MS;

/// A time after now by `later`, while there are faults.
pub(super) fn now_plus<W>(world: &World<W>, later: u64) -> u64 {
    (world.now + later).min(WILD_NS - 1)
}

impl<W: Wire> Driver<W> {
    pub(super) fn plan_changes(&mut self) {
        let n = if self.operator.chance(1, 4) { 0 } else { self.operator.range(1, 6) };
        for _ in 0..n {
            let at = self.operator.below(WILD_NS * 3 / 4);
            self.plan(at, Step::Remove);
        }
        self.plan(OPERATES_EVERY_NS, Step::Operate);
    }

    /// Seats a newcomer in place of a dead process.
    pub(super) fn renew(&mut self, process: usize) {
        if self.world.is_alive(process) {
            return;
        }
        self.world.renew(process);
        let eligible = self.eligible(self.world.pid(process).group);
        if !eligible.is_empty() {
            let pick = eligible[self.operator.below(eligible.len() as u64) as usize];
            let (at, leader) = (self.world.now, self.world.pid(pick).rank);
            self.world.trust_at(at, process, leader);
        }
    }

    /// Removes a member that may live. If it leads, another has to first.
    pub(super) fn remove(&mut self, process: usize) {
        if !self.world.ask_for_removal(process) {
            return;
        }
        let group = self.world.pid(process).group;
        let mut eligible = self.eligible(group);
        eligible.retain(|at| *at != process);
        if eligible.is_empty() {
            return;
        }
        let pick = eligible[self.operator.below(eligible.len() as u64) as usize];
        let leader = self.world.pid(pick).rank;
        if self.world.machine(process).is_primary() || self.operator.chance(1, 4) {
            for member in self.alive(group) {
                let at = self.world.now + self.operator.below(10 * MS);
                self.world.trust_at(at, member, leader);
            }
        }
    }

    /// Repeats requests that are not done, and seats a newcomer where a living member was removed.
    pub(super) fn operate(&mut self) {
        self.world.repeat_removals();
        if self.healed {
            return self.plan_next_operation();
        }
        for process in 0..self.world.n_processes() {
            let is_out = self.world.is_alive(process) && self.world.machine(process).has_parted();
            if is_out && self.operator.chance(1, 4) {
                self.world.crash(process);
                self.renew(process);
            }
        }
        self.plan_next_operation();
    }

    fn plan_next_operation(&mut self) {
        let busy = self.layout.groups().iter().any(|group| self.world.is_removing(group));
        if !self.healed || busy {
            let at = self.world.now + OPERATES_EVERY_NS;
            self.plan(at, Step::Operate);
        }
    }
}
