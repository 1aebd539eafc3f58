//! The bytes of a message, as regions hold them: so they are copied once on their way in, and once
//! on their way out.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;
use zerocopy::IntoBytes;

const _: () = assert!(cfg!(target_endian = "little"), "words of a region are little endian");

/// The words that are loaded at a time: 4 KiB.
const CHUNK_WORDS: usize = 512;

/// The bytes of a message.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Payload {
    /// Eight bytes a word, little endian; zeros fill the last one.
    words: Vec<u64>,
    n_bytes: usize,
}

impl Payload {
    /// `n_bytes` whose words `load` fills, from an offset on: a few at a time, so that what is long
    /// goes through memory once.
    pub(super) fn loaded(n_bytes: usize, mut load: impl FnMut(u32, &mut [u64])) -> Payload {
        let n_words = n_bytes.div_ceil(8);
        if n_words <= CHUNK_WORDS {
            let mut words = vec![0; n_words];
            load(0, &mut words);
            return Payload { words, n_bytes };
        }
        let (mut words, mut chunk) = (Vec::with_capacity(n_words), [0; CHUNK_WORDS]);
        while words.len() < n_words {
            let chunk = &mut chunk[..CHUNK_WORDS.min(n_words - words.len())];
            load(words.len() as u32, chunk);
            words.extend_from_slice(chunk);
        }
        Payload { words, n_bytes }
    }

    /// The words.
    pub(super) fn words(&self) -> &[u64] {
        &self.words
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
        Payload { words, n_bytes: bytes.len() }
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

    fn copy(of: &Payload) -> Payload {
        Payload::loaded(of.len(), |offset, to| {
            to.copy_from_slice(&of.words()[offset as usize..][..to.len()]);
        })
    }

    #[test]
    fn bytes_of_any_length_come_back() {
        for n in 0..20 {
            let bytes: Vec<u8> = (1..=n).collect();
            let payload = Payload::from(&bytes[..]);
            assert_eq!((&*payload, payload.words().len()), (&bytes[..], bytes.len().div_ceil(8)));
            assert_eq!(copy(&payload), payload);
        }
        let long: Vec<u8> = (0..8 * CHUNK_WORDS + 11).map(|n| n as u8).collect();
        let payload = Payload::from(&long[..]);
        assert!(*copy(&payload) == long[..] && *payload == long[..]);
        assert_eq!(Payload::from(&[1, 2][..]).words(), [0x0201]);
    }
}
