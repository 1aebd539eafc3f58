//! The replicated object: keys and what they hold.

use group::replicated;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The store, the same at all members.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Store {
    entries: BTreeMap<String, String>,
}

#[replicated]
impl Store {
    /// True if the key is new.
    #[ordered]
    pub(crate) fn put(&mut self, key: String, value: String) -> bool {
        self.entries.insert(key, value).is_none()
    }

    /// True if there was one.
    #[ordered]
    pub(crate) fn delete(&mut self, key: String) -> bool {
        self.entries.remove(&key).is_some()
    }

    /// Adds to a number. The sum, unless the key holds something else or the sum is too large.
    #[ordered]
    pub(crate) fn add(&mut self, key: String, n: i64) -> Option<i64> {
        let value = self.entries.get(&key).map_or(Some(0), |value| value.parse().ok());
        let sum = value.and_then(|value: i64| value.checked_add(n))?;
        self.entries.insert(key, sum.to_string());
        Some(sum)
    }

    #[query]
    pub(crate) fn get(&self, key: String) -> Option<String> {
        self.entries.get(&key).cloned()
    }

    #[query]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}
