//! What lies in the directory of a durable cluster, beside what its file says (I4 to I6 of `data`).

use super::FRESH;
use crate::config::above;
use crate::serve::life::Lives;
use console::{Failure, Outcome};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use storage::directory::is_begun;

/// Makes a directory and what is missing above it, durably (I4).
pub(super) fn make(path: &Path) -> Outcome<()> {
    let missing = path.ancestors().take_while(|at| !at.as_os_str().is_empty() && !at.exists());
    let missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| Failure::os(format_args!("make {}", path.display()), error))?;
    for made in missing {
        let above = above(&made);
        let opened = File::open(above)
            .map_err(|error| Failure::os(format_args!("open {}", above.display()), error))?;
        synced(&opened, above)?;
    }
    Ok(())
}

/// The directory of a member that holds a disk, of this or an earlier incarnation.
pub(super) fn whose_disk(path: &Path) -> Outcome<Option<String>> {
    for name in names_in(path)? {
        let member = name.to_string_lossy();
        if member.starts_with("member-") && begun(&path.join(&name))? {
            return Ok(Some(member.into_owned()));
        }
    }
    Ok(None)
}

/// A member that had a disk in an earlier life.
pub(super) fn had_disk(path: &Path) -> Outcome<Option<u16>> {
    for member in 1..=base::MAX_MEMBERS as u16 {
        let had = Lives::beside(path, member).had_disk().map_err(|error| {
            Failure::os(format_args!("read the files in {}", path.display()), error)
        })?;
        if had {
            return Ok(Some(member));
        }
    }
    Ok(None)
}

pub(super) fn names_in(path: &Path) -> Outcome<Vec<OsString>> {
    let entries = std::fs::read_dir(path).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
    entries
        .map(|entries| entries.iter().map(std::fs::DirEntry::file_name).collect())
        .map_err(|error| Failure::os(format_args!("read {}", path.display()), error))
}

/// Whether a member has begun the directory.
pub(super) fn begun(path: &Path) -> Outcome<bool> {
    is_begun(path).map_err(|error| Failure::os(format_args!("read {}", path.display()), error))
}

pub(super) fn is_there(path: &Path) -> Outcome<bool> {
    path.try_exists().map_err(|error| Failure::os(format_args!("read {}", path.display()), error))
}

/// Takes the lock of the directory (I5).
pub(super) fn lock(directory: File, path: &Path) -> Outcome<File> {
    match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(directory),
        Err(Errno::WOULDBLOCK) => Err(Failure::new(format_args!(
            "{} is in use by another process, `gregale up` or `recover`: stop that one first, or \
             name another directory",
            path.display()
        ))),
        Err(errno) => Err(Failure::os(format_args!("lock {}", path.display()), errno)),
    }
}

/// Whether a file may be left: the remains of an earlier attempt; and a member's directory may be a
/// disk of its own (which that member refuses if it is not empty).
pub(super) fn is_expected(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let is_secret = name == "secret" || name.starts_with("secret.old-");
    is_secret || name == FRESH || name == "lost+found" || name.starts_with("member-")
}

pub(super) fn synced(file: &File, path: &Path) -> Outcome<()> {
    file.sync_all().map_err(|error| Failure::os(format_args!("sync {}", path.display()), error))
}

pub(super) fn absolute(path: &Path) -> Outcome<PathBuf> {
    path.canonicalize().map_err(|error| Failure::os(format_args!("find {}", path.display()), error))
}
