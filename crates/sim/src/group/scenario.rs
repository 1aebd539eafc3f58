//! What a seed decides about a group before its first event.

use super::date::Date;
use crate::disks::Disks;
use crate::plan::{Kind, MS, Plan};
use crate::{Config, Provider, group};
use base::{Rank, Rng, SEATS_MAX};
use core::time::Duration;
use proto::rdmc::Schedule;
use proto::vsync::{Candidates, Mode, Relaying, Shape, Subgroup, Timing};

/// The most seats of a group whose size a seed draws.
pub(super) const N_SEATS_MAX: usize = 11;

/// How much befalls a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// Only minorities of installed views die, and nothing else happens (I1).
    Mild,
    /// No view loses its majority by deaths alone, and little else happens at a time.
    Moderate,
    /// Everything.
    Harsh,
}

/// A run, before it begins.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    /// Whether rows are written while they are read, where memory is shared.
    pub(super) has_races: bool,
    /// Network, weather and faults; its members are the seats.
    pub(super) plan: Plan,
    pub(super) shape: Shape,
    /// Subgroups; none in a group without a layout.
    pub(super) layout: Vec<Subgroup>,
    pub(super) timing: Timing,
    /// What a view waits that has lost members, if there are leases.
    pub(super) lease: Option<Duration>,
    /// The clock of each seat's host.
    pub(super) dates: Vec<Date>,
    pub(super) n_founders: usize,
    pub(super) manner: Manner,
    /// The mean time between two acts of the operator.
    pub(super) act_every_ns: u64,
    /// Of 256 acts: members that leave, wrong suspicions, processes that are started.
    pub(super) n_leaves: u64,
    pub(super) n_suspicions: u64,
    pub(super) n_starts: u64,
    /// The most messages of one act.
    pub(super) n_burst: u64,
    /// Of 8 members those that never say anything.
    pub(super) n_silent: u64,
    /// Whether the application has a state that newcomers need.
    pub(super) keeps_state: bool,
    /// The most bytes of ballast in a state.
    pub(super) n_ballast: u64,
    /// Whether memory outlives its process, where it is shared.
    pub(super) keeps_memory: bool,
    pub(super) aims: Aims,
    pub(super) n_adequate: usize,
}

/// How often faults are aimed (`aims`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Aims {
    /// Of 8 ends of views those that a process dies or stops in...
    pub(super) n_ambushes: u64,
    /// ... of 8 proposals those whose proposer dies at once...
    pub(super) n_proposers: u64,
    /// ... and of 8 installed views those whose installer does.
    pub(super) n_installers: u64,
    /// Of 8 newcomers those at whose arrival the others leave.
    pub(super) n_farewells: u64,
}

impl Scenario {
    pub(super) fn draw(kind: group::Kind, config: &Config, seed: u64, rng: &mut Rng) -> Scenario {
        let drawn = Scenario::draw_in_memory(config, rng);
        let drawn = match kind {
            group::Kind::Memory => drawn,
            group::Kind::Objects => drawn,
            group::Kind::Durable | group::Kind::DurableObjects => {
                drawn.on_disks(rng).with_memory(&mut Rng::new(seed ^ 0x6d65_6d6f_7279))
            }
        };
        let drawn = drawn.with_leases(&mut Rng::new(seed ^ 0x006c_6561_7365));
        let mut rng_of_dates = Rng::new(seed ^ 0x0064_6174_6573);
        let dates = (0..drawn.shape.n_seats).map(|_| Date::draw(kind, &mut rng_of_dates));
        let is_shared = drawn.plan.weather.provider == Provider::Shm;
        let has_races = is_shared && Rng::new(seed ^ 0x7261_6365_7300).chance(1, 2);
        let mut rng_of_places = Rng::new(seed ^ 0x706c_6163_6573);
        let n_places = match is_shared && rng_of_places.chance(3, 4) {
            true => 1 + rng_of_places.below(2 * u64::from(drawn.shape.window)) as u32,
            false => 0,
        };
        let shape = Shape { n_places, ..drawn.shape };
        let drawn = Scenario { dates: dates.collect(), has_races, shape, ..drawn };
        let drawn = drawn.with_relays(&mut Rng::new(seed ^ 0x7265_6c61_7973));
        if kind.has_objects() {
            return drawn.with_objects(&mut Rng::new(seed ^ 0x006f_626a_6563));
        }
        drawn.with_unordered(&mut Rng::new(seed ^ 0x0075_6e6f_7264))
    }

    /// The same, with room for calls, an order, and states.
    fn with_objects(mut self, rng: &mut Rng) -> Scenario {
        if self.shape.mode == Mode::Unordered {
            self.shape.mode = Mode::Ordered;
        }
        self.keeps_state = true;
        self.shape.message_bytes = 64 + 8 * rng.below(20) as u32;
        self
    }

    /// The same, with subgroups that have no order.
    fn with_unordered(mut self, rng: &mut Rng) -> Scenario {
        for subgroup in &mut self.layout {
            if rng.chance(1, 2) && subgroup.shards.len() == 1 {
                subgroup.mode = Some(Mode::Unordered);
            }
        }
        self
    }

    /// The same with messages that are relayed in small blocks, where members are enough and memory
    /// is not shared: half of such groups.
    fn with_relays(mut self, rng: &mut Rng) -> Scenario {
        let is_shared = self.plan.weather.provider == Provider::Shm;
        if is_shared || !rng.chance(1, 2) {
            return self;
        }
        let schedules = [Schedule::Chain, Schedule::BinomialTree, Schedule::BinomialPipeline];
        let mut schedule = || schedules[rng.below(3) as usize];
        self.shape.relaying.schedule = schedule();
        for subgroup in &mut self.layout {
            subgroup.schedule = [None, Some(schedule())][usize::from(subgroup.n_least > 1)];
        }
        let block_bytes = 16 << rng.below(3);
        let (schedule, least_blocks) = (self.shape.relaying.schedule, 2 + rng.below(2) as u32);
        self.shape.relaying = Relaying { schedule, block_bytes, least_blocks };
        self
    }

    /// The same with leases, shorter and longer than the silence that is suspected: then clocks run
    /// at their rates, and do not jump.
    fn with_leases(mut self, rng: &mut Rng) -> Scenario {
        if self.shape.mode != Mode::Unordered && rng.chance(1, 3) {
            self.lease = Some(self.timing.suspect_after * rng.range(1, 9) as u32 / 4);
            self.plan.kinds.retain(|kind| *kind != Kind::Jump);
        }
        self
    }

    /// The same on disks: its power fails too.
    fn on_disks(mut self, rng: &mut Rng) -> Scenario {
        self.shape.mode = Mode::Durable;
        self.keeps_state = true;
        // Bytes of messages, here.
        let snapshot_every = 256 << rng.below(8);
        let latency_ns = 1000 << rng.below(13);
        self.plan.disks = Disks {
            latency_ns,
            jitter_ns: latency_ns << rng.below(4),
            snapshot_every,
            ..Disks::CALM
        };
        let is_mild = self.manner == Manner::Mild;
        let kinds = [Kind::PowerCut, Kind::DiskStall, Kind::PowerCutAll, Kind::PowerCutAll];
        let n_kinds = if is_mild { 1 } else { kinds.len() };
        self.plan.kinds.extend(kinds.into_iter().take(n_kinds).filter(|_| rng.chance(1, 2)));
        self
    }

    /// The same, with subgroups that are in memory alone.
    fn with_memory(mut self, rng: &mut Rng) -> Scenario {
        for subgroup in &mut self.layout {
            subgroup.mode = rng.chance(1, 3).then_some(Mode::Ordered);
        }
        self
    }

    fn draw_in_memory(config: &Config, rng: &mut Rng) -> Scenario {
        let mut plan = Plan::draw(config, rng);
        let n_founders = config.members.unwrap_or_else(|| match rng.below(8) {
            0 => rng.range(1, 2),
            1 | 2 => rng.range(6, 9),
            3 | 4 => rng.range(4, 5),
            _ => 3,
        } as usize);
        let n_spare = rng.below(3) as usize;
        let n_seats = (n_founders.max(3) + n_spare).min(N_SEATS_MAX).max(n_founders);
        plan.members = n_seats;
        plan.n_clients = 0;
        let manner = match rng.below(4) {
            0 => Manner::Mild,
            1 | 2 => Manner::Moderate,
            _ => Manner::Harsh,
        };
        let is_mild = manner == Manner::Mild;
        if is_mild {
            let resets = plan.weather.provider == Provider::Tcp && rng.chance(1, 2);
            plan.kinds = vec![Kind::Crash, Kind::CrashLeader];
            plan.kinds.extend(resets.then_some(Kind::Reset));
            plan.weather.spike = 1;
        } else {
            plan.kinds.extend(rng.chance(1, 2).then_some(Kind::Deaf));
            // (No draw of its own, so that the other runs meet what they met.)
            let mut own = rng.clone();
            let snares = [Kind::Belated, Kind::LastWords];
            plan.kinds.extend(snares.into_iter().filter(|_| own.chance(1, 4)));
        }
        let calm = if manner == Manner::Harsh { 0 } else { 3 };
        plan.strike_every_ns = MS * (10 << rng.below(5) << calm);
        plan.fault_ns_max = MS * (20 << rng.below(6));
        plan.safety_ns = MS * rng.range(800, 2500);
        let rarely = |rng: &mut Rng, often: u64| match manner {
            Manner::Mild => 0,
            Manner::Moderate => rng.below(often + 1) / 2,
            Manner::Harsh => rng.below(often + 1),
        };
        let drawn = Scenario {
            shape: Shape {
                mode: Mode::Ordered,
                n_seats,
                window: 1 << rng.below(5),
                message_bytes: 24 + 8 * rng.below(20) as u32,
                n_subgroups: 1,
                n_shards: 1,
                n_places: 0,
                relaying: Relaying::DEFAULT,
            },
            layout: Vec::new(),
            timing: Timing {
                beat_every: Duration::from_millis(20),
                suspect_after: Duration::from_millis(if is_mild {
                    400
                } else {
                    90 << rng.below(3)
                }),
                ask_every: Duration::from_millis(20),
            },
            n_founders,
            manner,
            act_every_ns: (MS / 4) << rng.below(6),
            n_leaves: [0, 0, 1, 2][rng.below(4) as usize],
            n_suspicions: rarely(rng, 2),
            n_starts: [0, 1, 4][rng.below(3) as usize],
            n_burst: 1 << rng.below(4),
            n_silent: rng.below(5),
            keeps_state: true,
            n_ballast: if rng.chance(1, 4) { 20_000 } else { 100 },
            keeps_memory: rng.chance(1, 2),
            aims: Aims {
                n_ambushes: rarely(rng, 3),
                n_proposers: rarely(rng, 4),
                n_installers: rarely(rng, 3),
                n_farewells: rarely(rng, 3),
            },
            n_adequate: if rng.chance(1, 4) { 2 } else { 1 },
            dates: Vec::new(),
            lease: None,
            has_races: false,
            plan,
        };
        // (No draw of its own, so that older seeds meet what they met.)
        let keeps_state = drawn.n_silent != 4;
        let is_unordered = !keeps_state && drawn.n_burst >= 4;
        let mode = if is_unordered { Mode::Unordered } else { Mode::Ordered };
        let mut own_rng = rng.clone();
        let is_laid_out = !is_unordered && own_rng.chance(3, 8);
        let layout = if is_laid_out { layout(n_seats, &mut own_rng) } else { Vec::new() };
        let n_shards = layout.iter().map(|subgroup| subgroup.shards.len()).sum::<usize>().max(1);
        let n_subgroups = layout.len().max(1);
        let shape = Shape { mode, n_subgroups, n_shards, ..drawn.shape };
        Scenario { keeps_state, shape, layout, ..drawn }
    }
}

/// Subgroups that overlap, of one to three shards each.
fn layout(n_seats: usize, rng: &mut Rng) -> Vec<Subgroup> {
    let subgroup = |number: u64, rng: &mut Rng| {
        let n_shards = [1, 2, 2, 3][rng.below(4) as usize];
        let kind = rng.below(6);
        let candidates = |shard: u64| match kind {
            // Those on every second or third seat.
            0 => {
                let seats = Rank::all(n_seats);
                let own = seats.filter(|seat| seat.index() as u64 % n_shards == shard);
                Candidates::Seats(own.collect())
            }
            // By the bits of an incarnation: the first shard can have any member.
            1 => Candidates::Tagged(shard),
            _ => Candidates::All,
        };
        let n_least = 1 + rng.below(2) as usize;
        let n_most = if rng.chance(1, 2) { n_least + 1 } else { SEATS_MAX };
        let name = format!("subgroup {number}");
        let shards = (0..n_shards).map(candidates).collect();
        Subgroup { name, shards, n_least, n_most, ..Subgroup::whole() }
    };
    let mut layout: Vec<Subgroup> =
        (0..rng.range(1, 3)).map(|number| subgroup(number, rng)).collect();
    // (Drawn at last, so that older seeds have the shards that they had.)
    for subgroup in &mut layout {
        subgroup.senders = senders(n_seats, rng);
    }
    layout
}

/// The members that multicast in a subgroup: all, in two of three.
fn senders(n_seats: usize, rng: &mut Rng) -> Candidates {
    match rng.below(6) {
        // At least one seat's.
        0 => {
            let always = rng.below(n_seats as u64) as usize;
            let sends = |seat: &Rank| seat.index() == always || rng.chance(1, 3);
            Candidates::Seats(Rank::all(n_seats).filter(sends).collect())
        }
        // By a bit of an incarnation: one of two, and perhaps no member at all.
        1 => Candidates::Tagged(1),
        _ => Candidates::All,
    }
}
