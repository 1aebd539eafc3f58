//! The input from a peer, cut into records.

use proto::amcast::wire::{Malformed, Reader};
use std::ops::Range;

/// The longest record: another member's state may be one.
const RECORD_BYTES_MAX: u64 = 256 << 20;

/// The bytes received and not processed.
#[derive(Debug, Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    start: usize,
    /// The length of the last record that was handed up.
    last: usize,
}

impl Input {
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// The next whole record, which counts as processed from now on (S4).
    pub(crate) fn next(&mut self) -> Result<Option<Range<usize>>, Malformed> {
        let rest = &self.bytes[self.start..];
        let mut reader = Reader::new(rest);
        let Ok(n) = reader.number() else {
            // Ten bytes hold any number: with fewer, the rest of it is still to come.
            return if rest.len() < 10 { Ok(None) } else { Err(Malformed) };
        };
        if n > RECORD_BYTES_MAX {
            return Err(Malformed);
        }
        let header = varint_bytes(n);
        let end = header + n as usize;
        if rest.len() < end {
            return Ok(None);
        }
        let record = self.start + header..self.start + end;
        self.start += end;
        self.last = end;
        Ok(Some(record))
    }

    pub(crate) fn bytes(&self, record: Range<usize>) -> &[u8] {
        &self.bytes[record]
    }

    /// Lets the last record be handed up again: a planted bug.
    pub(super) fn unread(&mut self) {
        self.start = self.start.saturating_sub(std::mem::take(&mut self.last));
    }

    /// Adds received bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.tidy();
        self.bytes.extend_from_slice(bytes);
    }

    fn tidy(&mut self) {
        if self.start == self.bytes.len() {
            self.bytes.clear();
            (self.start, self.last) = (0, 0);
        } else if self.start * 2 > self.bytes.len() {
            self.bytes.drain(..self.start);
            (self.start, self.last) = (0, 0);
        }
    }
}

const fn varint_bytes(value: u64) -> usize {
    let bits = (u64::BITS - value.leading_zeros()) as usize;
    if bits == 0 { 1 } else { bits.div_ceil(7) }
}
