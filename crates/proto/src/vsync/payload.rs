//! The bytes of a message, as regions hold them: so they are copied once on their way in, and once
//! on their way out.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;
use zerocopy::IntoBytes;

const _: () = assert!(cfg!(target_endian = "little"), "words of a region are little endian");

/// The bytes of a message.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Payload {
    /// Eight bytes a word, little endian; zeros fill the last one.
    words: Vec<u64>,
    n_bytes: usize,
}

impl Payload {
    /// `n_bytes` whose words `fill` writes over zeros.
    pub(super) fn filled(n_bytes: usize, fill: impl FnOnce(&mut [u64])) -> Payload {
        let mut words = vec![0; n_bytes.div_ceil(8)];
        fill(&mut words);
        Payload { words, n_bytes }
    }

    /// The words.
    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }
}

impl From<&[u8]> for Payload {
    fn from(bytes: &[u8]) -> Payload {
        let fill = |words: &mut [u64]| words.as_mut_bytes()[..bytes.len()].copy_from_slice(bytes);
        Payload::filled(bytes.len(), fill)
    }
}

impl Deref for Payload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.words.as_bytes()[..self.n_bytes]
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_any_length_come_back() {
        for n in 0..20 {
            let bytes: Vec<u8> = (1..=n).collect();
            let payload = Payload::from(&bytes[..]);
            assert_eq!((&*payload, payload.words().len()), (&bytes[..], bytes.len().div_ceil(8)));
            let copy = Payload::filled(bytes.len(), |words| words.copy_from_slice(payload.words()));
            assert_eq!(copy, payload);
        }
        assert_eq!(Payload::from(&[1, 2][..]).words(), [0x0201]);
    }
}
