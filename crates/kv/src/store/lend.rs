//! Entries that leave a store for one command and come back.
//!
//! A key that comes back unchanged has its old version, so its watchers are not disturbed; a key
//! that was changed, made or deleted meanwhile has a new version, by this store's own count (I2 of
//! the store). The two are distinguished by the count of changes with which the table of loans
//! began: every loan's version is at most that.

use super::{Db, DbKey, Entry, Store, deletion_bucket, position_of};

impl Store {
    /// Removes a key's entry, live or expired, without a trace.
    pub(crate) fn lend(&mut self, key: DbKey<'_>) -> Option<Entry> {
        self.take_out(position_of(key.key), key)
    }

    /// A store of lent entries at a state time of `now_ms`, for one command.
    pub(crate) fn of_loans(now_ms: u64, loans: Vec<(Db, Entry)>) -> Store {
        let mut store = Store::new(0);
        store.now_ms = now_ms;
        store.changes = loans.iter().map(|(_, entry)| entry.version).max().unwrap_or(0);
        store.first_change = store.changes;
        loans.into_iter().for_each(|(db, entry)| store.add(db, entry));
        store
    }

    /// Takes `key` back from `table`, where it was lent (if it `was_there`) or may have been made.
    pub(crate) fn take_back(&mut self, key: DbKey<'_>, was_there: bool, table: &mut Store) {
        let position = position_of(key.key);
        match table.take_out(position, key) {
            Some(mut entry) => {
                if entry.version > table.first_change {
                    self.changes += 1;
                    entry.version = self.changes;
                }
                self.add(key.db, entry);
            }
            None if was_there => {
                self.changes += 1;
                self.deletions[deletion_bucket(key.db, position)] = self.changes;
            }
            None => {}
        }
    }
}
