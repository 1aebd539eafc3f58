//! The replicated object: keys and what they hold, now and before.

use group::{Delta, Deltas, HistoryError, Persistent, Time, replicated};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Keys and what they hold, and which of them were changed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Entries {
    all: BTreeMap<String, String>,
    #[serde(skip)]
    changed: Vec<(String, Option<String>)>,
}

impl Entries {
    /// What the key held before.
    fn set(&mut self, key: String, value: Option<String>) -> Option<String> {
        self.changed.push((key.clone(), value.clone()));
        match value {
            Some(value) => self.all.insert(key, value),
            None => self.all.remove(&key),
        }
    }
}

impl Delta for Entries {
    type Change = Vec<(String, Option<String>)>;

    fn take_change(&mut self) -> Option<Self::Change> {
        Some(std::mem::take(&mut self.changed)).filter(|changed| !changed.is_empty())
    }

    fn redo(&mut self, change: &Self::Change) {
        for (key, value) in change {
            self.set(key.clone(), value.clone());
        }
    }
}

/// The store, the same at all members.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Store {
    entries: Persistent<Entries, Deltas>,
}

#[replicated]
impl Store {
    /// True if the key is new.
    #[ordered]
    pub(crate) fn put(&mut self, key: String, value: String) -> bool {
        self.entries.change().set(key, Some(value)).is_none()
    }

    /// True if there was one.
    #[ordered]
    pub(crate) fn delete(&mut self, key: String) -> bool {
        let is_there = self.entries.all.contains_key(&key);
        if is_there {
            self.entries.change().set(key, None);
        }
        is_there
    }

    /// Adds to a number. The sum, unless the key holds something else or the sum is too large.
    #[ordered]
    pub(crate) fn add(&mut self, key: String, n: i64) -> Option<i64> {
        let value = self.entries.all.get(&key).map_or(Some(0), |value| value.parse().ok());
        let sum = value.and_then(|value: i64| value.checked_add(n))?;
        self.entries.change().set(key, Some(sum.to_string()));
        Some(sum)
    }

    #[query]
    pub(crate) fn get(&self, key: String) -> Option<String> {
        self.entries.all.get(&key).cloned()
    }

    /// What the key held at a time.
    #[temporal]
    pub(crate) fn held(&self, then: Time, key: String) -> Result<Option<String>, HistoryError> {
        self.entries.at(then).map(|entries| entries.all.get(&key).cloned())
    }

    #[query]
    pub(crate) fn len(&self) -> usize {
        self.entries.all.len()
    }
}
