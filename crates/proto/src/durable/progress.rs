//! What a member knows to be decided, and how far it has come with that.

use super::log::Placed;
use base::Prefix;

/// The prefixes of one member.
#[derive(Debug)]
pub(super) struct Progress {
    /// The prefix that its state machine has executed.
    pub(super) applied: Prefix,
    /// The prefix of the state that this life began with, or was given last. The log's entries
    /// below were perhaps never compared with another log.
    pub(super) installed: Prefix,
    /// The decided prefix that the own log holds.
    pub(super) committed: Prefix,
    /// The decided prefix that a leader has published: the own log may be behind.
    pub(super) told: Prefix,
    /// The members of that prefix.
    pub(super) told_members: Option<Placed>,
    /// The prefix below which the log is to be freed, as soon as it is durable so far.
    pub(super) to_free: Prefix,
    /// The prefix whose state is missing, so that nothing can be delivered.
    pub(super) lacks: Option<Prefix>,
}

impl Progress {
    /// Of a life that begins with a state of `applied`, beside a log that begins at `start`.
    pub(super) fn new(applied: Prefix, start: Prefix) -> Progress {
        Progress {
            applied,
            installed: applied,
            committed: applied.max(start),
            told: Prefix::ZERO,
            told_members: None,
            to_free: Prefix::ZERO,
            lacks: (applied < start).then_some(start),
        }
    }
}
