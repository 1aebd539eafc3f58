//! A cluster, its clients, and the one loop in which everything happens.

use super::aims::{self, Aims};
use super::calls::Calls;
use super::client::Client;
use super::deviants::Deviants;
use super::disk::Platter;
use super::kinds::{Bug, Kinship, Protocol, Replicas};
use super::last_reads::LastReads;
use super::leases::Leases;
use super::member::Member;
use super::operator::Operator;
use super::own::Owns;
use super::partitions::Keyspace;
use super::scripts::Scripts;
use super::seats::Seats;
use super::several::Several;
use super::start::Beginning;
use super::talk::Talk;
use super::times::Times;
use super::waits::Waits;
use super::wipes::Wipes;
use crate::coverage::Mark;
use crate::disks::Disks;
use crate::plan::{MS, Plan};
use crate::queue::{Fault, Happening};
use crate::trace::{Topic, Trace};
use crate::world::Phase;
use crate::world::net::Net;
use crate::world::outage::Outages;
use crate::world::silence::Silence;
use crate::{Config, Outcome, Property, Provider, Shape};
use base::{Incarnation, Prefix, Rank, Rng};
use core::time::Duration;
use engine::Bounds;
use proto::Role;
use proto::amcast::{GroupId, Place};
use std::cell::RefCell;
use std::rc::Rc;

/// The number of operations of each client that must be answered when all is well.
pub(super) const N_LIVE: u32 = 5;
/// The number of events in one virtual second beyond which a run is taken for one that spins. The
/// busiest second of abd-cluster's seed 20, five members with many clients, has 300,000. One of
/// replicate-strict's seed 35 has more than a million: a checkpoint of 200 KB is said in pieces of
/// 25 bytes, and again after a save that was given up.
const N_EVENTS_MAX: u64 = 4_000_000;
/// The events that one more process of a member stands for: it costs as much.
const EVENTS_OF_RESTART: u64 = 1_000;

/// A cluster and its clients.
pub(crate) struct World {
    pub(super) kind: Kinship,
    pub(super) net: Rc<RefCell<Net>>,
    pub(super) plan: Plan,
    pub(super) outages: Outages,
    pub(super) rng: Rng,
    pub(super) members: Vec<Option<Box<dyn Member>>>,
    /// The disks of members without a process.
    pub(super) platters: Vec<Option<Platter>>,
    pub(super) clients: Vec<Client>,
    pub(super) talk: Talk,
    pub(super) phase: Phase,
    pub(super) seats: Seats,
    /// The bytes of values that a member keeps for others, and what else may pile up in it.
    pub(super) room: (usize, Bounds),
    pub(super) patience: Duration,
    /// Whether clients hear of a write when it is on every voter's disk (`disk-all`).
    pub(super) waits_for_all: bool,
    pub(super) deviants: Deviants,
    pub(super) leader: Option<usize>,
    pub(super) aims: Aims,
    /// Of a keyspace in partitions.
    pub(super) keyspace: Keyspace,
    /// A virtual second, and the number of its events so far.
    pub(super) events_of_second: (u64, u64),
    pub(super) last_reads: LastReads,
}

/// The bounds of members: often so narrow that they are met.
fn draw_bounds(seed: u64) -> Bounds {
    let mut rng = Rng::new(seed ^ 0x626f_756e_6473);
    if rng.chance(1, 3) {
        return Bounds::default();
    }
    Bounds {
        span: 8 << rng.below(6),
        reads: 8 << rng.below(6),
        rounds: [1, 1, 4][rng.below(3) as usize],
        slice_bytes: 1 << rng.range(9, 17),
        foreign_bytes: 1 << rng.range(8, 14),
        window_bytes: 1 << rng.range(12, 18),
        values_bytes: 1 << rng.range(8, 14),
        piece_bytes: 1 << rng.range(6, 16),
    }
}

/// Whether clients wait for every disk.
fn draw_disk_all(seed: u64, protocol: Protocol) -> bool {
    protocol.waits_for_all_disks() && Rng::new(seed ^ 0x0064_6973_6b61_6c6c).chance(1, 3)
}

/// The time after which a member gives a request up, by a draw of four. A message of partitions on
/// disks takes some five syncs, one after the other, and so do the batches behind it in a pipeline.
fn patience(protocol: Protocol, plan: &Plan, draw: u64) -> Duration {
    let usual = Duration::from_millis([400, 800, 1600, 1600][draw as usize]);
    if protocol.replicas() != Some(Replicas::OnDisk) {
        return usual;
    }
    usual.max(100 * Duration::from_nanos(plan.disks.latency_ns + plan.disks.jitter_ns))
}

/// Runs one seed, from beginning to end.
pub(crate) fn run(kind: Kinship, config: &Config, seed: u64) -> Outcome {
    let mut world = World::new(kind, config, seed);
    world.begin();
    world.run_to_the_end();
    world.judge()
}

impl World {
    pub(super) fn new(kind: Kinship, config: &Config, seed: u64) -> World {
        let mut rng = Rng::new(seed ^ 0x636c_7573_7465_7273);
        let mut plan = Plan::draw(config, &mut rng);
        plan.shape = Shape { ring_slots: 16 << rng.below(3), value_bytes: 256 << rng.below(3) };
        let has_disks = kind.protocol.has_disks();
        if has_disks {
            plan.disks = Disks::draw(seed, &mut plan.kinds, plan.weather.provider);
        }
        // Else members stay as they are, and in a day they do.
        let operator = if kind.protocol.changes_members() && !config.is_long {
            Operator::draw(seed, config, &mut plan, has_disks, kind.protocol.replicates_program())
        } else {
            None
        };
        aims::draw(seed, kind.protocol, &mut plan);
        plan.think_ns = MS << rng.below(5);
        if kind.protocol.replicates_program() {
            // A copy that begins again executes everything again.
            plan.think_ns *= 16;
        }
        if config.is_long {
            plan.stretch(seed);
            plan.safety_ns /= 3;
        }
        let n_words = kind.protocol.n_words(plan.members, &plan.shape);
        let mut net = Net::new(
            plan.members,
            plan.n_clients,
            n_words,
            plan.weather,
            rng.fork(),
            Trace::new(config.trace),
        );
        net.claimed.answered.may_swap = kind.protocol.replicates_program();
        let long_bytes = 2 * plan.shape.value_bytes as usize + rng.below(2000) as usize;
        let n_keys = 1 + rng.below(4);
        let n_ballast = if rng.chance(1, 4) { rng.range(2, 6) } else { 0 };
        let members = plan.members;
        let snapshot_bytes = 1 << rng.range(10, 15);
        let writing = Duration::from_nanos(MS << rng.below(8));
        let store = kind.bug.and_then(Bug::store).unwrap_or_default();
        let of_disks = has_disks.then_some((store, snapshot_bytes, writing));
        let deviants = Deviants::draw(seed, members, plan.n_clients);
        let deviants = if kind.protocol.holds_answers() { deviants.strict(seed) } else { deviants };
        // Where members go, one copy that deviates may become half of those that are left.
        let deviants = if operator.is_some() { deviants.reformed() } else { deviants };
        let times = Times::draw(seed, deviants.can_draw(kind.protocol));
        let seats = Seats::new(members, operator, of_disks);
        // (In a day there are clients with sessions, and with keys that expire.)
        let wipes = Wipes::draw(seed, kind.protocol.has_leases() && !config.is_long);
        let (mut leases, mut calls) = (
            Leases::draw(
                seed,
                kind.protocol.has_sessions() && !wipes.is_on,
                kind.protocol.has_one_leader(),
            ),
            Calls::draw(seed, kind.protocol.has_sessions() && !wipes.is_on, n_keys),
        );
        if config.is_long {
            leases.stretch();
            calls.stretch();
        }
        World {
            kind,
            net: Rc::new(RefCell::new(net)),
            outages: Outages::new(rng.fork(), &plan),
            members: (0..members).map(|_| None).collect(),
            platters: (0..members).map(|_| seats.new_platter()).collect(),
            seats,
            clients: (0..plan.n_clients).map(|id| Client::new(id as u64)).collect(),
            talk: Talk::new(
                rng.fork(),
                (
                    leases,
                    Owns::draw(seed, kind.protocol, &wipes),
                    calls,
                    Waits::draw(seed, kind.protocol.has_waits(), members),
                ),
                (
                    Several::draw(seed, kind.protocol),
                    Scripts::draw(seed, kind.protocol.has_leases(), n_keys),
                    wipes,
                    times,
                ),
                kind.protocol.orders_all(),
                (n_keys, n_ballast),
                plan.reads,
                long_bytes,
            ),
            phase: Phase::Safety,
            room: (1 << rng.range(9, 16), draw_bounds(seed)),
            aims: Aims {
                n_to_leave: rng.below(5),
                n_to_end: aims::draw_ends(seed, kind.protocol),
                is_to_hide: aims::hides(seed, kind.protocol),
                silence: Silence::draw(seed),
                ..Aims::default()
            },
            patience: patience(kind.protocol, &plan, rng.below(4)),
            keyspace: Keyspace::draw(seed, kind.protocol.replicas(), members),
            waits_for_all: draw_disk_all(seed, kind.protocol),
            deviants,
            leader: None,
            events_of_second: (0, 0),
            last_reads: LastReads::new(plan.n_clients),
            plan,
            rng,
        }
    }

    // ---- small things ----

    pub(super) fn now(&self) -> u64 {
        self.net.borrow().now()
    }

    pub(super) fn push_in(&self, span: u64, what: Happening) {
        let net = &mut *self.net.borrow_mut();
        let at = net.now() + span;
        net.queue.push(at, what);
    }

    pub(super) fn wake(&self, node: usize) {
        let net = &mut *self.net.borrow_mut();
        let now = net.now();
        net.arm_run(node, now);
    }

    pub(super) fn violate(&self, property: Property, detail: String) {
        self.net.borrow_mut().violate(property, detail);
    }

    pub(super) fn is_alive(&self, node: usize) -> bool {
        self.net.borrow().processes[node].alive
    }

    pub(super) fn has_disks(&self) -> bool {
        self.kind.protocol.has_disks()
    }

    pub(super) fn role(&self, node: usize) -> Option<Role> {
        Some(self.members[node].as_ref()?.view().role)
    }

    /// Whether `node` lacks nothing that the others may have forgotten, whether it knows so or not.
    pub(super) fn holds_state(&self, node: usize) -> bool {
        let floors: Vec<_> = self.members.iter().flatten().flat_map(|one| one.stands()).collect();
        let reaches = |(group, upto, _): &(GroupId, Place, Place)| {
            floors.iter().all(|(of, _, floor)| of != group || floor <= upto)
        };
        self.members[node].as_ref().is_some_and(|member| {
            member.view().role != Role::Learner && member.stands().iter().all(reaches)
        })
    }

    /// The time that bytes between a client and a member take.
    pub(super) fn distance(&mut self) -> u64 {
        let weather = &self.plan.weather;
        1 + weather.latency_ns + self.rng.below(weather.jitter_ns + 1)
    }

    // ---- the run ----

    pub(super) fn begin(&mut self) {
        for founder in self.seats.founders().iter() {
            self.be_born(founder.index(), true);
        }
        self.open_office();
        for client in 0..self.clients.len() {
            self.wake_client(client, 2 * MS * (client as u64 + 1));
        }
        self.push_in(self.plan.strike_every_ns, Happening::Strike);
        self.push_in(self.plan.safety_ns, Happening::Phase);
    }

    pub(super) fn run_to_the_end(&mut self) {
        while self.phase != Phase::Over && self.net.borrow().violation.is_none() {
            let next = self.net.borrow_mut().queue.pop_until(u64::MAX);
            let Some(what) = next else { break };
            self.count_events(1);
            self.happen(what);
        }
        self.net.borrow_mut().judge_end(self.phase);
    }

    fn count_events(&mut self, n_more: u64) {
        let second = self.now() / (1_000 * MS);
        let (counted, n_before) = self.events_of_second;
        let n = n_more + if counted == second { n_before } else { 0 };
        self.events_of_second = (second, n);
        if n > N_EVENTS_MAX {
            let detail = format!("{N_EVENTS_MAX} events within a second: something spins");
            self.violate(Property::Liveness, detail);
        }
    }

    pub(super) fn happen(&mut self, what: Happening) {
        match what {
            Happening::Verb(link) => self.net.borrow_mut().on_verb(link as usize),
            Happening::Completion(link) => self.net.borrow_mut().on_completion(link as usize),
            Happening::Run(node) => self.on_run(node as usize),
            Happening::Client(client) => self.on_client(client as usize),
            Happening::Strike => self.on_strike(),
            Happening::Spring(node) => self.on_spring(node as usize),
            Happening::Mend(fault) => {
                let starts_first =
                    matches!(fault, Fault::Crash(node) if self.seats.is_new(node as usize));
                let stopped =
                    matches!(fault, Fault::Crash(node) if self.aims.stopped == Some(node as usize));
                if self.phase == Phase::Safety || starts_first || stopped {
                    self.mend(fault);
                }
            }
            Happening::Break(link) => {
                self.outages.on_break(&mut self.net.borrow_mut(), link as usize);
            }
            Happening::Reconnect(link) => {
                self.outages.on_reconnect(&mut self.net.borrow_mut(), link as usize);
                self.spring_fickle(link as usize);
            }
            Happening::Reset(link) => {
                self.outages.reset(&mut self.net.borrow_mut(), link as usize);
            }
            Happening::Hint { to, about, life } => {
                Outages::hint(&mut self.net.borrow_mut(), to as usize, about as usize, life);
            }
            Happening::Disk { node, life } => self.on_disk(node as usize, life),
            Happening::PowerCut(node) => self.on_flicker(node as usize),
            Happening::Operate => self.on_operate(),
            Happening::Depose => self.on_depose(),
            Happening::Phase => self.on_phase(),
            other => unreachable!("{other:?} is of another world"),
        }
    }

    // ---- processes ----

    pub(super) fn be_born(&mut self, node: usize, founds: bool) {
        let mut disk = self.platters[node].take();
        if let Some(platter) = &mut disk
            && !self.revive(node, platter)
        {
            self.platters[node] = disk;
            return;
        }
        let life = Outages::begin_process(&mut self.net.borrow_mut(), node);
        let incarnation = self.seats.incarnation(node);
        let is_new = self.seats.begin(node) && incarnation != Incarnation::FIRST;
        if is_new {
            self.renew_memory(node);
        }
        let (mut founds, mut joins) = (founds, Some(incarnation).filter(|_| is_new));
        if let Some(platter) = &disk {
            // It died before anything of it was durable: no message can have left it either.
            if platter.log.is_blank() {
                founds = incarnation == Incarnation::FIRST;
                joins = Some(incarnation).filter(|_| !founds);
            }
            if life > 1 && self.plan.weather.provider == Provider::Tcp {
                self.net.borrow_mut().clear_region(node);
            }
        }
        let beginning = Beginning {
            me: Rank::at(node),
            life,
            disk,
            founds,
            founders: self.seats.founders(),
            joins,
            bug: self.kind.bug,
            room: self.room,
            patience: self.patience,
            waits_for_all: self.waits_for_all,
            around: self.deviants.around(node, life),
            keyspace: self.keyspace.clone(),
        };
        match self.kind.protocol.start(beginning, &self.plan, &self.net) {
            Ok(member) => self.members[node] = Some(member),
            Err(why) => return self.violate(Property::Panic, format!("r{node}: {why}")),
        }
        self.aims.newborn = Some(node).filter(|_| life > 1);
        self.plan_flushes(node);
        self.wake(node);
        self.connect_born(node, founds && life == 1, is_new);
    }

    pub(super) fn crash(&mut self, node: usize) {
        if self.role(node) == Some(Role::Leader) {
            self.net.borrow_mut().coverage.hit(Mark::LeaderCrashed);
        }
        self.cover(node);
        self.outages.crash(&mut self.net.borrow_mut(), node);
        if let Some(mut member) = self.members[node].take()
            && let Some(disk) = member.disk()
        {
            // The remains of a process's disk are in place before the process is gone.
            let none = Platter::new(crate::Store::Model, u64::MAX, Duration::ZERO);
            let mut disk = std::mem::replace(disk, none);
            let net = &mut *self.net.borrow_mut();
            if disk.lose_process(&mut net.rng) {
                net.coverage.hit(Mark::SnapshotUnheard);
            }
            self.platters[node] = Some(disk);
        }
        // Its clients learn that at once.
        for client in 0..self.clients.len() {
            if self.clients[client].connection.is_some_and(|one| one.node == node) {
                let at = self.now() + self.distance();
                self.wake_client(client, at);
            }
        }
    }

    pub(super) fn restart(&mut self, node: usize) {
        if self.is_alive(node) || !self.seats.is_taken(node) {
            return;
        }
        {
            let net = &mut *self.net.borrow_mut();
            net.trace.record(net.queue.now(), node, Topic::Restart, 0, 0);
            net.coverage.hit(Mark::Restarted);
        }
        self.count_events(EVENTS_OF_RESTART);
        self.be_born(node, false);
        if self.aims.flickers.0 == node && self.aims.flickers.1 > 0 {
            self.aims.flickers.1 -= 1;
            let soon = self.outages.rng.below(30 * MS);
            self.push_in(soon, Happening::PowerCut(node as u16));
        }
    }

    pub(super) fn on_run(&mut self, node: usize) {
        if !self.net.borrow().processes[node].runs() {
            return;
        }
        self.spare(node);
        let n_posted = self.net.borrow().n_posted_in_all;
        let Some(mut member) = self.members[node].take() else { return };
        let idle = member.turn();
        let (role, applied) = (member.view().role, member.view().applied);
        let ballot = member.view().ballot;
        let waited = member.take_waited();
        // (Under `disk-all` what a client waits for is on every disk: `disk_all`.)
        let on_disk = member.disk().map(|disk| disk.vouched());
        let waited = if self.waits_for_all { Vec::new() } else { waited };
        let judged = self.talk.waits.judge(member.view(), on_disk, &waited);
        self.members[node] = Some(member);
        self.look_at_waits(node, &waited, judged);
        if self.ends_halfway(node) || self.ends_failed(node) {
            return;
        }
        self.plan_flushes(node);
        self.spring_unsynced(node, n_posted);
        self.look_at_members(node);
        self.look_at_told(node);
        self.look_at_rest(node);
        {
            let net = &mut *self.net.borrow_mut();
            let now = net.now();
            net.trace.record(now, node, Topic::Run, role as u64, applied.0);
            let busy = 1 + net.rng.below(2 * net.processes[node].effort);
            let process = &mut net.processes[node];
            process.busy_until = now + busy;
            let deadline = process.clock.when(process.clock.at(now).plus(idle));
            net.arm_run(node, deadline);
        }
        if role == Role::Candidate {
            self.net.borrow_mut().see_candidate();
        }
        if role == Role::Leader {
            let (life, now) = (self.net.borrow().processes[node].life, self.now());
            self.talk.leases.see_leader(node, life, ballot.0, now);
        }
        // Without a common order every member leads, and each partition has its own leader.
        let leads = role == Role::Leader && self.kind.protocol.has_one_leader();
        if leads && self.leader != Some(node) {
            let changes = self.leader.is_some();
            self.leader = Some(node);
            self.on_new_leader(node, changes);
        }
        self.hear_reports(node);
        self.hear_copy(node);
        self.hear_stop(node);
        self.wake_clients_of(node);
        self.finish_early();
    }

    fn look_at_waits(&self, node: usize, answered: &[(Prefix, usize)], judged: Result<(), String>) {
        answered.iter().for_each(|_| self.net.borrow_mut().coverage.hit(Mark::WaitAnswered));
        if let Err(detail) = judged {
            self.violate(Property::Answer, format!("a client of r{node} was told: {detail}"));
        }
    }

    pub(super) fn on_new_leader(&mut self, node: usize, changes: bool) {
        let waiting = self.clients.iter().any(|client| client.n_waiting() > 0);
        if changes && waiting {
            self.net.borrow_mut().coverage.hit(Mark::LeaderChangedUnderLoad);
        }
        if self.aims.n_to_strike > 0 {
            self.aims.n_to_strike -= 1;
            if self.may_die(node) {
                self.net.borrow_mut().coverage.hit(Mark::SuccessorStruck);
            }
            let soon = self.outages.rng.below(4 * MS);
            self.push_in(soon, Happening::Spring(node as u16));
        }
    }

    /// Counts the cases that a process has reached in its life.
    pub(super) fn cover(&mut self, node: usize) {
        let Some(member) = &mut self.members[node] else { return };
        let snapshots = member.disk().map(|disk| (disk.shelf.n_written, disk.shelf.n_failed));
        let (n_snapshots, n_failed) = snapshots.unwrap_or_default();
        let (n_checkpoints, began_with_one) = member.checkpoints();
        let (n_read_beside, n_renewed) = (member.n_read_beside(), member.n_renewed());
        let stats = member.stats();
        let reached = [
            (Mark::CommandForwarded, stats.commands_forwarded),
            (Mark::ReadForwarded, stats.reads_forwarded),
            (Mark::ReadBeside, n_read_beside),
            (Mark::PassedOn, stats.frames_passed_on),
            (Mark::StateReceived, stats.state_bytes_received),
            (Mark::SnapshotWritten, n_snapshots),
            (Mark::SnapshotFailed, n_failed),
            (Mark::CheckpointCounted, n_checkpoints),
            (Mark::CheckpointBegun, u64::from(began_with_one)),
            (Mark::CopyRenewed, n_renewed),
        ];
        let coverage = &mut self.net.borrow_mut().coverage;
        for (mark, _) in reached.into_iter().filter(|(_, n)| *n > 0) {
            coverage.hit(mark);
        }
    }
}
