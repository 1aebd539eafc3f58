//! Looks at the links: what the last one has seen, and when the next one is due.
//!
//! - K1 an arrival or an alarm between two looks is seen by the second: the counts are read before
//!   the look that they belong to. By [`ShmFabric::attend`](super::ShmFabric).

use std::time::{Duration, Instant};

/// The interval at which a missing peer is looked for, though it would announce itself.
pub const RETRY: Duration = Duration::from_millis(10);

/// The number of polls per glance: one poll in so many checks whether a peer has died, and reads
/// the clock while a link is missing, which would cost too much in every poll.
const POLLS_PER_GLANCE: u32 = 64;

/// The time after a peer's death for which a loop should look for its consequences rather than
/// sleep: several times the duration of a takeover.
const ALERT: Duration = Duration::from_micros(300);

/// The looks of the module's text.
#[derive(Debug)]
pub(super) struct Looks {
    /// The number of arrivals and alarms that the last look has seen (K1).
    pub(super) arrivals: u64,
    pub(super) alarms: u64,
    /// Something was found that the next poll must handle.
    pub(super) again: bool,
    /// A link, or what is needed for one, is missing.
    pub(super) missing: bool,
    polls: u32,
    retry_at: Instant,
    /// The time until which it is worthwhile to look for the consequences of a peer's death.
    alert_until: Option<Instant>,
}

impl Looks {
    /// None yet.
    pub(super) fn new(arrivals: u64) -> Looks {
        Looks {
            arrivals,
            alarms: 0,
            again: false,
            missing: true,
            polls: 0,
            retry_at: Instant::now(),
            alert_until: None,
        }
    }

    /// Whether this poll is one that glances.
    #[inline]
    pub(super) fn count_poll(&mut self) -> bool {
        self.polls = self.polls.wrapping_add(1);
        self.polls.is_multiple_of(POLLS_PER_GLANCE)
    }

    /// Whether a missing peer is to be looked for now.
    pub(super) fn is_retry_due(&self) -> bool {
        self.missing && Instant::now() >= self.retry_at
    }

    /// A peer has died: files are looked at later.
    pub(super) fn note_death(&mut self) {
        let now = Instant::now();
        self.alert_until = Some(now + ALERT);
        (self.again, self.missing) = (false, true);
        self.retry_at = now + RETRY;
    }

    /// A look is over.
    pub(super) fn end(&mut self) {
        self.retry_at = Instant::now() + RETRY;
    }

    /// Whether a peer has died a moment ago.
    #[inline]
    pub(super) fn is_alert(&mut self) -> bool {
        self.alert_until.is_some() && self.stays_alert()
    }

    #[cold]
    fn stays_alert(&mut self) -> bool {
        self.alert_until = self.alert_until.filter(|until| Instant::now() < *until);
        if self.alert_until.is_some() {
            // If all poll loops are in a hurry, one that waits must not keep one that acts off the
            // processor.
            std::thread::yield_now();
        }
        self.alert_until.is_some()
    }
}
