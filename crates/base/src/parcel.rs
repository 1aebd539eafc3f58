//! Long values that travel whole, beside the words of regions.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;

/// Bytes that do not change, and that all holders share.
#[derive(Clone)]
pub struct Bulk(Arc<Held>);

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
        Bulk(Arc::new(Held { bytes, n_copied }))
    }

    /// The number of copies of a byte that this process has made to get them, over all bytes.
    pub fn n_copied(&self) -> usize {
        self.0.n_copied
    }
}

impl Deref for Bulk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0.bytes
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
