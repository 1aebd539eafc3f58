//! When a replica that has died is restarted.

use std::time::{Duration, Instant};

/// The pause before the restart of a replica that died soon after its start twice in a row; it
/// doubles with each further time. After the first time, and after a longer life, there is no
/// pause.
const RESTART_AFTER: Duration = Duration::from_millis(100);
/// The pause before the restart of a replica that reported why it cannot run, and never served.
const REFUSED_AFTER: Duration = Duration::from_secs(1);
/// The longest pause between attempts.
const RESTART_AFTER_MAX: Duration = Duration::from_secs(30);
/// The longest pause for a replica that served before it died: its start is not the cause.
const SERVED_AFTER_MAX: Duration = Duration::from_secs(1);
/// The life after which a replica's death is not attributed to its start.
const LIVED_LONG: Duration = Duration::from_secs(10);

/// The rule for restarts.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    /// The start of the last process.
    pub(super) started_at: Option<Instant>,
    /// The number of deaths in a row, each soon after a start.
    n_quick: u32,
    /// The number of those, back to the last one that served: its start may be the cause.
    n_unserved: u32,
}

impl Restarts {
    /// The pause before the next life, after a death at `now`.
    pub(super) fn pause(&mut self, refused: bool, served: bool, now: Instant) -> Duration {
        let lived = self.started_at.map(|at| now.saturating_duration_since(at));
        let died_of_its_start = refused || lived.is_some_and(|lived| lived < LIVED_LONG);
        let count = |is_another, before: u32| if is_another { before.saturating_add(1) } else { 0 };
        self.n_quick = count(died_of_its_start, self.n_quick);
        self.n_unserved = count(died_of_its_start && !served, self.n_unserved);
        if refused {
            return doubled(REFUSED_AFTER, self.n_unserved.saturating_sub(1));
        }
        match (self.n_quick, self.n_unserved) {
            (0 | 1, _) => Duration::ZERO,
            (n, 0) => doubled(RESTART_AFTER, n - 2).min(SERVED_AFTER_MAX),
            (_, n) => doubled(RESTART_AFTER, n.saturating_sub(2)),
        }
    }
}

fn doubled(first: Duration, times: u32) -> Duration {
    first.saturating_mul(1 << times.min(16)).min(RESTART_AFTER_MAX)
}
