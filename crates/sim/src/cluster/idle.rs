//! The judge of one client's session that is idle, in runs of a day: it expires after an hour of
//! state time without a call (`kv::client_sessions`, E5).
//!
//! - J1 *Not early*: within a reign (`expiry`, E5) a session is there until an hour has passed
//!   since its last answered call, less what clocks may be wrong by.
//! - J2 *Not for ever*: when all is well, it is gone an hour after whatever was last asked in it,
//!   and what clocks may be wrong by.

use crate::plan::MS;

/// The state time after which a session expires.
const IDLE_NS: u64 = kv::client_sessions::IDLE_MS * MS;
/// What clocks, and state time, may be wrong by (`expiry`).
const SLACK_NS: u64 = IDLE_NS / 100 * 12;
/// The longest time that a request may be on its way.
const LATE_NS: u64 = 60_000 * MS;

/// The present reign, and what else the world knows of time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reign {
    pub(super) number: usize,
    pub(super) since: u64,
    /// When all faults ended.
    pub(super) healed_at: Option<u64>,
}

/// What is known of one session.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Idle {
    /// The time of the last request in it, or the last answer.
    last_at: u64,
    /// When the last answered call was sent.
    called_at: u64,
    /// The reigns of the last two that were answered.
    reigns: [Option<usize>; 2],
}

impl Idle {
    /// A request in it is sent.
    pub(super) fn ask(&mut self, now: u64) {
        self.last_at = self.last_at.max(now);
    }

    /// J2: a call in it that was sent at `sent_at`, after the last one at `before`, is answered as
    /// in a session that is there.
    pub(super) fn is_there(
        &mut self,
        (before, sent_at, now): (u64, u64, u64),
        reign: Reign,
    ) -> Result<(), String> {
        (self.called_at, self.last_at) = (sent_at, self.last_at.max(now));
        self.reigns = [self.reigns[1], Some(reign.number)];
        let Some(healed_at) = reign.healed_at else { return Ok(()) };
        let since = before.max(healed_at).max(reign.since);
        if sent_at > since + IDLE_NS + SLACK_NS + LATE_NS {
            return Err(format!("a session that was idle since {since} is there at {sent_at}"));
        }
        Ok(())
    }

    /// The time of the last request or answer.
    pub(super) fn last_at(&self) -> u64 {
        self.last_at
    }

    /// J1: it is said not to be there.
    pub(super) fn is_gone(&self, now: u64, reign: Reign) -> Result<(), String> {
        let is_of_reign = self.reigns == [Some(reign.number); 2];
        if is_of_reign && now < self.called_at + IDLE_NS - SLACK_NS {
            return Err(format!("a session is gone at {now}, called at {}", self.called_at));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000 * MS;

    #[test]
    fn j1_a_session_that_goes_early_is_noticed_within_a_reign() {
        let (mut idle, reign) = (Idle::default(), Reign::default());
        for at in [1, 2] {
            assert_eq!(idle.is_there((0, at, at), reign), Ok(()));
        }
        assert!(idle.is_gone(HOUR / 2, reign).is_err());
        assert_eq!(idle.is_gone(HOUR, reign), Ok(()));
        assert_eq!(idle.is_gone(HOUR / 2, Reign { number: 1, ..reign }), Ok(()), "another leads");
    }

    #[test]
    fn j2_a_session_that_stays_is_noticed_when_all_is_well() {
        let mut idle = Idle::default();
        let reign = Reign { healed_at: Some(HOUR), ..Reign::default() };
        let mut there = |before, sent_at, reign| idle.is_there((before, sent_at, sent_at), reign);
        assert_eq!(there(0, 2 * HOUR, reign), Ok(()), "it was not well for long");
        assert_eq!(there(2 * HOUR, 3 * HOUR, reign), Ok(()));
        assert!(there(2 * HOUR, 4 * HOUR, reign).is_err());
        assert_eq!(there(2 * HOUR, 4 * HOUR, Reign { since: 3 * HOUR, ..reign }), Ok(()));
        assert_eq!(there(0, 4 * HOUR, Reign { healed_at: None, ..reign }), Ok(()), "faults last");
    }
}
