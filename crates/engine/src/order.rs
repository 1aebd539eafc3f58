//! Primary order: what a leader proposed is executed in the order in which it proposed it, or not
//! at all.
//!
//! A leader has many slots in flight. When it dies, its successor may find the value of slot 11 at
//! a majority's mercy and nothing in slot 10: 11 is decided as proposed, 10 is not, and a client
//! that pipelined `SET k 1`, `SET k 2` over those two slots would, after its first command was sent
//! again, be left with 1. So each value carries where it stands in its leader's reign, and a value
//! whose predecessor was not executed is skipped by every member. Its commands count as never
//! executed; their origins still hold them and send them again.
//!
//! - I1 a value is executed iff it is the first of a reign above the last executed one's, or the
//!   direct successor of the last executed one. By [`Order::admits`], from decided values alone, so
//!   all members agree.
//! - I2 reigns never fall. Follows from I1; asserted.
//!
//! ```text
//! value = reign (8, little endian: the leader's ballot) | index (8: from 0) | the service's bytes
//! ```
//! An empty value is a leader's way to fill a slot: nothing is executed and the order stands.

use base::Ballot;

/// The bytes in front of the service's.
pub const HEADER_BYTES: usize = 16;

/// Where a value stands: (reign, index).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The ballot under which it was proposed.
    pub reign: Ballot,
    /// How many were proposed before it in that reign.
    pub index: u64,
}

impl Place {
    /// As bytes.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&self.reign.0.to_le_bytes());
        bytes[8..].copy_from_slice(&self.index.to_le_bytes());
        bytes
    }

    /// The place and the service's bytes of a value, or `None` if it is too short to have one.
    pub fn split(value: &[u8]) -> Option<(Place, &[u8])> {
        let (reign, rest) = value.split_first_chunk::<8>()?;
        let (index, rest) = rest.split_first_chunk::<8>()?;
        let place =
            Place { reign: Ballot(u64::from_le_bytes(*reign)), index: u64::from_le_bytes(*index) };
        Some((place, rest))
    }
}

/// The last executed value's place. Part of the replicated state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    last: Place,
}

impl Order {
    /// Nothing executed yet.
    pub const START: Order = Order { last: Place { reign: Ballot::NONE, index: 0 } };

    /// Whether the value at `place` is to be executed now (I1); if so it is the last from now on.
    pub fn admits(&mut self, place: Place) -> bool {
        let first_of_a_reign = place.reign > self.last.reign && place.index == 0;
        let successor =
            place.reign == self.last.reign && Some(place.index) == self.last.index.checked_add(1);
        if first_of_a_reign || successor {
            assert!(place.reign >= self.last.reign, "I2: a reign has fallen");
            self.last = place;
            return true;
        }
        false
    }

    /// For a snapshot.
    pub fn last(self) -> Place {
        self.last
    }

    /// From a snapshot.
    pub fn resume(last: Place) -> Order {
        Order { last }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(places: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut order = Order::START;
        let admits =
            |&(reign, index): &(u64, u64)| order.admits(Place { reign: Ballot(reign), index });
        places.iter().copied().filter(admits).collect()
    }

    #[test]
    fn i1_a_value_whose_predecessor_was_lost_is_skipped() {
        assert_eq!(admitted(&[(9, 0), (9, 2), (9, 3), (17, 0)]), [(9, 0), (17, 0)]);
        assert_eq!(admitted(&[(9, 1), (9, 2)]), []);
    }

    #[test]
    fn i2_what_is_left_of_an_older_reign_is_skipped() {
        assert_eq!(admitted(&[(9, 0), (17, 0), (9, 1), (17, 1)]), [(9, 0), (17, 0), (17, 1)]);
    }

    #[test]
    fn i1_a_value_decided_twice_is_executed_once() {
        assert_eq!(admitted(&[(9, 0), (9, 0), (9, 1), (9, 1)]), [(9, 0), (9, 1)]);
    }

    #[test]
    fn a_place_comes_back_from_its_bytes() {
        let place = Place { reign: Ballot(0x0102_0304), index: 7 };
        let mut value = place.to_bytes().to_vec();
        value.extend_from_slice(b"body");
        assert_eq!(Place::split(&value), Some((place, &b"body"[..])));
        assert_eq!(Place::split(&value[..15]), None);
        assert_eq!(value[..16], [4, 3, 2, 1, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
    }
}
