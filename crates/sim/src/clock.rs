//! The clocks of a node.
//!
//! Each node's clock starts at an origin of its own, runs at a rate of its own and may jump
//! forward; it never runs backwards (the system's monotonic clock does not either).

use base::{Instant, Rng};

/// Nanoseconds in a millisecond.
pub(crate) const MS: u64 = 1_000_000;

/// One node's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// World time of the last change.
    since: u64,
    /// The time that this clock showed then.
    shown: u64,
    /// The thousandths of a nanosecond that pass here in one of the world's.
    rate: u64,
}

/// The rate of a correct clock.
pub(crate) const TRUE_RATE: u64 = 1000;

impl Clock {
    pub(crate) fn new(origin: u64) -> Clock {
        Clock { since: 0, shown: origin, rate: TRUE_RATE }
    }

    /// The time that it shows at world time `now`.
    pub(crate) fn at(&self, now: u64) -> Instant {
        Instant(self.shown + (now - self.since) * self.rate / 1000)
    }

    /// The first world time at which it shows `instant` or later.
    pub(crate) fn when(&self, instant: Instant) -> u64 {
        let ahead = instant.0.saturating_sub(self.shown);
        // (If 64 bits do not hold the thousandths, the time is half a year: no run lasts so long.)
        let wait = ahead.checked_mul(1000).map_or(u64::MAX, |ahead| ahead.div_ceil(self.rate));
        self.since.saturating_add(wait)
    }

    /// Sets the rate to `rate` thousandths from `now` on.
    pub(crate) fn run_at(&mut self, now: u64, rate: u64) {
        *self = Clock { since: now, shown: self.at(now).0, rate };
    }

    /// Jumps forward at `now`.
    pub(crate) fn jump(&mut self, now: u64, by: u64) {
        *self = Clock { since: now, shown: self.at(now).0 + by, rate: self.rate };
    }
}

/// The date that a node shows, in nanoseconds: a time service or an operator sets it, forward and
/// back, and it drifts meanwhile. It is not a monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wall {
    /// The world time of the last change.
    since: u64,
    /// The date that it showed then.
    shown: u64,
    /// The thousandths of a nanosecond that pass here in one of the world's.
    rate: u64,
}

/// The date at which the world begins: far enough from 0 for clocks that are behind.
const BEGINNING: u64 = 1 << 60;

impl Wall {
    /// A correct clock.
    pub(crate) fn new() -> Wall {
        Wall { since: 0, shown: BEGINNING, rate: TRUE_RATE }
    }

    /// The date that it shows at world time `now`.
    pub(crate) fn at(&self, now: u64) -> u64 {
        self.shown + (now - self.since) * self.rate / 1000
    }

    /// Sets the rate to `rate` thousandths from `now` on.
    pub(crate) fn run_at(&mut self, now: u64, rate: u64) {
        *self = Wall { since: now, shown: self.at(now), rate };
    }

    /// Sets the date at `now`, forward or back.
    pub(crate) fn set(&mut self, now: u64, shown: u64) {
        *self = Wall { since: now, shown, rate: self.rate };
    }

    /// Sets the date at `now`, forward or back by less than `span`, or changes the rate.
    pub(crate) fn upset(&mut self, now: u64, span: u64, rng: &mut Rng) {
        match rng.below(3) {
            0 => self.run_at(now, rng.range(990, 1010)),
            1 => self.set(now, self.at(now) + rng.below(span)),
            _ => self.set(now, self.at(now).saturating_sub(rng.below(span))),
        }
    }

    /// Sets date and rate to the correct ones at `now`.
    pub(crate) fn correct(&mut self, now: u64) {
        *self = Wall { since: now, shown: BEGINNING + now, rate: TRUE_RATE };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_goes_forward_and_back_until_it_is_corrected() {
        let mut wall = Wall::new();
        let right = |now| BEGINNING + now;
        wall.run_at(1000, 1010);
        assert_eq!(wall.at(101_000), right(102_000));
        wall.set(101_000, right(1));
        assert_eq!(wall.at(201_000), right(101_001), "behind, and still too fast");
        wall.correct(201_000);
        assert_eq!((wall.at(201_000), wall.at(500_000)), (right(201_000), right(500_000)));
    }

    #[test]
    fn a_clock_never_runs_backwards_and_when_is_the_inverse_of_at() {
        let mut rng = Rng::new(3);
        let mut clock = Clock::new(1_000_000);
        let (mut now, mut last) = (0, clock.at(0));
        for _ in 0..1000 {
            now += rng.below(1_000_000);
            match rng.below(3) {
                0 => clock.run_at(now, rng.range(900, 1100)),
                1 => clock.jump(now, rng.below(1_000_000)),
                _ => {}
            }
            assert!(clock.at(now) >= last);
            last = clock.at(now);
            let wanted = Instant(last.0 + rng.below(1_000_000));
            let when = clock.when(wanted);
            assert!(clock.at(when) >= wanted);
            assert!(when <= now || clock.at(when - 1) < wanted);
        }
    }
}
