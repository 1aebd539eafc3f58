//! How a command ends when it cannot do what it was asked to do.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

/// One line that names the cause and, behind a colon or a semicolon, the mend.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failure(String);

impl Failure {
    /// With this line. Line breaks in what is quoted would make two of it: they become spaces.
    pub fn new(line: impl fmt::Display) -> Failure {
        Failure(line.to_string().trim().replace(['\n', '\r'], " "))
    }

    /// The system refused `doing`, which reads behind "cannot".
    pub fn os(doing: impl fmt::Display, error: impl Into<io::Error>) -> Failure {
        let error: io::Error = error.into();
        let mend = match error.raw_os_error() {
            Some(code) if code == rustix::io::Errno::MFILE.raw_os_error() => {
                "; no descriptors left: raise the limit with `ulimit -n`"
            }
            Some(code) if code == rustix::io::Errno::NFILE.raw_os_error() => {
                "; the machine has no descriptors left: see `sysctl fs.file-max`"
            }
            Some(code) if code == rustix::io::Errno::NOSPC.raw_os_error() => {
                "; the file system is full: remove files, or `mount -o remount,size=` it larger"
            }
            Some(code) if code == rustix::io::Errno::ADDRINUSE.raw_os_error() => {
                "; the port is in use: stop who uses it, or choose others with --port"
            }
            Some(code) if code == rustix::io::Errno::ADDRNOTAVAIL.raw_os_error() => {
                "; this machine has no such address: choose one of `ip address` with --bind"
            }
            Some(code) if code == rustix::io::Errno::ACCESS.raw_os_error() => {
                "; not permitted: run as a user who may, or choose another place"
            }
            _ => "",
        };
        Failure::new(format_args!("cannot {doing}: {error}{mend}"))
    }
}

/// What every subcommand returns.
pub type Outcome<T = ExitCode> = Result<T, Failure>;

/// The exit code of a command; what it could not do is said on standard error.
pub fn ended(outcome: Outcome) -> ExitCode {
    outcome.unwrap_or_else(|failure| {
        // It may be closed: the exit code says so too.
        let _ = writeln!(io::stderr(), "gregale: {failure}");
        ExitCode::from(2)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line() {
        assert_eq!(Failure::new("a\nb\r\nc\n").to_string(), "a b  c");
    }

    #[test]
    fn descriptors_that_ran_out_are_named_with_the_mend() {
        let text = Failure::os("listen", rustix::io::Errno::MFILE).to_string();
        assert!(text.contains("cannot listen") && text.contains("ulimit -n"), "{text}");
    }
}
