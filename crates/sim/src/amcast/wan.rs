//! Atomic multicast over a wide area, in virtual time: the convoy effect (the thesis's table 4.1
//! and figures 4.3 to 4.5, 4.4.1).
//!
//! There are eight groups of three. Links take half of the round trips of table 4.1, off by a
//! normal deviation of 5 % that is drawn again for every link every few milliseconds. Processors
//! and networks cost nothing: a message waits only for other messages, which is the convoy effect,
//! and only the clients' requests limit the load.
//!
//! A client sits beside each process. It multicasts to the group of its own process and to others
//! at random; its message is complete when its own process delivers it.

use super::history::Happened;
use super::process;
use super::world::{MS, Weather, World};
use base::Rng;
use core::time::Duration;
use proto::amcast::linear::Rule;
use proto::amcast::wire::Wire;
use proto::amcast::{Config, Footprint, GroupId, GroupSet, Layout, Message, MessageId};
use proto::registry::{MulticastProtocol, MulticastSpec, MulticastVisitor};

/// The number of groups in the thesis's deployment.
pub const GROUPS: usize = 8;
/// The number of members of each.
pub const MEMBERS: usize = 3;
/// The largest error of a clock: a tenth of a step between regions would be 4.5 ms, as the thesis
/// assumes it; data centers attest a millisecond and less.
pub const CLOCK_ERROR_NS: u64 = MS;
/// The interval at which links are drawn again.
const REDRAW_NS: u64 = 10 * MS;
/// The patience, which never ends: nothing is lost.
const PATIENCE: Duration = Duration::from_secs(10);

/// The places of the members: two lines of table 4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// Three regions (round trips of 60, 76 and 130 ms), a member of each group in each; the
    /// primaries share one.
    Colocated,
    /// Eight regions 90 ms apart, a group in each, its members 30 ms apart.
    Distributed,
}

impl Scenario {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Scenario::Colocated => "colocated",
            Scenario::Distributed => "distributed",
        }
    }

    /// The time of a message from (group, member) to (group, member), in microseconds.
    const fn delay_us(self, from: (usize, usize), to: (usize, usize)) -> u64 {
        const NEAR: u64 = 45;
        match self {
            Scenario::Colocated => match (from.1, to.1) {
                (0, 1) | (1, 0) => 30_000,
                (1, 2) | (2, 1) => 38_000,
                (0, 2) | (2, 0) => 65_000,
                _ => NEAR,
            },
            Scenario::Distributed if from.0 != to.0 => 45_000,
            Scenario::Distributed if from.1 != to.1 => 15_000,
            Scenario::Distributed => NEAR,
        }
    }
}

/// The rate at which clients multicast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Each client has a fixed number of messages under way.
    Closed {
        /// The number.
        outstanding: usize,
    },
    /// All clients together multicast at a fixed rate, at random moments.
    Open {
        /// The number of messages a second.
        per_s: f64,
    },
}

/// The settings of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The scenario.
    pub scenario: Scenario,
    /// The protocol.
    pub protocol: MulticastProtocol,
    /// The rule for the order across groups.
    pub rule: Rule,
    /// Whether timestamps follow the real clocks (4.4.1).
    pub hybrid: bool,
    /// Whether no two messages conflict (4.4.3).
    pub commutes: bool,
    /// The number of groups of a message.
    pub destinations: usize,
    /// The rate.
    pub pace: Pace,
    /// The virtual nanoseconds before the measurement.
    pub warm_up_ns: u64,
    /// The virtual nanoseconds of the measurement.
    pub span_ns: u64,
    /// The seed, which decides everything else.
    pub seed: u64,
}

/// The measurements.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The times from multicast to delivery at the client's own process, of each message that was
    /// multicast within the span and delivered.
    pub latency_ns: Vec<u64>,
    /// The number of messages that were delivered at their client's process within the span.
    pub completed: u64,
    /// The number of messages between processes.
    pub sent: u64,
}

/// Runs a measurement.
pub fn measure(setting: &Setting) -> Seen {
    struct Measure<'a>(&'a Setting);
    impl MulticastVisitor for Measure<'_> {
        type Output = Seen;

        fn visit<S: MulticastSpec>(self) -> Seen {
            Clients::new(&process::protocol::<S>(None), self.0).run()
        }
    }
    setting.protocol.visit(Measure(setting))
}

struct Clients<W> {
    setting: Setting,
    world: World<W>,
    rng: Rng,
    sequences: Vec<u64>,
    /// The number of history entries that were examined.
    n_seen: usize,
    seen: Seen,
}

impl<W: Wire> Clients<W> {
    fn new(protocol: &process::Protocol<W>, setting: &Setting) -> Clients<W> {
        let mut rng = Rng::new(setting.seed);
        let config = Config {
            layout: Layout::new(&[MEMBERS; GROUPS]),
            rule: setting.rule,
            hybrid: setting.hybrid,
            patience: PATIENCE,
            commutes: setting.commutes,
            part_bytes: 64 << 10,
            retain: 1000,
            retain_bytes: usize::MAX,
        };
        let n = GROUPS * MEMBERS;
        let mut world = World::new(protocol, &config, n, Weather::Exact(0), rng.fork());
        let skews: Vec<Option<i64>> = (0..n)
            .map(|_| Some(rng.range(0, 2 * CLOCK_ERROR_NS) as i64 - CLOCK_ERROR_NS as i64))
            .collect();
        world.set_clocks(CLOCK_ERROR_NS, &skews);
        let sequences = vec![0; n];
        Clients { setting: *setting, world, rng, sequences, n_seen: 0, seen: Seen::default() }
    }

    fn run(mut self) -> Seen {
        let n = self.sequences.len();
        let Setting { pace, warm_up_ns, span_ns, .. } = self.setting;
        self.redraw();
        for client in 0..n {
            match pace {
                Pace::Closed { outstanding } => {
                    for _ in 0..outstanding {
                        // The clients start spread over the time of a message, or all would move in
                        // step for ever.
                        let at = self.rng.below(150 * MS);
                        self.world.plan(at, client);
                    }
                }
                Pace::Open { .. } => self.plan_next(client),
            }
        }
        // Messages that were multicast within the span are waited for, or the slowest would not
        // count.
        let end = warm_up_ns + span_ns;
        let limit = end + 2_000 * MS;
        while let Ok(step) = self.world.step(limit) {
            match step {
                Some(client) if client < n => self.send(client, end),
                Some(_) => self.redraw(),
                None => {}
            }
            self.look(end);
        }
        self.seen.sent = self.world.counts.sent;
        self.seen
    }

    /// Draws the delay of every link for the next milliseconds.
    fn redraw(&mut self) {
        let n = self.sequences.len();
        for from in 0..2 * n {
            for to in 0..n {
                let place = |process: usize| (process / MEMBERS, process % MEMBERS);
                let exact = self.setting.scenario.delay_us(place(from % n), place(to)) * 1_000;
                let delay = drawn(exact, &mut self.rng);
                let delay = if from % n == to { 0 } else { delay };
                self.world.fix_delay(from, to, delay);
            }
        }
        let at = self.world.now + REDRAW_NS;
        self.world.plan(at, n);
    }

    /// Plans the next message of an open loop, at a time that does not depend on any other.
    fn plan_next(&mut self, client: usize) {
        let Pace::Open { per_s } = self.setting.pace else { return };
        let mean_ns = 1e9 * self.sequences.len() as f64 / per_s;
        let uniform = (self.rng.below(1 << 32) + 1) as f64 / (1_u64 << 32) as f64;
        let at = self.world.now + (-uniform.ln() * mean_ns) as u64;
        self.world.plan(at, client);
    }

    fn send(&mut self, client: usize, end: u64) {
        if self.world.now >= end {
            return;
        }
        let sequence = self.sequences[client];
        self.sequences[client] += 1;
        let id = MessageId { sender: client as u64, sequence };
        let mut dest = GroupId::at(client / MEMBERS).alone();
        while dest.len() < self.setting.destinations {
            dest.insert(GroupId::at(self.rng.below(GROUPS as u64) as usize));
        }
        let dest: GroupSet = dest;
        let footprint = if self.setting.commutes { Footprint::NONE } else { Footprint::ALL };
        let message = Message { footprint, ..Message::new(id, dest, *b"") };
        self.world.multicast(client, message, false);
        self.plan_next(client);
    }

    /// Examines the deliveries to their own clients.
    fn look(&mut self, end: u64) {
        let begin = self.setting.warm_up_ns;
        while let Some((at, happened)) = self.world.history.happened.get(self.n_seen) {
            self.n_seen += 1;
            let Happened::Delivered { by, id, .. } = happened else { continue };
            let client = id.sender as usize;
            if by.group.index() * MEMBERS + by.rank.index() != client {
                continue;
            }
            let since = self.world.history.meant[id].at_ns;
            self.seen.completed += u64::from((begin..end).contains(at));
            if (begin..end).contains(&since) {
                self.seen.latency_ns.push(at - since);
            }
            if let Pace::Closed { .. } = self.setting.pace {
                self.world.plan(self.world.now, client);
            }
        }
        self.world.news.clear();
    }
}

/// The delay of a link for some milliseconds: `exact_ns`, off by a normal deviation of 5 %, as
/// twelve dice give it.
fn drawn(exact_ns: u64, rng: &mut Rng) -> u64 {
    // Their sum is 5,994 on average, with a deviation of 1,000.
    let dice: u64 = (0..12).map(|_| rng.below(1_000)).sum();
    exact_ns * (20_000 + dice - 6_000) / 20_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_of_a_link_deviate_by_five_percent() {
        let (exact, n, mut rng) = (50_000_000, 10_000, Rng::new(1));
        let delays: Vec<f64> = (0..n).map(|_| drawn(exact, &mut rng) as f64).collect();
        let mean = delays.iter().sum::<f64>() / f64::from(n);
        let square = delays.iter().map(|delay| (delay - mean).powi(2)).sum::<f64>() / f64::from(n);
        let (off, deviation) = (mean / exact as f64 - 1.0, square.sqrt() / exact as f64);
        assert!(off.abs() < 0.01, "the mean is off by {off}");
        assert!((0.045..0.055).contains(&deviation), "{deviation}");
    }
}
