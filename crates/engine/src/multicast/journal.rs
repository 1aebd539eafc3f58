//! The records that a node writes to its disk, and the output that waits for them.
//!
//! ```text
//! entry = 0 | is last | a piece of: disks | members: group, changes    the changes of one turn
//!       | 1 | is first | is last | a piece of a whole                    everything, sometimes
//! whole = lives | disks | members: group, state, the application's state
//! ```
//! - K1 All groups of a node share one log: one sync covers the changes of all turns during the
//!   sync before it.
//! - K2 The sends and deliveries of a turn are released when the entry of that turn, and hence of
//!   every earlier one, is synced. Messages between members of one node do not wait: the receiver's
//!   entry stands later in the same log. Asserted in [`Journal::hear`], by the number of entries
//!   that each flush covers; of deliveries in [`Journal::hand`], which the node calls before it
//!   hands them over.
//! - K3 Changes behind the first piece of a whole continue from it; the log is freed below a whole
//!   when its last piece is synced. So the log always holds a whole, and all changes since.
//! - K4 The bytes that wait for the disk are bounded ([`Journal::is_behind`]): the node then takes
//!   nothing more from its peers or its application. A turn whose changes exceed the bound, since
//!   it replaces a log, holds the node until the disk has taken them ([`Journal::holds`]). The
//!   output of [`TURNS_MAX`] turns waits at most: with more, the last one's leaves with the next.
//! - K5 While the node waits for everything ([`Journal::finish`]), nothing but pieces is appended:
//!   a crash leaves a whole of another moment, which does not continue what is before it, or all
//!   as it was. Asserted in [`Journal::keep`].
//! - K6 A node whose disk takes nothing, for want of room or since a sync hangs, leads no group:
//!   its proposals would wait for that disk, while its heartbeats need none. By
//!   [`Journal::is_in_trouble`], of which Ω is told. A full disk is waited for, however long. Disks
//!   that are all slow lead on ([`Trouble`]), since no epoch begins without syncs either.

use crate::multicast::desk::MemberView;
use crate::multicast::stream::Marks;
use base::{Ballot, Instant, Slot};
use core::time::Duration;
use proto::amcast::GroupId;
use proto::amcast::wire::{Malformed, Reader, number};
use proto::disk::{Disk, DiskEvent, Entry, EntryHead, Flush, Trouble};
use std::collections::VecDeque;

const CHANGES: u8 = 0;
const PIECE: u8 = 1;
/// The bytes of an entry beside a piece.
const HEAD_BYTES: usize = 3;
/// The most turns whose output waits apart: the rest leaves together.
const TURNS_MAX: usize = 256;
/// The time for which a disk that holds its node may sync nothing.
const PATIENCE: Duration = Duration::from_secs(60);

/// The sizes of what waits for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The longest piece of a whole, and of an entry of changes.
    pub piece_bytes: usize,
    /// The bound of K4.
    pub behind_bytes: usize,
    /// The bytes of changes after which a whole is written, unless the last one was longer.
    pub whole_after_bytes: u64,
}

/// The output of a turn that waits for a flush.
#[derive(Debug)]
struct Turn {
    /// `None` while some of its changes wait for room.
    flush: Option<Flush>,
    /// The number of all entries ever up to its last change.
    n_entries: u64,
    held: Held,
}

/// A flush under way.
#[derive(Debug)]
struct Flight {
    flush: Flush,
    /// The bytes that it covers and the one before does not.
    n_bytes: usize,
    /// The number of all entries ever that it covers.
    n_entries: u64,
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
    /// By node.
    pub(crate) disks: Vec<u64>,
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

/// A node's records; see the module's text.
#[derive(Debug)]
pub(crate) struct Journal {
    /// The name of the disk.
    name: u64,
    sizes: Sizes,
    turns: VecDeque<Turn>,
    /// The number of all deliveries ever that wait for no sync (K2).
    n_free: u64,
    /// Pieces of changes for which there was no room, in order.
    backlog: VecDeque<Vec<u8>>,
    flushes: VecDeque<Flight>,
    /// The number of all entries ever that were appended.
    n_appended: u64,
    /// The number of all entries ever up to the last change, which may wait for room.
    n_changed: u64,
    /// The number of all entries ever that are synced.
    n_synced: u64,
    /// The bytes appended since the last flush was asked for.
    n_unflushed: usize,
    n_unsynced: usize,
    last_flush: Option<Flush>,
    whole: Option<Whole>,
    whole_bytes: u64,
    changed_bytes: u64,
    entry: Vec<u8>,
    turn: Vec<u8>,
    /// Whether the node waits until everything is synced.
    finishes: bool,
    /// The time since when the node is held and nothing was synced.
    held_since: Option<Instant>,
    trouble: Trouble,
}

impl Journal {
    /// The journal on a disk with this name, and what an earlier life wrote there; nothing, if that
    /// life died before any other node heard of it.
    pub(crate) fn open(
        disk: &mut impl Disk,
        name: u64,
        sizes: Sizes,
    ) -> Result<(Journal, Option<Found>), Malformed> {
        let found = read(disk)?;
        let journal = Journal {
            name,
            sizes,
            turns: VecDeque::new(),
            n_free: 0,
            backlog: VecDeque::new(),
            flushes: VecDeque::new(),
            n_appended: 0,
            n_changed: 0,
            n_synced: 0,
            n_unflushed: 0,
            n_unsynced: 0,
            last_flush: None,
            whole: None,
            whole_bytes: 0,
            changed_bytes: 0,
            entry: Vec::new(),
            turn: Vec::new(),
            finishes: false,
            held_since: None,
            trouble: Trouble::default(),
        };
        Ok((journal, found))
    }

    /// The name of the disk: another directory has another one.
    pub(crate) const fn name(&self) -> u64 {
        self.name
    }

    /// Whether too much waits for the disk (K4).
    pub(crate) fn is_behind(&self) -> bool {
        let waits = self.whole.as_ref().map_or(0, |whole| whole.bytes.len() - whole.at);
        let most = self.sizes.behind_bytes;
        self.n_unsynced > most && waits == 0 || self.n_unsynced > 2 * most
    }

    /// Whether the node stands still until the disk has taken more, or everything.
    pub(crate) fn holds(&self) -> bool {
        !self.backlog.is_empty() || self.finishes
    }

    /// Whether the disk has held the node, and synced nothing, for too long.
    pub(crate) fn is_late(&mut self, now: Instant) -> bool {
        if !self.holds() || self.trouble.is_full() {
            self.held_since = None;
            return false;
        }
        now.since(*self.held_since.get_or_insert(now)) > PATIENCE
    }

    /// Whether the disk takes nothing for now, and says so (K6).
    pub(crate) fn is_in_trouble(&self, now: Instant) -> bool {
        self.trouble.lasts(now)
    }

    /// Holds the node until everything so far is synced: before a life begins, and any other node
    /// knows of it.
    pub(crate) const fn finish(&mut self) {
        self.finishes = true;
    }

    fn has_room(&self, disk: &impl Disk, n_bytes: usize) -> bool {
        n_bytes <= disk.room() && self.n_unsynced <= self.sizes.behind_bytes
    }

    fn append(&mut self, disk: &mut impl Disk, entry: &[u8]) {
        let head = EntryHead { slot: disk.end(), ballot: Ballot::NONE, view: 0 };
        disk.append(Entry { head, payload: entry });
        self.n_appended += 1;
        self.n_unflushed += entry.len();
        self.n_unsynced += entry.len();
    }

    fn sync(&mut self, disk: &mut impl Disk) -> Flush {
        let flush = disk.sync();
        let n_bytes = std::mem::take(&mut self.n_unflushed);
        self.flushes.push_back(Flight { flush, n_bytes, n_entries: self.n_appended });
        flush
    }

    /// Notes that all deliveries up to the `n`th ever are handed to the application now.
    pub(crate) fn hand(&mut self, n: u64) {
        let is_free = self.turns.is_empty() || n <= self.n_free;
        assert!(is_free, "K2: delivery {n} is handed over before its sync");
        self.n_free = self.n_free.max(n);
    }

    /// Writes the changes of a turn, if there are any; `held` waits for them (K2). Returns false if
    /// nothing was changed and nothing waits: then `held` may leave at once.
    pub(crate) fn keep(
        &mut self,
        disk: &mut impl Disk,
        disks: impl ExactSizeIterator<Item = u64>,
        changes: &[(GroupId, Vec<u8>)],
        held: impl FnOnce() -> Option<Held>,
    ) -> bool {
        let is_held = self.finishes;
        assert!(!is_held, "K5: changes do not continue what is before an unfinished whole");
        let is_changed = !changes.is_empty();
        if is_changed {
            self.write_changes(disk, disks, changes);
        }
        if !is_changed && self.turns.is_empty() {
            return false;
        }
        let flush = self.last_flush.filter(|_| self.backlog.is_empty());
        let n_entries = self.n_changed;
        if let Some(held) = held() {
            let is_full = self.turns.len() >= TURNS_MAX;
            match self.turns.back_mut() {
                // The output after the last change waits for the same sync.
                Some(last) if last.flush == flush || is_full => {
                    *last = Turn { flush, n_entries, held };
                }
                _ => self.turns.push_back(Turn { flush, n_entries, held }),
            }
        }
        true
    }

    fn write_changes(
        &mut self,
        disk: &mut impl Disk,
        disks: impl ExactSizeIterator<Item = u64>,
        changes: &[(GroupId, Vec<u8>)],
    ) {
        let mut turn = std::mem::take(&mut self.turn);
        turn.clear();
        put_disks(disks, &mut turn);
        for (group, bytes) in changes {
            turn.push(group.index() as u8);
            number(bytes.len() as u64, &mut turn);
            turn.extend_from_slice(bytes);
        }
        let n_pieces = turn.len().div_ceil(self.sizes.piece_bytes);
        let mut entry = std::mem::take(&mut self.entry);
        for (at, piece) in turn.chunks(self.sizes.piece_bytes).enumerate() {
            entry.clear();
            entry.extend_from_slice(&[CHANGES, u8::from(at + 1 == n_pieces)]);
            entry.extend_from_slice(piece);
            self.changed_bytes += entry.len() as u64;
            if self.backlog.is_empty() && self.has_room(disk, entry.len()) {
                self.append(disk, &entry);
            } else {
                self.backlog.push_back(entry.clone());
            }
        }
        (self.turn, self.entry) = (turn, entry);
        self.n_changed = self.n_appended + self.backlog.len() as u64;
        // The sync covers all groups, and everything else that waits by the time the disk is free
        // (K1).
        self.last_flush = Some(self.sync(disk));
    }

    /// Whether it is time for a whole (K3).
    pub(crate) fn wants_whole(&self, disk: &impl Disk) -> bool {
        self.changed_bytes > self.sizes.whole_after_bytes.max(2 * self.whole_bytes)
            && self.can_begin_whole(disk)
    }

    /// Whether a whole can begin: its first piece marks the place, so it must fit.
    pub(crate) fn can_begin_whole(&self, disk: &impl Disk) -> bool {
        self.whole.is_none()
            && self.backlog.is_empty()
            && disk.room() >= self.sizes.piece_bytes + HEAD_BYTES
    }

    /// Begins to write everything: later changes continue from here.
    pub(crate) fn begin_whole(&mut self, disk: &mut impl Disk, found: &Found) {
        assert!(self.can_begin_whole(disk), "K3: no change comes before its first piece");
        let mut bytes = Vec::new();
        number(found.lives, &mut bytes);
        put_disks(found.disks.iter().copied(), &mut bytes);
        for kept in &found.members {
            bytes.push(kept.group as u8);
            for part in [&kept.stable, &kept.app] {
                number(part.len() as u64, &mut bytes);
                bytes.extend_from_slice(part);
            }
        }
        (self.whole_bytes, self.changed_bytes) = (bytes.len() as u64, 0);
        self.whole = Some(Whole { bytes, at: 0, begins: disk.end(), ends: None });
        self.write_piece(disk);
    }

    /// Releases the last output by the sync before its own: a planted bug.
    pub(crate) fn backdate(&mut self) {
        if let Some(Turn { flush: Some(Flush(number)), .. }) = self.turns.back_mut() {
            *number = number.saturating_sub(1);
        }
    }

    /// Frees the log below a whole that is being written: a planted bug.
    pub(crate) fn free_early(&self, disk: &mut impl Disk) {
        if let Some(whole) = &self.whole {
            disk.free_below(whole.begins);
        }
    }

    /// Writes the next piece, if there is room. False if nothing was written.
    fn write_piece(&mut self, disk: &mut impl Disk) -> bool {
        let Some(mut whole) = self.whole.take_if(|whole| whole.ends.is_none()) else {
            return false;
        };
        let is_first = whole.at == 0;
        let end = (whole.at + self.sizes.piece_bytes).min(whole.bytes.len());
        let is_last = end == whole.bytes.len();
        let n_bytes = end - whole.at + HEAD_BYTES;
        let goes = is_first || self.backlog.is_empty() && self.has_room(disk, n_bytes);
        if goes {
            let mut entry = std::mem::take(&mut self.entry);
            entry.clear();
            entry.extend_from_slice(&[PIECE, u8::from(is_first), u8::from(is_last)]);
            entry.extend_from_slice(&whole.bytes[whole.at..end]);
            self.append(disk, &entry);
            self.entry = entry;
            let flush = self.sync(disk);
            whole.at = end;
            if is_last {
                (whole.bytes, whole.at, whole.ends) = (Vec::new(), 0, Some(flush));
            }
        }
        self.whole = Some(whole);
        goes
    }

    /// Gives the disk what it has room for.
    pub(crate) fn write(&mut self, disk: &mut impl Disk) {
        let mut is_written = false;
        while let Some(entry) = self.backlog.pop_front_if(|entry| {
            entry.len() <= disk.room() && self.n_unsynced <= self.sizes.behind_bytes
        }) {
            self.append(disk, &entry);
            is_written = true;
        }
        if is_written {
            let flush = self.sync(disk);
            if self.backlog.is_empty() {
                self.last_flush = Some(flush);
                let waits = self.turns.iter_mut().filter(|turn| turn.flush.is_none());
                waits.for_each(|turn| turn.flush = Some(flush));
            }
        }
        while self.write_piece(disk) {}
    }

    /// Takes the news of the disk. Returns the newest output that may leave since.
    pub(crate) fn hear(
        &mut self,
        disk: &mut impl Disk,
        events: &[DiskEvent],
        now: Instant,
    ) -> Option<Held> {
        let mut released = None;
        for event in events {
            self.trouble.hear(*event, now);
            let DiskEvent::Synced(flush) = *event else { continue };
            while let Some(flight) = self.flushes.pop_front_if(|flight| flight.flush <= flush) {
                self.n_unsynced -= flight.n_bytes;
                self.n_synced = flight.n_entries;
                self.held_since = None;
            }
            let is_synced = |of: Option<Flush>| of.is_some_and(|of| of <= flush);
            while let Some(turn) = self.turns.pop_front_if(|turn| is_synced(turn.flush)) {
                let (n_entries, n_synced) = (turn.n_entries, self.n_synced);
                assert!(n_entries <= n_synced, "K2: entry {n_entries} of a turn is not synced");
                self.n_free = turn.held.n_delivered;
                released = Some(turn.held);
            }
            if let Some(whole) = self.whole.take_if(|whole| is_synced(whole.ends)) {
                // K3.
                disk.free_below(whole.begins);
            }
        }
        self.finishes &= self.n_unsynced > 0 || self.whole.is_some();
        released
    }
}

fn put_disks(disks: impl ExactSizeIterator<Item = u64>, out: &mut Vec<u8>) {
    out.push(disks.len() as u8);
    disks.for_each(|disk| out.extend_from_slice(&disk.to_le_bytes()));
}

fn read_disks(from: &mut Reader<'_>) -> Result<Vec<u64>, Malformed> {
    let n_nodes = from.byte()?;
    let mut read = || {
        let mut word = [0; 8];
        for byte in &mut word {
            *byte = from.byte()?;
        }
        Ok(u64::from_le_bytes(word))
    };
    (0..n_nodes).map(|_| read()).collect()
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
fn read(disk: &mut impl Disk) -> Result<Option<Found>, Malformed> {
    let mut found: Option<Found> = None;
    // The pieces of a whole whose last one has not come, and the changes behind its first.
    let mut pieces: Option<Vec<u8>> = None;
    let mut since: Vec<Vec<u8>> = Vec::new();
    let (mut entry, mut turn) = (Vec::new(), Vec::new());
    for slot in disk.start().0..disk.end().0 {
        disk.read(Slot(slot), &mut entry).ok_or(Malformed)?;
        match entry.as_slice() {
            [CHANGES, is_last, piece @ ..] => {
                turn.extend_from_slice(piece);
                if *is_last == 1 {
                    if pieces.is_some() {
                        since.push(turn.clone());
                    }
                    if let Some(found) = &mut found {
                        take_changes(found, &turn)?;
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
                    let mut whole = read_whole(whole)?;
                    for changes in since.drain(..) {
                        take_changes(&mut whole, &changes)?;
                    }
                    (found, pieces) = (Some(whole), None);
                }
            }
            _ => return Err(Malformed),
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
#[path = "journal_tests.rs"]
mod tests;
