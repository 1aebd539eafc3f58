//! The renewal of a copy: the program is killed, or asked to end, and begins again with its own
//! files. One that is saved by a dump of its processes continues instead.

use super::criu::{Dump, IMAGE};
use super::files::{Files, replace};
use super::place::Place;
use super::processes::{Ending, ask_to_end, have_ended, let_go};
use rustix::fd::OwnedFd;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

/// The time in which a program ends that was asked to; it is killed then.
const ASKED_FOR: Duration = Duration::from_secs(30);
/// The time in which all processes of a program have to end that were killed.
const ENDS_WITHIN: Duration = Duration::from_secs(30);
/// The time between the first moment at which a program that recovers is at rest, and its first
/// connection. All its threads may wait, or sleep, while it still refuses clients: PostgreSQL's
/// first process sleeps a tenth of a second when another one, which it needs, has not begun yet.
const SETTLES_AFTER: Duration = Duration::from_secs(1);

/// How far a program is that was started.
#[derive(Debug)]
pub(super) struct Start {
    /// It has to listen by then.
    pub(super) ends_by: Instant,
    pub(super) has_listened: bool,
    /// It was seen to be ready for connections.
    pub(super) is_seen: bool,
    /// It recovers from its own death first.
    recovers: bool,
    /// The first moment at which it was ready, and at rest.
    rests_since: Option<Instant>,
}

impl Start {
    /// A program that has to listen within this time.
    pub(super) fn new(within: Duration) -> Start {
        let ends_by = Instant::now() + within;
        let (has_listened, is_seen, recovers) = (false, false, false);
        Start { ends_by, has_listened, is_seen, recovers, rests_since: None }
    }

    /// One that recovers from its own death.
    pub(super) fn recovering(within: Duration) -> Start {
        Start { recovers: true, ..Start::new(within) }
    }

    /// Whether it may have a connection: it is at rest, as far as is known.
    pub(super) fn has_settled(&mut self) -> bool {
        if !self.is_seen || !self.recovers || self.has_listened {
            return true;
        }
        self.rests_since.get_or_insert_with(Instant::now).elapsed() >= SETTLES_AFTER
    }
}

/// A renewal under way.
#[derive(Debug)]
pub(super) enum Stage {
    /// The program was asked to end.
    Asked { program: Killed, ends_by: Instant },
    /// The processes end.
    Ending {
        /// The first of them.
        program: Killed,
        ending: Ending,
        ends_by: Instant,
    },
    /// The processes are dumped.
    Dumping(Dump),
    /// The directory is copied.
    Copying,
}

impl Stage {
    fn killing(program: Killed) -> Stage {
        let ending = Ending::of(program.child.id());
        Stage::Ending { program, ending, ends_by: Instant::now() + ENDS_WITHIN }
    }
}

/// A process that is about to be killed, and is when this is dropped.
#[derive(Debug)]
pub(super) struct Killed {
    child: Child,
    /// It keeps the process's id, and tells when the process has ended.
    pidfd: OwnedFd,
}

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a copy has that is saved by its files, or by a dump of its processes.
#[derive(Debug)]
pub(super) struct Renewals {
    pub(super) files: Files,
    pub(super) stage: Option<Stage>,
    /// What it draws by at first; 0 for the kernel's chance.
    pub(super) seed: u64,
    pub(super) is_in_turns: bool,
    pub(super) speaks_resp: bool,
    /// Whether the program is asked to end, before it is killed.
    pub(super) asks: bool,
    /// Whether the processes are dumped.
    pub(super) dumps: bool,
}

impl Renewals {
    /// The seed of a program that begins behind so many entries, made of the first one.
    pub(super) fn seed_at(&self, at: u64) -> u64 {
        if self.seed == 0 {
            return 0; // the kernel's chance
        }
        xxhash_rust::xxh3::xxh3_64_with_seed(&at.to_le_bytes(), self.seed).max(1)
    }

    /// Ends the program `name`, a step at a time, and copies its directory then if it `saves`.
    /// Returns whether it can be started again.
    ///
    /// # Errors
    /// It does not end.
    pub(super) fn end(
        &mut self,
        child: &mut Option<(Child, OwnedFd)>,
        saves: bool,
        directory: &Path,
        name: &str,
    ) -> Result<bool, String> {
        loop {
            match self.stage.take() {
                None => {
                    let (child, pidfd) = child.take().ok_or("the program was not started")?;
                    let program = Killed { child, pidfd };
                    self.stage = Some(if self.asks {
                        ask_to_end(program.child.id());
                        Stage::Asked { program, ends_by: Instant::now() + ASKED_FOR }
                    } else {
                        Stage::killing(program)
                    });
                }
                Some(Stage::Asked { program, ends_by }) => {
                    if !have_ended(std::slice::from_ref(&program.pidfd))?
                        && Instant::now() < ends_by
                    {
                        self.stage = Some(Stage::Asked { program, ends_by });
                        return Ok(false);
                    }
                    self.stage = Some(Stage::killing(program));
                }
                Some(Stage::Ending { program, mut ending, ends_by }) => {
                    if !ending.poll()? {
                        if Instant::now() >= ends_by {
                            return Err(format!(
                                "{name} does not end within {ENDS_WITHIN:?} though it was killed"
                            ));
                        }
                        self.stage = Some(Stage::Ending { program, ending, ends_by });
                        return Ok(false);
                    }
                    drop(program);
                    if !saves {
                        // What was saved at an earlier halt may still be packed: that was given up.
                        self.files.forget();
                        return Ok(true);
                    }
                    self.files.save(directory.to_owned());
                    self.stage = Some(Stage::Copying);
                }
                Some(Stage::Copying) => {
                    let is_done = self.files.is_copied();
                    self.stage = (!is_done).then_some(Stage::Copying);
                    return Ok(is_done);
                }
                Some(Stage::Dumping(_)) => return Err(format!("{name} is dumped")),
            }
        }
    }

    /// Dumps the program that process `launch` has begun, a step at a time, with its directories.
    /// Returns whether it runs again. What is not made then, [`Files::poll`] tells.
    ///
    /// # Errors
    /// The program cannot be used further.
    pub(super) fn dump(&mut self, launch: u32, place: &Place) -> Result<bool, String> {
        let run = place.run();
        loop {
            match self.stage.take() {
                None => match Dump::begin(launch, &self.files.begin(), run) {
                    Ok(dump) => self.stage = Some(Stage::Dumping(dump)),
                    Err(why) => {
                        self.files.give_up(why);
                        return Ok(true);
                    }
                },
                Some(Stage::Dumping(mut dump)) => match dump.poll()? {
                    None => {
                        self.stage = Some(Stage::Dumping(dump));
                        return Ok(false);
                    }
                    Some(Ok(())) => {
                        self.files.add(&[(place.dir(), "dir"), (place.temporary(), "tmp")]);
                        self.stage = Some(Stage::Copying);
                    }
                    Some(Err(why)) => {
                        self.files.give_up(why);
                        let_go(launch);
                        return Ok(true);
                    }
                },
                Some(Stage::Copying) => {
                    let is_done = self.files.is_copied();
                    self.stage = (!is_done).then_some(Stage::Copying);
                    if is_done {
                        let_go(launch);
                    }
                    return Ok(is_done);
                }
                Some(Stage::Asked { .. } | Stage::Ending { .. }) => {
                    return Err("the program ends".to_owned());
                }
            }
        }
    }

    /// Puts the dump that was unpacked, if one was, and the directories beside it, where the
    /// program finds them. Returns whether there is one.
    pub(super) fn put_dump_in_place(&mut self, place: &Place) -> Result<bool, String> {
        let Some(root) = self.files.unpacked()? else { return Ok(false) };
        replace(&root.join("dir"), &place.dir())?;
        replace(&root.join("tmp"), &place.temporary())?;
        std::fs::rename(root.join(IMAGE), place.run().join(IMAGE))
            .and_then(|()| std::fs::remove_dir(&root))
            .map_err(|error| format!("cannot put a dump in its place: {error}"))?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::files::COPIED_WITHIN;
    use super::*;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    use std::process::Command;

    /// The trap: it waited for the copy that was made at an earlier halt, which was over, as long
    /// as that was packed.
    #[test]
    fn a_renewal_that_saves_nothing_does_not_wait_for_what_was_saved_before() {
        let run = tempfile::tempdir().unwrap();
        let directory = run.path().join("dir");
        std::fs::create_dir(&directory).unwrap();
        let mut renewals = Renewals {
            files: Files::new(run.path(), COPIED_WITHIN),
            stage: None,
            seed: 0,
            is_in_turns: false,
            speaks_resp: false,
            asks: false,
            dumps: false,
        };
        renewals.files.save(directory.clone());
        while !renewals.files.is_copied() {
            std::thread::yield_now();
        }
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        let mut program = Some((child, pidfd));
        while !renewals.end(&mut program, false, &directory, "sleep").unwrap() {
            std::thread::yield_now();
        }
        assert!(program.is_none() && renewals.stage.is_none());
        assert_eq!(renewals.files.poll(), Err("no directory was saved".to_owned()));
    }
}
