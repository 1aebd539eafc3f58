//! What a node writes down, and what waits for that.
//!
//! ```text
//! entry = 0 | is last | a piece of: disks | members: group, changes    what one turn has changed
//!       | 1 | is first | is last | a piece of a whole                  everything, now and then
//! whole = lives | disks | members: group, state, the application's state
//! ```
//! - K1 All groups of a node share one log, written by one committer: one sync for all that turns
//!   have changed while the sync before was under way.
//! - K2 What a turn said and delivered is released when the entry of that turn, and hence of every
//!   earlier one, is synced. What members of one node tell each other does not wait: who heard it
//!   stands later in the same log.
//! - K3 Changes behind the first piece of a whole go on from it; the log is freed below a whole
//!   when its last piece is synced. So the log always holds a whole, and all changes since.
//! - K4 What waits for the disk is bounded ([`Journal::is_behind`]): the node then takes nothing
//!   more from its peers or its application.

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
/// See K4.
const BEHIND_BYTES: usize = 16 << 20;
/// How often a sync under way is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long the first whole of a life may take.
const BEGIN_PATIENCE: Duration = Duration::from_secs(60);

/// What waits for a flush.
#[derive(Debug)]
struct Turn {
    flush: Flush,
    held: Held,
}

/// What a turn has brought, and may be known when it is synced (K2).
#[derive(Debug, Clone)]
pub(crate) struct Held {
    /// How far each stream may go.
    pub(crate) marks: Marks,
    /// How much, of all that was ever delivered, may be handed over.
    pub(crate) n_delivered: u64,
    /// How the members stood.
    pub(crate) views: Vec<MemberView>,
}

/// One member as it was written down.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) group: usize,
    pub(crate) stable: Vec<u8>,
    pub(crate) app: Vec<u8>,
    pub(crate) changes: Vec<Vec<u8>>,
}

/// Everything that an earlier life wrote down.
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
    /// Its last piece waits for this.
    ends: Option<Flush>,
}

/// A node's stable storage. See the module's text.
#[derive(Debug)]
pub(crate) struct Journal {
    log: Log<Os>,
    committer: Committer,
    bell: Arc<OwnedFd>,
    reports: Vec<Report>,
    turns: VecDeque<Turn>,
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
    /// Opens the directory that this node began, or begins it; what an earlier life wrote comes
    /// with it: nothing, if that died before anybody heard of it. A whole is written after
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
            // Full means that it rings already.
            let _rings = rustix::io::write(&ring, &1u64.to_ne_bytes());
        })?;
        let journal = Journal {
            log: opened.log,
            committer,
            bell,
            reports: Vec::new(),
            turns: VecDeque::new(),
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

    /// The name of the disk: another directory has another.
    pub(crate) fn disk(&self) -> u64 {
        self.directory.log().max(1)
    }

    /// Readable when [`Journal::pump`] may have news.
    pub(crate) fn wait_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// K4.
    pub(crate) fn is_behind(&self) -> bool {
        let waits = self.whole.as_ref().map_or(0, |whole| whole.bytes.len() - whole.at);
        self.log.n_unsynced() > BEHIND_BYTES && waits == 0
            || self.log.n_unsynced() > 2 * BEHIND_BYTES
    }

    /// When [`Journal::pump`] has to look though nothing rang.
    pub(crate) fn look_within(&self) -> Option<Duration> {
        (self.committer.n_in_flight() > 0).then_some(LOOK_EVERY)
    }

    fn append(&mut self) -> io::Result<()> {
        let (slot, bytes) = (self.log.end(), self.entry.len() as u64);
        self.changed_bytes += bytes;
        self.log.append(slot, Ballot::NONE, 0, &self.entry).map_err(failed)
    }

    /// Writes down what a turn has changed, if anything; `held` waits for it (K2). False if nothing
    /// was changed and nothing waits: then nobody has to.
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
            // K1: of all groups, and with whatever else waits by the time the disk is free.
            self.last_flush = Some(self.log.sync());
        }
        let Some(flush) = self.last_flush.filter(|_| is_changed || !self.turns.is_empty()) else {
            return Ok(false);
        };
        if let Some(held) = held() {
            match self.turns.back_mut() {
                // What came after the last change waits for the same sync.
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

    /// Begins to write everything: what is kept from now on goes on from here.
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
        // Its first piece marks the place: nothing comes before it.
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

    /// Hands over what is to be written, and learns what is synced: the newest of what may be
    /// known since.
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

    /// A turn may change more than may wait for the disk at once: a log that is replaced is written
    /// whole. Then the node waits (K4). What was released meanwhile is released with that turn.
    fn make_room(&mut self) -> io::Result<()> {
        if self.log.n_unsynced() <= BEHIND_BYTES {
            return Ok(());
        }
        self.last_flush = Some(self.log.sync());
        self.wait_until(|journal| journal.log.n_unsynced() <= BEHIND_BYTES)
    }

    /// Waits until everything so far is synced: before a life begins, and nobody knows of it.
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
    // A whole whose last piece has not come, and the changes behind its first.
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
                // What an earlier life did not write to its end was never known.
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
