//! Sets of seats: wider than a [`MemberSet`](crate::MemberSet), whose bits stand in slot words.

use crate::id::{Rank, SEATS_MAX};
use core::fmt;

/// A set of seats.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct SeatSet(u64);

const _: () = assert!(SEATS_MAX <= 64, "one bit a seat");

impl SeatSet {
    /// The empty set.
    pub const EMPTY: SeatSet = SeatSet(0);

    /// The set with the bits that [`SeatSet::bits`] gave; bits that name no seat are dropped.
    pub const fn from_bits(bits: u64) -> SeatSet {
        SeatSet(bits & ((1 << SEATS_MAX) - 1))
    }

    /// One bit per seat.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Adds `seat`; true if it was not in the set.
    pub const fn insert(&mut self, seat: Rank) -> bool {
        let before = self.0;
        self.0 |= 1 << seat.index();
        self.0 != before
    }

    /// Removes `seat`; true if it was in the set.
    pub const fn remove(&mut self, seat: Rank) -> bool {
        let before = self.0;
        self.0 &= !(1 << seat.index());
        self.0 != before
    }

    /// Whether the set contains `seat`.
    pub const fn contains(self, seat: Rank) -> bool {
        self.0 & (1 << seat.index()) != 0
    }

    /// The number of seats.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether it contains all of `other`.
    pub const fn covers(self, other: SeatSet) -> bool {
        other.0 & !self.0 == 0
    }

    /// Those in both.
    #[must_use]
    pub const fn intersection(self, other: SeatSet) -> SeatSet {
        SeatSet(self.0 & other.0)
    }

    /// Those in either.
    #[must_use]
    pub const fn union(self, other: SeatSet) -> SeatSet {
        SeatSet(self.0 | other.0)
    }

    /// Those here that are not in `other`.
    #[must_use]
    pub const fn difference(self, other: SeatSet) -> SeatSet {
        SeatSet(self.0 & !other.0)
    }

    /// In order of seats.
    pub fn iter(self) -> impl Iterator<Item = Rank> + Clone {
        let mut bits = self.0;
        core::iter::from_fn(move || {
            let first = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
            bits &= bits - 1;
            Some(Rank::at(first))
        })
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
        for index in [31, 0, 8, 8] {
            set.insert(Rank::at(index));
        }
        let seats: [Rank; 3] = [0, 8, 31].map(Rank::at);
        assert!(set.iter().eq(seats) && set.len() == 3);
        assert_eq!(set, seats.into_iter().collect());
        assert_eq!(SeatSet::from_bits(set.bits() | 1 << 40), set, "bits of no seat are dropped");
        assert!(set.remove(Rank::at(8)) && !set.remove(Rank::at(8)) && !set.contains(Rank::at(8)));
    }

    #[test]
    fn sets_are_joined_met_and_taken_apart() {
        let of = |seats: &[usize]| seats.iter().map(|at| Rank::at(*at)).collect::<SeatSet>();
        let (a, b) = (of(&[1, 2]), of(&[2, 9]));
        assert_eq!(a.union(b), of(&[1, 2, 9]));
        assert_eq!(a.intersection(b), of(&[2]));
        assert_eq!(a.difference(b), of(&[1]));
        assert!(a.union(b).covers(a) && !a.covers(b) && a.covers(SeatSet::EMPTY));
    }
}
