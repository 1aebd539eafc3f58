//! Batches: written by a leader, read by every member.

use base::{Incarnation, Rank};

use crate::store::EXPIRY_TICK_MAX;

use super::varint::{self, put, take, take_bytes};
use super::{
    BATCH_BYTES_MIN, BATCH_HEADER_BYTES, COMMAND_BYTES_MAX, EntryError, FORMAT, FORMAT_MIN,
    FORMAT_OF_REMOVALS, FRAGMENT_BYTES_MIN, Origin, Sequence,
};

/// The bit of a frame that has the origin of the previous frame and the next sequence.
const SAME: u8 = 1;
/// The bit of a frame that holds a fragment of a command.
const FRAGMENT: u8 = 2;

const IDENTITY_BYTES: usize = 17;

/// The part of a command that fitted into a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// The whole command, or its last fragment.
    Whole,
    /// A fragment: append the same command to the next batch, before anything else.
    Part,
    /// Nothing: the batch is full.
    Full,
}

/// Writes batches into the caller's buffers.
#[derive(Clone, Debug, Default)]
pub struct BatchWriter {
    /// The offset in the buffer at which the batch begins.
    start: usize,
    /// The identity of the last frame of this batch.
    last: Option<(Origin, Sequence)>,
    /// The command of which a fragment is written.
    part: Option<Part>,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    origin: Origin,
    sequence: Sequence,
    /// The number of its bytes that are written.
    offset: usize,
}

impl BatchWriter {
    /// A writer that has written nothing.
    pub fn new() -> BatchWriter {
        BatchWriter::default()
    }

    /// Begins a batch at the end of `out`, stamped with `stamp_ms`.
    pub fn begin(&mut self, stamp_ms: u64, out: &mut Vec<u8>) {
        self.start = out.len();
        self.last = None;
        out.push(FORMAT);
        out.extend_from_slice(&stamp_ms.to_le_bytes());
    }

    /// Appends a command to the batch at the end of `out`; `out` may grow to `bytes_max` (I3).
    ///
    /// # Panics
    /// If another command is pending in fragments (I4), or `bytes_max` leaves a batch less than
    /// [`BATCH_BYTES_MIN`].
    pub fn append(
        &mut self,
        origin: Origin,
        sequence: Sequence,
        command: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Appended {
        assert!(bytes_max >= self.start + BATCH_BYTES_MIN, "a batch needs room");
        // Our own door refuses a longer command. From another member it would be a bug of that
        // member: the command is executed as malformed, and its origin gets an answer.
        let command = if command.len() > COMMAND_BYTES_MAX { &[] } else { command };
        let appended = match self.part {
            Some(part) => {
                assert!((part.origin, part.sequence) == (origin, sequence), "I4");
                self.append_part(origin, sequence, command, part.offset, bytes_max, out)
            }
            None => self.append_first(origin, sequence, command, bytes_max, out),
        };
        assert!(out.len() <= bytes_max, "I3");
        appended
    }

    fn append_first(
        &mut self,
        origin: Origin,
        sequence: Sequence,
        command: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Appended {
        let same = self.is_next(origin, sequence);
        let identity = if same { 0 } else { IDENTITY_BYTES };
        let body = varint::len(command.len() as u64) + command.len();
        if out.len() + 1 + identity + body <= bytes_max {
            self.put_frame_head(origin, sequence, 0, out);
            varint::put_counted(command, out);
            return Appended::Whole;
        }
        let is_empty = self.last.is_none();
        let fits_alone = self.start + BATCH_HEADER_BYTES + 1 + IDENTITY_BYTES + body <= bytes_max;
        let room = fragment_room(out.len(), bytes_max);
        if !is_empty && (fits_alone || room < FRAGMENT_BYTES_MIN) {
            return Appended::Full;
        }
        self.append_part(origin, sequence, command, 0, bytes_max, out)
    }

    /// Appends as much of `command` from `offset` on as fits.
    fn append_part(
        &mut self,
        origin: Origin,
        sequence: Sequence,
        command: &[u8],
        offset: usize,
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Appended {
        let rest = &command[offset..];
        let piece = &rest[..rest.len().min(fragment_room(out.len(), bytes_max))];
        if piece.is_empty() {
            // The same batch again, which the command's first fragment has filled.
            return Appended::Full;
        }
        self.put_frame_head(origin, sequence, FRAGMENT, out);
        put(offset as u64, out);
        put(command.len() as u64, out);
        varint::put_counted(piece, out);
        let offset = offset + piece.len();
        if offset == command.len() {
            self.part = None;
            Appended::Whole
        } else {
            self.part = Some(Part { origin, sequence, offset });
            Appended::Part
        }
    }

    /// Forgets the command in fragments: its rest will not be proposed.
    pub fn abandon(&mut self) {
        self.part = None;
    }

    fn is_next(&self, origin: Origin, sequence: Sequence) -> bool {
        self.last.is_some_and(|(last, number)| {
            last == origin && number.0.checked_add(1) == Some(sequence.0)
        })
    }

    fn put_frame_head(&mut self, origin: Origin, sequence: Sequence, tag: u8, out: &mut Vec<u8>) {
        if self.is_next(origin, sequence) {
            out.push(tag | SAME);
        } else {
            out.push(tag);
            out.push(origin.rank.index() as u8);
            out.extend_from_slice(&origin.incarnation.0.to_le_bytes());
            out.extend_from_slice(&sequence.0.to_le_bytes());
        }
        self.last = Some((origin, sequence));
    }
}

/// The number of bytes of a command that a fragment can hold at least, in a batch of `len` bytes.
fn fragment_room(len: usize, bytes_max: usize) -> usize {
    const NUMBER_BYTES: usize = 3;
    const _: () = assert!(COMMAND_BYTES_MAX < 1 << (7 * NUMBER_BYTES));
    bytes_max.saturating_sub(len + 1 + IDENTITY_BYTES + 3 * NUMBER_BYTES)
}

/// A batch whose frames have all been checked.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The leader's clock when it built the batch, Unix milliseconds.
    pub stamp_ms: u64,
    format: u8,
    frames: &'a [u8],
}

impl<'a> Batch<'a> {
    /// Checks the bytes of a batch.
    ///
    /// # Errors
    /// The bytes are not a batch.
    pub fn check(bytes: &'a [u8]) -> Result<Batch<'a>, EntryError> {
        let (&format, rest) = bytes.split_first().ok_or(EntryError::Truncated { at: 0 })?;
        if !(FORMAT_MIN..=FORMAT).contains(&format) {
            return Err(EntryError::Format { found: format });
        }
        let (stamp, rest) = rest.split_first_chunk().ok_or(EntryError::Truncated { at: 1 })?;
        let batch = Batch { stamp_ms: u64::from_le_bytes(*stamp), format, frames: rest };
        let mut frames = batch.frames();
        while frames.step()?.is_some() {}
        Ok(batch)
    }

    /// The most expired keys that are removed behind the frames, which have made `n_changes`
    /// changes. A key that expires takes a change at least, so more are removed than come. A batch
    /// without frames has all its time for them.
    pub(crate) fn removals(&self, n_changes: u64) -> u64 {
        match self.frames {
            _ if self.format < FORMAT_OF_REMOVALS => 0,
            [] => EXPIRY_TICK_MAX,
            _ => n_changes.saturating_mul(2),
        }
    }

    /// The frames, in order.
    pub fn frames(&self) -> Frames<'a> {
        Frames { len: self.frames.len(), rest: self.frames, last: None }
    }
}

/// A command, or a fragment of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The member and life of the command.
    pub origin: Origin,
    /// The command's sequence.
    pub sequence: Sequence,
    /// The place of `bytes` in a command in fragments; `None` if they are the whole command.
    pub place: Option<Place>,
    /// The bytes of the command or fragment.
    pub bytes: &'a [u8],
}

/// The place of a fragment in its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of bytes of the command before it.
    pub offset: usize,
    /// The number of bytes of the command, at most [`COMMAND_BYTES_MAX`].
    pub total: usize,
}

/// The frames of a batch.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    /// The bytes of all frames, which give the offset of an error.
    len: usize,
    rest: &'a [u8],
    last: Option<(Origin, Sequence)>,
}

impl<'a> Frames<'a> {
    #[inline]
    fn step(&mut self) -> Result<Option<Frame<'a>>, EntryError> {
        let Some((&tag, rest)) = self.rest.split_first() else { return Ok(None) };
        let at = BATCH_HEADER_BYTES + self.len - self.rest.len();
        let truncated = EntryError::Truncated { at };
        self.rest = rest;
        if tag & !(SAME | FRAGMENT) != 0 {
            return Err(EntryError::Tag { found: tag });
        }
        let (origin, sequence) = if tag & SAME == 0 {
            self.identity(truncated)?
        } else {
            let (origin, last) = self.last.ok_or(EntryError::NothingBefore)?;
            (origin, Sequence(last.0.checked_add(1).ok_or(EntryError::NothingBefore)?))
        };
        self.last = Some((origin, sequence));
        let place = if tag & FRAGMENT == 0 {
            None
        } else {
            let offset = take(&mut self.rest).ok_or(truncated)?;
            Some((offset, take(&mut self.rest).ok_or(truncated)?))
        };
        let len = take(&mut self.rest).ok_or(truncated)?;
        let (offset, total) = place.unwrap_or((0, len));
        let end = offset.saturating_add(len);
        let is_within = end <= total && total <= COMMAND_BYTES_MAX as u64;
        if !is_within || (place.is_some() && len == 0) {
            return Err(EntryError::Length { offset, end, total });
        }
        let bytes = take_bytes(&mut self.rest, len).ok_or(truncated)?;
        let place = place.map(|_| Place { offset: offset as usize, total: total as usize });
        Ok(Some(Frame { origin, sequence, place, bytes }))
    }

    fn identity(&mut self, truncated: EntryError) -> Result<(Origin, Sequence), EntryError> {
        let (&rank, rest) = self.rest.split_first().ok_or(truncated)?;
        let (&incarnation, rest) = rest.split_first_chunk().ok_or(truncated)?;
        let (&sequence, rest) = rest.split_first_chunk().ok_or(truncated)?;
        self.rest = rest;
        let origin = Origin {
            rank: Rank::new(rank.into()).ok_or(EntryError::Rank { found: rank })?,
            incarnation: Incarnation(u64::from_le_bytes(incarnation)),
        };
        match u64::from_le_bytes(sequence) {
            0 => Err(EntryError::SequenceZero),
            sequence => Ok((origin, Sequence(sequence))),
        }
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Frame<'a>> {
        // `Batch::check` has seen every step succeed.
        self.step().ok().flatten()
    }
}
