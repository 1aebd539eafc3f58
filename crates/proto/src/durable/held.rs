//! What every member's disk holds: the point up to which `disk-all` tells clients of outcomes.
//!
//! The order is decided by majorities whatever the durability, so a dead member stops neither an
//! election nor a change of members, and both are needed to go on without it. What waits for all
//! is the acknowledgement alone.
//!
//! - I13 Everything below [`held`](Durable::held) is decided, and on the synced disk of every
//!   voter of every configuration that governs a slot which is not known to be decided: a removal
//!   that may yet be undone by another leader excuses nobody. By construction, from the same words
//!   as I7; a seat given to another incarnation holds nothing before that one says so. Simulated
//!   (`HOLD_BY_MAJORITY`), tested (`an_undecided_removal_excuses_nobody`).

use super::*;

impl<V: Variant> Durable<V> {
    /// See the module's text. Only a leader knows; it may fall when a member is added.
    pub(super) fn held(&self) -> Prefix {
        let Office::Leader(term) = &self.office else { return Prefix::ZERO };
        if V::HOLD_BY_MAJORITY {
            return self.committed;
        }
        let of = |rank| if rank == self.me { self.log.durable() } else { term.durable_at(rank) };
        let governing = self.log.governing(self.committed);
        let voters = governing.map(|(_, members)| members.voters);
        let all = voters.fold(MemberSet::EMPTY, MemberSet::union);
        all.iter().map(of).min().unwrap_or_default().min(self.committed)
    }
}
