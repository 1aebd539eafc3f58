//! Members without a disk that change: the memory that may be lost, and its replacement.
//!
//! - I1 No life ends, and no memory is removed, that memory-quorum needs: of the voters of every
//!   configuration that may yet govern, a majority lives and holds the state, without it.
//! - I2 Another memory on a seat is reached by new links only: a verb posted to the old one never
//!   takes effect in the new one.

use crate::checks::configurations::votes;
use crate::world::outage::Outages;
use crate::world::{Phase, World};
use crate::{Life, Property};
use base::{Incarnation, Rank, majority};
use proto::members::{Configuration, Members};

impl World {
    /// Whether the members change and have only memory.
    pub(crate) const fn memories_change(&self) -> bool {
        self.subject.has_operator && !self.subject.is_durable
    }

    /// Every configuration that governs or may yet govern.
    pub(crate) fn governing(&self) -> Vec<Members> {
        let mut possible = self.ledger.configurations.successors();
        if possible.is_empty() {
            possible.push(Members::first(self.founders()));
        }
        possible
    }

    /// I1: whether the cluster survives without the state at `node`.
    pub(crate) fn is_dispensable(&self, node: usize) -> bool {
        let sits =
            |members: &Members, rank: Rank| votes(members, rank, self.incarnation(rank.index()));
        self.governing().iter().all(|members| {
            // (Once the faults have stopped, a member left outside the core may never return.)
            let is_there =
                |at: usize| at != node && (self.phase == Phase::Safety || self.in_core(at));
            let holds = |rank: &Rank| {
                let at = rank.index();
                is_there(at) && sits(members, *rank) && self.holds_state(at)
            };
            !sits(members, Rank::at(node))
                || members.voters.iter().filter(holds).count() >= majority(members.voters.len())
        })
    }

    /// Notes the members that `node` reports.
    pub(crate) fn look_at_members(&mut self, node: usize, machine: &dyn Life) {
        if let Some(Configuration { at, members, is_decided: true, .. }) = machine.configuration()
            && let Err(detail) = self.ledger.configurations.decided(at, &members)
        {
            self.net.violate(Property::Membership, format!("r{node}: {detail}"));
        }
    }

    /// I2: replaces the memory at `node`.
    pub(crate) fn replace_memory(&mut self, node: usize) {
        self.net.clear_region(node);
        Outages::replace_memory(&mut self.net, node);
    }

    /// Judges that an incarnation which becomes a voter has applied nearly as much as its leader.
    pub(crate) fn judge_promotion(&mut self, leader: usize, rank: Rank) {
        let window = u64::from(self.plan.shape.ring_slots) / 4;
        let (there, here) = (self.applied(rank.index()), self.applied(leader));
        if here.ahead_of(there) > window {
            let detail = format!("{rank} votes with {there} of {here} applied");
            self.net.violate(Property::Membership, detail);
        }
    }

    /// Begins `incarnation` at `seat`, whose memory is lost; false if that must wait (I1).
    pub(crate) fn may_put_memory(&self, seat: usize, incarnation: Incarnation) -> bool {
        self.incarnation(seat) == incarnation || self.is_dispensable(seat)
    }
}
