//! The few file operations on which storage is built, and the promise of each.
//!
//! A [`Media`] is a flat directory. [`Os`] is a directory of the operating system, [`Simulated`] a
//! disk in memory that breaks everything that is not promised here:
//!
//! - written bytes are durable only after [`Media::sync`] of their file succeeded; before that, any
//!   part of them may be durable, in any order, in units of [`SECTOR`] bytes;
//! - a name that was created, renamed or removed is durable only after [`Media::sync_dir`]
//!   succeeded; before that, any of the changes may be durable without the others; one rename is
//!   atomic;
//! - after a failed sync the state of the bytes that it covered is unknown, and a later sync that
//!   succeeds does not cover them: the caller must write again or die.

mod os;
mod planted;
mod simulated;

use std::fmt::Debug;
use std::io;

pub use os::Os;
pub use planted::{IgnoresSyncErrors, SkipsDirectorySync, SkipsSync, SyncsAfterRename};
pub use simulated::{Faults, Simulated};

/// The number of bytes that a disk writes whole or not at all.
pub const SECTOR: usize = 512;

/// A flat directory of files. Handles are cheap to clone and stay valid when a file is renamed.
pub trait Media: Clone + Debug {
    /// An open file.
    type File: Debug;

    /// Creates a file of `len` zero bytes whose space is allocated; fails if the name exists. A
    /// creation that fails, for want of space too, leaves no file behind.
    fn create(&self, name: &str, len: u64) -> io::Result<Self::File>;
    /// Opens a file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Self::File>;
    /// Its length in bytes.
    fn len(&self, file: &Self::File) -> io::Result<u64>;
    /// Fills `into` from `offset` on; an end of file before that is an error.
    fn read_at(&self, file: &Self::File, offset: u64, into: &mut [u8]) -> io::Result<()>;
    /// Writes all of `bytes` at `offset`; a file grows as needed.
    fn write_at(&self, file: &Self::File, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes the bytes written to this file, and its length, durable.
    fn sync(&self, file: &Self::File) -> io::Result<()>;
    /// Gives a file another name, replacing a file that had that name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a name.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Lists all names, in order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Makes names durable.
    fn sync_dir(&self) -> io::Result<()>;
    /// The directory's path, for messages.
    fn place(&self) -> String;
}

/// Whether an error means that the disk, or our share of it, is full.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether an error means that the disk cannot give the bytes that were asked for: a bad sector, or
/// one whose checksum below the file does not hold.
pub fn is_unreadable(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let errnos = [Errno::IO, Errno::NODATA, Errno::ILSEQ, Errno::BADMSG, Errno::UCLEAN];
    errnos.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Whether an error means that this process, or the host, has no descriptor left for a file.
pub fn lacks_descriptors(error: &io::Error) -> bool {
    let errnos = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE];
    errnos.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}
