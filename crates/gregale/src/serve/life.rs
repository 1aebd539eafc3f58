//! Which life of this member's process this is.
//!
//! Commands carry the life that sent them, and a replica refuses those of a past one, so each
//! life's number must be above all earlier ones. A file beside the region counts; where the file is
//! gone, the wall clock in milliseconds, which the file follows too, is above whatever was counted
//! before unless the clock was set back by more than the time since. It also holds the process, to
//! name the dead.

use crate::failure::{Failure, Outcome};
use base::Incarnation;
use std::io::Write;
use std::path::{Path, PathBuf};

/// This process's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    /// Its number.
    pub(crate) number: Incarnation,
    /// The how manieth it is of this member in this directory, from 1.
    pub(crate) count: u64,
}

/// The process of the last life of `member`, if this directory is its.
pub(crate) fn last_pid(directory: &Path, member: u16) -> Option<u32> {
    let text = std::fs::read_to_string(path_of(directory, member)).ok()?;
    text.split_whitespace().nth(2)?.parse().ok()
}

fn path_of(directory: &Path, member: u16) -> PathBuf {
    directory.join(format!("member-{member}.life"))
}

/// Begins the next life of `member`.
pub(crate) fn begin(directory: &Path, member: u16) -> Outcome<Life> {
    begin_at(directory, member, runtime::unix_ms())
}

fn begin_at(directory: &Path, member: u16, unix_ms: u64) -> Outcome<Life> {
    let path = path_of(directory, member);
    let last = std::fs::read_to_string(&path).unwrap_or_default();
    let mut words = last.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
    let (number, count) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
    let life = Life { number: Incarnation(unix_ms.max(number + 1)), count: count + 1 };
    // By renaming, so that a crash leaves the old file or the new one.
    let fresh = path.with_extension("life-new");
    let write = || {
        let mut file = std::fs::File::create(&fresh)?;
        writeln!(file, "{} {} {}", life.number.0, life.count, std::process::id())?;
        std::fs::rename(&fresh, &path)
    };
    write().map_err(|error: std::io::Error| {
        Failure::os(format_args!("write {}", path.display()), error)
    })?;
    Ok(life)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_rise_even_if_the_clock_is_set_back() {
        let directory = tempfile::tempdir().unwrap();
        let at = |ms| begin_at(directory.path(), 1, ms).unwrap();
        assert_eq!(at(1000), Life { number: Incarnation(1000), count: 1 });
        assert_eq!(at(500), Life { number: Incarnation(1001), count: 2 });
        assert_eq!(at(9000), Life { number: Incarnation(9000), count: 3 });
        assert_eq!(last_pid(directory.path(), 1), Some(std::process::id()));
        assert_eq!(last_pid(directory.path(), 3), None);
        let other = begin_at(directory.path(), 2, 7).unwrap();
        assert_eq!(other, Life { number: Incarnation(7), count: 1 });
    }
}
