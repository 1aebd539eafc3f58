//! Halts: how long a checkpoint has been due, at one member (`door`, D12).

use base::Instant;
use core::time::Duration;

/// The halts of the module's text.
#[derive(Debug, Default)]
pub(crate) struct Halts {
    /// The time after which connections that put a checkpoint off are closed, if they ever are.
    pub(crate) closes_after: Option<Duration>,
    /// The time since when a checkpoint is due.
    due_since: Option<Instant>,
}

impl Halts {
    /// Whether a checkpoint is due now.
    pub(crate) fn look(&mut self, is_due: bool, now: Instant) {
        self.due_since = is_due.then(|| self.due_since.unwrap_or(now));
    }

    /// The time from which connections are closed.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        Some(self.due_since?.plus(self.closes_after?))
    }

    /// Whether connections are to be closed.
    pub(crate) fn closes(&self, now: Instant) -> bool {
        self.deadline().is_some_and(|at| now >= at)
    }
}
