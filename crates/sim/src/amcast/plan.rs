//! One seed decides everything: the system, the senders, the weather, the faults.

use super::aims::Aims;
use super::changes::now_plus;
use super::process::Protocol;
use super::trace::Trace;
use super::world::recovery::Recovery;
use super::world::{MS, Weather, World};
use super::{Config, Outcome, checks};
use base::{Rank, Rng};
use core::time::Duration;
use proto::amcast::linear::Rule;
use proto::amcast::wire::Wire;
use proto::amcast::{Footprint, GroupId, GroupSet, Layout, Message, MessageId, Timestamp};

/// The time that a process waits before it asks for what it lacks.
const PATIENCE_NS: u64 = 40 * MS;
/// The time after which faults stop.
pub(super) const WILD_NS: u64 = 150 * MS;
/// The longest time until the processes that Ω tells learn of a death.
const HINT_NS_MAX: u64 = 15 * MS;
/// The time after the end of the faults in which everything must be delivered, unless logs are sent
/// a tuple at a time.
const CALM_NS: u64 = 60 * PATIENCE_NS;
/// The number of times that a whole log is then sent, one after another: to Ω's choice, to a
/// newcomer that the next epoch seats, and once more where that epoch is overtaken.
const N_LOGS: u64 = 3;

/// The longest time that a world needs to come to rest after its faults.
///
/// Where each tuple of a log is a part of its own, it costs a round trip. Links are FIFO: on one
/// that is busy with questions each message waits for the longest gust among many before it. (Seed
/// 61230603 of primcast-members: 39 tuples at 41 ms each.)
fn calm(weather: Weather, far: u64, part_bytes: usize, n_messages: u64) -> u64 {
    let Weather::Windy { most, gust, gusts_in_64, .. } = weather else { return CALM_NS };
    let one_way = far + most + if gusts_in_64 > 0 { gust } else { 0 };
    let logs = if part_bytes == 1 { N_LOGS * n_messages * 2 * one_way } else { 0 };
    CALM_NS + logs
}

/// A step of the plan.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// A sender becomes free to multicast.
    Send(usize),
    /// A sender has waited long enough for this message.
    GiveUp(usize, u64),
    Crash,
    /// All processes lose power at once.
    PowerCut,
    Restart(usize),
    /// A process with an empty memory takes the seat of one that died.
    Renew(usize),
    /// A member that may live is removed, and its seat is taken again later.
    Remove,
    /// The operator repeats requests that are not done.
    Operate,
    Pause,
    Suspect,
    CutProcess,
    CutGroup,
    /// All groups are asked for a snapshot at one timestamp.
    Snapshot,
    /// A process is cut off, and comes back later while it is behind.
    Ambush(usize),
    /// The process loses power then.
    Strike(usize),
    /// The primary of its group becomes this process.
    Name(usize),
    /// As many processes fail as may.
    Edge,
    /// Faults stop.
    Heal,
}

pub(super) struct Driver<W> {
    pub(super) world: World<W>,
    survives_crashes: bool,
    steps: Vec<Step>,
    n_left: u64,
    sequences: Vec<u64>,
    thinks: bool,
    dies_in_64: u64,
    pub(super) healed: bool,
    pub(super) layout: Layout,
    prefers_global: u64,
    seen: Timestamp,
    clocks: Clocks,
    /// The generator of footprints, if messages may commute. It is separate: a seed's other draws
    /// stay.
    touches: Option<Rng>,
    /// The generator of snapshots, also separate.
    snapshots: Rng,
    /// The generator of the operator, also separate.
    pub(super) operator: Rng,
    pub(super) aims: Aims,
}

/// Runs one seed.
pub(super) fn run<W: Wire>(
    protocol: &Protocol<W>,
    config: &Config,
    seed: u64,
    trace: Trace,
) -> Outcome {
    let survives_crashes = protocol.survives_crashes;
    let mut rng = Rng::new(seed);
    let n_groups = config.groups.unwrap_or_else(|| rng.range(2, 4) as usize);
    let sizes: Vec<usize> = (0..n_groups)
        .map(|_| match (survives_crashes, config.members) {
            (false, _) => 1,
            (true, Some(members)) => members,
            (true, None) => [1, 3, 3, 3, 3, 5][rng.below(6) as usize],
        })
        .collect();
    let layout = Layout::new(&sizes);
    let amcast = proto::amcast::Config {
        layout: layout.clone(),
        rule: config.rule,
        hybrid: rng.chance(1, 4),
        patience: Duration::from_nanos(PATIENCE_NS),
        commutes: config.commutes,
        // This draw is from a separate generator: a seed's other draws stay unchanged.
        part_bytes: [1, 256, 64 << 10][Rng::new(seed ^ 0xba27).below(3) as usize],
        retain: [0, 2, 8, 1000][Rng::new(!seed).below(4) as usize],
        retain_bytes: usize::MAX,
    };
    let by_time = amcast.hybrid || config.rule == Rule::CommitWait;
    let aims = Aims::draw(config, &layout, by_time, seed);
    let weather = Weather::Windy {
        least: rng.range(1, MS / 2),
        most: rng.range(MS, 3 * MS),
        gust: rng.range(5, 40) * MS,
        gusts_in_64: [0, 2, 6, 12, 20][rng.below(5) as usize],
    };
    let n_senders = rng.range(2, 5) as usize;
    let mut world = World::new(protocol, &amcast, n_senders, weather, rng.fork());
    // (This draw is from a separate generator, too.)
    let mut distances = Rng::new(seed ^ 0x0fa7);
    let far = if distances.chance(1, 4) { distances.range(1, 25) * MS } else { 0 };
    world.spread(far, distances);
    world.trace = trace;
    if config.recovers {
        let recovery = Recovery::new(protocol, &amcast, config.hasty);
        world.recover_by(match config.aimed {
            true => recovery.with_ambushes(Rng::new(seed ^ 0xa3b)),
            false => recovery,
        });
    }
    world.lives.change = config.changes_members;
    let clocks = Clocks::draw(world.n_processes(), config.rule, &mut rng);
    world.set_clocks(clocks.error, &clocks.wild);
    let mut driver = Driver {
        world,
        survives_crashes,
        steps: Vec::new(),
        n_left: rng.range(8, 50),
        sequences: vec![0; n_senders],
        thinks: rng.chance(1, 2),
        dies_in_64: if survives_crashes && rng.chance(1, 3) { 8 } else { 0 },
        healed: false,
        layout,
        prefers_global: if config.restless { rng.range(1, 3) } else { rng.below(4) },
        seen: Timestamp::ZERO,
        clocks,
        touches: config.commutes.then(|| Rng::new(seed ^ 0x5eed)),
        snapshots: Rng::new(seed ^ 0xc07),
        operator: Rng::new(seed ^ 0x0e4),
        aims,
    };
    if config.changes_members {
        driver.plan_changes();
    }
    if config.snapshots {
        for _ in 0..driver.snapshots.range(1, 12) {
            let at = driver.snapshots.below(2 * WILD_NS);
            driver.plan(at, Step::Snapshot);
        }
    }
    for sender in 0..n_senders {
        let at = rng.below(5 * MS);
        driver.plan(at, Step::Send(sender));
    }
    driver.plan_faults(config, &mut rng);
    driver.plan(WILD_NS, Step::Heal);
    let limit = WILD_NS + calm(weather, far, amcast.part_bytes, driver.n_left);
    driver.run(config, amcast.retain, limit)
}

/// A footprint of a few keys, so that many messages conflict and many do not.
fn touched(rng: &mut Rng) -> Footprint {
    if rng.chance(1, 16) {
        return Footprint::ALL;
    }
    let some = |rng: &mut Rng| (0..rng.below(3)).fold(0, |all, _| all | 1 << rng.below(4));
    Footprint::of_classes(some(rng), some(rng))
}

/// Skews within the attested error; in some seeds some processes have no clock for a while.
struct Clocks {
    error: u64,
    wild: Vec<Option<i64>>,
    healed: Vec<Option<i64>>,
}

impl Clocks {
    fn draw(n_processes: usize, rule: Rule, rng: &mut Rng) -> Clocks {
        let error = rng.range(1, 4 * MS);
        let lacks = rule == Rule::CommitWait && rng.chance(1, 4);
        let skew = |rng: &mut Rng| Some(rng.range(0, 2 * error) as i64 - error as i64);
        let healed: Vec<Option<i64>> = (0..n_processes).map(|_| skew(rng)).collect();
        let wild =
            healed.iter().map(|skew| skew.filter(|_| !(lacks && rng.chance(1, 3)))).collect();
        Clocks { error, wild, healed }
    }
}

impl<W: Wire> Driver<W> {
    pub(super) fn plan(&mut self, at: u64, step: Step) {
        self.world.plan(at, self.steps.len());
        self.steps.push(step);
    }

    fn plan_faults(&mut self, config: &Config, rng: &mut Rng) {
        if config.calm {
            return;
        }
        // Each kind is off altogether in some seeds: bugs that another fault hides show then.
        let kinds: &[(Step, u64)] = if self.survives_crashes {
            &[
                (Step::Crash, 3),
                (Step::Suspect, 8),
                (Step::Pause, 5),
                (Step::CutProcess, 4),
                (Step::CutGroup, 2),
            ]
        } else {
            &[(Step::Pause, 5), (Step::CutProcess, 4), (Step::CutGroup, 2)]
        };
        for (step, most) in kinds {
            let is_off = rng.chance(1, 3) && !config.restless;
            let most = if config.restless { most * 3 } else { *most };
            let n = if is_off { 0 } else { rng.range(1, most) };
            for _ in 0..n {
                let at = rng.below(WILD_NS / 2);
                self.plan(at, *step);
            }
        }
        if self.world.recovery.is_some() && rng.chance(1, 2) {
            let at = rng.below(WILD_NS / 2);
            self.plan(at, Step::PowerCut);
        }
        self.plan_aims();
    }

    fn run(mut self, config: &Config, retain: usize, limit: u64) -> Outcome {
        // The world runs until it is at rest, or until the limit.
        while let Ok(step) = self.world.step(limit) {
            if let Some(step) = step {
                self.act(self.steps[step]);
            }
            self.react();
            self.spring_ambushes();
        }
        let lives = self.world.settle_lives();
        self.world.note_unrest();
        let history = &self.world.history;
        // A message is requested without end if only processes had it that died like its sender.
        let n_cut_short = history.unrest.as_ref().map_or(0, |_| history.n_cut_short());
        let n_dead = match config.changes_members {
            true => self.world.n_dead_members(),
            false => self.world.n_processes() - history.correct.len(),
        };
        // The search for records to drop waits until there are a quarter more.
        let most = if n_dead > 0 { retain + retain / 4 + 1 } else { 0 };
        self.world.note_held(|_| most + n_cut_short);
        let history = &self.world.history;
        self.world.counts.commuted = history.n_commuted();
        let verdict = checks::judge(history, config.promised());
        let property = super::Property::Agreement;
        let astray = lives.map_err(|detail| super::Violation { property, detail });
        let verdict = verdict.and(astray);
        Outcome {
            violation: verdict.err(),
            virtual_ns: self.world.now,
            counts: self.world.counts,
            history: self.world.history,
            ..Outcome::default()
        }
    }

    /// Lets senders see deliveries at once, and answer: that comes later in real time.
    fn react(&mut self) {
        while let Some(id) = self.world.news.pop_front() {
            let sender = id.sender as usize;
            if self.sequences[sender] == id.sequence {
                self.sequences[sender] += 1;
                let pause = if self.thinks { self.world.rng.below(6 * MS) } else { 0 };
                let at = self.world.now + pause;
                self.plan(at, Step::Send(sender));
            }
        }
    }

    fn act(&mut self, step: Step) {
        let n_processes = self.world.n_processes();
        let process = self.world.rng.below(n_processes as u64) as usize;
        let now = self.world.now;
        match step {
            Step::Send(sender) => self.send(sender),
            Step::GiveUp(sender, sequence) => {
                if self.sequences[sender] == sequence {
                    self.sequences[sender] += 1;
                    self.send(sender);
                }
            }
            Step::Heal => self.heal(),
            Step::Snapshot => self.snapshot(),
            Step::Crash => self.crash(process),
            Step::PowerCut => {
                self.world.counts.power_cuts += 1;
                (0..n_processes).for_each(|process| self.lose_power(process));
            }
            Step::Restart(process) => self.restart(process),
            Step::Renew(process) => self.renew(process),
            Step::Remove => self.remove(process),
            Step::Operate => self.operate(),
            Step::Pause => {
                let until = now + self.world.rng.below(WILD_NS / 2);
                self.world.pause(process, until.min(WILD_NS));
            }
            Step::Suspect => {
                let members = self.layout.members(self.world.pid(process).group);
                let leader = Rank::at(self.world.rng.below(members as u64) as usize);
                self.world.trust_at(now, process, leader);
            }
            Step::CutProcess => self.cut(|at, _| at == process),
            Step::Ambush(process) => self.ambush(process),
            Step::Strike(process) => self.lose_power(process),
            Step::Name(process) => self.name(process),
            Step::Edge => self.go_to_the_edge(),
            Step::CutGroup => {
                let group = self.world.pid(process).group;
                self.cut(|_, of| of == group);
            }
        }
    }

    /// Asks all processes for a snapshot at a timestamp a little above one that a process has
    /// passed: often that of a pending message.
    fn snapshot(&mut self) {
        let rng = &mut self.snapshots;
        let process = rng.below(self.world.n_processes() as u64) as usize;
        let Some(safe) = self.world.machine(process).safe_ts() else { return };
        // Logical timestamps, or those of clocks.
        let ahead = if safe.0 < MS { 6 } else { 3 * MS };
        let more = [0, 1, rng.below(ahead)][rng.below(3) as usize];
        self.world.cut_all(Timestamp(safe.0 + more));
    }

    /// Holds everything between those inside and those outside for a while.
    fn cut(&mut self, is_inside: impl Fn(usize, GroupId) -> bool) {
        let until = self.world.now + self.world.rng.below(WILD_NS / 2);
        for from in 0..self.world.n_processes() {
            for to in 0..self.world.n_processes() {
                let (a, b) = (self.world.pid(from).group, self.world.pid(to).group);
                if is_inside(from, a) != is_inside(to, b) {
                    self.world.cut(from, to, until.min(WILD_NS));
                }
            }
        }
    }

    /// Kills a process if its group survives it; the others learn of it later.
    pub(super) fn crash(&mut self, process: usize) {
        let group = self.world.pid(process).group;
        let members: Vec<usize> = self.alive(group);
        let n_left = members.len() - usize::from(members.contains(&process));
        if self.world.lives.change {
            if !self.world.is_alive(process) || !self.world.can_lose(process) {
                return;
            }
            self.world.note_death(process);
            self.world.crash(process);
            if self.operator.chance(3, 4) {
                let at = now_plus(&self.world, self.operator.below(WILD_NS / 4));
                self.plan(at, Step::Renew(process));
            }
        } else if self.world.recovery.is_some() {
            self.lose_power(process);
        } else if !self.world.is_alive(process) || n_left < self.layout.quorum(group) {
            return;
        } else {
            self.world.crash(process);
        }
        let heirs: Vec<usize> = members.into_iter().filter(|at| *at != process).collect();
        let mut eligible = self.eligible(group);
        eligible.retain(|at| *at != process);
        if eligible.is_empty() {
            return;
        }
        let heir = eligible[self.world.rng.below(eligible.len() as u64) as usize];
        let leader = self.world.pid(heir).rank;
        for member in heirs {
            let at = self.world.now + self.world.rng.range(MS, HINT_NS_MAX);
            self.world.trust_at(at, member, leader);
        }
    }

    /// Cuts a process's power; it comes back before faults stop.
    pub(super) fn lose_power(&mut self, process: usize) {
        if self.world.is_alive(process) {
            self.world.crash(process);
            let at = self.world.now + self.world.rng.below(WILD_NS / 4);
            self.plan(at.min(WILD_NS - 1), Step::Restart(process));
        }
    }

    /// Restarts a process; Ω of its group may soon name a leader.
    fn restart(&mut self, process: usize) {
        self.world.restart(process);
        let members = self.alive(self.world.pid(process).group);
        let pick = members[self.world.rng.below(members.len() as u64) as usize];
        let leader = self.world.pid(pick).rank;
        for member in members {
            if self.world.rng.chance(3, 4) {
                let at = self.world.now + self.world.rng.below(10 * MS);
                self.world.trust_at(at, member, leader);
            }
        }
    }

    pub(super) fn alive(&self, group: GroupId) -> Vec<usize> {
        (0..self.world.n_processes())
            .filter(|at| self.world.pid(*at).group == group && self.world.is_alive(*at))
            .collect()
    }

    /// The processes that Ω may name: members, and those that know that they are.
    pub(super) fn eligible(&self, group: GroupId) -> Vec<usize> {
        let mut alive = self.alive(group);
        if self.world.lives.change {
            let has_entered = |at: usize| {
                let members = self.world.machine(at).members();
                members.is_none_or(|(members, _)| !members.voters.is_empty())
            };
            alive.retain(|at| self.world.is_member(*at) && !self.world.is_leaving(*at));
            alive.retain(|at| has_entered(*at));
        }
        alive
    }

    /// Stops the faults; each group's Ω settles on a living process.
    fn heal(&mut self) {
        self.healed = true;
        self.world.set_clocks(self.clocks.error, &self.clocks.healed);
        let groups: Vec<GroupId> = self.layout.groups().iter().collect();
        for group in groups {
            let eligible = self.eligible(group);
            let pick = eligible[self.world.rng.below(eligible.len() as u64) as usize];
            let leader = self.world.pid(pick).rank;
            // Ω settles: its last choice must come after its reports of earlier deaths.
            for member in self.alive(group) {
                let at = self.world.now + HINT_NS_MAX + self.world.rng.below(10 * MS);
                self.world.trust_at(at, member, leader);
            }
        }
    }

    fn send(&mut self, sender: usize) {
        if self.n_left == 0 {
            return;
        }
        self.n_left -= 1;
        let rng = &mut self.world.rng;
        let n_groups = self.layout.n_groups() as u64;
        let n_dest = match self.prefers_global {
            0 => 1,
            1 => 2,
            2 => rng.range(1, 2),
            _ => rng.range(1, n_groups),
        };
        let mut dest = GroupSet::EMPTY;
        while (dest.len() as u64) < n_dest {
            dest.insert(GroupId::at(rng.below(n_groups) as usize));
        }
        if self.prefers_global == 0 && rng.chance(1, 3) {
            dest.insert(GroupId::at(rng.below(n_groups) as usize));
        }
        let after = if rng.chance(1, 32) {
            self.seen = Timestamp(self.seen.0 + rng.below(20));
            self.seen
        } else {
            Timestamp::ZERO
        };
        let (dest, after) = self.aims.next(n_groups as usize).unwrap_or((dest, after));
        let dies = rng.chance(self.dies_in_64, 64);
        let id = MessageId { sender: sender as u64, sequence: self.sequences[sender] };
        let payload = [sender as u8; 3].into();
        let footprint = self.touches.as_mut().map_or(Footprint::ALL, touched);
        self.world.multicast(sender, Message { id, dest, after, footprint, payload }, dies);
        let at = self.world.now + 25 * MS;
        self.plan(at, Step::GiveUp(sender, id.sequence));
    }
}
