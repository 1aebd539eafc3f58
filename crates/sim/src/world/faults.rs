//! The faults, and their end.
//!
//! - I1 The planner keeps to the promise of memory-quorum: a death never leaves fewer living states
//!   than a majority of the members, unless states survive on disks. (`scenario` goes further,
//!   where "data lost" is expected.)
//! - I2 The core has no fault once it was healed.

use crate::coverage::Mark;
use crate::plan::{Kind, MS, Plan};
use crate::queue::{Fault, Happening};
use crate::trace::Topic;
use crate::world::net::Net;
use crate::world::outage::Outages;
use crate::world::{Phase, World};
use base::{Rng, majority};
use proto::Role;

/// The planner's state.
pub(crate) struct Faults {
    pub(crate) outages: Outages,
    /// The duration of the fault that waits for the leader's next proposal.
    ambush: Option<u64>,
    /// The duration of the fault that waits for the next candidate.
    usurp: Option<u64>,
    /// The duration of an ambush's effect.
    spring_lasts: u64,
}

impl Faults {
    pub(crate) fn new(rng: Rng, plan: &Plan) -> Faults {
        Faults { outages: Outages::new(rng, plan), ambush: None, usurp: None, spring_lasts: MS }
    }

    /// Lays an ambush that springs in the network (`snares`).
    pub(crate) fn lay_snare(&mut self, net: &mut Net, kind: Kind, node: usize, lasts: u64) {
        self.spring_lasts = lasts;
        net.lay_snare(kind, node, &mut self.outages.rng);
    }
}

impl World {
    pub(crate) fn on_strike(&mut self) {
        if self.phase != Phase::Safety || self.plan.kinds.is_empty() {
            return;
        }
        let rng = &mut self.faults.outages.rng;
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
                let Some(leader) = self.leading() else { return };
                leader
            }
            _ => self.faults.outages.rng.below(members) as usize,
        };
        let wire = self.faults.outages.rng.below(members * members) as usize;
        let until = self.net.now() + lasts;
        match kind {
            Kind::Crash | Kind::CrashLeader if self.may_die(node) => {
                self.crash(node);
                self.fault_ends(until, Fault::Crash(node as u16));
            }
            Kind::Pause | Kind::PauseLeader if !self.faults.outages.is_paused(node) => {
                self.pause(node);
                self.fault_ends(until, Fault::Pause(node as u16));
            }
            Kind::Ambush => self.faults.ambush = Some(lasts),
            Kind::Usurp => self.faults.usurp = Some(lasts),
            Kind::Desert => {
                for other in (0..self.plan.members).filter(|other| *other != node) {
                    if !self.faults.outages.is_paused(other) {
                        self.pause(other);
                        self.fault_ends(until, Fault::Pause(other as u16));
                    }
                }
                let at = self.net.now() + lasts / 4 * 3;
                self.net.queue.push(at, Happening::Spring(node as u16));
            }
            Kind::Cut if !self.is_loop(wire) => {
                self.cut_until(until, wire);
            }
            Kind::Slow if !self.is_loop(wire) => {
                let times = 1 << self.faults.outages.rng.range(2, 12);
                self.net.wires[wire].slowness = times;
                self.net.trace.record(self.net.now(), node, Topic::Slow, wire as u64, times);
                self.fault_ends(until, Fault::Slow(wire as u32));
            }
            Kind::Sluggish => {
                self.net.processes[node].effort = 500 << self.faults.outages.rng.range(2, 14);
                self.net.trace.record(self.net.now(), node, Topic::Sluggish, 1, lasts);
                self.fault_ends(until, Fault::Sluggish(node as u16));
            }
            Kind::Partition if !self.faults.outages.is_partitioned() => {
                self.faults.outages.partition(&mut self.net);
                self.fault_ends(until, Fault::Partition);
            }
            Kind::Drift => {
                let rate = self.faults.outages.rng.range(900, 1100);
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
                let about = self.faults.outages.rng.below(members) as usize;
                let life = self.net.processes[about].life;
                let (to, about) = (node as u16, about as u16);
                self.net.queue.push(self.net.now(), Happening::Hint { to, about, life });
            }
            Kind::Reset if !self.is_loop(wire) => self.faults.outages.reset(&mut self.net, wire),
            Kind::Halfway
            | Kind::Unsynced
            | Kind::Belated
            | Kind::LastWords
            | Kind::Fickle
            | Kind::Stranger
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
            // The same fault lasts already, or the planner must not cause it now.
            Kind::Crash
            | Kind::CrashLeader
            | Kind::Pause
            | Kind::PauseLeader
            | Kind::Cut
            | Kind::Slow
            | Kind::Partition
            | Kind::Reset
            // Of clusters alone.
            | Kind::Echo => {}
        }
    }

    /// Springs the ambush that waits for a proposal of `node`, within a verb's time.
    pub(crate) fn lay_ambush(&mut self, node: usize) {
        if let Some(lasts) = self.faults.ambush.take() {
            self.spring_soon(node, lasts);
        }
    }

    /// Springs the ambush that waits for a candidate, which `node` is.
    pub(crate) fn lay_ambush_for_candidate(&mut self, node: usize) {
        self.net.see_candidate();
        if let Some(lasts) = self.faults.usurp.take() {
            self.spring_soon(node, lasts);
        }
    }

    pub(crate) fn spring_soon(&mut self, node: usize, lasts: u64) {
        let weather = &self.plan.weather;
        let soon = self.faults.outages.rng.below(6 * (weather.latency_ns + weather.jitter_ns));
        self.spring_at(self.net.now() + soon, node, lasts);
    }

    pub(crate) fn spring_at(&mut self, at: u64, node: usize, lasts: u64) {
        self.faults.spring_lasts = lasts;
        self.net.queue.push(at, Happening::Spring(node as u16));
    }

    pub(crate) fn on_spring(&mut self, node: usize) {
        if self.phase != Phase::Safety {
            return;
        }
        let lasts = self.faults.spring_lasts;
        let until = self.net.now() + lasts;
        if self.may_die(node) && self.faults.outages.rng.chance(3, 4) {
            self.crash(node);
            self.fault_ends(until, Fault::Crash(node as u16));
        } else if !self.faults.outages.is_paused(node) {
            self.pause(node);
            self.fault_ends(until, Fault::Pause(node as u16));
        }
    }

    /// The first member that takes itself for the leader.
    pub(crate) fn leading(&self) -> Option<usize> {
        (0..self.plan.members).find(|at| self.role(*at) == Some(Role::Leader))
    }

    /// Cuts a wire until then, unless it is cut already; false if it is.
    pub(crate) fn cut_until(&mut self, at: u64, wire: usize) -> bool {
        if self.faults.outages.is_cut(wire) {
            return false;
        }
        self.faults.outages.cut(&mut self.net, wire);
        self.fault_ends(at, Fault::Cut(wire as u32));
        true
    }

    fn is_loop(&self, wire: usize) -> bool {
        wire / self.plan.members == wire % self.plan.members
    }

    /// I1.
    pub(crate) fn may_die(&self, node: usize) -> bool {
        if self.subject.is_durable {
            return self.net.processes[node].alive;
        }
        if self.subject.has_operator {
            return self.net.processes[node].alive && self.is_dispensable(node);
        }
        let others = (0..self.plan.members).filter(|other| *other != node);
        let n_left = others.filter(|other| self.holds_state(*other)).count();
        self.net.processes[node].alive && n_left >= majority(self.plan.members)
    }

    // ---- processes ----

    pub(crate) fn crash(&mut self, node: usize) {
        if self.role(node) == Some(Role::Leader) {
            self.net.coverage.hit(Mark::LeaderCrashed);
        }
        self.faults.outages.crash(&mut self.net, node);
        self.machines[node] = None;
        self.shells[node].arrived.clear();
        if self.subject.is_durable {
            self.disks[node].lose_process(&mut self.net.rng);
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

    pub(crate) fn pause(&mut self, node: usize) {
        self.faults.outages.pause(&mut self.net, node);
    }

    pub(crate) fn resume(&mut self, node: usize) {
        let is_stale =
            self.net.processes[node].leads && self.leader.is_some_and(|(leader, _)| leader != node);
        if self.faults.outages.is_paused(node) && is_stale {
            self.net.coverage.hit(Mark::StaleLeaderWoke);
        }
        self.faults.outages.resume(&mut self.net, node);
    }

    // ---- links ----

    pub(crate) fn on_reconnect(&mut self, link: usize) {
        if self.faults.outages.on_reconnect(&mut self.net, link) {
            self.spring_fickle(link);
            self.spring_stranger(link);
        }
    }

    // ---- mending ----

    pub(crate) fn mend(&mut self, fault: Fault) {
        if self.phase >= Phase::Healing && !self.still_mends(fault) {
            // Outside the core faults last.
            return;
        }
        match fault {
            Fault::Crash(node) => self.restart(node as usize),
            Fault::Pause(node) => self.resume(node as usize),
            Fault::Cut(wire) => self.faults.outages.heal_cut(&mut self.net, wire as usize),
            Fault::Slow(wire) => self.net.wires[wire as usize].recover(),
            Fault::Sluggish(node) => self.net.processes[node as usize].effort = 500,
            Fault::Partition => self.faults.outages.unite(&mut self.net),
            Fault::Disk(node) => self.release_disk(node as usize),
            Fault::Wall(node) => self.correct_wall_clock(node as usize),
        }
    }

    fn still_mends(&self, fault: Fault) -> bool {
        match fault {
            // A life or a direction outside the core may come back at any time, or never.
            Fault::Crash(node) | Fault::Pause(node) => self.in_core(node.into()) || node % 2 == 0,
            Fault::Disk(_) | Fault::Wall(_) => true,
            Fault::Cut(_) | Fault::Slow(_) | Fault::Sluggish(_) | Fault::Partition => true,
        }
    }

    /// I2: repairs everything in the core and between its members.
    pub(crate) fn repair_core(&mut self) {
        let members = self.plan.members;
        self.faults.outages.unite(&mut self.net);
        for wire in 0..members * members {
            let (from, to) = (wire / members, wire % members);
            if self.in_core(from) && self.in_core(to) {
                self.faults.outages.repair_wire(&mut self.net, wire);
            } else {
                // (A leader outside the core that hears everything, late and steadily, leads on.)
                self.net.wires[wire].repair();
            }
        }
        for node in 0..members {
            self.net.processes[node].effort = 500;
            if self.in_core(node) {
                self.restart(node);
                self.resume(node);
                self.release_disk(node);
                let now = self.net.queue.now();
                self.net.processes[node].clock.run_at(now, crate::clock::TRUE_RATE);
                self.net.arm_run(node, now);
            } else if self.faults.outages.rng.chance(1, 4) && self.net.processes[node].alive {
                self.pause_once(node);
            }
        }
    }

    fn pause_once(&mut self, node: usize) {
        if !self.faults.outages.is_paused(node) {
            self.pause(node);
        }
    }
}
