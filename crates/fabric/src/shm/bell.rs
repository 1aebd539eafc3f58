//! A doorbell: a named FIFO beside the region, by which processes that share nothing else make a
//! sleeper's descriptor readable.

use crate::setup::OpenError;
use base::Rank;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One end of a doorbell. Both sides open it for reading and writing, so that neither the end of
/// the other (SIGPIPE, end of file) nor its absence (ENXIO) is ever visible.
#[derive(Clone, Debug)]
pub(super) struct Bell(Arc<OwnedFd>);

fn path_of(directory: &Path, rank: Rank) -> PathBuf {
    directory.join(format!("node-{}.bell", rank.member()))
}

impl Bell {
    /// The owner's end, made if it does not exist.
    pub(super) fn make(directory: &Path, me: Rank) -> Result<Bell, OpenError> {
        let path = path_of(directory, me);
        match rustix::fs::mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(source) => {
                return Err(OpenError::os(format!("make the doorbell {}", path.display()), source));
            }
        }
        let bell = Bell::open(directory, me)
            .map_err(|source| OpenError::os(format!("open {}", path.display()), source))?;
        bell.drain(); // rung for an earlier life
        Ok(bell)
    }

    /// A peer's end.
    pub(super) fn open(directory: &Path, rank: Rank) -> Result<Bell, Errno> {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = rustix::fs::open(path_of(directory, rank), flags, Mode::empty())?;
        Ok(Bell(Arc::new(fd)))
    }

    pub(super) fn ring(&self) {
        // A full FIFO is readable already; no other error is possible for a FIFO that this process
        // has open for reading too.
        let _ = rustix::io::write(&*self.0, &[1]);
    }

    /// Takes all rings so far.
    pub(super) fn drain(&self) {
        let mut rings = [0; 64];
        while rustix::io::read(&*self.0, &mut rings).is_ok_and(|n| n == rings.len()) {}
    }

    pub(super) fn remove(&self, directory: &Path, me: Rank) {
        // A file that is gone already is fine.
        let _ = std::fs::remove_file(path_of(directory, me));
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
