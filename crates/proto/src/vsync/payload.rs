//! The bytes of a message, as regions hold them: so they are copied once on their way in, and once
//! on their way out.

use super::place::{CHUNK_WORDS, Hold, loaded};
use alloc::sync::Arc;
use alloc::vec::Vec;
use base::Bulk;
use core::fmt;
use core::ops::Deref;
use zerocopy::IntoBytes;

const _: () = assert!(cfg!(target_endian = "little"), "words of a region are little endian");

/// The bytes of a message: this process's own, or those in a place of a landing area (`landing`),
/// or those that a fabric carries as they are (`packed`).
///
/// What is in a place is copied out of it when all bytes are asked for (by `Deref`), and the place
/// is given back. [`Payload::read`] reads there without that.
#[derive(Clone)]
pub struct Payload(Bytes);

#[derive(Clone)]
enum Bytes {
    Own {
        /// Eight bytes a word, little endian; zeros fill the last one.
        words: Vec<u64>,
        n_bytes: usize,
    },
    Landed(Arc<Hold>),
    Packed(Bulk),
}

impl Payload {
    /// `n_bytes` whose words `load` fills.
    pub(super) fn loaded(n_bytes: usize, load: impl FnMut(u32, &mut [u64])) -> Payload {
        Payload::own(loaded(n_bytes.div_ceil(8), load), n_bytes)
    }

    const fn own(words: Vec<u64>, n_bytes: usize) -> Payload {
        Payload(Bytes::Own { words, n_bytes })
    }

    /// The message that is held.
    pub(super) const fn landed(hold: Arc<Hold>) -> Payload {
        Payload(Bytes::Landed(hold))
    }

    /// The message whose bytes a fabric carries as they are, if it does that, and copies
    /// otherwise: worth it for a long one.
    pub const fn packed(bulk: Bulk) -> Payload {
        Payload(Bytes::Packed(bulk))
    }

    /// The hold of a message in a place.
    pub(super) const fn hold(&self) -> Option<&Arc<Hold>> {
        match &self.0 {
            Bytes::Own { .. } | Bytes::Packed(_) => None,
            Bytes::Landed(hold) => Some(hold),
        }
    }

    /// The bytes that a fabric carries as they are.
    pub(super) const fn bulk(&self) -> Option<&Bulk> {
        match &self.0 {
            Bytes::Own { .. } | Bytes::Landed(_) => None,
            Bytes::Packed(bulk) => Some(bulk),
        }
    }

    /// The words of a message that goes through rings.
    pub(super) fn words(&self) -> Option<&[u64]> {
        match &self.0 {
            Bytes::Own { words, .. } => Some(words),
            Bytes::Landed(_) | Bytes::Packed(_) => None,
        }
    }

    /// The bytes. `None` if the message was in a place that has another one now (`landing`, V18).
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        let words = match &self.0 {
            Bytes::Own { words, .. } => words,
            Bytes::Landed(hold) => hold.words()?,
            Bytes::Packed(bulk) => return Some(bulk),
        };
        Some(&words.as_bytes()[..self.len()])
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        match &self.0 {
            Bytes::Own { n_bytes, .. } => *n_bytes,
            Bytes::Landed(hold) => hold.len(),
            Bytes::Packed(bulk) => bulk.len(),
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands all bytes to `take`, in order, some at a time. A message that is in memory which all
    /// members of the host share is read there, and not copied.
    pub fn read(&self, mut take: impl FnMut(&[u8])) {
        match &self.0 {
            Bytes::Own { .. } | Bytes::Packed(_) => take(self),
            Bytes::Landed(hold) => hold.read(take),
        }
    }

    /// Copies the bytes at the beginning, as many as there are and `to` has room for, at most 4096.
    /// Returns their number.
    pub fn head(&self, to: &mut [u8]) -> usize {
        match &self.0 {
            Bytes::Own { .. } | Bytes::Packed(_) => {
                let n = to.len().min(self.len()).min(8 * CHUNK_WORDS);
                to[..n].copy_from_slice(&self[..n]);
                n
            }
            Bytes::Landed(hold) => hold.head(to),
        }
    }

    /// Whether the bytes are in memory that all members of the host share, and in this process's
    /// own only once they were asked for.
    pub const fn is_shared(&self) -> bool {
        self.hold().is_some()
    }

    /// The number of bytes that this process has copied to get a message that a fabric carried as
    /// it was: those of an own one, and a few, or those of a short one, of another's. `None` of
    /// other messages.
    pub fn n_copied(&self) -> Option<usize> {
        self.bulk().map(Bulk::n_copied)
    }
}

impl Default for Payload {
    fn default() -> Payload {
        Payload::own(Vec::new(), 0)
    }
}

impl From<&[u8]> for Payload {
    fn from(bytes: &[u8]) -> Payload {
        let (whole, rest) = bytes.as_chunks();
        let mut words = Vec::with_capacity(bytes.len().div_ceil(8));
        words.extend(whole.iter().map(|bytes| u64::from_le_bytes(*bytes)));
        if !rest.is_empty() {
            words.push(crate::le_word(rest));
        }
        Payload::own(words, bytes.len())
    }
}

impl Deref for Payload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes().expect("V18: a message is there while it is held")
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Payload) -> bool {
        **self == **other
    }
}

impl Eq for Payload {}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Bytes::Own { .. } | Bytes::Packed(_) => (**self).fmt(f),
            Bytes::Landed(hold) => hold.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(of: &Payload) -> Payload {
        Payload::loaded(of.len(), |offset, to| {
            to.copy_from_slice(&of.words().unwrap()[offset as usize..][..to.len()]);
        })
    }

    #[test]
    fn bytes_of_any_length_come_back() {
        for n in 0..20 {
            let bytes: Vec<u8> = (1..=n).collect();
            let packed = Payload::packed(Bulk::copied(&bytes));
            let (mut head, mut read) = ([0; 3], Vec::new());
            packed.read(|some| read.extend_from_slice(some));
            assert_eq!(packed.head(&mut head), bytes.len().min(3));
            assert_eq!((&*packed, packed.len(), &read), (&bytes[..], bytes.len(), &bytes));
            assert_eq!((packed.n_copied(), packed.is_shared()), (Some(bytes.len()), false));
            assert_eq!(packed, Payload::from(&bytes[..]));
            let payload = Payload::from(&bytes[..]);
            let n_words = payload.words().map(<[u64]>::len);
            assert_eq!((&*payload, n_words), (&bytes[..], Some(bytes.len().div_ceil(8))));
            assert_eq!(copy(&payload), payload);
        }
        let long: Vec<u8> = (0..8 * CHUNK_WORDS + 11).map(|n| n as u8).collect();
        let payload = Payload::from(&long[..]);
        assert!(*copy(&payload) == long[..] && *payload == long[..]);
        assert_eq!(Payload::from(&[1, 2][..]).words(), Some(&[0x0201][..]));
    }
}
