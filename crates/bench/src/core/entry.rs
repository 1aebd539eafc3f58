//! Entries in a value, framed as a door frames them, so that batching is paid for honestly.

/// Bytes before each entry: its length.
const FRAME_BYTES: usize = 4;

/// A value under construction.
#[derive(Debug)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Batch {
    pub(super) fn new(bytes_max: usize) -> Batch {
        Batch { bytes: Vec::with_capacity(bytes_max), bytes_max }
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// False if it is full: nothing was added.
    pub(super) fn push(&mut self, entry: &[u8]) -> bool {
        if self.bytes.len() + FRAME_BYTES + entry.len() > self.bytes_max {
            return false;
        }
        self.bytes.extend_from_slice(&(entry.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(entry);
        true
    }
}

/// How many entries `value` has.
pub(super) fn count(mut value: &[u8]) -> u64 {
    let mut entries = 0;
    while let Some((len, rest)) = value.split_first_chunk::<FRAME_BYTES>() {
        value = &rest[u32::from_le_bytes(*len) as usize..];
        entries += 1;
    }
    entries
}
