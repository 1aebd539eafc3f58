//! Skeen in the registry.

use super::super::bugs::Bug;
use super::Skeen;
use crate::planted::Planting;
use crate::registry::MulticastSpec;
use crate::table::{Ordering, Row};

/// Skeen, as the registry knows it.
#[derive(Clone, Copy, Debug)]
pub struct Spec;

impl MulticastSpec for Spec {
    const ROW: &'static Row = &Row {
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
    };
    const FOR_COMPARISON: bool = true;
    const TAKES_RULES: bool = true;

    type Machine<P: Planting<Bug>> = Skeen<P>;
}
