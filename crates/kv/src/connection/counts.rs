//! How often each command was called, for INFO commandstats.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::command::CommandSpec;

/// What became of the calls of one command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Taken for execution, also as part of a transaction.
    pub calls: u64,
    /// Refused before: the number of arguments, a limit, no password given.
    pub rejected: u64,
    /// Answered with an error.
    pub failed: u64,
}

/// Of all commands, at all connections of a replica.
#[derive(Debug, Default)]
pub struct Counts {
    /// By the address of the command's entry in the table, which is fixed and quickly compared.
    by_command: Mutex<BTreeMap<usize, (&'static str, Count)>>,
}

impl Counts {
    pub(super) fn add(&self, spec: &'static CommandSpec, add: impl FnOnce(&mut Count)) {
        // A panic elsewhere leaves numbers as good as they were.
        let mut counts = self.by_command.lock().unwrap_or_else(PoisonError::into_inner);
        let address = std::ptr::from_ref(spec).addr();
        add(&mut counts.entry(address).or_insert((spec.name, Count::default())).1);
    }

    /// Each command that was called, by name.
    pub fn all(&self) -> BTreeMap<&'static str, Count> {
        let counts = self.by_command.lock().unwrap_or_else(PoisonError::into_inner);
        counts.values().copied().collect()
    }

    /// CONFIG RESETSTAT
    pub(super) fn reset(&self) {
        self.by_command.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
