//! Stable storage as a machine uses it: one stream of records, synced at intervals.
//!
//! A machine's requests to its disk (entries, cuts, metas) are one stream of records, in the order
//! of the requests, so one sync covers them all.
//!
//! - D1 After a crash or a power cut the disk holds a prefix of that stream, and that prefix holds
//!   everything that a reported flush covers.
//! - D2 Nothing here waits: [`Disk::sync`] is answered later, by [`DiskEvent::Synced`]. Flushes are
//!   answered in order; one answer may stand for all before it.
//! - D3 The effect of a request shows at once ([`Disk::end`], [`Disk::read`], [`Disk::meta`]),
//!   synced or not.
//! - D4 A machine appends no entry whose payload is longer than [`Disk::room`] at that moment; an
//!   empty one, of which each term has one, always fits. So the data that waits for a disk is
//!   bounded by what the disk has synced, however long it stands still. The host asserts it in
//!   [`Disk::append`].
//! - D5 Between its start and its end a disk returns the entries that it holds ([`Disk::read`]),
//!   unless it has failed: then the process ends before any consequence of it leaves.

mod trouble;

pub(crate) use trouble::TOLERATED_MAX;
pub use trouble::Trouble;

use alloc::vec::Vec;
use base::{Ballot, Slot};

/// A request to make everything durable that was requested before it. Numbers rise in one life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flush(pub u64);

/// The head of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryHead {
    /// The slot of the entry.
    pub slot: Slot,
    /// The ballot of the leader that made it, which never changes.
    pub ballot: Ballot,
    /// A word of the machine's own: the disk keeps and returns it unchanged.
    pub view: u64,
}

/// An entry of the log.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The head of the payload.
    pub head: EntryHead,
    /// The value.
    pub payload: &'a [u8],
}

/// The longest [`Disk::put_meta`].
pub const META_BYTES_MAX: usize = 4096;

/// A machine's log and its few other durable words. See the module's text.
pub trait Disk {
    /// Adds an entry at the end: its slot is [`Disk::end`].
    fn append(&mut self, entry: Entry<'_>);

    /// The bytes of payload that the next entry may have (D4). It grows when something has become
    /// durable.
    fn room(&self) -> usize;

    /// Removes the entries from `end` on.
    fn cut(&mut self, end: Slot);

    /// Empties the log, whose next entry is then `slot`: a durable state covers everything below.
    fn begin_at(&mut self, slot: Slot);

    /// Replaces the last meta. The length is at most [`META_BYTES_MAX`].
    fn put_meta(&mut self, meta: &[u8]);

    /// The last meta on the disk; empty if there was none.
    fn meta(&self) -> &[u8];

    /// Requests that everything so far becomes durable.
    fn sync(&mut self) -> Flush;

    /// Copies the payload of an entry into `into`, which it clears first.
    fn read(&mut self, slot: Slot, into: &mut Vec<u8>) -> Option<EntryHead>;

    /// The head of an entry.
    fn head(&self, slot: Slot) -> Option<EntryHead>;

    /// The first entry that the disk holds, or [`Disk::end`] for an empty log.
    fn start(&self) -> Slot;

    /// The slot after the last entry.
    fn end(&self) -> Slot;

    /// Allows the reuse of the space below `slot`, which a durable state covers, once everything
    /// that was requested before is durable. (The disk decides how much of it is reused, and when:
    /// see [`Disk::start`].)
    fn free_below(&mut self, slot: Slot);
}

/// The report of a disk. An error on a sync is not among them: it ends the process, since the
/// disk's content is unknown then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskEvent {
    /// Everything that was requested before this flush was requested is durable.
    Synced(Flush),
    /// There is no room: nothing more becomes durable until [`DiskEvent::Room`]. Requests are kept
    /// meanwhile, so only a few more should be made.
    Full,
    /// There is room again.
    Room,
    /// A sync takes very long. A host says so of each one that does: a machine waits for its disk
    /// without a time of its own.
    Stalled,
    /// The slow sync has ended.
    Flowing,
}

/// The disk of a host that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoDisk {}

impl Disk for NoDisk {
    fn append(&mut self, _: Entry<'_>) {
        match *self {}
    }
    fn room(&self) -> usize {
        match *self {}
    }
    fn cut(&mut self, _: Slot) {
        match *self {}
    }
    fn begin_at(&mut self, _: Slot) {
        match *self {}
    }
    fn put_meta(&mut self, _: &[u8]) {
        match *self {}
    }
    fn meta(&self) -> &[u8] {
        match *self {}
    }
    fn sync(&mut self) -> Flush {
        match *self {}
    }
    fn read(&mut self, _: Slot, _: &mut Vec<u8>) -> Option<EntryHead> {
        match *self {}
    }
    fn head(&self, _: Slot) -> Option<EntryHead> {
        match *self {}
    }
    fn start(&self) -> Slot {
        match *self {}
    }
    fn end(&self) -> Slot {
        match *self {}
    }
    fn free_below(&mut self, _: Slot) {
        match *self {}
    }
}
