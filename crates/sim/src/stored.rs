//! The released log, on a simulated disk: its recovery decides what a crash leaves.
//!
//! - I1 A process that dies leaves its writer anywhere in its work: batches that were synced and
//!   not reported, and perhaps one whose sync failed, which looks written and is not.
//! - I2 A power cut comes in the middle of what the committer's thread does: any sectors of a
//!   batch, in any order, and any of the names of segments that are given back (the media's I1).
//! - I3 A disk rots only where a later batch, synced too, shows that it was sound: anything else is
//!   outside the fault model. By construction: [`Stored::rot`] picks the place.
//! - I4 Damage is named: the file, and a record of the batch in which the bit flipped. Checked in
//!   [`Stored::revive`].

use crate::Snapshots;
use crate::states::{StateStore, States};
use base::{Rng, Slot};
use proto::disk::{Entry, EntryHead};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use storage::log::{OpenError, Opened, Options, Position, segment};
use storage::media::{
    IgnoresSyncErrors, Simulated, SkipsDirectorySync, SkipsSync, SyncsAfterRename,
};
use storage::{Batch, Damage, Media, WriteError};

/// The kind of a node's disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Store {
    /// A stream of records of which a crash leaves a prefix.
    #[default]
    Model,
    /// The released log.
    Log,
    /// A planted bug: names of files are never made durable.
    LogWithoutDirectorySync,
    /// A planted bug: nothing is made durable.
    LogWithoutSync,
    /// A planted bug: a sync that failed counts as one that did not.
    LogIgnoringSyncErrors,
    /// A planted bug: damage is cut off, with everything after it.
    LogCutAtDamage,
    /// A planted bug, of snapshots alone: their names are never made durable.
    SnapshotsWithoutDirectorySync,
    /// A planted bug: snapshots are synced after they have got their names.
    SnapshotsNamedBeforeSync,
    /// A planted bug: a sync of a snapshot that failed counts as one that did not.
    SnapshotsIgnoringSyncErrors,
    /// The same bug as [`Store::LogIgnoringSyncErrors`], of the stream of records.
    ModelIgnoringSyncErrors,
    /// The same bug as [`Store::LogCutAtDamage`], of the stream of records.
    ModelCutAtDamage,
}

impl Store {
    pub(crate) fn make(self, bug: Snapshots) -> Option<Box<dyn LogStore>> {
        let disk = Simulated::new();
        let log = match self {
            Store::Model | Store::ModelIgnoringSyncErrors | Store::ModelCutAtDamage => return None,
            Store::LogWithoutDirectorySync => return all_on(SkipsDirectorySync, disk, bug),
            Store::LogWithoutSync => return all_on(SkipsSync, disk, bug),
            Store::LogIgnoringSyncErrors => return all_on(IgnoresSyncErrors, disk, bug),
            Store::Log => Stored::new(disk.clone(), disk.clone(), bug),
            Store::LogCutAtDamage => {
                let log = Stored::new(disk.clone(), disk.clone(), bug);
                Stored { cuts_at_damage: true, ..log }
            }
            Store::SnapshotsWithoutDirectorySync => {
                states_on(SkipsDirectorySync(disk.clone()), disk, bug)
            }
            Store::SnapshotsNamedBeforeSync => states_on(SyncsAfterRename(disk.clone()), disk, bug),
            Store::SnapshotsIgnoringSyncErrors => {
                states_on(IgnoresSyncErrors(disk.clone()), disk, bug)
            }
        };
        Some(Box::new(log))
    }
}

/// Log and snapshots with a planted bug of their media.
fn all_on<M: Media + 'static>(
    wrap: impl FnOnce(Simulated) -> M,
    disk: Simulated,
    bug: Snapshots,
) -> Option<Box<dyn LogStore>> {
    Some(Box::new(Stored::new(wrap(disk.clone()), disk, bug)))
}

/// Snapshots with a planted bug of their media, beside a sound log.
fn states_on<M: Media + 'static>(media: M, disk: Simulated, bug: Snapshots) -> Stored<Simulated> {
    let states = Box::new(States::new(media, disk.clone(), LOG, bug));
    Stored { states, ..Stored::new(disk.clone(), disk, bug) }
}

/// The progress of a disk with its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Worked {
    /// Whether everything is durable; otherwise some of it waits for room.
    pub(crate) is_done: bool,
    /// Whether there is room for more.
    pub(crate) has_room: bool,
}

/// The error of a failed sync: the durable part is unknown, and the process has to die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SyncFailed;

/// The reason why no process can start on the remains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// The log says that something that was durable is no longer intact.
    Damaged(String),
    /// Any other reason: a violation.
    Broken(String),
}

/// A log over some media.
pub(crate) trait LogStore {
    fn append(&mut self, entry: Entry<'_>);
    fn cut(&mut self, end: Slot);
    fn begin_at(&mut self, slot: Slot);
    fn free_below(&mut self, slot: Slot);
    fn put_meta(&mut self, meta: &[u8]);
    fn meta(&self) -> &[u8];
    fn ask_sync(&mut self);
    fn read(&mut self, slot: Slot, into: &mut Vec<u8>) -> Option<EntryHead>;
    fn head(&self, slot: Slot) -> Option<EntryHead>;
    fn start(&self) -> Slot;
    fn end(&self) -> Slot;
    /// Makes requests durable, as far as there is room.
    fn work(&mut self) -> Result<Worked, SyncFailed>;
    /// Bounds the room to `n_segments` from now on; `None`: no bound.
    fn confine(&mut self, n_segments: Option<u64>);
    /// Makes the sync after `after` more fail; `None`: no sync fails.
    fn fail_sync(&mut self, after: Option<u64>);
    /// The snapshots beside it.
    fn states(&mut self) -> &mut dyn StateStore;
    /// The snapshots beside it, to read.
    fn states_ref(&self) -> &dyn StateStore;
    /// Flips a bit of durable data; false if no place would show it.
    fn rot(&mut self, rng: &mut Rng) -> bool;
    /// Ends the process; the effect is decided when the next one starts, or by a power cut.
    fn die(&mut self);
    /// Cuts the power.
    fn lose_power(&mut self, rng: &mut Rng);
    /// Starts a process on the remains.
    fn revive(&mut self, rng: &mut Rng) -> Result<(), Unusable>;
}

/// The identity of the log.
const LOG: u64 = 0x73_696d;

fn options() -> Options {
    Options {
        segment_bytes: Options::SEGMENT_MIN,
        cache_bytes: 4 << 10,
        unsynced_bytes: 1 << 20,
        ..Options::default()
    }
}

struct Stored<M: Media> {
    media: M,
    disk: Simulated,
    opened: Option<Opened<M>>,
    states: Box<dyn StateStore>,
    is_dead: bool,
    /// The batch that was taken from the log, and not written for want of room.
    waiting: Option<Arc<Batch>>,
    /// The failure to give a segment back, of which the member has not heard.
    failed_release: Option<WriteError>,
    /// Whether segments are given back when the next batch is written, not when it is asked for.
    is_late: bool,
    /// Whether a sync has failed in this life: its writer is no longer usable.
    has_failed: bool,
    /// The ends of the last batches that this life has made durable.
    ends: VecDeque<Position>,
    cuts_at_damage: bool,
    /// The file in which a bit flipped, and the begin and end of the batch around it.
    rotten: Option<(String, Range<u64>)>,
}

/// The number of batches that are remembered, for I3.
const N_ENDS: usize = 64;

/// The number of operations within which a power cut falls: a batch takes two, a new segment about
/// twenty.
const OPERATIONS: u64 = 12;

impl<M: Media + 'static> Stored<M> {
    fn new(media: M, disk: Simulated, bug: Snapshots) -> Stored<M> {
        let opened = storage::log::open(&media, &options(), LOG).expect("an empty disk is sound");
        Stored {
            states: Box::new(States::new(media.clone(), disk.clone(), LOG, bug)),
            media,
            disk,
            opened: Some(opened),
            is_dead: false,
            waiting: None,
            failed_release: None,
            is_late: false,
            has_failed: false,
            ends: VecDeque::new(),
            cuts_at_damage: false,
            rotten: None,
        }
    }

    fn opened(&self) -> &Opened<M> {
        self.opened.as_ref().expect("only the living look at their log")
    }

    fn opened_mut(&mut self) -> &mut Opened<M> {
        self.opened.as_mut().expect("only the living look at their log")
    }

    /// Ends the life. Returns the batch that its writer still had, and the log.
    fn end_of_life(&mut self) -> Option<(Opened<M>, Option<Arc<Batch>>)> {
        self.ends.clear();
        let waiting = self.waiting.take();
        self.failed_release = None;
        let opened = self.opened.take();
        let has_failed = std::mem::take(&mut self.has_failed);
        opened.filter(|_| !has_failed).map(|opened| (opened, waiting))
    }

    /// I1.
    fn end_of_process(&mut self, rng: &mut Rng) {
        if let Some((Opened { mut log, mut writer, .. }, mut waiting)) = self.end_of_life() {
            let fails_after = rng.chance(1, 2).then(|| rng.below(3));
            self.disk.set_faults(|faults| faults.fail_sync_after = fails_after);
            let mut n_left = rng.below(4);
            while let Some(batch) = waiting.take().or_else(|| log.take()).filter(|_| n_left > 0) {
                n_left -= 1;
                if writer.write(&batch).is_err() {
                    break;
                }
            }
            self.disk.set_faults(|faults| faults.fail_sync_after = None);
        }
        if self.states.is_writing() {
            self.states.die(rng.below(4));
        }
        self.disk.process_crash();
    }

    fn is_where_it_rotted(&self, damage: &Damage) -> bool {
        let is_named = |rotten: &(String, Range<u64>)| {
            rotten.0 == damage.file && rotten.1.contains(&damage.offset)
        };
        self.rotten.as_ref().is_some_and(is_named)
    }

    /// Cuts everything from the damage on, as if it had been torn: the planted bug.
    fn cut_at(&self, damage: &Damage) -> std::io::Result<()> {
        for name in self.disk.list()? {
            if name > damage.file && name.starts_with("log-") {
                self.disk.remove(&name)?;
            }
        }
        let file = self.disk.open(&damage.file)?;
        let n_zeros = self.disk.len(&file)? - damage.offset;
        self.disk.write_at(&file, damage.offset, &vec![0; n_zeros as usize])?;
        self.disk.sync(&file)?;
        self.disk.sync_dir()
    }
}

fn head_of(head: storage::EntryHead) -> EntryHead {
    let storage::EntryHead { slot, ballot, view } = head;
    EntryHead { slot, ballot, view }
}

impl<M: Media + 'static> LogStore for Stored<M> {
    fn append(&mut self, entry: Entry<'_>) {
        let EntryHead { slot, ballot, view } = entry.head;
        let appended = self.opened_mut().log.append(slot, ballot, view, entry.payload);
        appended.expect("a window is far below what may wait for the disk");
    }

    fn cut(&mut self, end: Slot) {
        self.opened_mut().log.cut(end);
    }

    fn begin_at(&mut self, slot: Slot) {
        self.opened_mut().log.begin_at(slot);
    }

    fn free_below(&mut self, slot: Slot) {
        self.opened_mut().log.free_below(slot);
    }

    fn put_meta(&mut self, meta: &[u8]) {
        self.opened_mut().log.put_meta(meta);
    }

    fn meta(&self) -> &[u8] {
        self.opened().log.meta()
    }

    fn ask_sync(&mut self) {
        self.opened_mut().log.sync();
        // The committer gives segments back before it writes what comes now: at once, or so late
        // that a power cut finds it at that.
        self.is_late = !self.is_late;
        if self.failed_release.is_none() && !self.is_late {
            self.failed_release = self.give_back().err();
        }
    }

    fn read(&mut self, slot: Slot, into: &mut Vec<u8>) -> Option<EntryHead> {
        self.opened_mut()
            .log
            .read(slot, into)
            .expect("a disk rots when its process dies")
            .map(head_of)
    }

    fn head(&self, slot: Slot) -> Option<EntryHead> {
        self.opened().log.head(slot).map(head_of)
    }

    fn start(&self) -> Slot {
        self.opened().log.start()
    }

    fn end(&self) -> Slot {
        self.opened().log.end()
    }

    fn work(&mut self) -> Result<Worked, SyncFailed> {
        assert!(!self.has_failed, "nothing is asked of a disk after a failed sync");
        let worked = self.try_to_work();
        self.has_failed = worked.is_err();
        worked.map_err(|_| SyncFailed)
    }

    fn confine(&mut self, n_segments: Option<u64>) {
        let used = self.disk.used();
        let room = |n| n * u64::from(Options::SEGMENT_MIN);
        self.disk.set_faults(|faults| faults.capacity = n_segments.map(|n| used + room(n)));
    }

    fn fail_sync(&mut self, after: Option<u64>) {
        self.disk.set_faults(|faults| faults.fail_sync_after = after);
    }

    fn states(&mut self) -> &mut dyn StateStore {
        &mut *self.states
    }

    fn states_ref(&self) -> &dyn StateStore {
        &*self.states
    }

    fn rot(&mut self, rng: &mut Rng) -> bool {
        // I3: the middle one of three batches that were synced in turn, if one file holds it whole.
        let Some(at) = (self.ends.len() as u64).checked_sub(2).filter(|n| *n > 0) else {
            return false;
        };
        let at = rng.below(at) as usize;
        let (from, to) = (self.ends[at], self.ends[at + 1]);
        if from.segment() != to.segment() {
            return false;
        }
        let name = segment::name(from.segment());
        let batch = u64::from(from.offset())..u64::from(to.offset());
        let byte = batch.start + rng.below(batch.end - batch.start);
        let flips = self.disk.flip(&name, 8 * byte + rng.below(8));
        self.rotten = flips.then_some((name, batch)).or(self.rotten.take());
        flips
    }

    fn die(&mut self) {
        self.is_dead = true;
    }

    fn lose_power(&mut self, rng: &mut Rng) {
        self.disk.set_faults(|faults| faults.fail_sync_after = None);
        let works = self.opened.is_some() && !self.has_failed && self.failed_release.is_none();
        let writes_state = self.states.is_writing();
        if writes_state || works {
            // I2.
            let after = rng.below(OPERATIONS);
            self.disk.set_faults(|faults| faults.cut_after = Some(after));
        }
        // There are two threads: the power may fail during either's work.
        let is_state_first = writes_state && rng.chance(1, 2);
        if is_state_first {
            self.states.die(OPERATIONS);
        }
        if works {
            let _is_cut_off = self.try_to_work();
        }
        let _gone = self.end_of_life();
        if writes_state && !is_state_first {
            self.states.die(OPERATIONS);
        }
        self.disk.power_cut(rng);
    }

    fn revive(&mut self, rng: &mut Rng) -> Result<(), Unusable> {
        if std::mem::take(&mut self.is_dead) {
            self.end_of_process(rng);
        }
        if self.opened.is_some() {
            return Ok(());
        }
        // (The fault is one of a sync under load: it ends with the process.)
        self.fail_sync(None);
        let mut opened = storage::log::open(&self.media, &options(), LOG);
        if self.cuts_at_damage
            && let Err(OpenError::Damaged(damage)) = &opened
        {
            self.cut_at(damage).expect("this disk works");
            opened = storage::log::open(&self.media, &options(), LOG);
        }
        self.opened = Some(opened.map_err(|error| match error {
            // I4
            OpenError::Damaged(damage) if !self.is_where_it_rotted(&damage) => {
                Unusable::Broken(format!("{damage}; but {:?} rotted", self.rotten))
            }
            OpenError::Damaged(damage) => Unusable::Damaged(damage.to_string()),
            error @ (OpenError::Io { .. } | OpenError::Options(_)) => {
                Unusable::Broken(error.to_string())
            }
        })?);
        Ok(())
    }
}

impl<M: Media> Stored<M> {
    /// Gives back the segments that the log no longer needs.
    fn give_back(&mut self) -> Result<(), WriteError> {
        let Opened { log, writer, .. } = self.opened.as_mut().expect("only the living work");
        if let Some(oldest) = log.take_release() {
            while writer.release(oldest)? {}
        }
        Ok(())
    }

    /// Works as the committer's thread does.
    fn try_to_work(&mut self) -> Result<Worked, WriteError> {
        self.failed_release.take().map_or(Ok(()), Err)?;
        self.give_back()?;
        let Opened { log, writer, .. } = self.opened.as_mut().expect("only the living work");
        let is_full = |error: &WriteError| matches!(error, WriteError::Full { .. });
        while let Some(batch) = self.waiting.take().or_else(|| log.take()) {
            match writer.write(&batch) {
                Ok(()) => {}
                Err(error) if is_full(&error) => {
                    self.waiting = Some(batch);
                    return Ok(Worked { is_done: false, has_room: false });
                }
                Err(error) => return Err(error),
            }
            log.done(batch.end());
            if self.ends.len() == N_ENDS {
                self.ends.pop_front();
            }
            self.ends.push_back(batch.end());
        }
        log.flushed();
        self.give_back()?;
        let Opened { writer, .. } = self.opened.as_mut().expect("only the living work");
        if writer.wants_preparation() {
            match writer.prepare() {
                Ok(_) => {}
                Err(error) if is_full(&error) => {
                    return Ok(Worked { is_done: true, has_room: false });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Worked { is_done: true, has_room: true })
    }
}
