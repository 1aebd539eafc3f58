//! The end of a wait.

use std::time::{Duration, Instant};

/// A time longer than any wait, and short enough to be added to any instant.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// The instant at which a wait of `patience` ends that begins now, however long that is.
pub(crate) fn deadline(patience: Duration) -> Instant {
    Instant::now() + patience.min(FOREVER)
}
