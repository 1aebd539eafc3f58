//! A group, its operator, and the one loop in which everything happens.

use super::Kind;
use super::accord::Noted;
use super::bugs::Bug;
use super::checks;
use super::ground::new_disk;
use super::history::{History, ProcessId};
use super::objects::{self, Book};
use super::process::Process;
use super::scenario::{Manner, Scenario};
use crate::areas::Areas;
use crate::coverage::Mark;
use crate::disk::Disk;
use crate::plan::MS;
use crate::queue::{Fault, Happening};
use crate::trace::{Topic, Trace};
use crate::world::Phase;
use crate::world::net::Net;
use crate::world::outage::Outages;
use crate::{Config, Outcome, Property, Provider};
use base::{Event, Incarnation, Rank, Rng, SeatSet};
use core::time::Duration;
use proto::vsync::{self, Knock, METADATA_WORDS, Mode, Start, View};
use std::cell::RefCell;
use std::rc::Rc;

/// The number of events beyond which a run of a small group is taken for one that spins.
const N_EVENTS_MAX: u64 = 5_000_000;
/// The links of a small group: one that has more makes more events.
const N_LINKS: u64 = 128;

/// What processes share beside the network.
struct Shared {
    /// The calls of objects, in a group that has some; and their choices.
    objects: Option<(Rc<RefCell<Book>>, Rng)>,
    areas: Areas,
    /// The choices of WRITEs that land while rows are read.
    rng_of_races: Rng,
    /// The choices of links that lose parcels, and of relays that die (`aims`, A14 to A16).
    rng_of_parcels: Rng,
    /// The choices of applications that are slow to give states, in one of four runs.
    rng_of_states: Option<Rng>,
}

/// A simulated group.
pub(super) struct World {
    pub(super) scenario: Scenario,
    bug: Option<Bug>,
    pub(super) net: Rc<RefCell<Net>>,
    pub(super) outages: Outages,
    pub(super) rng: Rng,
    /// The choices of subgroups.
    pub(super) rng_of_layout: Rng,
    /// The choices of reads.
    pub(super) rng_of_reads: Rng,
    /// What members learn of times, and changes that follow each other (`aims`, A9).
    pub(super) rng_of_news: Rng,
    /// Members that were cut off, and are asked (`aims`, A8).
    pub(super) readers: Vec<usize>,
    /// Processes by seat; one that is dead stays until the next one begins.
    pub(super) processes: Vec<Option<Process>>,
    pub(super) history: History,
    shared: Shared,
    /// By seat, in a durable group.
    pub(super) disks: Vec<Disk>,
    pub(super) phase: Phase,
    /// The time from which a run without new messages may end (`phases`).
    pub(super) quiet_until: Option<u64>,
    /// Seats on which a process will be started.
    pub(super) awaited: SeatSet,
    /// Seats whose processes die when their ambush springs (`aims`, A2).
    pub(super) doomed: SeatSet,
    /// A stopped proposer, which wakes when the next leader proposes (`aims`, A3).
    pub(super) stopped_proposer: Option<usize>,
    /// The number of messages that were asked for.
    pub(super) n_messages: u64,
    n_events: u64,
}

/// Runs one seed, from beginning to end.
pub(crate) fn run(kind: Kind, bug: Option<Bug>, config: &Config, seed: u64) -> Outcome {
    let mut world = World::new(kind, bug, config, seed);
    world.begin();
    world.run_to_the_end();
    world.judge()
}

impl World {
    pub(super) fn new(kind: Kind, bug: Option<Bug>, config: &Config, seed: u64) -> World {
        let mut rng = Rng::new(seed ^ 0x6772_6f75_7073);
        let scenario = Scenario::draw(kind, config, seed, &mut rng);
        let n_seats = scenario.shape.n_seats;
        let n_words = vsync::region(&scenario.shape).n_words as usize;
        let weather = scenario.plan.weather;
        let mut rng_of_states = Rng::new(seed ^ 0x7374_6174_6573);
        let is_durable = kind.is_durable();
        let is_unordered = scenario.shape.mode == Mode::Unordered;
        let modes = scenario.layout.iter().map(|subgroup| subgroup.mode).collect();
        let n_adequate = scenario.n_adequate;
        let net = Net::new(n_seats, 0, n_words, weather, rng.fork(), Trace::new(config.trace));
        World {
            outages: Outages::new(rng.fork(), &scenario.plan),
            scenario,
            bug,
            net: Rc::new(RefCell::new(net)),
            rng,
            rng_of_layout: Rng::new(seed ^ 0x7368_6172_6473),
            rng_of_reads: Rng::new(seed ^ 0x7265_6164_7300),
            rng_of_news: Rng::new(seed ^ 0x006e_6577_7300),
            readers: Vec::new(),
            processes: (0..n_seats).map(|_| None).collect(),
            history: History { is_unordered, is_durable, modes, n_adequate, ..History::default() },
            disks: if is_durable { (0..n_seats).map(|_| new_disk()).collect() } else { Vec::new() },
            shared: Shared {
                objects: kind
                    .has_objects()
                    .then(|| (Rc::default(), Rng::new(seed ^ 0x6361_6c6c_7300))),
                areas: Areas::default(),
                rng_of_races: Rng::new(seed ^ 0x726f_7773_0000),
                rng_of_parcels: Rng::new(seed ^ 0x7061_7263_656c),
                rng_of_states: rng_of_states.chance(1, 4).then_some(rng_of_states),
            },
            phase: Phase::Safety,
            quiet_until: None,
            awaited: SeatSet::EMPTY,
            doomed: SeatSet::EMPTY,
            stopped_proposer: None,
            n_messages: 0,
            n_events: 0,
        }
    }

    // ---- small things ----

    pub(super) fn n_seats(&self) -> usize {
        self.scenario.shape.n_seats
    }

    pub(super) fn push_in(&self, span: u64, what: Happening) {
        let net = &mut *self.net.borrow_mut();
        let at = net.now() + span;
        net.queue.push(at, what);
    }

    pub(super) fn violate(&self, property: Property, detail: String) {
        self.net.borrow_mut().violate(property, detail);
    }

    /// A14 to A16: whether one of so many is struck.
    pub(super) fn strikes_parcel(&mut self, one_of: u64) -> bool {
        self.phase == Phase::Safety && self.shared.rng_of_parcels.chance(1, one_of)
    }

    pub(super) fn is_alive(&self, seat: usize) -> bool {
        self.net.borrow().processes[seat].alive
    }

    /// The living processes.
    pub(super) fn living(&self) -> impl Iterator<Item = &Process> {
        let living = self.processes.iter().enumerate().filter(|(seat, _)| self.is_alive(*seat));
        living.filter_map(|(_, process)| process.as_ref())
    }

    /// The latest view of any living process.
    pub(super) fn latest(&self) -> Option<&View> {
        self.living().filter_map(Process::view).max_by_key(|view| view.id)
    }

    /// The living process on `seat`, and its record.
    pub(super) fn with<T>(
        &mut self,
        seat: usize,
        act: impl FnOnce(&mut Process, &mut super::history::Record) -> T,
    ) -> Option<T> {
        if !self.is_alive(seat) {
            return None;
        }
        let process = self.processes[seat].as_mut()?;
        let record = self.history.record(process.id());
        Some(act(process, record))
    }

    // ---- the run ----

    fn begin(&mut self) {
        if self.is_durable() {
            return self.begin_on_disks();
        }
        let founders: Vec<Knock> =
            (0..self.scenario.n_founders).map(|seat| knock(seat, self.incarnation(1))).collect();
        for seat in 0..founders.len() {
            self.be_born(seat, Start::Found(founders.clone()));
        }
        self.set_out();
    }

    /// The incarnation of a process in its seat's life of this number. Those of processes with
    /// objects are as far from each other as those of a host's clock.
    pub(super) fn incarnation(&self, life: u32) -> u64 {
        u64::from(life) * if self.has_objects() { 1_000_000 } else { 1 }
    }

    /// Whether the group has replicated objects.
    pub(super) const fn has_objects(&self) -> bool {
        self.shared.objects.is_some()
    }

    pub(super) fn set_out(&self) {
        self.push_in(MS, Happening::Operate);
        self.push_in(self.scenario.plan.strike_every_ns, Happening::Strike);
        self.push_in(self.scenario.plan.safety_ns, Happening::Phase);
    }

    fn run_to_the_end(&mut self) {
        while self.phase != Phase::Over && self.net.borrow().violation.is_none() {
            let next = self.net.borrow_mut().queue.pop_until(u64::MAX);
            let Some(what) = next else { break };
            self.n_events += 1;
            let n_links = (self.n_seats() * self.n_seats()) as u64;
            let n_most = N_EVENTS_MAX * n_links.div_ceil(N_LINKS);
            if self.n_events > n_most {
                let detail = format!("{n_most} events: something spins");
                self.violate(Property::Liveness, detail);
            }
            self.happen(what);
        }
        self.net.borrow_mut().judge_end(self.phase);
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::Verb(link) => self.net.borrow_mut().on_verb(link as usize),
            Happening::Completion(link) => self.net.borrow_mut().on_completion(link as usize),
            Happening::Run(seat) => self.on_run(seat as usize),
            Happening::Strike => self.on_strike(),
            Happening::Spring(seat) => self.on_spring(seat as usize),
            Happening::Mend(fault) => self.mend(fault),
            Happening::Break(link) => {
                self.outages.on_break(&mut self.net.borrow_mut(), link as usize);
            }
            Happening::Reconnect(link) => {
                self.outages.on_reconnect(&mut self.net.borrow_mut(), link as usize);
            }
            Happening::Reset(link) => {
                self.outages.reset(&mut self.net.borrow_mut(), link as usize);
            }
            Happening::Hint { to, about, life } => {
                let net = &mut *self.net.borrow_mut();
                // In a mild run, and when faults have ended, no report is about an earlier process
                // of its seat: of twenty members, each that is excluded by one would bring more.
                let is_wild = self.scenario.manner != Manner::Mild && self.phase == Phase::Safety;
                if is_wild || net.processes[about as usize].life == life {
                    Outages::hint(net, to as usize, about as usize, life);
                }
            }
            Happening::Disk { node, life } => self.on_disk(node as usize, life),
            Happening::Operate => self.on_operate(),
            Happening::Phase => self.on_phase(),
            other => unreachable!("{other:?} is of another world"),
        }
    }

    pub(super) fn on_run(&mut self, seat: usize) {
        if !self.net.borrow().processes[seat].runs() {
            return;
        }
        let Some(process) = self.processes[seat].as_mut() else { return };
        let before = process.stage();
        let disk = self.disks.get_mut(seat);
        let deadline = process.turn(self.history.record(process.id()), disk);
        let (is_ended, after) = (process.is_ended, process.stage());
        let views = (before.view, process.view());
        let (me, rows) = (Rank::at(seat), process.endings());
        let is_logged = match (self.disks.get_mut(seat), process.view().map(|view| view.id)) {
            (Some(disk), Some(view)) => self.history.accord.note_log(me, view, &rows, disk),
            (Some(disk), None) => self.history.accord.note_promise(me, process.promised(), disk),
            (None, _) => Ok(()),
        };
        let noted = is_logged.and_then(|()| self.history.accord.note(me, views, rows));
        {
            let net = &mut *self.net.borrow_mut();
            let now = net.now();
            net.trace.record(now, seat, Topic::Run, u64::from(after.is_wedged), 0);
            let busy = 1 + net.rng.below(2 * net.processes[seat].effort);
            let process = &mut net.processes[seat];
            process.busy_until = now + busy;
            let deadline = process.clock.when(deadline);
            net.arm_run(seat, deadline);
        }
        let Noted { has_proposed } = noted.unwrap_or_else(|broken| {
            self.violate(Property::ViewAgreement, broken);
            Noted::default()
        });
        self.plan_flushes(seat);
        self.strike_parcel(seat);
        self.strike_relay(seat);
        if is_ended {
            // Its supervisor starts another one.
            self.crash(seat);
            return self.start_later(seat);
        }
        if after.view > before.view {
            self.change_again(seat);
        }
        if before.view.is_none() && after.view.is_some() {
            self.bid_farewell(seat);
        } else if after.view > before.view {
            self.strike_installer(seat);
        } else if has_proposed {
            self.succeed_joiners();
            self.strike_proposer(seat);
        } else if after.is_wedged && !before.is_wedged {
            self.load_wedged(seat);
            self.inform(seat);
            self.lay_ambush(seat);
            self.net.borrow_mut().see_candidate();
        }
    }

    // ---- processes ----

    pub(super) fn be_born(&mut self, seat: usize, start: Start) {
        let is_founder = matches!(start, Start::Found(_));
        let life = Outages::begin_process(&mut self.net.borrow_mut(), seat);
        if !is_founder {
            self.renew_memory(seat);
        }
        self.awaited.remove(Rank::at(seat));
        let me = knock(seat, self.incarnation(life));
        let config = vsync::Config {
            me,
            start,
            shape: self.scenario.shape,
            timing: self.scenario.timing,
            n_adequate: self.scenario.n_adequate,
            keeps_state: self.scenario.keeps_state,
            lease: self.scenario.lease,
            group: 1,
            keep_bytes: self.scenario.plan.disks.snapshot_every,
            layout: self.scenario.layout.clone(),
        };
        let is_silent = self.rng.chance(self.scenario.n_silent, 8);
        let n_ballast = self.rng.below(self.scenario.n_ballast) as usize;
        let date = self.scenario.dates[seat];
        let below = (&self.net, self.disks.get_mut(seat), date);
        let is_mild = self.scenario.manner == Manner::Mild;
        let objects = self.shared.objects.as_mut().map(|(book, rng)| objects::Setup {
            options: objects::options(&self.scenario),
            leaves_within: Duration::from_millis(if is_mild { 4_000 } else { 20 << rng.below(8) }),
            book: Rc::clone(book),
            rng: rng.fork(),
        });
        let mut process = Process::new(config, self.bug, below, n_ballast, is_silent, objects);
        process.is_slow = self.phase == Phase::Safety && n_ballast % 4 == 3;
        if let Some(rng) =
            self.shared.rng_of_states.as_mut().filter(|_| self.shared.objects.is_none())
        {
            process.owe(rng.fork());
        }
        if self.scenario.has_races {
            process.race(self.shared.rng_of_races.fork());
        }
        if self.scenario.plan.weather.provider == Provider::Shm {
            let n_words = vsync::region(&self.scenario.shape).n_words as usize;
            self.shared.areas.begin(seat, me.incarnation, n_words);
        }
        process.look_into(self.shared.areas.clone());
        if let Some(mut last) = self.processes[seat].replace(process) {
            last.look_at_last();
        }
        self.history.record(ProcessId::of(&me)).is_stateless = !self.scenario.keeps_state;
        {
            let net = &mut *self.net.borrow_mut();
            net.trace.record(net.queue.now(), seat, Topic::Restart, u64::from(life), 0);
            if life > 1 {
                net.coverage.hit(Mark::Restarted);
            }
            let now = net.now();
            net.arm_run(seat, now);
        }
        self.connect_born(seat, is_founder);
        self.deafen_returning(seat);
    }

    /// A process that begins on shared memory finds what the last one left, or none of it.
    fn renew_memory(&mut self, seat: usize) {
        let net = &mut *self.net.borrow_mut();
        if net.weather.provider == Provider::Shm && self.scenario.keeps_memory {
            return;
        }
        Outages::replace_memory(net, seat);
        net.clear_region(seat);
    }

    fn connect_born(&mut self, seat: usize, is_founder: bool) {
        let net = &mut *self.net.borrow_mut();
        for peer in (0..self.processes.len()).filter(|peer| *peer != seat) {
            let (out, back) = (net.link_index(seat, peer), net.link_index(peer, seat));
            match net.weather.provider {
                _ if is_founder && peer < self.scenario.n_founders => net.connect(out),
                Provider::Shm => {
                    net.connect(out);
                    net.tell(peer, Event::LinkUp(Rank::at(seat)));
                    net.kick(back);
                }
                Provider::Tcp => {
                    let at = net.now() + self.outages.rng.below(10 * MS);
                    net.queue.push(at, Happening::Reconnect(out as u32));
                }
            }
        }
    }

    pub(super) fn crash(&mut self, seat: usize) {
        if self.is_alive(seat) && self.processes[seat].as_ref().is_some_and(Process::owes_blocks) {
            self.net.borrow_mut().coverage.hit(Mark::RelayDied);
        }
        if self.is_alive(seat)
            && let Some(process) = &self.processes[seat]
        {
            process.show_copies(false);
        }
        self.outages.crash(&mut self.net.borrow_mut(), seat);
        self.lose_process(seat);
    }

    /// Starts another process on `seat` in a while.
    pub(super) fn start_later(&mut self, seat: usize) {
        if self.awaited.insert(Rank::at(seat)) {
            let after = self.outages.rng.below(self.scenario.plan.fault_ns_max);
            self.push_in(after, Happening::Mend(Fault::Crash(seat as u16)));
        }
    }

    pub(super) fn start(&mut self, seat: usize) {
        if !self.is_alive(seat) {
            self.be_born(seat, Start::Join);
        }
    }

    // ---- the end ----

    /// Judges the properties of the whole history.
    fn judge(mut self) -> Outcome {
        self.processes.iter_mut().flatten().for_each(Process::look_at_last);
        let is_well = self.latest().is_some() && self.unachieved().is_none();
        self.living().for_each(|process| process.show_copies(is_well));
        let is_sound_so_far = self.net.borrow().violation.is_none();
        if let (true, Err((property, detail))) = (is_sound_so_far, checks::judge(&self.history)) {
            self.violate(property, detail);
        }
        if let Some((book, _)) = &self.shared.objects {
            let book = book.borrow();
            objects::marks(&book).for_each(|mark| self.net.borrow_mut().coverage.hit(mark));
            if let Err(detail) = objects::judge(&book) {
                self.violate(Property::Answer, detail);
            }
        }
        let records = self.history.records.values();
        let n_multicast: u64 = records.clone().map(super::history::Record::n_multicast).sum();
        let n_own = self.history.records.iter().map(|(process, record)| {
            let is_own =
                |id: &super::history::MessageId| ProcessId(id.sender, id.incarnation) == *process;
            record.deliveries().filter(|(_, id, _)| is_own(id)).count()
        });
        let n_answered = n_own.sum();
        let net = &mut *self.net.borrow_mut();
        Outcome {
            violation: net.violation.take(),
            fingerprint: net.trace.fingerprint(),
            n_records: net.trace.n_records(),
            virtual_ns: net.queue.now(),
            is_judged: true,
            n_asked: n_multicast as usize,
            n_answered,
            coverage: net.coverage.clone(),
            trace: std::mem::replace(&mut net.trace, Trace::new(false)).into_text(),
        }
    }
}

/// The process of `incarnation` on `seat`.
pub(super) fn knock(seat: usize, incarnation: u64) -> Knock {
    let metadata = [seat as u64, incarnation];
    const _: () = assert!(METADATA_WORDS == 2, "one word each");
    Knock { seat: Rank::at(seat), incarnation: Incarnation(incarnation), metadata }
}
