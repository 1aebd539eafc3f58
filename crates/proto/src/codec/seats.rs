//! Sets of seats, as words.

use super::{Coded, Format, Malformed, Out, Reader, Words};
use base::{Rank, SEATS_MAX, SeatSet};

/// The seats that a word names, one bit each...
const SEATS_A_WORD: usize = 63;
/// ... beside the bit that says that another word follows.
const FOLLOWS: u64 = 1 << SEATS_A_WORD;

/// The most words.
const N_WORDS: usize = SEATS_MAX.div_ceil(SEATS_A_WORD);

/// As many words as it needs, and at least one: a set of few seats is one word.
impl Coded<'_, Words> for SeatSet {
    fn put(&self, out: &mut impl Out) {
        let mut words = [0; N_WORDS];
        for seat in self.iter() {
            words[seat.index() / SEATS_A_WORD] |= 1 << (seat.index() % SEATS_A_WORD);
        }
        let last = words.iter().rposition(|word| *word != 0).unwrap_or(0);
        for word in &words[..last] {
            Words::put_number(word | FOLLOWS, out);
        }
        Words::put_number(words[last], out);
    }

    /// What is longer than it needs to be, or names what is no seat, is no set.
    fn take(from: &mut Reader<'_>) -> Result<SeatSet, Malformed> {
        let mut set = SeatSet::EMPTY;
        for at in 0..N_WORDS {
            let word = from.word()?;
            let mut bits = word & !FOLLOWS;
            while bits != 0 {
                let seat = SEATS_A_WORD * at + bits.trailing_zeros() as usize;
                set.insert(Rank::seat(seat).ok_or(Malformed)?);
                bits &= bits - 1;
            }
            if word & FOLLOWS == 0 {
                return if at == 0 || word != 0 { Ok(set) } else { Err(Malformed) };
            }
        }
        Err(Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::decode;
    use alloc::vec::Vec;

    fn bytes_of(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn decoded(words: &[u64]) -> Option<SeatSet> {
        decode::<Words, SeatSet>(&bytes_of(words)).ok()
    }

    #[test]
    fn c1_a_set_is_read_as_it_was_written_and_in_no_other_way() {
        let set = |seats: &[usize]| seats.iter().map(|at| Rank::at(*at)).collect::<SeatSet>();
        for (seats, words) in [
            (&[][..], &[0][..]),
            (&[0, 2, 62], &[1 << 62 | 5]),
            (&[63], &[FOLLOWS, 1]),
            (&[1, 126], &[FOLLOWS | 2, FOLLOWS, 1]),
            (
                &[511],
                &[FOLLOWS, FOLLOWS, FOLLOWS, FOLLOWS, FOLLOWS, FOLLOWS, FOLLOWS, FOLLOWS, 128],
            ),
        ] {
            let mut out = Vec::new();
            Coded::<Words>::put(&set(seats), &mut out);
            assert_eq!(out, bytes_of(words), "{seats:?}");
            assert_eq!(decoded(words), Some(set(seats)));
        }
        assert_eq!(decoded(&[FOLLOWS | 1, 0]), None, "longer than it needs to be");
        assert_eq!(decoded(&[FOLLOWS; 10]), None);
        assert_eq!(decoded(&[FOLLOWS]), None, "cut off");
        let beyond = [[FOLLOWS; 8].as_slice(), &[256]].concat();
        assert_eq!(decoded(&beyond), None, "no seat has this number");
    }
}
