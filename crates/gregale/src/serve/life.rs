//! The number of this life of the member's process.
//!
//! Commands carry the life that sent them, and a replica refuses those of a past life, so each
//! life's number must be above all earlier ones. A file beside the region counts. If the file is
//! gone, the wall clock in milliseconds, which the file follows too, is above every earlier count
//! unless the clock was set back by more than the time since. The file also holds the process id,
//! to name the dead process, and whether a disk was ever begun: the file is beside the disk, and
//! outlives it.

use crate::config::{Config, Start, above};
use base::Incarnation;
use console::{Failure, Outcome};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use storage::directory::is_begun;

/// This process's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    /// The life's number.
    pub(crate) number: Incarnation,
    /// The ordinal of this life of the member in this directory, from 1.
    pub(crate) count: u64,
    /// Whether the member had a disk in an earlier life.
    pub(crate) had_disk: bool,
}

/// The file that counts a member's lives.
#[derive(Clone, Debug)]
pub(crate) struct Lives {
    path: PathBuf,
}

impl Lives {
    /// The file of `config`'s member. It has the name of the directory of its disk: members of
    /// several clusters may lie side by side.
    ///
    /// # Errors
    /// The directory of the disk cannot be read.
    pub(crate) fn of(config: &Config) -> Outcome<Lives> {
        let old = Lives::beside(config.lives(), config.member);
        let Some(name) = config.data.as_deref().and_then(Path::file_name) else { return Ok(old) };
        let mut name = name.to_owned();
        name.push(".life");
        let own = Lives { path: config.lives().join(name) };
        if own.path == old.path || own.path.exists() || !old.path.exists() {
            return Ok(own);
        }
        // Earlier versions named it by the member's number alone. It is another cluster's where a
        // disk has that name.
        if old.path.with_extension("").exists() {
            return Ok(own);
        }
        // Its disk is there, so the file is taken for its own; else it may be of the disk that is
        // lost. A new incarnation needs no note of that, and begins its own file.
        if has_identity(config)? {
            std::fs::rename(&old.path, &own.path).map_err(|error| {
                Failure::os(format_args!("rename {}", old.path.display()), error)
            })?;
            return Ok(own);
        }
        if config.start == Start::Join {
            return Ok(own);
        }
        let had_disk = old.had_disk();
        let had_disk = had_disk
            .map_err(|error| Failure::os(format_args!("read {}", old.path.display()), error))?;
        Ok(if had_disk { old } else { own })
    }

    /// The file of `member`, another one of the same cluster, where its name is known: those of a
    /// cluster's disks need have nothing in common.
    pub(crate) fn of_other(config: &Config, member: u16) -> Option<Lives> {
        let own = format!("member-{}", config.member);
        let name = config.data.as_deref().map(Path::file_name);
        let is_by_number = name.is_none_or(|name| name == Some(own.as_ref()));
        is_by_number.then(|| Lives::beside(config.lives(), member))
    }

    /// The file of `member` in a directory that is one cluster's alone.
    pub(crate) fn beside(directory: &Path, member: u16) -> Lives {
        Lives { path: directory.join(format!("member-{member}.life")) }
    }

    /// The name of the file, for people.
    pub(crate) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Records that the member has a disk now, so that its next lives know it whatever becomes of
    /// the disk.
    pub(crate) fn note_disk(&self, life: Life) -> Outcome<()> {
        if life.had_disk {
            return Ok(());
        }
        write(&self.path, Life { had_disk: true, ..life })?;
        let directory = above(&self.path);
        File::open(directory)
            .and_then(|opened| opened.sync_all())
            .map_err(|error| Failure::os(format_args!("sync {}", directory.display()), error))
    }

    /// Whether the member had a disk in an earlier life.
    pub(crate) fn had_disk(&self) -> io::Result<bool> {
        match std::fs::read_to_string(&self.path) {
            Ok(text) => Ok(text.split_whitespace().nth(3) == Some("1")),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The process of the member's last life, if the file is there.
    pub(crate) fn last_pid(&self) -> Option<u32> {
        let text = std::fs::read_to_string(&self.path).ok()?;
        text.split_whitespace().nth(2)?.parse().ok()
    }

    /// Begins the member's next life.
    pub(crate) fn begin(&self) -> Outcome<Life> {
        self.begin_at(runtime::unix_ms())
    }

    fn begin_at(&self, unix_ms: u64) -> Outcome<Life> {
        let last = std::fs::read_to_string(&self.path).unwrap_or_default();
        let mut words = last.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
        let (number, count) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
        let number = Incarnation(unix_ms.max(number + 1));
        let life = Life { number, count: count + 1, had_disk: words.nth(1) == Some(1) };
        write(&self.path, life)?;
        Ok(life)
    }

    /// Records that the disk was not begun after all.
    pub(crate) fn forget_disk(&self, life: Life) -> Outcome<()> {
        write(&self.path, life)
    }
}

/// Whether the member's disk was begun; false without one.
pub(super) fn has_identity(config: &Config) -> Outcome<bool> {
    let Some(path) = &config.data else { return Ok(false) };
    is_begun(path).map_err(|error| Failure::os(format_args!("read {}", path.display()), error))
}

/// Renaming ensures that a crash leaves the old file or the new one. One that tells of a disk is
/// synced before: without, a power cut may leave an empty one in the place of the old. Where there
/// is no room for another file, the old one is overwritten.
fn write(path: &Path, life: Life) -> Outcome<()> {
    let fresh = path.with_extension("life-new");
    let (number, had_disk) = (life.number.0, u8::from(life.had_disk));
    let text = format!("{number} {} {} {had_disk}", life.count, std::process::id());
    let write = || {
        let mut file = File::create(&fresh)?;
        file.write_all(format!("{text}\n").as_bytes())?;
        if life.had_disk {
            file.sync_all()?;
        }
        std::fs::rename(&fresh, path)
    };
    let written = write().or_else(|error: io::Error| {
        // One that stays is overwritten by a later life.
        let _ = std::fs::remove_file(&fresh);
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => overwrite(path, &text, error),
            _ => Err(error),
        }
    });
    written.map_err(|error| Failure::os(format_args!("write {}", path.display()), error))
}

/// Writes `text` over the file at `path`, which takes no room: a longer one fits into its block.
/// The disk writes its one sector as a whole. Without such a file the cause is `full`.
fn overwrite(path: &Path, text: &str, full: io::Error) -> io::Result<()> {
    let Ok(mut file) = OpenOptions::new().write(true).open(path) else { return Err(full) };
    let n_before = usize::try_from(file.metadata()?.len()).unwrap_or(0);
    // The end of a longer text is covered by spaces.
    let line = format!("{text:<width$}\n", width = n_before.saturating_sub(1));
    file.write_all(line.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_rise_even_if_the_clock_is_set_back() {
        let directory = tempfile::tempdir().unwrap();
        let at = |ms| Lives::beside(directory.path(), 1).begin_at(ms).unwrap();
        let of = |n, count| Life { number: Incarnation(n), count, had_disk: false };
        assert_eq!(at(1000), of(1000, 1));
        assert_eq!(at(500), of(1001, 2));
        assert_eq!(at(9000), of(9000, 3));
        assert_eq!(Lives::beside(directory.path(), 1).last_pid(), Some(std::process::id()));
        assert_eq!(Lives::beside(directory.path(), 3).last_pid(), None);
        let other = Lives::beside(directory.path(), 2).begin_at(7).unwrap();
        assert_eq!(other, of(7, 1));
    }

    /// A member that had served stayed down when it was started again on a full disk.
    #[test]
    fn a_life_begins_on_a_full_disk() {
        let directory = tempfile::tempdir().unwrap();
        let at = |ms| Lives::beside(directory.path(), 1).begin_at(ms);
        let fill = || {
            let fresh = directory.path().join("member-1.life-new");
            std::os::unix::fs::symlink("/dev/full", fresh).unwrap();
        };
        fill();
        let refused = at(1).unwrap_err().to_string();
        assert!(refused.contains("No space left"), "{refused}");
        let of = |n, count| Life { number: Incarnation(n), count, had_disk: true };
        Lives::beside(directory.path(), 1).note_disk(at(1_000_000).unwrap()).unwrap();
        for (number, count) in [(20_000_000, 2), (20_000_001, 3)] {
            fill();
            assert_eq!(at(20_000_000).unwrap(), of(number, count));
        }
        std::fs::write(directory.path().join("member-1.life"), "7 8 123456789012345678 1 \n")
            .unwrap();
        fill();
        assert_eq!(at(9).unwrap(), of(9, 9), "a shorter text");
        assert_eq!(at(9).unwrap(), of(10, 10), "with room again");
        assert_eq!(Lives::beside(directory.path(), 1).last_pid(), Some(std::process::id()));
    }

    #[test]
    fn a_disk_is_remembered_by_all_later_lives() {
        let directory = tempfile::tempdir().unwrap();
        let lives = Lives::beside(directory.path(), 1);
        let next = || lives.begin().unwrap();
        assert!(!next().had_disk);
        let life = next();
        assert!(!life.had_disk, "an earlier life began none");
        lives.note_disk(life).unwrap();
        assert!(next().had_disk && next().had_disk);
        assert_eq!(Lives::beside(directory.path(), 1).last_pid(), Some(std::process::id()));
    }
}
