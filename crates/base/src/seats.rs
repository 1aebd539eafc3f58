//! Sets of seats: wider than a [`MemberSet`](crate::MemberSet), whose bits stand in slot words.

use crate::id::{Rank, SEATS_MAX};
use core::fmt;

/// The words of a set, one bit a seat.
const N_WORDS: usize = SEATS_MAX / 64;

const _: () = assert!(SEATS_MAX.is_multiple_of(64), "each bit names a seat");

/// A set of seats.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct SeatSet([u64; N_WORDS]);

/// The word of a seat. (The remainder says that it is there.)
const fn word_of(seat: Rank) -> usize {
    seat.index() / 64 % N_WORDS
}

const fn bit_of(seat: Rank) -> u64 {
    1 << (seat.index() % 64)
}

impl SeatSet {
    /// The empty set.
    pub const EMPTY: SeatSet = SeatSet([0; N_WORDS]);

    /// The set of some of the first 64 seats, one bit each.
    pub const fn from_bits(bits: u64) -> SeatSet {
        let mut set = SeatSet::EMPTY;
        set.0[0] = bits;
        set
    }

    /// The set with the first words of what [`SeatSet::words`] gave: the others are zero.
    ///
    /// # Panics
    /// If there are more words than a set has.
    pub fn from_words(words: &[u64]) -> SeatSet {
        let mut set = SeatSet::EMPTY;
        set.0[..words.len()].copy_from_slice(words);
        set
    }

    /// One bit per seat, the first seats in the lowest bits of the first word.
    pub const fn words(&self) -> &[u64; N_WORDS] {
        &self.0
    }

    /// Adds `seat`; true if it was not in the set.
    pub const fn insert(&mut self, seat: Rank) -> bool {
        let word = &mut self.0[word_of(seat)];
        let before = *word;
        *word |= bit_of(seat);
        *word != before
    }

    /// Removes `seat`; true if it was in the set.
    pub const fn remove(&mut self, seat: Rank) -> bool {
        let word = &mut self.0[word_of(seat)];
        let before = *word;
        *word &= !bit_of(seat);
        *word != before
    }

    /// Whether the set contains `seat`.
    pub const fn contains(&self, seat: Rank) -> bool {
        self.0[word_of(seat)] & bit_of(seat) != 0
    }

    /// The number of seats.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; N_WORDS]
    }

    /// Whether it contains all of `other`.
    pub fn covers(&self, other: SeatSet) -> bool {
        other.difference(*self).is_empty()
    }

    /// Those in both.
    #[must_use]
    pub fn intersection(&self, other: SeatSet) -> SeatSet {
        SeatSet(core::array::from_fn(|at| self.0[at] & other.0[at]))
    }

    /// Those in either.
    #[must_use]
    pub fn union(&self, other: SeatSet) -> SeatSet {
        SeatSet(core::array::from_fn(|at| self.0[at] | other.0[at]))
    }

    /// Those here that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: SeatSet) -> SeatSet {
        SeatSet(core::array::from_fn(|at| self.0[at] & !other.0[at]))
    }

    /// In order of seats.
    pub const fn iter(&self) -> Seats {
        Seats { words: self.0, at: 0 }
    }
}

/// The seats of a [`SeatSet`], in order.
#[derive(Clone, Debug)]
pub struct Seats {
    words: [u64; N_WORDS],
    /// Words before this one have no seat left.
    at: usize,
}

impl Iterator for Seats {
    type Item = Rank;

    #[inline]
    fn next(&mut self) -> Option<Rank> {
        while let Some(word) = self.words.get_mut(self.at) {
            if *word != 0 {
                let first = word.trailing_zeros() as usize;
                *word &= *word - 1;
                return Some(Rank::at(64 * self.at + first));
            }
            self.at += 1;
        }
        None
    }
}

impl FromIterator<Rank> for SeatSet {
    fn from_iter<I: IntoIterator<Item = Rank>>(seats: I) -> SeatSet {
        let mut set = SeatSet::EMPTY;
        seats.into_iter().for_each(|seat| {
            set.insert(seat);
        });
        set
    }
}

impl fmt::Debug for SeatSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_seats_that_were_put_into_it_in_order() {
        let mut set = SeatSet::EMPTY;
        for index in [511, 31, 0, 64, 8, 8] {
            set.insert(Rank::at(index));
        }
        let seats: [Rank; 5] = [0, 8, 31, 64, 511].map(Rank::at);
        assert!(set.iter().eq(seats) && set.len() == 5);
        assert_eq!(set, seats.into_iter().collect());
        assert_eq!(SeatSet::from_words(set.words()), set);
        assert_eq!(
            SeatSet::from_words(&set.words()[..1]),
            [0, 8, 31].map(Rank::at).into_iter().collect()
        );
        assert!(set.remove(Rank::at(8)) && !set.remove(Rank::at(8)) && !set.contains(Rank::at(8)));
        assert!(set.remove(Rank::at(511)) && set.iter().last() == Some(Rank::at(64)));
    }

    #[test]
    fn sets_are_joined_met_and_taken_apart() {
        let of = |seats: &[usize]| seats.iter().map(|at| Rank::at(*at)).collect::<SeatSet>();
        let (a, b) = (of(&[1, 102]), of(&[102, 309]));
        assert_eq!(a.union(b), of(&[1, 102, 309]));
        assert_eq!(a.intersection(b), of(&[102]));
        assert_eq!(a.difference(b), of(&[1]));
        assert!(a.union(b).covers(a) && !a.covers(b) && a.covers(SeatSet::EMPTY));
    }
}
