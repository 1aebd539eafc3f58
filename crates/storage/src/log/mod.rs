//! The log: one stream of records over preallocated segments, durable batch by batch.
//!
//! It has three parts. [`Log`] is the poll loop's: it lays records out, keeps the index, and reads;
//! it uses the disk only to read batches that have left its cache. [`Writer`] is the disk's: it
//! writes and syncs one [`Batch`] after the other, and makes, frees and reuses segments. [`open`]
//! recovers both. The committer thread runs a writer; the simulator calls one itself, so it tests
//! the code that ships.
//!
//! ```text
//!   append, cut, put_meta --> Log --take--> Batch --> Writer: write, fdatasync
//!                              ^------------done------------'
//! ```
//!
//! # Invariants
//! - I1 **One batch at a time.** A batch is written only when everything before it is durable, so
//!   each of its records can name the batch's start as `synced_upto`. Asserted by the writer.
//! - I2 **Synced sectors are not written again.** A batch begins at a multiple of
//!   [`Options::align`], a multiple of the sector; its last record covers the padding. Only
//!   recovery writes over durable bytes, and it writes the same bytes. Asserted by the writer.
//! - I3 **Durable is a prefix.** Recovery returns every record of every batch whose sync succeeded,
//!   in order, then possibly some of the records after them, in order, and nothing else.
//! - I4 **Torn tail or damage** (never a guess): a record that is not intact is damage iff a later
//!   intact one has `synced_upto` above it; otherwise the log is cut there, the rest erased, and
//!   synced.
//! - I5 **Recovery repeats.** Cutting, erasing and removing only remove records that I4 gave up,
//!   last segment first, so a recovery that is interrupted finds the same log the next time.
//! - I6 **Accepted is durable.** Recovery writes the last batch that it accepts once more and syncs
//!   it: a process that died of a failed sync leaves pages that look clean and are not on disk.
//! - I7 **Segments are contiguous.** They are named in order, each name durable before a record
//!   stands behind it, and given back oldest first, each removal of a name synced; a gap is damage.
//! - I8 **A segment is independent.** Its first record repeats the end of the log and the metadata,
//!   so that older segments can be given back, but only when that record is durable.
//! - I9 **Full is early and harmless.** Space is taken by allocating the next segment while there
//!   is room in this one; a full disk is detected only there. A batch that needs a segment that
//!   could not be made changes nothing and can be written again. So it is with a process that has
//!   no descriptor left for the next segment. This holds where a file system overwrites in place:
//!   one that copies on write needs room for the batch too, and a batch that finds none is an error
//!   like any other.
//! - I10 **Space is given back in order.** A segment is given back only when everything requested
//!   before its entries were freed is durable. Its user's metadata names the slot from which it
//!   needs the log: with a segment gone and that metadata lost, the rest would be unusable.

mod flushes;
mod front;
mod index;
pub mod record;
mod recovery;
pub mod segment;
#[cfg(test)]
mod tests;
mod writer;

pub use flushes::Flush;
pub use front::{Batch, EntryHead, Log};
pub use record::Position;
pub use recovery::{Opened, Torn, open};
pub(crate) use recovery::{Survey, begin, exists, survey};
pub use writer::{Prepared, Writer};

use base::Slot;
use std::io;

/// Longest segment, in bytes: recovery reads one at a time into memory.
const SEGMENT_MAX: u32 = 1 << 30;

/// Longest metadata, in bytes.
pub const META_MAX: usize = 4096;

/// Sizes of a log. They may differ from one opening to the next.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of a segment: a multiple of `align`, at least [`Options::SEGMENT_MIN`].
    pub segment_bytes: u32,
    /// The unit to which the beginning of each batch is rounded up: a power of two from the sector
    /// size to 4096. At 512 a single small record costs an eighth of the space, and the same time.
    pub align: u32,
    /// The bytes of durable batches that are kept in memory for reading.
    pub cache_bytes: usize,
    /// The most bytes that may wait to become durable; more are refused.
    pub unsynced_bytes: usize,
}

impl Options {
    /// The smallest segment: room for a first block, a first record and a little more.
    pub const SEGMENT_MIN: u32 = 32 * 1024;

    /// The longest payload of an entry.
    pub fn payload_max(&self) -> usize {
        let first = segment::FIRST_BLOCK as usize + record::size(META_MAX) + record::HEADER;
        self.segment_bytes as usize - first - 2 * self.align as usize
    }

    fn check(&self) -> Result<(), String> {
        let is_sound = self.align.is_power_of_two()
            && (crate::media::SECTOR as u32..=segment::FIRST_BLOCK).contains(&self.align)
            && self.segment_bytes.is_multiple_of(self.align)
            && self.segment_bytes >= Self::SEGMENT_MIN
            && self.segment_bytes <= SEGMENT_MAX
            && self.unsynced_bytes >= self.segment_bytes as usize;
        if is_sound { Ok(()) } else { Err(format!("sizes that do not fit together: {self:?}")) }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            segment_bytes: 16 << 20,
            align: 512,
            cache_bytes: 8 << 20,
            unsynced_bytes: 64 << 20,
        }
    }
}

/// The reason why an entry was not appended; nothing changed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The payload is longer than [`Options::payload_max`].
    #[error("an entry of {bytes} bytes does not fit into a segment of the log (at most {max})")]
    TooLong {
        /// The length.
        bytes: usize,
        /// The longest length.
        max: usize,
    },
    /// [`Options::unsynced_bytes`] bytes are waiting: the disk is slower than its user.
    #[error("{bytes} bytes wait to become durable already: wait for the disk")]
    Backlog {
        /// The waiting bytes.
        bytes: usize,
    },
}

/// The reason why a batch was not made durable.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// There is no space for the next segment. Nothing changed: the same batch can be written
    /// again.
    #[error("{place} is full ({error}): free space there, and writing continues by itself")]
    Full {
        /// The directory.
        place: String,
        /// The disk's error.
        error: io::Error,
    },
    /// No descriptor is left for the next segment. Nothing changed, as above.
    #[error(
        "no file can be opened in {place} ({error}): raise the limit of open files, or close some, \
         and writing continues by itself"
    )]
    NoDescriptor {
        /// The directory.
        place: String,
        /// The system's error.
        error: io::Error,
    },
    /// What is durable is unknown (a failed sync cannot be repeated): stop the process.
    #[error("{what} in {place}: {error}; the process must stop, and recovers when it starts again")]
    Fatal {
        /// The operation.
        what: String,
        /// The directory.
        place: String,
        /// The disk's error.
        error: io::Error,
    },
}

impl WriteError {
    /// Whether nothing changed, and the same call can be made again.
    pub fn passes(&self) -> bool {
        match self {
            WriteError::Full { .. } | WriteError::NoDescriptor { .. } => true,
            WriteError::Fatal { .. } => false,
        }
    }
}

/// The reason why an entry cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Its bytes are not intact.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// The system does not give its bytes, which may be intact.
    #[error(
        "reading {file} in {place}: {error}; nothing says that the log is damaged. The process \
         must stop, and reads its log again when it starts (too many open files: raise the limit)"
    )]
    Io {
        /// The file.
        file: String,
        /// The directory.
        place: String,
        /// The system's error.
        error: io::Error,
    },
}

/// Records that are damaged by I4.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{place}/{file} is damaged at byte {offset}, where the record before slot {} begins or ends: \
     {why}. Later records say that it was durable, so it is not a torn end, and nothing is cut. \
     Replace this member (an older copy of its directory must not be put back)",
    slot.0
)]
pub struct Damage {
    /// The directory.
    pub place: String,
    /// The file in it.
    pub file: String,
    /// The byte in the file.
    pub offset: u64,
    /// The slot that the log had reached there.
    pub slot: Slot,
    /// The damage.
    pub why: String,
}

/// The reason why a log cannot be opened; [`OpenError::Damaged`] changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Durable bytes are not intact.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// The disk failed.
    #[error("{what} in {place}: {error}")]
    Io {
        /// The operation.
        what: String,
        /// The directory.
        place: String,
        /// The disk's error.
        error: io::Error,
    },
    /// The caller's sizes are invalid.
    #[error("{0}")]
    Options(String),
}
