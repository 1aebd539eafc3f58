//! Signals that end a process in order: SIGTERM, SIGINT, and SIGHUP where it is not ignored from
//! the start (by `nohup`, for one).

use console::{Failure, Outcome};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The signals that end this process.
pub(crate) fn ending() -> Vec<i32> {
    let hangup = (!is_ignored(&status(), SIGHUP)).then_some(SIGHUP);
    [SIGTERM, SIGINT].into_iter().chain(hangup).collect()
}

/// What procfs tells of this process.
fn status() -> String {
    std::fs::read_to_string("/proc/self/status").unwrap_or_default()
}

/// Has the kernel keep how a child ended until this process asks. Where the process that began
/// this one ignores its children's ends, so does this one, and what asks is told that there is no
/// such child.
pub(crate) fn heed_children() -> Outcome<()> {
    if !is_ignored(&status(), SIGCHLD) {
        return Ok(());
    }
    let is_told = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGCHLD, is_told)
        .map(drop)
        .map_err(|error| Failure::os("hear of the ends of other processes", error))
}

/// Whether a process with this `status` (of procfs) ignores `signal`.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// These signals, as a descriptor to poll.
pub(crate) struct Signals {
    pub(crate) pipe: UnixStream,
}

impl Signals {
    pub(crate) fn new() -> Outcome<Signals> {
        let (pipe, write) =
            UnixStream::pair().map_err(|error| Failure::os("make a pipe for signals", error))?;
        pipe.set_nonblocking(true)
            .map_err(|error| Failure::os("make a pipe for signals", error))?;
        // SIGINT and SIGHUP go to the whole process group of a terminal: the supervisor handles
        // them, and then sends its order. Here the signals are only kept from killing.
        for signal in ending() {
            let write = write.try_clone().map_err(|error| Failure::os("copy a pipe", error))?;
            let pipe = SignalPipe { write, signal };
            pipe.register()?;
        }
        Ok(Signals { pipe })
    }
}

struct SignalPipe {
    write: UnixStream,
    signal: i32,
}

impl SignalPipe {
    fn register(self) -> Outcome<()> {
        signal_hook::low_level::pipe::register(self.signal, self.write)
            .map(drop)
            .map_err(|error| Failure::os("wait for signals", error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_signal_is_known_by_its_bit() {
        let status = "Name:\tgregale\nSigBlk:\t0000000000000003\nSigIgn:\t0000000000001001\n";
        assert!(is_ignored(status, SIGHUP) && !is_ignored(status, SIGINT));
        assert!(!is_ignored("SigIgn:\t0000000000001000\n", SIGHUP));
        assert!(!is_ignored("", SIGHUP));
    }
}
