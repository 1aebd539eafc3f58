//! Attestation of this host's real-time clock: whether it can be relied on now, and with what
//! error.
//!
//! - A1 A reading is handed out only if its error is attested when it is taken.
//!   [`ClockBy::Kernel`]: the kernel reports that the clock is synchronized and off by no more than
//!   the configured error. By [`Attested::judge`].
//! - A2 A clock that was stepped is not relied on before the kernel attests it again. A step
//!   invalidates the kernel's attestation. The kernel is asked again every [`ASK_EVERY`], and at
//!   once if real time and monotonic time have diverged since by more than the error: a step shows
//!   in the first reading after it.
//!
//! Without an attested clock a primary under `commit-wait` proposes nothing, and a member delivers
//! by the clocks of all groups (docs/protocols/linearizable-multicast.md).

use crate::system::ClockBy;
use proto::amcast::RealClock;
use region::clock::Verdict;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The time for which the kernel's attestation holds, unless the clock diverges.
const ASK_EVERY: Duration = Duration::from_millis(10);

/// Both clocks, read together.
#[derive(Clone, Copy, Debug)]
struct Reading {
    real_ns: u64,
    monotonic: Instant,
}

/// The attested clock; see the module's text.
#[derive(Debug)]
pub(crate) struct Attested {
    error_ns: u64,
    by: ClockBy,
    /// The time and the result of the kernel's last attestation.
    word: Option<(Reading, bool)>,
}

impl Attested {
    pub(crate) const fn new(error_ns: u64, by: ClockBy) -> Attested {
        Attested { error_ns, by, word: None }
    }

    /// The clock, if it is attested.
    pub(crate) fn read(&mut self) -> Option<RealClock> {
        let real_ns = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_nanos() as u64;
        self.judge(Reading { real_ns, monotonic: Instant::now() }, region::clock::verdict)
    }

    fn judge(&mut self, now: Reading, ask: impl FnOnce() -> Verdict) -> Option<RealClock> {
        let error = self.error_ns;
        let is_attested = match (self.by, self.word) {
            (ClockBy::Operator, _) => true,
            (ClockBy::Kernel, Some((then, word))) if !self.is_due(then, now) => word,
            (ClockBy::Kernel, _) => {
                let Verdict { is_synchronized, error_ns } = ask();
                let word = is_synchronized && error_ns <= error;
                self.word = Some((now, word));
                word
            }
        };
        is_attested.then_some(RealClock { now: now.real_ns, error })
    }

    /// Whether the attestation of `then` may no longer hold (A2).
    fn is_due(&self, then: Reading, now: Reading) -> bool {
        let passed = now.monotonic.saturating_duration_since(then.monotonic);
        let expected_ns = then.real_ns.saturating_add(passed.as_nanos() as u64);
        passed >= ASK_EVERY || now.real_ns.abs_diff(expected_ns) > self.error_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ERROR_NS: u64 = 1_000_000;

    fn good() -> Verdict {
        Verdict { is_synchronized: true, error_ns: ERROR_NS }
    }

    /// A reading of both clocks, so long after the beginning.
    fn reading(begin: Instant, real: Duration, monotonic: Duration) -> Reading {
        let real_ns = 1_000_000_000 + real.as_nanos() as u64;
        Reading { real_ns, monotonic: begin + monotonic }
    }

    #[test]
    fn a1_an_unsynchronized_or_a_worse_clock_is_not_relied_on() {
        let now = reading(Instant::now(), Duration::ZERO, Duration::ZERO);
        let unsynchronized = || Verdict { is_synchronized: false, ..good() };
        let worse = || Verdict { error_ns: ERROR_NS + 1, ..good() };
        let judge = |by, word: fn() -> Verdict| Attested::new(ERROR_NS, by).judge(now, word);
        let clock = Some(RealClock { now: now.real_ns, error: ERROR_NS });
        assert_eq!(judge(ClockBy::Kernel, good), clock);
        assert_eq!(judge(ClockBy::Kernel, unsynchronized), None);
        assert_eq!(judge(ClockBy::Kernel, worse), None);
        assert_eq!(judge(ClockBy::Operator, unsynchronized), clock);
    }

    #[test]
    fn a2_a_step_is_noticed_in_the_first_reading_after_it() {
        let (begin, ms) = (Instant::now(), Duration::from_millis);
        let mut clock = Attested::new(ERROR_NS, ClockBy::Kernel);
        let stepped = || Verdict { is_synchronized: false, ..good() };
        assert!(clock.judge(reading(begin, ms(0), ms(0)), good).is_some());
        let soon = reading(begin, ms(1), ms(1));
        assert!(clock.judge(soon, || unreachable!("its word is fresh")).is_some());
        for real in [ms(3_600_000), ms(0)] {
            let mut clock = Attested::new(ERROR_NS, ClockBy::Kernel);
            assert!(clock.judge(reading(begin, ms(0), ms(0)), good).is_some());
            assert!(clock.judge(reading(begin, real, ms(4)), stepped).is_none());
            let again = reading(begin, real + ms(1), ms(5));
            assert!(clock.judge(again, good).is_none(), "the kernel is asked again later");
            assert!(clock.judge(reading(begin, real + ms(10), ms(14)), good).is_some());
        }
    }
}
