//! Entries: what the log says about the connections of clients.
//!
//! ```text
//! tag u8, owner u8, run u64, then by kind:
//!   Begin      (nothing)
//!   Open       number u64
//!   Input      number u64, index u64, the client's bytes
//!   HalfClose  number u64, index u64
//!   Close      number u64, index u64
//!   Abort      number u64
//!   Gone       below u64
//!   Left       (nothing)
//!   Hash       at u64, value u64
//!   Piece      at u64, offset u64, length of all u64, a part of a checkpoint
//!   Halt       closes u64
//!   Compare    (nothing)
//! ```
//! Integers are little-endian.

use base::{Incarnation, Rank};
use thiserror::Error;

/// The bytes of an entry before those of a client.
pub const HEADER_BYTES: usize = 26;
/// The bytes of an entry before those of a checkpoint.
pub const PIECE_HEADER_BYTES: usize = 34;

/// A connection of a client to one process of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    /// The member to which the client connected.
    pub owner: Rank,
    /// The process of that member; later processes have higher numbers.
    pub run: Incarnation,
    /// The connection's number among those of the process, from 1.
    pub number: u64,
}

/// One event in the order of all connections, or a member's word about its copy.
///
/// `index` counts a connection's entries from 1; [`Entry::Open`] is before the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// A process of a member begins. The connections of its earlier processes have ended.
    Begin {
        /// The member.
        owner: Rank,
        /// Its process.
        run: Incarnation,
    },
    /// A client has connected.
    Open {
        /// Its connection.
        id: ConnectionId,
    },
    /// A client has sent bytes.
    Input {
        /// Its connection.
        id: ConnectionId,
        /// The entry's index in the connection.
        index: u64,
        /// The bytes, at least one.
        bytes: &'a [u8],
    },
    /// A client has ended its input, and may read on.
    HalfClose {
        /// Its connection.
        id: ConnectionId,
        /// The entry's index in the connection.
        index: u64,
    },
    /// The connection has ended, after everything before this index.
    Close {
        /// The connection.
        id: ConnectionId,
        /// The entry's index in the connection.
        index: u64,
    },
    /// The connection has ended, whatever was executed of it. Its other entries change nothing
    /// from here on, its opening included.
    Abort {
        /// The connection.
        id: ConnectionId,
    },
    /// The process is dead, as far as the leader knows: its open connections with lower numbers
    /// have ended.
    Gone {
        /// The member.
        owner: Rank,
        /// Its process.
        run: Incarnation,
        /// The bound of the numbers.
        below: u64,
    },
    /// The member was removed from the cluster: its open connections have ended, nothing of the
    /// process is executed from here on, and its copy is compared no more (`verdict`, V7). A later
    /// process of the member is that of one that was added again.
    Left {
        /// The member.
        owner: Rank,
        /// Its latest process; 0 if none has begun.
        run: Incarnation,
    },
    /// A copy is to be saved here, without a connection: all that are open have ended, and a point
    /// lies behind this entry (`checkpoint`, K6).
    Halt {
        /// The member that says so.
        owner: Rank,
        /// Its process.
        run: Incarnation,
        /// Whether connections are closed for it. Else the entry counts where none is open.
        closes: bool,
    },
    /// What copies have sent since the last point is to be compared: a point lies behind this entry
    /// (`held`, O6). It changes nothing.
    Compare {
        /// The member that says so.
        owner: Rank,
        /// Its process.
        run: Incarnation,
    },
    /// The hash of what a member's copy has answered (`verdict`). No copy is fed with it.
    Hash {
        /// The member.
        owner: Rank,
        /// Its process.
        run: Incarnation,
        /// The point: the number of entries of connections up to it.
        at: u64,
        /// The hash.
        value: u64,
    },
    /// A part of a checkpoint (`checkpoint`). No copy is fed with it.
    Piece {
        /// The member that has saved.
        owner: Rank,
        /// Its process.
        run: Incarnation,
        /// The checkpoint's point.
        at: u64,
        /// The bytes before it.
        offset: u64,
        /// The bytes of all pieces; 0 to give up.
        len: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
}

/// The error of bytes that are no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("bytes that are no entry of a connection")]
pub struct EntryError;

const BEGIN: u8 = 1;
const OPEN: u8 = 2;
const INPUT: u8 = 3;
const HALF_CLOSE: u8 = 4;
const CLOSE: u8 = 5;
const ABORT: u8 = 6;
const GONE: u8 = 7;
const HASH: u8 = 8;
const PIECE: u8 = 9;
const LEFT: u8 = 10;
const HALT: u8 = 11;
const COMPARE: u8 = 12;

impl<'a> Entry<'a> {
    /// The connection that the entry is about, if it is about one.
    pub fn connection(&self) -> Option<ConnectionId> {
        match *self {
            Entry::Begin { .. }
            | Entry::Gone { .. }
            | Entry::Left { .. }
            | Entry::Halt { .. }
            | Entry::Compare { .. }
            | Entry::Hash { .. }
            | Entry::Piece { .. } => None,
            Entry::Open { id }
            | Entry::Input { id, .. }
            | Entry::HalfClose { id, .. }
            | Entry::Close { id, .. }
            | Entry::Abort { id } => Some(id),
        }
    }

    /// Whether it is about connections: only then a copy is fed with it, and it counts for the
    /// places of points.
    pub fn is_input(&self) -> bool {
        !matches!(self, Entry::Hash { .. } | Entry::Piece { .. })
    }

    /// The process that the entry is about.
    pub fn process(&self) -> (Rank, Incarnation) {
        match *self {
            Entry::Begin { owner, run }
            | Entry::Gone { owner, run, .. }
            | Entry::Left { owner, run }
            | Entry::Halt { owner, run, .. }
            | Entry::Compare { owner, run }
            | Entry::Hash { owner, run, .. }
            | Entry::Piece { owner, run, .. } => (owner, run),
            Entry::Open { id }
            | Entry::Input { id, .. }
            | Entry::HalfClose { id, .. }
            | Entry::Close { id, .. }
            | Entry::Abort { id } => (id.owner, id.run),
        }
    }

    /// Appends the entry's bytes to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let (owner, run) = self.process();
        let (tag, words, bytes): (u8, &[u64], &[u8]) = match *self {
            Entry::Begin { .. } => (BEGIN, &[], &[]),
            Entry::Open { id } => (OPEN, &[id.number], &[]),
            Entry::Input { id, index, bytes } => (INPUT, &[id.number, index], bytes),
            Entry::HalfClose { id, index } => (HALF_CLOSE, &[id.number, index], &[]),
            Entry::Close { id, index } => (CLOSE, &[id.number, index], &[]),
            Entry::Abort { id } => (ABORT, &[id.number], &[]),
            Entry::Gone { below, .. } => (GONE, &[below], &[]),
            Entry::Left { .. } => (LEFT, &[], &[]),
            Entry::Halt { closes, .. } => (HALT, &[u64::from(closes)], &[]),
            Entry::Compare { .. } => (COMPARE, &[], &[]),
            Entry::Hash { at, value, .. } => (HASH, &[at, value], &[]),
            Entry::Piece { at, offset, len, bytes, .. } => (PIECE, &[at, offset, len], bytes),
        };
        out.extend_from_slice(&[tag, owner.index() as u8]);
        out.extend_from_slice(&run.0.to_le_bytes());
        words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        out.extend_from_slice(bytes);
    }

    /// The entry that `bytes` are, as [`Entry::write`] made them.
    ///
    /// # Errors
    /// The bytes are no entry.
    pub fn parse(bytes: &'a [u8]) -> Result<Entry<'a>, EntryError> {
        let (&tag, rest) = bytes.split_first().ok_or(EntryError)?;
        let (&owner, mut rest) = rest.split_first().ok_or(EntryError)?;
        let owner = Rank::new(owner.into()).ok_or(EntryError)?;
        let run = Incarnation(word(&mut rest)?);
        let connection = |rest: &mut &'a [u8]| {
            let number = word(rest)?;
            Ok(ConnectionId { owner, run, number })
        };
        let entry = match tag {
            BEGIN => Entry::Begin { owner, run },
            OPEN => Entry::Open { id: connection(&mut rest)? },
            INPUT => {
                let (id, index) = (connection(&mut rest)?, word(&mut rest)?);
                let bytes = std::mem::take(&mut rest);
                if bytes.is_empty() {
                    return Err(EntryError);
                }
                Entry::Input { id, index, bytes }
            }
            HALF_CLOSE => Entry::HalfClose { id: connection(&mut rest)?, index: word(&mut rest)? },
            CLOSE => Entry::Close { id: connection(&mut rest)?, index: word(&mut rest)? },
            ABORT => Entry::Abort { id: connection(&mut rest)? },
            GONE => Entry::Gone { owner, run, below: word(&mut rest)? },
            LEFT => Entry::Left { owner, run },
            COMPARE => Entry::Compare { owner, run },
            HALT => match word(&mut rest)? {
                closes @ (0 | 1) => Entry::Halt { owner, run, closes: closes > 0 },
                _ => return Err(EntryError),
            },
            HASH => Entry::Hash { owner, run, at: word(&mut rest)?, value: word(&mut rest)? },
            PIECE => {
                let (at, offset) = (word(&mut rest)?, word(&mut rest)?);
                let len = word(&mut rest)?;
                Entry::Piece { owner, run, at, offset, len, bytes: std::mem::take(&mut rest) }
            }
            _ => return Err(EntryError),
        };
        if rest.is_empty() { Ok(entry) } else { Err(EntryError) }
    }
}

fn word(rest: &mut &[u8]) -> Result<u64, EntryError> {
    let (word, left) = rest.split_first_chunk().ok_or(EntryError)?;
    *rest = left;
    Ok(u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_entry() -> impl Strategy<Value = (u8, usize, u64, u64, u64, Vec<u8>)> {
        let bytes = prop::collection::vec(any::<u8>(), 1..40);
        (0u8..11, 0usize..base::MAX_MEMBERS, any::<u64>(), any::<u64>(), any::<u64>(), bytes)
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_and_nothing_shorter_is(
            (kind, owner, run, number, index, bytes) in any_entry(),
        ) {
            let (owner, run) = (Rank::at(owner), Incarnation(run));
            let id = ConnectionId { owner, run, number };
            let entry = match kind {
                0 => Entry::Begin { owner, run },
                1 => Entry::Open { id },
                2 => Entry::Input { id, index, bytes: &bytes },
                3 => Entry::HalfClose { id, index },
                4 => Entry::Close { id, index },
                5 => Entry::Abort { id },
                6 => Entry::Gone { owner, run, below: number },
                7 => Entry::Hash { owner, run, at: number, value: index },
                9 => Entry::Left { owner, run },
                10 => Entry::Halt { owner, run, closes: index.is_multiple_of(2) },
                _ => Entry::Piece {
                    owner,
                    run,
                    at: number,
                    offset: index,
                    len: 7,
                    bytes: &bytes,
                },
            };
            let mut written = Vec::new();
            entry.write(&mut written);
            prop_assert_eq!(Entry::parse(&written), Ok(entry));
            let header = match entry {
                Entry::Piece { .. } => PIECE_HEADER_BYTES,
                _ => written.len().min(HEADER_BYTES),
            };
            for n in 0..header {
                prop_assert_eq!(Entry::parse(&written[..n]), Err(EntryError));
            }
            if kind != 2 && kind != 8 {
                written.push(0);
                prop_assert_eq!(Entry::parse(&written), Err(EntryError));
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(entry) = Entry::parse(&bytes) {
                let mut written = Vec::new();
                entry.write(&mut written);
                prop_assert_eq!(written, bytes);
            }
        }
    }
}
