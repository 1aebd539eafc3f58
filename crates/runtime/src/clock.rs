//! The two clocks of a replica: one that only runs forward, and one that people agree about.
//!
//! Machines and timers are handed [`Instant`]s of the monotonic clock. The wall clock enters the
//! replicated state in one place only, as the stamp that a leader puts into each batch, and there
//! it passes the [`Stamper`], so that a leader whose clock has jumped cannot expire everybody's
//! keys at once.
//!
//! - I1 a stamp is never below the state's own time: state time never runs backwards. Asserted.
//! - I2 a stamp is at most [`JUMP_MS_MAX`] further on than the time that has passed, on this node's
//!   monotonic clock, since state time last moved here. By the minimum in [`Stamper::stamp`].

use base::Instant;
use std::time::{SystemTime, UNIX_EPOCH};

/// How far one stamp may run ahead of the time that has passed since the last: ten seconds.
///
/// A clock that was set forward by an hour is therefore followed in steps, a batch each, and an
/// operator has a moment to see it; a clock that drifts is never held back.
pub const JUMP_MS_MAX: u64 = 10_000;

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

/// Milliseconds since 1970 by the wall clock; 0 if that clock is set before 1970.
pub fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Makes the stamps of a leader's batches.
#[derive(Debug, Default)]
pub struct Stamper {
    state_ms: u64,
    moved_at: Instant,
}

impl Stamper {
    /// The stamp for a batch that is built at `now`, when the wall clock shows `wall_ms` and the
    /// newest stamp that the state has applied is `state_ms` (0: none yet, so any is taken).
    pub fn stamp(&mut self, wall_ms: u64, state_ms: u64, now: Instant) -> u64 {
        if state_ms != self.state_ms {
            (self.state_ms, self.moved_at) = (state_ms, now);
        }
        if state_ms == 0 {
            return wall_ms;
        }
        let passed_ms = now.since(self.moved_at).as_millis() as u64;
        let stamp = wall_ms.min(state_ms + passed_ms + JUMP_MS_MAX).max(state_ms);
        assert!(stamp >= state_ms, "I1: a stamp below the state's time");
        stamp
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn i1_a_clock_set_back_never_turns_the_state_back() {
        let mut stamper = Stamper::default();
        assert_eq!(stamper.stamp(5_000, 0, Instant(0)), 5_000);
        assert_eq!(stamper.stamp(1_000, 5_000, Instant(0)), 5_000);
    }

    #[test]
    fn i2_a_clock_set_forward_is_followed_in_bounded_steps() {
        let mut stamper = Stamper::default();
        let first = stamper.stamp(1_000_000, 1_000, Instant(0));
        assert_eq!(first, 1_000 + JUMP_MS_MAX);
        let second = stamper.stamp(1_000_000, first, Instant(0));
        assert_eq!(second, first + JUMP_MS_MAX);
    }

    #[test]
    fn i2_time_that_has_passed_is_not_held_back() {
        let mut stamper = Stamper::default();
        assert_eq!(stamper.stamp(1_000, 1_000, Instant(0)), 1_000);
        let an_hour = Instant::ZERO.plus(Duration::from_secs(3600));
        assert_eq!(stamper.stamp(3_601_000, 1_000, an_hour), 3_601_000);
    }
}
