//! The renewal of a copy: the program is killed, and begins again with its own files.

use super::copy::Copy;
use super::inside::Inside;
use super::processes::Ending;
use rustix::fd::OwnedFd;
use std::process::Child;
use std::time::{Duration, Instant};

/// The time in which all processes of a program have to end that were killed.
const ENDS_WITHIN: Duration = Duration::from_secs(30);

/// A renewal under way.
#[derive(Debug)]
pub(super) enum Renewal {
    /// The processes end.
    Ending {
        /// The first of them.
        program: Killed,
        ending: Ending,
        ends_by: Instant,
    },
    /// The directory is copied.
    Copying,
}

/// A process that is about to be killed, and is when this is dropped.
#[derive(Debug)]
pub(super) struct Killed {
    child: Child,
    /// It keeps the process's id.
    _pidfd: OwnedFd,
}

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The seed of a program that begins behind so many entries, made of the first one.
pub(super) fn seed_at(seed: u64, at: u64) -> u64 {
    if seed == 0 {
        return 0; // the kernel's chance
    }
    xxhash_rust::xxh3::xxh3_64_with_seed(&at.to_le_bytes(), seed).max(1)
}

impl Copy {
    /// Ends the program, a step at a time, and copies its directory then if it `saves`. Returns
    /// whether it can be started again.
    pub(super) fn end_again(&mut self, saves: bool) -> Result<bool, String> {
        loop {
            match self.renewal.take() {
                None => {
                    let (child, pidfd) = self.child.take().ok_or("the program was not started")?;
                    let ending = Ending::of(child.id());
                    let program = Killed { child, _pidfd: pidfd };
                    let ends_by = Instant::now() + ENDS_WITHIN;
                    self.renewal = Some(Renewal::Ending { program, ending, ends_by });
                }
                Some(Renewal::Ending { program, mut ending, ends_by }) => {
                    if !ending.poll()? {
                        if Instant::now() >= ends_by {
                            return Err(format!(
                                "{} does not end within {ENDS_WITHIN:?} though it was killed",
                                self.words[0]
                            ));
                        }
                        self.renewal = Some(Renewal::Ending { program, ending, ends_by });
                        return Ok(false);
                    }
                    drop(program);
                    self.clear()?;
                    if let Some(files) = self.files.as_mut().filter(|_| saves) {
                        files.save(self.place.dir());
                    }
                    self.renewal = Some(Renewal::Copying);
                }
                Some(Renewal::Copying) => {
                    let is_done = self.files.as_mut().is_none_or(|files| files.is_copied());
                    self.renewal = (!is_done).then_some(Renewal::Copying);
                    return Ok(is_done);
                }
            }
        }
    }

    /// Forgets the program that has ended: what begins next is told nothing of it.
    fn clear(&mut self) -> Result<(), String> {
        (self.has_listened, self.is_seen, self.rests_since) = (false, false, None);
        self.connecting = None;
        self.place.clear().map_err(|error| format!("cannot remove a socket: {error}"))?;
        if let Some(inside) = self.inside.take() {
            let path = inside.path().to_owned();
            drop(inside);
            let inside = Inside::make(path, self.is_in_turns, self.seed)
                .map_err(|failure| failure.to_string())?;
            if let Some((poller, _, notices)) = &self.poller {
                inside
                    .register(poller, *notices)
                    .map_err(|error| format!("cannot watch the copy's notices: {error}"))?;
            }
            self.inside = Some(inside);
        }
        Ok(())
    }
}
