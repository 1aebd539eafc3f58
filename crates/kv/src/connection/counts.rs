//! The number of calls of each command, for INFO commandstats.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::command::CommandSpec;

/// The counts of one command's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Calls accepted for execution, also as part of a transaction.
    pub calls: u64,
    /// Calls refused before execution: the number of arguments, a limit, a missing password.
    pub rejected: u64,
    /// Calls answered with an error.
    pub failed: u64,
}

/// The counts of all commands, at all connections of a replica.
#[derive(Debug, Default)]
pub struct Counts {
    /// The counts by the address of the command's entry in the table, which is fixed and fast to
    /// compare.
    by_command: Mutex<BTreeMap<usize, (&'static str, Count)>>,
}

impl Counts {
    pub(super) fn add(&self, spec: &'static CommandSpec, add: impl FnOnce(&mut Count)) {
        // A panic elsewhere leaves valid numbers.
        let mut counts = self.by_command.lock().unwrap_or_else(PoisonError::into_inner);
        let address = std::ptr::from_ref(spec).addr();
        add(&mut counts.entry(address).or_insert((spec.name, Count::default())).1);
    }

    /// The commands that were called, by name.
    pub fn all(&self) -> BTreeMap<&'static str, Count> {
        let counts = self.by_command.lock().unwrap_or_else(PoisonError::into_inner);
        counts.values().copied().collect()
    }

    /// CONFIG RESETSTAT
    pub(super) fn reset(&self) {
        self.by_command.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
