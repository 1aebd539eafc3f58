//! The store: what a replica holds, as a function of the commands that were applied to it.
//!
//! Two replicas that apply the same commands hold the same store, byte for byte in a snapshot. So
//! there is no clock here (state time is the largest stamp applied, [`Store::advance_time`]), no
//! randomness (a command that needs some brings a seed) and no order that a hash map chose.
//!
//! - I1 a key is *live* while its expiry is above state time. A key that is due but still there is
//!   invisible to every command. By construction: commands reach entries through `live`,
//!   and a writer that meets a due entry treats it as absent. Tests `i1_...`.
//! - I2 [`Store::version`] of a key changes whenever the key is created, changed, deleted or
//!   expires. Versions are values of one counter that only grows; a deleted key leaves its value in
//!   one of [`DELETION_BUCKETS`] words, so an absent key that was there in between differs too. A
//!   watcher of an absent key may see a change that concerned another: a false abort, rare, and
//!   never a false commit. Test `i2_versions_change`.
//! - I3 the expiry index holds exactly the (expiry, position) pairs of entries that expire, and
//!   `used_bytes` is the sum over all entries. Checked by [`Store::check`] after random histories.
//! - I4 a read changes nothing. By type: it gets `&Store`.

mod frozen;
mod lend;
mod table;
mod transfer;

pub use transfer::{Counters, EntryRef, RestoreError};

use std::collections::BTreeSet;

pub(crate) use table::{Entry, Key, NEVER, position_of};
use table::{Table, Walk};

/// The longest key.
pub const KEY_BYTES_MAX: usize = 16 << 10;

/// The longest value. It follows from the sizes of the log: a command is one entry of it.
pub const VALUE_BYTES_MAX: usize = 512 << 10;

/// No call to [`Store::advance_time`] removes more keys, so that a million keys with one expiry do
/// not stop the replica; the others are invisible until their turn comes.
pub const EXPIRY_BATCH_MAX: usize = 64;

/// Words that remember deletions; the chance that a watcher of an absent key is disturbed by the
/// deletion of another is one in this many.
pub const DELETION_BUCKETS: usize = 4096;

/// What an entry costs beside its bytes: its record, its share of the table, allocator overhead.
/// One constant rather than the allocator's truth, because the limit must bite at the same command
/// on every replica.
pub const ENTRY_BYTES: u64 = 128;

/// What an expiry costs.
pub const EXPIRY_BYTES: u64 = 32;

/// The keys and values of one replica.
#[derive(Clone, Debug)]
pub struct Store {
    table: Table,
    /// (expiry, position) of the entries that expire (I3).
    expiries: BTreeSet<(u64, u64)>,
    /// State time: the largest stamp applied, Unix milliseconds.
    now_ms: u64,
    /// Counts changes; the source of versions (I2). Zero is never a present key's version.
    changes: u64,
    /// What `changes` began with: 0, but for a store of lent entries (`lend`).
    first_change: u64,
    /// The count at the last deletion, by the low bits of the position (I2).
    deletions: Box<[u64]>,
    used_bytes: u64,
    /// Zero means without limit. The same at every replica, or they would refuse different writes.
    memory_bytes_max: u64,
    /// A transaction is being executed, which was admitted whole; never between two.
    admits_growth: bool,
}

/// What becomes of a key's expiry when a value is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expiry {
    /// The key stays for ever.
    Clear,
    /// As it was.
    Keep,
    /// It ends at this Unix time in milliseconds.
    At(u64),
}

impl Store {
    /// An empty store. `memory_bytes_max` (zero: none) must be the same at every replica.
    pub fn new(memory_bytes_max: u64) -> Store {
        Store {
            table: Table::new(),
            expiries: BTreeSet::new(),
            now_ms: 0,
            changes: 0,
            first_change: 0,
            deletions: vec![0; DELETION_BUCKETS].into_boxed_slice(),
            used_bytes: 0,
            memory_bytes_max,
            admits_growth: false,
        }
    }

    /// Keys that are there, including those that are due and not yet removed, as Redis counts.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keys that have an expiry.
    pub fn expiring(&self) -> usize {
        // A collision of positions that expire together shares an element: too rare to be worth
        // a counter, and this number is only shown.
        self.expiries.len()
    }

    /// The bytes that the memory limit counts.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// The memory limit; zero means none.
    pub fn memory_bytes_max(&self) -> u64 {
        self.memory_bytes_max
    }

    /// Whether commands flagged `denyoom` are refused now.
    pub fn is_over_memory(&self) -> bool {
        let is_over = self.memory_bytes_max != 0 && self.used_bytes > self.memory_bytes_max;
        is_over && !self.admits_growth
    }

    /// Whether the limit is passed over: while a transaction is executed that was admitted.
    pub(crate) fn admit_growth(&mut self, admits: bool) {
        self.admits_growth = admits;
    }

    /// State time, Unix milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Raises state time to `unix_ms`, if that is later, and removes some of what is due.
    pub fn advance_time(&mut self, unix_ms: u64) {
        self.now_ms = self.now_ms.max(unix_ms);
        for _ in 0..EXPIRY_BATCH_MAX {
            let Some(&(expire_at, position)) = self.expiries.first() else { return };
            if expire_at > self.now_ms {
                return;
            }
            let due = self.table.at(position).find(|entry| entry.expire_at == expire_at);
            let key = due.expect("I3: the index names an entry").key.clone();
            self.discard(position, &key);
        }
    }

    /// Whether a read of `key` at `unix_ms` would find it expired, although it is live in state
    /// time: then a stamp has to be decided before the read may answer.
    pub fn would_expire(&self, key: &[u8], unix_ms: u64) -> bool {
        self.live(key).is_some_and(|entry| entry.expire_at <= unix_ms)
    }

    /// The same for a read of all keys (KEYS, SCAN, RANDOMKEY, DBSIZE).
    pub fn any_would_expire(&self, unix_ms: u64) -> bool {
        self.now_ms < unix_ms
            && self.expiries.range((self.now_ms + 1, 0)..=(unix_ms, u64::MAX)).next().is_some()
    }

    /// The Unix time in milliseconds at which the first key expires, which may have passed.
    pub fn next_expiry_ms(&self) -> Option<u64> {
        self.expiries.first().map(|&(expire_at, _)| expire_at)
    }

    /// The version of a key, for WATCH: equal versions mean that nothing happened to it (I2).
    pub fn version(&self, key: &[u8]) -> u64 {
        let position = position_of(key);
        match self.table.find(position, key) {
            Some(entry) if entry.expire_at > self.now_ms => entry.version,
            // Due, not yet removed: not the version of the live key any more.
            Some(entry) => entry.version | 1 << 63,
            None => self.deletions[deletion_bucket(position)],
        }
    }

    /// The live entry of a key (I1).
    pub(crate) fn live(&self, key: &[u8]) -> Option<&Entry> {
        self.table.find(position_of(key), key).filter(|entry| entry.expire_at > self.now_ms)
    }

    /// The live value of a key.
    pub(crate) fn value(&self, key: &[u8]) -> Option<&[u8]> {
        self.live(key).map(|entry| &entry.value[..])
    }

    /// The live entries from a position on, in order.
    pub(crate) fn walk_live(&self, position: u64) -> impl Iterator<Item = &Entry> {
        let walk: Walk<'_> = self.table.walk(position);
        walk.filter(|entry| entry.expire_at > self.now_ms)
    }

    /// Creates or replaces a key. With an expiry that is already past, the key is deleted instead.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8], expiry: Expiry) {
        assert!(value.len() <= VALUE_BYTES_MAX && key.len() <= KEY_BYTES_MAX, "checked before");
        let position = position_of(key);
        if let Expiry::At(at) = expiry
            && at <= self.now_ms
        {
            self.discard(position, key);
            return;
        }
        self.changes += 1;
        let (now_ms, version) = (self.now_ms, self.changes);
        let Some(entry) = self.table.find_mut(position, key) else {
            let expire_at = if let Expiry::At(at) = expiry { at } else { NEVER };
            self.add(Entry {
                position,
                key: Key::from_slice(key),
                value: value.to_vec(),
                expire_at,
                version,
            });
            return;
        };
        let old = entry.expire_at;
        let new = match expiry {
            Expiry::Keep if old > now_ms => old,
            Expiry::Keep | Expiry::Clear => NEVER,
            Expiry::At(at) => at,
        };
        self.used_bytes = self.used_bytes - entry.value.len() as u64 + value.len() as u64;
        // Room is reused, unless most of it would lie idle.
        if entry.value.capacity() / 4 > value.len() + 16 {
            entry.value = value.to_vec();
        } else {
            entry.value.clear();
            entry.value.extend_from_slice(value);
        }
        entry.version = version;
        entry.expire_at = new;
        self.move_expiry(position, old, new);
    }

    /// Changes the value of a live key in place, or that of a new, empty key; keeps the expiry.
    pub(crate) fn change<T>(&mut self, key: &[u8], change: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let position = position_of(key);
        let now_ms = self.now_ms;
        let live = |entry: &Entry| entry.expire_at > now_ms;
        if !self.table.find(position, key).is_some_and(live) {
            self.put(key, b"", Expiry::Clear);
        }
        self.changes += 1;
        let version = self.changes;
        let entry = self.table.find_mut(position, key).expect("live, or just created");
        let len = entry.value.len() as u64;
        let result = change(&mut entry.value);
        assert!(entry.value.len() <= VALUE_BYTES_MAX, "checked before");
        entry.version = version;
        self.used_bytes = self.used_bytes - len + entry.value.len() as u64;
        result
    }

    /// The same, where `change` may find that there is nothing to change: it answers whether it did.
    /// Only then, and for a new key, does the version change.
    pub(crate) fn change_if<T>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut Vec<u8>) -> (T, bool),
    ) -> T {
        let is_new = self.live(key).is_none();
        if is_new {
            self.put(key, b"", Expiry::Clear);
        }
        let version = self.changes + 1;
        let entry = self.table.find_mut(position_of(key), key).expect("live, or just created");
        let len = entry.value.len() as u64;
        let (result, has_changed) = change(&mut entry.value);
        assert!(entry.value.len() <= VALUE_BYTES_MAX, "checked before");
        if has_changed && !is_new {
            entry.version = version;
            self.changes = version;
        }
        self.used_bytes = self.used_bytes - len + entry.value.len() as u64;
        result
    }

    /// Sets the expiry of a live key, [`NEVER`] for none; one that is past deletes it.
    pub(crate) fn set_expiry(&mut self, key: &[u8], expire_at: u64) {
        let position = position_of(key);
        if expire_at <= self.now_ms {
            self.discard(position, key);
            return;
        }
        self.changes += 1;
        let entry = self.table.find_mut(position, key).expect("the caller found it live");
        let old = std::mem::replace(&mut entry.expire_at, expire_at);
        entry.version = self.changes;
        self.move_expiry(position, old, expire_at);
    }

    /// Deletes a key; its entry if it was live.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<Entry> {
        let entry = self.discard(position_of(key), key)?;
        (entry.expire_at > self.now_ms).then_some(entry)
    }

    /// Deletes every key.
    pub(crate) fn clear(&mut self) {
        if self.is_empty() {
            return;
        }
        self.changes += 1;
        // Every key that was there must look changed (I2), and which they were is not worth a walk.
        self.deletions.fill(self.changes);
        self.table = Table::new();
        self.expiries.clear();
        self.used_bytes = 0;
    }

    /// Removes an entry, live or due.
    fn discard(&mut self, position: u64, key: &[u8]) -> Option<Entry> {
        let entry = self.take_out(position, key)?;
        self.changes += 1;
        self.deletions[deletion_bucket(position)] = self.changes;
        Some(entry)
    }

    /// The same, and leaves no trace of it.
    fn take_out(&mut self, position: u64, key: &[u8]) -> Option<Entry> {
        let entry = self.table.remove(position, key)?;
        self.used_bytes -= cost(&entry) - if entry.expire_at == NEVER { 0 } else { EXPIRY_BYTES };
        self.move_expiry(position, entry.expire_at, NEVER);
        Some(entry)
    }

    /// Adds an entry for a key that is not there.
    fn add(&mut self, entry: Entry) {
        let (position, expire_at) = (entry.position, entry.expire_at);
        self.used_bytes += cost(&entry);
        self.table.insert(entry);
        if expire_at != NEVER {
            self.expiries.insert((expire_at, position));
        }
    }

    /// Keeps the index (I3) and the accounting in step when an entry's expiry went from `old` to
    /// `new` or the entry was removed.
    fn move_expiry(&mut self, position: u64, old: u64, new: u64) {
        if old == new {
            return;
        }
        if old != NEVER {
            self.used_bytes -= EXPIRY_BYTES;
            // Another key of the same position may expire at the same time.
            if !self.table.at(position).any(|entry| entry.expire_at == old) {
                self.expiries.remove(&(old, position));
            }
        }
        if new != NEVER {
            self.used_bytes += EXPIRY_BYTES;
            self.expiries.insert((new, position));
        }
    }

    /// Asserts I3 by looking at every entry; for tests and the simulator.
    pub fn check(&self) {
        let mut used_bytes = 0;
        let mut expiries = BTreeSet::new();
        for entry in self.table.walk(0) {
            used_bytes += cost(entry);
            if entry.expire_at != NEVER {
                expiries.insert((entry.expire_at, entry.position));
            }
            assert!(entry.version <= self.changes, "I2: versions come from the counter");
        }
        assert_eq!(used_bytes, self.used_bytes, "I3: bytes");
        assert_eq!(expiries, self.expiries, "I3: expiries");
    }
}

fn cost(entry: &Entry) -> u64 {
    let expiry = if entry.expire_at == NEVER { 0 } else { EXPIRY_BYTES };
    ENTRY_BYTES + expiry + entry.key.len() as u64 + entry.value.len() as u64
}

fn deletion_bucket(position: u64) -> usize {
    position as usize % DELETION_BUCKETS
}

#[cfg(test)]
mod tests;
