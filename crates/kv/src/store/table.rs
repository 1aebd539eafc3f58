//! The keys: a hash table that grows one bucket at a time and has a fixed order for walks.
//!
//! A key's *position* is a fixed 64-bit hash of it. Walks follow the order of (position, key),
//! whatever the history of the table: therefore a SCAN cursor, which is a position, continues at
//! another replica, and a snapshot is canonical. A B-tree gives such an order too, but costs its
//! depth in cache misses for every command; a common hash table has no order. This is linear
//! hashing with the buckets chosen by the *top* bits of the position, so that a bucket is an
//! interval of positions. No growth ever stops the replica: an insertion splits at most one bucket,
//! a removal merges at most two.
//!
//! - I1 an entry is in the bucket of its position. Asserted in tests over random histories.
//! - I2 a key has at most one entry. By construction: the only insertion follows a failed search.
//! - I3 a walk yields entries in ascending (position, key), each exactly once. Same test.

use super::frozen::Frozen;
use smallvec::SmallVec;

/// The number of entries per bucket above which a bucket is split.
const LOAD: usize = 4;

/// The number of buckets of an empty table; a power of two.
const BUCKETS_MIN: usize = 16;

/// A key; short ones need no allocation and no cache miss of their own.
pub(crate) type Key = SmallVec<[u8; 16]>;

/// An expiry that never comes.
pub(crate) const NEVER: u64 = u64::MAX;

/// A key with its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) position: u64,
    pub(crate) key: Key,
    pub(crate) value: Vec<u8>,
    /// Unix time in milliseconds at which the key expires; [`NEVER`] if it stays.
    pub(crate) expire_at: u64,
    /// The store's count of changes at this key's last change.
    pub(crate) version: u64,
}

/// The table. Bucket numbers are bit-reversed prefixes of positions, so that a split appends.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    buckets: Vec<Vec<Entry>>,
    /// Every bucket has been split to at least this many bits.
    level: u32,
    /// Buckets below this number have been split to `level + 1` bits.
    split: usize,
    len: usize,
    /// The copies for readers of the table as it was: every mutator keeps an entry there first.
    pub(super) frozen: Vec<Frozen>,
}

/// The position of a key. It never changes, since cursors and snapshots outlive the process.
pub(crate) fn position_of(key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key)
}

impl Table {
    pub(crate) fn new() -> Table {
        Table {
            buckets: std::iter::repeat_with(Vec::new).take(BUCKETS_MIN).collect(),
            level: BUCKETS_MIN.ilog2(),
            split: 0,
            len: 0,
            frozen: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn find(&self, position: u64, key: &[u8]) -> Option<&Entry> {
        self.buckets[self.bucket_of(position)]
            .iter()
            .find(|entry| entry.position == position && entry.key[..] == *key)
    }

    pub(crate) fn find_mut(&mut self, position: u64, key: &[u8]) -> Option<&mut Entry> {
        let bucket = self.bucket_of(position);
        let found = self.buckets[bucket]
            .iter_mut()
            .find(|entry| entry.position == position && entry.key[..] == *key)?;
        for frozen in &mut self.frozen {
            frozen.keep(position, &found.key, Some(found));
        }
        Some(found)
    }

    /// The entries at this position: one, except after a collision of 64-bit hashes.
    pub(crate) fn at(&self, position: u64) -> impl Iterator<Item = &Entry> {
        self.buckets[self.bucket_of(position)]
            .iter()
            .filter(move |entry| entry.position == position)
    }

    /// Adds an entry whose key a search has just not found (I2).
    pub(crate) fn insert(&mut self, entry: Entry) {
        for frozen in &mut self.frozen {
            frozen.keep(entry.position, &entry.key, None);
        }
        let bucket = self.bucket_of(entry.position);
        self.buckets[bucket].push(entry);
        self.len += 1;
        if self.len > LOAD * self.buckets.len() {
            self.split_one();
        }
    }

    pub(crate) fn remove(&mut self, position: u64, key: &[u8]) -> Option<Entry> {
        let bucket = self.bucket_of(position);
        let at = self.buckets[bucket]
            .iter()
            .position(|entry| entry.position == position && entry.key[..] == *key)?;
        let entry = self.buckets[bucket].swap_remove(at);
        for frozen in &mut self.frozen {
            frozen.keep(position, &entry.key, Some(&entry));
        }
        self.len -= 1;
        // The threshold is far below that of splitting, so that a key that comes and goes moves no
        // bucket.
        if self.buckets.len() > BUCKETS_MIN && self.len * 4 < LOAD * self.buckets.len() {
            self.merge_one();
        }
        Some(entry)
    }

    /// Walks all entries from `position` on (I3).
    pub(crate) fn walk(&self, position: u64) -> Walk<'_> {
        Walk { table: self, next: Some(position), batch: SmallVec::new() }
    }

    fn bucket_of(&self, position: u64) -> usize {
        let reversed = position.reverse_bits() as usize;
        let bucket = reversed & ((1 << self.level) - 1);
        if bucket < self.split { reversed & ((2 << self.level) - 1) } else { bucket }
    }

    /// The entries of the bucket of `position`, in no order.
    pub(super) fn bucket_at(&self, position: u64) -> &[Entry] {
        &self.buckets[self.bucket_of(position)]
    }

    /// The first position after the interval of the bucket of `position`.
    pub(super) fn after_bucket_of(&self, position: u64) -> Option<u64> {
        let reversed = position.reverse_bits() as usize;
        let low = reversed & ((1 << self.level) - 1);
        let bits = self.level + u32::from(low < self.split);
        let width = 1u64 << (64 - bits);
        (position & !(width - 1)).checked_add(width)
    }

    fn split_one(&mut self) {
        let bit = 1u64 << (63 - self.level);
        let upper = extract(&mut self.buckets[self.split], |entry| entry.position & bit != 0);
        assert_eq!(self.buckets.len(), self.split + (1 << self.level), "buckets are numbered");
        self.buckets.push(upper);
        self.split += 1;
        if self.split == 1 << self.level {
            self.level += 1;
            self.split = 0;
        }
    }

    fn merge_one(&mut self) {
        if self.split == 0 {
            self.level -= 1;
            self.split = 1 << self.level;
        }
        self.split -= 1;
        if let Some(upper) = self.buckets.pop() {
            self.buckets[self.split].extend(upper);
        }
    }
}

/// Removes the entries that `take` selects; both parts end with no more room than they need.
fn extract(bucket: &mut Vec<Entry>, take: impl Fn(&Entry) -> bool) -> Vec<Entry> {
    let (taken, kept) = std::mem::take(bucket).into_iter().partition(take);
    *bucket = kept;
    taken
}

/// The entries from some position on, in order.
pub(crate) struct Walk<'a> {
    table: &'a Table,
    /// The next position to look at; `None` at the end.
    next: Option<u64>,
    /// The rest of the current bucket, the next entry last.
    batch: SmallVec<[&'a Entry; 16]>,
}

impl<'a> Iterator for Walk<'a> {
    type Item = &'a Entry;

    fn next(&mut self) -> Option<&'a Entry> {
        while self.batch.is_empty() {
            let from = self.next?;
            let bucket = &self.table.buckets[self.table.bucket_of(from)];
            self.batch.extend(bucket.iter().filter(|entry| entry.position >= from));
            self.batch.sort_unstable_by(|a, b| (b.position, &b.key).cmp(&(a.position, &a.key)));
            self.next = self.table.after_bucket_of(from);
        }
        self.batch.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;
    use std::collections::BTreeMap;

    fn check(table: &Table, twin: &BTreeMap<(u64, Vec<u8>), ()>) {
        assert_eq!(table.len(), twin.len());
        for (bucket, entries) in table.buckets.iter().enumerate() {
            for entry in entries {
                assert_eq!(table.bucket_of(entry.position), bucket, "I1");
            }
        }
        let walked: Vec<_> =
            table.walk(0).map(|entry| (entry.position, entry.key.to_vec())).collect();
        assert!(walked.iter().eq(twin.keys()), "I3");
    }

    /// Positions are given by the test, so that collisions and crowded intervals occur.
    #[test]
    fn i1_i2_i3_against_a_sorted_twin() {
        for seed in 0..8 {
            let mut rng = Rng::new(seed);
            let (mut table, mut twin) = (Table::new(), BTreeMap::new());
            let narrow = seed % 2 == 0;
            for step in 0..4000 {
                let number = rng.below(600);
                let key = number.to_le_bytes().to_vec();
                let position =
                    if narrow { number / 3 } else { (number / 2).wrapping_mul(u64::MAX / 299) };
                // The table grows for some time, then shrinks: both directions of the split point.
                let grow = (step / 1000) % 2 == 0;
                if rng.chance(if grow { 3 } else { 1 }, 4) {
                    if table.find(position, &key).is_none() {
                        table.insert(Entry {
                            position,
                            key: Key::from_slice(&key),
                            value: key.clone(),
                            expire_at: NEVER,
                            version: 0,
                        });
                    }
                    twin.insert((position, key), ());
                } else {
                    let removed = table.remove(position, &key);
                    assert_eq!(removed.is_some(), twin.remove(&(position, key)).is_some());
                }
                if step % 250 == 0 {
                    check(&table, &twin);
                }
            }
            check(&table, &twin);
            for (position, key) in twin.keys() {
                let expected = twin.range((*position, Vec::new())..).map(|(id, ())| id.0);
                assert!(table.walk(*position).map(|entry| entry.position).eq(expected), "I3");
                assert!(table.find(*position, key).is_some());
                assert!(table.find_mut(*position, key).is_some());
                assert!(table.at(*position).any(|entry| entry.key[..] == key[..]));
            }
            while let Some(((position, key), ())) = twin.pop_first() {
                assert!(table.remove(position, &key).is_some());
            }
            assert_eq!(table.buckets.len(), BUCKETS_MIN, "an empty table gives its memory back");
            check(&table, &twin);
        }
    }
}
