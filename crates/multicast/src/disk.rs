//! The records that a node writes to its disk, and the output that waits for them.
//!
//! ```text
//! entry = 0 | is last | a piece of: disks | members: group, changes    the changes of one turn
//!       | 1 | is first | is last | a piece of a whole                    everything, sometimes
//! whole = lives | disks | members: group, state, the application's state
//! ```
//! - K1 All groups of a node share one log, written by one committer: one sync covers the changes
//!   of all turns during the sync before it.
//! - K2 The sends and deliveries of a turn are released when the entry of that turn, and hence of
//!   every earlier one, is synced. Messages between members of one node do not wait: the receiver's
//!   entry stands later in the same log. Deliveries: asserted in [`Journal::hand`], which the node
//!   calls before it hands them over.
//! - K3 Changes behind the first piece of a whole continue from it; the log is freed below a whole
//!   when its last piece is synced. So the log always holds a whole, and all changes since.
//! - K4 The bytes that wait for the disk are bounded ([`Journal::is_behind`]): the node then takes
//!   nothing more from its peers or its application.

use crate::desk::MemberView;
use crate::stream::Marks;
use base::{Ballot, Instant, MAX_MEMBERS, Slot};
use proto::amcast::GroupId;
use proto::amcast::wire::{Malformed, Reader, number};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use storage::log::Options;
use storage::media::{Media, Os};
use storage::{Committer, Directory, Flush, Identity, Log, Report};

const CHANGES: u8 = 0;
const PIECE: u8 = 1;
/// The longest piece of a whole, and of an entry of changes.
const PIECE_BYTES: usize = 1 << 20;
/// The bound of K4.
const BEHIND_BYTES: usize = 16 << 20;
/// The interval at which a sync under way is checked.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The time for the first whole of a life.
const BEGIN_PATIENCE: Duration = Duration::from_secs(60);

/// The output of a turn that waits for a flush.
#[derive(Debug)]
struct Turn {
    flush: Flush,
    held: Held,
}

/// The output of a turn, which may leave when the turn is synced (K2).
#[derive(Debug, Clone)]
pub(crate) struct Held {
    /// The bound to which each stream may leave.
    pub(crate) marks: Marks,
    /// The number of all deliveries ever that may be handed over.
    pub(crate) n_delivered: u64,
    /// The states of the members.
    pub(crate) views: Vec<MemberView>,
}

/// One member as it was written to the disk.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) group: usize,
    pub(crate) stable: Vec<u8>,
    pub(crate) app: Vec<u8>,
    pub(crate) changes: Vec<Vec<u8>>,
}

/// Everything that an earlier life wrote.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) lives: u64,
    pub(crate) disks: [u64; MAX_MEMBERS],
    pub(crate) members: Vec<Kept>,
}

/// A whole that is being written.
#[derive(Debug)]
struct Whole {
    bytes: Vec<u8>,
    at: usize,
    begins: Slot,
    /// The flush for which its last piece waits.
    ends: Option<Flush>,
}

/// A node's stable storage; see the module's text.
#[derive(Debug)]
pub(crate) struct Journal {
    log: Log<Os>,
    committer: Committer,
    bell: Arc<OwnedFd>,
    reports: Vec<Report>,
    turns: VecDeque<Turn>,
    /// The number of all deliveries ever that wait for no sync (K2).
    n_free: u64,
    last_flush: Option<Flush>,
    whole: Option<Whole>,
    whole_bytes: u64,
    changed_bytes: u64,
    snapshot_bytes: u64,
    entry: Vec<u8>,
    turn: Vec<u8>,
    directory: Directory,
}

fn failed(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

impl Journal {
    /// Opens the directory that this node began, or begins it. Returns what an earlier life wrote;
    /// nothing, if that life died before any other node heard of it. A whole is written after
    /// `snapshot_bytes` of changes.
    pub(crate) fn open(
        path: &Path,
        identity: &Identity,
        begins: bool,
        snapshot_bytes: u64,
    ) -> io::Result<(Journal, Option<Found>)> {
        let directory = match begins {
            true => Directory::create(path, identity),
            false => Directory::open(path, identity),
        };
        let directory = directory.map_err(failed)?;
        let opened = storage::log::open(directory.media(), &Options::default(), directory.log());
        let mut opened = opened.map_err(failed)?;
        let found = read(&mut opened.log)?;
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let ring = Arc::clone(&bell);
        let committer = Committer::start(opened.writer, move || {
            // A full counter rings already.
            let _rings = rustix::io::write(&ring, &1u64.to_ne_bytes());
        })?;
        let journal = Journal {
            log: opened.log,
            committer,
            bell,
            reports: Vec::new(),
            turns: VecDeque::new(),
            n_free: 0,
            last_flush: None,
            whole: None,
            whole_bytes: 0,
            changed_bytes: 0,
            snapshot_bytes,
            entry: Vec::new(),
            turn: Vec::new(),
            directory,
        };
        Ok((journal, found))
    }

    /// The name of the disk: another directory has another one.
    pub(crate) fn disk(&self) -> u64 {
        self.directory.log().max(1)
    }

    /// Readable when [`Journal::pump`] may have news.
    pub(crate) fn wait_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Whether too much waits for the disk (K4).
    pub(crate) fn is_behind(&self) -> bool {
        let waits = self.whole.as_ref().map_or(0, |whole| whole.bytes.len() - whole.at);
        self.log.n_unsynced() > BEHIND_BYTES && waits == 0
            || self.log.n_unsynced() > 2 * BEHIND_BYTES
    }

    /// The time after which [`Journal::pump`] has to check even without a ring.
    pub(crate) fn look_within(&self) -> Option<Duration> {
        (self.committer.n_in_flight() > 0).then_some(LOOK_EVERY)
    }

    fn append(&mut self) -> io::Result<()> {
        let (slot, bytes) = (self.log.end(), self.entry.len() as u64);
        self.changed_bytes += bytes;
        self.log.append(slot, Ballot::NONE, 0, &self.entry).map_err(failed)
    }

    /// Writes the changes of a turn, if there are any; `held` waits for them (K2). Returns false if
    /// nothing was changed and nothing waits: then `held` may leave at once.
    pub(crate) fn keep(
        &mut self,
        disks: &[u64; MAX_MEMBERS],
        changes: &[(GroupId, Vec<u8>)],
        held: impl FnOnce() -> Option<Held>,
    ) -> io::Result<bool> {
        let is_changed = !changes.is_empty();
        if is_changed {
            self.turn.clear();
            put_disks(disks, &mut self.turn);
            for (group, bytes) in changes {
                self.turn.push(group.index() as u8);
                number(bytes.len() as u64, &mut self.turn);
                self.turn.extend_from_slice(bytes);
            }
            let turn = std::mem::take(&mut self.turn);
            let n_pieces = turn.len().div_ceil(PIECE_BYTES);
            for (at, piece) in turn.chunks(PIECE_BYTES).enumerate() {
                self.entry.clear();
                self.entry.extend_from_slice(&[CHANGES, u8::from(at + 1 == n_pieces)]);
                self.entry.extend_from_slice(piece);
                self.append()?;
                self.make_room()?;
            }
            self.turn = turn;
            // The sync covers all groups, and everything else that waits by the time the disk is
            // free (K1).
            self.last_flush = Some(self.log.sync());
        }
        let Some(flush) = self.last_flush.filter(|_| is_changed || !self.turns.is_empty()) else {
            return Ok(false);
        };
        if let Some(held) = held() {
            match self.turns.back_mut() {
                // The output after the last change waits for the same sync.
                Some(last) if last.flush == flush => last.held = held,
                _ => self.turns.push_back(Turn { flush, held }),
            }
        }
        Ok(true)
    }

    /// Whether it is time for a whole (K3).
    pub(crate) fn wants_whole(&self) -> bool {
        self.whole.is_none() && self.changed_bytes > self.snapshot_bytes.max(2 * self.whole_bytes)
    }

    /// Begins to write everything: later changes continue from here.
    pub(crate) fn begin_whole(&mut self, found: &Found) {
        let mut bytes = Vec::new();
        number(found.lives, &mut bytes);
        put_disks(&found.disks, &mut bytes);
        for kept in &found.members {
            bytes.push(kept.group as u8);
            for part in [&kept.stable, &kept.app] {
                number(part.len() as u64, &mut bytes);
                bytes.extend_from_slice(part);
            }
        }
        (self.whole_bytes, self.changed_bytes) = (bytes.len() as u64, 0);
        self.whole = Some(Whole { bytes, at: 0, begins: self.log.end(), ends: None });
        // Its first piece marks the place: no change comes before it.
        let _more = self.write_piece();
    }

    /// The next piece, if there is room.
    fn write_piece(&mut self) -> io::Result<bool> {
        let Some(whole) = &mut self.whole else { return Ok(false) };
        let is_first = whole.at == 0;
        if whole.ends.is_some() || !is_first && self.log.n_unsynced() > BEHIND_BYTES {
            return Ok(false);
        }
        let end = (whole.at + PIECE_BYTES).min(whole.bytes.len());
        let is_last = end == whole.bytes.len();
        self.entry.clear();
        self.entry.extend_from_slice(&[PIECE, u8::from(is_first), u8::from(is_last)]);
        self.entry.extend_from_slice(&whole.bytes[whole.at..end]);
        whole.at = end;
        let (slot, entry) = (self.log.end(), &self.entry);
        self.log.append(slot, Ballot::NONE, 0, entry).map_err(failed)?;
        let flush = self.log.sync();
        whole.ends = is_last.then_some(flush);
        if let Some(whole) = self.whole.as_mut().filter(|_| is_last) {
            whole.bytes = Vec::new();
            whole.at = 0;
        }
        Ok(true)
    }

    /// Hands records to the committer, and learns what is synced. Returns the newest output that
    /// may leave since.
    pub(crate) fn pump(&mut self, now: Instant) -> io::Result<Option<Held>> {
        let mut count = [0; 8];
        let _rings = rustix::io::read(&self.bell, &mut count); // empty: nothing rang
        while self.write_piece()? {}
        self.committer.pump(&mut self.log, now, &mut self.reports).map_err(failed)?;
        let mut released = None;
        for report in self.reports.drain(..) {
            match report {
                Report::Synced(flush) => {
                    while let Some(turn) = self.turns.pop_front_if(|turn| turn.flush <= flush) {
                        self.n_free = turn.held.n_delivered;
                        released = Some(turn.held);
                    }
                    let is_whole = |whole: &mut Whole| whole.ends.is_some_and(|end| end <= flush);
                    if let Some(whole) = self.whole.take_if(is_whole) {
                        // K3.
                        self.log.free_below(whole.begins);
                    }
                }
                Report::Full(why) => eprintln!("gregale: {why}: nothing is said until it has room"),
                Report::Room => eprintln!("gregale: the disk has room again"),
                Report::Stalled | Report::Flowing => {}
            }
        }
        Ok(released)
    }

    /// Notes that all deliveries up to the `n`th ever are handed to the application now.
    pub(crate) fn hand(&mut self, n: u64) {
        let is_free = self.turns.is_empty() || n <= self.n_free;
        assert!(is_free, "K2: delivery {n} is handed over before its sync");
        self.n_free = self.n_free.max(n);
    }

    /// Waits for room: a turn may change more than may wait for the disk at once, since a log that
    /// is replaced is written whole (K4). Output that is released meanwhile is released with that
    /// turn.
    fn make_room(&mut self) -> io::Result<()> {
        if self.log.n_unsynced() <= BEHIND_BYTES {
            return Ok(());
        }
        self.last_flush = Some(self.log.sync());
        self.wait_until(|journal| journal.log.n_unsynced() <= BEHIND_BYTES)
    }

    /// Waits until everything so far is synced: before a life begins, and any other node knows of
    /// it.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.wait_until(|journal| journal.log.n_unsynced() == 0 && journal.whole.is_none())
    }

    fn wait_until(&mut self, is_done: impl Fn(&Journal) -> bool) -> io::Result<()> {
        let began = std::time::Instant::now();
        while !is_done(self) {
            let now = Instant(began.elapsed().as_nanos() as u64);
            self.pump(now)?;
            if began.elapsed() > BEGIN_PATIENCE {
                let place = self.directory.media().place();
                return Err(failed(format_args!("{place} has synced nothing for a minute")));
            }
            let timeout = rustix::time::Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
            let mut fds = [rustix::event::PollFd::new(&*self.bell, rustix::event::PollFlags::IN)];
            let _ready = rustix::event::poll(&mut fds, Some(&timeout))?;
        }
        Ok(())
    }
}

fn put_disks(disks: &[u64; MAX_MEMBERS], out: &mut Vec<u8>) {
    disks.iter().for_each(|disk| out.extend_from_slice(&disk.to_le_bytes()));
}

fn read_disks(from: &mut Reader<'_>) -> Result<[u64; MAX_MEMBERS], Malformed> {
    let mut disks = [0; MAX_MEMBERS];
    for disk in &mut disks {
        let mut word = [0; 8];
        for byte in &mut word {
            *byte = from.byte()?;
        }
        *disk = u64::from_le_bytes(word);
    }
    Ok(disks)
}

fn read_whole(bytes: &[u8]) -> Result<Found, Malformed> {
    let mut from = Reader::new(bytes);
    let (lives, disks) = (from.number()?, read_disks(&mut from)?);
    let mut members = Vec::new();
    while !from.is_at_end() {
        let group = usize::from(from.byte()?);
        let (stable, app) = (from.bytes()?.to_vec(), from.bytes()?.to_vec());
        members.push(Kept { group, stable, app, changes: Vec::new() });
    }
    Ok(Found { lives, disks, members })
}

/// Everything that the log holds (K3).
fn read(log: &mut Log<Os>) -> io::Result<Option<Found>> {
    let mut found: Option<Found> = None;
    // The pieces of a whole whose last one has not come, and the changes behind its first.
    let mut pieces: Option<Vec<u8>> = None;
    let mut since: Vec<Vec<u8>> = Vec::new();
    let (mut entry, mut turn) = (Vec::new(), Vec::new());
    let garbled = |_: Malformed| failed("an entry of the log is not what this program writes");
    for slot in log.start().0..log.end().0 {
        log.read(Slot(slot), &mut entry).map_err(failed)?;
        match entry.as_slice() {
            [CHANGES, is_last, piece @ ..] => {
                turn.extend_from_slice(piece);
                if *is_last == 1 {
                    if pieces.is_some() {
                        since.push(turn.clone());
                    }
                    if let Some(found) = &mut found {
                        take_changes(found, &turn).map_err(garbled)?;
                    }
                    turn.clear();
                }
            }
            [PIECE, is_first, is_last, bytes @ ..] => {
                // A change that an earlier life did not write to its end was never known.
                turn.clear();
                if *is_first == 1 {
                    (pieces, since) = (Some(Vec::new()), Vec::new());
                }
                let Some(whole) = &mut pieces else { continue };
                whole.extend_from_slice(bytes);
                if *is_last == 1 {
                    let mut whole = read_whole(whole).map_err(garbled)?;
                    for changes in since.drain(..) {
                        take_changes(&mut whole, &changes).map_err(garbled)?;
                    }
                    (found, pieces) = (Some(whole), None);
                }
            }
            _ => return Err(garbled(Malformed)),
        }
    }
    Ok(found)
}

fn take_changes(found: &mut Found, changes: &[u8]) -> Result<(), Malformed> {
    let mut from = Reader::new(changes);
    found.disks = read_disks(&mut from)?;
    while !from.is_at_end() {
        let group = usize::from(from.byte()?);
        let bytes = from.bytes()?.to_vec();
        let member = found.members.iter_mut().find(|kept| kept.group == group);
        member.ok_or(Malformed)?.changes.push(bytes);
    }
    Ok(())
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
