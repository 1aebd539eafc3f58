//! A node's disk: one stream of records, of which a crash leaves a prefix.
//!
//! With the log that ships underneath ([`LogStore`]) that log decides what a crash leaves, and what
//! is here judges it.
//!
//! - I1 What a reported flush covers is never lost (D1). By construction: only [`Disk::complete`]
//!   reports, and what it has applied to `stable` stays there.
//! - I2 Everything else may be lost, from any record on: a dead process leaves some of it in the
//!   page cache, still not durable; a power cut leaves some of it on the disk, or nothing.
//! - I3 What the log that ships recovers is such a prefix. Checked in [`Disk::revive`].

use crate::kv::Kv;
use crate::stored::{LogStore, Store};
use base::{Ballot, Prefix, Rng, Slot};
use proto::disk::{DiskEvent, Entry, EntryHead, Flush};
use proto::durable::StateHead;
use std::collections::VecDeque;

/// What a log holds.
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

/// Space is given back in pieces of so many slots.
const PIECE: u64 = 8;

impl Content {
    fn end(&self) -> u64 {
        self.start + self.entries.len() as u64
    }

    /// Whether `log` holds this, but for what it may have let go of.
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

/// The simulated disk of one node, over all its lives.
#[derive(Default)]
pub struct Disk {
    /// The log that ships, where it is under test.
    log: Option<Box<dyn LogStore>>,
    /// A snapshot covers everything below: the log may let go of it.
    freed: u64,
    /// As the present life sees it.
    live: Content,
    /// As it is after a power cut, at least.
    stable: Content,
    /// The difference, in order.
    pending: VecDeque<Record>,
    /// Flushes under way, each with the number of records ever asked that it covers.
    flushes: VecDeque<(Flush, u64)>,
    n_asked: u64,
    n_stable: u64,
    n_flushes: u64,
    /// Flushes whose completion is not planned yet.
    n_unplanned: usize,
    /// For the machine, when its loop runs next.
    pub(crate) events: Vec<DiskEvent>,
    /// How many faults keep flushes from completing.
    pub(crate) n_holds: u32,
    pub(crate) is_full: bool,
    pub(crate) is_stalled: bool,
    /// The last durable snapshot, if there is one.
    pub(crate) snapshot: Option<(Kv, Prefix, Option<StateHead>)>,
}

impl Disk {
    pub(crate) fn new(store: Store) -> Disk {
        Disk { log: store.make(), ..Disk::default() }
    }

    /// A process starts on what is left of an earlier life.
    pub(crate) fn revive(&mut self, rng: &mut Rng) -> Result<(), String> {
        let Some(log) = &mut self.log else { return Ok(()) };
        log.revive(rng)?;
        // I3: the longest prefix that it can be.
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
            return Err(format!(
                "its log holds {} to {}: not what was synced, up to {}, and some of what was asked \
                 then",
                log.start(),
                log.end(),
                self.stable.end()
            ));
        };
        self.live = content;
        self.pending.truncate(n);
        self.n_asked = self.n_stable + n as u64;
        Ok(())
    }

    fn ask(&mut self, record: Record) {
        self.live.apply(&record);
        self.pending.push_back(record);
        self.n_asked += 1;
    }

    /// What survives a power cut now, at least, as entries or in the state of a snapshot.
    pub(crate) fn durable(&self) -> Prefix {
        let covered = self.snapshot.as_ref().map_or(Prefix::ZERO, |(_, prefix, _)| *prefix);
        covered.max(Prefix(self.stable.end()))
    }

    /// Whether everything below `prefix`, its last entry made under `ballot`, survives a power
    /// cut: as far as the log reaches that slot, else by the snapshot.
    pub(crate) fn holds(&self, prefix: Prefix, ballot: Option<Ballot>) -> bool {
        let snapshot = self.snapshot.as_ref().map_or(Prefix::ZERO, |(_, at, _)| *at);
        let in_log = || {
            let at = prefix.0.checked_sub(1)?.checked_sub(self.stable.start)?;
            self.stable.entries.get(at as usize).map(|(head, _)| head.ballot)
        };
        snapshot >= prefix || in_log().is_some_and(|own| ballot.is_none_or(|of| of == own))
    }

    /// Nothing was ever made durable here, and nothing can have left.
    pub(crate) fn is_blank(&self) -> bool {
        self.live.meta.is_empty()
    }

    /// How many flushes were asked for since the last call.
    pub(crate) fn take_unplanned(&mut self) -> usize {
        std::mem::take(&mut self.n_unplanned)
    }

    /// The oldest flush under way comes to its end, unless something holds it.
    pub(crate) fn complete(&mut self) -> bool {
        if self.n_holds > 0 {
            return false;
        }
        let Some((flush, n_covered)) = self.flushes.pop_front() else { return false };
        if let Some(log) = &mut self.log {
            log.work();
        }
        self.settle(n_covered.saturating_sub(self.n_stable) as usize);
        self.events.push(DiskEvent::Synced(flush));
        true
    }

    /// So many more records are durable.
    fn settle(&mut self, n: usize) {
        for record in self.pending.drain(..n) {
            self.stable.apply(&record);
            self.n_stable += 1;
        }
    }

    /// The process dies: what it had handed over may be in the page cache, or not.
    pub(crate) fn lose_process(&mut self, rng: &mut Rng) {
        self.flushes.clear();
        self.events.clear();
        self.n_unplanned = 0;
        if let Some(log) = &mut self.log {
            return log.die();
        }
        let kept = rng.below(self.pending.len() as u64 + 1) as usize;
        self.pending.truncate(kept);
        self.live = self.stable.clone();
        for record in &self.pending {
            self.live.apply(record);
        }
        self.n_asked = self.n_stable + kept as u64;
    }

    /// The power fails: what was written back before stays.
    pub(crate) fn lose_power(&mut self, rng: &mut Rng) {
        self.lose_process(rng);
        if let Some(log) = &mut self.log {
            return log.lose_power(rng);
        }
        let written = rng.below(self.pending.len() as u64 + 1) as usize;
        self.settle(written);
        self.pending.clear();
        self.live = self.stable.clone();
        self.n_asked = self.n_stable;
    }
}

impl proto::disk::Disk for Disk {
    fn append(&mut self, entry: Entry<'_>) {
        if let Some(log) = &mut self.log {
            log.append(entry);
        }
        self.ask(Record::Append(entry.head, entry.payload.to_vec()));
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
        self.n_flushes += 1;
        self.n_unplanned += 1;
        let flush = Flush(self.n_flushes);
        self.flushes.push_back((flush, self.n_asked));
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
            // It gives back whole files, when it likes: here everything is kept to judge it.
            self.freed = self.freed.max(slot.0);
            return log.free_below(slot);
        }
        self.ask(Record::FreeBelow(slot.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Ballot;
    use proto::disk::Disk as _;

    fn append(disk: &mut Disk, n: u64) {
        for _ in 0..n {
            let head = EntryHead { slot: disk.end(), ballot: Ballot(1), view: 0 };
            disk.append(Entry { head, payload: &[head.slot.0 as u8] });
        }
    }

    #[test]
    fn i1_what_was_reported_survives_and_the_rest_survives_in_order() {
        let mut ends = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let mut disk = Disk::default();
            append(&mut disk, 4);
            disk.put_meta(b"old");
            let flush = disk.sync();
            append(&mut disk, 3);
            disk.put_meta(b"new");
            assert!(disk.complete());
            assert_eq!(disk.events, [DiskEvent::Synced(flush)]);
            if seed % 2 == 0 {
                disk.lose_power(&mut rng)
            } else {
                disk.lose_process(&mut rng)
            }
            assert!((4..=7).contains(&disk.end().0));
            assert!(disk.meta() == b"old" || disk.end() == Slot(7));
            let mut payload = Vec::new();
            disk.read(Slot(3), &mut payload).expect("it was reported");
            assert_eq!(payload, [3]);
            ends.insert(disk.end().0);
        }
        assert_eq!(ends.len(), 4, "every prefix may be what is left");
    }

    #[test]
    fn i2_what_a_dead_process_left_is_not_durable_yet() {
        let mut rng = Rng::new(3);
        let mut disk = Disk::default();
        let mut lost = false;
        append(&mut disk, 1);
        for _ in 0..20 {
            append(&mut disk, 3);
            disk.lose_process(&mut rng);
            let left = disk.end();
            disk.lose_power(&mut rng);
            lost |= disk.end() < left;
        }
        assert!(lost);
    }

    #[test]
    fn a_held_disk_completes_nothing() {
        let mut disk = Disk::default();
        append(&mut disk, 1);
        disk.sync();
        disk.n_holds = 1;
        assert!(!disk.complete());
        disk.n_holds = 0;
        assert!(disk.complete() && !disk.complete());
    }

    #[test]
    fn a_log_that_begins_later_has_nothing_before() {
        let mut disk = Disk::default();
        append(&mut disk, 20);
        disk.cut(Slot(18));
        disk.free_below(Slot(13));
        assert_eq!((disk.start(), disk.end()), (Slot(8), Slot(18)));
        assert_eq!(disk.head(Slot(7)), None);
        disk.begin_at(Slot(50));
        assert_eq!((disk.start(), disk.end()), (Slot(50), Slot(50)));
    }
}
