//! A simulated member's stable storage: the simulator's disk for the log, and snapshots beside it.
//!
//! - I4 a log reaches back to the newest snapshot that is durable: otherwise this member lost what
//!   is between the two. Checked when a log begins at a state, and when a process starts on it,
//!   unless that snapshot is damaged.
//! - P1 a process that dies after its snapshot has got its name, and before it hears of that,
//!   leaves the snapshot. By [`Platter::lose_process`].
//! - P2 of a process that dies in the middle of a turn, nothing that it asks for after its death is
//!   there. By [`Platter::forget_ghost`], with what [`Platter::asked`] said at the death.

use super::shelf::{Shelf, Snapshot};
use crate::disk::Disk;
use crate::stored::Unusable;
use crate::{Snapshots, Store};
use base::{Ballot, Instant, Prefix, Rng, Slot};
use core::fmt;
use core::time::Duration;
use engine::{DiskFigures, StableStorage};
use proto::disk::{Disk as _, DiskEvent, Entry, EntryHead, Flush};
use proto::members::StateHead;
use std::cell::Cell;
use std::rc::Rc;

/// The most bytes that may wait for a disk (D4).
const UNSYNCED_BYTES_MAX: usize = 16 << 10;
/// The interval at which a snapshot under way is looked at.
const LOOK: Duration = Duration::from_micros(200);

/// The storage of the module's text.
pub(super) struct Platter {
    pub(super) log: Disk,
    pub(super) shelf: Shelf,
    /// The reason why its member has to end, once that has heard of it.
    failure: Option<String>,
    /// Whether a sync has failed, which the member has not heard.
    sync_failed: bool,
    /// The number of requests that are not durable.
    asked: Rc<Cell<usize>>,
    /// What it gave back when it was damaged last: its member may have reported that.
    before_damage: Prefix,
}

impl fmt::Debug for Platter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Platter").field("shelf", &self.shelf).finish_non_exhaustive()
    }
}

impl Platter {
    pub(super) fn new(store: Store, snapshot_log_bytes: u64, writing_takes: Duration) -> Platter {
        let mut log = Disk::new(store, Snapshots::Sound);
        log.let_wait(UNSYNCED_BYTES_MAX);
        Platter {
            log,
            shelf: Shelf::new(snapshot_log_bytes, writing_takes),
            failure: None,
            sync_failed: false,
            asked: Rc::default(),
            before_damage: Prefix::ZERO,
        }
    }

    /// The number of its requests that are not durable, for a port whose process may die (P2).
    pub(super) fn asked(&self) -> Rc<Cell<usize>> {
        Rc::clone(&self.asked)
    }

    /// P2
    pub(super) fn forget_ghost(&mut self, n_asked: usize) {
        self.log.forget_after(n_asked);
        self.shelf.lose_writing();
    }

    /// Kills its process. True if that leaves a snapshot of which it has not heard (P1).
    pub(super) fn lose_process(&mut self, rng: &mut Rng) -> bool {
        self.log.lose_process(rng);
        (self.failure, self.sync_failed) = (None, false);
        self.shelf.lose_process(rng)
    }

    /// Cuts the power of a disk without a process.
    pub(super) fn lose_power(&mut self, rng: &mut Rng) {
        self.log.lose_power(rng);
    }

    /// A sync has failed: its member hears of that, and has to end.
    pub(super) fn fail(&mut self) {
        self.sync_failed = true;
    }

    /// Whether its member has to end, and nothing is asked of it.
    pub(super) fn has_failed(&self) -> bool {
        self.sync_failed || self.failure.is_some()
    }

    // ---- damage ----

    /// Flips a bit of a snapshot, or of the log where `may_lose_log`. False if there is nothing
    /// that would show it.
    pub(super) fn rot(&mut self, rng: &mut Rng, may_lose_log: bool) -> bool {
        let held = self.held();
        let rots = if may_lose_log && rng.chance(2, 3) {
            self.log.rot(rng, Ballot::NONE)
        } else {
            self.shelf.rot()
        };
        if rots {
            self.before_damage = self.before_damage.max(held);
        }
        rots
    }

    /// Whether it is damaged.
    pub(super) fn is_rotten(&self) -> bool {
        self.log.is_rotten() || self.shelf.is_spoiled()
    }

    /// The prefix that it alone gives back after a power cut.
    pub(super) fn held(&self) -> Prefix {
        let covered = self.shelf.covered();
        let (start, end) = self.log.durable_entries();
        if covered >= start { covered.max(end) } else { covered }
    }

    /// The end of what it has, or had before it was damaged. Where a snapshot is damaged, a part
    /// before its log may be missing: two other voters have that (F1 of `disk_faults`).
    pub(super) fn vouched(&self) -> Prefix {
        let (_, end) = self.log.durable_entries();
        self.shelf.covered().max(end).max(self.before_damage)
    }

    /// I4: whether a log that begins at `start` reaches back to the newest snapshot.
    fn reaches_back(&self, start: Slot) -> bool {
        start.prefix_before() <= self.shelf.covered() || self.shelf.is_spoiled()
    }

    /// Starts a process on it.
    ///
    /// # Errors
    /// Damage that it names, or I4.
    pub(super) fn revive(&mut self, rng: &mut Rng, has_snapshots: bool) -> Result<(), Unusable> {
        self.shelf.revive();
        self.log.revive(rng)?;
        let (start, covered) = (self.log.start(), self.shelf.covered());
        if has_snapshots && !self.reaches_back(start) {
            return Err(Unusable::Broken(format!(
                "its log begins at {start}, and its newest snapshot covers {covered}"
            )));
        }
        self.note();
        Ok(())
    }

    /// Tells a port how many requests are not durable (P2).
    pub(super) fn note(&self) {
        self.asked.set(self.log.n_pending());
    }
}

impl StableStorage for Platter {
    fn pump(&mut self, _: Instant, tell: impl FnMut(DiskEvent)) {
        if self.sync_failed {
            self.failure.get_or_insert_with(|| "a sync has failed".to_owned());
        }
        if self.failure.is_none() {
            std::mem::take(&mut self.log.events).into_iter().for_each(tell);
        }
    }

    fn look_within(&self) -> Option<Duration> {
        if self.failure.is_some() {
            return Some(Duration::ZERO);
        }
        self.shelf.is_writing().then_some(LOOK)
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    fn figures(&self) -> DiskFigures {
        DiskFigures::default()
    }

    fn wants_snapshot(&self) -> bool {
        self.failure.is_none() && self.shelf.wants_snapshot()
    }

    fn is_writing(&self) -> bool {
        self.shelf.is_writing()
    }

    fn begin_snapshot(&mut self, prefix: Prefix, head: Option<StateHead>, now: Instant) -> bool {
        self.shelf.begin(Snapshot { prefix, head, bytes: Vec::new() }, now)
    }

    fn snapshot_pause(&self, now: Instant) -> Option<Duration> {
        self.shelf.pause(now)
    }

    fn wants_piece(&self) -> bool {
        self.shelf.wants_piece()
    }

    fn snapshot_piece(&mut self, bytes: Vec<u8>, is_last: bool) {
        self.shelf.piece(&bytes, is_last);
    }

    fn give_up_snapshot(&mut self) {
        self.shelf.give_up();
    }

    fn snapshotted(&mut self, now: Instant) -> Option<Prefix> {
        self.shelf.ended(now, self.log.is_full)
    }
}

impl proto::disk::Disk for Platter {
    fn append(&mut self, entry: Entry<'_>) {
        self.shelf.logged_bytes += entry.payload.len() as u64;
        self.log.append(entry);
        self.note();
    }

    fn room(&self) -> usize {
        self.log.room()
    }

    fn cut(&mut self, end: Slot) {
        self.log.cut(end);
        self.note();
    }

    fn begin_at(&mut self, slot: Slot) {
        let covered = self.shelf.covered();
        let reaches = self.reaches_back(slot);
        assert!(reaches, "I4: the log begins at {slot}, and a snapshot of {covered} is durable");
        self.log.begin_at(slot);
        self.note();
    }

    fn put_meta(&mut self, meta: &[u8]) {
        self.log.put_meta(meta);
        self.note();
    }

    fn meta(&self) -> &[u8] {
        self.log.meta()
    }

    fn sync(&mut self) -> Flush {
        self.log.sync()
    }

    fn read(&mut self, slot: Slot, into: &mut Vec<u8>) -> Option<EntryHead> {
        if self.log.is_damaged_at(slot) {
            into.clear();
            self.failure.get_or_insert_with(|| format!("its entry for slot {slot} is damaged"));
            return None;
        }
        self.log.read(slot, into)
    }

    fn head(&self, slot: Slot) -> Option<EntryHead> {
        self.log.head(slot)
    }

    fn start(&self) -> Slot {
        self.log.start()
    }

    fn end(&self) -> Slot {
        self.log.end()
    }

    fn free_below(&mut self, slot: Slot) {
        self.log.free_below(slot);
        self.note();
    }
}
