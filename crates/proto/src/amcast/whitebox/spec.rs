//! White-Box in the registry.

use super::super::bugs::Bug;
use super::Whitebox;
use crate::planted::Planting;
use crate::registry::MulticastSpec;
use crate::table::{Ordering, Row};

/// White-Box, as the registry knows it.
#[derive(Clone, Copy, Debug)]
pub struct Spec;

impl MulticastSpec for Spec {
    const ROW: &'static Row = &Row {
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
    };
    const FOR_COMPARISON: bool = true;

    type Machine<P: Planting<Bug>> = Whitebox<P>;
}
