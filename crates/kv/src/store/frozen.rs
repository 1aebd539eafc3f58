//! A table as it was at one moment, while it continues to change: each changed entry is kept until
//! it was read.
//!
//! A snapshot of a large store takes seconds to write, and its replica cannot stand still so long.
//! So the table is *frozen* for each reader at a moment of the reader's own: before an entry
//! changes that the reader has not passed yet, it is copied aside. The reader reads in the
//! canonical order, a few entries at a time, and sees each entry as it was.
//!
//! - F1 a reader of a frozen table gets what a walk at the moment of freezing would have yielded,
//!   in the same order. By construction: the table has three mutators, and each gives the entry to
//!   [`Frozen::keep`] before it changes; a kept entry replaces the present one. Property test
//!   `f1_a_frozen_table_is_read_as_it_was`.
//! - F2 at most one copy of each entry is kept for a reader, and no copy of an entry that it has
//!   read. Asserted in that test.
//! - F3 a table all of whose keys are deleted at once is set aside as it is, until its readers have
//!   read it. Tests `p6_what_is_flushed_meanwhile_is_in_the_snapshot`.

use super::database::Db;
use super::table::{Entry, Key, Table};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// A place in the canonical order: this position, behind this key.
#[derive(Clone, Debug)]
struct Cursor {
    position: u64,
    behind: Option<Key>,
}

/// The kept part of a frozen table.
#[derive(Clone, Debug)]
pub(crate) struct Frozen {
    /// The reader's number.
    number: u64,
    /// The database that the table was when it was frozen.
    db: Db,
    /// The place from which entries are unread; `None` when all were read.
    next: Option<Cursor>,
    /// The entries that have changed since; `None` for a key that did not exist.
    kept: BTreeMap<(u64, Key), Option<Entry>>,
}

impl Frozen {
    fn new(number: u64, db: Db) -> Frozen {
        let next = Some(Cursor { position: 0, behind: None });
        Frozen { number, db, next, kept: BTreeMap::new() }
    }

    fn is_ahead(&self, position: u64, key: &Key) -> bool {
        self.next.as_ref().is_some_and(|next| match position.cmp(&next.position) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => next.behind.as_ref().is_none_or(|behind| key > behind),
            std::cmp::Ordering::Greater => true,
        })
    }

    /// Keeps the entry of this key, which is about to change; `None` if the key does not exist.
    pub(crate) fn keep(&mut self, position: u64, key: &Key, entry: Option<&Entry>) {
        if self.is_ahead(position, key) {
            // F2: the first copy stays.
            self.kept.entry((position, key.clone())).or_insert_with(|| entry.cloned());
        }
    }

    /// Notes that everything up to `next` was read.
    fn advance(&mut self, next: Option<Cursor>) {
        self.next = next;
        while let Some(first) = self.kept.first_entry() {
            let (position, key) = first.key();
            let is_ahead = self
                .next
                .as_ref()
                .is_some_and(|next| (*position, Some(key)) > (next.position, next.behind.as_ref()));
            if is_ahead {
                break;
            }
            first.remove();
        }
    }
}

impl Table {
    /// Freezes the table for the reader of this number, while it is this database.
    pub(crate) fn freeze(&mut self, number: u64, db: Db) {
        self.frozen.push(Frozen::new(number, db));
    }

    /// The database that it was when it was frozen for this reader.
    pub(crate) fn was_frozen_as(&self, number: u64) -> Option<Db> {
        self.frozen.iter().find(|frozen| frozen.number == number).map(|frozen| frozen.db)
    }

    /// Whether a reader reads it as it was.
    pub(crate) const fn is_frozen(&self) -> bool {
        !self.frozen.is_empty()
    }

    /// Ends that reader's reading.
    pub(crate) fn thaw(&mut self, number: u64) {
        self.frozen.retain(|frozen| frozen.number != number);
    }

    /// Hands entries as they were to `take`, from where the last call ended, until it returns false
    /// (having taken that one). True if there may be more; `None` if the table is not frozen for
    /// this reader.
    pub(crate) fn read_frozen(
        &mut self,
        number: u64,
        mut take: impl FnMut(&Entry) -> bool,
    ) -> Option<bool> {
        // The record leaves its place meanwhile, since it changes while the table is read.
        let at = self.frozen.iter().position(|frozen| frozen.number == number)?;
        let mut frozen = self.frozen.swap_remove(at);
        while let Some(from) = frozen.next.clone() {
            let end = self.after_bucket_of(from.position);
            let mut batch: SmallVec<[&Entry; 16]> = SmallVec::new();
            batch.extend(self.bucket_at(from.position).iter().filter(|entry| {
                frozen.is_ahead(entry.position, &entry.key)
                    && (frozen.kept.is_empty()
                        || !frozen.kept.contains_key(&(entry.position, entry.key.clone())))
            }));
            let kept = frozen.kept.range((from.position, Key::new())..);
            let in_bucket = kept.take_while(|((at, _), _)| end.is_none_or(|end| *at < end));
            batch.extend(in_bucket.filter_map(|(_, entry)| entry.as_ref()));
            batch.sort_unstable_by(|a, b| (a.position, &a.key).cmp(&(b.position, &b.key)));
            let stopped = batch.into_iter().find(|entry| !take(entry));
            let stopped = stopped.map(|entry| (entry.position, entry.key.clone()));
            let Some((position, key)) = stopped else {
                frozen.advance(end.map(|position| Cursor { position, behind: None }));
                continue;
            };
            frozen.advance(Some(Cursor { position, behind: Some(key) }));
            self.frozen.push(frozen);
            return Some(true);
        }
        self.frozen.push(frozen);
        Some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::table::NEVER;
    use base::Rng;

    type Seen = (u64, Vec<u8>, Vec<u8>);

    fn seen(entry: &Entry) -> Seen {
        (entry.position, entry.key.to_vec(), entry.value.clone())
    }

    /// Positions collide and cluster, so that buckets split and merge under the reader.
    fn change(table: &mut Table, rng: &mut Rng, step: u64, grows: bool) {
        let number = rng.below(400);
        let key = number.to_le_bytes().to_vec();
        let position = (number / 2).wrapping_mul(u64::MAX / 199);
        if !rng.chance(if grows { 5 } else { 2 }, 7) {
            table.remove(position, &key);
        } else if let Some(entry) = table.find_mut(position, &key) {
            entry.value = step.to_le_bytes().to_vec();
        } else {
            let (key, value) = (Key::from_slice(&key), step.to_le_bytes().to_vec());
            table.insert(Entry { position, key, value, expire_at: NEVER, version: step });
        }
    }

    #[test]
    fn f1_a_frozen_table_is_read_as_it_was() {
        let mut n_kept_max = 0;
        for seed in 0..40 {
            let mut rng = Rng::new(seed);
            let mut table = Table::new();
            for step in 0..rng.below(900) {
                change(&mut table, &mut rng, step, true);
            }
            for round in 0..4 {
                let expected: Vec<Seen> = table.walk(0).map(seen).collect();
                let reader = round;
                table.freeze(reader, Db::ZERO);
                let mut read = Vec::new();
                let mut step = 1000;
                while table.read_frozen(reader, |entry| {
                    read.push(seen(entry));
                    !rng.chance(1, 5)
                }) == Some(true)
                {
                    for _ in 0..rng.below(60) {
                        change(&mut table, &mut rng, step, round % 2 == 0);
                        step += 1;
                    }
                    let frozen = table.frozen.last().unwrap();
                    n_kept_max = n_kept_max.max(frozen.kept.len());
                    assert!(
                        frozen.kept.keys().all(|(at, key)| frozen.is_ahead(*at, key)),
                        "F2: nothing that was read is kept"
                    );
                }
                assert_eq!(read, expected, "F1: seed {seed}, round {round}");
                assert!(table.frozen.last().unwrap().kept.is_empty());
                table.thaw(reader);
                assert!(table.frozen.is_empty());
            }
        }
        assert!(n_kept_max > 20, "the reader was overtaken");
    }

    #[test]
    fn f1_each_reader_reads_its_own_moment() {
        let mut rng = Rng::new(7);
        let mut table = Table::new();
        let mut readers = Vec::new();
        for step in 0..3000 {
            change(&mut table, &mut rng, step, true);
            if step % 600 == 0 {
                let expected: Vec<Seen> = table.walk(0).map(seen).collect();
                table.freeze(step, Db::ZERO);
                readers.push((step, expected, Vec::new()));
            }
            for (reader, _, read) in &mut readers {
                let take = |entry: &Entry| {
                    read.push(seen(entry));
                    false
                };
                assert!(!rng.chance(1, 4) || table.read_frozen(*reader, take).is_some());
            }
        }
        assert_eq!(table.frozen.len(), 5);
        for (reader, expected, mut read) in readers {
            while table.read_frozen(reader, |entry| {
                read.push(seen(entry));
                true
            }) == Some(true)
            {}
            assert_eq!(read, expected, "F1: reader {reader}");
            table.thaw(reader);
            assert_eq!(table.read_frozen(reader, |_| true), None);
        }
    }
}
