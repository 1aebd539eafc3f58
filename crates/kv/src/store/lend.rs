//! Entries that leave a store for one command and come back.
//!
//! A key that comes back as it went has the version that it had, so nobody who watches it is
//! disturbed; one that was changed, made or deleted meanwhile has a new one, by this store's own
//! count (I2 of the store). They are told apart by the count of changes that the table of loans
//! began with: every loan's version is at most that.

use super::{Db, DbKey, Entry, Store, deletion_bucket, position_of};

impl Store {
    /// Takes a key's entry out, live or due, as if it had never been there.
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
