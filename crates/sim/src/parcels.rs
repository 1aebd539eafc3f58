//! Parcels beside regions (fabric T11), in groups over tcp.
//!
//! - I1 *Whole, in order.* A parcel is one verb of its link, and takes effect at once.
//! - I2 *Of one link.* What was not taken is lost when its link breaks, and once more before it is
//!   up: until then, what was posted before the break may still arrive (T4).

use crate::words::words_of;
use base::{At, Bulk, Parcel, Rank};
use std::collections::BTreeMap;

/// Parcels that were not taken: by receiver, sender and place.
#[derive(Default)]
pub(crate) struct Parcels(BTreeMap<(usize, Rank, At), Parcel>);

impl Parcels {
    /// I1: puts the parcel that these words are beside the region of `to`.
    pub(crate) fn put(&mut self, (from, to): (usize, usize), at: At, words: &[u64]) {
        self.0.insert((to, Rank::at(from), at), of_words(words));
    }

    /// What [`base::Port::take_parcel`] says.
    pub(crate) fn take(&mut self, node: usize, from: Rank, at: At) -> Option<Parcel> {
        self.0.remove(&(node, from, at))
    }

    /// The sender of a parcel that `node` has not taken.
    pub(crate) fn waits_for(&self, node: usize) -> Option<Rank> {
        let of_node = (node, Rank::at(0), At(0))..(node + 1, Rank::at(0), At(0));
        self.0.range(of_node).next().map(|((_, from, _), _)| *from)
    }

    /// I2: loses those that `to` has of `from`.
    pub(crate) fn lose(&mut self, from: usize, to: usize) {
        self.0.retain(|(node, of, _), _| (*node, of.index()) != (to, from));
    }

    /// Loses those of `node`, whose process ends.
    pub(crate) fn clear(&mut self, node: usize) {
        self.0.retain(|(of, _, _), _| *of != node);
    }
}

/// The parcel that these words are.
fn of_words(words: &[u64]) -> Parcel {
    let [text @ .., n_bytes, tag] = words else { unreachable!("a length and a tag") };
    let mut bytes = vec![0; 8 * text.len()];
    for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(text) {
        *place = word.to_le_bytes();
    }
    bytes.truncate(*n_bytes as usize);
    Parcel { tag: *tag, bulk: Bulk::new(bytes, 0) }
}

/// A parcel as the words of a verb.
pub(crate) fn to_words(parcel: &Parcel, words: &mut Vec<u64>) {
    words_of(&parcel.bulk, words);
    words.push(parcel.bulk.len() as u64);
    words.push(parcel.tag);
}
