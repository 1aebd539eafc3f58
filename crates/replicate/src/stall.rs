//! Stall: the time for which a copy has taken up nothing and said nothing, though that is waited
//! for.
//!
//! - L1 a look counts an eighth of the limit at most (`LOOKS`). A process that was stopped itself,
//!   and its copy with it, does not take the copy for one that stalls.

use base::Instant;
use core::time::Duration;

/// The time after which a copy that takes up nothing is begun again, if others have gone past it.
pub const STALLED_AFTER: Duration = Duration::from_secs(60);

/// The looks that a stall takes at the least (L1).
const LOOKS: u32 = 8;

/// The stall of the module's text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stall {
    limit: Duration,
    counted: Duration,
    /// The time since when nothing has moved, and that of the last look at it.
    still: Option<(Instant, Instant)>,
}

impl Stall {
    /// No stall; one is over after `limit`.
    pub(crate) const fn new(limit: Duration) -> Stall {
        Stall { limit, counted: Duration::ZERO, still: None }
    }

    /// Notes the time since when nothing has moved, if something is waited for.
    pub(crate) fn look(&mut self, since: Option<Instant>, now: Instant) {
        let last = self.still.filter(|(before, _)| Some(*before) == since).map(|(_, last)| last);
        self.counted = match last {
            Some(last) => self.counted + now.since(last).min(self.limit / LOOKS), // L1
            None => Duration::ZERO,
        };
        self.still = since.map(|since| (since, now));
    }

    /// The time that was counted; zero if nothing is waited for.
    pub(crate) fn counted(&self) -> Duration {
        self.counted
    }

    /// Whether the limit is reached.
    pub(crate) fn is_over(&self) -> bool {
        self.still.is_some() && self.counted >= self.limit
    }

    /// The time of the next look, if one is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let (_, last) = self.still.filter(|_| !self.is_over())?;
        Some(last.plus(self.limit / LOOKS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(8);

    fn at(seconds: u64) -> Instant {
        Instant::ZERO.plus(Duration::from_secs(seconds))
    }

    #[test]
    fn a_stall_is_over_after_its_limit() {
        let mut stall = Stall::new(LIMIT);
        for second in 5..13 {
            stall.look(Some(at(4)), at(second));
            assert!(!stall.is_over(), "{second}");
            assert_eq!(stall.deadline(), Some(at(second + 1)));
        }
        stall.look(Some(at(4)), at(13));
        assert!(stall.is_over());
        assert_eq!((stall.counted(), stall.deadline()), (LIMIT, None));
    }

    #[test]
    fn what_moves_begins_another_stall() {
        let mut stall = Stall::new(LIMIT);
        (0..=8).for_each(|second| stall.look(Some(at(0)), at(second)));
        assert!(stall.is_over());
        stall.look(Some(at(8)), at(9));
        assert!(!stall.is_over());
        (9..=18).for_each(|second| stall.look(Some(at(8)), at(second)));
        assert!(stall.is_over());
        stall.look(None, at(19));
        assert!(!stall.is_over());
        assert_eq!(stall.deadline(), None);
    }

    #[test]
    fn l1_the_time_in_which_the_process_itself_was_stopped_hardly_counts() {
        let mut stall = Stall::new(LIMIT);
        stall.look(Some(at(0)), at(1));
        stall.look(Some(at(0)), at(3600));
        assert_eq!(stall.counted(), LIMIT / 8);
    }
}
