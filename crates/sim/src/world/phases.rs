//! The three phases of a run: safety, healing, liveness.
//!
//! - I1 The core holds a majority of the states that live: the members outside it, together with
//!   those that have lost the state, are never more than memory-quorum survives. So a core that
//!   cannot serve is a violation.

use crate::Property;
use crate::plan::MS;
use crate::queue::Happening;
use crate::trace::Topic;
use crate::world::rest::{self, Rest};
use crate::world::silence::Silence;
use crate::world::{N_LIVE_OPERATIONS, Phase, World};
use base::{MemberSet, Rank, majority};

/// The time that the core gets before it must serve.
const HEALING_NS: u64 = 3_000 * MS;
/// The time that each client may take in the liveness phase for the operations it must complete.
const LIVENESS_NS: u64 = 3_000 * MS;

/// The members that must serve once faults have ended (I1).
pub(crate) struct Core {
    pub(crate) members: MemberSet,
    /// The time at which the liveness phase began.
    since: Option<u64>,
    pub(crate) silence: Silence,
    pub(crate) rest: Rest,
}

impl Core {
    /// The core before faults have ended.
    pub(crate) fn of(members: MemberSet) -> Core {
        Core { members, since: None, silence: Silence::Never, rest: Rest::of(rest::OF_MACHINES) }
    }

    /// Notes that the liveness phase begins.
    pub(crate) const fn must_serve_from(&mut self, now: u64) {
        self.since = Some(now);
    }

    /// Whether what was asked then must be answered: it was asked in the liveness phase.
    pub(crate) fn owes(&self, asked_at: u64) -> bool {
        self.since.is_some_and(|since| asked_at >= since)
    }
}

impl World {
    pub(crate) fn on_phase(&mut self) {
        let now = self.net.now();
        self.phase = match self.phase {
            Phase::Safety => {
                self.heal();
                self.net.queue.push(now + HEALING_NS * self.plan.pace, Happening::Phase);
                Phase::Healing
            }
            Phase::Healing => {
                self.core.must_serve_from(now);
                self.end_long_thoughts();
                self.ledger.to_be_held = self.ledger.copies.upto();
                self.net.queue.push(now + LIVENESS_NS * self.plan.pace, Happening::Phase);
                Phase::Liveness
            }
            Phase::Liveness if let Some(until) = self.core.silence.lasts_until(now) => {
                self.net.queue.push(until, Happening::Phase);
                Phase::Liveness
            }
            Phase::Liveness | Phase::Over => {
                self.blame();
                Phase::Over
            }
        };
        self.net.trace.record(
            now,
            0,
            Topic::Phase,
            self.phase as u64,
            u64::from(self.core.members.bits()),
        );
    }

    /// Ends the clients' thoughts, which last for minutes in runs of a day: they must ask soon.
    pub(crate) fn end_long_thoughts(&mut self) {
        for client in 0..self.clients.len() {
            if self.plan.pace > 1 && !self.clients[client].waits() {
                let at = self.net.now() + MS * (client as u64 + 1);
                self.net.queue.set_client(client, at);
            }
        }
    }

    /// Reports a client without its answers at the end of the liveness phase, and the reason.
    fn blame(&mut self) {
        let stuck = self.clients.iter().position(|client| client.n_live < N_LIVE_OPERATIONS);
        let Some(client) = stuck else {
            let missing = self.unachieved().or_else(|| self.unheld());
            if let Some(detail) = missing.or_else(|| self.unlearned()) {
                self.net.violate(Property::Liveness, detail);
            }
            return;
        };
        let nodes: Vec<String> = (0..self.plan.members)
            .map(|node| match &self.machines[node] {
                Some(machine) if self.net.processes[node].alive => {
                    let stopped = if self.net.processes[node].runs() { "" } else { " stopped" };
                    format!(
                        "r{node}{stopped} {:?} trusts {:?}{}",
                        machine.status(),
                        machine.trusted(),
                        self.say_members(node, &**machine)
                    )
                }
                _ => format!("r{node} dead"),
            })
            .collect();
        let detail = format!(
            "client {client} completed {} of {N_LIVE_OPERATIONS} operations in {} ms; core {:?}; {}",
            self.clients[client].n_live,
            LIVENESS_NS * self.plan.pace / MS,
            self.core.members,
            nodes.join("; ")
        );
        self.net.violate(Property::Liveness, detail);
    }

    /// Ends the liveness phase early if all clients have the answers that it asks for.
    pub(crate) fn finish_early(&mut self) {
        if self.phase == Phase::Liveness
            && !self.is_silent()
            && self.clients.iter().all(|client| client.n_live >= N_LIVE_OPERATIONS)
            && self.unachieved().is_none()
            && self.unheld().is_none()
            && !self.begin_silence()
        {
            self.phase = Phase::Over;
        }
    }

    /// Chooses the core and repairs it; the others stay as they are, or get worse.
    fn heal(&mut self) {
        self.net.weather.clear_up();
        if self.subject.has_operator {
            self.core.members = self.members_core();
            return self.repair_core();
        }
        let members = self.plan.members;
        // The core holds a majority of the states that live: at most a minority may be lost.
        let mut holders: Vec<usize> = (0..members).filter(|node| self.holds_state(*node)).collect();
        let mut core = MemberSet::EMPTY;
        while core.len() < majority(members) && !holders.is_empty() {
            let pick = self.rng.below(holders.len() as u64) as usize;
            core.insert(Rank::at(holders.swap_remove(pick)));
        }
        // (No process starts on a damaged disk again.)
        for node in (0..members).filter(|node| !self.disks[*node].is_rotten()) {
            if core.len() < majority(members) || self.rng.chance(1, 3) {
                core.insert(Rank::at(node));
            }
        }
        self.core.members = core;
        self.repair_core();
    }
}
