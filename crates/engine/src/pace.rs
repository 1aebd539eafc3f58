//! How much of a member's time may go into states for others and for its disk.

use base::Instant;
use core::time::Duration;

/// The pause after a piece, in times that its making took: at most a fifth of the time goes there.
const PAUSE: u32 = 4;

/// When the next piece of a state may be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    next_at: Instant,
}

impl Pace {
    /// The first piece at once.
    pub(crate) fn new(now: Instant) -> Pace {
        Pace { next_at: now }
    }

    /// How long no piece is made.
    pub(crate) fn pause(&self, now: Instant) -> Duration {
        self.next_at.since(now)
    }

    /// A piece whose making began at `began` is ready at `now`.
    pub(crate) fn made(&mut self, began: Instant, now: Instant) {
        self.next_at = now.plus(now.since(began) * PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_piece_comes_a_pause_of_four_times_its_making() {
        let mut pace = Pace::new(Instant(5));
        assert_eq!(pace.pause(Instant(5)), Duration::ZERO);
        pace.made(Instant(100), Instant(110));
        assert_eq!(pace.pause(Instant(110)), Duration::from_nanos(40));
        assert_eq!(pace.pause(Instant(150)), Duration::ZERO);
    }
}
