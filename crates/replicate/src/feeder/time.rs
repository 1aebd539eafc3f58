//! The log's time, as a program is told it (I9 of the feeder).

use super::{Feeder, Order};
use crate::bugs::Bug;
use crate::program::Program;
use crate::transcript::{Record, Transcript};
use base::Instant;
use proto::planted::Planting;

/// What a program was told of the time (I9).
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// The time that it was told.
    pub(super) told_ms: u64,
    /// It was at rest, by what its threads say, since something was fed.
    pub(super) is_calm: bool,
}

impl<B: Planting<Bug>> Feeder<B> {
    /// Tells the time that stands before an entry, if one does. Returns whether the entry may be
    /// fed, as far as the time tells.
    pub(super) fn pass_time(
        &mut self,
        time_ms: Option<u64>,
        program: &mut impl Program,
        now: Instant,
    ) -> bool {
        let Some(time_ms) = time_ms else { return true };
        if time_ms > self.clock.told_ms {
            self.end_turn(program);
            if !self.is_calm(program, now) {
                return false;
            }
            self.tell(time_ms, program, now);
        }
        self.config.order == Order::Relaxed || !self.asking.is_restless
    }

    fn tell(&mut self, time_ms: u64, program: &mut impl Program, now: Instant) {
        self.clock.told_ms = time_ms;
        self.beside.follow_a_time();
        self.clock.is_calm = false;
        let by_own = self.planted.has(Bug::TimeOfOwnClock);
        let own_ms = if by_own { now.since(Instant::ZERO).as_millis() as u64 } else { 0 };
        let ends_waits = program.tell_time(time_ms + own_ms);
        if ends_waits && !self.planted.has(Bug::TimersNotAwaited) {
            (self.asking.is_restless, self.asking.from) = (true, None);
            (self.has_slept, self.moved_at) = (false, now);
        }
    }

    /// Whether the program has done all that the entries before have set going.
    fn is_calm(&mut self, program: &mut impl Program, now: Instant) -> bool {
        if self.config.order == Order::Relaxed || self.planted.has(Bug::TimeBeforeRest) {
            return true;
        }
        // What a program does behind its replies is not seen in them.
        if !self.is_awaited() && self.config.replies.is_some() && !self.clock.is_calm {
            (self.asking.is_restless, self.asking.from) = (true, None);
            (self.clock.is_calm, self.moved_at) = (true, now);
            self.ask(program, now);
        }
        !self.is_awaited()
    }

    /// The time that stands before the first entry of all.
    pub(super) fn first_time(&mut self, transcript: &impl Transcript) -> u64 {
        let has_one = self.read_ahead(transcript);
        let first = Record::first(&self.ahead).filter(|_| has_one);
        first.and_then(|record| record.time_ms).unwrap_or(0)
    }

    /// The program is started next, at this time; 0 if times are not kept.
    pub(super) fn begin_at(&mut self, time_ms: u64, program: &mut impl Program, now: Instant) {
        if time_ms > 0 {
            self.tell(time_ms, program, now);
            // It comes to its first rest at that time.
            self.asking.is_restless = self.config.order != Order::Relaxed;
        }
    }
}
