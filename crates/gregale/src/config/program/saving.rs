//! How copies of the program are saved, and what that takes.

use super::{Attach, CHECKPOINT, Confine, Program, RestBy, Time};
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
    /// By a dump of its processes with their memory, which CRIU makes and restores. Takes root,
    /// and no library in the program: its time and its chance are the kernel's.
    Criu,
}

/// The way in which a copy ends that is saved by its files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum EndBy {
    /// By the signal KILL.
    #[default]
    Kill,
    /// By the signal TERM, at which a program may write what it has in memory. One that has not
    /// ended half a minute later is killed.
    Term,
}

impl Program {
    /// The least number of entries from one checkpoint to the next; 0 for none.
    pub(crate) fn checkpoint(&self) -> u64 {
        let is_known = self.saves_at_halts() || self.rest() == RestBy::Resp;
        let can_save = is_known && self.compare > 0;
        self.checkpoint.unwrap_or(if can_save { CHECKPOINT } else { 0 })
    }

    /// Whether copies are saved by their files, and begin again where one is.
    pub(crate) fn saves_files(&self) -> bool {
        self.save == Some(SaveBy::Files)
    }

    /// Whether copies are saved by a dump of their processes.
    pub(crate) fn saves_processes(&self) -> bool {
        self.save == Some(SaveBy::Criu)
    }

    /// Whether copies are saved where no connection is open, and nowhere else.
    pub(crate) fn saves_at_halts(&self) -> bool {
        self.saves_files() || self.saves_processes()
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
        if is_on && !self.saves_at_halts() && self.rest() != RestBy::Resp {
            return Err(Failure::new(
                "--program-checkpoint: a copy is saved by SAVE, in Redis's protocol: say \
                 --program-rest resp if the program knows it, --program-save files if it loses \
                 nothing that it has answered when it is killed, --program-save criu to dump its \
                 processes, or --program-checkpoint 0",
            ));
        }
        let begins_with_log =
            |two: &[String]| two[0] == "--appendonly" && two[1].eq_ignore_ascii_case("yes");
        if is_on && !self.saves_at_halts() && self.words()?.windows(2).any(begins_with_log) {
            return Err(Failure::new(
                "--program-checkpoint: a program with --appendonly yes begins with its log of writes, \
                 and not with what SAVE has written: leave it out, say --program-save files, or \
                 --program-checkpoint 0",
            ));
        }
        if self.close_s.is_some() && !is_on {
            return Err(Failure::new(
                "--program-close: clients are closed for checkpoints, and there are none: say \
                 --program-save files, or leave it out",
            ));
        }
        if self.end == EndBy::Term && !self.saves_files() {
            return Err(Failure::new(
                "--program-end term: a copy ends where it is saved by its files: say \
                 --program-save files, or leave it out",
            ));
        }
        if self.end == EndBy::Term && self.time == Time::Log {
            return Err(Failure::new(
                "--program-end term: a program that ends may wait for a time, and the log's stands \
                 still until it has ended: say --program-time kernel, or --program-end kill",
            ));
        }
        if self.saves_processes() { self.check_dumps() } else { Ok(()) }
    }

    /// Refuses what a dump of the program's processes cannot hold, or not put back.
    fn check_dumps(&self) -> Outcome<()> {
        let refusal = if self.attach() == Attach::Preload {
            "what the preloaded library shares with the member is outside of a dump: leave \
             --program-attach out"
        } else if self.listens_at_port() || self.is_told_by_udp() {
            "a port is another one at each member, and a dump holds its own: let the program listen \
             at {socket} or in {socketdir}"
        } else if self.outbound {
            "a connection of the program's own cannot be put back at another member: leave \
             --program-outbound out"
        } else if self.confine == Confine::None {
            "the ids of processes in a dump may be taken where it is put back: a copy has to have \
             ids of its own, so leave --program-confine out"
        } else {
            return Ok(());
        };
        Err(Failure::new(format_args!(
            "--program-save criu: {refusal}, or say --program-save files"
        )))
    }
}
