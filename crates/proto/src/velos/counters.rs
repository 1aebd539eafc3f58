//! The counts of a machine's work.

/// The counts of this machine's work, for reports and for the simulator's `Sometimes` properties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each name is the whole of its meaning")]
pub struct Counters {
    pub terms_started: u64,
    pub deposed: u64,
    pub values_proposed: u64,
    pub values_adopted: u64,
    pub values_fetched_remotely: u64,
    pub slots_recycled: u64,
    pub prepares_mispredicted: u64,
    pub accepts_failed: u64,
    pub applied_from_own_memory: u64,
    pub applied_from_fetch: u64,
    pub states_requested: u64,
    pub reads_checked_leading: u64,
    pub reads_checked_following: u64,
    pub reads_refused: u64,
    pub torn_values_rejected: u64,
    pub rpcs_sent: u64,
    pub slots_sealed: u64,
    pub facts_piggybacked: u64,
    pub window_full: u64,
    pub changes_decided: u64,
}

/// Counts do not change what the machine does next: to an explorer, states that differ by counts
/// alone are one.
impl core::hash::Hash for Counters {
    fn hash<S: core::hash::Hasher>(&self, _: &mut S) {}
}
