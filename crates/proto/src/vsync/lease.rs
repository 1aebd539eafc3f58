//! Leases: a member that has one may answer reads of its own state, and no update that it does not
//! have was answered anywhere.
//!
//! ```text
//! member m:    beat b ---> the others see it     row: heard[m] = b, not wedged
//!              lease: from when b left, for as long as a lease is counted
//! next view without m:     begins ---- lease ----> answers
//! ```
//! A read waits until everything is delivered that the member held when the read came, and is
//! answered if there is a lease *then*.
//!
//! - E1 *Echoed by a majority.* A lease counts from the time at which a beat left that a majority
//!   of the view has seen, this member among them, before they wedged: a member that has wedged
//!   hears nothing more. A change needs a majority that has wedged (C8), so one of them wedged
//!   after that time. Mutants `LEASE_OF_ONE_ECHO`, `LEASE_UNCHECKED`,
//!   `LEASE_FROM_ECHO`, `HEARS_WEDGED`.
//! - E2 *The next view waits.* A member of a shard that has lost one, or that is new to it, answers
//!   nothing for as long as a lease lasts, from a time that was told after it had begun the view:
//!   the members that decided had wedged by then (C4). Neither updates nor reads. (The time of the
//!   turn in which it began was told before: a process can sleep in between.) One that ends answers
//!   no sooner what it has delivered. Mutants `ANSWERS_AT_ONCE`,
//!   `NEWCOMER_ANSWERS`, `HOLD_FORGOTTEN`, `HOLD_FROM_OLD_TIME`.
//! - E3 *Rates.* A lease is counted as shorter than what others wait: with both clocks' rates at
//!   most [`CLOCK_RATE_PERMILLE`] from true it is over first. Mutant `LEASE_RATE_IGNORED`.
//! - E4 *Held is delivered.* What was answered before a read came had been received by every member
//!   of the shard (V3), so it is a part of what this member held. A newcomer holds nothing before
//!   it has the state. Mutant `READS_WHAT_IS_THERE`; the rest is tested by
//!   `e4_a_newcomer_that_waits_for_the_state_holds_nothing_that_a_read_may_see`.

use crate::multipaxos::lease::CLOCK_RATE_PERMILLE;
use alloc::collections::VecDeque;
use base::Instant;
use core::time::Duration;

/// The most beats whose times are known: an echo that is later is no echo.
const BEATS_MAX: usize = 64;

/// The lease of a member in a view.
#[derive(Debug)]
pub(super) struct Lease {
    /// The time that others wait; without one there are no leases.
    span: Option<Duration>,
    /// The times at which the last beats left.
    beats: VecDeque<(u64, Instant)>,
    /// The end of the lease.
    until: Instant,
}

impl Lease {
    pub(super) const fn new(span: Option<Duration>) -> Lease {
        Lease { span, beats: VecDeque::new(), until: Instant::ZERO }
    }

    pub(super) const fn span(&self) -> Option<Duration> {
        self.span
    }

    pub(super) const fn until(&self) -> Instant {
        self.until
    }

    /// It has a lease until `until`, or a later time.
    pub(super) fn extend(&mut self, until: Instant) {
        self.until = self.until.max(until);
    }

    /// It has none.
    pub(super) const fn end(&mut self) {
        self.until = Instant::ZERO;
    }

    pub(super) fn note_beat(&mut self, beat: u64, now: Instant) {
        if self.span.is_some() {
            self.beats.push_back((beat, now));
            if self.beats.len() > BEATS_MAX {
                self.beats.pop_front();
            }
        }
    }

    pub(super) fn left_at(&self, beat: u64) -> Option<Instant> {
        self.beats.iter().find(|(of, _)| *of == beat).map(|(_, at)| *at)
    }
}

/// When a member may answer, in a shard (E2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Answers {
    /// At once.
    #[default]
    Free,
    /// As long after the first time as a lease lasts that is later than this one, which was told
    /// before the view began.
    Behind(Instant),
    /// From a time on.
    From(Instant),
}

impl Answers {
    /// Takes the time of a turn.
    pub(super) fn tick(&mut self, span: Option<Duration>, now: Instant) {
        match (*self, span) {
            (Answers::Behind(told), Some(span)) if told < now => {
                *self = Answers::From(now.plus(span));
            }
            (Answers::From(from), _) if from <= now => *self = Answers::Free,
            _ => {}
        }
    }

    /// The time from which on it may.
    pub(super) const fn from(self) -> Instant {
        match self {
            Answers::Free => Instant::ZERO,
            Answers::Behind(_) => Instant(u64::MAX),
            Answers::From(from) => from,
        }
    }
}

/// How long a lease is counted for which others wait `span` (E3).
pub(super) fn counted(span: Duration) -> Duration {
    // (Divided first: a long one is no overflow.)
    span / (1000 + CLOCK_RATE_PERMILLE) * (1000 - CLOCK_RATE_PERMILLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e2_answers_wait_from_a_time_that_is_told_behind_the_views_beginning() {
        let (span, at) = (Some(Duration::from_millis(50)), |ms: u64| Instant(ms * 1_000_000));
        let mut answers = Answers::Behind(at(90));
        answers.tick(span, at(90));
        assert_eq!(answers.from(), Instant(u64::MAX));
        answers.tick(span, at(100));
        assert_eq!(answers.from(), at(150));
        answers.tick(span, at(149));
        assert_eq!(answers.from(), at(150));
        answers.tick(span, at(150));
        assert_eq!(answers, Answers::Free);
    }

    #[test]
    fn e3_the_faster_of_two_clocks_waits_longer_than_the_slower_one_counts() {
        let span = Duration::from_millis(110);
        let slow = counted(span).as_nanos() * 1000 / 900;
        let fast = span.as_nanos() * 1000 / 1100;
        assert!(slow <= fast, "{slow} {fast}");
        assert!(counted(Duration::MAX) < Duration::MAX);
        let mut lease = Lease::new(Some(span));
        (0..2 * BEATS_MAX as u64).for_each(|beat| lease.note_beat(beat, Instant(beat)));
        assert_eq!((lease.left_at(1), lease.left_at(127)), (None, Some(Instant(127))));
    }
}
