//! The replicated object of simulated groups: the list of the calls that it has executed.

use super::book::{CallId, Jots};
use group::{Here, Local, replicated};
use serde::{Deserialize, Serialize};

/// See the module's text.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Ledger {
    entries: Vec<CallId>,
    n_jots: Local<u64>,
}

impl Ledger {
    /// The calls, in the order in which they were executed.
    pub(super) fn entries(&self) -> &[CallId] {
        &self.entries
    }
}

#[replicated]
impl Ledger {
    /// Appends a call, which carries ballast. Returns its place, from 1.
    #[ordered]
    pub(super) fn append(&mut self, call: CallId, _ballast: Vec<u8>) -> u64 {
        self.entries.push(call);
        self.entries.len() as u64
    }

    /// The number of calls that were executed.
    #[query]
    pub(super) fn n_entries(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Notes a call at this member alone. Returns the number of those that it has noted.
    #[p2p]
    pub(super) fn jot(&self, here: &Here, call: CallId) -> u64 {
        Jots::add(call, here.me());
        let mut n_jots = self.n_jots.lock(here);
        *n_jots += 1;
        *n_jots
    }
}
