//! Storage that survives a power cut: an append-only log, snapshots, and their directory.
//!
//! Promises: everything that was synced is there after any crash, in order, and nothing that was
//! never appended. A record that is not intact is either the torn end of bytes that were never
//! synced, and is cut, or damage, and is named: the code never guesses. The crate contains no
//! replication and no policy: it does not know what an entry means, when to take a snapshot, or
//! which entries may be dropped.
//!
//! - [`media`]: the few file operations on which the crate is built, over the operating system or
//!   over a simulated disk that breaks everything that is not promised.
//! - [`log`]: one stream of records over preallocated segments.
//! - [`committer`]: the thread that writes and syncs the poll loop's batches.
//! - [`snapshot`]: whole states in files, written once, read in chunks.
//! - [`directory`]: the owner of a directory, and its lock.
//! - [`inspect`]: a directory as text, offline.
//! - [`mod@bench`]: the cost of a durable record, beside the disk's cost.
//!
//! docs/formats.md has every file byte by byte.
#![forbid(unsafe_code)]

pub mod bench;
pub mod committer;
pub mod directory;
#[cfg(test)]
mod golden;
pub mod inspect;
pub mod log;
pub mod media;
pub mod snapshot;

pub use committer::{Committer, Report};
pub use directory::{Directory, Identity};
pub use log::{
    AppendError, Batch, Damage, EntryHead, Flush, Log, Opened, Options, ReadError, WriteError,
    Writer,
};
pub use media::Media;
