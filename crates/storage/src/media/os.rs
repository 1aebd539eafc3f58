//! A directory of the operating system.

use super::Media;
use rustix::fs::FallocateFlags;
use rustix::io::retry_on_intr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory of the operating system; see [`Media`].
///
/// `sync` is fdatasync: it makes a changed length durable too, but not times. On files whose blocks
/// were allocated *and written* before, it has no metadata to journal and costs one flush.
#[derive(Clone, Debug)]
pub struct Os(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    /// The directory, kept open: a sync of it must not depend on finding it again.
    dir: File,
    /// The way in which files are opened.
    access: Access,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Reading,
    Writing,
}

impl Os {
    /// The directory at `path`, which must exist.
    pub fn new(path: &Path) -> io::Result<Os> {
        Os::with(path, Access::Writing)
    }

    /// The directory at `path` for reading only: its files cannot be written, and may be on a file
    /// system that forbids it.
    pub fn reading(path: &Path) -> io::Result<Os> {
        Os::with(path, Access::Reading)
    }

    fn with(path: &Path, access: Access) -> io::Result<Os> {
        let dir = File::open(path)?;
        if !dir.metadata()?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Os(Arc::new(Inner { path: path.to_owned(), dir, access })))
    }

    fn at(&self, name: &str) -> PathBuf {
        debug_assert!(!name.contains('/'), "the directory is flat: {name}");
        self.0.path.join(name)
    }

    /// Makes a file, whose space `allocate` takes.
    fn create_by(
        &self,
        name: &str,
        mut allocate: impl FnMut(&File) -> rustix::io::Result<()>,
    ) -> io::Result<File> {
        let mut options = OpenOptions::new();
        // These files contain clients' values, which only the owner may read.
        let file = options.read(true).write(true).create_new(true).mode(0o600);
        let file = file.open(self.at(name))?;
        // Some file systems end the call at any signal, as one that stops the process for a moment.
        if let Err(e) = retry_on_intr(|| allocate(&file)) {
            // The caller needs the cause; a name that stays behind is removed at the next opening.
            let _ = self.remove(name);
            return Err(e.into());
        }
        Ok(file)
    }
}

impl Media for Os {
    type File = File;

    fn create(&self, name: &str, len: u64) -> io::Result<File> {
        self.create_by(name, |file| match len {
            0 => Ok(()),
            _ => rustix::fs::fallocate(file, FallocateFlags::empty(), 0, len),
        })
    }

    fn open(&self, name: &str) -> io::Result<File> {
        let writes = self.0.access == Access::Writing;
        OpenOptions::new().read(true).write(writes).open(self.at(name))
    }

    fn len(&self, file: &File) -> io::Result<u64> {
        Ok(file.metadata()?.len())
    }

    fn read_at(&self, file: &File, offset: u64, into: &mut [u8]) -> io::Result<()> {
        file.read_exact_at(into, offset)
    }

    fn write_at(&self, file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.at(from), self.at(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.at(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.0.path)? {
            // A name that is not UTF-8 is not one of ours.
            names.extend(entry?.file_name().into_string());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.0.dir.sync_all()
    }

    fn place(&self) -> String {
        self.0.path.display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that no kernel syncs: only a sync of it fails.
    fn a_pipe() -> File {
        let (end, _) = io::pipe().unwrap();
        File::from(std::os::fd::OwnedFd::from(end))
    }

    #[test]
    fn a_sync_of_a_file_and_of_the_directory_reaches_the_kernel() {
        let base = tempfile::tempdir().unwrap();
        let media = Os::new(base.path()).unwrap();
        let file = media.create("file", 0).unwrap();
        media.sync(&file).unwrap();
        media.sync_dir().unwrap();
        assert!(media.sync(&a_pipe()).is_err(), "fdatasync was not called");
        let inner = Inner { path: base.path().into(), dir: a_pipe(), access: Access::Writing };
        assert!(Os(Arc::new(inner)).sync_dir().is_err(), "fsync was not called");
    }

    /// The trap: a process that was stopped and continued ended.
    #[test]
    fn an_allocation_that_a_signal_ends_is_begun_again() {
        let base = tempfile::tempdir().unwrap();
        let media = Os::new(base.path()).unwrap();
        let mut left = vec![Ok(()), Err(rustix::io::Errno::INTR), Err(rustix::io::Errno::INTR)];
        media.create_by("file", |_| left.pop().unwrap()).unwrap();
        assert!(left.is_empty());
        let full = media.create_by("other", |_| Err(rustix::io::Errno::NOSPC));
        assert!(super::super::is_full(&full.unwrap_err()));
        assert_eq!(media.list().unwrap(), ["file"], "what has failed leaves no name");
    }

    // Root may write a file that forbids it, and tests run as root: a write must fail, not `open`.
    #[test]
    fn what_is_only_looked_at_cannot_be_written() {
        let base = tempfile::tempdir().unwrap();
        std::fs::write(base.path().join("file"), b"content").unwrap();
        let media = Os::reading(base.path()).unwrap();
        let file = media.open("file").unwrap();
        let mut bytes = [0; 7];
        media.read_at(&file, 0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"content");
        assert!(media.write_at(&file, 0, b"another").is_err());
        let media = Os::new(base.path()).unwrap();
        media.write_at(&media.open("file").unwrap(), 0, b"another").unwrap();
    }
}
