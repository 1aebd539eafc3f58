//! When a program is at rest, and what one turn of it finds (I3, I7, I8, I13 of the feeder).

use super::{BLOCKED_AFTER, Feeder, HELD_WITHIN, LOOK_EVERY, Order, QUIET_AFTER, Rest, SOON_AFTER};
use crate::bugs::Bug;
use crate::entry::Entry;
use crate::program::{Program, Repose};
use crate::transcript::{Record, Transcript};
use base::Instant;
use core::time::Duration;
use proto::planted::Planting;

/// See I13.
pub const ACCEPTS_WITHIN: Duration = Duration::from_secs(1);

/// The first connection of a program since it was started (I13).
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum First {
    /// It was not opened.
    #[default]
    Unopened,
    /// It was opened, and is waited for until that time.
    Opened(Instant),
    /// The program has accepted it, as far as is known.
    Accepted,
}

/// What a program was asked about itself, and what it said (I7, I8).
#[derive(Debug, Default)]
pub(super) struct Asking {
    /// Something was fed since the program was at rest.
    pub(super) is_restless: bool,
    /// The program is held, and looks at nothing.
    pub(super) is_held: bool,
    /// The time since when the program could not be held.
    pub(super) moves_since: Option<Instant>,
    /// The program is not asked before that time.
    pub(super) from: Option<Instant>,
    /// The program's first connection (I13).
    pub(super) first: First,
}

impl<B: Planting<Bug>> Feeder<B> {
    /// Whether `entry` may be fed, as far as turns tell (I8). The program is held if it is one of
    /// several that a turn finds. `ends_value` says that it is the last of its value.
    pub(super) fn begin_turn(
        &mut self,
        entry: &Entry<'_>,
        ends_value: bool,
        program: &mut impl Program,
        now: Instant,
    ) -> bool {
        if self.config.order != Order::Loop {
            return true;
        }
        // An end is fed at rest where answers are compared (I6), and a held program is not.
        let is_alone = match entry {
            Entry::Begin { .. }
            | Entry::Gone { .. }
            | Entry::Left { .. }
            | Entry::Halt { .. }
            | Entry::Compare { .. }
            | Entry::Open { .. } => true,
            Entry::HalfClose { .. } | Entry::Close { .. } | Entry::Abort { .. } => {
                self.hashes.is_on()
            }
            Entry::Input { .. } | Entry::Hash { .. } | Entry::Piece { .. } => false,
        };
        if self.asking.is_held && !is_alone {
            return true;
        }
        self.end_turn(program);
        if self.is_awaited() && !self.planted.has(Bug::TurnBeforeRest) {
            return false;
        }
        // What is fed in one piece is found in one, whenever the program looks. What the turn
        // before has found was answered, and no leg that is blocked may have been woken by it.
        let is_answered = self.config.replies.is_some() && self.legs.blocked().is_empty();
        let is_whole = ends_value && is_answered;
        if is_alone || is_whole {
            return true;
        }
        let may_hold = self.has_accepted(program, now);
        self.asking.is_held = may_hold && (self.planted.has(Bug::TurnIsNotHeld) || program.hold());
        let since = *self.asking.moves_since.get_or_insert(now);
        if self.asking.is_held {
            self.asking.moves_since = None;
        } else if now >= since.plus(HELD_WITHIN) {
            self.failure = Some(
                "the program never waits where the preloaded library sees it, so it cannot be fed \
                 by the turn: say --program-order serial"
                    .to_owned(),
            );
        }
        if !self.asking.is_held {
            // It was woken by something else, a clock.
            self.asking.is_restless = true;
            self.look_at = Some(now.plus(LOOK_EVERY));
        }
        self.asking.is_held
    }

    /// Whether the entry before byte `at` of what was read `ahead` is the last of its value, if
    /// that matters (I8, I11). The transcript ends with a value.
    pub(super) fn ends_value(&self, at: usize, ahead: &[u8], transcript: &impl Transcript) -> bool {
        if self.config.order != Order::Loop && !self.hashes.counts_values() {
            return false;
        }
        let continues = Record::continues(&ahead[at..]).or_else(|| {
            let mut header = [0; 4];
            let n = transcript.read(self.cursor + at as u64, &mut header);
            Record::continues(&header[..n])
        });
        !continues.unwrap_or(false)
    }

    /// Another value of the log begins (I8): with input, or with a hash, which no turn finds.
    pub(super) fn end_turn_of_value(&mut self, is_input: bool, program: &mut impl Program) {
        let joins = self.planted.has(Bug::TurnsAreJoined)
            || self.planted.has(Bug::HashesJoinTurns) && !is_input;
        if !joins {
            self.end_turn(program);
        }
    }

    pub(super) fn end_turn(&mut self, program: &mut impl Program) {
        if std::mem::take(&mut self.asking.is_held) {
            program.let_go();
        }
    }

    pub(super) fn patience(&self) -> Duration {
        match (self.config.rest, self.config.replies) {
            (Rest::Waits, _) | (_, Some(_)) => BLOCKED_AFTER,
            (Rest::Quiet, None) => QUIET_AFTER,
        }
    }

    /// Whether the program is asked after each entry (I7), as its replies do not tell.
    pub(super) fn is_asked(&self) -> bool {
        self.config.rest == Rest::Waits && self.config.replies.is_none()
    }

    /// Whether something is waited for that replies do not tell.
    fn is_uncounted(&self) -> bool {
        let is_counted = |key: &u64| {
            let framing = self.leg(*key).framing.as_ref();
            framing.is_some_and(|framing| !framing.has_lost_requests())
        };
        self.asking.is_restless || !self.legs.busy().iter().all(is_counted)
    }

    /// Whether the program's rest is waited for.
    pub(super) fn is_awaited(&self) -> bool {
        !self.legs.busy().is_empty() || self.asking.is_restless
    }

    /// I7.
    pub(super) fn ask(&mut self, program: &mut impl Program, now: Instant) {
        let asks = self.config.rest == Rest::Waits || self.asking.is_restless;
        if !asks || !self.is_uncounted() || self.asking.from.is_some_and(|from| now < from) {
            return;
        }
        // What it has accepted before it came to rest (I13).
        let has_accepted = self.has_accepted(program, now);
        let repose = program.repose();
        match repose {
            Repose::Moves if self.planted.has(Bug::MovesIsRest) => self.take_rest(program),
            Repose::AtRest if has_accepted => {
                self.look_at = None;
                if self.has_found_room(program, now) {
                    self.look_at = Some(now.plus(LOOK_EVERY));
                } else {
                    self.take_rest(program);
                }
            }
            Repose::Soon => {
                let soon = now.plus(SOON_AFTER);
                self.asking.from = Some(soon);
                self.look_at = Some(self.look_at.map_or(soon, |at| at.min(soon)));
            }
            Repose::Moves | Repose::AtRest => {}
        }
    }

    /// I3.
    pub(super) fn look(&mut self, program: &mut impl Program, now: Instant) {
        self.look_at = None;
        if !self.is_awaited() {
            return;
        }
        let due = self.moved_at.plus(self.patience());
        if now < due {
            self.look_at = Some(due);
            return;
        }
        let is_blocked = self.has_accepted(program, now)
            && program.is_asleep()
            && !self.has_found_room(program, now);
        if !is_blocked && !self.planted.has(Bug::BusyIsBlocked) {
            self.look_at = Some(now.plus(LOOK_EVERY));
            return;
        }
        self.take_rest(program);
    }

    /// Whether a program that sleeps has room for what it was not given, which it is given then: it
    /// is at rest no longer. (The poller was asked before it slept.)
    pub(super) fn has_found_room(&mut self, program: &mut impl Program, now: Instant) -> bool {
        if self.planted.has(Bug::RoomUnasked) {
            return false;
        }
        let owing = self.legs.busy().union(self.legs.blocked());
        let unwritten = owing.copied().filter(|key| !self.leg(*key).is_written());
        let mut has_moved = false;
        for key in unwritten.collect::<Vec<_>>() {
            has_moved |= self.write(key, program);
        }
        if has_moved {
            (self.moved_at, self.has_slept) = (now, false);
        }
        has_moved
    }

    /// Whether the program has accepted its first connection, if that is open (I13).
    fn has_accepted(&mut self, program: &mut impl Program, now: Instant) -> bool {
        let First::Opened(until) = self.asking.first else { return true };
        let has_accepted = program.has_accepted() || self.planted.has(Bug::FirstUnawaited);
        if has_accepted || now >= until {
            self.asking.first = First::Accepted;
        }
        matches!(self.asking.first, First::Accepted)
    }

    /// The program is at rest, or blocked.
    fn take_rest(&mut self, program: &mut impl Program) {
        (self.has_slept, self.asking.is_restless) = (true, false);
        for key in self.legs.take_busy() {
            // A program that does not close a leg of a connection that is over loses it.
            let leg = self.leg_mut(key);
            leg.is_stuck = !leg.is_written();
            if leg.is_over && !leg.is_stuck {
                self.drop_leg(key, program);
                let awaits = !self.planted.has(Bug::LossUnawaited);
                (self.has_slept, self.has_lost_leg) = (false, awaits);
                self.asking.is_restless = awaits && self.config.rest == Rest::Waits;
            } else if leg.n_owed > 0 || leg.is_stuck {
                self.legs.block(key);
            }
        }
    }

    /// Whether a leg that is blocked may have been woken by what was fed last (I3), or the program
    /// by the loss of a leg.
    pub(super) fn may_be_awake(&mut self, program: &mut impl Program, now: Instant) -> bool {
        let is_careless =
            self.planted.has(Bug::NextBeforeRest) || self.planted.has(Bug::BusyIsBlocked);
        let may_wake = self.has_lost_leg || !self.legs.blocked().is_empty();
        if !may_wake || self.config.order != Order::Serial || is_careless {
            return false;
        }
        self.has_slept = self.has_slept || program.is_asleep();
        self.has_slept = self.has_slept && !self.has_found_room(program, now);
        self.has_lost_leg &= !self.has_slept;
        !self.has_slept
    }
}
