//! Moving a store to another replica: its entries in canonical order, and the counters beside them.

use super::table::Table;
use super::{
    DELETION_BUCKETS, Db, DbKey, EXPIRY_BYTES, Entry, Expiry, KEY_BYTES_MAX, Key, NEVER, Store,
    VALUE_BYTES_MAX, position_of,
};

/// The part of a store that is not its entries.
#[derive(Clone, Copy, Debug)]
pub struct Counters<'a> {
    /// State time.
    pub now_ms: u64,
    /// The count of changes.
    pub changes: u64,
    /// The words that remember deletions, [`DELETION_BUCKETS`] of them.
    pub deletions: &'a [u64],
}

/// An entry, live or expired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryRef<'a> {
    /// Its database.
    pub db: Db,
    /// The key.
    pub key: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// The time at which it expires, Unix milliseconds.
    pub expire_at_ms: Option<u64>,
    /// Its version, for WATCH.
    pub version: u64,
}

/// The reason why data cannot be a store's content.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RestoreError {
    /// The number of words that remember deletions is wrong.
    #[error("a snapshot of {found} deletion words, where {DELETION_BUCKETS} are expected")]
    Deletions {
        /// The number of words.
        found: usize,
    },
    /// A key or value is longer than a store holds.
    #[error("a snapshot entry with a key of {key} bytes and a value of {value} is over the limits")]
    TooLong {
        /// Bytes of the key.
        key: usize,
        /// Bytes of the value.
        value: usize,
    },
    /// A key occurs twice.
    #[error("a snapshot has one key twice")]
    Duplicate,
    /// A version or expiry that no store gives.
    #[error("a snapshot entry has an impossible version or expiry")]
    Impossible,
}

impl Store {
    /// Puts the keys of all databases into the first: a planted mistake.
    pub(crate) fn join_databases(&mut self) {
        for db in Db::all().filter(|db| *db != Db::ZERO) {
            let entries = self.entries_of(db);
            let entries: Vec<(Vec<u8>, Vec<u8>)> =
                entries.map(|entry| (entry.key.to_vec(), entry.value.to_vec())).collect();
            for (key, value) in entries {
                self.remove(DbKey { db, key: &key });
                self.put(DbKey { db: Db::ZERO, key: &key }, &value, Expiry::Clear);
            }
        }
    }

    /// Forgets that keys have come and gone: a planted mistake.
    pub(crate) fn forget_deletions(&mut self) {
        self.deletions.fill(0);
    }

    /// Lets every key live for ever: a planted mistake.
    pub(crate) fn forget_expiries(&mut self) {
        for keyspace in &mut self.databases {
            let expire = |entry: &&Entry| entry.expire_at != NEVER;
            let keys = keyspace.table.walk(0).filter(expire);
            let keys: Vec<(u64, Key)> = keys.map(|one| (one.position, one.key.clone())).collect();
            for (position, key) in keys {
                if let Some(entry) = keyspace.table.find_mut(position, &key) {
                    entry.expire_at = NEVER;
                    self.used_bytes -= EXPIRY_BYTES;
                }
            }
            keyspace.expiries.clear();
        }
    }

    /// The counters of a snapshot.
    pub fn counters(&self) -> Counters<'_> {
        Counters { now_ms: self.now_ms, changes: self.changes, deletions: &self.deletions }
    }

    /// The entries, live or expired, in an order that depends only on the content: database by
    /// database.
    pub fn entries(&self) -> impl Iterator<Item = EntryRef<'_>> {
        Db::all().flat_map(|db| self.entries_of(db))
    }

    /// The entries of one database.
    pub fn entries_of(&self, db: Db) -> impl Iterator<Item = EntryRef<'_>> {
        self.databases[db.index()].table.walk(0).map(move |entry| entry_ref(db, entry))
    }

    /// The entries of a database after `key` in that order: a snapshot that is taken in pieces
    /// continues here, also when `key` has been deleted meanwhile.
    pub fn entries_after<'a>(
        &self,
        key: impl Into<DbKey<'a>>,
    ) -> impl Iterator<Item = EntryRef<'_>> {
        let DbKey { db, key } = key.into();
        let position = position_of(key);
        let key = key.to_vec();
        self.databases[db.index()]
            .table
            .walk(position)
            .skip_while(move |entry| entry.position == position && entry.key[..] <= key[..])
            .map(move |entry| entry_ref(db, entry))
    }

    /// Freezes the entries for a reader, and returns its number. See `frozen`.
    pub(crate) fn freeze(&mut self) -> u64 {
        self.n_freezings += 1;
        let number = self.n_freezings;
        for db in Db::all() {
            self.databases[db.index()].table.freeze(number, db);
        }
        number
    }

    /// All tables that readers can read.
    fn tables(&mut self) -> impl Iterator<Item = &mut Table> {
        self.databases.iter_mut().map(|keyspace| &mut keyspace.table).chain(&mut self.cleared)
    }

    /// Ends that reader's reading.
    pub(crate) fn thaw(&mut self, reader: u64) {
        self.tables().for_each(|table| table.thaw(reader));
        self.cleared.retain(Table::is_frozen);
    }

    /// Hands out the entries as [`Store::entries`] yielded them when they were frozen, from where
    /// the last call ended, until `take` returns false or the next database begins. True if there
    /// may be more; `None` if they are not frozen for this reader.
    pub(crate) fn read_frozen(
        &mut self,
        reader: u64,
        mut take: impl FnMut(EntryRef<'_>) -> bool,
    ) -> Option<bool> {
        for db in Db::all() {
            // The database may have another number now, or another table.
            let table = self.tables().find(|table| table.was_frozen_as(reader) == Some(db))?;
            let mut has_taken = false;
            let more = table.read_frozen(reader, |entry| {
                has_taken = true;
                take(entry_ref(db, entry))
            })?;
            if has_taken {
                return Some(more || db != Db::all().next_back()?);
            }
        }
        Some(false)
    }

    /// A store with these counters and no entries yet.
    ///
    /// # Errors
    /// The number of deletion words is wrong.
    pub fn restore(memory_bytes_max: u64, counters: Counters<'_>) -> Result<Store, RestoreError> {
        let found = counters.deletions.len();
        if found != DELETION_BUCKETS {
            return Err(RestoreError::Deletions { found });
        }
        let mut store = Store::new(memory_bytes_max);
        store.now_ms = counters.now_ms;
        store.changes = counters.changes;
        store.deletions.copy_from_slice(counters.deletions);
        Ok(store)
    }

    /// Adds an entry to a store that is being restored.
    ///
    /// # Errors
    /// The entry cannot belong to a store with these counters; the store is unchanged.
    pub fn restore_entry(&mut self, entry: EntryRef<'_>) -> Result<(), RestoreError> {
        let EntryRef { db, key, value, expire_at_ms, version } = entry;
        if key.len() > KEY_BYTES_MAX || value.len() > VALUE_BYTES_MAX {
            return Err(RestoreError::TooLong { key: key.len(), value: value.len() });
        }
        if version > self.changes || expire_at_ms == Some(NEVER) {
            return Err(RestoreError::Impossible);
        }
        let position = position_of(key);
        if self.databases[db.index()].table.find(position, key).is_some() {
            return Err(RestoreError::Duplicate);
        }
        let expire_at = expire_at_ms.unwrap_or(NEVER);
        let (key, value) = (Key::from_slice(key), value.to_vec());
        self.add(db, Entry { position, key, value, expire_at, version });
        Ok(())
    }
}

fn entry_ref(db: Db, entry: &Entry) -> EntryRef<'_> {
    EntryRef {
        db,
        key: &entry.key,
        value: &entry.value,
        expire_at_ms: (entry.expire_at != NEVER).then_some(entry.expire_at),
        version: entry.version,
    }
}
