//! The databases of a store: independent keyspaces, numbered as by SELECT.
//!
//! Each has a table of its own, so that a key of database 0 costs the same as in a store with one
//! database, a walk of one database (SCAN, KEYS) meets no key of another, and SWAPDB moves no key.
//! Time, the count of changes and the limit of memory belong to the store.

use std::collections::BTreeSet;
use std::fmt;

use super::table::Table;

/// The number of databases; Redis's default.
pub const DATABASES: usize = 16;

/// The number of a database, below [`DATABASES`].
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Db(u8);

impl Db {
    /// The database with which a connection begins.
    pub const ZERO: Db = Db(0);

    /// The database of this number, if there is one.
    pub fn new(number: i64) -> Option<Db> {
        u8::try_from(number).ok().filter(|&number| usize::from(number) < DATABASES).map(Db)
    }

    /// The number.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// All databases, in order.
    pub fn all() -> impl DoubleEndedIterator<Item = Db> {
        (0..DATABASES as u8).map(Db)
    }

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "db{}", self.0)
    }
}

impl fmt::Display for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A key with its database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DbKey<'a> {
    /// Its database.
    pub db: Db,
    /// The key itself.
    pub key: &'a [u8],
}

/// Keys in tests that concern one database are written alone.
#[cfg(test)]
impl<'a, K: AsRef<[u8]> + ?Sized> From<&'a K> for DbKey<'a> {
    fn from(key: &'a K) -> DbKey<'a> {
        DbKey { db: Db::ZERO, key: key.as_ref() }
    }
}

/// The content of one database.
#[derive(Clone, Debug)]
pub(super) struct Keyspace {
    pub(super) table: Table,
    /// (expiry, position) of the entries that expire (I3).
    pub(super) expiries: BTreeSet<(u64, u64)>,
}

impl Keyspace {
    pub(super) fn new() -> Keyspace {
        Keyspace { table: Table::new(), expiries: BTreeSet::new() }
    }
}
