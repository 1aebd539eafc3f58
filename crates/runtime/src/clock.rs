//! The clocks of a process: two that only run forward, and the wall clock.
//!
//! Machines and timers get [`Instant`]s of the monotonic clock. The wall clock enters the
//! replicated state in one place only, through [`base::StateClock`], which measures elapsed time by
//! [`boot_now`].

use base::Instant;
use rustix::time::{ClockId, clock_gettime};
use std::time::{SystemTime, UNIX_EPOCH};

/// This process's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: std::time::Instant,
}

impl Clock {
    /// A clock whose origin is now.
    pub fn start() -> Clock {
        Clock { origin: std::time::Instant::now() }
    }

    /// The time since the origin.
    pub fn now(&self) -> Instant {
        Instant(self.origin.elapsed().as_nanos() as u64)
    }
}

/// The time since the machine was started, including the time during which it was suspended: keys
/// age then, too.
pub fn boot_now() -> Instant {
    let since = clock_gettime(ClockId::Boottime);
    Instant(since.tv_sec as u64 * 1_000_000_000 + since.tv_nsec as u64)
}

/// Milliseconds since 1970 by the wall clock; 0 if that clock is set before 1970.
pub fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
