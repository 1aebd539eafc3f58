//! PrimCast in the registry.

use super::super::bugs::Bug;
use super::super::linear::Rule;
use super::Machine;
use crate::planted::Planting;
use crate::registry::{MulticastSpec, Variant};
use crate::table::{Ordering, Row};

/// PrimCast, as the registry knows it.
#[derive(Clone, Copy, Debug)]
pub struct Spec;

impl MulticastSpec for Spec {
    const ROW: &'static Row = &Row {
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
    };
    const VARIANTS: &'static [Variant] = &[
        Variant {
            row: &Row {
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
            rule: Rule::Plain,
            commutes: true,
        },
        Variant {
            row: &Row {
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
            rule: Rule::Hop,
            commutes: false,
        },
    ];
    const FOR_COMPARISON: bool = false;
    const TAKES_RULES: bool = true;
    const COMMUTES: bool = true;

    type Machine<P: Planting<Bug>> = Machine<P>;
}
