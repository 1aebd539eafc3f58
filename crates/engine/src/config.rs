//! What an engine is told.

use crate::desk::PATIENCE;
use crate::service::Origin;
use core::time::Duration;

/// What an engine has to be told.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// This process: which member, which life.
    pub origin: Origin,
    /// How many members there are.
    pub members: usize,
    /// How long a client's request may take.
    pub patience: Duration,
    /// How many bytes of executed values are kept for members that fall behind.
    pub backlog_bytes: usize,
    /// Clients hear of a write when it is on every member's disk, not on a majority's (disk-all).
    pub waits_for_all: bool,
}

impl Config {
    /// The usual, for `origin` of `members`.
    pub fn new(origin: Origin, members: usize) -> Config {
        Config {
            origin,
            members,
            patience: PATIENCE,
            backlog_bytes: crate::backlog::BACKLOG_BYTES,
            waits_for_all: false,
        }
    }
}
