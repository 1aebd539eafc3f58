//! Dumps of a copy's processes with their memory, and copies that begin with one, by CRIU.
//!
//! The program is at rest behind a halt, and no connection is open. CRIU dumps its processes, and
//! leaves them stopped; its directory is copied (`files`), and it continues. So the dump and the
//! files are of one moment.
//!
//! - R1 a dump that fails leaves the program as it was, and is given up. CRIU that is killed in
//!   the middle of one may leave its own code in the program, so the copy is not used further.
//! - R2 a copy that is put back has no connection, and is not taken to be at rest, before CRIU has
//!   said that it is whole ([`BEGUN`]): in between its socket listens, and its threads sleep.
//! - R3 the program is a child of `launch`, as one is that was started: it ends with its member.

use super::apart::{self, COPY};
use super::processes::program_of;
use crate::config::Program;
use crate::program::this_program;
use console::{Failure, Outcome};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open, waitpid};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The program that dumps and restores.
const CRIU: &str = "criu";
/// The time in which it has to say whether it works here.
const CHECKED_WITHIN: Duration = Duration::from_secs(60);
/// The time in which processes have to be dumped.
const DUMPED_WITHIN: Duration = Duration::from_secs(300);
/// The time in which they have to be restored.
pub(super) const RESTORED_WITHIN: Duration = Duration::from_secs(600);
/// The bytes of what CRIU says that are shown.
const SAID_BYTES: usize = 300;

/// The directory of a dump, in what is saved and in that of the copy's process.
pub(super) const IMAGE: &str = "image";
/// The file with which `launch` says that the program was restored (R2).
pub(super) const BEGUN: &str = "begun";
/// What CRIU says about its work.
const LOG: &str = "criu.log";
/// The id of the process that it has restored.
const PID: &str = "criu.pid";

/// Refuses a program that is saved by CRIU where that does not work.
///
/// # Errors
/// The cause, and the remedy.
pub(crate) fn check_saver(program: &Program) -> Outcome<()> {
    let checked = if program.saves_processes() { check() } else { Ok(()) };
    checked.map_err(|why| {
        Failure::new(format_args!("--program-save criu: {why}, or say --program-save files"))
    })
}

fn check() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("CRIU dumps processes for root alone: run as root".to_owned());
    }
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => format!("there is no program {CRIU:?}: install it"),
        _ => format!("cannot run {CRIU}: {error}"),
    };
    let mut command = Command::new(CRIU);
    command.arg("check").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let Some(status) = ended_within(&mut child, CHECKED_WITHIN).map_err(failed)? else {
        return Err(format!("`criu check` has not ended within {CHECKED_WITHIN:?}"));
    };
    let mut said = String::new();
    if let Some(errors) = &mut child.stderr {
        let _ = errors.read_to_string(&mut said); // what is missing is not shown
    }
    match status.success() {
        true => Ok(()),
        false => Err(format!("CRIU does not work on this host: {}", cause(&said))),
    }
}

/// The first error in what CRIU has said. (Programs that it tries out may fail before.)
fn cause(said: &str) -> String {
    let is_error = |line: &&str| line.contains("Error") && !line.contains("exited, status");
    let line = said.lines().find(is_error).or_else(|| said.lines().last()).unwrap_or("nothing");
    let line = line.trim();
    let end = (0..=line.len().min(SAID_BYTES)).rev().find(|at| line.is_char_boundary(*at));
    format!("it says {:?}", &line[..end.unwrap_or(0)])
}

/// How a process has ended; one that does not within the limit is killed.
fn ended_within(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let ends_by = Instant::now() + limit;
    let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let left = ends_by.saturating_duration_since(Instant::now());
        if left.is_zero() {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&left)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A dump under way. The program is stopped from some moment on.
#[derive(Debug)]
pub(super) struct Dump {
    criu: Child,
    log: PathBuf,
    ends_by: Instant,
}

impl Dump {
    /// Dumps the program below process `launch` into a new directory below `place`, which lies in
    /// `run`.
    pub(super) fn begin(launch: u32, place: &Path, run: &Path) -> Result<Dump, String> {
        let failed = |what: &str, error: io::Error| format!("cannot {what}: {error}");
        let program = program_of(launch).ok_or("the program has no process")?;
        fs::create_dir_all(place.join(IMAGE))
            .map_err(|error| failed("make the directory of a dump", error))?;
        let inside = place.strip_prefix(run).map_err(|error| error.to_string())?;
        let images = Path::new(COPY).join(inside).join(IMAGE);
        let log = run.join(LOG);
        let _ = fs::remove_file(&log); // of the dump before
        let mut command = this_program();
        command
            .args(["launch", "--parent", &std::process::id().to_string()])
            .args(["--inside", &program.to_string(), "--", CRIU, "dump"])
            .args(["--tree", &program.to_string(), "--images-dir"])
            .arg(images)
            .args(["--work-dir", COPY, "--log-file", LOG, "--leave-stopped"])
            .arg("--manage-cgroups=ignore")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let criu = command.spawn().map_err(|error| failed("run CRIU", error))?;
        Ok(Dump { criu, log, ends_by: Instant::now() + DUMPED_WITHIN })
    }

    /// Whether the dump was made, or why it was not, once that is known.
    ///
    /// # Errors
    /// CRIU has not ended, and was killed (R1).
    pub(super) fn poll(&mut self) -> Result<Option<Result<(), String>>, String> {
        let ended = self.criu.try_wait().map_err(|error| format!("cannot wait: {error}"))?;
        match ended {
            Some(status) if status.success() => Ok(Some(Ok(()))),
            Some(status) => {
                let said = fs::read_to_string(&self.log).unwrap_or_default();
                Ok(Some(Err(format!(
                    "CRIU has not dumped the program ({status}): {}",
                    cause(&said)
                ))))
            }
            None if Instant::now() < self.ends_by => Ok(None),
            None => Err(format!(
                "CRIU has not dumped the program within {DUMPED_WITHIN:?}, and was killed; its code \
                 may be in the program, so this copy ends"
            )),
        }
    }
}

impl Drop for Dump {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.criu.kill();
        let _ = self.criu.wait();
    }
}

/// The words of a command that restores the dump in the directory of the copy's process. The
/// program's output goes where that of the command goes, under whatever name the file had.
pub(super) fn restore_words() -> Vec<String> {
    let at = |name: &str| format!("{COPY}/{name}");
    let output = format!("fd[1]:{}", at("output").trim_start_matches('/'));
    let pid = at(PID);
    let images = at(IMAGE);
    let words = [
        CRIU,
        "restore",
        "--images-dir",
        &images,
        "--work-dir",
        COPY,
        "--log-file",
        LOG,
        "--manage-cgroups=ignore",
        "--inherit-fd",
        &output,
        "--restore-detached",
        "--restore-sibling",
        "--pidfile",
        &pid,
    ];
    words.map(str::to_owned).into()
}

/// Restores a program by these words, as a child of this process, and waits for its end (R3).
///
/// # Errors
/// It was not restored.
pub(super) fn run_restored(words: &[String]) -> Outcome<rustix::process::WaitStatus> {
    let failed = |error: io::Error| Failure::os("restore the program with CRIU", error);
    let at = |name: &str| Path::new(COPY).join(name);
    let _ = fs::remove_file(at(LOG));
    let mut criu = Command::new(&words[0]);
    criu.args(&words[1..]).stdout(apart::output()?);
    let mut criu = criu.spawn().map_err(failed)?;
    let status = ended_within(&mut criu, RESTORED_WITHIN).map_err(failed)?;
    let Some(status) = status else {
        return Err(Failure::new(format_args!(
            "CRIU has not restored the program within {RESTORED_WITHIN:?}"
        )));
    };
    if !status.success() {
        let said = fs::read_to_string(at(LOG)).unwrap_or_default();
        return Err(Failure::new(format_args!(
            "CRIU has not restored the program ({status}): {}; all members take the same kernel, \
             program and libraries, at the same paths",
            cause(&said)
        )));
    }
    let text = fs::read_to_string(at(PID)).map_err(failed)?;
    let pid = text.trim().parse().ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| Failure::new("CRIU has not said what it has restored"))?;
    // The pages were read. (What is left takes room, and no more.)
    let _ = fs::remove_dir_all(at(IMAGE));
    fs::write(at(BEGUN), b"").map_err(failed)?;
    loop {
        match waitpid(Some(pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => return Ok(status),
            Ok(None) | Err(Errno::INTR) => {}
            Err(error) => return Err(failed(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_of_what_criu_says_is_the_cause() {
        let said =
            "(00.1) Warn  (a.c:1): x\n(00.2) Error (b.c:2): no room\n(00.3) Error (c.c:3): y\n";
        assert_eq!(cause(said), "it says \"(00.2) Error (b.c:2): no room\"");
        let tried = "Error (criu/util.c:642): exited, status=1\nError (criu/vdso.c:381): bounds\n";
        assert_eq!(cause(tried), "it says \"Error (criu/vdso.c:381): bounds\"");
        assert_eq!(cause("odd\nlast\n"), "it says \"last\"");
        assert_eq!(cause(""), "it says \"nothing\"");
        let long = cause(&"\u{e9}".repeat(1000));
        assert!(long.len() < 2 * SAID_BYTES, "{long}");
    }

    #[test]
    fn a_process_that_does_not_end_in_time_is_killed() {
        let mut ends = Command::new("true").spawn().unwrap();
        let status = ended_within(&mut ends, Duration::from_secs(60)).unwrap();
        assert!(status.is_some_and(|status| status.success()));
        let mut stays = Command::new("sleep").arg("600").spawn().unwrap();
        assert_eq!(ended_within(&mut stays, Duration::from_millis(20)).unwrap(), None);
    }

    #[test]
    fn the_output_of_a_restored_program_is_named_as_in_its_dump() {
        let words = restore_words().join(" ");
        assert!(words.contains("--inherit-fd fd[1]:run/gregale/copy/output "), "{words}");
    }
}
