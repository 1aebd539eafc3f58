//! A disk in memory, for tests.

use base::{Ballot, Slot};
use proto::disk::{Disk, DiskEvent, Entry, EntryHead, Flush};
use std::collections::VecDeque;

/// The bytes that may wait for it.
const ROOM: usize = 1 << 20;

/// The disk of the text above, which syncs when a test says so.
#[derive(Clone)]
pub(crate) struct Paper {
    pub(crate) start: u64,
    pub(crate) entries: VecDeque<Vec<u8>>,
    pub(crate) n_flushes: u64,
    pub(crate) room: usize,
}

impl Default for Paper {
    fn default() -> Paper {
        Paper { start: 0, entries: VecDeque::new(), n_flushes: 0, room: ROOM }
    }
}

impl Paper {
    /// Syncs everything that was asked for.
    pub(crate) fn sync_now(&mut self) -> DiskEvent {
        self.room = ROOM;
        DiskEvent::Synced(Flush(self.n_flushes))
    }
}

impl Disk for Paper {
    fn append(&mut self, entry: Entry<'_>) {
        assert!(entry.payload.len() <= self.room, "D4");
        assert_eq!(entry.head.slot, self.end());
        self.room -= entry.payload.len();
        self.entries.push_back(entry.payload.to_vec());
    }

    fn room(&self) -> usize {
        self.room
    }

    fn cut(&mut self, _: Slot) {}

    fn begin_at(&mut self, _: Slot) {}

    fn put_meta(&mut self, _: &[u8]) {}

    fn meta(&self) -> &[u8] {
        &[]
    }

    fn sync(&mut self) -> Flush {
        self.n_flushes += 1;
        Flush(self.n_flushes)
    }

    fn read(&mut self, slot: Slot, into: &mut Vec<u8>) -> Option<EntryHead> {
        into.clone_from(self.entries.get(slot.0.checked_sub(self.start)? as usize)?);
        Some(EntryHead { slot, ballot: Ballot::NONE, view: 0 })
    }

    fn head(&self, _: Slot) -> Option<EntryHead> {
        None
    }

    fn start(&self) -> Slot {
        Slot(self.start)
    }

    fn end(&self) -> Slot {
        Slot(self.start + self.entries.len() as u64)
    }

    fn free_below(&mut self, slot: Slot) {
        self.entries.drain(..(slot.0 - self.start) as usize);
        self.start = slot.0;
    }
}
