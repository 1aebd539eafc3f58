//! Faults and messages that are aimed, not drawn, at bugs that chance rarely meets.
//!
//! - A1 A process loses power after a message has left it, while its next record is under way
//!   (`recovery`).
//! - A2 A process hears nothing for a while, loses power, and comes back behind the others; then
//!   the primary changes to another member, and to it.
//! - A3 Messages go to chains of groups, each to two neighbours, and one group's clock is far
//!   ahead: no single group sees that an order closes to a ring.
//! - A4 Of every group as many fail at once as may, and no fewer: they die, or are away until
//!   faults stop.
//!
//! Each of A2 to A4 is left out in some seeds: bugs that another fault hides show then. All draws
//! are from separate generators: the rest of a seed stays unchanged.

use super::Config;
use super::plan::{Driver, Step, WILD_NS};
use super::world::{CLOCK_ORIGIN, MS};
use base::Rng;
use proto::amcast::wire::Wire;
use proto::amcast::{GroupId, GroupSet, Layout, Timestamp};

/// The lead of the clock of one group (A3), where clocks count messages.
const AHEAD: u64 = 10_000;
/// The lead where clocks follow time.
const AHEAD_NS: u64 = 20 * MS;

/// The aimed faults and messages of one seed.
pub(super) struct Aims {
    /// Whether there are any.
    is_on: bool,
    /// The generator of places and times.
    rng: Rng,
    /// A3: the generator of destinations, if messages go along a chain.
    chain: Option<Rng>,
    /// A3: the group whose clock a message will raise, and the timestamp.
    ahead: Option<(GroupId, Timestamp)>,
    /// A4: the time.
    edge: Option<u64>,
}

impl Aims {
    pub(super) fn draw(config: &Config, layout: &Layout, by_time: bool, seed: u64) -> Aims {
        let is_on = config.aimed;
        let mut kinds = Rng::new(seed ^ 0xa135);
        let group = GroupId::at(kinds.below(layout.n_groups() as u64) as usize);
        let at = if by_time { CLOCK_ORIGIN + AHEAD_NS } else { AHEAD };
        let chains = is_on && kinds.chance(1, 2);
        let chain = chains.then(|| kinds.clone().fork());
        let ahead = (chains && kinds.chance(3, 4)).then_some((group, Timestamp(at)));
        let edge = (is_on && kinds.chance(1, 2)).then(|| kinds.below(WILD_NS / 2));
        Aims { is_on, rng: Rng::new(seed ^ 0xbe1), chain, ahead, edge }
    }

    /// A3: the destinations of the next message, and the timestamp that it must exceed, if it is
    /// aimed.
    pub(super) fn next(&mut self, n_groups: usize) -> Option<(GroupSet, Timestamp)> {
        let rng = self.chain.as_mut()?;
        if let Some((group, after)) = self.ahead.take() {
            return Some((group.alone(), after));
        }
        if rng.chance(1, 4) {
            // The ends of a chain are messages to one group.
            let group = GroupId::at(rng.below(n_groups as u64) as usize);
            return Some((group.alone(), Timestamp::ZERO));
        }
        let first = rng.below(n_groups.max(2) as u64 - 1) as usize;
        let pair = (first..n_groups.min(first + 2)).map(GroupId::at).collect();
        Some((pair, Timestamp::ZERO))
    }
}

impl<W: Wire> Driver<W> {
    pub(super) fn plan_aims(&mut self) {
        if self.aims.is_on && self.world.recovery.is_some() {
            for _ in 0..self.aims.rng.range(1, 3) {
                let process = self.aims.rng.below(self.world.n_processes() as u64) as usize;
                let at = self.aims.rng.below(WILD_NS / 3);
                self.plan(at, Step::Ambush(process));
            }
        }
        if let Some(at) = self.aims.edge {
            self.plan(at, Step::Edge);
        }
    }

    /// Cuts the power of the ambushed processes, while faults last (A1).
    pub(super) fn spring_ambushes(&mut self) {
        let Some(recovery) = &mut self.world.recovery else { return };
        let ambushed = std::mem::take(&mut recovery.ambushed);
        let goes_on = !self.healed && self.world.now < WILD_NS - MS;
        for process in ambushed.into_iter().filter(|_| goes_on) {
            self.lose_power(process);
        }
    }

    /// A2.
    pub(super) fn ambush(&mut self, process: usize) {
        let now = self.world.now;
        let until = now + self.aims.rng.range(15, 40) * MS;
        let group = self.world.pid(process).group;
        self.cut_off(process, until, |of| of == group);
        let early = self.aims.rng.below(5 * MS);
        self.plan(until - early, Step::Strike(process));
        let others: Vec<usize> =
            self.alive(group).into_iter().filter(|other| *other != process).collect();
        let n_others = others.len() as u64;
        if n_others > 0 {
            let other = others[self.aims.rng.below(n_others) as usize];
            let at = until + self.aims.rng.below(40 * MS);
            self.plan(at.min(WILD_NS - 2), Step::Name(other));
            let at = at + self.aims.rng.range(1, 20) * MS;
            self.plan(at.min(WILD_NS - 1), Step::Name(process));
        }
    }

    /// Delays everything between a process and the others of these groups.
    fn cut_off(&mut self, process: usize, until: u64, is_of: impl Fn(GroupId) -> bool) {
        for other in 0..self.world.n_processes() {
            if other != process && is_of(self.world.pid(other).group) {
                self.world.cut(other, process, until);
                self.world.cut(process, other, until);
            }
        }
    }

    /// Tells every living member of the process's group that it leads.
    pub(super) fn name(&mut self, process: usize) {
        let pid = self.world.pid(process);
        for member in self.alive(pid.group) {
            let at = self.world.now + self.aims.rng.below(4 * MS);
            self.world.trust_at(at, member, pid.rank);
        }
    }

    /// A4.
    pub(super) fn go_to_the_edge(&mut self) {
        let groups: Vec<GroupId> = self.layout.groups().iter().collect();
        for group in groups {
            let mut alive = self.alive(group);
            let n_least = self.layout.quorum(group);
            while alive.len() > n_least {
                let process = alive.swap_remove(self.aims.rng.below(alive.len() as u64) as usize);
                if self.aims.rng.chance(1, 3) {
                    self.cut_off(process, WILD_NS, |_| true);
                } else {
                    self.crash(process);
                }
            }
        }
    }
}
