//! Suspicion by silence: the beats of the other members, and when they were last seen to rise.
//!
//! A suspicion may be wrong, and every rule of a view holds if it is. A process that was stopped
//! itself has heard no beats meanwhile: after a late look it gives all members their time again,
//! but none more than three times before it hears a beat of it. So one that is always late
//! suspects too, and members that are late together do not suspect each other at once.

use alloc::vec::Vec;
use base::{Instant, Rank, SeatSet};
use core::time::Duration;

/// The late looks that give a member its time again.
const FORGIVEN_MAX: u8 = 3;

/// What one member has heard in one view.
#[derive(Debug)]
pub(super) struct Detector {
    /// The longest silence.
    patience: Duration,
    /// By seat.
    heard: Vec<Last>,
    looked_at: Instant,
}

/// The last beat of a member.
#[derive(Clone, Copy, Debug)]
struct Last {
    beat: u64,
    /// The time from which on its silence counts: that at which it came, or that of a late look.
    at: Instant,
    /// The late looks since the beat, up to [`FORGIVEN_MAX`].
    n_forgiven: u8,
}

impl Detector {
    /// At the beginning of a view, at which every member has its time.
    pub(super) fn new(n_seats: usize, patience: Duration, now: Instant) -> Detector {
        let last = Last { beat: 0, at: now, n_forgiven: 0 };
        Detector { patience, heard: alloc::vec![last; n_seats], looked_at: now }
    }

    /// Takes the beats of `seats`. Returns the seats that have been silent for too long.
    pub(super) fn look(
        &mut self,
        seats: SeatSet,
        beat: impl Fn(Rank) -> u64,
        now: Instant,
    ) -> SeatSet {
        let was_late = now.since(self.looked_at) > self.patience / 2;
        self.looked_at = now;
        let mut silent = SeatSet::EMPTY;
        for seat in seats.iter() {
            let (last, beat) = (&mut self.heard[seat.index()], beat(seat));
            if beat != last.beat {
                *last = Last { beat, at: now, n_forgiven: 0 };
            } else if was_late && last.n_forgiven < FORGIVEN_MAX {
                (last.at, last.n_forgiven) = (now, last.n_forgiven + 1);
            } else if now.since(last.at) > self.patience {
                silent.insert(seat);
            }
        }
        silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn silence_is_suspected_and_a_late_look_forgives() {
        let seats: SeatSet = [Rank::at(1), Rank::at(2)].into_iter().collect();
        let at = |ms| Instant(ms * MS);
        let mut detector = Detector::new(3, Duration::from_millis(100), at(0));
        let mut look = |ms: u64, beat_of_1: u64| {
            let beat = |seat: Rank| if seat == Rank::at(1) { beat_of_1 } else { 0 };
            detector.look(seats, beat, at(ms))
        };
        for ms in (20..=100).step_by(20) {
            assert!(look(ms, ms).is_empty(), "{ms}");
        }
        assert_eq!(look(120, 120), [Rank::at(2)].into_iter().collect());
        assert!(look(300, 120).is_empty(), "this process was stopped");
        assert!(look(340, 120).is_empty() && look(380, 120).is_empty());
        assert_eq!(look(420, 120), seats);
    }

    #[test]
    fn a_process_that_is_always_late_suspects_a_member_that_is_silent() {
        let seats: SeatSet = [Rank::at(1), Rank::at(2)].into_iter().collect();
        let mut detector = Detector::new(3, Duration::from_millis(100), Instant(0));
        let mut look = |ms: u64, beat_of_1: u64| {
            let beat = |seat: Rank| if seat == Rank::at(1) { beat_of_1 } else { 0 };
            detector.look(seats, beat, Instant(ms * MS))
        };
        for (ms, beat_of_1) in [(60, 1), (120, 2), (180, 3), (240, 3)] {
            assert!(look(ms, beat_of_1).is_empty(), "{ms}");
        }
        for (ms, beat_of_1) in [(300, 4), (360, 4), (420, 4)] {
            assert_eq!(look(ms, beat_of_1), [Rank::at(2)].into_iter().collect(), "{ms}");
        }
    }
}
