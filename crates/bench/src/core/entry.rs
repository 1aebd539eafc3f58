//! Entries in a value, framed and read back as the kv door does it, so that the cost of batching is
//! included.

use base::{Incarnation, Rank};
use kv::entry::{self, Appended, BatchWriter, Origin, Sequence};

/// A value under construction.
#[derive(Debug)]
pub(super) struct Batch {
    writer: BatchWriter,
    bytes: Vec<u8>,
    bytes_max: usize,
    origin: Origin,
    /// The sequence of the next one; sequences count from 1.
    sequence: u64,
}

impl Batch {
    pub(super) fn new(bytes_max: usize) -> Batch {
        let origin = Origin { rank: Rank::at(0), incarnation: Incarnation(1) };
        let bytes = Vec::with_capacity(bytes_max);
        Batch { writer: BatchWriter::new(), bytes, bytes_max, origin, sequence: 1 }
    }

    /// Starts with no entry.
    pub(super) fn begin(&mut self) {
        self.bytes.clear();
        self.writer.begin(0, &mut self.bytes);
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Adds an entry. False if the batch is full: nothing was added.
    pub(super) fn push(&mut self, entry: &[u8]) -> bool {
        let sequence = Sequence(self.sequence);
        match self.writer.append(self.origin, sequence, entry, self.bytes_max, &mut self.bytes) {
            Appended::Whole => {
                self.sequence += 1;
                true
            }
            Appended::Full => false,
            Appended::Part => unreachable!("an entry is far shorter than a value"),
        }
    }
}

/// Looks at every entry of `value`; returns their number, and the sum of their first bytes.
pub(super) fn read(value: &[u8]) -> (u64, u64) {
    let batch = entry::Batch::check(value).expect("what was written is read");
    let firsts = batch.frames().map(|frame| u64::from(frame.bytes[0]));
    firsts.fold((0, 0), |(n, sum), first| (n + 1, sum + first))
}
