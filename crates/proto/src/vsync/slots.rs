//! Slots of rings as words: what a sender writes, and what a receiver reads.
//!
//! ```text
//! slot = header | stamp (where messages have times) | message, or the place where it landed, or
//!        nothing, where it is in a parcel
//! ```
//! Of a null the header alone means something.

use super::payload::Payload;
use alloc::vec::Vec;
use base::At;

/// The first word of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header {
    Null,
    /// A message: its number among its sender's, from 1, through all views, of which a word has the
    /// rest behind a division by [`NUMBERS`]; and its length.
    Message {
        number: u64,
        n_bytes: u32,
    },
    /// One whose bytes are in its sender's landing area (`landing`).
    Landed {
        number: u64,
        n_bytes: u32,
    },
    /// One whose bytes are in a parcel beside the slot (`packed`).
    Packed {
        number: u64,
        n_bytes: u32,
    },
}

/// The word of a null.
const NULL: u64 = u64::MAX;
const LENGTH_BITS: u32 = 21;
/// The number of messages that have different numbers in their words.
pub(super) const NUMBERS: u64 = 1 << (62 - LENGTH_BITS);
/// The bit of a message that has landed.
const LANDED: u64 = 1 << 63;
/// That of one in a parcel. (A null has both.)
const PACKED: u64 = 1 << 62;

impl Header {
    /// The longest message of which a header can tell the length.
    pub(super) const BYTES_MAX: u32 = (1 << LENGTH_BITS) - 1;

    pub(super) const fn word(self) -> u64 {
        match self {
            Header::Null => NULL,
            Header::Message { number, n_bytes } => Header::told(number, n_bytes),
            Header::Landed { number, n_bytes } => LANDED | Header::told(number, n_bytes),
            Header::Packed { number, n_bytes } => PACKED | Header::told(number, n_bytes),
        }
    }

    const fn told(number: u64, n_bytes: u32) -> u64 {
        (number % NUMBERS) << LENGTH_BITS | n_bytes as u64
    }

    pub(super) const fn of(word: u64) -> Header {
        match word {
            NULL => Header::Null,
            word => {
                let n_bytes = (word & Header::BYTES_MAX as u64) as u32;
                let number = (word & !(LANDED | PACKED)) >> LENGTH_BITS;
                if word & LANDED != 0 {
                    Header::Landed { number, n_bytes }
                } else if word & PACKED != 0 {
                    Header::Packed { number, n_bytes }
                } else {
                    Header::Message { number, n_bytes }
                }
            }
        }
    }
}

/// Small slots side by side, which one WRITE brings.
pub(super) struct Run<'a> {
    /// The place of the first one.
    at: At,
    words: &'a mut Vec<u64>,
}

impl<'a> Run<'a> {
    pub(super) fn new(words: &'a mut Vec<u64>) -> Run<'a> {
        words.clear();
        Run { at: At(0), words }
    }

    /// Appends the slot at `at`; what does not go with it is written before.
    pub(super) fn put(
        &mut self,
        at: At,
        head: &[u64],
        message: &[u64],
        write: &mut impl FnMut(At, &[u64]),
    ) {
        let gap = at.0.checked_sub(self.at.0 + self.words.len() as u32);
        let is_next = !self.words.is_empty()
            && gap.is_some_and(|gap| gap <= GAP_WORDS_MAX)
            && self.words.len() + SMALL_WORDS_MAX < WRITE_WORDS_MAX;
        if !is_next {
            self.end(write);
            self.at = at;
        }
        self.words.resize((at.0 - self.at.0) as usize, 0);
        self.words.extend_from_slice(head);
        self.words.extend_from_slice(message);
    }

    /// Writes what there is.
    pub(super) fn end(&mut self, write: &mut impl FnMut(At, &[u64])) {
        if !self.words.is_empty() {
            write(self.at, self.words);
            self.words.clear();
        }
    }
}

/// Whether a message goes together with its neighbours.
pub(super) fn is_small(message: &Payload) -> bool {
    message.len() <= 8 * SMALL_WORDS_MAX
}

const SMALL_WORDS_MAX: usize = 64;
/// The most words between two slots that are written for nothing.
const GAP_WORDS_MAX: u32 = 8;
/// The most words of one WRITE: 64 KiB.
pub const WRITE_WORDS_MAX: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back() {
        for header in [
            Header::Null,
            Header::Message { number: 1, n_bytes: 0 },
            Header::Message { number: (1 << 41) - 1, n_bytes: Header::BYTES_MAX },
            Header::Landed { number: 1, n_bytes: 8 },
            Header::Landed { number: (1 << 41) - 1, n_bytes: Header::BYTES_MAX },
            Header::Packed { number: 1, n_bytes: 8 },
            Header::Packed { number: (1 << 41) - 1, n_bytes: Header::BYTES_MAX },
        ] {
            assert_eq!(Header::of(header.word()), header);
        }
    }

    #[test]
    fn a_number_that_has_no_room_becomes_a_small_one_and_leaves_the_kind_as_it_is() {
        let n_bytes = 8;
        for (number, told) in [(NUMBERS, 0), (NUMBERS + 7, 7), (5 * NUMBERS + 1, 1)] {
            let of = |header: Header| Header::of(header.word());
            let (large, small) = (Header::Message { number, n_bytes }, told);
            assert_eq!(of(large), Header::Message { number: small, n_bytes });
            let large = Header::Packed { number, n_bytes };
            assert_eq!(of(large), Header::Packed { number: small, n_bytes });
            let large = Header::Landed { number, n_bytes };
            assert_eq!(of(large), Header::Landed { number: small, n_bytes });
        }
    }

    #[test]
    fn small_slots_go_together_if_little_lies_between_them() {
        let (mut words, mut written) = (Vec::new(), Vec::new());
        let mut write = |at: At, words: &[u64]| written.push((at.0, words.to_vec()));
        let mut run = Run::new(&mut words);
        let one = Header::Message { number: 1, n_bytes: 8 }.word();
        run.put(At(3), &[one, 6], &[7], &mut write);
        run.put(At(8), &[NULL], &[], &mut write);
        run.put(At(9 + GAP_WORDS_MAX + 1), &[one, 6], &[8], &mut write);
        run.put(At(4), &[NULL], &[], &mut write);
        run.end(&mut write);
        let expected = [
            (3, alloc::vec![one, 6, 7, 0, 0, NULL]),
            (18, alloc::vec![one, 6, 8]),
            (4, alloc::vec![NULL]),
        ];
        assert_eq!(written, expected);
    }
}
