//! The function that executes a command, and its input.

use super::CommandSpec;
use crate::reply::Reply;
use crate::store::{Db, DbKey, Store};

/// The executor of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Run {
    /// The connection executes it, not the store.
    Door,
    /// A store that cannot change executes it.
    Read(fn(&Store, &Call<'_>, &mut Reply)),
    /// A store that may change executes it.
    Write(fn(&mut Store, &Call<'_>, &mut Reply)),
}

/// A command to execute.
pub(crate) struct Call<'a> {
    pub(crate) spec: &'static CommandSpec,
    /// The database that it concerns.
    pub(crate) db: Db,
    /// All arguments, the name first; their number fits the command.
    pub(crate) args: &'a [&'a [u8]],
    /// The only randomness a command may use.
    pub(crate) seed: u64,
}

impl<'a> Call<'a> {
    /// An argument as a key of the command's database.
    pub(crate) fn key(&self, at: usize) -> DbKey<'a> {
        self.of(self.args[at])
    }

    /// The key at an index among the arguments, with the command's database.
    pub(crate) fn of(&self, key: &'a [u8]) -> DbKey<'a> {
        DbKey { db: self.db, key }
    }
}
