//! Long values that travel whole, beside the words of regions.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Deref, Range};

/// Bytes that do not change, and that all holders share.
#[derive(Clone)]
pub struct Bulk {
    held: Arc<Held>,
    range: Range<usize>,
}

struct Held {
    bytes: Vec<u8>,
    n_copied: usize,
}

impl Bulk {
    /// A copy of `bytes`.
    pub fn copied(bytes: &[u8]) -> Bulk {
        Bulk::new(bytes.to_vec(), bytes.len())
    }

    /// These bytes, of which this process has copied `n_copied` to get them.
    pub fn new(bytes: Vec<u8>, n_copied: usize) -> Bulk {
        let range = 0..bytes.len();
        Bulk { held: Arc::new(Held { bytes, n_copied }), range }
    }

    /// A part of them, which is not copied, and holds all of them.
    ///
    /// # Panics
    /// If it reaches beyond them.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Bulk {
        assert!(range.start <= range.end && range.end <= self.len(), "{range:?} of {self:?}");
        let start = self.range.start;
        Bulk { held: Arc::clone(&self.held), range: start + range.start..start + range.end }
    }

    /// The number of copies of a byte that this process has made to get them, over all bytes; of a
    /// part, to get the whole.
    pub fn n_copied(&self) -> usize {
        self.held.n_copied
    }
}

impl Deref for Bulk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.held.bytes[self.range.clone()]
    }
}

impl PartialEq for Bulk {
    fn eq(&self, other: &Bulk) -> bool {
        **self == **other
    }
}

impl Eq for Bulk {}

impl fmt::Debug for Bulk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

/// A long value with a word of its sender's, by which its receiver knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// The word.
    pub tag: u64,
    /// The value.
    pub bulk: Bulk,
}

/// The longest value of a parcel, in bytes.
pub const PARCEL_BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_those_of_the_whole() {
        let whole = Bulk::new((0..10).collect(), 3);
        let part = whole.part(2..9);
        assert_eq!((&*part, part.n_copied()), (&[2, 3, 4, 5, 6, 7, 8][..], 3));
        assert_eq!((&*part.part(1..3), part.part(7..7).len()), (&[3, 4][..], 0));
        assert_eq!(whole.part(0..10), whole);
    }
}
