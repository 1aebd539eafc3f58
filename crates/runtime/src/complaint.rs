//! Complaints: what a process says that continues.
//!
//! - C1 a complaint never waits for a reader: a pipe that is full, or a terminal that was stopped,
//!   costs lines and no time. The next line that has room is preceded by the number of lost ones.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use std::fmt::Arguments;
use std::sync::{LazyLock, Mutex, PoisonError};

/// The longest line: what a pipe takes as a whole, or not at all (`PIPE_BUF`).
const LINE_BYTES_MAX: usize = 4096;

/// Says a line on standard error, which may be closed (`2>&1 | head`, a log's reader that died) or
/// full: the process continues. (`eprintln!` would end it, or wait.)
pub fn complain(line: Arguments<'_>) {
    static OUTLET: LazyLock<Mutex<Outlet<OwnedFd>>> =
        LazyLock::new(|| Mutex::new(Outlet { own: unshared(std::io::stderr()), n_lost: 0 }));
    let mut outlet = OUTLET.lock().unwrap_or_else(PoisonError::into_inner);
    outlet.say(std::io::stderr(), line);
}

/// Another description of the same pipe or terminal, whose writes do not wait. Standard error's own
/// is shared with other processes, which may rely on waiting.
fn unshared(shared: impl AsFd) -> Option<OwnedFd> {
    use std::os::fd::AsRawFd;
    let kind = FileType::from_raw_mode(fstat(&shared).ok()?.st_mode);
    if !matches!(kind, FileType::Fifo | FileType::CharacterDevice) {
        return None;
    }
    let path = format!("/proc/self/fd/{}", shared.as_fd().as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    open(path, flags, Mode::empty()).ok()
}

/// The way of complaints out of the process.
struct Outlet<F> {
    /// The description whose writes do not wait. Without one, such as for a socket, the shared one
    /// is asked for room first.
    own: Option<F>,
    /// The lines that found no room since the last one that did.
    n_lost: u64,
}

impl<F: AsFd> Outlet<F> {
    fn say(&mut self, shared: impl AsFd, line: Arguments<'_>) {
        let mut text = String::new();
        if self.n_lost > 0 {
            let n = self.n_lost;
            text = format!("gregale: {n} lines were lost here: standard error was not read\n");
        }
        text += &format!("gregale: {line}");
        text.truncate(text.floor_char_boundary(LINE_BYTES_MAX - 1));
        text.push('\n');
        let shared = shared.as_fd();
        let written = match &self.own {
            Some(own) => rustix::io::write(own, text.as_bytes()).is_ok(),
            None => has_room(shared) && rustix::io::write(shared, text.as_bytes()).is_ok(),
        };
        self.n_lost = if written { 0 } else { self.n_lost + 1 };
    }
}

fn has_room(fd: impl AsFd) -> bool {
    let mut polled = [PollFd::new(&fd, PollFlags::OUT)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let n_ready = poll(&mut polled, Some(&at_once));
    n_ready.is_ok_and(|n| n > 0) && polled[0].revents().contains(PollFlags::OUT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{PipeReader, PipeWriter, Read, pipe};

    const FULL_AFTER_MAX: usize = 100_000;

    /// Fills the pipe by complaints, reads it, and returns what the next complaint says.
    fn after_a_full_pipe(outlet: &mut Outlet<OwnedFd>, ends: (PipeReader, PipeWriter)) -> String {
        let (mut reader, writer) = ends;
        let mut n_said = 0;
        while outlet.n_lost < 3 {
            outlet.say(&writer, format_args!("line {n_said}"));
            n_said += 1;
            assert!(n_said < FULL_AFTER_MAX, "a pipe has an end");
        }
        let n_kept = n_said - 3;
        for n in 0..n_kept {
            let line = format!("gregale: line {n}\n");
            let mut read = vec![0; line.len()];
            reader.read_exact(&mut read).unwrap();
            assert_eq!(String::from_utf8(read).unwrap(), line, "no line in parts");
        }
        outlet.say(&writer, format_args!("it continues"));
        outlet.own = None;
        drop(writer);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        rest
    }

    const CONTINUED: &str = "gregale: 3 lines were lost here: standard error was not read\n\
         gregale: it continues\n";

    #[test]
    fn c1_a_pipe_that_is_not_read_costs_lines_and_no_time() {
        let ends = pipe().unwrap();
        let mut outlet = Outlet { own: unshared(&ends.1), n_lost: 0 };
        assert!(outlet.own.is_some());
        assert_eq!(after_a_full_pipe(&mut outlet, ends), CONTINUED);
        let mut without = Outlet { own: None, n_lost: 0 };
        assert_eq!(after_a_full_pipe(&mut without, pipe().unwrap()), CONTINUED);
    }

    #[test]
    fn a_pipe_without_a_reader_ends_nothing() {
        let (reader, writer) = pipe().unwrap();
        let mut outlet = Outlet { own: unshared(&writer), n_lost: 0 };
        drop(reader);
        outlet.say(&writer, format_args!("unheard"));
        assert_eq!(outlet.n_lost, 1);
    }

    #[test]
    fn a_long_line_is_cut_at_a_letter() {
        let (mut reader, writer) = pipe().unwrap();
        let mut outlet = Outlet { own: unshared(&writer), n_lost: 0 };
        outlet.say(&writer, format_args!("{}", "é".repeat(LINE_BYTES_MAX)));
        (outlet.own, _) = (None, drop(writer));
        let mut said = String::new();
        reader.read_to_string(&mut said).unwrap();
        assert_eq!(said.len(), LINE_BYTES_MAX);
        assert!(said.ends_with("é\n"), "not cut within a letter");
    }
}
