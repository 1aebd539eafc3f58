//! The store: the data of a replica, as a function of the commands that were applied to it.
//!
//! Two replicas that apply the same commands hold the same store, byte for byte in a snapshot. So
//! the store has no clock (state time is the largest stamp applied, [`Store::advance_time`]), no
//! randomness (a command that needs some carries a seed) and no order that depends on a hash map.
//!
//! - I1 a key is *live* while its expiry is above state time. A key that has expired and is not
//!   removed yet is invisible to every command. By construction: commands reach entries through
//!   `live`, and a writer that meets an expired entry treats it as absent. Tests `i1_...`.
//! - I2 [`Store::version`] of a key changes whenever the key is created, changed, deleted or
//!   expires. Versions are values of one counter that only grows; a deleted key leaves its value in
//!   one of [`DELETION_BUCKETS`] words, so the version of an absent key that existed in between
//!   differs too. A watcher of an absent key may see a change that concerned another key: a false
//!   abort, rare, and never a false commit. Test `i2_versions_change`.
//! - I3 the expiry index holds exactly the (expiry, position) pairs of entries that expire, and
//!   `used_bytes` is the sum over all entries. Checked by [`Store::check`] after random histories.
//! - I5 a change in one database is not visible in another: every access names its own ([`DbKey`]).
//!   By type; test `i5_databases_are_apart`.
//! - I4 a read changes nothing. By type: it gets `&Store`.

mod database;
mod frozen;
mod lend;
mod published;
pub(crate) mod scripts;
mod table;
mod transfer;

pub use database::{DATABASES, Db, DbKey};
pub use published::{PUBLISHED_BYTES_MAX, Published};
pub use transfer::{Counters, EntryRef, RestoreError};

use std::collections::BTreeSet;

use database::Keyspace;
pub(crate) use published::Outbox;
use scripts::Scripts;
pub(crate) use table::{Entry, Key, NEVER, position_of};
use table::{Table, Walk};

/// The longest key.
pub const KEY_BYTES_MAX: usize = 16 << 10;

/// The longest value. It follows from the sizes of the log: a command is one entry.
pub const VALUE_BYTES_MAX: usize = 512 << 10;

/// The most keys that one call to [`Store::advance_time`] removes, so that a million keys with one
/// expiry do not stop the replica; the others are invisible until they are removed.
pub const EXPIRY_BATCH_MAX: usize = 64;

/// The most keys that a value without commands removes beside those.
pub const EXPIRY_TICK_MAX: u64 = 512;

/// The number of words that remember deletions; the chance that the deletion of another key
/// disturbs a watcher of an absent key is one in this number.
pub const DELETION_BUCKETS: usize = 4096;

/// The cost of an entry beside its bytes: its record, its share of the table, allocator overhead.
/// The cost is a constant rather than the allocator's measure, because the limit must refuse the
/// same command on every replica.
pub const ENTRY_BYTES: u64 = 128;

/// The cost of an expiry.
pub const EXPIRY_BYTES: u64 = 32;

/// The keys and values of one replica.
#[derive(Clone, Debug)]
pub struct Store {
    databases: [Keyspace; DATABASES],
    /// Tables whose keys were all deleted while readers read them as they were (`frozen`, F3); not
    /// part of the state.
    cleared: Vec<Table>,
    /// State time: the largest stamp applied, Unix milliseconds.
    now_ms: u64,
    /// Counts changes; the source of versions (I2). Zero is never a present key's version.
    changes: u64,
    /// The value with which `changes` began: 0, except for a store of lent entries (`lend`).
    first_change: u64,
    /// The count at the last deletion, by the low bits of the position (I2).
    deletions: Box<[u64]>,
    used_bytes: u64,
    /// The limit of memory; zero means none. It is the same at every replica, or they would refuse
    /// different writes.
    memory_bytes_max: u64,
    /// The number of times that the entries were frozen for a reader; not part of the state.
    n_freezings: u64,
    /// Whether a transaction is being executed that was admitted whole; false between commands.
    admits_growth: bool,
    /// Whether the store stands for partitions that are over their limit, so that it refuses
    /// growth.
    refuses_growth: bool,
    /// The scripts that EVALSHA finds.
    scripts: Scripts,
    /// The published messages; not part of the state.
    published: Outbox,
}

/// The effect of a write on a key's expiry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expiry {
    /// The key gets no expiry.
    Clear,
    /// The key keeps its expiry.
    Keep,
    /// The key expires at this Unix time in milliseconds.
    At(u64),
}

impl Store {
    /// An empty store. `memory_bytes_max` (zero: none) must be the same at every replica.
    pub fn new(memory_bytes_max: u64) -> Store {
        Store {
            databases: std::array::from_fn(|_| Keyspace::new()),
            cleared: Vec::new(),
            now_ms: 0,
            changes: 0,
            first_change: 0,
            deletions: vec![0; DELETION_BUCKETS].into_boxed_slice(),
            used_bytes: 0,
            memory_bytes_max,
            n_freezings: 0,
            admits_growth: false,
            refuses_growth: false,
            scripts: Scripts::default(),
            published: Outbox::default(),
        }
    }

    /// The number of keys in all databases, including those that have expired and are not removed
    /// yet, as Redis counts.
    pub fn len(&self) -> usize {
        Db::all().map(|db| self.len_of(db)).sum()
    }

    /// The number of keys in one database, counted likewise.
    pub fn len_of(&self, db: Db) -> usize {
        self.databases[db.index()].table.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of keys that have an expiry.
    pub fn expiring(&self) -> usize {
        Db::all().map(|db| self.expiring_of(db)).sum()
    }

    /// The number of keys with an expiry in one database.
    pub fn expiring_of(&self, db: Db) -> usize {
        // Keys whose positions collide and that expire together share an element: too rare for a
        // counter of its own, and this number is only shown.
        self.databases[db.index()].expiries.len()
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
        (is_over || self.refuses_growth) && !self.admits_growth
    }

    /// Whether growth is refused whatever the store holds, since the store stands for others that
    /// are over their limit.
    pub(crate) fn refuse_growth(&mut self, refuses: bool) {
        self.refuses_growth = refuses;
    }

    /// Sets whether the limit is ignored, while an admitted transaction is executed. Returns the
    /// value before.
    pub(crate) fn admit_growth(&mut self, admits: bool) -> bool {
        std::mem::replace(&mut self.admits_growth, admits)
    }

    /// The messages that were published since the last call.
    pub fn take_published(&mut self) -> Vec<Published> {
        self.published.take()
    }

    /// The buffer of published messages.
    pub(crate) fn published_mut(&mut self) -> &mut Outbox {
        &mut self.published
    }

    /// The scripts that are known by their hash.
    pub(crate) fn scripts(&self) -> &Scripts {
        &self.scripts
    }

    /// The scripts, for changes.
    pub(crate) fn scripts_mut(&mut self) -> &mut Scripts {
        &mut self.scripts
    }

    /// State time, Unix milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Raises state time to `unix_ms`, if that is later, and removes some of the expired keys.
    pub fn advance_time(&mut self, unix_ms: u64) {
        self.now_ms = self.now_ms.max(unix_ms);
        self.remove_expired(EXPIRY_BATCH_MAX as u64);
    }

    /// Removes up to `n_max` of the expired keys, those first that expired first.
    pub(crate) fn remove_expired(&mut self, n_max: u64) {
        for _ in 0..n_max {
            let Some((expire_at, db, position)) = self.first_expiry() else { return };
            if expire_at > self.now_ms {
                return;
            }
            let mut entries = self.databases[db.index()].table.at(position);
            let due = entries.find(|entry| entry.expire_at == expire_at);
            let key = due.expect("I3: the index names an entry").key.clone();
            drop(entries);
            self.discard(position, DbKey { db, key: &key });
        }
    }

    /// The number of changes so far.
    pub(crate) fn n_changes(&self) -> u64 {
        self.changes
    }

    /// The expiry and position of the first key to expire.
    fn first_expiry(&self) -> Option<(u64, Db, u64)> {
        let first = |db: Db| {
            self.databases[db.index()].expiries.first().map(|&(at, position)| (at, db, position))
        };
        Db::all().filter_map(first).min()
    }

    /// Whether a read of `key` at `unix_ms` would find it expired, although it is live in state
    /// time: then a stamp has to be decided before the read is answered.
    pub fn would_expire<'a>(&self, key: impl Into<DbKey<'a>>, unix_ms: u64) -> bool {
        self.live(key).is_some_and(|entry| entry.expire_at <= unix_ms)
    }

    /// Whether the same holds for a read of all keys of a database (KEYS, SCAN, RANDOMKEY, DBSIZE).
    pub fn any_would_expire(&self, db: Db, unix_ms: u64) -> bool {
        let expiries = &self.databases[db.index()].expiries;
        self.now_ms < unix_ms
            && expiries.range((self.now_ms + 1, 0)..=(unix_ms, u64::MAX)).next().is_some()
    }

    /// The Unix time in milliseconds at which the first key expires, which may have passed.
    pub fn next_expiry_ms(&self) -> Option<u64> {
        self.first_expiry().map(|(expire_at, ..)| expire_at)
    }

    /// The version of a key, for WATCH: equal versions mean that the key did not change (I2).
    pub fn version<'a>(&self, key: impl Into<DbKey<'a>>) -> u64 {
        let DbKey { db, key } = key.into();
        let position = position_of(key);
        match self.databases[db.index()].table.find(position, key) {
            Some(entry) if entry.expire_at > self.now_ms => entry.version,
            // The entry has expired and is not removed yet: its version is no longer the key's.
            Some(entry) => entry.version | 1 << 63,
            None => self.deletions[deletion_bucket(db, position)],
        }
    }

    /// The live entry of a key (I1).
    pub(crate) fn live<'a>(&self, key: impl Into<DbKey<'a>>) -> Option<&Entry> {
        let DbKey { db, key } = key.into();
        let found = self.databases[db.index()].table.find(position_of(key), key);
        found.filter(|entry| entry.expire_at > self.now_ms)
    }

    /// The live value of a key.
    pub(crate) fn value<'a>(&self, key: impl Into<DbKey<'a>>) -> Option<&[u8]> {
        self.live(key).map(|entry| &entry.value[..])
    }

    /// The live entries of a database from a position on, in order.
    pub(crate) fn walk_live(&self, db: Db, position: u64) -> impl Iterator<Item = &Entry> {
        self.walk(db, position).filter_map(|(_, live)| live)
    }

    /// The positions of a database's entries from a position on, in order, each with its entry if
    /// that is live (I1). For walks that end early: to pass an entry that has expired takes time.
    pub(crate) fn walk(
        &self,
        db: Db,
        position: u64,
    ) -> impl Iterator<Item = (u64, Option<&Entry>)> {
        let walk: Walk<'_> = self.databases[db.index()].table.walk(position);
        walk.map(|entry| (entry.position, (entry.expire_at > self.now_ms).then_some(entry)))
    }

    /// Creates or replaces a key. With an expiry that is already past, the key is deleted instead.
    pub(crate) fn put<'a>(&mut self, key: impl Into<DbKey<'a>>, value: &[u8], expiry: Expiry) {
        let DbKey { db, key } = key.into();
        assert!(value.len() <= VALUE_BYTES_MAX && key.len() <= KEY_BYTES_MAX, "checked before");
        let position = position_of(key);
        if let Expiry::At(at) = expiry
            && at <= self.now_ms
        {
            self.discard(position, DbKey { db, key });
            return;
        }
        self.changes += 1;
        let (now_ms, version) = (self.now_ms, self.changes);
        let Some(entry) = self.databases[db.index()].table.find_mut(position, key) else {
            let expire_at = if let Expiry::At(at) = expiry { at } else { NEVER };
            let (key, value) = (Key::from_slice(key), value.to_vec());
            self.add(db, Entry { position, key, value, expire_at, version });
            return;
        };
        let old = entry.expire_at;
        let new = match expiry {
            Expiry::Keep if old > now_ms => old,
            Expiry::Keep | Expiry::Clear => NEVER,
            Expiry::At(at) => at,
        };
        self.used_bytes = self.used_bytes - entry.value.len() as u64 + value.len() as u64;
        // The buffer is reused, unless most of it would be unused.
        if entry.value.capacity() / 4 > value.len() + 16 {
            entry.value = value.to_vec();
        } else {
            entry.value.clear();
            entry.value.extend_from_slice(value);
        }
        entry.version = version;
        entry.expire_at = new;
        self.move_expiry(db, position, old, new);
    }

    /// The bytes that the memory limit counts for a live key.
    pub(crate) fn cost_of(&self, key: DbKey<'_>) -> Option<u64> {
        self.live(key).map(cost)
    }

    /// Changes the value of a live key in place, or that of a new, empty key; keeps the expiry.
    pub(crate) fn change<'a, T>(
        &mut self,
        key: impl Into<DbKey<'a>>,
        change: impl FnOnce(&mut Vec<u8>) -> T,
    ) -> T {
        let key = key.into();
        if self.live(key).is_none() {
            self.put(key, b"", Expiry::Clear);
        }
        self.changes += 1;
        let version = self.changes;
        let entry = self.live_mut(key);
        let len = entry.value.len() as u64;
        let result = change(&mut entry.value);
        assert!(entry.value.len() <= VALUE_BYTES_MAX, "checked before");
        entry.version = version;
        let new_len = entry.value.len() as u64;
        self.used_bytes = self.used_bytes - len + new_len;
        result
    }

    /// Changes a value like [`Store::change`], where `change` may change nothing: it returns
    /// whether it did. Only then, and for a new key, does the version change.
    pub(crate) fn change_if<T>(
        &mut self,
        key: DbKey<'_>,
        change: impl FnOnce(&mut Vec<u8>) -> (T, bool),
    ) -> T {
        let is_new = self.live(key).is_none();
        if is_new {
            self.put(key, b"", Expiry::Clear);
        }
        let version = self.changes + 1;
        let entry = self.live_mut(key);
        let len = entry.value.len() as u64;
        let (result, has_changed) = change(&mut entry.value);
        assert!(entry.value.len() <= VALUE_BYTES_MAX, "checked before");
        let counts = has_changed && !is_new;
        if counts {
            entry.version = version;
        }
        let new_len = entry.value.len() as u64;
        self.changes += u64::from(counts);
        self.used_bytes = self.used_bytes - len + new_len;
        result
    }

    fn live_mut(&mut self, DbKey { db, key }: DbKey<'_>) -> &mut Entry {
        let table = &mut self.databases[db.index()].table;
        table.find_mut(position_of(key), key).expect("live, or just created")
    }

    /// Sets the expiry of a live key, [`NEVER`] for none; one that is past deletes it.
    pub(crate) fn set_expiry<'a>(&mut self, key: impl Into<DbKey<'a>>, expire_at: u64) {
        let DbKey { db, key } = key.into();
        let position = position_of(key);
        if expire_at <= self.now_ms {
            self.discard(position, DbKey { db, key });
            return;
        }
        self.changes += 1;
        let version = self.changes;
        let entry = self.live_mut(DbKey { db, key });
        let old = std::mem::replace(&mut entry.expire_at, expire_at);
        entry.version = version;
        self.move_expiry(db, position, old, expire_at);
    }

    /// Deletes a key; returns its entry if it was live.
    pub(crate) fn remove<'a>(&mut self, key: impl Into<DbKey<'a>>) -> Option<Entry> {
        let key = key.into();
        let entry = self.discard(position_of(key.key), key)?;
        (entry.expire_at > self.now_ms).then_some(entry)
    }

    /// Deletes every key of every database.
    pub(crate) fn clear(&mut self) {
        if self.is_empty() {
            return;
        }
        self.disturb_watchers();
        Db::all().for_each(|db| self.empty(db));
        self.used_bytes = 0;
    }

    /// Deletes every key of a database.
    pub(crate) fn clear_database(&mut self, db: Db) {
        if self.len_of(db) == 0 {
            return;
        }
        self.disturb_watchers();
        let others = Db::all().any(|other| other != db && self.len_of(other) != 0);
        let bytes = |table: &Table| table.walk(0).map(cost).sum::<u64>();
        // Usually only one database has keys, and its keys need not be walked.
        let gone = &self.databases[db.index()].table;
        self.used_bytes -= if others { bytes(gone) } else { self.used_bytes };
        self.empty(db);
    }

    /// Gives a database an empty table. The readers of the one before read on there (F3).
    fn empty(&mut self, db: Db) {
        let gone = std::mem::replace(&mut self.databases[db.index()], Keyspace::new());
        if gone.table.is_frozen() {
            self.cleared.push(gone.table);
        }
    }

    /// Makes every key of the database look changed (I2), without walking them.
    fn disturb_watchers(&mut self) {
        self.changes += 1;
        self.deletions.fill(self.changes);
    }

    /// Exchanges two databases. Versions come from one counter, so a key whose place another key
    /// takes looks changed, and a key that is in neither does not.
    pub(crate) fn swap_databases(&mut self, one: Db, other: Db) {
        self.changes += 1;
        self.databases.swap(one.index(), other.index());
    }

    /// Removes an entry, live or expired.
    fn discard(&mut self, position: u64, key: DbKey<'_>) -> Option<Entry> {
        let entry = self.take_out(position, key)?;
        self.changes += 1;
        self.deletions[deletion_bucket(key.db, position)] = self.changes;
        Some(entry)
    }

    /// Removes an entry without recording its deletion.
    fn take_out(&mut self, position: u64, DbKey { db, key }: DbKey<'_>) -> Option<Entry> {
        let entry = self.databases[db.index()].table.remove(position, key)?;
        self.used_bytes -= cost(&entry) - if entry.expire_at == NEVER { 0 } else { EXPIRY_BYTES };
        self.move_expiry(db, position, entry.expire_at, NEVER);
        Some(entry)
    }

    /// Adds an entry for a key that does not exist.
    fn add(&mut self, db: Db, entry: Entry) {
        let (position, expire_at) = (entry.position, entry.expire_at);
        self.used_bytes += cost(&entry);
        let keyspace = &mut self.databases[db.index()];
        keyspace.table.insert(entry);
        if expire_at != NEVER {
            keyspace.expiries.insert((expire_at, position));
        }
    }

    /// Keeps the index (I3) and the accounting in step when an entry's expiry went from `old` to
    /// `new` or the entry was removed.
    fn move_expiry(&mut self, db: Db, position: u64, old: u64, new: u64) {
        if old == new {
            return;
        }
        let Keyspace { table, expiries } = &mut self.databases[db.index()];
        if old != NEVER {
            self.used_bytes -= EXPIRY_BYTES;
            // Another key of the same position may expire at the same time.
            if !table.at(position).any(|entry| entry.expire_at == old) {
                expiries.remove(&(old, position));
            }
        }
        if new != NEVER {
            self.used_bytes += EXPIRY_BYTES;
            expiries.insert((new, position));
        }
    }

    /// Asserts I3 by looking at every entry; for tests and the simulator.
    pub fn check(&self) {
        let mut used_bytes = 0;
        for keyspace in &self.databases {
            let mut expiries = BTreeSet::new();
            for entry in keyspace.table.walk(0) {
                used_bytes += cost(entry);
                if entry.expire_at != NEVER {
                    expiries.insert((entry.expire_at, entry.position));
                }
                assert!(entry.version <= self.changes, "I2: versions come from the counter");
            }
            assert_eq!(expiries, keyspace.expiries, "I3: expiries");
        }
        assert_eq!(used_bytes, self.used_bytes, "I3: bytes");
    }
}

fn cost(entry: &Entry) -> u64 {
    let expiry = if entry.expire_at == NEVER { 0 } else { EXPIRY_BYTES };
    ENTRY_BYTES + expiry + entry.key.len() as u64 + entry.value.len() as u64
}

/// The databases share the words; a key is rarely in the word of a key of the same name in another.
fn deletion_bucket(db: Db, position: u64) -> usize {
    (position as usize % DELETION_BUCKETS + db.index() * (DELETION_BUCKETS / DATABASES))
        % DELETION_BUCKETS
}

#[cfg(test)]
mod tests;
