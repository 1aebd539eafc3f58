//! The promises of a group, a file each. Each states the property, and why a report is never a
//! false alarm; each is tested on made-up histories.

mod ahead;
mod copies;
mod durability;
mod kept;
mod leases;
mod minority;
mod same_trim;
mod sender_fifo;
mod shards;
mod state_kept;
mod times;
mod total_order;
mod validity;
mod view_agreement;
mod virtual_synchrony;

use super::history::History;
use crate::Property;

type Check = fn(&History) -> Result<(), String>;

/// Each property with its check, the most telling first: those of every group ...
const OF_ALL: [(Property, Check); 6] = [
    (Property::ViewAgreement, view_agreement::check),
    (Property::Minority, minority::check),
    (Property::Shards, shards::check),
    (Property::Validity, validity::check),
    (Property::Restored, durability::reborn),
    (Property::Times, times::causes),
];

/// ... those of every shard of one ...
const OF_SHARDS: [(Property, Check); 1] = [(Property::SenderFifo, sender_fifo::check)];

/// ... and those of every shard with an order.
const OF_ORDERED: [(Property, Check); 10] = [
    (Property::TotalOrder, total_order::check),
    (Property::SameTrim, same_trim::check),
    (Property::VirtualSynchrony, virtual_synchrony::check),
    (Property::Kept, kept::check),
    (Property::Digest, copies::check),
    (Property::StateKept, state_kept::check),
    (Property::Restored, durability::check),
    (Property::Times, times::check),
    (Property::Ahead, ahead::check),
    (Property::Leases, leases::check),
];

/// The first property that does not hold.
pub(super) fn judge(history: &History) -> Result<(), (Property, String)> {
    for (property, check) in &OF_ALL {
        check(history).map_err(|detail| (*property, detail))?;
    }
    for ((shard, since), history) in history.shards() {
        let of_ordered = if history.is_unordered { &[][..] } else { &OF_ORDERED };
        for (property, check) in OF_SHARDS.iter().chain(of_ordered) {
            let told = |detail| (*property, format!("shard {shard} since view {since}: {detail}"));
            check(&history).map_err(told)?;
        }
    }
    Ok(())
}
