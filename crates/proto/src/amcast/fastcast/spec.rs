//! FastCast in the registry.

use super::super::bugs::Bug;
use super::Fastcast;
use crate::planted::Planting;
use crate::registry::MulticastSpec;
use crate::table::{Ordering, Row};

/// FastCast, as the registry knows it.
#[derive(Clone, Copy, Debug)]
pub struct Spec;

impl MulticastSpec for Spec {
    const ROW: &'static Row = &Row {
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
    };
    const FOR_COMPARISON: bool = true;

    type Machine<P: Planting<Bug>> = Fastcast<P>;
}
