//! A simulated member's stable storage: the simulator's disk for the log, and snapshots beside it.
//!
//! - I4 a log reaches back to the newest snapshot that is durable: otherwise this member lost what
//!   is between the two. Checked when a process starts on it.

use crate::disk::Disk;
use crate::{Snapshots, Store};
use base::{Instant, Prefix, Rng, Slot};
use core::fmt;
use core::time::Duration;
use engine::{DiskFigures, StableStorage};
use proto::disk::{Disk as _, DiskEvent, Entry, EntryHead, Flush};
use proto::members::StateHead;

/// The most bytes that may wait for a disk (D4).
const UNSYNCED_BYTES_MAX: usize = 16 << 10;
/// The interval at which a snapshot under way is looked at.
const LOOK: Duration = Duration::from_micros(200);

/// A state on a disk.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) prefix: Prefix,
    pub(super) head: Option<StateHead>,
    pub(super) bytes: Vec<u8>,
}

/// A state on its way there.
#[derive(Debug)]
struct Writing {
    snapshot: Snapshot,
    is_whole: bool,
    is_given_up: bool,
    /// The time at which it is durable, if it is whole.
    until: Instant,
}

/// The storage of the module's text.
pub(super) struct Platter {
    pub(super) log: Disk,
    /// The newest durable snapshot.
    pub(super) snapshot: Option<Snapshot>,
    writing: Option<Writing>,
    /// The bytes of entries after which a snapshot is due.
    snapshot_log_bytes: u64,
    logged_bytes: u64,
    /// The time in which a snapshot becomes durable.
    writing_takes: Duration,
    pub(super) n_snapshots: u64,
}

impl fmt::Debug for Platter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Platter").field("writing", &self.writing).finish_non_exhaustive()
    }
}

impl Platter {
    pub(super) fn new(snapshot_log_bytes: u64, writing_takes: Duration) -> Platter {
        let mut log = Disk::new(Store::Model, Snapshots::Sound);
        log.let_wait(UNSYNCED_BYTES_MAX);
        Platter {
            log,
            snapshot: None,
            writing: None,
            snapshot_log_bytes,
            logged_bytes: 0,
            writing_takes,
            n_snapshots: 0,
        }
    }

    /// Kills its process.
    pub(super) fn lose_process(&mut self, rng: &mut Rng) {
        self.log.lose_process(rng);
        self.writing = None;
    }

    /// Cuts the power.
    pub(super) fn lose_power(&mut self, rng: &mut Rng) {
        self.log.lose_power(rng);
        self.writing = None;
    }

    /// The prefix that it alone gives back after a power cut.
    pub(super) fn held(&self) -> Prefix {
        let covered = self.snapshot.as_ref().map_or(Prefix::ZERO, |one| one.prefix);
        let (start, end) = self.log.durable_entries();
        if covered >= start { covered.max(end) } else { covered }
    }

    /// Starts a process on it.
    ///
    /// # Errors
    /// I4.
    pub(super) fn revive(&mut self) -> Result<(), String> {
        self.logged_bytes = 0;
        let covered = self.snapshot.as_ref().map_or(Prefix::ZERO, |one| one.prefix);
        let start = self.log.start();
        if start.prefix_before() > covered {
            return Err(format!(
                "its log begins at {start}, and its newest snapshot covers {covered}"
            ));
        }
        Ok(())
    }
}

impl StableStorage for Platter {
    fn pump(&mut self, _: Instant, tell: impl FnMut(DiskEvent)) {
        std::mem::take(&mut self.log.events).into_iter().for_each(tell);
    }

    fn look_within(&self) -> Option<Duration> {
        self.writing.as_ref().map(|_| LOOK)
    }

    fn failure(&self) -> Option<&str> {
        None
    }

    fn figures(&self) -> DiskFigures {
        DiskFigures::default()
    }

    fn wants_snapshot(&self) -> bool {
        self.writing.is_none() && self.logged_bytes >= self.snapshot_log_bytes
    }

    fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    fn begin_snapshot(&mut self, prefix: Prefix, head: Option<StateHead>, now: Instant) -> bool {
        assert!(self.writing.is_none(), "one at a time");
        self.logged_bytes = 0;
        let snapshot = Snapshot { prefix, head, bytes: Vec::new() };
        let until = now.plus(self.writing_takes);
        self.writing = Some(Writing { snapshot, is_whole: false, is_given_up: false, until });
        true
    }

    fn snapshot_pause(&self, _: Instant) -> Option<Duration> {
        None
    }

    fn wants_piece(&self) -> bool {
        self.writing.as_ref().is_some_and(|writing| !writing.is_whole && !writing.is_given_up)
    }

    fn snapshot_piece(&mut self, bytes: Vec<u8>, is_last: bool) {
        let Some(writing) = &mut self.writing else { return };
        writing.snapshot.bytes.extend_from_slice(&bytes);
        writing.is_whole = is_last;
    }

    fn give_up_snapshot(&mut self) {
        if let Some(writing) = &mut self.writing {
            writing.is_given_up = !writing.is_whole;
        }
    }

    fn snapshotted(&mut self, now: Instant) -> Option<Prefix> {
        let ends = |one: &mut Writing| one.is_given_up || one.is_whole && one.until <= now;
        let Writing { snapshot, is_given_up, .. } = self.writing.take_if(ends)?;
        if is_given_up {
            return None;
        }
        self.n_snapshots += 1;
        let prefix = snapshot.prefix;
        self.snapshot = Some(snapshot);
        Some(prefix)
    }
}

impl proto::disk::Disk for Platter {
    fn append(&mut self, entry: Entry<'_>) {
        self.logged_bytes += entry.payload.len() as u64;
        self.log.append(entry);
    }

    fn room(&self) -> usize {
        self.log.room()
    }

    fn cut(&mut self, end: Slot) {
        self.log.cut(end);
    }

    fn begin_at(&mut self, slot: Slot) {
        self.log.begin_at(slot);
    }

    fn put_meta(&mut self, meta: &[u8]) {
        self.log.put_meta(meta);
    }

    fn meta(&self) -> &[u8] {
        self.log.meta()
    }

    fn sync(&mut self) -> Flush {
        self.log.sync()
    }

    fn read(&mut self, slot: Slot, into: &mut Vec<u8>) -> Option<EntryHead> {
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
    }
}
