//! A member's stable storage, as its machine sees it: the log in its directory, the thread that
//! syncs it, and snapshots of the state.
//!
//! - I1 the loop never waits for the disk: records are laid out in memory and handed to a thread,
//!   which rings when they became durable; a snapshot is written by a thread of its own. By
//!   construction (S1 of `engine::StableStorage`).
//! - I2 log entries are freed only when a snapshot that covers them is durable. By construction:
//!   the engine's `mind_disk` tells the machine of a snapshot after its file has its name.
//! - I3 a disk that failed ends the replica, since its content is then unknown. The same holds for
//!   damage found while reading, and for an entry that the system does not give; the text names
//!   the remedy. [`LogDisk::failure`].
//! - I4 the bytes that wait for the disk are bounded: no entry is longer than [`LogDisk::room`]
//!   allows (D4 of `proto::disk`). Asserted in `LogDisk::append`.
//! - I5 a failed snapshot is begun again after a growing pause, and is reported once. So what was
//!   logged before it counts again: by [`LogDisk::snapshotted`]. The pause is long beside the time
//!   that the attempt took: a state that does not fit fills the disk a small part of the time. One
//!   that the machine waits for is begun again after ten seconds, whatever the attempt took.

use crate::saving::{End, Writing};
use base::{Instant, Prefix, Slot};
use engine::{DiskFigures, StableStorage};
use proto::disk::{Disk, DiskEvent, Entry, EntryHead, Flush};
use proto::members::StateHead;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use storage::log::{Options, Position};
use storage::media::{Media, Os};
use storage::snapshot::{self, PassedOver, Snapshot, SnapshotError};
use storage::{Committer, Directory, Log, Report};

#[cfg(test)]
mod tests;

/// The bytes of the log on its volume since the last snapshot after which the next one is taken,
/// unless that one was larger: then as many bytes as it had. Small entries take far more bytes
/// there than they have. A volume without room wants one sooner.
pub const SNAPSHOT_LOG_BYTES: u64 = 64 << 20;
/// The bytes that the log reserves for records that always fit: an empty entry (D4), and metas.
const ALWAYS_FITS_BYTES: usize = 1 << 20;
/// The interval at which a sync under way is checked.
const STALL_LOOK: Duration = Duration::from_millis(100);
/// The first pause of I5, and the longest.
const SNAPSHOT_PAUSE: Duration = Duration::from_millis(100);
const SNAPSHOT_PAUSE_MAX: Duration = Duration::from_secs(10);
/// The pause behind an attempt that took long, in times that it took, and the longest one.
const SNAPSHOT_PAUSE_TIMES: u32 = 16;
const SNAPSHOT_PAUSE_TIMES_MAX: Duration = Duration::from_secs(600);

/// The reason why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The log cannot be opened.
    #[error(transparent)]
    Log(#[from] storage::log::OpenError),
    /// A snapshot cannot be read.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// Damage was found while reading.
    #[error(transparent)]
    Damage(#[from] storage::Damage),
    /// The kernel reports an error.
    #[error("{what}: {error}")]
    Os {
        /// The operation.
        what: &'static str,
        /// The error.
        error: io::Error,
    },
}

/// The bell that rings when the disk has news.
#[derive(Debug)]
struct Bell(OwnedFd);

impl Bell {
    fn ring(&self) {
        // A full counter rings already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

/// The reason why the last snapshot failed, and the time from which the next may begin (I5).
#[derive(Debug)]
struct NoSnapshot {
    why: String,
    /// The time of the failure.
    at: Instant,
    pause: Duration,
    until: Instant,
}

/// The troubles of a disk, each by itself: one may end while the other lasts.
#[derive(Debug, Default)]
struct Troubles {
    full: Option<String>,
    stalled: Option<String>,
    /// The last one that began.
    last: Option<String>,
    /// The number of those that began.
    n: u64,
}

impl Troubles {
    fn note(&mut self, report: Report, media: &Os) -> DiskEvent {
        match report {
            Report::Synced(flush) => DiskEvent::Synced(Flush(flush.0)),
            Report::Full(why) => {
                self.full = Some(self.counted(why));
                DiskEvent::Full
            }
            Report::Room => {
                self.full = None;
                DiskEvent::Room
            }
            Report::Stalled => {
                let why = format!("{} takes long to sync", media.place());
                self.stalled = Some(self.counted(why));
                DiskEvent::Stalled
            }
            Report::Flowing => {
                self.stalled = None;
                DiskEvent::Flowing
            }
        }
    }

    fn counted(&mut self, why: String) -> String {
        self.n += 1;
        self.last = Some(why.clone());
        why
    }

    /// The one that an operator can end, if there are both.
    fn present(&self) -> Option<&str> {
        self.full.as_deref().or(self.stalled.as_deref())
    }
}

/// A member's stable storage; see the module's text.
#[derive(Debug)]
pub struct LogDisk {
    log: Log<Os>,
    committer: Committer,
    bell: Arc<Bell>,
    /// The directory, which holds the lock.
    directory: Directory,
    reports: Vec<Report>,
    failure: Option<String>,
    troubles: Troubles,
    /// The end of the log when the last snapshot began that has not failed.
    covered: Position,
    /// The same of the one before it.
    covered_before: Position,
    /// The time at which the last snapshot began.
    begun_at: Instant,
    snapshot_bytes: u64,
    /// The operator's volume of log between snapshots, instead of the usual rule.
    snapshot_log_bytes: Option<u64>,
    /// The snapshots that this life did not begin from though they are newer.
    passed_over: PassedOver,
    writing: Option<Writing>,
    no_snapshot: Option<NoSnapshot>,
    /// The number of reported failures (I5).
    n_said: u64,
    /// The number of snapshots written.
    n_snapshots: u64,
}

/// A state found on the disk.
#[derive(Debug)]
pub struct Found {
    /// The prefix that it covers.
    pub prefix: Prefix,
    /// The pieces of the state, one behind the other.
    pub state: Vec<u8>,
    /// The head that was written with it. Snapshots of earlier versions have none.
    pub head: Option<StateHead>,
}

impl LogDisk {
    /// Opens the log and snapshots of a directory; returns the newest snapshot with them.
    ///
    /// # Errors
    /// [`OpenError`]: damage is named and nothing is changed.
    pub fn open(directory: Directory) -> Result<(LogDisk, Option<Found>), OpenError> {
        let media = directory.media().clone();
        let failed = |what| move |error: io::Error| OpenError::Os { what, error };
        snapshot::clear(&media).map_err(failed("remove an unfinished snapshot"))?;
        let opened = storage::log::open(&media, &Options::default(), directory.log())?;
        if let Some(torn) = &opened.torn {
            crate::complain(format_args!(
                "{}/{}: a torn end was cut at byte {} (slot {}): {}",
                media.place(),
                torn.file,
                torn.offset,
                torn.slot.0,
                torn.why
            ));
        }
        let (found, passed_over) = newest(&media, directory.log())?;
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|errno| {
            OpenError::Os { what: "make an event descriptor", error: errno.into() }
        })?;
        let bell = Arc::new(Bell(fd));
        let ring = Arc::clone(&bell);
        let committer = Committer::start(opened.writer, move || ring.ring())
            .map_err(failed("start the thread that syncs"))?;
        let first = opened.log.start();
        let behind = found.as_ref().map_or(first, |found| found.prefix.next_slot().max(first));
        let covered = opened.log.position(behind);
        let disk = LogDisk {
            covered,
            covered_before: covered,
            begun_at: Instant(0),
            log: opened.log,
            committer,
            bell,
            directory,
            reports: Vec::new(),
            failure: None,
            troubles: Troubles::default(),
            snapshot_bytes: found.as_ref().map_or(0, |found| found.state.len() as u64),
            snapshot_log_bytes: None,
            passed_over,
            writing: None,
            no_snapshot: None,
            n_said: 0,
            n_snapshots: 0,
        };
        Ok((disk, found))
    }

    /// Takes a snapshot whenever this much was logged, however large the state is: to measure the
    /// cost of snapshots, or to have none.
    pub fn snapshot_every(&mut self, log_bytes: u64) {
        self.snapshot_log_bytes = Some(log_bytes);
    }

    /// Whether nothing was ever stored here.
    pub fn is_empty(&self) -> bool {
        self.log.meta().is_empty() && self.log.end() == Slot::ZERO
    }

    /// Readable when [`LogDisk::pump`] may have news.
    pub fn wait_fd(&self) -> BorrowedFd<'_> {
        self.bell.0.as_fd()
    }

    /// The present trouble of the disk.
    pub fn trouble(&self) -> Option<&str> {
        self.troubles.present()
    }

    /// The reason why the last snapshot failed, until one succeeds.
    pub fn no_snapshot(&self) -> Option<&str> {
        self.no_snapshot.as_ref().map(|of| of.why.as_str())
    }

    /// The path of the directory.
    pub fn place(&self) -> String {
        self.directory.media().place()
    }

    /// The number of snapshots that this life has written.
    pub fn n_snapshots(&self) -> u64 {
        self.n_snapshots
    }

    /// Notes the failure of an attempt that took so long.
    fn is_without_snapshot(&mut self, why: String, took: Duration, now: Instant) {
        let why = format!("no snapshot: {why}");
        let before = self.no_snapshot.take();
        if before.is_none() {
            self.n_said += 1;
            crate::complain(format_args!("{why}; the log is kept until one succeeds"));
        }
        let pause = before.map_or(SNAPSHOT_PAUSE, |of| SNAPSHOT_PAUSE_MAX.min(of.pause * 2));
        let by_took = took.saturating_mul(SNAPSHOT_PAUSE_TIMES).min(SNAPSHOT_PAUSE_TIMES_MAX);
        let pause = pause.max(by_took);
        self.no_snapshot = Some(NoSnapshot { why, at: now, pause, until: now.plus(pause) });
    }
}

impl StableStorage for LogDisk {
    fn pump(&mut self, now: Instant, mut tell: impl FnMut(DiskEvent)) {
        if self.failure.is_some() {
            return;
        }
        let mut rings = [0; 8];
        let _ = rustix::io::read(&self.bell.0, &mut rings); // empty: nothing rang
        if let Err(fatal) = self.committer.pump(&mut self.log, now, &mut self.reports) {
            self.failure = Some(fatal.to_string());
            return;
        }
        let mut reports = std::mem::take(&mut self.reports);
        for report in reports.drain(..) {
            tell(self.troubles.note(report, self.directory.media()));
        }
        self.reports = reports;
    }

    fn look_within(&self) -> Option<Duration> {
        if self.failure.is_some() {
            return Some(Duration::ZERO);
        }
        (self.committer.n_in_flight() > 0).then_some(STALL_LOOK)
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    fn figures(&self) -> DiskFigures {
        DiskFigures {
            place: self.place(),
            log_start: self.log.start().0,
            log_end: self.log.end().0,
            logged_bytes: self.log.n_bytes_from(self.covered),
            snapshots: self.n_snapshots,
            no_snapshot: self.no_snapshot().map(str::to_owned),
            trouble: self.trouble().map(str::to_owned),
            last_trouble: self.troubles.last.clone(),
            troubles: self.troubles.n,
        }
    }

    fn wants_snapshot(&self) -> bool {
        let most = self.snapshot_log_bytes.unwrap_or(SNAPSHOT_LOG_BYTES.max(self.snapshot_bytes));
        let is_much = self.log.n_bytes_from(self.covered) >= most;
        // Without room nothing is logged that could become much; a snapshot may give some back.
        let gives_room = self.covered.segment() < self.log.tail().segment();
        let is_full = self.troubles.full.is_some() && gives_room;
        self.writing.is_none() && self.failure.is_none() && (is_much || is_full)
    }

    fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    fn begin_snapshot(&mut self, prefix: Prefix, head: Option<StateHead>, now: Instant) -> bool {
        assert!(self.writing.is_none(), "one at a time");
        if self.snapshot_pause(now).is_some_and(|pause| !pause.is_zero()) {
            return false;
        }
        let (media, log) = (self.directory.media().clone(), self.directory.log());
        let bell = Arc::clone(&self.bell);
        let note = head.map_or(Vec::new(), |head| head.encode().to_vec());
        let passed_over = self.passed_over.clone();
        match Writing::begin(media, passed_over, log, prefix, note, move || bell.ring()) {
            Ok(writing) => {
                self.writing = Some(writing);
                self.covered_before = std::mem::replace(&mut self.covered, self.log.tail());
                self.begun_at = now;
                true
            }
            Err(error) => {
                let why = format!("no thread to write it: {error}");
                self.is_without_snapshot(why, Duration::ZERO, now);
                false
            }
        }
    }

    fn hurry_snapshot(&mut self) {
        if let Some(of) = &mut self.no_snapshot {
            of.until = of.until.min(of.at.plus(SNAPSHOT_PAUSE_MAX));
        }
    }

    fn snapshot_pause(&self, now: Instant) -> Option<Duration> {
        self.no_snapshot.as_ref().map(|of| of.until.since(now))
    }

    fn wants_piece(&self) -> bool {
        self.writing.as_ref().is_some_and(Writing::has_room)
    }

    fn snapshot_piece(&mut self, bytes: Vec<u8>, is_last: bool) {
        let Some(writing) = &mut self.writing else { return };
        writing.piece(bytes);
        if is_last {
            self.snapshot_bytes = writing.end();
        }
    }

    fn give_up_snapshot(&mut self) {
        if let Some(writing) = &mut self.writing {
            writing.give_up();
        }
    }

    fn snapshotted(&mut self, now: Instant) -> Option<Prefix> {
        let end = self.writing.as_mut()?.outcome()?;
        self.writing = None;
        if !matches!(end, End::Written(_)) {
            self.covered = self.covered_before;
        }
        match end {
            End::Written(prefix) => {
                self.n_snapshots += 1;
                self.no_snapshot = None;
                self.passed_over.written(Slot(prefix.0));
                Some(prefix)
            }
            End::GivenUp => None,
            End::Failed(why) => {
                self.is_without_snapshot(why, now.since(self.begun_at), now);
                None
            }
        }
    }
}

/// The newest whole state of this log, and the snapshots before which it was taken. With an older
/// one, or without any, the machine finds that the log does not reach back to it, and asks the
/// others. That holds for a snapshot that the disk does not give as for a damaged one.
pub(crate) fn newest<M: Media>(
    media: &M,
    log: u64,
) -> Result<(Option<Found>, PassedOver), OpenError> {
    let mut passed_over = PassedOver::default();
    let failed = |error| OpenError::Os { what: "list the snapshots", error };
    for slot in snapshot::list(media).map_err(failed)?.into_iter().rev() {
        match read(media, log, slot) {
            Ok((state, head)) => {
                let found = Found { prefix: Prefix(slot.0), state, head };
                return Ok((Some(found), passed_over));
            }
            Err(error @ SnapshotError::Damaged { .. }) => {
                crate::complain(format_args!("{error}"));
                passed_over.damaged.push(slot);
            }
            Err(error) if error.is_unread() => {
                crate::complain(format_args!(
                    "{error}. The file is kept, and an older snapshot or another member's state \
                     is used"
                ));
                passed_over.unread.push(slot);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok((None, passed_over))
}

fn read<M: Media>(
    media: &M,
    log: u64,
    slot: Slot,
) -> Result<(Vec<u8>, Option<StateHead>), SnapshotError> {
    let file = Snapshot::open(media, slot)?;
    file.check_log(log)?;
    file.verify()?;
    let mut state = Vec::with_capacity(usize::try_from(file.n_bytes()).unwrap_or(0));
    for chunk in 0..file.n_chunks() {
        file.read_chunk(chunk, &mut state)?;
    }
    Ok((state, StateHead::decode(file.note())))
}

pub(crate) fn head_of(head: storage::EntryHead) -> EntryHead {
    let storage::EntryHead { slot, ballot, view } = head;
    EntryHead { slot, ballot, view }
}

impl Disk for LogDisk {
    fn append(&mut self, entry: Entry<'_>) {
        let EntryHead { slot, ballot, view } = entry.head;
        self.log
            .append(slot, ballot, view, entry.payload)
            .expect("I4, D4: no more is appended than may wait for the disk");
    }

    fn room(&self) -> usize {
        let most = self.log.options().unsynced_bytes - ALWAYS_FITS_BYTES;
        most.saturating_sub(self.log.n_unsynced())
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
        Flush(self.log.sync().0)
    }

    fn read(&mut self, slot: Slot, into: &mut Vec<u8>) -> Option<EntryHead> {
        match self.log.read(slot, into) {
            Ok(head) => head.map(head_of),
            Err(error) => {
                into.clear();
                self.failure.get_or_insert(error.to_string());
                None
            }
        }
    }

    fn head(&self, slot: Slot) -> Option<EntryHead> {
        self.log.head(slot).map(head_of)
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
