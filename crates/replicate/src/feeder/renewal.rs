//! The renewal of a copy at a halt: it is ended, and begins again with its files (I12 of the
//! feeder).

use super::points::{Begun, Saved};
use super::time::Clock;
use super::{Asking, Feeder, LOOK_EVERY};
use crate::bugs::Bug;
use crate::checkpoint::Header;
use crate::program::Program;
use crate::session::Common;
use base::Instant;
use core::time::Duration;
use proto::planted::Planting;

/// The time between two looks at files that are made ready.
const FILES_EVERY: Duration = Duration::from_millis(10);

/// What a copy has to do about halts, and what it has saved.
#[derive(Debug, Default)]
pub(super) struct Renewal {
    /// The checkpoint that was not handed on.
    pub(super) saved: Option<Saved>,
    /// The save that was begun at a point which is not passed yet (`points`, I14).
    pub(super) saving: Option<Begun>,
    /// The copy is ended, and whether it saves its files.
    under_way: Option<bool>,
    /// The point of the files that were saved, which are made ready to be handed on.
    saved_at: Option<u64>,
    /// The time of the next look at that.
    look_at: Option<Instant>,
}

impl Renewal {
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.look_at
    }

    pub(super) fn forget_looks(&mut self) {
        self.look_at = None;
    }
}

impl<B: Planting<Bug>> Feeder<B> {
    /// The copy is at the point of a halt, and its hash was taken. Returns whether it may be fed
    /// on.
    pub(super) fn begin_renewal(
        &mut self,
        saves: bool,
        program: &mut impl Program,
        now: Instant,
    ) -> bool {
        if self.planted.has(Bug::NotRenewed) && !saves {
            return true;
        }
        for key in 0..self.legs.end_key() {
            if self.legs.is_open(key) {
                self.drop_leg(key, program);
            }
        }
        self.renewal.under_way = Some(saves);
        self.renew(program, now)
    }

    /// Does what a halt takes. Returns whether the copy may be fed.
    pub(super) fn renew(&mut self, program: &mut impl Program, now: Instant) -> bool {
        if self.renewal.look_at.is_some_and(|at| at > now) {
            return self.renewal.under_way.is_none();
        }
        self.renewal.look_at = None;
        if let Some(saves) = self.renewal.under_way {
            self.moved_at = now; // I12: a renewal has deadlines of its own
            let begun = match program.end_for_renewal(saves) {
                Ok(true) => self.start_with_files(program, now),
                Ok(false) => {
                    self.renewal.look_at = Some(now.plus(LOOK_EVERY));
                    return false;
                }
                Err(why) => Err(why),
            };
            if let Err(why) = begun {
                self.failure = Some(why);
                return false;
            }
            self.renewal.under_way = None;
            self.renewal.saved_at = saves.then_some(self.position());
        }
        self.take_files(program, now);
        true
    }

    /// Starts the program that was ended. It holds nothing but its files.
    fn start_with_files(&mut self, program: &mut impl Program, now: Instant) -> Result<(), String> {
        (self.turn, self.look_at) = (None, None);
        (self.has_slept, self.has_lost_leg) = (false, false);
        (self.asking, self.common) = (Asking::default(), Common::default());
        let Clock { told_ms, .. } = std::mem::take(&mut self.clock);
        if !self.planted.has(Bug::RenewedWithoutTime) {
            self.begin_at(told_ms, program, now);
        }
        program.start(self.position())
    }

    /// Hands on the files that were saved, once they can be.
    fn take_files(&mut self, program: &mut impl Program, now: Instant) {
        let Some(at) = self.renewal.saved_at else { return };
        let made = match program.save(at) {
            Ok(Some(len)) => Ok((Header::default().bytes(), len)),
            Ok(None) => {
                self.renewal.look_at = Some(now.plus(FILES_EVERY));
                return;
            }
            Err(why) => Err(why),
        };
        self.renewal.saved_at = None;
        self.renewal.saved = Some(Saved { at, made });
    }
}
