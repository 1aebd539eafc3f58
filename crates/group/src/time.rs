//! Times of a group, by the clocks of its hosts.

use proto::vsync;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::{Duration, SystemTime};

/// A time, in nanoseconds since 1970. The times of a group's messages are close to its hosts'
/// clocks, and later than everything that led to the message.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Time(u64);

impl Time {
    /// What the clock of this host shows.
    pub fn now() -> Time {
        SystemTime::now().into()
    }

    /// So many nanoseconds after the beginning of 1970.
    pub const fn from_nanos(ns: u64) -> Time {
        Time(ns)
    }

    /// The nanoseconds since the beginning of 1970.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time before this one by `span`.
    #[must_use]
    pub fn before(self, span: Duration) -> Time {
        Time(self.0.saturating_sub(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// How far a time may be ahead of the clock of the host that learns it: more than clocks differ
/// that are set at all.
const AHEAD_MAX: Duration = Duration::from_hours(24);

/// A time that no group can have told, by the clock of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a time {ahead:?} ahead of this host's clock: if a group told it, set the clock")]
pub struct FarTimeError {
    ahead: Duration,
}

impl Time {
    /// Refuses what is ahead of this host's clock by more than a day.
    pub(crate) fn check_near(self) -> Result<(), FarTimeError> {
        let ahead = Duration::from_nanos(self.0.saturating_sub(Time::now().0));
        if ahead > AHEAD_MAX { Err(FarTimeError { ahead }) } else { Ok(()) }
    }
}

impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Time {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Time(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<vsync::Time> for Time {
    fn from(time: vsync::Time) -> Time {
        Time(time.0)
    }
}

impl From<Time> for vsync::Time {
    fn from(time: Time) -> vsync::Time {
        vsync::Time(time.0)
    }
}

/// In seconds since 1970.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09} s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_of_the_systems_clock_and_end_at_1970() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_500);
        assert_eq!(Time::from(at).to_string(), "1.500000000 s");
        let early = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(Time::from(early), Time::default());
        assert_eq!(Time::from(at).before(Duration::from_secs(9)), Time::default());
        assert!(Time::now() > Time::from(at));
    }

    #[test]
    fn what_is_a_day_ahead_is_refused() {
        let in_hours = |hours| Time::from(SystemTime::now() + Duration::from_hours(hours));
        assert_eq!(in_hours(23).check_near(), Ok(()));
        assert_eq!(Time::default().check_near(), Ok(()));
        assert!(in_hours(25).check_near().is_err());
        let far = Time::from_nanos(u64::MAX).check_near().unwrap_err().to_string();
        assert!(far.contains("ahead of this host's clock"), "{far}");
    }
}
