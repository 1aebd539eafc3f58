//! Schedules set by hand: every link takes one unit of time unless it is set otherwise.

use super::checks::{Promised, Violation, judge, judge_realtime};
use super::history::Happened;
use super::process::{Process, WireOf, protocol};
use super::world::{MS, Weather, World};
use base::{Rank, Rng};
use core::time::Duration;
use proto::amcast::bugs::Bug;
use proto::amcast::linear::Rule;
use proto::amcast::{Config, Cut, GroupId, GroupSet, Layout, Message, MessageId, Pid, Timestamp};
use proto::registry::MulticastSpec;

const UNIT: u64 = MS;
const N_SENDERS: usize = 8;
/// The number of delivered messages that a process keeps for others in a script.
pub const RETAIN: usize = 8;

/// A world stepped by hand. A message is named by its number.
pub struct Script<S: MulticastSpec> {
    world: World<WireOf<S>>,
    layout: Layout,
}

/// A set of groups, by their numbers.
pub fn groups(of: &[usize]) -> GroupSet {
    of.iter().map(|group| GroupId::at(*group)).collect()
}

/// A process, by the numbers of its group and its seat there.
pub fn pid(group: usize, rank: usize) -> Pid {
    Pid { group: GroupId::at(group), rank: Rank::at(rank) }
}

impl<S: MulticastSpec> Script<S> {
    /// Groups of these sizes.
    pub fn new(sizes: &[usize], rule: Rule) -> Script<S> {
        Script::planted(None, sizes, rule)
    }

    /// The same, of machines with this bug.
    pub fn planted(bug: Option<Bug>, sizes: &[usize], rule: Rule) -> Script<S> {
        let layout = Layout::new(sizes);
        let config = Config {
            layout: layout.clone(),
            rule,
            hybrid: false,
            patience: Duration::from_nanos(1000 * UNIT),
            commutes: false,
            part_bytes: 64 << 10,
            retain: RETAIN,
            retain_bytes: usize::MAX,
        };
        let protocol = protocol::<S>(bug);
        let weather = Weather::Exact(UNIT);
        let world = World::new(&protocol, &config, N_SENDERS, weather, Rng::new(1));
        Script { world, layout }
    }

    /// Multicasts message `number` now.
    pub fn multicast(&mut self, number: u64, dest: &[usize]) {
        self.multicast_slowly(number, dest, &[]);
    }

    /// The same, with a number of units to each of these groups.
    pub fn multicast_slowly(&mut self, number: u64, dest: &[usize], slow: &[(usize, u64)]) {
        let sender = number as usize % N_SENDERS;
        for to in 0..self.world.n_processes() {
            let group = self.world.pid(to).group.index();
            let units = slow.iter().find(|(of, _)| *of == group).map_or(1, |(_, units)| *units);
            self.world.fix_delay(self.world.n_processes() + sender, to, units * UNIT);
        }
        let id = MessageId { sender: sender as u64, sequence: number };
        let message = Message::new(id, groups(dest), number.to_le_bytes());
        self.world.multicast(sender, message, false);
    }

    /// Sets the units from one group's processes to another's.
    pub fn slow(&mut self, from: usize, to: usize, units: u64) {
        for a in 0..self.world.n_processes() {
            for b in 0..self.world.n_processes() {
                let (of_a, of_b) = (self.world.pid(a).group, self.world.pid(b).group);
                if of_a.index() == from && of_b.index() == to {
                    self.world.fix_delay(a, b, units * UNIT);
                }
            }
        }
    }

    /// Sets the units from one process to another.
    pub fn slow_link(&mut self, from: Pid, to: Pid, units: u64) {
        let (from, to) = (self.world.index(from), self.world.index(to));
        self.world.fix_delay(from, to, units * UNIT);
    }

    /// Lets this number of units pass.
    pub fn pass(&mut self, units: u64) {
        let until = self.world.now + units * UNIT;
        while self.world.step(until).is_ok() {}
        self.world.now = until;
    }

    /// Asks all processes for a snapshot at `at`.
    pub fn cut(&mut self, at: Timestamp) {
        self.world.cut_all(at);
    }

    /// The results of a process's snapshots.
    pub fn cuts(&self, process: Pid) -> Vec<(Timestamp, Cut)> {
        let of = |(_, happened): &(u64, Happened)| match happened {
            Happened::Cut { by, at, is_exact } if *by == process => {
                Some((*at, if *is_exact { Cut::Exact } else { Cut::Missed }))
            }
            _ => None,
        };
        self.world.history.happened.iter().filter_map(of).collect()
    }

    /// Kills a process.
    pub fn crash(&mut self, process: Pid) {
        let at = self.world.index(process);
        self.world.crash(at);
    }

    /// Lets Ω name `leader` at one process.
    pub fn trust_by(&mut self, process: Pid, leader: usize) {
        let at = self.world.index(process);
        self.world.trust_at(self.world.now, at, Rank::at(leader));
    }

    /// Lets Ω name `leader` at every living member of a group.
    pub fn trust(&mut self, group: usize, leader: usize) {
        for rank in Rank::all(self.layout.members(GroupId::at(group))) {
            let process = self.world.index(Pid { group: GroupId::at(group), rank });
            self.world.trust_at(self.world.now, process, Rank::at(leader));
        }
    }

    /// The number of messages that a process remembers.
    pub fn n_held(&self, process: Pid) -> Option<usize> {
        self.machine(process).n_held()
    }

    /// The number of times that a member which had fallen behind got a state.
    pub fn n_states(&self) -> u64 {
        self.world.counts.states
    }

    /// The deliveries of a process, in its order.
    pub fn order(&self, process: Pid) -> Vec<u64> {
        let of = self.world.history.deliveries();
        of.get(&process).into_iter().flatten().map(|(id, _)| id.sequence).collect()
    }

    /// The time of a delivery at a process, in units from the multicast.
    pub fn steps(&self, process: Pid, number: u64) -> Option<f64> {
        self.world.history.happened.iter().find_map(|(at, happened)| match happened {
            Happened::Delivered { by, id, .. } if *by == process && id.sequence == number => {
                let meant = self.world.history.meant[id];
                Some((at - meant.at_ns) as f64 / UNIT as f64)
            }
            _ => None,
        })
    }

    /// Whether a process takes itself for the leader of its group.
    pub fn is_primary(&self, process: Pid) -> bool {
        self.machine(process).is_primary()
    }

    /// The timestamp up to which every message to a process's group has been delivered there, if
    /// its protocol can tell.
    pub fn safe_ts(&self, process: Pid) -> Option<Timestamp> {
        self.machine(process).safe_ts()
    }

    fn machine(&self, process: Pid) -> &dyn Process<WireOf<S>> {
        self.world.machine(self.world.index(process))
    }

    /// Checks every property but atomic global order.
    ///
    /// # Errors
    /// The first that does not hold.
    pub fn judge(&self) -> Result<(), Violation> {
        judge(&self.world.history, Promised { genuine: false, realtime: false })
    }

    /// Checks atomic global order.
    ///
    /// # Errors
    /// The cycle.
    pub fn judge_realtime(&self) -> Result<(), Violation> {
        judge_realtime(&self.world.history)
    }
}
