//! The deliveries of doors, and the check that they have one order.

use multicast::{Delivery, GroupId, GroupSet, MessageId, Timestamp};
use std::collections::BTreeMap;

/// A delivery: its place in the order, and its destinations.
type Place = (Timestamp, MessageId, GroupSet);

/// The deliveries of each (node, group), in order.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) by: BTreeMap<(usize, usize), Vec<Place>>,
}

impl Heard {
    pub(crate) fn note(&mut self, node: usize, delivery: &Delivery) {
        let message = &delivery.message;
        let of = self.by.entry((node, delivery.group.index())).or_default();
        of.push((delivery.at, message.id, message.dest));
    }

    pub(crate) fn counts(&self) -> Vec<((usize, usize), usize)> {
        self.by.iter().map(|(who, what)| (*who, what.len())).collect()
    }

    /// Checks that members of one group agree, up to the shorter's end; that all agree on
    /// timestamps; and that each order is that of (timestamp, name), without repetitions.
    pub(crate) fn judge(&self) {
        let mut stamps = BTreeMap::new();
        for ((node, group), what) in &self.by {
            for pair in what.windows(2) {
                assert!(pair[0] < pair[1], "node {node} group {group}: {pair:?}");
            }
            for (at, id, dest) in what {
                assert!(dest.contains(GroupId::at(*group)), "{id:?} is not addressed to {group}");
                let known = *stamps.entry(*id).or_insert(*at);
                assert_eq!(known, *at, "{id:?} has two timestamps");
            }
            for ((other, same), whose) in &self.by {
                if same == group {
                    let n = what.len().min(whose.len());
                    assert_eq!(what[..n], whose[..n], "nodes {node} and {other}, group {group}");
                }
            }
        }
    }
}
