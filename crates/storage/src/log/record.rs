//! One record of the log, as bytes.
//!
//! ```text
//!  0  u32  CRC32C of bytes 4..total, continued from the log's salt
//!  4  [3]  "GRC"                            7  u8   kind
//!  8  u32  total: bytes with header and padding, a multiple of 8
//! 12  u32  payload: bytes of payload
//! 16  u64  position: segment << 32 | offset in its file
//! 24  u64  synced_upto: everything at positions below was durable when this was written
//! 32  u64  link: XXH3 of the record before (which holds the link before it)
//! 40  u64  slot      48  u64  ballot      56  u64  view
//! 64  payload, then zeros up to `total`
//! ```
//!
//! All numbers are little-endian. Because of the salt, bytes that a client chose are not a record
//! of this log; because of the position, a record of an earlier use of a recycled file is not one
//! either.

use base::{Ballot, Slot};
use std::fmt;
use xxhash_rust::xxh3::xxh3_64;

/// The number of bytes before the payload.
pub const HEADER: usize = 64;
const MAGIC: &[u8; 3] = b"GRC";

/// A place in the log: later is greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(u64);

impl Position {
    /// Byte `offset` of segment `segment`.
    pub const fn new(segment: u32, offset: u32) -> Position {
        Position((segment as u64) << 32 | offset as u64)
    }

    /// The position's segment.
    pub const fn segment(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The offset in that segment's file.
    pub const fn offset(self) -> u32 {
        self.0 as u32
    }

    /// The position `bytes` later in the same segment.
    pub(crate) const fn plus(self, bytes: u32) -> Position {
        Position::new(self.segment(), self.offset() + bytes)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.segment(), self.offset())
    }
}

impl fmt::Debug for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The first of each segment: `slot` is the log's end there, the payload the metadata in force.
    Begin = 1,
    /// The entry of a slot.
    Entry = 2,
    /// Entries at `slot` and above are removed.
    Cut = 3,
    /// The payload replaces the metadata.
    Meta = 4,
    /// All entries are removed, and the next one is for `slot` (a snapshot covers those below).
    Skip = 5,
    /// The last of each full segment.
    Seal = 6,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        [Kind::Begin, Kind::Entry, Kind::Cut, Kind::Meta, Kind::Skip, Kind::Seal]
            .into_iter()
            .find(|&kind| kind as u8 == byte)
    }
}

/// A record without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The kind.
    pub kind: Kind,
    /// The number of bytes with header and padding.
    pub total: u32,
    /// The number of bytes of payload.
    pub payload: u32,
    /// The position.
    pub position: Position,
    /// The position below which everything was durable when this was written.
    pub synced_upto: Position,
    /// The hash of the previous record.
    pub link: u64,
    /// The slot; see [`Kind`].
    pub slot: Slot,
    /// The ballot of an entry.
    pub ballot: Ballot,
    /// The view of an entry.
    pub view: u64,
}

/// The bytes that a record with `payload` bytes takes, before the padding of its batch.
pub(crate) const fn size(payload: usize) -> usize {
    HEADER + payload.next_multiple_of(8)
}

impl Head {
    /// Appends header and payload to `out`. The record counts only after [`seal`].
    pub(crate) fn put(&self, payload: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(MAGIC);
        out.push(self.kind as u8);
        out.extend_from_slice(&self.total.to_le_bytes());
        out.extend_from_slice(&self.payload.to_le_bytes());
        for word in
            [self.position.0, self.synced_upto.0, self.link, self.slot.0, self.ballot.0, self.view]
        {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(payload);
        out.resize(start + self.total as usize, 0);
    }

    /// The header with which `bytes` begin, if they can be one; only its shape is checked.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Head> {
        let header = bytes.first_chunk::<HEADER>()?;
        let u32_at = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| header[at + n]));
        let u64_at =
            |at: usize| u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|n| header[at + n]));
        let head = Head {
            kind: Kind::of(header[7])?,
            total: u32_at(8),
            payload: u32_at(12),
            position: Position(u64_at(16)),
            synced_upto: Position(u64_at(24)),
            link: u64_at(32),
            slot: Slot(u64_at(40)),
            ballot: Ballot(u64_at(48)),
            view: u64_at(56),
        };
        let is_shaped = header[4..7] == *MAGIC
            && head.total.is_multiple_of(8)
            && head.total as usize >= HEADER
            && head.payload as usize <= head.total as usize - HEADER;
        is_shaped.then_some(head)
    }
}

/// Writes the checksum of the whole record in `bytes`, lengthened to `bytes.len()`.
pub(crate) fn seal(bytes: &mut [u8], salt: u32) {
    let total = bytes.len() as u32;
    bytes[8..12].copy_from_slice(&total.to_le_bytes());
    let crc = crc32c::crc32c_append(salt, &bytes[4..]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
}

/// The link that the next record holds.
pub(crate) fn link(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// The reason why bytes are not the record that should be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// There is no header.
    NoRecord,
    /// The header belongs to another place: an earlier use of the file.
    Elsewhere,
    /// The record is longer than the file.
    TooLong,
    /// The checksum is wrong.
    Checksum,
    /// The record is whole but does not follow the previous one.
    Link,
    /// The record is whole but invalid here (a Begin in the middle, a gap in the slots).
    Order,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Flaw::NoRecord => "there is no record header",
            Flaw::Elsewhere => "the record there belongs to another place",
            Flaw::TooLong => "the record is longer than its file",
            Flaw::Checksum => "the checksum does not match",
            Flaw::Link => "the record does not follow the one before it",
            Flaw::Order => "the record makes no sense after the one before it",
        })
    }
}

/// The record at `position` of a segment whose file is `file`: its head and all its bytes.
pub(crate) fn verify(file: &[u8], position: Position, salt: u32) -> Result<(Head, &[u8]), Flaw> {
    let bytes = file.get(position.offset() as usize..).ok_or(Flaw::TooLong)?;
    let head = verify_alone(bytes, position, salt)?;
    Ok((head, &bytes[..head.total as usize]))
}

/// Verifies a record at the beginning of `bytes`.
pub(crate) fn verify_alone(bytes: &[u8], position: Position, salt: u32) -> Result<Head, Flaw> {
    let head = Head::parse(bytes).ok_or(Flaw::NoRecord)?;
    if head.position != position {
        return Err(Flaw::Elsewhere);
    }
    let bytes = bytes.get(..head.total as usize).ok_or(Flaw::TooLong)?;
    let stored = bytes.first_chunk::<4>().ok_or(Flaw::TooLong)?;
    if crc32c::crc32c_append(salt, &bytes[4..]) != u32::from_le_bytes(*stored) {
        return Err(Flaw::Checksum);
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    fn sample() -> (Head, Vec<u8>) {
        let head = Head {
            kind: Kind::Entry,
            total: size(5) as u32,
            payload: 5,
            position: Position::new(3, 4096),
            synced_upto: Position::new(2, 8192),
            link: 0x1122_3344_5566_7788,
            slot: Slot(7),
            ballot: Ballot(9),
            view: 2,
        };
        let mut bytes = vec![0; 4096];
        let mut record = Vec::new();
        head.put(b"hello", &mut record);
        seal(&mut record, 42);
        bytes.extend_from_slice(&record);
        (head, bytes)
    }

    #[test]
    fn what_is_put_is_verified_and_every_flipped_bit_is_seen() {
        let (head, mut bytes) = sample();
        let at = head.position;
        let (found, record) = verify(&bytes, at, 42).unwrap();
        assert_eq!((found, &record[HEADER..HEADER + 5]), (head, &b"hello"[..]));
        for bit in 4096 * 8..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(verify(&bytes, at, 42).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(verify(&bytes, at, 43).unwrap_err(), Flaw::Checksum);
        assert_eq!(verify(&bytes, Position::new(4, 4096), 42).unwrap_err(), Flaw::Elsewhere);
    }

    #[test]
    fn any_bytes_are_refused_without_a_panic() {
        let mut rng = Rng::new(1);
        for _ in 0..20_000 {
            let (_, mut bytes) = sample();
            for _ in 0..rng.range(1, 8) {
                let at = rng.range(4096, bytes.len() as u64 - 1) as usize;
                bytes[at] = rng.next_u64() as u8;
            }
            bytes.truncate(rng.range(4000, bytes.len() as u64) as usize);
            // Either outcome is possible where the drawn bytes equal the old ones.
            let _ = verify(&bytes, Position::new(3, 4096), 42);
        }
    }
}
