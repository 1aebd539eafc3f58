//! A machine's time: now, and the next moment at which it looks around without an event.

use base::Instant;

/// The time of the last call, and the alarm.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Clock {
    pub(crate) now: Instant,
    /// The time at which it is due: a sleeper is woken, a message repeated.
    alarm: Option<Instant>,
}

impl Clock {
    pub(crate) const fn new() -> Clock {
        Clock { now: Instant::ZERO, alarm: None }
    }

    /// Asks for a look around at `at`, or earlier if one is due earlier.
    pub(crate) fn nudge(&mut self, at: Instant) {
        self.alarm = Some(self.alarm.map_or(at, |before| before.min(at)));
    }

    pub(crate) const fn alarm(&self) -> Option<Instant> {
        self.alarm
    }

    /// Whether a look around is due; it is not due again before the next nudge.
    pub(crate) fn rings(&mut self) -> bool {
        self.alarm.take_if(|at| *at <= self.now).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn the_earliest_nudge_counts_and_rings_once() {
        let at = |ms| Instant::ZERO.plus(Duration::from_millis(ms));
        let mut clock = Clock::new();
        clock.nudge(at(3));
        clock.nudge(at(2));
        clock.nudge(at(4));
        assert!(!clock.rings());
        clock.now = at(2);
        assert!(clock.rings() && !clock.rings());
        assert_eq!(clock.alarm(), None);
    }
}
