//! Batches: the values of the log.
//!
//! ```text
//! stamp u64, then items:  rank u8, process u64, sequence u64, length u32, the entry
//! ```

use crate::entry::Entry;
use base::{Incarnation, Rank};
use engine::{Origin, Sequence};
use thiserror::Error;

const STAMP_BYTES: usize = 8;
const ITEM_BYTES: usize = 21;

/// The bytes that a batch of one entry takes beside the entry.
pub const OVERHEAD_BYTES: usize = STAMP_BYTES + ITEM_BYTES;

/// The error of a value that is no batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a value that is no batch of entries")]
pub struct BatchError;

/// Begins a batch at the end of `out`.
pub fn begin(stamp_ms: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&stamp_ms.to_le_bytes());
}

/// Appends an item. Returns whether it fitted into `bytes_max`; if not, `out` is as it was.
pub fn append(
    (origin, sequence): (Origin, Sequence),
    entry: &[u8],
    bytes_max: usize,
    out: &mut Vec<u8>,
) -> bool {
    let fits = out.len() + ITEM_BYTES + entry.len() <= bytes_max;
    if fits {
        out.push(origin.rank.index() as u8);
        out.extend_from_slice(&origin.life.0.to_le_bytes());
        out.extend_from_slice(&sequence.0.to_le_bytes());
        out.extend_from_slice(&(entry.len() as u32).to_le_bytes());
        out.extend_from_slice(entry);
    }
    fits
}

/// One entry of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The process whose client it is from.
    pub origin: Origin,
    /// Its name there.
    pub sequence: Sequence,
    /// The entry.
    pub entry: Entry<'a>,
    /// The entry's bytes.
    pub bytes: &'a [u8],
}

/// A batch that was read.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The stamp, in milliseconds since 1970.
    pub stamp_ms: u64,
    items: &'a [u8],
}

impl<'a> Batch<'a> {
    /// The batch that `value` is.
    ///
    /// # Errors
    /// It is no batch; not one of its entries may be executed.
    pub fn parse(value: &'a [u8]) -> Result<Batch<'a>, BatchError> {
        let (stamp, items) = value.split_first_chunk().ok_or(BatchError)?;
        let batch = Batch { stamp_ms: u64::from_le_bytes(*stamp), items };
        let mut rest = items;
        while !rest.is_empty() {
            item(&mut rest).ok_or(BatchError)?;
        }
        Ok(batch)
    }

    /// Whether it has no entries: then its stamp is what it is for.
    pub fn is_tick(&self) -> bool {
        self.items.is_empty()
    }

    /// The items, in order.
    pub fn items(&self) -> impl Iterator<Item = Item<'a>> + use<'a> {
        let mut rest = self.items;
        // `parse` has read them all once.
        std::iter::from_fn(move || item(&mut rest))
    }
}

fn item<'a>(rest: &mut &'a [u8]) -> Option<Item<'a>> {
    let (header, left) = rest.split_first_chunk::<ITEM_BYTES>()?;
    let word = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
    let rank = Rank::new(header[0].into())?;
    let origin = Origin { rank, life: Incarnation(word(1)) };
    let len = u32::from_le_bytes(header[17..].try_into().expect("four bytes")) as usize;
    let (bytes, left) = left.split_at_checked(len)?;
    *rest = left;
    Some(Item { origin, sequence: Sequence(word(9)), entry: Entry::parse(bytes).ok()?, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn items_are_read_in_order_and_a_damaged_one_voids_all() {
        let owner = Rank::at(2);
        let run = Incarnation(5);
        let origin = Origin { rank: owner, life: run };
        let (mut entry, mut value) = (Vec::new(), Vec::new());
        Entry::Begin { owner, run }.write(&mut entry);
        begin(77, &mut value);
        assert!(append((origin, Sequence(1)), &entry, 1000, &mut value));
        assert!(append((origin, Sequence(2)), &entry, 1000, &mut value));
        let full = value.len();
        assert!(!append((origin, Sequence(3)), &entry, full + entry.len(), &mut value));
        assert_eq!(value.len(), full);
        let batch = Batch::parse(&value).unwrap();
        assert_eq!(batch.stamp_ms, 77);
        let sequences: Vec<u64> = batch.items().map(|item| item.sequence.0).collect();
        assert_eq!(sequences, [1, 2]);
        value.pop();
        assert_eq!(Batch::parse(&value).err(), Some(BatchError));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(batch) = Batch::parse(&bytes) {
                let _ = batch.items().count();
            }
        }
    }
}
