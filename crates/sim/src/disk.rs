//! A node's disk: one stream of records, of which a crash leaves a prefix.
//!
//! With the released log underneath ([`LogStore`]) that log decides what a crash leaves, and this
//! module judges it.
//!
//! - I1 Everything that a reported flush covers is never lost (D1). By construction: only
//!   [`Disk::complete`] reports, and the records that it has applied to `stable` stay there.
//! - I2 Everything else may be lost, from any record on: a dead process leaves some of it in the
//!   page cache, still not durable; a power cut leaves some of it on the disk, or nothing.
//! - I3 The released log recovers such a prefix. Checked in [`Disk::revive`].
//! - I4 A full disk keeps what it cannot take, in order, and takes it when there is room. By
//!   construction: a flush that does not fit stays the first.
//! - I6 The log reaches back to the newest snapshot that is whole, unless that one is damaged.
//!   Checked in [`Disk::revive`].
//! - I7 At most the reported room waits for a disk (D4). Asserted in `append`, as the released host
//!   does.
//! - I5 After a failed sync nothing is reported: the process has to die. Asserted.

mod faults;
mod held;

use crate::Snapshots;
use crate::states::{End, State};
use crate::stored::{LogStore, Store, SyncFailed, Unusable, Worked};
use base::{Ballot, Prefix, Rng, Slot};
use proto::disk::{DiskEvent, Entry, EntryHead, Flush};
use std::collections::VecDeque;

/// The content of a log.
#[derive(Clone, Debug, Default)]
struct Content {
    meta: Vec<u8>,
    start: u64,
    entries: VecDeque<(EntryHead, Vec<u8>)>,
}

#[derive(Clone, Debug)]
enum Record {
    Append(EntryHead, Vec<u8>),
    Cut(u64),
    BeginAt(u64),
    Meta(Vec<u8>),
    FreeBelow(u64),
}

impl Record {
    /// The bytes that it takes on the disk; anything but entries is small.
    fn n_bytes(&self) -> u64 {
        match self {
            Record::Append(..) => ENTRY_BYTES,
            Record::Cut(_) | Record::BeginAt(_) | Record::Meta(_) | Record::FreeBelow(_) => 0,
        }
    }
}

/// The approximate bytes of an entry.
const ENTRY_BYTES: u64 = 128;
/// The bytes of a segment: the unit in which room is counted.
const SEGMENT_BYTES: u64 = 1 << 10;

/// The bytes that may wait for a disk (D4 of `proto::disk`), unless set otherwise: so few that a
/// disk which stands still meets the bound.
const UNSYNCED_BYTES_MAX: usize = 1024;

/// The number of slots in which space is freed.
const PIECE: u64 = 8;

impl Content {
    fn end(&self) -> u64 {
        self.start + self.entries.len() as u64
    }

    /// Whether `log` holds this, except what it may have freed.
    fn is_in(&self, log: &mut dyn LogStore, freed: u64) -> bool {
        let start = log.start().0;
        if log.end().0 != self.end() || log.meta() != self.meta || start > self.start.max(freed) {
            return false;
        }
        let mut found = Vec::new();
        (start.max(self.start)..self.end()).all(|slot| {
            let (head, payload) = &self.entries[(slot - self.start) as usize];
            log.read(Slot(slot), &mut found) == Some(*head) && found == *payload
        })
    }

    fn apply(&mut self, record: &Record) {
        match record {
            Record::Append(head, payload) => {
                assert_eq!(head.slot.0, self.end(), "appended at the end");
                self.entries.push_back((*head, payload.clone()));
            }
            Record::Cut(end) => {
                assert!((self.start..=self.end()).contains(end), "cut within the log");
                self.entries.truncate((end - self.start) as usize);
            }
            Record::BeginAt(slot) => {
                self.entries.clear();
                self.start = *slot;
            }
            Record::Meta(meta) => self.meta.clone_from(meta),
            Record::FreeBelow(slot) => {
                let start = (slot / PIECE * PIECE).clamp(self.start, self.end());
                self.entries.drain(..(start - self.start) as usize);
                self.start = start;
            }
        }
    }
}

/// The requests to a disk, by their numbers.
#[derive(Default)]
struct Flushes {
    /// Those under way, each with the number of requested records that it covers.
    under_way: VecDeque<(Flush, u64)>,
    /// The records that were requested, and those that are durable.
    n_asked: u64,
    n_stable: u64,
    n_requested: u64,
    /// The number of flushes whose completion is not planned yet.
    n_unplanned: usize,
}

/// What ails a disk.
#[derive(Default)]
struct Ails {
    /// The number of faults that keep flushes from completing.
    n_holds: u32,
    /// The bytes of entries that still fit, if there is a bound. (The released log keeps its own.)
    room: Option<u64>,
    /// The number of syncs before the one that fails. (The released log counts its own.)
    fails_after: Option<u64>,
    /// Whether a sync has failed in this life.
    has_failed: bool,
    /// Whether that was ignored: what is reported as durable from there on is not.
    lies: bool,
    /// Whether there is a bound, or a sync is going to fail, and that has not ended.
    is_ailing: bool,
}

/// The simulated disk of one node, over all its lives.
#[derive(Default)]
pub struct Disk {
    store: Store,
    /// The bound of D4 of `proto::disk`.
    unsynced_bytes_max: Option<usize>,
    /// The released log, where it is under test.
    log: Option<Box<dyn LogStore>>,
    /// The end of what a snapshot covers: the log may free everything below.
    freed: u64,
    /// The content that the present life sees.
    live: Content,
    /// The least content after a power cut.
    stable: Content,
    /// The difference, in order.
    pending: VecDeque<Record>,
    flushes: Flushes,
    /// The events for the machine, when its loop runs next.
    pub(crate) events: Vec<DiskEvent>,
    /// Whether it has reported that it is full.
    pub(crate) is_full: bool,
    is_stalled: bool,
    ails: Ails,
    /// The slot of a flipped bit in what was durable, where records show it.
    damage: Option<Slot>,
    /// The prefix that it gave back when it was last damaged, and the newest ballot in which its
    /// member can have reported that.
    before_damage: Option<(Ballot, Prefix)>,
    /// Whether a process has found the damage, and reported it.
    pub(crate) says_damaged: bool,
    /// The time until which the full disk is looked at again.
    pub(crate) watched_until: u64,
    /// The last durable snapshot, if there is one.
    pub(crate) snapshot: Option<State>,
    /// Whether the newest snapshot in a file is damaged, and none that makes up for it was written
    /// since.
    is_spoiled: bool,
    /// Whether the next step of the thread that writes a snapshot is planned.
    pub(crate) is_step_planned: bool,
    /// The time before which no snapshot begins, after one that failed.
    pub(crate) snapshot_retry_at: u64,
}

impl Disk {
    pub(crate) fn new(store: Store, bug: Snapshots) -> Disk {
        Disk { store, log: store.make(bug), ..Disk::default() }
    }

    /// Lets `n_bytes` of entries wait for it.
    pub(crate) fn let_wait(&mut self, n_bytes: usize) {
        self.unsynced_bytes_max = Some(n_bytes);
    }

    /// Starts a process on the remains of an earlier life.
    pub(crate) fn revive(&mut self, rng: &mut Rng) -> Result<(), Unusable> {
        let revived = self.recover(rng);
        // (A process that finds a snapshot damaged says so, and continues from an older one.)
        self.says_damaged = matches!(revived, Err(Unusable::Damaged(_))) || self.is_spoiled;
        revived
    }

    fn recover(&mut self, rng: &mut Rng) -> Result<(), Unusable> {
        let Some(log) = &mut self.log else { return self.look_for_damage() };
        log.revive(rng)?;
        // I3: the longest prefix that the content can be.
        let mut content = self.stable.clone();
        let mut found = None;
        let records = self.pending.iter().map(Some);
        for (n, record) in std::iter::once(None).chain(records).enumerate() {
            if let Some(record) = record {
                content.apply(record);
            }
            if content.is_in(log.as_mut(), self.freed) {
                found = Some((n, content.clone()));
            }
        }
        let Some((n, content)) = found else {
            return Err(Unusable::Broken(format!(
                "its log holds {} to {}: not what was synced, up to {}, and some of what was asked \
                 then",
                log.start(),
                log.end(),
                self.stable.end()
            )));
        };
        self.live = content;
        self.pending.truncate(n);
        self.flushes.n_asked = self.flushes.n_stable + n as u64;
        self.find_snapshot()
    }

    /// Finds the snapshots in files, as a process that starts.
    fn find_snapshot(&mut self) -> Result<(), Unusable> {
        let Some(log) = &mut self.log else { return Ok(()) };
        let (found, passes_over) = log.states().revive()?;
        self.is_spoiled = passes_over;
        let prefix = found.as_ref().map_or(Prefix::ZERO, |state| state.prefix);
        let reported = self.snapshot.as_ref().map_or(Prefix::ZERO, |state| state.prefix);
        let start = Prefix(log.start().0);
        // I6
        if !passes_over && (prefix < reported || prefix < start) {
            return Err(Unusable::Broken(format!(
                "its newest snapshot covers {prefix}; {reported} was reported, and its log begins \
                 at {start}"
            )));
        }
        self.snapshot = found;
        Ok(())
    }

    // ---- snapshots in files ----

    /// Whether snapshots are written to files, in pieces.
    pub(crate) fn keeps_files(&self) -> bool {
        self.log.is_some()
    }

    pub(crate) fn begin_snapshot(&mut self, state: State, piece_bytes: usize) {
        if let Some(log) = &mut self.log {
            log.states().begin(state, piece_bytes);
        }
    }

    pub(crate) fn is_writing(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.states_ref().is_writing())
    }

    /// Makes a piece in the loop, if one is wanted.
    pub(crate) fn snapshot_piece(&mut self, live: &crate::kv::Kv) {
        self.log.iter_mut().for_each(|log| log.states().piece(live));
    }

    /// Whether the thread that writes can take its next step.
    pub(crate) fn can_step(&self) -> bool {
        self.ails.n_holds == 0 && self.log.as_ref().is_some_and(|log| log.states_ref().has_work())
    }

    pub(crate) fn step(&mut self) {
        self.log.iter_mut().for_each(|log| log.states().work());
    }

    pub(crate) fn give_up_snapshot(&mut self) {
        self.log.iter_mut().for_each(|log| log.states().give_up());
    }

    /// The result of the last snapshot, once.
    pub(crate) fn snapshot_end(&mut self) -> Option<End> {
        let log = self.log.as_mut()?;
        let end = log.states().take_end();
        if let Some(End::Written(state)) = &end {
            self.snapshot = Some(State::clone(state));
            // (A donor that lags may give less than what is before the log.)
            self.is_spoiled &= state.prefix < log.start().prefix_before();
        }
        end
    }

    fn look_for_damage(&mut self) -> Result<(), Unusable> {
        match self.damage {
            None => Ok(()),
            Some(slot) if self.store == Store::ModelCutAtDamage => {
                self.damage = None;
                self.pending.clear();
                self.stable.entries.truncate((slot.0 - self.stable.start) as usize);
                self.live = self.stable.clone();
                self.flushes.n_asked = self.flushes.n_stable;
                Ok(())
            }
            Some(slot) => Err(Unusable::Damaged(format!("its entry for slot {slot} is damaged"))),
        }
    }

    /// The bytes of payload that wait to become durable.
    fn n_unsynced(&self) -> usize {
        let n_bytes = |record: &Record| match record {
            Record::Append(_, payload) => payload.len(),
            Record::Cut(_) | Record::BeginAt(_) | Record::Meta(_) | Record::FreeBelow(_) => 0,
        };
        self.pending.iter().map(n_bytes).sum()
    }

    fn ask(&mut self, record: Record) {
        self.live.apply(&record);
        self.pending.push_back(record);
        self.flushes.n_asked += 1;
    }

    /// Whether nothing was ever made durable here, so that nothing can have left.
    pub(crate) fn is_blank(&self) -> bool {
        self.live.meta.is_empty()
    }

    /// The number of flushes that were requested since the last call.
    pub(crate) fn take_unplanned(&mut self) -> usize {
        std::mem::take(&mut self.flushes.n_unplanned)
    }

    /// Completes the oldest flush under way, unless a fault holds it. Returns whether it did.
    pub(crate) fn complete(&mut self) -> Result<bool, SyncFailed> {
        assert!(!self.ails.has_failed, "I5: nothing is asked of a disk after a failed sync");
        if self.ails.n_holds > 0 || (self.flushes.under_way.is_empty() && !self.is_full) {
            return Ok(false);
        }
        let n_covered = self.flushes.under_way.front().map_or(0, |(_, n_covered)| *n_covered);
        let n = n_covered.saturating_sub(self.flushes.n_stable) as usize;
        let worked = match &mut self.log {
            Some(log) => log.work(),
            None => self.work(n),
        };
        self.ails.has_failed = worked.is_err();
        let Worked { is_done, has_room } = worked?;
        if has_room == self.is_full {
            self.is_full = !has_room;
            self.events.push(if has_room { DiskEvent::Room } else { DiskEvent::Full });
        }
        let Some((flush, _)) = self.flushes.under_way.pop_front_if(|_| is_done) else {
            return Ok(false);
        };
        if !self.ails.lies {
            self.settle(n);
        }
        self.events.push(DiskEvent::Synced(flush));
        Ok(true)
    }

    /// Works as the released log does, without one.
    fn work(&mut self, n: usize) -> Result<Worked, SyncFailed> {
        if let Some(room) = &mut self.ails.room {
            let needed = self.pending.iter().take(n).map(Record::n_bytes).sum();
            match room.checked_sub(needed) {
                Some(left) => *room = left,
                None => return Ok(Worked { is_done: false, has_room: false }),
            }
        }
        match &mut self.ails.fails_after {
            Some(0) => {
                self.ails.fails_after = None;
                self.ails.lies = self.store == Store::ModelIgnoringSyncErrors;
                if !self.ails.lies {
                    return Err(SyncFailed);
                }
            }
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(Worked { is_done: true, has_room: true })
    }

    /// Makes `n` more records durable.
    fn settle(&mut self, n: usize) {
        for record in self.pending.drain(..n) {
            let before = self.stable.entries.len();
            self.stable.apply(&record);
            self.flushes.n_stable += 1;
            if let (Some(room), Record::FreeBelow(_)) = (&mut self.ails.room, &record) {
                *room += ENTRY_BYTES * (before - self.stable.entries.len()) as u64;
            }
        }
        if self.log.is_none() {
            let left = self.stable.start..self.stable.end();
            self.damage = self.damage.filter(|slot| left.contains(&slot.0));
        }
    }

    /// Loses the process: what it had handed over may be in the page cache, or not.
    pub(crate) fn lose_process(&mut self, rng: &mut Rng) {
        self.flushes.under_way.clear();
        self.events.clear();
        self.flushes.n_unplanned = 0;
        (self.is_full, self.ails.has_failed, self.ails.lies) = (false, false, false);
        self.watched_until = 0;
        (self.is_step_planned, self.snapshot_retry_at) = (false, 0);
        if let Some(log) = &mut self.log {
            return log.die();
        }
        let kept = rng.below(self.pending.len() as u64 + 1) as usize;
        self.pending.truncate(kept);
        self.live = self.stable.clone();
        for record in &self.pending {
            self.live.apply(record);
        }
        self.flushes.n_asked = self.flushes.n_stable + kept as u64;
    }

    /// Loses the power: what was written back before stays.
    pub(crate) fn lose_power(&mut self, rng: &mut Rng) {
        self.lose_process(rng);
        if let Some(log) = &mut self.log {
            return log.lose_power(rng);
        }
        let written = rng.below(self.pending.len() as u64 + 1) as usize;
        self.settle(written);
        self.pending.clear();
        self.live = self.stable.clone();
        self.flushes.n_asked = self.flushes.n_stable;
    }

    /// The first slot that is not freed, and the end of what is durable.
    pub(crate) fn kept(&self) -> (u64, u64) {
        (self.freed.max(self.live.start), self.durable_entries().1.0)
    }
}

impl proto::disk::Disk for Disk {
    fn append(&mut self, entry: Entry<'_>) {
        let n_bytes = self.n_unsynced() + entry.payload.len();
        let most = self.unsynced_bytes_max.unwrap_or(UNSYNCED_BYTES_MAX);
        assert!(n_bytes <= most, "I7: {n_bytes} bytes wait for the disk");
        if let Some(log) = &mut self.log {
            log.append(entry);
        }
        self.ask(Record::Append(entry.head, entry.payload.to_vec()));
    }

    fn room(&self) -> usize {
        let most = self.unsynced_bytes_max.unwrap_or(UNSYNCED_BYTES_MAX);
        most.saturating_sub(self.n_unsynced())
    }

    fn cut(&mut self, end: Slot) {
        if let Some(log) = &mut self.log {
            log.cut(end);
        }
        self.ask(Record::Cut(end.0));
    }

    fn begin_at(&mut self, slot: Slot) {
        if let Some(log) = &mut self.log {
            log.begin_at(slot);
        }
        self.ask(Record::BeginAt(slot.0));
    }

    fn put_meta(&mut self, meta: &[u8]) {
        assert!(meta.len() <= proto::disk::META_BYTES_MAX);
        if let Some(log) = &mut self.log {
            log.put_meta(meta);
        }
        self.ask(Record::Meta(meta.to_vec()));
    }

    fn meta(&self) -> &[u8] {
        &self.live.meta
    }

    fn sync(&mut self) -> Flush {
        if let Some(log) = &mut self.log {
            log.ask_sync();
        }
        self.flushes.n_requested += 1;
        self.flushes.n_unplanned += 1;
        let flush = Flush(self.flushes.n_requested);
        self.flushes.under_way.push_back((flush, self.flushes.n_asked));
        flush
    }

    fn read(&mut self, slot: Slot, into: &mut Vec<u8>) -> Option<EntryHead> {
        if let Some(log) = &mut self.log {
            return log.read(slot, into);
        }
        let (head, payload) =
            self.live.entries.get(slot.0.checked_sub(self.live.start)? as usize)?;
        into.clone_from(payload);
        Some(*head)
    }

    fn head(&self, slot: Slot) -> Option<EntryHead> {
        if let Some(log) = &self.log {
            return log.head(slot);
        }
        let entry = self.live.entries.get(slot.0.checked_sub(self.live.start)? as usize)?;
        Some(entry.0)
    }

    fn start(&self) -> Slot {
        self.log.as_ref().map_or(Slot(self.live.start), |log| log.start())
    }

    fn end(&self) -> Slot {
        debug_assert!(self.log.as_ref().is_none_or(|log| log.end().0 == self.live.end()));
        Slot(self.live.end())
    }

    fn free_below(&mut self, slot: Slot) {
        if let Some(log) = &mut self.log {
            // The released log frees whole files, at its own times: all is kept here to judge it.
            self.freed = self.freed.max(slot.0);
            return log.free_below(slot);
        }
        self.ask(Record::FreeBelow(slot.0));
    }
}

#[cfg(test)]
mod tests;
