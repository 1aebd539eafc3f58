//! The prefix on every member's disk, up to which `disk-all` acknowledges outcomes to clients.
//!
//! The order is decided by majorities whatever the durability, so a dead member stops neither an
//! election nor a change of members, and both are needed to continue without it. Only the
//! acknowledgement waits for all.
//!
//! - I13 Everything below [`held`](Durable::held) is decided, and on the synced disk of every voter
//!   of every configuration that governs a slot which is not known to be decided: a removal that
//!   another leader may yet undo excuses no disk, and while the replacement of a disk may be undone
//!   its successor does not count for it. A disk's acknowledgement counts only while that disk has
//!   all of it: one whose log begins behind a damaged state says so, and holds nothing until it has
//!   a state again. By construction, from the same words as I7. Simulated (`HOLD_BY_MAJORITY`,
//!   `HOLD_BY_SUCCESSOR`), tested (`an_undecided_removal_excuses_nobody`, `HOLD_WITHOUT_STATE`).
//!
//! I7 does not need the last of these rules: a log begins only behind what is decided, so the
//! damage affects only decided entries, and a copy of a later entry there is a copy.

use super::*;

impl<P: Planting<Bug>> Durable<P> {
    /// The prefix of I13. Only a leader knows it; it may fall when members change or a disk is
    /// damaged.
    pub(super) fn held(&self) -> Prefix {
        let Office::Leader(term) = &self.office else { return Prefix::ZERO };
        if self.planted.has(Bug::HoldByMajority) {
            return self.progress.committed;
        }
        let Some((newest_at, newest)) = self.log.members() else { return Prefix::ZERO };
        let on_disk_of = |members: &Members, rank: Rank| {
            // Acknowledgements count for the disk that the newest configuration seats there.
            let is_seated = members.incarnation(rank) == newest.incarnation(rank);
            match rank {
                rank if rank == self.me => self.log.durable(),
                rank if is_seated || self.planted.has(Bug::HoldBySuccessor) => {
                    term.held_at(rank, self.planted)
                }
                _ => Prefix::ZERO,
            }
        };
        let on_all = |(_, members): &log::Placed| {
            members.voters.iter().map(|rank| on_disk_of(members, rank)).min()
        };
        let only_newest = self.planted.has(Bug::HoldByNewest);
        let governing = self.log.governing(self.progress.committed);
        let governing = governing.filter(|(at, _)| !only_newest || at == newest_at);
        governing.filter_map(on_all).min().unwrap_or_default().min(self.progress.committed)
    }
}
