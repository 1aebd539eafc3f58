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
        let nanos = span.as_nanos();
        let nanos = if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 };
        Instant(self.0.saturating_add(nanos))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_time_is_the_latest_that_anything_can_be() {
        let end = Instant(u64::MAX);
        assert_eq!(Instant(7).plus(Duration::MAX), end);
        assert_eq!(Instant(7).plus(Duration::from_nanos(u64::MAX)), end);
        // 2^64 ns and a few: not those few.
        assert_eq!(Instant(7).plus(Duration::new(18_446_744_073, 709_551_620)), end);
        assert_eq!(Instant(7).plus(Duration::from_nanos(5)), Instant(12));
    }
}
