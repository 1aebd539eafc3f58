//! A disk whose syncs end when a test allows it.

use crate::disk::{Disk, Entry, EntryHead, Flush};
use alloc::vec::Vec;
use base::Slot;

#[derive(Clone, Debug, Default)]
struct Content {
    start: u64,
    entries: Vec<(EntryHead, Vec<u8>)>,
    meta: Vec<u8>,
}

/// A disk whose syncs end when the test allows it.
#[derive(Clone, Debug, Default)]
pub(crate) struct TestDisk {
    live: Content,
    stable: Content,
    /// The syncs under way, each with what it makes stable and how much of that was not before.
    under_way: Vec<(Flush, Content, usize)>,
    pub(crate) n_flushes: u64,
    pub(crate) is_held: bool,
    pub(crate) damaged: Option<Slot>,
    /// The bytes of payload that no sync has covered.
    unsynced_bytes: usize,
    /// The number of requests after which the process dies; `None` if it lives.
    pub(crate) requests_left: Option<usize>,
}

/// The most bytes that may wait for a disk (D4).
const UNSYNCED_BYTES_MAX: usize = 4096;

impl TestDisk {
    fn at(&self, slot: Slot) -> Option<&(EntryHead, Vec<u8>)> {
        self.live.entries.get(slot.0.checked_sub(self.live.start)? as usize)
    }

    /// The oldest sync under way.
    pub(crate) fn next_sync(&self) -> Option<Flush> {
        self.under_way.first().map(|(flush, ..)| *flush)
    }

    /// Ends the oldest sync, if the test does not hold it.
    pub(crate) fn end_sync(&mut self) -> Option<Flush> {
        if self.is_held || self.under_way.is_empty() {
            return None;
        }
        let (flush, content, n_bytes) = self.under_way.remove(0);
        self.stable = content;
        self.unsynced_bytes -= n_bytes;
        Some(flush)
    }

    /// Whether the process dies before it makes this request.
    fn is_late(&mut self) -> bool {
        let left = self.requests_left;
        self.requests_left = left.map(|left| left.saturating_sub(1));
        left == Some(0)
    }

    /// Loses what was not synced, as a power cut does.
    pub(crate) fn lose_unsynced(&mut self) {
        self.live = self.stable.clone();
        self.under_way.clear();
        self.unsynced_bytes = 0;
    }
}

impl Disk for TestDisk {
    fn append(&mut self, entry: Entry<'_>) {
        assert_eq!(entry.head.slot, self.end());
        let fits = self.unsynced_bytes + entry.payload.len() <= UNSYNCED_BYTES_MAX;
        assert!(fits, "D4: {} bytes wait for the disk", self.unsynced_bytes);
        self.unsynced_bytes += entry.payload.len();
        self.live.entries.push((entry.head, entry.payload.to_vec()));
    }
    fn room(&self) -> usize {
        UNSYNCED_BYTES_MAX - self.unsynced_bytes
    }
    fn cut(&mut self, end: Slot) {
        if self.is_late() {
            return;
        }
        self.live.entries.truncate((end.0 - self.live.start) as usize);
    }
    fn begin_at(&mut self, slot: Slot) {
        if self.is_late() {
            return;
        }
        self.live.entries.clear();
        self.live.start = slot.0;
    }
    fn put_meta(&mut self, meta: &[u8]) {
        if self.is_late() {
            return;
        }
        self.live.meta = meta.to_vec();
    }
    fn meta(&self) -> &[u8] {
        &self.live.meta
    }
    fn sync(&mut self) -> Flush {
        self.n_flushes += 1;
        let asked: usize = self.under_way.iter().map(|(.., n_bytes)| n_bytes).sum();
        let n_bytes = self.unsynced_bytes - asked;
        self.under_way.push((Flush(self.n_flushes), self.live.clone(), n_bytes));
        Flush(self.n_flushes)
    }
    fn read(&mut self, slot: Slot, into: &mut Vec<u8>) -> Option<EntryHead> {
        let (head, payload) = self.at(slot).filter(|_| self.damaged != Some(slot))?;
        into.clone_from(payload);
        Some(*head)
    }
    fn head(&self, slot: Slot) -> Option<EntryHead> {
        self.at(slot).map(|(head, _)| *head)
    }
    fn start(&self) -> Slot {
        Slot(self.live.start)
    }
    fn end(&self) -> Slot {
        Slot(self.live.start + self.live.entries.len() as u64)
    }
    fn free_below(&mut self, slot: Slot) {
        self.live.entries.drain(..(slot.0 - self.live.start) as usize);
        self.live.start = slot.0;
    }
}
