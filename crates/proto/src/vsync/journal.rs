//! What a member of a durable group writes to its disk: one stream of records, and how much of it
//! is synced.
//!
//! - J1 *In order.* Records reach the disk in the order in which they were put, so that a crash
//!   leaves a prefix of them (`disk`, D1): where a record is, all before it are. By construction:
//!   `write` takes them from the front of one queue.
//! - J2 *Synced is reported.* [`Journal::is_synced`] says so of a record alone that a flush covers
//!   which the disk has reported. By construction: `on_event`.
//! - J3 *Bounds.* Messages are put only while less than [`QUEUE_BYTES_MAX`] wait for room on the
//!   disk (D4); what else is put is bounded by a state's length, and a few records a view.
//!
//! A group in memory has a journal that keeps nothing: everything counts as synced at once.

use crate::disk::{Disk, DiskEvent, Entry, EntryHead, Flush};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use base::{Ballot, Slot};

/// The bytes that wait for room on the disk above which no message is put.
const QUEUE_BYTES_MAX: usize = 4 << 20;
/// The most flushes that are under way: while one syncs, the next one gathers records.
const N_FLUSHES_MAX: usize = 2;

/// The ordinal of a record in one life of a process, from 1. Zero stands for none, which is synced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Record(pub(super) u64);

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Journal {
    keeps: bool,
    /// The slot of the first record of this life.
    first: Slot,
    queue: VecDeque<Vec<u8>>,
    n_queued_bytes: usize,
    /// The bytes of records that are in the log or were: without states, and what is put beside
    /// these.
    n_bytes: u64,
    n_put: u64,
    n_appended: u64,
    n_synced: u64,
    /// The flushes under way, with the number of records that each covers.
    flushes: VecDeque<(Flush, u64)>,
    /// The first record that is needed, if those before it were not freed yet.
    needed: Option<Record>,
}

impl Journal {
    /// One that writes at the end of `disk`.
    pub(super) fn on(disk: &impl Disk) -> Journal {
        Journal { keeps: true, first: disk.end(), ..Journal::default() }
    }

    /// Takes it that so many bytes were found on the disk, without states.
    pub(super) const fn note_found(&mut self, n_bytes: u64) {
        self.n_bytes = n_bytes;
    }

    /// Whether there is a disk.
    pub(super) const fn keeps(&self) -> bool {
        self.keeps
    }

    /// Puts a record behind all others.
    pub(super) fn put(&mut self, bytes: impl FnOnce() -> Vec<u8>) -> Record {
        let before = self.n_queued_bytes;
        let record = self.put_covering(bytes);
        self.n_bytes += (self.n_queued_bytes - before) as u64;
        record
    }

    /// Puts a record of what is kept so that others can be freed. It does not count among
    /// [`Journal::n_bytes`]: or states would be kept since states were, without end.
    pub(super) fn put_covering(&mut self, bytes: impl FnOnce() -> Vec<u8>) -> Record {
        if !self.keeps {
            return Record(0);
        }
        let bytes = bytes();
        self.n_queued_bytes += bytes.len();
        self.queue.push_back(bytes);
        self.n_put += 1;
        Record(self.n_put)
    }

    /// The bytes of the records that were put, and found before.
    pub(super) const fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// J3
    pub(super) const fn has_room(&self) -> bool {
        self.n_queued_bytes < QUEUE_BYTES_MAX
    }

    /// The record that is put next.
    pub(super) const fn next(&self) -> Record {
        Record(self.n_put + 1)
    }

    /// The record that was put last.
    pub(super) const fn last(&self) -> Record {
        Record(self.n_put)
    }

    /// J2
    pub(super) const fn is_synced(&self, record: Record) -> bool {
        record.0 <= self.n_synced
    }

    /// Whether everything is.
    pub(super) const fn is_idle(&self) -> bool {
        self.n_put == self.n_synced
    }

    /// Frees what lies before `record`, once everything that was put is on the disk.
    pub(super) fn free_before(&mut self, record: Record) {
        self.needed = Some(record);
    }

    /// Appends as much as there is room for, and asks for a sync of it.
    pub(super) fn write(&mut self, disk: &mut impl Disk) {
        while let Some(bytes) = self.queue.front().filter(|bytes| bytes.len() <= disk.room()) {
            let head = EntryHead { slot: disk.end(), ballot: Ballot::NONE, view: 0 };
            disk.append(Entry { head, payload: bytes });
            self.n_queued_bytes -= bytes.len();
            self.queue.pop_front();
            self.n_appended += 1;
        }
        if let Some(record) = self.needed.take_if(|_| self.queue.is_empty()) {
            disk.free_below(Slot(self.first.0 + record.0.saturating_sub(1)));
        }
        let n_asked = self.flushes.back().map_or(self.n_synced, |(_, n)| *n);
        if n_asked < self.n_appended && self.flushes.len() < N_FLUSHES_MAX {
            self.flushes.push_back((disk.sync(), self.n_appended));
        }
    }

    /// Takes what a disk reports.
    pub(super) fn on_event(&mut self, event: DiskEvent) {
        if let DiskEvent::Synced(flush) = event {
            while let Some((_, n)) = self.flushes.pop_front_if(|(asked, _)| *asked <= flush) {
                self.n_synced = n;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::disk::TestDisk;

    #[test]
    fn j2_a_record_is_synced_when_the_disk_has_reported_a_flush_that_covers_it() {
        let mut disk = TestDisk::default();
        let mut journal = Journal::on(&disk);
        let first = journal.put(|| b"one".to_vec());
        assert!(!journal.is_synced(first) && journal.is_synced(Record(0)));
        journal.write(&mut disk);
        let second = journal.put(|| b"two".to_vec());
        let flush = disk.end_sync().expect("a sync was asked for");
        journal.on_event(DiskEvent::Synced(flush));
        assert!(journal.is_synced(first) && !journal.is_synced(second));
        journal.write(&mut disk);
        disk.lose_unsynced();
        assert_eq!(disk.end(), Slot(1), "the second one is lost, and was not said to be synced");
    }

    #[test]
    fn j3_what_has_no_room_waits_in_order() {
        let mut disk = TestDisk::default();
        let mut journal = Journal::on(&disk);
        let long = journal.put(|| alloc::vec![7; 4000]);
        let next = journal.put(|| alloc::vec![8; 4000]);
        journal.write(&mut disk);
        assert_eq!(disk.end(), Slot(1));
        let flush = disk.end_sync().expect("a sync was asked for");
        journal.on_event(DiskEvent::Synced(flush));
        journal.write(&mut disk);
        assert_eq!(disk.end(), Slot(2));
        assert!(journal.is_synced(long) && !journal.is_synced(next));
        let none = Journal::default().put(|| panic!("nothing is kept in memory"));
        assert!(Journal::default().is_synced(none));
    }
}
