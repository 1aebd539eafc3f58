//! Closed-loop clients: one operation at a time, any node, until an answer or the deadline.
//!
//! - I1 An operation whose outcome is unknown is never repeated as another operation: attempts of
//!   one operation carry one (client, sequence), and an abandoned operation stays open for ever.

use crate::coverage::Mark;
use crate::history::Operation;
use crate::kv::{Ask, Command, N_KEYS};
use crate::ledger::Reply;
use crate::plan::MS;
use crate::queue::Happening;
use crate::trace::Topic;
use crate::world::net::LATE_NS_MAX;
use crate::world::node::Request;
use crate::world::{Phase, World};
use base::Rng;

/// The time after which a client abandons an operation.
const OPERATION_NS: u64 = 1500 * MS;

/// The shortest wait for an answer in the liveness phase of a day, where a wire to a leader outside
/// the core may be as late as wires get for all of that phase: there and back, and once more for
/// messages under way before it. A client that asks again sooner fills the leader with requests
/// whose answers have no receiver.
const PATIENCE_OF_A_DAY_NS: u64 = 4 * LATE_NS_MAX;

/// The most requests that wait for a process which does not run.
const N_ARRIVED_MAX: usize = 256;

/// An operation under way.
#[derive(Clone, Copy, Debug)]
struct Current {
    command: Command,
    /// The index in the history.
    index: usize,
    give_up_at: u64,
}

impl Current {
    /// The patience that is left.
    fn left(&self, now: u64) -> u64 {
        self.give_up_at.saturating_sub(now)
    }
}

/// One client.
pub(crate) struct Client {
    rng: Rng,
    sequence: u32,
    /// The number of requests: an answer to an older one is ignored.
    attempt: u32,
    current: Option<Current>,
    /// The node that the client takes for the leader.
    favourite: Option<usize>,
    /// Whether it was just told the leader.
    was_told: bool,
    /// The last value that it saw in each register.
    seen: [u64; N_KEYS],
    /// The number of operations answered in the liveness phase.
    pub(crate) n_live: u32,
}

impl Client {
    pub(crate) fn new(rng: Rng) -> Client {
        Client {
            rng,
            sequence: 0,
            attempt: 0,
            current: None,
            favourite: None,
            was_told: false,
            seen: [0; N_KEYS],
            n_live: 0,
        }
    }

    /// Makes the client ask `node` first.
    pub(crate) fn prefer(&mut self, node: usize) {
        assert!(self.current.is_none(), "one operation at a time");
        self.favourite = Some(node);
    }

    pub(crate) fn waits(&self) -> bool {
        self.current.is_some()
    }
}

impl World {
    pub(crate) fn on_client(&mut self, index: usize) {
        let now = self.net.now();
        match self.clients[index].current {
            None if self.is_silent() => {}
            None => self.think(index),
            Some(current) if now >= current.give_up_at => self.give_up(index),
            Some(_) => {
                // No answer came: another node may have one. The (client, sequence) is the same, so
                // I1 holds. (Where every answer waits for disks, forgetting the leader too would
                // starve the client.)
                if !self.clients[index].was_told {
                    self.clients[index].favourite = None;
                }
                self.clients[index].was_told = false;
                self.attempt(index);
            }
        }
    }

    /// Draws an operation and sends it.
    pub(crate) fn think(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let key = client.rng.below(self.plan.n_keys) as u8;
        let value = u64::from(client.sequence + 1) << 8 | index as u64;
        let ask = if client.rng.chance(self.plan.reads, 8) {
            Ask::Read
        } else {
            match client.rng.below(4) {
                0 => Ask::Write(value),
                1 => Ask::Cas { expected: client.seen[key as usize], desired: value },
                _ => Ask::Add(1000 * client.rng.range(1, 9)),
            }
        };
        self.ask(index, key, ask);
    }

    /// Begins an operation.
    pub(crate) fn ask(&mut self, index: usize, key: u8, ask: Ask) {
        let now = self.net.now();
        let least_patience = self.least_patience();
        let client = &mut self.clients[index];
        client.sequence += 1;
        let command = Command { client: index as u8, sequence: client.sequence, key, ask };
        let give_up_at = now + OPERATION_NS.max(3 * least_patience);
        client.current = Some(Current { command, index: self.ledger.operations.len(), give_up_at });
        let client = index as u8;
        self.ledger.operations.push(Operation {
            client,
            key,
            ask,
            asked_at: now,
            answered_at: None,
            answer: None,
            place: None,
        });
        let sequence = u64::from(command.sequence);
        self.net.trace.record(now, index, Topic::Invoke, sequence, u64::from(key));
        self.attempt(index);
    }

    /// The shortest patience of a client.
    fn least_patience(&self) -> u64 {
        let is_late = self.phase == Phase::Liveness && self.plan.lasts_a_day();
        if is_late { PATIENCE_OF_A_DAY_NS } else { 0 }
    }

    /// Sends the operation under way to some node.
    fn attempt(&mut self, index: usize) {
        let (members, least_patience) = (self.plan.members, self.least_patience());
        let client = &mut self.clients[index];
        client.attempt += 1;
        let anywhere = client.rng.chance(self.plan.anywhere, 8) && self.phase == Phase::Safety;
        let node = match client.favourite {
            Some(node) if !anywhere => node,
            _ => {
                // Only the core promises liveness; the node that it trusts may be outside.
                let some = client.rng.below(members as u64) as usize;
                // (A node that the operator has taken out of it meanwhile has ended.)
                let is_asked = |node: &usize| self.in_core(*node) && self.is_taken(*node);
                (some..members).chain(0..some).find(is_asked).unwrap_or(some)
            }
        };
        let client = &mut self.clients[index];
        let attempt = client.attempt;
        let patience = client.rng.range(self.plan.patience_ns / 8, self.plan.patience_ns);
        let patience = patience.max(least_patience);
        let (now, weather) = (self.net.now(), &self.net.weather);
        let delay = weather.latency_ns + client.rng.below(weather.jitter_ns + 1);
        self.net.queue.set_client(index, now + patience);
        let request = Happening::Request { node: node as u16, client: index as u8, attempt };
        self.net.queue.push(now + delay, request);
    }

    /// A request reaches a node.
    pub(crate) fn on_request(&mut self, node: usize, client: usize, attempt: u32) {
        let Some(current) = self.clients[client].current else { return };
        if self.clients[client].attempt != attempt {
            // Its sender has begun another attempt; a request may always be lost.
            return;
        }
        if self.shells[node].arrived.len() >= N_ARRIVED_MAX {
            // A stopped process receives no more than its sockets hold.
            return;
        }
        if !self.net.processes[node].alive {
            // No process listens there: the request was surely not executed.
            return self.on_answer(client, attempt, Reply::NotLeader(None));
        }
        self.shells[node].arrived.push(Request { command: current.command, attempt });
        self.net.arm_run(node, self.net.now());
    }

    pub(crate) fn on_answer(&mut self, index: usize, attempt: u32, reply: Reply) {
        let now = self.net.now();
        let client = &mut self.clients[index];
        let Some(current) = client.current.filter(|_| client.attempt == attempt) else { return };
        match reply {
            Reply::Done { answer, place } => {
                let operation = &mut self.ledger.operations[current.index];
                operation.answered_at = Some(now);
                operation.answer = Some(answer);
                operation.place = place;
                let key = current.command.key as usize;
                match current.command.ask {
                    Ask::Cas { .. } => {}
                    Ask::Read | Ask::Write(_) | Ask::Add(_) => client.seen[key] = answer,
                }
                if self.core.owes(operation.asked_at) {
                    client.n_live += 1;
                }
                self.net.trace.record(now, index, Topic::Answer, answer, place.unwrap_or(0));
                self.rest(index);
                self.finish_early();
            }
            Reply::NotLeader(hint) => {
                client.favourite = hint.map(usize::from);
                client.was_told = true;
                let pause = client.rng.range(MS / 10, self.plan.patience_ns / 40);
                self.net.queue.set_client(index, now + pause.min(current.left(now)));
                client.attempt += 1;
            }
            Reply::Unknown => {
                client.favourite = None;
                if client.rng.chance(1, 4) {
                    return self.give_up(index);
                }
                let pause = client.rng.range(MS / 10, self.plan.patience_ns / 40);
                self.net.queue.set_client(index, now + pause.min(current.left(now)));
                client.attempt += 1;
            }
        }
    }

    /// Abandons the operation, which stays open for ever (I1).
    fn give_up(&mut self, index: usize) {
        let Some(current) = self.clients[index].current else { return };
        let sequence = u64::from(current.command.sequence);
        self.net.trace.record(self.net.now(), index, Topic::Unknown, sequence, 0);
        self.net.coverage.hit(Mark::OutcomeUnknown);
        self.rest(index);
    }

    /// Goes idle, and thinks of the next operation later.
    fn rest(&mut self, index: usize) {
        let now = self.net.now();
        let client = &mut self.clients[index];
        client.current = None;
        client.attempt += 1;
        if self.plan.think_ns > 0 {
            let mut pause = 1 + client.rng.below(2 * self.plan.think_ns);
            if self.phase == Phase::Liveness {
                pause = pause.min(4 * MS);
            }
            self.net.queue.set_client(index, now + pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::subjects::subject;
    use crate::{Birth, Provider, Shape};
    use base::Rank;
    use proto::Role;

    /// In a healed core that trusts a leader outside it, to which wires are as late as they get,
    /// all clients are answered in time, also those that soon ask again where answers come soon.
    #[test]
    fn who_asks_a_leader_that_is_far_away_waits_for_it() {
        const SECOND: u64 = 1000 * MS;
        let shape = Shape { ring_slots: 16, value_bytes: 104 };
        let plan = Plan {
            n_clients: 2,
            patience_ns: 10 * MS,
            pace: 100,
            ..Plan::calm(3, Provider::Tcp, shape)
        };
        let mut world = World::new(subject("mu"), plan, Rng::new(1), false);
        (0..3).for_each(|node| world.be_born(node, Birth::Fresh));
        let run_until = |world: &mut World, end: u64, is_over: fn(&World) -> bool| {
            while !is_over(world) {
                let Some(what) = world.net.queue.pop_until(end) else { return false };
                world.happen(what);
            }
            true
        };
        let leads = |world: &World| world.role(0) == Some(Role::Leader);
        assert!(run_until(&mut world, 300 * SECOND, leads));
        for other in [1, 2] {
            world.core.members.insert(Rank::at(other));
            let wire = world.net.link_index(other, 0);
            world.net.wires[wire].slowness = u64::from(u32::MAX);
        }
        world.phase = Phase::Liveness;
        world.core.must_serve_from(world.net.now());
        world.end_long_thoughts();
        let end = world.net.now() + 300 * SECOND;
        let is_over = |world: &World| world.phase == Phase::Over;
        assert!(run_until(&mut world, end, is_over), "{} answers", world.clients[0].n_live);
    }
}
