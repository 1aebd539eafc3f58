//! Stamped: what a leader stamps follows the time that passes on its own clock, by the rules of
//! `base::state_clock`. Judged when a stamp is made, by what the member was told before.
//!
//! - T1 A stamp is not below the state's time, and the first one of a reign is above it (I1, I5).
//! - T2 Since the member's estimate began, it has risen by at most the time that has passed and
//!   `SLEW_PPM` of it (I2). It begins with a state time that is news of the present (I3); with one
//!   of a leader before, as of the own first stamp of this reign (I6); or where the state's time
//!   was ahead of it.
//! - T3 Between two stamps of one reign, it has risen by at least that time except `SLEW_PPM` of it
//!   (I2).
//!
//! Why it matters: a key that dies early shows only if a client looks at it just then. Why no false
//! alarm: the times are the member's own, and no wall clock is looked at. `state_time` judges what
//! several members stamp one after the other.

use base::state_clock::SLEW_PPM;
use base::{Evidence, Instant};

const NS_PER_MS: u64 = 1_000_000;

/// What one process knows of state time.
#[derive(Default)]
pub(crate) struct Stamped {
    begun: Option<Begun>,
    observed_ms: u64,
    /// Its first and its last stamp of this reign.
    own: Option<[(u64, Instant); 2]>,
}

/// The beginning of its estimate: the most that it was then.
#[derive(Clone, Copy)]
struct Begun {
    unix_ns: u64,
    at: Instant,
}

impl Begun {
    fn with(unix_ms: u64, at: Instant) -> Begun {
        Begun { unix_ns: unix_ms.saturating_mul(NS_PER_MS), at }
    }

    /// The most that it may have become, in Unix nanoseconds.
    fn most(self, now: Instant) -> u64 {
        let passed = now.since(self.at).as_nanos() as u64;
        let slewed = u128::from(passed) * u128::from(SLEW_PPM) / 1_000_000;
        self.unix_ns.saturating_add(passed).saturating_add(slewed as u64)
    }
}

impl Stamped {
    /// A reign begins or ends.
    pub(crate) fn lead(&mut self) {
        self.own = None;
    }

    /// It is told that the state's time has been `state_ms` since `at`.
    pub(crate) fn observes(&mut self, state_ms: u64, evidence: Evidence, at: Instant) {
        match evidence {
            Evidence::Past => self.raised(state_ms, at),
            Evidence::Present | Evidence::OwnReign if state_ms == self.observed_ms => {}
            Evidence::Present | Evidence::OwnReign => {
                self.observed_ms = state_ms;
                let [first, last] = self.own.unwrap_or([(0, at); 2]);
                if state_ms > last.0 {
                    let is_own = evidence == Evidence::OwnReign;
                    self.begun = Some(Begun::with(state_ms, if is_own { first.1 } else { at }));
                }
            }
        }
    }

    /// The state's time was `state_ms` from `at` on: the estimate is not below that.
    fn raised(&mut self, state_ms: u64, at: Instant) {
        let raised = Begun::with(state_ms, at);
        self.begun = self.begun.map(|of| if of.most(at) < raised.unix_ns { raised } else { of });
    }

    /// It stamps a batch with `unix_ms`, and the state's time is `state_ms`.
    pub(crate) fn stamps(
        &mut self,
        unix_ms: u64,
        state_ms: u64,
        now: Instant,
    ) -> Result<(), String> {
        let least = state_ms + u64::from(self.own.is_none());
        if unix_ms < least {
            let (state, of) =
                if self.own.is_none() { ("not above", "first ") } else { ("below", "") };
            return Err(format!("T1: a {of}stamp of {unix_ms} is {state} the state's {state_ms}"));
        }
        self.raised(least, now);
        // (A stamp is cut to milliseconds.)
        let founded = Begun { unix_ns: unix_ms * NS_PER_MS + NS_PER_MS - 1, at: now };
        let begun = *self.begun.get_or_insert(founded);
        if unix_ms * NS_PER_MS > begun.most(now) {
            let (rise, passed) = (unix_ms - begun.unix_ns / NS_PER_MS, now.since(begun.at));
            return Err(format!("T2: stamps have risen by {rise} ms in {passed:?}"));
        }
        if let Some([_, last]) = self.own {
            let (rise, passed) = (unix_ms.saturating_sub(last.0), now.since(last.1).as_millis());
            let (rise, slewed) = (u128::from(rise), passed * u128::from(SLEW_PPM) / 1_000_000);
            // (Both ends are cut to milliseconds, and so is the time between.)
            if rise + slewed + 2 < passed {
                return Err(format!("T3: stamps have risen by {rise} ms only in {passed} ms"));
            }
        }
        let first = self.own.map_or((unix_ms, now), |[first, _]| first);
        self.own = Some([first, (unix_ms, now)]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    /// A leader that has stamped 9,000 at 100 ms.
    fn leader() -> Stamped {
        let mut stamped = Stamped::default();
        stamped.lead();
        stamped.stamps(9_000, 0, at(100)).unwrap();
        stamped
    }

    #[test]
    fn t1_the_first_stamp_of_a_reign_is_above_the_states_time() {
        let mut stamped = leader();
        stamped.observes(9_000, Evidence::OwnReign, at(101));
        assert!(leader().stamps(8_999, 9_000, at(101)).is_err());
        stamped.stamps(9_001, 9_001, at(101)).unwrap();
        stamped.lead();
        assert!(stamped.stamps(9_001, 9_001, at(101)).is_err());
        stamped.stamps(9_002, 9_001, at(101)).unwrap();
    }

    #[test]
    fn t2_an_estimate_that_runs_ahead_is_seen() {
        let judged = |unix_ms, now| leader().stamps(unix_ms, 9_000, at(now)).is_ok();
        assert!(judged(19_000, 10_100) && judged(19_100, 10_100), "slewed forward");
        assert!(!judged(19_200, 10_100));
        // The next leader's time is news, and so is what a leader before had stamped.
        let mut stamped = leader();
        stamped.lead();
        stamped.observes(9_500, Evidence::Present, at(5_000));
        assert!(stamped.stamps(14_000, 9_500, at(5_100)).is_err(), "of the time before");
        let mut stamped = leader();
        stamped.observes(9_500, Evidence::OwnReign, at(5_000));
        stamped.stamps(14_500, 9_500, at(5_100)).unwrap();
        let mut stamped = leader();
        stamped.lead();
        stamped.observes(9_500, Evidence::OwnReign, at(5_000));
        assert!(stamped.stamps(14_500, 9_500, at(5_100)).is_err(), "as of the reign before");
        stamped.stamps(9_600, 9_500, at(5_100)).unwrap();
    }

    #[test]
    fn t2_a_state_that_is_ahead_raises_the_estimate() {
        let mut stamped = leader();
        stamped.observes(99_000, Evidence::Past, at(200));
        stamped.stamps(100_000, 99_000, at(1_200)).unwrap();
        stamped.stamps(200_000, 200_000, at(1_300)).unwrap();
        assert!(stamped.stamps(201_000, 200_000, at(1_400)).is_err());
    }

    #[test]
    fn t3_a_leaders_time_does_not_stand_still() {
        assert!(leader().stamps(18_900, 9_000, at(10_100)).is_ok(), "slewed back");
        assert!(leader().stamps(18_800, 9_000, at(10_100)).is_err());
    }
}
