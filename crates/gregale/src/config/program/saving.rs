//! How copies of the program are saved, and what that takes.

use super::{CHECKPOINT, Program, RestBy};
use clap::ValueEnum;
use console::{Failure, Outcome};
use serde::{Deserialize, Serialize};

/// The way in which a copy is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SaveBy {
    /// By SAVE, in Redis's protocol.
    Resp,
    /// By its directory, as kill -9 leaves it: the program has to begin with that, and to have
    /// all that it has answered. Every copy is killed there, and begins again.
    Files,
}

impl Program {
    /// The least number of entries from one checkpoint to the next; 0 for none.
    pub(crate) fn checkpoint(&self) -> u64 {
        let is_known = self.saves_files() || self.rest() == RestBy::Resp;
        let can_save = is_known && self.compare > 0;
        self.checkpoint.unwrap_or(if can_save { CHECKPOINT } else { 0 })
    }

    /// Whether copies are saved by their files, and begin again where one is.
    pub(crate) fn saves_files(&self) -> bool {
        self.save == Some(SaveBy::Files)
    }

    /// Refuses checkpoints where there is no way to save, or nothing to count them by.
    pub(super) fn check_checkpoints(&self) -> Outcome<()> {
        let is_on = self.checkpoint() > 0;
        if is_on && self.compare == 0 {
            return Err(Failure::new(
                "--program-checkpoint: a checkpoint counts when the copies have answered alike, so \
                 say --program-compare 1000 too",
            ));
        }
        if is_on && !self.saves_files() && self.rest() != RestBy::Resp {
            return Err(Failure::new(
                "--program-checkpoint: a copy is saved by SAVE, in Redis's protocol: say \
                 --program-rest resp if the program knows it, --program-save files if it loses \
                 nothing that it has answered when it is killed, or --program-checkpoint 0",
            ));
        }
        if self.close_s.is_some() && !is_on {
            return Err(Failure::new(
                "--program-close: clients are closed for checkpoints, and there are none: say \
                 --program-save files, or leave it out",
            ));
        }
        Ok(())
    }
}
