//! The order, promises and fault tolerance of each protocol, as data: the documentation and
//! `gregale protocols` print it from here (Odyssey, tables 1 and 2).

use crate::registry::{MulticastProtocol, rows};

/// One protocol's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name on the command line.
    pub name: &'static str,
    /// The description, in half a sentence.
    pub summary: &'static str,
    /// The paper that describes it.
    pub source: &'static str,
    /// The kind of ordering.
    pub ordering: Ordering,
    /// The consistency that a client sees.
    pub consistency: &'static str,
    /// The crashes that it survives without losing an acknowledged update.
    pub survives: &'static str,
    /// The cost of a write when nothing fails.
    pub write_cost: &'static str,
    /// The cost of a linearizable read.
    pub read_cost: &'static str,
    /// The course of a leader's replacement.
    pub leader_change: &'static str,
    /// The fabrics that it runs on.
    pub fabrics: &'static [&'static str],
    /// The property of memory that the fabrics missing in the list lack; otherwise empty.
    pub needs: &'static str,
    /// The durability modes that it can give.
    pub durability: &'static [&'static str],
    /// Whether members can be added, removed and replaced while it runs.
    pub members_change: bool,
}

impl Row {
    /// Whether it can give this durability.
    pub fn gives(&self, durability: &str) -> bool {
        self.durability.contains(&durability)
    }
}

/// The source of the order, and its extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordering {
    /// A leader orders all updates.
    LeaderTotal,
    /// None: the writes of each key have versions, those of different keys no order.
    Versions,
    /// The senders of a view take turns.
    RoundRobin,
    /// Each destination group timestamps a message; the largest decides.
    Timestamps,
}

impl Ordering {
    /// The name in the paper's taxonomy.
    pub const fn name(self) -> &'static str {
        match self {
            Ordering::LeaderTotal => "leader, total order",
            Ordering::Versions => "versions, each key by itself",
            Ordering::RoundRobin => "turns of senders, total order",
            Ordering::Timestamps => "timestamps of groups, acyclic partial order",
        }
    }
}

/// Every protocol of groups with views.
pub const GROUPS: &[Row] = &[crate::vsync::ROW];

/// The rows of all protocols, by family; the options of a protocol may have rows of their own.
pub fn all() -> impl Iterator<Item = &'static Row> {
    let multicasts = MulticastProtocol::variants().map(|(_, variant)| variant.row);
    rows().chain(multicasts).chain(GROUPS)
}

/// The row of `name`.
pub fn protocol(name: &str) -> Option<&'static Row> {
    all().find(|row| row.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for row in all() {
            assert_eq!(protocol(row.name), Some(row));
            assert_eq!(all().filter(|other| other.name == row.name).count(), 1);
        }
        assert_eq!(protocol("paxos"), None);
    }
}
