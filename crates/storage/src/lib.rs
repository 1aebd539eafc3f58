//! What survives a power cut: an append-only log, snapshots, and the directory that holds them.
//!
//! Promises: what was synced is there after any crash, in order, and nothing that was never
//! appended; a record that is not intact is either the torn end of what was never synced, and cut,
//! or damage, and named: never guessed at. Contains no replication and no policy: it does not know
//! what an entry means, when to take a snapshot, or who may forget what.
//!
//! - [`media`]: the few operations on files that all of this is built from, over the operating
//!   system or over a simulated disk that breaks whatever is not promised.
//! - [`log`]: one stream of records over preallocated segments.
//! - [`committer`]: the thread that writes and syncs what the poll loop hands over.
//! - [`snapshot`]: whole states in files, written once, read in chunks.
//! - [`directory`]: whose directory it is, and who has it open.
//! - [`inspect`]: a directory as text, offline.
//! - [`mod@bench`]: what a durable record costs, beside what the disk costs.
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
    AppendError, Batch, Damage, EntryHead, Flush, Log, Opened, Options, WriteError, Writer,
};
pub use media::Media;
