//! Pace: clients wait while the copies of a majority are far behind.
//!
//! A cluster decides as fast as a majority of members can write, which may be faster than their
//! copies execute. A copy that is far behind serves its own clients late, comes to its hashes when
//! they count no longer (`verdict`, V5), and has to execute all of it before it can take the place
//! of a leader's. So what a majority's copies have not executed is bounded, too.
//!
//! - A1 clients are not read while no majority's copies have answered alike at any of the newest
//!   points that [`Judge::ahead_max`](crate::verdict::Judge::ahead_max) says.
//! - A2 that is so only while these copies come on: if none of the older points is agreed on within
//!   [`HELD_WITHIN`], clients are read again. A majority's copies may be gone, or begin again from
//!   the start, and the log has its majority without them.

use base::Instant;
use core::time::Duration;

/// The time within which a majority's copies that are far behind have to come to another point.
pub(crate) const HELD_WITHIN: Duration = Duration::from_secs(1);

/// The pace of the module's text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The newest point that was agreed on, and when that was seen.
    agreed_at: u64,
    seen_at: Instant,
    is_far_ahead: bool,
    now: Instant,
}

impl Pace {
    /// The pace of a cluster that has executed nothing.
    pub(crate) const fn new() -> Pace {
        Pace { agreed_at: 0, seen_at: Instant::ZERO, is_far_ahead: false, now: Instant::ZERO }
    }

    /// Notes the newest point that was agreed on, and the number of entries that were executed, of
    /// which `ahead_max` may lie behind it; 0 if nothing is compared.
    pub(crate) fn look(&mut self, agreed_at: u64, position: u64, ahead_max: u64, now: Instant) {
        let was_far_ahead = self.is_far_ahead;
        self.is_far_ahead = ahead_max > 0 && position - agreed_at > ahead_max;
        if self.agreed_at != agreed_at || !was_far_ahead {
            (self.agreed_at, self.seen_at) = (agreed_at, now);
        }
        self.now = now;
    }

    /// Whether clients wait.
    pub(crate) fn holds(&self) -> bool {
        self.is_far_ahead && self.now < self.seen_at.plus(HELD_WITHIN)
    }

    /// The time of the next look, if one is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.holds().then(|| self.seen_at.plus(HELD_WITHIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: u64 = 10;
    const AHEAD_MAX: u64 = 32 * EVERY;
    const FAR: u64 = AHEAD_MAX + 1;

    fn at(ms: u64) -> Instant {
        Instant::ZERO.plus(Duration::from_millis(ms))
    }

    #[test]
    fn a1_clients_wait_while_a_majority_is_far_behind() {
        let mut pace = Pace::new();
        pace.look(0, FAR - 1, AHEAD_MAX, at(5));
        assert!(!pace.holds());
        pace.look(0, FAR, AHEAD_MAX, at(6));
        assert!(pace.holds());
        pace.look(EVERY, FAR, AHEAD_MAX, at(7));
        assert!(!pace.holds(), "they have come on");
        pace.look(0, FAR, 0, at(8));
        assert!(!pace.holds(), "nothing is compared, so nothing is known");
    }

    #[test]
    fn a2_copies_that_do_not_come_on_are_not_waited_for() {
        let mut pace = Pace::new();
        pace.look(0, FAR, AHEAD_MAX, at(3000));
        assert_eq!((pace.holds(), pace.deadline()), (true, Some(at(4000))));
        pace.look(EVERY, FAR + EVERY, AHEAD_MAX, at(3900));
        assert_eq!((pace.holds(), pace.deadline()), (true, Some(at(4900))), "another point");
        pace.look(EVERY, FAR + EVERY, AHEAD_MAX, at(4900));
        assert_eq!((pace.holds(), pace.deadline()), (false, None));
        pace.look(2 * EVERY, FAR + 9 * EVERY, AHEAD_MAX, at(9000));
        assert!(pace.holds(), "they come on again");
    }
}
