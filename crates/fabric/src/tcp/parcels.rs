//! The parcels that peers have put beside this node's region, and that were not taken.
//!
//! - Q1 *Of one link.* What a link has brought and was not taken goes when it breaks (T11), so a
//!   parcel of an old link is not found behind the `LinkUp` of a new one. By `lose`, the one place
//!   where links end. Tested by `a_parcel_of_a_broken_link_is_gone`.
//! - Q2 *Bounded.* A place has one parcel of a peer, the last. At most [`PARCELS_BYTES_MAX`] of a
//!   peer are kept: more cost it the link, and so what is kept.

use super::PARCELS_BYTES_MAX;
use super::status::LinkError;
use base::{At, FABRIC_SEATS_MAX, Parcel, Rank};
use std::collections::BTreeMap;

/// What a parcel costs beside its bytes (Q2): its place in the tree, and two allocations.
const PARCEL_BYTES: usize = 128;

fn cost(parcel: &Parcel) -> usize {
    parcel.bulk.len() + PARCEL_BYTES
}

/// See the module's text.
pub(super) struct Parcels {
    kept: BTreeMap<(Rank, At), Parcel>,
    /// The number of bytes of each peer's, with those that each parcel costs.
    n_bytes: [usize; FABRIC_SEATS_MAX],
}

impl Parcels {
    pub(super) fn new() -> Parcels {
        Parcels { kept: BTreeMap::new(), n_bytes: [0; FABRIC_SEATS_MAX] }
    }

    /// Keeps a parcel of `from`, in place of the one that is there.
    pub(super) fn put(&mut self, from: Rank, at: At, parcel: Parcel) -> Result<(), LinkError> {
        let n_bytes = &mut self.n_bytes[from.index()];
        *n_bytes += cost(&parcel);
        if let Some(last) = self.kept.insert((from, at), parcel) {
            *n_bytes -= cost(&last);
        }
        if *n_bytes > PARCELS_BYTES_MAX { Err(LinkError::ParcelsFull) } else { Ok(()) }
    }

    /// Takes it.
    pub(super) fn take(&mut self, from: Rank, at: At) -> Option<Parcel> {
        let parcel = self.kept.remove(&(from, at))?;
        self.n_bytes[from.index()] -= cost(&parcel);
        Some(parcel)
    }

    /// Q1
    pub(super) fn forget(&mut self, from: Rank) {
        self.kept.retain(|(of, _), _| *of != from);
        self.n_bytes[from.index()] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Bulk;

    #[test]
    fn q2_a_place_has_the_last_parcel_of_a_peer_and_a_peer_a_bound() {
        let parcel = |tag, n| Parcel { tag, bulk: Bulk::new(vec![0; n], 0) };
        let (one, other) = (Rank::at(0), Rank::at(1));
        let most = PARCELS_BYTES_MAX - PARCEL_BYTES;
        let mut parcels = Parcels::new();
        for tag in 0..3 {
            assert_eq!(parcels.put(one, At(7), parcel(tag, most)), Ok(()));
        }
        assert_eq!(parcels.put(other, At(7), parcel(9, most)), Ok(()));
        assert_eq!(parcels.take(one, At(8)), None);
        assert_eq!(parcels.take(one, At(7)).map(|parcel| parcel.tag), Some(2));
        assert_eq!(parcels.take(one, At(7)), None);
        assert_eq!(parcels.put(one, At(7), parcel(3, most)), Ok(()));
        assert_eq!(parcels.put(one, At(8), parcel(4, 1)), Err(LinkError::ParcelsFull));
        parcels.forget(one);
        assert_eq!((parcels.take(one, At(7)), parcels.take(one, At(8))), (None, None));
        assert_eq!(parcels.put(one, At(8), parcel(5, most)), Ok(()));
        assert_eq!(parcels.take(other, At(7)).map(|parcel| parcel.tag), Some(9));
    }
}
