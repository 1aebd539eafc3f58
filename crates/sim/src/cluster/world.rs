//! A cluster, its clients, and the one loop in which everything happens.

use super::client::{Client, Connection};
use super::disk::Platter;
use super::kinds::{Kinship, Protocol};
use super::member::{Beginning, Member};
use super::talk::{Ask, Talk};
use crate::coverage::Mark;
use crate::disks::Disks;
use crate::net::Net;
use crate::outage::Outages;
use crate::plan::{Kind, MS, Plan};
use crate::queue::Happening;
use crate::trace::{Topic, Trace};
use crate::world::Phase;
use crate::{Config, Outcome, Property, Provider, Shape};
use base::{Rank, Rng};

use core::time::Duration;
use kv::door::PipeId;
use proto::Role;
use std::cell::RefCell;
use std::rc::Rc;

/// How many operations of each client must be answered when all is well.
pub(super) const N_LIVE: u32 = 5;
/// A run with more events than these spins.
const N_EVENTS_MAX: u64 = 20_000_000;

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
    /// Figures of processes that have ended, for coverage.
    pub(super) clients: Vec<Client>,
    pub(super) talk: Talk,
    pub(super) phase: Phase,
    pub(super) backlog_bytes: usize,
    pub(super) patience: Duration,
    pub(super) leader: Option<usize>,
    /// So many of the next leaders are struck, too.
    pub(super) n_to_strike: u64,
    /// A member that dies as often again, soon after each start.
    pub(super) flickers: (usize, u64),
    /// The member whose process is the youngest: clients like to look at it.
    pub(super) newborn: Option<usize>,
    /// So many values of tens of kilobytes are written first: a state takes several pieces then.
    pub(super) ballast: u64,
    /// The leader that was killed while all was well, to see the others go on (I6).
    pub(super) deposed: Option<usize>,
    pub(super) n_events: u64,
    /// Lists that were appended to.
    pub(super) lists: Vec<Vec<u8>>,
    /// Members that each client still has to read everything at, in the end.
    pub(super) to_read: Vec<Vec<(usize, Vec<u8>)>>,
}

/// One seed, from beginning to end.
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
        let more = [Kind::Deaf, Kind::Succession, Kind::Relapse, Kind::Wall];
        plan.kinds.extend(more.into_iter().filter(|_| rng.chance(1, 3)));
        if kind.protocol == Protocol::Durable {
            plan.disks = Disks::draw(seed, &mut plan.kinds, plan.weather.provider);
        }
        plan.think_ns = MS << rng.below(5);
        let n_words = kind.protocol.n_words(plan.members, &plan.shape);
        let net = Net::new(
            plan.members,
            plan.n_clients,
            n_words,
            plan.weather,
            rng.fork(),
            Trace::new(config.trace),
        );
        let long_bytes = 2 * plan.shape.value_bytes as usize + rng.below(2000) as usize;
        let n_keys = 1 + rng.below(4);
        let members = plan.members;
        let snapshot_bytes = 1 << rng.range(10, 15);
        let writing = Duration::from_nanos(MS << rng.below(8));
        let has_disks = kind.protocol == Protocol::Durable;
        let platter = |_| has_disks.then(|| Platter::new(snapshot_bytes, writing));
        World {
            kind,
            net: Rc::new(RefCell::new(net)),
            outages: Outages::new(rng.fork(), &plan),
            members: (0..members).map(|_| None).collect(),
            platters: (0..members).map(platter).collect(),
            clients: (0..plan.n_clients).map(|id| Client::new(id as u64)).collect(),
            talk: Talk::new(rng.fork(), n_keys, plan.reads, long_bytes),
            phase: Phase::Safety,
            backlog_bytes: 1 << rng.range(9, 16),
            patience: Duration::from_nanos((400 * MS) << rng.below(3)),
            flickers: (0, 0),
            newborn: None,
            deposed: None,
            ballast: if rng.chance(1, 4) { rng.range(2, 6) } else { 0 },
            leader: None,
            n_to_strike: 0,
            n_events: 0,
            lists: Vec::new(),
            to_read: Vec::new(),
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
        self.kind.protocol == Protocol::Durable
    }

    pub(super) fn disk(&mut self, node: usize) -> Option<&mut Platter> {
        self.members[node].as_mut()?.disk()
    }

    pub(super) fn role(&self, node: usize) -> Option<Role> {
        Some(self.members[node].as_ref()?.view().role)
    }

    pub(super) fn holds_state(&self, node: usize) -> bool {
        self.role(node).is_some_and(|role| role != Role::Learner)
    }

    /// How long bytes between a client and a member take.
    pub(super) fn distance(&mut self) -> u64 {
        let weather = &self.plan.weather;
        1 + weather.latency_ns + self.rng.below(weather.jitter_ns + 1)
    }

    // ---- the run ----

    pub(super) fn begin(&mut self) {
        for node in 0..self.plan.members {
            self.be_born(node, true);
        }
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
            self.n_events += 1;
            if self.n_events > N_EVENTS_MAX {
                let detail = format!("{N_EVENTS_MAX} events: something spins");
                self.violate(Property::Liveness, detail);
            }
            self.happen(what);
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
                if self.phase == Phase::Safety {
                    self.mend(fault);
                }
            }
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
                Outages::hint(&mut self.net.borrow_mut(), to as usize, about as usize, life);
            }
            Happening::Disk { node, life } => self.on_disk(node as usize, life),
            Happening::PowerCut(node) => self.on_flicker(node as usize),
            Happening::Phase => self.on_phase(),
            other => unreachable!("{other:?} is of another world"),
        }
    }

    // ---- processes ----

    pub(super) fn be_born(&mut self, node: usize, founds: bool) {
        let life = {
            let net = &mut *self.net.borrow_mut();
            let now = net.now();
            for peer in 0..self.plan.members {
                let index = net.link_index(node, peer);
                net.links[index].renew();
                net.links[index].up = peer == node;
            }
            let process = &mut net.processes[node];
            process.alive = true;
            process.life += 1;
            process.busy_until = now;
            process.inbox.clear();
            process.permitted = None;
            process.leads = false;
            process.life
        };
        let mut disk = self.platters[node].take();
        let mut founds = founds;
        if let Some(platter) = &mut disk {
            if let Err(detail) = platter.revive() {
                return self.violate(Property::Durability, format!("r{node}: {detail}"));
            }
            // It died before anything of it was durable: nothing can have left it either.
            founds |= platter.log.is_blank();
            if !founds && self.plan.weather.provider == Provider::Tcp {
                self.net.borrow_mut().clear_region(node);
            }
        }
        let beginning = Beginning {
            me: Rank::at(node),
            life,
            disk,
            founds,
            bug: self.kind.bug,
            backlog_bytes: self.backlog_bytes,
            patience: self.patience,
        };
        match self.kind.protocol.start(beginning, &self.plan, &self.net) {
            Ok(member) => self.members[node] = Some(member),
            Err(why) => return self.violate(Property::Panic, format!("r{node}: {why}")),
        }
        self.newborn = Some(node).filter(|_| life > 1);
        self.plan_flushes(node);
        self.wake(node);
        self.connect_born(node, founds && life == 1);
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
            // What a process leaves of its disk is in its place before the process is gone.
            let mut disk = std::mem::replace(disk, Platter::new(u64::MAX, Duration::ZERO));
            disk.lose_process(&mut self.net.borrow_mut().rng);
            self.platters[node] = Some(disk);
        }
    }

    pub(super) fn restart(&mut self, node: usize) {
        if self.is_alive(node) {
            return;
        }
        {
            let net = &mut *self.net.borrow_mut();
            net.trace.record(net.queue.now(), node, Topic::Restart, 0, 0);
            net.coverage.hit(Mark::Restarted);
        }
        self.be_born(node, false);
        if self.flickers.0 == node && self.flickers.1 > 0 {
            self.flickers.1 -= 1;
            let soon = self.outages.rng.below(30 * MS);
            self.push_in(soon, Happening::PowerCut(node as u8));
        }
    }

    pub(super) fn on_run(&mut self, node: usize) {
        if !self.net.borrow().processes[node].runs() {
            return;
        }
        let Some(mut member) = self.members[node].take() else { return };
        let idle = member.turn();
        let (role, applied) = (member.view().role, member.view().applied);
        self.members[node] = Some(member);
        self.plan_flushes(node);
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
        if role == Role::Leader && self.leader != Some(node) {
            let changes = self.leader.is_some();
            self.leader = Some(node);
            self.on_new_leader(node, changes);
        }
        self.wake_clients_of(node);
        self.finish_early();
    }

    pub(super) fn on_new_leader(&mut self, node: usize, changes: bool) {
        let waiting = self.clients.iter().any(|client| client.n_waiting() > 0);
        if changes && waiting {
            self.net.borrow_mut().coverage.hit(Mark::LeaderChangedUnderLoad);
        }
        if self.n_to_strike > 0 {
            self.n_to_strike -= 1;
            self.net.borrow_mut().coverage.hit(Mark::SuccessorStruck);
            let soon = self.outages.rng.below(4 * MS);
            self.push_in(soon, Happening::Spring(node as u8));
        }
    }

    /// What a process has reached in its life.
    pub(super) fn cover(&mut self, node: usize) {
        let Some(member) = &mut self.members[node] else { return };
        let n_snapshots = member.disk().map_or(0, |disk| disk.n_snapshots);
        let stats = member.stats();
        let reached = [
            (Mark::CommandForwarded, stats.commands_forwarded),
            (Mark::ReadForwarded, stats.reads_forwarded),
            (Mark::PassedOn, stats.frames_passed_on),
            (Mark::StateReceived, stats.state_bytes_received),
            (Mark::SnapshotWritten, n_snapshots),
        ];
        let coverage = &mut self.net.borrow_mut().coverage;
        for (mark, _) in reached.into_iter().filter(|(_, n)| *n > 0) {
            coverage.hit(mark);
        }
    }

    // ---- disks ----

    pub(super) fn plan_flushes(&mut self, node: usize) {
        let n = self.disk(node).map_or(0, |disk| disk.log.take_unplanned());
        for _ in 0..n {
            let net = &mut *self.net.borrow_mut();
            let disks = &self.plan.disks;
            let at = net.now() + disks.latency_ns + net.rng.below(disks.jitter_ns + 1);
            let life = net.processes[node].life;
            net.queue.push(at, Happening::Disk { node: node as u8, life });
        }
    }

    pub(super) fn on_disk(&mut self, node: usize, life: u32) {
        if self.net.borrow().processes[node].life == life && self.complete_flush(node) {
            self.wake(node);
        }
    }

    /// Whether another flush of `node` has come to its end.
    pub(super) fn complete_flush(&mut self, node: usize) -> bool {
        let Some(disk) = self.disk(node) else { return false };
        disk.log.complete().unwrap_or(false)
    }

    // ---- clients ----

    pub(super) fn wake_client(&mut self, client: usize, at: u64) {
        let one = &mut self.clients[client];
        let net = &mut *self.net.borrow_mut();
        if one.wakes_at <= net.now() || at < one.wakes_at {
            one.wakes_at = at;
            net.queue.set_client(client, at);
        }
    }

    /// Replies of `node` are on their way to its clients.
    pub(super) fn wake_clients_of(&mut self, node: usize) {
        for client in 0..self.clients.len() {
            let Some(Connection { pipe, .. }) = self.connection(client, node) else { continue };
            let Some(member) = &mut self.members[node] else { return };
            if member.pipes().untaken(pipe) > 0 || member.pipes().is_closed(pipe) {
                // (One in sixteen reads late.)
                let late = if self.rng.chance(1, 16) { self.rng.below(20 * MS) } else { 0 };
                let at = self.now() + self.distance() + late;
                self.wake_client(client, at);
            }
        }
    }

    /// The connection of `client`, if that is to the present process of `node`.
    pub(super) fn connection(&self, client: usize, node: usize) -> Option<Connection> {
        let life = self.net.borrow().processes[node].life;
        self.clients[client].connection.filter(|one| one.node == node && one.life == life)
    }

    pub(super) fn on_client(&mut self, client: usize) {
        let now = self.now();
        self.clients[client].wakes_at = 0;
        let Some(Connection { node, life, pipe }) = self.clients[client].connection else {
            return self.connect(client);
        };
        let is_there = self.is_alive(node) && self.net.borrow().processes[node].life == life;
        let Some(member) = self.members[node].as_mut().filter(|_| is_there) else {
            return self.lose(client);
        };
        let most = if self.rng.chance(1, 8) { 1 + self.rng.below(40) as usize } else { usize::MAX };
        let bytes = member.pipes().take(pipe, most);
        let (is_closed, n_left) = (member.pipes().is_closed(pipe), member.pipes().untaken(pipe));
        let heard = self.clients[client].hear(&bytes, now, &mut self.talk.recorder);
        if let Err(detail) = heard {
            return self.violate(Property::Validity, format!("at r{node}: {detail}"));
        }
        if n_left > 0 {
            let at = now + self.distance();
            return self.wake_client(client, at);
        }
        if is_closed {
            return self.lose(client);
        }
        let one = &self.clients[client];
        let waits = one.n_waiting() > 0;
        let patience = 2 * self.patience.as_nanos() as u64 + 500 * MS;
        if waits && now >= one.waits_since + patience {
            member_gone(&mut self.members[node], pipe);
            return self.lose(client);
        }
        if waits && one.burst_left > 0 && one.watches.is_none() {
            let ask = Ask::append(&mut self.clients[client]);
            self.clients[client].burst_left -= 1;
            self.send(client, node, pipe, vec![ask]);
            let at = now + self.distance();
            return self.wake_client(client, at);
        }
        if waits {
            return self.wake_client(client, one.waits_since + patience);
        }
        let asks_at = one.asks_at;
        if now < asks_at {
            return self.wake_client(client, asks_at);
        }
        self.ask(client, node, pipe);
        self.finish_early();
    }

    /// It is nowhere: it tries somebody.
    pub(super) fn connect(&mut self, client: usize) {
        let members = self.plan.members as u64;
        let wanted = self.to_read.get(client).and_then(|left| left.last()).map(|(node, _)| *node);
        let looks = self.newborn.filter(|_| self.rng.chance(1, 2));
        let node = wanted.or(looks).unwrap_or_else(|| self.rng.below(members) as usize);
        let life = self.net.borrow().processes[node].life;
        let is_alive = self.is_alive(node);
        let address = format!("client:{client}");
        if let Some(member) = self.members[node].as_mut().filter(|_| is_alive) {
            let pipe = member.pipes().open(address);
            self.clients[client].connect(Connection { node, life, pipe });
            self.lists.push(self.clients[client].list());
        }
        let soon = self.rng.below(4 * MS);
        let at = self.now() + 1 + soon;
        self.wake_client(client, at);
    }

    pub(super) fn lose(&mut self, client: usize) {
        if self.clients[client].n_waiting() > 0 {
            self.net.borrow_mut().coverage.hit(Mark::OutcomeUnknown);
        }
        self.clients[client].disconnect();
        let soon = self.rng.below(4 * MS);
        let at = self.now() + 1 + soon;
        self.wake_client(client, at);
    }

    /// It has all its answers: it asks something else, or thinks first.
    pub(super) fn ask(&mut self, client: usize, node: usize, pipe: PipeId) {
        let now = self.now();
        let asks = if let Some((key, seen)) = self.clients[client].take_seen() {
            let value = self.talk.value();
            vec![Ask::compare(key, seen, value)]
        } else if let Some(left) = self.to_read.get_mut(client).filter(|left| !left.is_empty()) {
            if left.last().is_some_and(|(at, _)| *at != node) {
                member_gone(&mut self.members[node], pipe);
                return self.lose(client);
            }
            let at = left.iter().rposition(|(at, _)| *at != node).map_or(0, |at| at + 1);
            left.drain(at..).map(|(_, key)| Ask::get(key)).collect()
        } else if self.phase == Phase::Liveness && self.clients[client].n_live >= N_LIVE {
            return;
        } else if self.ballast > 0 {
            self.ballast -= 1;
            let key = format!("ballast:{}", self.ballast).into_bytes();
            vec![Ask::set(key, vec![b'b'; 48 << 10])]
        } else {
            self.talk.think(&mut self.clients[client])
        };
        self.send(client, node, pipe, asks);
        self.clients[client].asks_at = now + 1 + self.rng.below(2 * self.plan.think_ns);
        let at = self.clients[client].asks_at;
        self.wake_client(client, at);
    }

    pub(super) fn send(&mut self, client: usize, node: usize, pipe: PipeId, asks: Vec<Ask>) {
        let now = self.now();
        let mut bytes = Vec::new();
        for ask in asks {
            bytes.append(&mut self.clients[client].send(ask, now, &mut self.talk));
        }
        if let Some(member) = &mut self.members[node] {
            member.pipes().push(pipe, &bytes);
        }
        let at = now + self.distance();
        let net = &mut *self.net.borrow_mut();
        net.trace.record(now, node, Topic::Invoke, client as u64, bytes.len() as u64);
        net.arm_run(node, at);
    }
}

/// A client has left the member.
fn member_gone(member: &mut Option<Box<dyn Member>>, pipe: PipeId) {
    if let Some(member) = member {
        member.pipes().break_off(pipe);
    }
}
