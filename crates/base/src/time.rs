//! Time as machines see it: handed in, never asked for.

use core::fmt;
use core::time::Duration;

/// Nanoseconds of one node's monotonic clock, since an origin of its own.
///
/// Never compared between nodes.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

impl Instant {
    /// The origin.
    pub const ZERO: Instant = Instant(0);

    /// This much later; stops at the end of time instead of wrapping.
    #[must_use]
    pub const fn plus(self, span: Duration) -> Instant {
        Instant(self.0.saturating_add(span.as_nanos() as u64))
    }

    /// The time since `earlier`; zero if `earlier` is later.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}us", self.0 / 1000, self.0 % 1000)
    }
}
