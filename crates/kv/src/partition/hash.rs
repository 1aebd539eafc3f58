//! The partition of a key, as in a Redis Cluster, so that keys which are kept together there are
//! kept together here.
//!
//! - H1 a key's partition depends only on its bytes, or those of its tag, and on the number of
//!   partitions. By construction.

use std::fmt;

/// The largest number of partitions.
pub const PARTITIONS_MAX: usize = 32;

/// The number of hash slots of a Redis Cluster; a partition has every n-th of them.
const HASH_SLOTS: u16 = 16384;

/// A set of partitions: those that a command concerns.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partitions(u32);

impl Partitions {
    /// The empty set.
    pub const NONE: Partitions = Partitions(0);

    /// The first `n` partitions.
    pub fn first(n: usize) -> Partitions {
        (0..n).collect()
    }

    /// The set of one partition.
    pub fn one(partition: usize) -> Partitions {
        assert!(partition < PARTITIONS_MAX, "partitions are counted below {PARTITIONS_MAX}");
        Partitions(1 << partition)
    }

    /// The set with the bits that [`Partitions::bits`] gave.
    pub const fn from_bits(bits: u32) -> Partitions {
        Partitions(bits)
    }

    /// One bit per partition.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The number of partitions.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the set contains a partition.
    pub fn contains(self, partition: usize) -> bool {
        self.0 & Partitions::one(partition).0 != 0
    }

    /// Whether the two sets have a partition in common.
    pub const fn meets(self, other: Partitions) -> bool {
        self.0 & other.0 != 0
    }

    /// The union of both.
    #[must_use]
    pub const fn and(self, other: Partitions) -> Partitions {
        Partitions(self.0 | other.0)
    }

    /// All partitions of the set but one.
    #[must_use]
    pub fn without(self, partition: usize) -> Partitions {
        Partitions(self.0 & !Partitions::one(partition).0)
    }

    /// The lowest partition.
    pub fn lowest(self) -> Option<usize> {
        (self.0 != 0).then_some(self.0.trailing_zeros() as usize)
    }

    /// The partitions in order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let next = Partitions(left).lowest()?;
            left &= left - 1;
            Some(next)
        })
    }
}

impl FromIterator<usize> for Partitions {
    fn from_iter<I: IntoIterator<Item = usize>>(partitions: I) -> Partitions {
        partitions.into_iter().fold(Partitions::NONE, |set, at| set.and(Partitions::one(at)))
    }
}

impl fmt::Debug for Partitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// The part of a key that is hashed: the bytes between the first `{` and the next `}`, if there are
/// any, or else the whole key.
fn hashed(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return key };
    let tail = &key[open + 1..];
    match tail.iter().position(|&byte| byte == b'}') {
        Some(0) | None => key,
        Some(close) => &tail[..close],
    }
}

/// The partition of `key` among `n` (H1).
pub fn partition_of(key: &[u8], n: usize) -> usize {
    assert!((1..=PARTITIONS_MAX).contains(&n), "1 to {PARTITIONS_MAX} partitions");
    usize::from(slot_of(key)) % n
}

/// The hash slot of a key, as in a Redis Cluster.
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    crc16(hashed(key)) % HASH_SLOTS
}

/// CRC-16/XMODEM, as Redis Cluster uses it. Keys are short, so bits are taken one by one.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h1_keys_hash_as_in_a_redis_cluster() {
        // The example of the specification of Redis Cluster, and what CLUSTER KEYSLOT answers.
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(crc16(b"foo") % HASH_SLOTS, 12182);
        assert_eq!(crc16(b"somekey") % HASH_SLOTS, 11058);
    }

    #[test]
    fn h1_a_tag_keeps_keys_together() {
        for (key, part) in [
            ("{user1000}.following", "user1000"),
            ("foo{}{bar}", "foo{}{bar}"),
            ("foo{{bar}}zap", "{bar"),
            ("foo{bar}{zap}", "bar"),
            ("foo{bar", "foo{bar"),
            ("}{", "}{"),
        ] {
            assert_eq!(hashed(key.as_bytes()), part.as_bytes(), "{key}");
        }
        for n in 1..=PARTITIONS_MAX {
            assert_eq!(partition_of(b"{a}1", n), partition_of(b"{a}2", n));
            assert!(partition_of(b"foo", n) < n);
        }
    }

    #[test]
    fn sets_are_iterated_in_order() {
        let set: Partitions = [3, 0, 31].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 3, 31]);
        assert_eq!((set.len(), set.lowest()), (3, Some(0)));
        assert!(set.contains(31) && !set.without(31).contains(31));
        assert!(set.meets(Partitions::one(3)) && !set.meets(Partitions::one(4)));
        assert_eq!(Partitions::first(PARTITIONS_MAX).len(), PARTITIONS_MAX);
        assert!(Partitions::NONE.is_empty() && Partitions::NONE.lowest().is_none());
    }
}
