//! What goes wrong, and when it is mended.
//!
//! - I1 The planner keeps to what memory-quorum promises: a death never leaves fewer living states
//!   than a majority of the members, unless states survive on disks. (`scenario` goes further,
//!   where "data lost" is expected.)
//! - I2 In the core nothing goes wrong any more once it was healed.

use crate::Provider;
use crate::coverage::Mark;
use crate::net::LATE_NS_MAX;
use crate::plan::{Kind, MS};
use crate::queue::{Fault, Happening, NEVER};
use crate::trace::Topic;
use crate::world::{Phase, World};
use base::{Event, Rank, Rng, majority};
use proto::Role;

/// The planner's own notes: which faults last at the moment.
pub(crate) struct Faults {
    rng: Rng,
    /// Wires that are cut, each at most once at a time.
    cut: Vec<bool>,
    paused: Vec<bool>,
    /// Wires between the two sides of the partition, if there is one.
    partition: Vec<usize>,
    /// The leader's next proposal is waited for; what happens then lasts so long.
    ambush: Option<u64>,
    /// The same, for the next candidate.
    usurp: Option<u64>,
    /// How long what an ambush does lasts.
    spring_lasts: u64,
    /// A pair of nodes that tries to connect again.
    reconnecting: Vec<bool>,
}

impl Faults {
    pub(crate) fn new(rng: Rng, members: usize) -> Faults {
        Faults {
            rng,
            cut: vec![false; members * members],
            paused: vec![false; members],
            partition: Vec::new(),
            ambush: None,
            usurp: None,
            spring_lasts: MS,
            reconnecting: vec![false; members * members],
        }
    }

    /// A time of any magnitude up to a tenth of a second.
    fn soon(&mut self) -> u64 {
        let most = MS << self.rng.below(8);
        self.rng.below(most)
    }
}

/// How long a provider waits for an answer before it calls a link broken.
const LINK_TIMEOUT_NS_MAX: u64 = 2_000 * MS;

impl World {
    pub(crate) fn on_strike(&mut self) {
        if self.phase != Phase::Safety || self.plan.kinds.is_empty() {
            return;
        }
        let rng = &mut self.faults.rng;
        let pause = 1 + rng.below(2 * self.plan.strike_every_ns);
        let kind = self.plan.kinds[rng.below(self.plan.kinds.len() as u64) as usize];
        let lasts = 1 + rng.below(self.plan.fault_ns_max);
        self.net.queue.push(self.net.now() + pause, Happening::Strike);
        self.strike(kind, lasts);
    }

    fn strike(&mut self, kind: Kind, lasts: u64) {
        let members = self.plan.members as u64;
        let node = match kind {
            Kind::CrashLeader | Kind::PauseLeader | Kind::Desert => {
                let leader = (0..self.plan.members).find(|at| self.role(*at) == Some(Role::Leader));
                let Some(leader) = leader else { return };
                leader
            }
            _ => self.faults.rng.below(members) as usize,
        };
        let wire = self.faults.rng.below(members * members) as usize;
        let until = self.net.now() + lasts;
        match kind {
            Kind::Crash | Kind::CrashLeader if self.may_die(node) => {
                self.crash(node);
                self.fault_ends(until, Fault::Crash(node as u8));
            }
            Kind::Pause | Kind::PauseLeader if !self.faults.paused[node] => {
                self.pause(node);
                self.fault_ends(until, Fault::Pause(node as u8));
            }
            Kind::Ambush => self.faults.ambush = Some(lasts),
            Kind::Usurp => self.faults.usurp = Some(lasts),
            Kind::Desert => {
                for other in (0..self.plan.members).filter(|other| *other != node) {
                    if !self.faults.paused[other] {
                        self.pause(other);
                        self.fault_ends(until, Fault::Pause(other as u8));
                    }
                }
                let at = self.net.now() + lasts / 4 * 3;
                self.net.queue.push(at, Happening::Spring(node as u8));
            }
            Kind::Cut if !self.is_loop(wire) && !self.faults.cut[wire] => {
                self.cut(wire);
                self.fault_ends(until, Fault::Cut(wire as u8));
            }
            Kind::Slow if !self.is_loop(wire) => {
                let times = 1 << self.faults.rng.range(2, 12);
                self.net.wires[wire].slowness = times;
                self.net.trace.record(self.net.now(), node, Topic::Slow, wire as u64, times);
                self.fault_ends(until, Fault::Slow(wire as u8));
            }
            Kind::Sluggish => {
                self.net.processes[node].effort = 500 << self.faults.rng.range(2, 14);
                self.net.trace.record(self.net.now(), node, Topic::Sluggish, 1, lasts);
                self.fault_ends(until, Fault::Sluggish(node as u8));
            }
            Kind::Partition if self.faults.partition.is_empty() => {
                self.partition();
                self.fault_ends(until, Fault::Partition);
            }
            Kind::Drift => {
                let rate = self.faults.rng.range(900, 1100);
                self.net.processes[node].clock.run_at(self.net.queue.now(), rate);
                self.net.trace.record(self.net.now(), node, Topic::Drift, rate, 0);
                self.net.arm_run(node, self.net.now());
            }
            Kind::Jump => {
                self.net.processes[node].clock.jump(self.net.queue.now(), lasts);
                self.net.coverage.hit(Mark::ClockJumped);
                self.net.trace.record(self.net.now(), node, Topic::Jump, lasts, 0);
                self.net.arm_run(node, self.net.now());
            }
            Kind::FalseHint => {
                let about = self.faults.rng.below(members) as usize;
                let life = self.net.processes[about].life;
                let (to, about) = (node as u8, about as u8);
                self.net.queue.push(self.net.now(), Happening::Hint { to, about, life });
            }
            Kind::Reset if !self.is_loop(wire) => self.reset(wire),
            Kind::Halfway
            | Kind::Unsynced
            | Kind::Belated
            | Kind::Fickle
            | Kind::Succession
            | Kind::Deaf => self.lay(kind, node, lasts),
            Kind::Wall => self.upset_wall_clock(node, lasts),
            Kind::PowerCut
            | Kind::PowerCutAll
            | Kind::DiskStall
            | Kind::DiskFull
            | Kind::SyncFails
            | Kind::DiskRot
            | Kind::Relapse => {
                self.strike_disks(kind, node, lasts);
            }
            // The same fault lasts already, or the planner must not do it now.
            Kind::Crash
            | Kind::CrashLeader
            | Kind::Pause
            | Kind::PauseLeader
            | Kind::Cut
            | Kind::Slow
            | Kind::Partition
            | Kind::Reset => {}
        }
    }

    /// `node` proposes: if that was waited for, something happens to it within a verb's time.
    pub(crate) fn lay_ambush(&mut self, node: usize) {
        if let Some(lasts) = self.faults.ambush.take() {
            self.spring_soon(node, lasts);
        }
    }

    /// `node` tries to lead: the same.
    pub(crate) fn lay_ambush_for_candidate(&mut self, node: usize) {
        if let Some(lasts) = self.faults.usurp.take() {
            self.spring_soon(node, lasts);
        }
    }

    pub(crate) fn spring_soon(&mut self, node: usize, lasts: u64) {
        let weather = &self.plan.weather;
        let soon = self.faults.rng.below(6 * (weather.latency_ns + weather.jitter_ns));
        self.spring_at(self.net.now() + soon, node, lasts);
    }

    pub(crate) fn spring_at(&mut self, at: u64, node: usize, lasts: u64) {
        self.faults.spring_lasts = lasts;
        self.net.queue.push(at, Happening::Spring(node as u8));
    }

    pub(crate) fn on_spring(&mut self, node: usize) {
        if self.phase != Phase::Safety {
            return;
        }
        let lasts = self.faults.spring_lasts;
        let until = self.net.now() + lasts;
        if self.may_die(node) && self.faults.rng.chance(3, 4) {
            self.crash(node);
            self.fault_ends(until, Fault::Crash(node as u8));
        } else if !self.faults.paused[node] {
            self.pause(node);
            self.fault_ends(until, Fault::Pause(node as u8));
        }
    }

    fn is_loop(&self, wire: usize) -> bool {
        wire / self.plan.members == wire % self.plan.members
    }

    /// I1.
    pub(crate) fn may_die(&self, node: usize) -> bool {
        if self.species.is_durable {
            return self.net.processes[node].alive;
        }
        if self.species.has_operator {
            return self.net.processes[node].alive && self.is_dispensable(node);
        }
        let others = (0..self.plan.members).filter(|other| *other != node);
        let n_left = others.filter(|other| self.holds_state(*other)).count();
        self.net.processes[node].alive && n_left >= majority(self.plan.members)
    }

    // ---- processes ----

    pub(crate) fn crash(&mut self, node: usize) {
        let now = self.net.now();
        self.net.trace.record(now, node, Topic::Crash, 0, 0);
        self.net.coverage.hit(Mark::Crashed);
        if self.role(node) == Some(Role::Leader) {
            self.net.coverage.hit(Mark::LeaderCrashed);
        }
        let process = &mut self.net.processes[node];
        process.alive = false;
        process.leads = false;
        process.inbox.clear();
        let life = process.life;
        self.net.queue.set_run(node, NEVER);
        self.machines[node] = None;
        self.shells[node].arrived.clear();
        if self.species.is_durable {
            self.disks[node].lose_process(&mut self.net.rng);
        }
        let tcp = self.plan.weather.provider == Provider::Tcp;
        for peer in 0..self.plan.members {
            let (out, back) = (self.net.link_index(node, peer), self.net.link_index(peer, node));
            // What it had posted is the kernel's or the card's now: some of it goes on.
            let n_verbs = self.net.links[out].verbs.len() as u64;
            let survivors = self.faults.rng.below(n_verbs + 1) as usize;
            self.net.links[out].orphan(survivors);
            if peer == node {
                continue;
            }
            if tcp {
                self.net.links[back].dead_end = true;
                let after = self.faults.soon();
                self.net.queue.push(now + after, Happening::Break(back as u8));
            }
            if self.faults.rng.chance(self.plan.hints, 8) {
                let after = 20_000 + self.faults.soon();
                let (to, about) = (peer as u8, node as u8);
                self.net.queue.push(now + after, Happening::Hint { to, about, life });
            }
        }
    }

    pub(crate) fn restart(&mut self, node: usize) {
        if self.net.processes[node].alive || !self.is_taken(node) {
            return;
        }
        self.net.trace.record(self.net.now(), node, Topic::Restart, 0, 0);
        self.net.coverage.hit(Mark::Restarted);
        if let Some(birth) = self.rebirth(node) {
            self.be_born(node, birth);
        }
    }

    pub(crate) fn on_hint(&mut self, to: usize, about: usize, life: u32) {
        if to == about || !self.net.processes[to].alive {
            return;
        }
        self.net.trace.record(self.net.now(), to, Topic::Hint, about as u64, u64::from(life));
        if self.net.processes[about].alive {
            self.net.coverage.hit(Mark::FalseHint);
        }
        self.net.tell(to, Event::ProcessFailed(Rank::at(about)));
    }

    /// Stops a process, wherever it is: also between two posts.
    pub(crate) fn pause(&mut self, node: usize) {
        self.net.trace.record(self.net.now(), node, Topic::Pause, 0, 0);
        self.faults.paused[node] = true;
        self.net.processes[node].n_stops += 1;
        self.net.queue.set_run(node, NEVER);
        let tcp = self.plan.weather.provider == Provider::Tcp;
        for peer in 0..self.plan.members {
            let out = self.net.link_index(node, peer);
            // On shm a post is an instruction of this process: what has not happened waits.
            self.net.links[out].frozen = !tcp || self.faults.rng.chance(1, 2);
            if tcp && peer != node {
                let back = self.net.link_index(peer, node);
                self.time_out_later(back);
            }
        }
    }

    pub(crate) fn resume(&mut self, node: usize) {
        if !self.faults.paused[node] {
            return;
        }
        let now = self.net.now();
        self.net.trace.record(now, node, Topic::Resume, 0, 0);
        self.net.coverage.hit(Mark::Paused);
        self.faults.paused[node] = false;
        let process = &mut self.net.processes[node];
        process.n_stops -= 1;
        if process.leads && self.leader.is_some_and(|(leader, _)| leader != node) {
            self.net.coverage.hit(Mark::StaleLeaderWoke);
        }
        for peer in 0..self.plan.members {
            let (out, back) = (self.net.link_index(node, peer), self.net.link_index(peer, node));
            self.net.links[out].frozen = false;
            self.net.kick(out);
            self.net.kick(back);
        }
        self.net.arm_run(node, now);
    }

    // ---- links ----

    pub(crate) fn cut(&mut self, wire: usize) {
        self.net.trace.record(self.net.now(), 0, Topic::Cut, wire as u64, 0);
        self.faults.cut[wire] = true;
        self.net.hold(wire);
        self.time_out_later(wire);
    }

    pub(crate) fn heal_cut(&mut self, wire: usize) {
        if std::mem::take(&mut self.faults.cut[wire]) {
            self.net.trace.record(self.net.now(), 0, Topic::Heal, wire as u64, 0);
            self.net.release(wire);
        }
    }

    fn partition(&mut self) {
        let members = self.plan.members;
        let sides = self.faults.rng.below(1 << members);
        let side = |node: usize| sides >> node & 1;
        let across: Vec<usize> = (0..members * members)
            .filter(|wire| side(wire / members) != side(wire % members))
            .collect();
        self.net.trace.record(self.net.now(), 0, Topic::Cut, sides, u64::MAX);
        self.net.coverage.hit(Mark::Partitioned);
        for wire in &across {
            self.net.hold(*wire);
            self.time_out_later(*wire);
        }
        self.faults.partition = across;
    }

    fn unite(&mut self) {
        for wire in std::mem::take(&mut self.faults.partition) {
            self.net.trace.record(self.net.now(), 0, Topic::Heal, wire as u64, 1);
            self.net.release(wire);
        }
    }

    /// Where links can break, a link that carries nothing for long is given up.
    fn time_out_later(&mut self, link: usize) {
        if self.plan.weather.provider == Provider::Tcp {
            let after = self.faults.rng.range(LINK_TIMEOUT_NS_MAX / 20, LINK_TIMEOUT_NS_MAX);
            self.net.queue.push(self.net.now() + after, Happening::Break(link as u8));
        }
    }

    /// A poster looks whether its link still works.
    pub(crate) fn on_break(&mut self, link: usize) {
        let members = self.plan.members;
        let (from, to) = (link / members, link % members);
        let cut = [link, to * members + from].iter().any(|wire| self.net.wires[*wire].n_holds > 0);
        if from != to && (cut || !self.net.processes[to].runs() || self.net.links[link].dead_end) {
            self.lose_connection(from, to);
        }
    }

    /// A connection is reset although nothing is wrong with either end.
    pub(crate) fn reset(&mut self, wire: usize) {
        self.lose_connection(wire / self.plan.members, wire % self.plan.members);
    }

    /// `from` notices first, `to` a little later.
    fn lose_connection(&mut self, from: usize, to: usize) {
        let (out, back) = (self.net.link_index(from, to), self.net.link_index(to, from));
        if !self.net.links[out].is_connected() {
            return;
        }
        self.net.break_link(out);
        // The other direction is the same connection: it dies too, unless it is up anew by then.
        self.net.break_link(back);
        self.reconnect_later(out);
    }

    fn reconnect_later(&mut self, link: usize) {
        let members = self.plan.members;
        let (a, b) = (link / members, link % members);
        let pair = a.min(b) * members + a.max(b);
        if !std::mem::replace(&mut self.faults.reconnecting[pair], true) {
            let after = self.faults.rng.range(MS, 30 * MS) * self.plan.pace;
            self.net.queue.push(self.net.now() + after, Happening::Reconnect(pair as u8));
        }
    }

    pub(crate) fn on_reconnect(&mut self, link: usize) {
        let members = self.plan.members;
        let (a, b) = (link / members, link % members);
        self.faults.reconnecting[a.min(b) * members + a.max(b)] = false;
        let (out, back) = (self.net.link_index(a, b), self.net.link_index(b, a));
        if [out, back].iter().all(|link| self.net.links[*link].is_connected()) {
            return;
        }
        let free = [out, back].iter().all(|wire| self.net.wires[*wire].n_holds == 0);
        let (one, two) = (&self.net.processes[a], &self.net.processes[b]);
        if !one.alive || !two.alive {
            // The next life of the dead one connects.
            return;
        }
        if free && one.runs() && two.runs() {
            self.net.break_link(out);
            self.net.break_link(back);
            self.net.connect(out);
            self.net.connect(back);
            self.spring_fickle(link);
        } else {
            self.reconnect_later(link);
        }
    }

    // ---- mending ----

    pub(crate) fn mend(&mut self, fault: Fault) {
        if self.phase >= Phase::Healing && !self.still_mends(fault) {
            // Outside the core things stay as they are.
            return;
        }
        match fault {
            Fault::Crash(node) => self.restart(node as usize),
            Fault::Pause(node) => self.resume(node as usize),
            Fault::Cut(wire) => self.heal_cut(wire as usize),
            Fault::Slow(wire) => self.net.wires[wire as usize].slowness = 1,
            Fault::Sluggish(node) => self.net.processes[node as usize].effort = 500,
            Fault::Partition => self.unite(),
            Fault::Disk(node) => self.release_disk(node as usize),
            Fault::Wall(node) => self.correct_wall_clock(node as usize),
        }
    }

    fn still_mends(&self, fault: Fault) -> bool {
        match fault {
            // A life or a direction outside the core may come back at any time, or never.
            Fault::Crash(node) | Fault::Pause(node) => node % 2 == 0,
            Fault::Disk(_) | Fault::Wall(_) => true,
            Fault::Cut(_) | Fault::Slow(_) | Fault::Sluggish(_) | Fault::Partition => true,
        }
    }

    /// I2: everything in the core and between its members works from now on.
    pub(crate) fn repair_core(&mut self) {
        let members = self.plan.members;
        self.unite();
        for wire in 0..members * members {
            let (from, to) = (wire / members, wire % members);
            if self.in_core(from) && self.in_core(to) {
                self.heal_cut(wire);
                self.net.wires[wire].slowness = 1;
                // What a slow wire has under way is not later than a healed core may be.
                let latest = self.net.now() + LATE_NS_MAX;
                self.net.links[wire].hurry(latest);
                self.net.kick(wire);
            }
        }
        for node in 0..members {
            if self.in_core(node) {
                self.restart(node);
                self.resume(node);
                self.release_disk(node);
                self.net.processes[node].effort = 500;
                let now = self.net.queue.now();
                self.net.processes[node].clock.run_at(now, crate::clock::TRUE_RATE);
                self.net.arm_run(node, now);
            } else if self.faults.rng.chance(1, 4) && self.net.processes[node].alive {
                self.pause_once(node);
            }
        }
    }

    fn pause_once(&mut self, node: usize) {
        if !self.faults.paused[node] {
            self.pause(node);
        }
    }
}
