//! The faults around a simulated cluster, and their end.
//!
//! - S1 a death never leaves fewer living states than a majority, unless states survive on disks:
//!   exactly the promise of memory-quorum.

use super::world::World;
use crate::Provider;
use crate::coverage::Mark;
use crate::plan::{Kind, MS};
use crate::queue::{Fault, Happening};
use crate::world::Phase;
use core::time::Duration;
use proto::Role;

/// The time within which a leader's death is over, without other faults.
const DEPOSED_WITHIN: Duration = Duration::from_millis(1500);
/// The time after which the leader comes back.
const BACK_AFTER_NS: u64 = 2_000 * MS;

impl World {
    pub(super) fn on_strike(&mut self) {
        if self.phase != Phase::Safety || self.plan.kinds.is_empty() {
            return;
        }
        let rng = &mut self.outages.rng;
        let pause = 1 + rng.below(2 * self.plan.strike_every_ns);
        let kind = self.plan.kinds[rng.below(self.plan.kinds.len() as u64) as usize];
        let lasts = 1 + rng.below(self.plan.fault_ns_max);
        self.push_in(pause, Happening::Strike);
        self.strike(kind, lasts);
    }

    pub(super) fn leader(&self) -> Option<usize> {
        (0..self.plan.members).find(|at| self.role(*at) == Some(Role::Leader))
    }

    fn strike(&mut self, kind: Kind, lasts: u64) {
        let members = self.plan.members as u64;
        let at_leader = matches!(
            kind,
            Kind::CrashLeader
                | Kind::PauseLeader
                | Kind::Desert
                | Kind::Ambush
                | Kind::Succession
                | Kind::Deaf
        );
        let node = match self.leader() {
            Some(leader) if at_leader => leader,
            None if at_leader => return,
            _ => self.outages.rng.below(members) as usize,
        };
        self.strike_network(kind, node, lasts);
        self.strike_processes(kind, node, lasts);
    }

    fn strike_network(&mut self, kind: Kind, node: usize, lasts: u64) {
        if kind == Kind::Jump {
            let now = self.now();
            self.talk.leases.begin_reign(now);
        }
        let net = &mut *self.net.borrow_mut();
        self.outages.strike(net, kind, node, lasts);
        if kind == Kind::Deaf && self.plan.members > 1 {
            net.coverage.hit(Mark::LeaderDeaf);
        }
        if kind == Kind::Wall {
            let now = net.now();
            net.processes[node].wall.upset(now, lasts, &mut self.outages.rng);
            net.coverage.hit(Mark::WallClockSet);
            net.queue.push(now + lasts, Happening::Mend(Fault::Wall(node as u16)));
        }
    }

    fn strike_processes(&mut self, kind: Kind, node: usize, lasts: u64) {
        match kind {
            Kind::Crash | Kind::CrashLeader | Kind::Ambush if self.may_die(node) => {
                self.crash_for(node, lasts);
            }
            Kind::Succession if self.may_die(node) => {
                self.crash_for(node, lasts);
                self.aims.n_to_strike = 1 + self.outages.rng.below(3);
            }
            Kind::Relapse if self.may_die(node) => {
                // It is back at once, while its requests are still on their way.
                let soon = self.outages.rng.below(5 * MS);
                self.crash_for(node, soon);
                self.aims.flickers = (node, self.outages.rng.below(6));
            }
            Kind::Echo if self.may_die(node) => self.echo(node, lasts),
            Kind::Halfway => self.lay_halfway(node, lasts),
            Kind::Fickle => self.aims.is_fickle = true,
            Kind::Unsynced => self.aims.cuts_power = true,
            Kind::Pause | Kind::PauseLeader => self.pause_for(node, lasts),
            Kind::Desert => {
                for other in (0..self.plan.members).filter(|other| *other != node) {
                    self.pause_for(other, lasts);
                }
                self.push_in(lasts / 4 * 3, Happening::Spring(node as u16));
            }
            Kind::PowerCut if self.has_disks() && self.is_alive(node) => {
                self.crash_for(node, lasts);
                self.lose_power(node);
            }
            Kind::PowerCutAll if self.has_disks() => self.cut_all_power(lasts),
            Kind::DiskStall | Kind::DiskFull | Kind::SyncFails | Kind::DiskRot => {
                self.strike_disk(kind, node, lasts);
            }
            // It is a fault of the network, or must not happen now, or not in this world.
            _ => {}
        }
    }

    /// Strikes a link whose ends are connected again, perhaps.
    pub(super) fn spring_fickle(&mut self, link: usize) {
        if self.phase != Phase::Safety || !std::mem::take(&mut self.aims.is_fickle) {
            return;
        }
        self.net.borrow_mut().coverage.hit(Mark::BackAndGone);
        let weather = &self.plan.weather;
        let soon = self.outages.rng.below(8 * (weather.latency_ns + weather.jitter_ns));
        let what = match self.outages.rng.below(3) {
            0 => Happening::PowerCut((link / self.plan.members) as u16),
            1 => Happening::PowerCut((link % self.plan.members) as u16),
            _ => Happening::Reset(link as u32),
        };
        self.push_in(soon, what);
    }

    /// What `node` has forwarded is decided and answered slowly; the answers find its next process,
    /// to which the clients have come back.
    fn echo(&mut self, node: usize, lasts: u64) {
        let Some(leader) = self.leader().filter(|leader| *leader != node) else { return };
        for to in (0..self.plan.members).filter(|to| *to != leader) {
            let net = &mut *self.net.borrow_mut();
            let wire = net.link_index(leader, to);
            net.wires[wire].slowness = 1 << self.outages.rng.range(5, 12);
            let at = net.now() + lasts.min(200 * MS);
            net.queue.push(at, Happening::Mend(Fault::Slow(wire as u32)));
        }
        let soon = self.outages.rng.below(2 * MS);
        self.crash_for(node, soon);
        // The next one dies young too: the names of requests are alike in the first moments of
        // processes.
        self.aims.flickers = (node, self.outages.rng.below(4));
    }

    /// Strikes a leader that has just taken over, perhaps.
    pub(super) fn on_spring(&mut self, node: usize) {
        if self.aims.deposed == Some(node) && self.phase == Phase::Liveness {
            self.restart(node);
        }
        if self.phase == Phase::Safety && self.may_die(node) {
            self.crash_for(node, 1 + self.plan.fault_ns_max / 4);
        }
    }

    /// Kills the member again, which has just started; or in the silence.
    pub(super) fn on_flicker(&mut self, node: usize) {
        if self.aims.doomed.take_if(|of| *of == node).is_some() {
            return self.die_in_silence(node);
        }
        if self.phase == Phase::Safety && self.may_die(node) {
            let soon = self.outages.rng.below(5 * MS);
            self.crash_for(node, soon);
            if self.aims.powerless.take_if(|of| *of == node).is_some() {
                self.net.borrow_mut().coverage.hit(Mark::PowerCutBeforeSync);
                self.lose_power(node);
            }
        }
    }

    /// Plans that the power of `node` fails, if it has said something in this turn and its disk is
    /// at work.
    pub(super) fn spring_unsynced(&mut self, node: usize, n_posted_before: u64) {
        if !self.aims.cuts_power || self.net.borrow().n_posted_in_all == n_posted_before {
            return;
        }
        if self.platter(node).is_none_or(|disk| disk.log.n_pending() == 0) {
            return;
        }
        self.aims.cuts_power = false;
        self.aims.powerless = Some(node);
        let soon = self.outages.rng.below(self.plan.unsynced_ns());
        self.push_in(soon, Happening::PowerCut(node as u16));
    }

    /// I6: kills the leader while clients write and read, and there is no other fault.
    pub(super) fn on_depose(&mut self) {
        let leader = self.leader().filter(|node| self.may_die(*node));
        if let Some(node) = leader.filter(|_| self.seats.members().voters.len() > 2) {
            self.aims.deposed = Some(node);
            self.net.borrow_mut().coverage.hit(Mark::LeaderDeposed);
            self.crash(node);
            self.push_in(BACK_AFTER_NS, Happening::Spring(node as u16));
        }
        self.aims.deposes = false;
        self.ask_all_again();
    }

    /// I20: cuts a follower off from its leader, and nothing else; a client goes to that follower.
    /// False if there is no member between the two.
    pub(super) fn hide(&mut self) -> bool {
        let voters = self.seats.members().voters;
        let Some(leader) = self.leader().filter(|_| voters.len() > 2) else { return false };
        let others: Vec<usize> =
            voters.iter().map(|rank| rank.index()).filter(|node| *node != leader).collect();
        let follower = others[self.outages.rng.below(others.len() as u64) as usize];
        {
            let net = &mut *self.net.borrow_mut();
            net.coverage.hit(Mark::LeaderOutOfSight);
            for (from, to) in [(leader, follower), (follower, leader)] {
                let wire = net.link_index(from, to);
                self.outages.cut(net, wire);
            }
        }
        self.aims.hidden = Some((leader, follower));
        self.clients[0].returns_to = Some(follower);
        self.leave_to(0);
        self.ask_all_again();
        true
    }

    /// Ends that, if it lasts: then all clients are asked again.
    pub(super) fn unhide(&mut self) -> bool {
        let Some((leader, follower)) = self.aims.hidden.take() else { return false };
        {
            let net = &mut *self.net.borrow_mut();
            for (from, to) in [(leader, follower), (follower, leader)] {
                let wire = net.link_index(from, to);
                self.outages.heal_cut(net, wire);
            }
        }
        self.ask_all_again();
        true
    }

    /// Every client is to be answered once more.
    fn ask_all_again(&mut self) {
        self.clients.iter_mut().for_each(|client| client.counts.n_live = 0);
        let soon = self.now() + MS;
        (0..self.clients.len()).for_each(|client| self.wake_client(client, soon));
    }

    /// Whether clients wait long enough for a leader's replacement.
    pub(super) fn outlives_leaders(&self) -> bool {
        self.patience >= DEPOSED_WITHIN
    }

    /// S1.
    pub(super) fn may_die(&self, node: usize) -> bool {
        let is_due = self.has_disks() || !self.keyspace.gives_up && self.is_dispensable(node);
        self.is_alive(node) && is_due
    }

    fn crash_for(&mut self, node: usize, lasts: u64) {
        self.crash(node);
        self.push_in(lasts, Happening::Mend(Fault::Crash(node as u16)));
    }

    fn pause_for(&mut self, node: usize, lasts: u64) {
        if !self.outages.is_paused(node) {
            self.outages.pause(&mut self.net.borrow_mut(), node);
            self.push_in(lasts, Happening::Mend(Fault::Pause(node as u16)));
        }
    }

    fn lose_power(&mut self, node: usize) {
        let net = &mut *self.net.borrow_mut();
        net.coverage.hit(Mark::PowerCut);
        if let Some(platter) = &mut self.platters[node] {
            platter.lose_power(&mut net.rng);
        }
    }

    fn cut_all_power(&mut self, lasts: u64) {
        for node in 0..self.plan.members {
            if self.is_alive(node) {
                let lasts = 1 + self.outages.rng.below(lasts);
                self.crash_for(node, lasts);
            }
        }
        self.net.borrow_mut().coverage.hit(Mark::PowerCutAll);
        for node in 0..self.plan.members {
            self.lose_power(node);
            let net = &mut *self.net.borrow_mut();
            for peer in 0..self.plan.members {
                let out = net.link_index(node, peer);
                net.links[out].orphan(0);
            }
            net.clear_region(node);
        }
    }

    // ---- mending ----

    pub(super) fn mend(&mut self, fault: Fault) {
        match fault {
            Fault::Crash(node) => self.restart(node as usize),
            Fault::Disk(node) => self.release_disk(node as usize),
            _ => self.outages.mend(&mut self.net.borrow_mut(), fault),
        }
    }

    /// Ends all faults.
    pub(super) fn heal(&mut self) {
        let now = self.now();
        self.talk.leases.heal(now);
        let members = self.plan.members;
        {
            let net = &mut *self.net.borrow_mut();
            net.weather.clear_up();
            self.outages.unite(net);
            (0..members * members).for_each(|wire| self.outages.repair_wire(net, wire));
        }
        self.close_office();
        for node in 0..members {
            self.exorcise(node);
            self.find_damage(node);
            self.restart(node);
            self.release_disk(node);
            let net = &mut *self.net.borrow_mut();
            self.outages.resume(net, node);
            let now = net.now();
            net.processes[node].effort = 500;
            net.processes[node].clock.run_at(now, crate::clock::TRUE_RATE);
            net.processes[node].wall.correct(now);
            net.arm_run(node, now);
        }
    }

    /// Connects the links of a process that has just started.
    pub(super) fn connect_born(&mut self, node: usize, founds: bool, is_new: bool) {
        let (founders, is_memory) = (self.seats.founders(), is_new && !self.has_disks());
        let in_partitions = self.kind.protocol.replicas().is_some();
        let net = &mut *self.net.borrow_mut();
        for peer in (0..self.plan.members).filter(|peer| *peer != node) {
            let (out, back) = (net.link_index(node, peer), net.link_index(peer, node));
            match net.weather.provider {
                _ if founds && founders.contains(base::Rank::at(peer)) => net.connect(out),
                // Every member has mapped the new memory already.
                Provider::Shm if is_memory => net.connect(out),
                Provider::Shm => {
                    if in_partitions {
                        // A message names the life of its receiver (`fabric::shm`).
                        net.links[back].orphan(0);
                    }
                    net.connect(out);
                    net.tell(peer, base::Event::LinkUp(base::Rank::at(node)));
                    net.kick(back);
                }
                Provider::Tcp => {
                    let at = net.now() + self.outages.rng.below(10 * MS);
                    net.queue.push(at, Happening::Reconnect(out as u32));
                }
            }
        }
    }
}
