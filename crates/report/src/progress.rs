//! A progress line on a terminal's standard error, removed when the work is done.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// The interval between two updates, which would be unreadable if it were shorter.
const REDRAW_AFTER: Duration = Duration::from_millis(100);

/// The progress of a long run. It prints nothing without a terminal, so logs and pipes stay clean.
#[derive(Debug)]
pub struct Progress {
    label: String,
    total: u64,
    started: Instant,
    drawn: Option<Instant>,
    watched: bool,
}

impl Progress {
    /// Begins `total` units of work.
    pub fn new(label: impl Into<String>, total: u64) -> Progress {
        let watched = io::stderr().is_terminal();
        Progress { label: label.into(), total, started: Instant::now(), drawn: None, watched }
    }

    /// Notes that `done` units are done; `note` describes the current work.
    pub fn set(&mut self, done: u64, note: &str) {
        if self.watched && self.drawn.is_none_or(|drawn| drawn.elapsed() >= REDRAW_AFTER) {
            self.drawn = Some(Instant::now());
            let line = line(&self.label, done, self.total, self.started.elapsed(), note);
            // A terminal that went away must not end the run.
            let _ = write!(io::stderr(), "\r\x1b[K{line}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(label: &str, done: u64, total: u64, elapsed: Duration, note: &str) -> String {
    let seconds = elapsed.as_secs();
    let left = match (done, total.checked_sub(done)) {
        (1.., Some(left)) => {
            format!(", {} s left", (elapsed.as_secs_f64() * left as f64 / done as f64).ceil())
        }
        _ => String::new(),
    };
    let percent = (100 * done).checked_div(total).unwrap_or(100);
    let space = if note.is_empty() { "" } else { "  " };
    format!("{label} {done}/{total} ({percent} %), {seconds} s{left}{space}{note}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_estimated_from_what_is_done() {
        let ten = Duration::from_secs(10);
        assert_eq!(line("sim", 25, 100, ten, "x"), "sim 25/100 (25 %), 10 s, 30 s left  x");
        assert_eq!(line("sim", 0, 100, ten, ""), "sim 0/100 (0 %), 10 s");
        assert_eq!(line("sim", 0, 0, ten, ""), "sim 0/0 (100 %), 10 s");
    }
}
