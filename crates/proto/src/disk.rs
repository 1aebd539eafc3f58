//! Stable storage as a machine sees it: one stream of records, synced now and then.
//!
//! Everything that a machine asks of its disk (entries, cuts, metas) is one stream of records, in
//! the order of asking, so one sync covers all of it.
//!
//! - D1 After a crash or a power cut the disk holds a prefix of that stream, and that prefix holds
//!   everything that a reported flush covers.
//! - D2 Nothing here waits: [`Disk::sync`] is answered later, by [`DiskEvent::Synced`]. Flushes are
//!   answered in order; one answer may stand for all before it.
//! - D3 What was asked shows at once ([`Disk::end`], [`Disk::read`], [`Disk::meta`]), synced or
//!   not.
//! - D4 A machine appends no entry whose payload is longer than [`Disk::room`] at that moment; an
//!   empty one, of which each term has one, always fits. So what waits for a disk is bounded by
//!   what the disk has synced, however long it stands still. The host asserts it in
//!   [`Disk::append`].
//! - D5 Between its start and its end a disk gives what it holds ([`Disk::read`]), unless it has
//!   failed: then the process ends before anything that follows from it leaves.

use alloc::vec::Vec;
use base::{Ballot, Slot};

/// A request to make everything durable that was asked before it. Numbers rise in one life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flush(pub u64);

/// What stands before an entry's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryHead {
    /// Where it stands.
    pub slot: Slot,
    /// The ballot of the leader that made it: it keeps that for ever.
    pub ballot: Ballot,
    /// The machine's own: kept and handed back as it is.
    pub view: u64,
}

/// An entry of the log.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// What stands before the payload.
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

    /// Bytes of payload that the next entry may have (D4). More when something has become durable.
    fn room(&self) -> usize;

    /// Entries from `end` on are no more.
    fn cut(&mut self, end: Slot);

    /// The log is empty, and its next entry is `slot`: a durable state covers everything below.
    fn begin_at(&mut self, slot: Slot);

    /// Replaces the last one. At most [`META_BYTES_MAX`].
    fn put_meta(&mut self, meta: &[u8]);

    /// The last [`Disk::put_meta`] that is left; empty if there was none.
    fn meta(&self) -> &[u8];

    /// Asks that everything so far becomes durable.
    fn sync(&mut self) -> Flush;

    /// Copies the payload of an entry into `into`, which it clears first.
    fn read(&mut self, slot: Slot, into: &mut Vec<u8>) -> Option<EntryHead>;

    /// What stands before the payload of an entry.
    fn head(&self, slot: Slot) -> Option<EntryHead>;

    /// The first entry that is held, or [`Disk::end`] if there is none.
    fn start(&self) -> Slot;

    /// One past the last entry.
    fn end(&self) -> Slot;

    /// A durable state covers everything below: that space may be used again, once everything that
    /// was asked before is durable. (How much of it is, and when, is the disk's affair: see
    /// [`Disk::start`].)
    fn free_below(&mut self, slot: Slot);
}

/// What a disk reports. An error on a sync is none of these: it ends the process, since nobody
/// knows what is on the disk then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskEvent {
    /// Everything that was asked before this flush was asked for is durable.
    Synced(Flush),
    /// There is no room: nothing more becomes durable until [`DiskEvent::Room`]. What was asked is
    /// kept meanwhile, so little more should be asked.
    Full,
    /// There is room again.
    Room,
    /// A sync takes very long.
    Stalled,
    /// It has come to its end.
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
