//! The transcript: every entry that was executed, in order. It is the replicated state: a copy of
//! the program that is fed with it from the program's first state is in the state of all others.
//!
//! ```text
//! record:  length u32, the entry
//! ```

use std::fmt::Debug;

/// The bytes of a record before its entry.
pub const RECORD_HEADER_BYTES: usize = 4;

/// A store of bytes that grows at its end. A failure to store does not lose bytes: the store keeps
/// them in memory and names the failure, and its process ends.
pub trait Transcript: Debug {
    /// An empty transcript beside this one, which takes its place later, or is dropped.
    fn beside(&mut self) -> Self;

    /// The number of bytes.
    fn len(&self) -> u64;

    /// Whether nothing was executed.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends bytes.
    fn append(&mut self, bytes: &[u8]);

    /// Reads the bytes from `at` on, as many as there are and `into` has room for, and returns the
    /// number.
    fn read(&self, at: u64, into: &mut [u8]) -> usize;

    /// The reason why bytes could not be stored or read, if there is one.
    fn failure(&self) -> Option<&str> {
        None
    }
}

/// A transcript in memory, for simulations and tests.
#[derive(Clone, Debug, Default)]
pub struct InMemory(Vec<u8>);

impl Transcript for InMemory {
    fn beside(&mut self) -> InMemory {
        InMemory::default()
    }

    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn append(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn read(&self, at: u64, into: &mut [u8]) -> usize {
        let there = &self.0[at as usize..];
        let n = there.len().min(into.len());
        into[..n].copy_from_slice(&there[..n]);
        n
    }
}
