//! The faults of a disk: those that end by themselves, and damage.

use super::{Disk, SEGMENT_BYTES};
use crate::clock::MS;
use crate::kinds::Kind;
use base::{Ballot, Rng, Slot};
use proto::disk::DiskEvent;

/// The longest stall that is not reported.
const UNREPORTED_NS: u64 = 20 * MS;

impl Disk {
    /// Begins a fault of this kind, which ends by itself; false if it cannot, or has one already.
    pub(crate) fn strike(&mut self, kind: Kind, lasts: u64, rng: &mut Rng) -> bool {
        if !self.is_well() {
            return false;
        }
        match kind {
            Kind::DiskStall => self.stall(lasts > UNREPORTED_NS),
            Kind::DiskFull => self.confine(rng.below(3)),
            Kind::SyncFails => self.fail_sync(rng.below(8)),
            _ => return false,
        }
        true
    }

    /// Flips a bit of an entry that later ones show to have been durable; false without such an
    /// entry. Its process finds out at its next start; until then it knows of `ballot`.
    pub(crate) fn rot(&mut self, rng: &mut Rng, ballot: Ballot) -> bool {
        let before = (ballot, self.whole());
        if let Some(log) = &mut self.log {
            if rng.chance(1, 3) && log.states().rot(rng) {
                self.is_spoiled = true;
            } else if log.rot(rng) {
                self.damage = Some(Slot::ZERO);
            }
        } else if let Some(n) = self.stable.entries.len().checked_sub(1).filter(|n| *n > 0) {
            self.damage = Some(Slot(self.stable.start + rng.below(n as u64)));
        }
        if self.is_rotten() {
            self.before_damage = Some(before);
        }
        self.is_rotten()
    }

    /// Whether it is damaged.
    pub(crate) fn is_rotten(&self) -> bool {
        self.damage.is_some() || self.is_spoiled
    }

    /// Whether a bit of the entry at `slot` has flipped.
    pub(crate) fn is_damaged_at(&self, slot: Slot) -> bool {
        self.damage == Some(slot)
    }

    /// Whether the damage is such that no process may start on it.
    pub(crate) fn is_unusable(&self) -> bool {
        self.damage.is_some()
    }

    /// Stops syncs; after a while it reports that.
    pub(crate) fn stall(&mut self, is_long: bool) {
        self.ails.n_holds += 1;
        self.is_stalled = is_long;
        if is_long {
            self.events.push(DiskEvent::Stalled);
        }
    }

    /// Bounds the room to `n_segments` from now on.
    pub(super) fn confine(&mut self, n_segments: u64) {
        self.ails.is_ailing = true;
        match &mut self.log {
            Some(log) => log.confine(Some(n_segments)),
            None => self.ails.room = Some(n_segments * SEGMENT_BYTES),
        }
    }

    /// Makes the sync after `after` more fail.
    pub(super) fn fail_sync(&mut self, after: u64) {
        self.ails.is_ailing = true;
        match &mut self.log {
            Some(log) => log.fail_sync(Some(after)),
            None => self.ails.fails_after = Some(after),
        }
    }

    /// The number of its requests that are not durable.
    pub(crate) fn n_pending(&self) -> usize {
        self.pending.len()
    }

    /// Drops the requests after the first `n_pending`: its process died then.
    pub(crate) fn forget_after(&mut self, n_pending: usize) {
        self.pending.truncate(n_pending);
    }

    /// Whether it has no fault that ends by itself.
    pub(crate) fn is_well(&self) -> bool {
        self.ails.n_holds == 0 && !self.ails.is_ailing
    }

    /// Ends every fault that ends by itself.
    pub(crate) fn mend(&mut self) {
        self.ails.n_holds = 0;
        self.ails.is_ailing = false;
        (self.ails.room, self.ails.fails_after) = (None, None);
        if let Some(log) = &mut self.log {
            log.confine(None);
            log.fail_sync(None);
        }
        if std::mem::take(&mut self.is_stalled) {
            self.events.push(DiskEvent::Flowing);
        }
    }

    /// Takes it out of its place, its process dead: faults that end by themselves do not come back
    /// with it.
    pub(crate) fn unplug(&mut self) {
        self.mend();
        self.events.clear();
    }
}
