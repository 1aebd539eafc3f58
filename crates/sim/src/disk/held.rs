//! The durable content of a disk, for the judges.

use super::Disk;
use base::{Ballot, Prefix, Slot};
use proto::disk::EntryHead;

impl Disk {
    /// The least prefix that survives a power cut now, as entries or in the state of a snapshot.
    pub(crate) fn durable(&self) -> Prefix {
        let covered = self.snapshot.as_ref().map_or(Prefix::ZERO, |state| state.prefix);
        covered.max(Prefix(self.stable.end()))
    }

    /// The longest prefix that this disk alone gives back after a power cut: a state for what lies
    /// before its log.
    pub(super) fn whole(&self) -> Prefix {
        let covered = self.snapshot.as_ref().map_or(Prefix::ZERO, |state| state.prefix);
        let reaches = covered.0 >= self.stable.start;
        if reaches { covered.max(Prefix(self.stable.end())) } else { covered }
    }

    /// The newest entry of the present life's log.
    pub(crate) fn last(&self) -> Option<EntryHead> {
        self.live.entries.back().map(|(head, _)| *head)
    }

    /// The meta that survives a power cut.
    pub(crate) fn durable_meta(&self) -> &[u8] {
        &self.stable.meta
    }

    /// The entries that survive a power cut: those from the first prefix on, up to the second.
    pub(crate) fn durable_entries(&self) -> (Prefix, Prefix) {
        (Prefix(self.stable.start), Prefix(self.stable.end()))
    }

    /// The entry at `slot` that survives a power cut.
    pub(crate) fn durable_entry(&self, slot: Slot) -> Option<&[u8]> {
        let at = slot.0.checked_sub(self.stable.start)?;
        self.stable.entries.get(at as usize).map(|(_, payload)| &payload[..])
    }

    /// As [`Disk::whole`], or the prefix that it gave back when it was damaged, if its member can
    /// have reported in `ballot` only before that.
    pub(crate) fn vouched(&self, ballot: Ballot) -> Prefix {
        let once = self.before_damage.filter(|(newest, _)| ballot <= *newest);
        self.whole().max(once.map_or(Prefix::ZERO, |(_, prefix)| prefix))
    }

    /// Whether everything below `prefix`, its last entry made under `ballot`, survives a power cut:
    /// in the log as far as it reaches that slot, otherwise in the snapshot.
    pub(crate) fn holds(&self, prefix: Prefix, ballot: Option<Ballot>) -> bool {
        let snapshot = self.snapshot.as_ref().map_or(Prefix::ZERO, |state| state.prefix);
        let in_log = || {
            let at = prefix.0.checked_sub(1)?.checked_sub(self.stable.start)?;
            self.stable.entries.get(at as usize).map(|(head, _)| head.ballot)
        };
        snapshot >= prefix || in_log().is_some_and(|own| ballot.is_none_or(|of| of == own))
    }
}
