//! The transcript: every entry that was executed, in order. It is the replicated state: a copy of
//! the program that is fed with it from the program's first state is in the state of all others.
//! What stands before a checkpoint is forgotten (`checkpoint`).
//!
//! ```text
//! record:  length u32, the entry
//! ```
//! The highest bit of the length says that the entry was decided in one value of the log with the
//! one before. So where a value ends is the same at all members.

use std::fmt::Debug;

/// The bytes of a record before its entry.
pub const RECORD_HEADER_BYTES: usize = 4;

/// See the module's text.
const CONTINUES: u32 = 1 << 31;

/// Appends the record of an entry, which `continues` the value of the one before or not.
pub(crate) fn put_record(
    bytes: &[u8],
    continues: bool,
    record: &mut Vec<u8>,
    transcript: &mut impl Transcript,
) {
    record.clear();
    let bit = if continues { CONTINUES } else { 0 };
    record.extend_from_slice(&(bytes.len() as u32 | bit).to_le_bytes());
    record.extend_from_slice(bytes);
    transcript.append(record);
}

/// The entry's bytes of the record at the beginning of `bytes`, if all of it is there.
pub(crate) fn first_record(bytes: &[u8]) -> Option<&[u8]> {
    let (len, rest) = bytes.split_first_chunk::<RECORD_HEADER_BYTES>()?;
    rest.get(..(u32::from_le_bytes(*len) & !CONTINUES) as usize)
}

/// Whether the record at the beginning of `bytes` continues a value.
pub(crate) fn first_continues(bytes: &[u8]) -> bool {
    let header = bytes.first_chunk::<RECORD_HEADER_BYTES>();
    header.is_some_and(|header| u32::from_le_bytes(*header) & CONTINUES != 0)
}

/// A store of bytes that grows at its end. A failure to store does not lose bytes: the store keeps
/// them in memory and names the failure, and its process ends.
pub trait Transcript: Debug {
    /// An empty transcript beside this one, which takes its place later, or is dropped. Its first
    /// byte is the one behind the first `start` of all.
    fn beside(&mut self, start: u64) -> Self;

    /// The number of bytes that were forgotten.
    fn start(&self) -> u64;

    /// Forgets the bytes before `at`, which are not read again.
    fn forget(&mut self, at: u64);

    /// The number of bytes, those that were forgotten among them.
    fn len(&self) -> u64;

    /// Whether nothing was executed.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends bytes.
    fn append(&mut self, bytes: &[u8]);

    /// Reads the bytes from `at` on, which were not forgotten, as many as there are and `into` has
    /// room for, and returns the number.
    fn read(&self, at: u64, into: &mut [u8]) -> usize;

    /// The reason why bytes could not be stored or read, if there is one.
    fn failure(&self) -> Option<&str> {
        None
    }
}

/// A transcript in memory, for simulations and tests.
#[derive(Clone, Debug, Default)]
pub struct InMemory {
    start: u64,
    bytes: Vec<u8>,
}

impl Transcript for InMemory {
    fn beside(&mut self, start: u64) -> InMemory {
        InMemory { start, bytes: Vec::new() }
    }

    fn start(&self) -> u64 {
        self.start
    }

    fn forget(&mut self, at: u64) {
        if at > self.start {
            self.bytes.drain(..(at - self.start) as usize);
            self.start = at;
        }
    }

    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn read(&self, at: u64, into: &mut [u8]) -> usize {
        assert!(at >= self.start, "byte {at} was forgotten, with all before {}", self.start);
        let there = &self.bytes[(at - self.start) as usize..];
        let n = there.len().min(into.len());
        into[..n].copy_from_slice(&there[..n]);
        n
    }
}
