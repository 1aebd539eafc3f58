//! Which messages commute (paper 004, section 4.4.3): what each one reads and writes, in classes.
//!
//! The thesis lets the application answer `conflicts(m, m')`. Here the *sender* names the classes
//! that its message touches, the message carries them, and every process compares two pairs of
//! words:
//! - F1 It is symmetric. By construction; test `f1_`.
//! - F2 Every process gives the same answer for the same two messages, for ever: it is a function
//!   of the messages alone. A predicate that members computed would have to be the same program at
//!   all of them, through every upgrade; otherwise they would diverge silently.
//! - F3 Two messages of which one writes a key that the other touches do conflict: equal keys have
//!   equal classes. Two different keys may share one of the 64: that costs waiting, not
//!   correctness.
//! - F4 What conflicts with a union conflicts with one of its parts. So a message is compared with
//!   any number of others at once, and a look at all that is pending is one walk.

use crate::codec::{Coded, Malformed, Out, Reader, Varints, number};

/// The classes that a message reads and writes, as sets of 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    reads: u64,
    writes: u64,
}

impl Footprint {
    /// The footprint that conflicts with every one that is not empty, for a message whose sender
    /// names none.
    pub const ALL: Footprint = Footprint { reads: 0, writes: u64::MAX };
    /// The footprint that conflicts with no other.
    pub const NONE: Footprint = Footprint { reads: 0, writes: 0 };

    /// The footprint that also reads this key.
    #[must_use]
    pub const fn reading(self, key: &[u8]) -> Footprint {
        Footprint { reads: self.reads | 1 << class_of(key), ..self }
    }

    /// The footprint that also writes this key.
    #[must_use]
    pub const fn writing(self, key: &[u8]) -> Footprint {
        Footprint { writes: self.writes | 1 << class_of(key), ..self }
    }

    /// The footprint of classes that the application numbers itself, a bit each.
    pub const fn of_classes(reads: u64, writes: u64) -> Footprint {
        Footprint { reads, writes }
    }

    /// Whether the order of the two matters: one writes what the other reads or writes.
    pub const fn conflicts(self, other: Footprint) -> bool {
        self.writes & (other.reads | other.writes) != 0 || self.reads & other.writes != 0
    }

    /// Whether both write the same: a wrong idea of conflicts, for a planted bug.
    pub(crate) const fn writes_meet(self, other: Footprint) -> bool {
        self.writes & other.writes != 0
    }

    /// The union of both (F4).
    #[must_use]
    pub const fn union(self, other: Footprint) -> Footprint {
        Footprint { reads: self.reads | other.reads, writes: self.writes | other.writes }
    }
}

impl Default for Footprint {
    fn default() -> Footprint {
        Footprint::ALL
    }
}

/// The class of a key: the upper six bits of its FNV-1a hash times an odd number, which mixes them.
/// Messages carry it (F2), so it never changes.
const fn class_of(key: &[u8]) -> u32 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut at = 0;
    while at < key.len() {
        hash = (hash ^ key[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    (hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as u32
}

impl Coded<'_, Varints> for Footprint {
    fn put(&self, out: &mut impl Out) {
        // A message without a footprint pays one byte.
        let says = *self != Footprint::ALL;
        out.push(u8::from(says));
        if says {
            number(self.reads, out);
            number(self.writes, out);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        if !from.flag()? {
            return Ok(Footprint::ALL);
        }
        Ok(Footprint { reads: from.number()?, writes: from.number()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amcast::wire::round_trip;
    use base::Rng;

    fn random(rng: &mut Rng) -> Footprint {
        let few = |rng: &mut Rng| (0..rng.below(3)).fold(0, |all, _| all | 1 << rng.below(8));
        Footprint::of_classes(few(rng), few(rng))
    }

    #[test]
    fn f1_f2_a_conflict_is_symmetric_and_survives_travelling() {
        let mut rng = Rng::new(7);
        let mut n = [0; 2];
        for _ in 0..2000 {
            let (a, b) = (random(&mut rng), random(&mut rng));
            assert_eq!(a.conflicts(b), b.conflicts(a), "F1");
            assert_eq!(round_trip(&a).conflicts(round_trip(&b)), a.conflicts(b), "F2");
            n[usize::from(a.conflicts(b))] += 1;
        }
        assert!(n[0] > 100 && n[1] > 100, "both answers were seen: {n:?}");
        assert_eq!(round_trip(&Footprint::ALL), Footprint::ALL);
    }

    #[test]
    fn f3_who_touches_what_is_written_conflicts() {
        let key = |n: u64| n.to_le_bytes();
        let mut n_free = 0;
        for n in 0..500 {
            let writes = Footprint::NONE.writing(&key(n));
            let reads = Footprint::NONE.reading(&key(n)).reading(&key(n + 1));
            assert!(writes.conflicts(reads) && writes.conflicts(writes));
            assert!(!reads.conflicts(reads), "two reads commute");
            assert!(Footprint::ALL.conflicts(writes) && Footprint::ALL.conflicts(reads));
            n_free += u64::from(!writes.conflicts(Footprint::NONE.writing(&key(n + 1000))));
        }
        assert!(n_free > 450, "different keys hardly ever share a class: {n_free} of 500 do not");
    }

    /// Senders of different versions must agree: a class that moved would be a lost conflict.
    #[test]
    fn f2_classes_stay_where_they_are() {
        assert_eq!([class_of(b""), class_of(b"apple"), class_of(b"pear")], CLASSES);
    }

    const CLASSES: [u32; 3] = [62, 10, 5];

    #[test]
    fn f4_a_union_conflicts_with_what_its_parts_do() {
        let mut rng = Rng::new(9);
        for _ in 0..2000 {
            let (a, b, c) = (random(&mut rng), random(&mut rng), random(&mut rng));
            assert_eq!(a.conflicts(b.union(c)), a.conflicts(b) || a.conflicts(c));
        }
    }
}
