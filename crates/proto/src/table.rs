//! The order, promises and fault tolerance of each protocol, as data: the documentation and
//! `gregale protocols` print it from here (Odyssey, tables 1 and 2).

use crate::registry::rows;

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

/// Every protocol of atomic multicast. A message's cost is in communication steps to the last
/// destination: alone, and among others.
pub const MULTICASTS: &[Row] = &[
    Row {
        name: "skeen",
        summary: "Atomic multicast without failures: the root of the others",
        source: "paper 004, section 5.3",
        ordering: Ordering::Timestamps,
        consistency: "global total order; atomic global order with a real-time rule",
        survives: "nothing: one process a group",
        write_cost: "2 steps alone, 4 among others; 3 alone with a real-time rule",
        read_cost: "as a write",
        leader_change: "none",
        fabrics: &["shm", "tcp", "sim"],
        needs: "",
        durability: &["none"],
        members_change: false,
    },
    Row {
        name: "whitebox",
        summary: "Atomic multicast, three steps to leaders and four to others",
        source: "paper 004, section 4.6.2",
        ordering: Ordering::Timestamps,
        consistency: "global total order, uniform prefix order",
        survives: "the crash of any minority of each group",
        write_cost: "4 steps alone, 6 among others (leaders: 3 and 5)",
        read_cost: "as a write",
        leader_change: "two message round trips in the group",
        fabrics: &["shm", "tcp", "sim"],
        needs: "",
        durability: &["memory-quorum"],
        members_change: false,
    },
    Row {
        name: "fastcast",
        summary: "Atomic multicast by guessed timestamps and two rounds of consensus",
        source: "paper 004, section 4.6.1",
        ordering: Ordering::Timestamps,
        consistency: "global total order, uniform prefix order",
        survives: "the crash of any minority of each group",
        write_cost: "4 steps alone, at most 8 among others",
        read_cost: "as a write",
        leader_change: "two message round trips in the group",
        fabrics: &["shm", "tcp", "sim"],
        needs: "",
        durability: &["memory-quorum"],
        members_change: false,
    },
    Row {
        name: "primcast",
        summary: "Atomic multicast in three steps to everybody; for a keyspace in partitions",
        source: "paper 004, chapter 4",
        ordering: Ordering::Timestamps,
        consistency: "global total order, uniform prefix order",
        survives: "the crash of any minority of each group",
        write_cost: "3 steps alone, 5 among others, at every destination",
        read_cost: "as a write",
        leader_change: "two message round trips in the group",
        fabrics: &["shm", "tcp", "sim"],
        needs: "",
        durability: &["memory-quorum"],
        members_change: false,
    },
    Row {
        name: "primcast-commuting",
        summary: "The same with messages that may overtake each other if they do not conflict",
        source: "paper 004, section 4.4.3",
        ordering: Ordering::Timestamps,
        consistency: "global total order and prefix order of messages that conflict",
        survives: "the crash of any minority of each group",
        write_cost: "3 steps alone and among messages that commute, 5 among those that conflict",
        read_cost: "as a write",
        leader_change: "two message round trips in the group",
        fabrics: &["shm", "tcp", "sim"],
        needs: "",
        durability: &["memory-quorum"],
        members_change: false,
    },
    Row {
        name: "primcast-linearizable",
        summary: "The same with real-time order across groups",
        source: "paper 004, chapters 4 and 5; docs/protocols/linearizable-multicast.md",
        ordering: Ordering::Timestamps,
        consistency: "atomic global order: partitions are linearizable together",
        survives: "the crash of any minority of each group",
        write_cost: "3 steps alone; among others 3(groups - 1) by hop, 5 by all-groups",
        read_cost: "as a write",
        leader_change: "two message round trips in the group",
        fabrics: &["shm", "tcp", "sim"],
        needs: "",
        durability: &["memory-quorum"],
        members_change: false,
    },
];

/// Every protocol of groups with views.
pub const GROUPS: &[Row] = &[crate::vsync::ROW];

/// The row of `name`.
pub fn protocol(name: &str) -> Option<&'static Row> {
    rows().chain(MULTICASTS).chain(GROUPS).find(|row| row.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for row in rows().chain(MULTICASTS).chain(GROUPS) {
            assert_eq!(protocol(row.name), Some(row));
            let same =
                rows().chain(MULTICASTS).chain(GROUPS).filter(|other| other.name == row.name);
            assert_eq!(same.count(), 1);
        }
        assert_eq!(protocol("paxos"), None);
    }
}
