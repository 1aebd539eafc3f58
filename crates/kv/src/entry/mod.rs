//! Entries: the bytes of one value of the log.
//!
//! A value is a *batch*: the leader's time stamp and the commands that arrived while the previous
//! value was under way. A command travels as opaque bytes ([`command`]), which a follower encodes
//! and a leader only copies; the batch adds its origin and sequence, so that the state machine can
//! execute it once although it may be decided twice.
//!
//! ```text
//! batch     = format (1) | stamp, Unix ms (8, little endian) | frame*
//! frame     = tag (1) | identity, unless tag has SAME | place, if tag has FRAGMENT
//!             | length (varint) | bytes
//! identity  = rank (1) | incarnation (8) | sequence (8), little endian
//! place     = offset (varint) | total (varint)
//! ```
//! SAME: the origin of the previous frame and its sequence plus one. A batch without frames is a
//! *tick*: it only advances time. An empty value has no origin: a new leader fills slots with it.
//!
//! A command that is longer than one value is cut into **fragments** over consecutive values. A
//! fragment names its place by byte offset rather than by number: the bytes of (origin, sequence)
//! are the same whichever member proposes them, so fragments that two leaders cut at different
//! places can never be joined wrongly.
//!
//! - I1 reading any bytes gives frames or an error, never a panic, and a frame's bytes lie inside
//!   the batch. Property test `i1_any_bytes_are_read_or_refused`.
//! - I2 what a writer wrote, a reader reads. Property test `i2_what_was_written_is_read`.
//! - I3 a batch never grows beyond the bytes that its writer was given. Asserted in
//!   [`BatchWriter::append`].
//! - I4 the fragments of a command are the last frame of a batch, the only frame of the next ones,
//!   and the first of the last. By [`BatchWriter::append`]: while a fragment is pending no other
//!   command is accepted.

mod batch;
pub mod command;
mod session;
pub(crate) mod varint;

pub use batch::{Appended, Batch, BatchWriter, Frame, Frames, Place};
pub use command::{Command, CommandError};
pub use session::{CALL_HEAD_BYTES_MAX, SessionCommand};

use base::{Incarnation, Rank};

/// The format of batches that is written. Version 2 has the commands of client sessions, version 3
/// databases and scripts. A replica of an earlier version would take those for malformed or unknown
/// commands and so diverge. Version 4 removes more keys that have expired, and counts more work as
/// steps: a replica of an earlier version would execute the same bytes otherwise.
///
/// Members of other formats refuse each other. So a change of what a command does to the state, or
/// of what a member keeps of its answer, takes a new number.
pub const FORMAT: u8 = 4;

/// The first format of whose batches the number of changes decides how many expired keys are
/// removed.
const FORMAT_OF_REMOVALS: u8 = 4;

/// The oldest format that is read: its batches are also batches of the current format.
pub const FORMAT_MIN: u8 = 1;

/// The bytes of format and stamp.
pub const BATCH_HEADER_BYTES: usize = 9;

/// The longest command, in its encoded form. An encoded request is never longer than the request
/// was on the wire, so the log accepts whatever the parser accepts.
pub const COMMAND_BYTES_MAX: usize = crate::resp::REQUEST_BYTES_MAX;

/// The least bytes of a command for which a frame is made: fewer wait for the next batch.
pub const FRAGMENT_BYTES_MIN: usize = 256;

/// The smallest limit that a batch can be given.
pub const BATCH_BYTES_MIN: usize = BATCH_HEADER_BYTES + 64;

/// The origin of a command: a member, in one life of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// The member to which a client sent the command.
    pub rank: Rank,
    /// The life of that member's process; lives rise.
    pub incarnation: Incarnation,
}

/// A command's number among those of its origin, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

/// The reason why bytes are not a batch. The proposer is at fault; no part of the batch is
/// executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// The bytes end inside a header or a frame.
    #[error("a batch ends inside the header or frame at byte {at}")]
    Truncated {
        /// The offset at which it begins.
        at: usize,
    },
    /// Another version's batch.
    #[error("a batch of format {found}, where {FORMAT_MIN} to {FORMAT} are known: upgrade first")]
    Format {
        /// The format byte.
        found: u8,
    },
    /// Bits that no frame has.
    #[error("a frame with the unknown tag {found:#04x}")]
    Tag {
        /// The tag byte.
        found: u8,
    },
    /// The first frame refers to a frame before it, or the sequence has no successor.
    #[error("a frame continues where there is nothing to continue")]
    NothingBefore,
    /// The rank exceeds those of members.
    #[error("a frame of rank {found}, which no member has")]
    Rank {
        /// The rank byte.
        found: u8,
    },
    /// Sequences begin at 1.
    #[error("a frame with the sequence 0")]
    SequenceZero,
    /// A command that no door admits to the log, or a fragment outside of its command.
    #[error("a frame with bytes {offset}..{end} of a command of {total}")]
    Length {
        /// The place in the command at which the frame's bytes begin.
        offset: u64,
        /// The place at which they end.
        end: u64,
        /// The length of the command that the frame claims.
        total: u64,
    },
}

#[cfg(test)]
mod tests;
