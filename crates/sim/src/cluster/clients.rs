//! The clients' side of a cluster: they connect, ask, read late or by pieces, lose their connection
//! and try another member.

use super::client::{Client, Connection, Input};
use super::expiry::Act;
use super::leg;
use super::member::Member;
use super::plant::UNREAD_BYTES_MAX;
use super::talk::Ask;
use super::times;
use super::world::{N_LIVE, World};
use crate::Property;
use crate::coverage::Mark;
use crate::plan::MS;
use crate::trace::Topic;
use crate::world::Phase;
use kv::door::PipeId;

/// The mean time for which clients are silent now and then, in a run of a day.
const REST_NS: u64 = 2 * 3_600_000 * MS;
/// The least mean time that a client thinks while the cluster recovers.
const HEALING_THINK_NS: u64 = 100 * MS;

impl World {
    pub(super) fn wake_client(&mut self, client: usize, at: u64) {
        let one = &mut self.clients[client];
        let net = &mut *self.net.borrow_mut();
        if one.wakes_at <= net.now() || at < one.wakes_at {
            one.wakes_at = at;
            net.queue.set_client(client, at);
        }
    }

    /// Wakes the clients of `node`, whose replies are on their way.
    pub(super) fn wake_clients_of(&mut self, node: usize) {
        let now = self.now();
        for client in 0..self.clients.len() {
            let Some(Connection { pipe, .. }) = self.connection(client, node) else { continue };
            let Some(member) = &mut self.members[node] else { return };
            if member.pipes().untaken(pipe) > 0 || member.pipes().is_closed(pipe) {
                // Some read late, whatever else arrives meanwhile.
                if self.clients[client].reads_at <= now && self.rng.chance(1, 64) {
                    self.clients[client].reads_at = now + self.rng.below(20 * MS);
                }
                let at = (now + self.distance()).max(self.clients[client].reads_at);
                self.wake_client(client, at);
            }
        }
    }

    /// The connection of `client`, if it is to the present process of `node`.
    pub(super) fn connection(&self, client: usize, node: usize) -> Option<Connection> {
        let life = self.net.borrow().processes[node].life;
        self.clients[client].connection.filter(|one| one.node == node && one.life == life)
    }

    /// What the member of `node` says of itself, for a report.
    fn standing(&self, node: usize) -> String {
        self.members[node].as_ref().map(|member| member.standing()).unwrap_or_default()
    }

    pub(super) fn on_client(&mut self, client: usize) {
        let now = self.now();
        self.clients[client].wakes_at = 0;
        let Some(Connection { node, life, pipe }) = self.clients[client].connection else {
            return self.connect(client);
        };
        let is_there = self.is_alive(node) && self.net.borrow().processes[node].life == life;
        if !is_there {
            return self.lose(client);
        }
        if self.push_some(client, node, pipe) {
            let at = now + self.distance();
            self.wake_client(client, at);
        }
        let Some(member) = &mut self.members[node] else { return };
        let most = if self.rng.chance(1, 8) { 1 + self.rng.below(40) as usize } else { usize::MAX };
        let was_full = member.pipes().untaken(pipe) >= UNREAD_BYTES_MAX;
        let bytes = member.pipes().take(pipe, most);
        let (is_closed, n_left) = (member.pipes().is_closed(pipe), member.pipes().untaken(pipe));
        if was_full {
            // The pipe has room again: a poller would tell the door.
            let at = now + self.distance();
            self.net.borrow_mut().arm_run(node, at);
        }
        let heard = self.clients[client].hear(&bytes, now, &mut self.talk);
        if let Err(detail) = heard {
            return self.violate(Property::Validity, format!("at r{node}: {detail}"));
        }
        if n_left > 0 {
            let at = now + self.distance();
            return self.wake_client(client, at);
        }
        if is_closed {
            if let Some(detail) = self.clients[client].cut_short() {
                return self.violate(Property::Validity, format!("at r{node}: {detail}"));
            }
            return self.lose(client);
        }
        let is_well = self.phase == Phase::Liveness && !self.is_silent();
        if is_well && !self.seats.votes(node) {
            // A process without a seat that has not heard so: it refuses what it is asked.
            self.clients[client].counts.n_refused = 0;
            member_gone(&mut self.members[node], pipe);
            return self.lose(client);
        }
        let one = &self.clients[client];
        if is_well && one.counts.n_refused > 0 {
            let n = one.counts.n_refused;
            let standing = self.standing(node);
            let detail = format!(
                "client {client} was refused {n} answers by r{node}, and all is well {standing}"
            );
            return self.violate(Property::Liveness, detail);
        }
        let waits = one.n_waiting() > 0;
        if !waits {
            self.last_reads.finish(client);
        }
        let patience = 2 * self.patience.as_nanos() as u64 + 500 * MS;
        if waits && now >= one.waits_since + patience {
            if self.phase == Phase::Liveness {
                let (since, n) = (one.waits_since / MS, one.n_waiting());
                let standing = self.standing(node);
                let detail = format!(
                    "client {client} waits for {n} replies of r{node} since {since} ms {standing}"
                );
                return self.violate(Property::Liveness, detail);
            }
            member_gone(&mut self.members[node], pipe);
            return self.lose(client);
        }
        if waits && self.phase == Phase::Safety && self.leaves(client) {
            return self.leave(client, node, pipe);
        }
        let one = &self.clients[client];
        if waits && one.burst_left > 0 && one.guard.key.is_none() {
            let ask = Ask::append(&mut self.clients[client]);
            self.clients[client].burst_left -= 1;
            self.send(client, node, pipe, vec![ask]);
            let at = now + self.distance();
            return self.wake_client(client, at);
        }
        if waits {
            return self.wake_client(client, one.waits_since + patience);
        }
        if one.input != Input::Open {
            // C4
            let until = one.waits_since + patience;
            if now < until {
                return self.wake_client(client, until);
            }
            if self.phase == Phase::Liveness {
                let detail =
                    format!("client {client} was answered all, and is not left by r{node}");
                return self.violate(Property::Liveness, detail);
            }
            member_gone(&mut self.members[node], pipe);
            return self.lose(client);
        }
        let asks_at = one.asks_at;
        if now < asks_at {
            return self.wake_client(client, asks_at);
        }
        self.ask(client, node, pipe);
        self.end_input(client, node, pipe);
        self.finish_early();
    }

    /// Lets a client that has just asked say that it sends nothing more, perhaps.
    fn end_input(&mut self, client: usize, node: usize, pipe: PipeId) {
        // (A program that holds on closes nothing.)
        let is_held = self.kind.protocol.replicates_program()
            && leg::holds_on_to(&self.clients[client].list());
        let may_end = self.phase == Phase::Safety && self.aims.n_to_end > 0 && !is_held;
        if may_end && self.clients[client].ends_input(&mut self.outages.rng) {
            self.aims.n_to_end -= 1;
            self.net.borrow_mut().coverage.hit(Mark::InputEnded);
            self.push_some(client, node, pipe);
        }
    }

    /// Connects a client without a connection to some member.
    pub(super) fn connect(&mut self, client: usize) {
        let members = self.plan.members as u64;
        let wanted = self.last_reads.next_member(client);
        let looks = self.aims.newborn.filter(|_| self.rng.chance(1, 2));
        let calm = self.phase == Phase::Liveness;
        let looks = looks.filter(|node| !calm || self.seats.votes(*node));
        let any = self.rng.below(members) as usize;
        // When all is well, a client asks seated members.
        let any = self.seated().find(|node| calm && *node >= any).unwrap_or(any);
        let back = self.clients[client].returns_to.take();
        let node = wanted.or(back).or(looks).unwrap_or(any);
        let life = self.net.borrow().processes[node].life;
        let is_alive = self.is_alive(node);
        let address = format!("client:{client}");
        if let Some(member) = self.members[node].as_mut().filter(|_| is_alive) {
            let pipe = member.pipes().open(address);
            let database = self.talk.owns.database(client as u64);
            self.clients[client].connect(Connection { node, life, pipe }, database);
            self.last_reads.add_list(self.clients[client].list());
        }
        let soon = self.rng.below(if back.is_some() { MS / 50 } else { 4 * MS });
        let at = self.now() + 1 + soon;
        self.wake_client(client, at);
    }

    pub(super) fn lose(&mut self, client: usize) {
        if self.clients[client].n_waiting() > 0 {
            self.net.borrow_mut().coverage.hit(Mark::OutcomeUnknown);
        }
        self.clients[client].disconnect();
        self.last_reads.interrupt(client);
        let soon = self.rng.below(4 * MS);
        let at = self.now() + 1 + soon;
        self.wake_client(client, at);
    }

    /// Whether the client leaves now: if it did a moment ago, it may do so again, since names of
    /// requests are alike at connections that are young.
    fn leaves(&mut self, client: usize) -> bool {
        let again = &mut self.clients[client].leaves_again;
        if *again > 0 {
            *again -= 1;
            return self.rng.chance(1, 2);
        }
        let leaves = self.aims.n_to_leave > 0 && self.rng.chance(1, 256);
        if leaves {
            self.aims.n_to_leave -= 1;
            self.clients[client].leaves_again = self.rng.below(6);
        }
        leaves
    }

    /// Lets a client leave in the middle, and come to the same member at once: what is answered
    /// there later is not meant for its new connection, nor for another that has its place.
    fn leave(&mut self, client: usize, node: usize, pipe: PipeId) {
        member_gone(&mut self.members[node], pipe);
        self.lose(client);
        self.wake(node);
        self.clients[client].returns_to = Some(node);
        self.clients[client].asks_at = 0;
        let most = if self.rng.chance(1, 2) { MS / 50 } else { MS / 2 };
        let soon = self.now() + 1 + self.rng.below(most);
        self.wake_client(client, soon);
    }

    /// Lets a client leave the member that it is connected to, for the one that it returns to.
    pub(super) fn leave_to(&mut self, client: usize) {
        let Some(Connection { node, pipe, .. }) = self.clients[client].connection else { return };
        if self.connection(client, node).is_some() {
            member_gone(&mut self.members[node], pipe);
        }
        self.lose(client);
    }

    /// Lets a client with all its answers ask again, or think first.
    pub(super) fn ask(&mut self, client: usize, node: usize, pipe: PipeId) {
        let now = self.now();
        let asks = if self.clients[client].guard.is_open {
            vec![Ask::Time(times::Act::End)]
        } else if let Some((key, seen)) = self.clients[client].take_seen() {
            vec![self.talk.compare(key, seen)]
        } else if let Some(key) = self.clients[client].lease() {
            vec![Ask::Lease(key, self.talk.leases.exec())]
        } else if let Some(next) = self.last_reads.next_member(client) {
            if next != node {
                member_gone(&mut self.members[node], pipe);
                return self.lose(client);
            }
            let reads = self.last_reads.begin(client).into_iter().map(Ask::get);
            let leases = self.talk.leases.look().map(|(key, act)| Ask::Lease(key, act));
            reads.chain(leases).collect()
        } else if self.phase == Phase::Liveness && self.clients[client].counts.n_live >= N_LIVE {
            return;
        } else if let Some(act) = self.talk.times.think() {
            vec![Ask::Time(act)]
        } else {
            self.fall_silent(client);
            match self.talk.feast().filter(|_| self.phase == Phase::Safety) {
                Some(asks) => {
                    self.clients[client].reads_at = now + self.rng.below(50 * MS);
                    asks
                }
                None => {
                    let mut asks = self.talk.aside(&mut self.clients[client], now);
                    if matches!(asks.first(), Some(Ask::Lease(_, Act::Watch))) {
                        let pause = self.talk.leases.pause(now);
                        return self.watch(client, (node, pipe), asks.swap_remove(0), pause);
                    }
                    asks.extend(self.talk.several.think().into_iter().map(Ask::several));
                    asks.extend(self.talk.think(&mut self.clients[client]));
                    // Behind writes, whose syncs may still be under way.
                    asks.extend(self.talk.waits.think().map(Ask::Wait));
                    asks.extend(self.talk.next_ballast());
                    asks
                }
            }
        };
        self.send(client, node, pipe, asks);
        let is_day = self.plan.lasts_a_day();
        let think_ns = match self.phase {
            // Nothing strikes now: a few requests show whether the cluster recovers.
            Phase::Healing => self.plan.think_ns.max(HEALING_THINK_NS),
            Phase::Liveness if is_day => HEALING_THINK_NS,
            Phase::Safety | Phase::Liveness | Phase::Over => self.plan.think_ns,
        };
        let rests = is_day && self.phase != Phase::Liveness && self.rng.chance(1, 8);
        let think_ns = if rests { REST_NS } else { think_ns };
        self.clients[client].asks_at = now + 1 + self.rng.below(2 * think_ns);
        let at = self.clients[client].asks_at;
        self.wake_client(client, at);
    }

    /// Lets a client watch a key that expires, and wait before its transaction.
    fn watch(&mut self, client: usize, (node, pipe): (usize, PipeId), watch: Ask, pause: u64) {
        self.send(client, node, pipe, vec![watch]);
        let at = self.now() + 1 + pause;
        self.clients[client].asks_at = at;
        self.wake_client(client, at);
    }

    pub(super) fn send(&mut self, client: usize, node: usize, pipe: PipeId, asks: Vec<Ask>) {
        let now = self.now();
        for ask in asks {
            let mut bytes = self.clients[client].send(ask, now, &mut self.talk);
            self.clients[client].unsent.append(&mut bytes);
        }
        self.push_some(client, node, pipe);
    }

    /// Sends waiting bytes, all or a part: true if some are left.
    fn push_some(&mut self, client: usize, node: usize, pipe: PipeId) -> bool {
        let now = self.now();
        let Client { unsent, input, .. } = &mut self.clients[client];
        if unsent.is_empty() {
            if *input == Input::Ends
                && let Some(member) = &mut self.members[node]
            {
                *input = Input::Ended;
                member.pipes().end(pipe);
                let at = now + self.distance();
                self.net.borrow_mut().arm_run(node, at);
            }
            return false;
        }
        let is_part = self.rng.chance(1, 8);
        let n =
            if is_part { self.rng.below(unsent.len() as u64 + 1) as usize } else { unsent.len() };
        let bytes: Vec<u8> = unsent.drain(..n).collect();
        let is_left = !unsent.is_empty();
        if let Some(member) = &mut self.members[node] {
            member.pipes().push(pipe, &bytes);
        }
        let at = now + self.distance();
        {
            let net = &mut *self.net.borrow_mut();
            net.trace.record(now, node, Topic::Invoke, client as u64, bytes.len() as u64);
            net.arm_run(node, at);
        }
        if is_left {
            self.wake_client(client, at);
        }
        is_left
    }
}

/// Notes at the member that a client has left.
fn member_gone(member: &mut Option<Box<dyn Member>>, pipe: PipeId) {
    if let Some(member) = member {
        member.pipes().break_off(pipe);
    }
}
