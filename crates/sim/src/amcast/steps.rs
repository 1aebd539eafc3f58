//! Communication steps, counted exactly: every link takes one unit, nothing else takes time.

use super::history::Happened;
use super::process::{self, Protocol};
use super::world::{MS, Weather, World};
use base::Rng;
use core::time::Duration;
use proto::amcast::linear::Rule;
use proto::amcast::wire::Wire;
use proto::amcast::{Config, Footprint, GroupId, GroupSet, Layout, Message, MessageId};
use proto::registry::{MulticastProtocol, MulticastSpec, MulticastVisitor};

const UNIT: u64 = MS;
/// The number of senders.
const N_SENDERS: u64 = 8;
/// The units within which everything is multicast in a colliding schedule.
const WINDOW: u64 = 8;
/// The longest time of anything, or the measurement is void.
const LIMIT: u64 = 200;

/// The settings of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Bench {
    /// The rule for the order across groups.
    pub rule: Rule,
    /// The number of groups.
    pub groups: usize,
    /// The number of members of each.
    pub members: usize,
    /// The number of schedules.
    pub schedules: u64,
    /// Whether timestamps follow real clocks (4.4.1).
    pub hybrid: bool,
    /// Whether no two messages conflict (4.4.3).
    pub commutes: bool,
    /// The error of the clocks, in hundredths of a step.
    pub clock_error: u64,
}

impl Bench {
    /// A measurement with logical clocks; real ones, where a rule needs them, are off by less than
    /// half a step in all, as commit-wait assumes.
    pub const fn new(rule: Rule, groups: usize, members: usize, schedules: u64) -> Bench {
        Bench { rule, groups, members, schedules, hybrid: false, commutes: false, clock_error: 25 }
    }
}

/// The steps from a message's multicast to its delivery, at every addressed process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Steps {
    /// The most at any destination, for a message to several groups that is alone in the system.
    pub collision_free: f64,
    /// The least at any destination, for the same message.
    pub collision_free_least: f64,
    /// The most at any destination, among concurrent messages.
    pub failure_free: f64,
    /// The number of deliveries examined.
    pub n_deliveries: u64,
}

/// Measures over random schedules.
///
/// # Panics
/// If something was never delivered: then there is nothing to measure.
pub fn measure(protocol: MulticastProtocol, bench: &Bench) -> Steps {
    struct Measure<'a>(&'a Bench);
    impl MulticastVisitor for Measure<'_> {
        type Output = Steps;

        fn visit<S: MulticastSpec>(self) -> Steps {
            measured(&process::protocol::<S>(None), self.0)
        }
    }
    protocol.visit(Measure(bench))
}

fn measured<W: Wire>(protocol: &Protocol<W>, bench: &Bench) -> Steps {
    let mut steps = Steps { collision_free_least: f64::INFINITY, ..Steps::default() };
    for seed in 0..bench.schedules {
        let mut rng = Rng::new(seed);
        for collides in [false, true] {
            let mut world = build(protocol, bench, &mut rng);
            let n_messages = if collides { rng.range(4, 30) } else { 4 };
            let mut at = 0;
            let mut plan = Vec::new();
            if collides {
                at = spread_clocks(&mut world, bench.groups, &mut rng);
                seat_senders(&mut world, &mut rng);
            }
            for sequence in 0..n_messages {
                let gap = WINDOW * UNIT / n_messages;
                at += if collides { rng.below(2 * gap) } else { LIMIT * UNIT };
                let dest = destinations(bench.groups, collides, &mut rng);
                plan.push((at, MessageId { sender: sequence % N_SENDERS, sequence }, dest));
                world.plan(at, sequence as usize);
            }
            let end = at + LIMIT * UNIT;
            while let Ok(step) = world.step(end) {
                if let Some(step) = step {
                    let (_, id, dest) = plan[step];
                    let footprint = if bench.commutes { Footprint::NONE } else { Footprint::ALL };
                    let message = Message { footprint, ..Message::new(id, dest, *b"") };
                    world.multicast(id.sender as usize, message, false);
                }
            }
            count(&world, collides, bench.members, &mut steps);
        }
    }
    steps
}

fn build<W: Wire>(protocol: &Protocol<W>, bench: &Bench, rng: &mut Rng) -> World<W> {
    let config = Config {
        layout: Layout::new(&vec![bench.members; bench.groups]),
        rule: bench.rule,
        hybrid: bench.hybrid,
        patience: Duration::from_nanos(10 * LIMIT * UNIT),
        commutes: bench.commutes,
        part_bytes: 64 << 10,
        retain: 1000,
        retain_bytes: usize::MAX,
    };
    let mut world =
        World::new(protocol, &config, N_SENDERS as usize, Weather::Exact(UNIT), rng.fork());
    let error = UNIT * bench.clock_error / 100;
    let skews: Vec<Option<i64>> = (0..world.n_processes())
        .map(|_| Some(rng.range(0, 2 * error) as i64 - error as i64))
        .collect();
    world.set_clocks(error, &skews);
    world
}

/// Spreads the clocks of groups far apart: only then does a group that is behind continue to give
/// timestamps below one that it does not know. Returns when all is quiet again.
fn spread_clocks<W: Wire>(world: &mut World<W>, n_groups: usize, rng: &mut Rng) -> u64 {
    for group in 0..n_groups {
        for number in 0..rng.below(40) {
            let id = MessageId { sender: 7, sequence: 1000 + 100 * group as u64 + number };
            let dest = GroupId::at(group).alone();
            let message = Message::new(id, dest, *b"");
            world.multicast(7, message, false);
        }
    }
    let quiet = LIMIT * UNIT;
    while world.step(quiet).is_ok() {}
    quiet
}

/// Makes processes themselves the senders: their messages reach the own process at once. A primary
/// that multicasts timestamps its message a step before any other primary could.
fn seat_senders<W: Wire>(world: &mut World<W>, rng: &mut Rng) {
    for sender in 0..N_SENDERS as usize {
        let process = rng.below(world.n_processes() as u64) as usize;
        world.fix_delay(world.n_processes() + sender, process, 0);
    }
}

fn destinations(n_groups: usize, may_be_one: bool, rng: &mut Rng) -> GroupSet {
    let least = if may_be_one || n_groups == 1 { 1 } else { 2 };
    let n_dest = rng.range(least, n_groups as u64) as usize;
    let mut dest = GroupSet::EMPTY;
    while dest.len() < n_dest {
        dest.insert(GroupId::at(rng.below(n_groups as u64) as usize));
    }
    dest
}

fn count<W: Wire>(world: &World<W>, collides: bool, members: usize, steps: &mut Steps) {
    let mut n_delivered = 0;
    for (at, happened) in &world.history.happened {
        let Happened::Delivered { id, .. } = happened else { continue };
        n_delivered += 1;
        let taken = (at - world.history.meant[id].at_ns) as f64 / UNIT as f64;
        if collides {
            steps.failure_free = steps.failure_free.max(taken);
        } else {
            steps.collision_free = steps.collision_free.max(taken);
            steps.collision_free_least = steps.collision_free_least.min(taken);
        }
    }
    let n_due: usize = world.history.meant.values().map(|meant| meant.dest.len() * members).sum();
    assert_eq!(n_delivered, n_due, "everything is delivered where nothing fails");
    steps.n_deliveries += n_delivered as u64;
}
