//! The transcript: every entry that was executed, in order. It is the replicated state: a copy of
//! the program that is fed with it from the program's first state is in the state of all others.
//! What stands before a checkpoint is forgotten (`checkpoint`).
//!
//! ```text
//! record:  length u32, the time u64 if it has one, the entry; no bytes of an entry: a tick
//! ```
//! The highest bit of the length says that the entry was decided in one value of the log with the
//! one before. So where a value ends is the same at all members. The next bit says that a time
//! stands before the entry, in milliseconds since 1970: that of the log from there on.

use std::fmt::Debug;

const LEN_BYTES: usize = 4;
const TIME_BYTES: usize = 8;

/// See the module's text.
const CONTINUES: u32 = 1 << 31;
const TIMED: u32 = 1 << 30;

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// The entry's bytes; nothing for a tick.
    pub(crate) bytes: &'a [u8],
    /// Whether it continues the value of the one before.
    pub(crate) continues: bool,
    /// The log's time from here on, if it is another one.
    pub(crate) time_ms: Option<u64>,
}

impl<'a> Record<'a> {
    /// The record at the beginning of `bytes`, if all of it is there.
    pub(crate) fn first(bytes: &'a [u8]) -> Option<Record<'a>> {
        let (header, mut rest) = bytes.split_first_chunk::<LEN_BYTES>()?;
        let header = u32::from_le_bytes(*header);
        let mut time_ms = None;
        if header & TIMED != 0 {
            let (time, left) = rest.split_first_chunk::<TIME_BYTES>()?;
            (time_ms, rest) = (Some(u64::from_le_bytes(*time)), left);
        }
        let bytes = rest.get(..(header & !(CONTINUES | TIMED)) as usize)?;
        Some(Record { bytes, continues: header & CONTINUES != 0, time_ms })
    }

    /// The bytes of the whole record.
    pub(crate) fn len(&self) -> usize {
        let time = if self.time_ms.is_some() { TIME_BYTES } else { 0 };
        LEN_BYTES + time + self.bytes.len()
    }

    /// Whether a record that begins so continues the value of the one before; `None` if these are
    /// too few bytes to tell.
    pub(crate) fn continues(bytes: &[u8]) -> Option<bool> {
        let header = bytes.first_chunk::<LEN_BYTES>()?;
        Some(u32::from_le_bytes(*header) & CONTINUES != 0)
    }

    /// Whether time passes, and nothing else.
    pub(crate) fn is_tick(&self) -> bool {
        self.time_ms.is_some() && self.bytes.is_empty()
    }

    /// Appends the record, by way of `scratch`.
    pub(crate) fn put(&self, scratch: &mut Vec<u8>, transcript: &mut impl Transcript) {
        scratch.clear();
        let continues = if self.continues { CONTINUES } else { 0 };
        let timed = if self.time_ms.is_some() { TIMED } else { 0 };
        let header = self.bytes.len() as u32 | continues | timed;
        scratch.extend_from_slice(&header.to_le_bytes());
        if let Some(time_ms) = self.time_ms {
            scratch.extend_from_slice(&time_ms.to_le_bytes());
        }
        scratch.extend_from_slice(self.bytes);
        transcript.append(scratch);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_put_and_nothing_shorter_is() {
        let (mut transcript, mut scratch) = (InMemory::default(), Vec::new());
        let all = [
            Record { bytes: b"abc", continues: false, time_ms: Some(7) },
            Record { bytes: b"de", continues: true, time_ms: None },
            Record { bytes: b"", continues: false, time_ms: Some(9) },
        ];
        all.iter().for_each(|record| record.put(&mut scratch, &mut transcript));
        let mut rest = &transcript.bytes[..];
        for record in all {
            (0..record.len()).for_each(|n| assert_eq!(Record::first(&rest[..n]), None));
            assert_eq!(Record::first(rest), Some(record));
            rest = &rest[record.len()..];
        }
        assert!(rest.is_empty() && all[2].is_tick() && !all[0].is_tick());
    }
}
