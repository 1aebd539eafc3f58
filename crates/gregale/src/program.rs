//! This program, which starts itself in other roles: as a member, as a sentinel, as what becomes a
//! copy's program.
//!
//! The processes of a cluster are of one version, whatever became of the program's file since the
//! first one was started: an upgrade replaces it under a cluster that runs.

use std::fs::metadata;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The image that a process runs, by the kernel's name for it. The process that looks there is
/// the one that begins, before it turns into another program.
const IMAGE: &str = "/proc/self/exe";

/// A command that runs what this process runs.
pub(crate) fn this_program() -> Command {
    let mut command = Command::new(path_of(std::env::current_exe().ok()));
    command.arg0("gregale");
    command
}

/// The path `named`, as long as it names the image; lists of processes show its name.
fn path_of(named: Option<PathBuf>) -> PathBuf {
    named.filter(|path| is_one(path, Path::new(IMAGE))).unwrap_or_else(|| IMAGE.into())
}

fn is_one(one: &Path, other: &Path) -> bool {
    let file = |path| metadata(path).ok().map(|of| (of.dev(), of.ino()));
    file(one).is_some_and(|one| file(other) == Some(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_file_under_the_name_is_not_this_program() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(path_of(Some(own.clone())), own);
        let directory = tempfile::tempdir().unwrap();
        let other = directory.path().join("gregale");
        std::fs::copy(&own, &other).unwrap();
        assert_eq!(path_of(Some(other)), Path::new(IMAGE), "an upgrade, under the same name");
        assert_eq!(path_of(Some(directory.path().join("gregale (deleted)"))), Path::new(IMAGE));
        assert_eq!(path_of(None), Path::new(IMAGE));
    }
}
