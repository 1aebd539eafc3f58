//! Mu in the registry.

use super::bugs::Bug;
use super::{Mu, Places};
use crate::node::{Layout, NodeConfig};
use crate::omega;
use crate::planted::Planting;
use crate::registry::{LogSpec, StartError};
use crate::table::{Ordering, Row};
use crate::{Host, LogShape};
use base::At;

/// The Mu that is released.
#[derive(Clone, Copy, Debug)]
pub struct Spec;

impl LogSpec for Spec {
    const ROW: &'static Row = &Row {
        name: "mu",
        summary: "One-sided writes under a permission; tcp only",
        source: "Mu (OSDI 2020), as Velos compares with it",
        ordering: Ordering::LeaderTotal,
        consistency: "linearizable",
        survives: "the crash of any minority",
        write_cost: "one WRITE round trip to a majority",
        read_cost: "one WRITE round trip to a majority, at the leader, batched",
        leader_change: "one message round trip for permissions, one READ, one WRITE",
        fabrics: &["tcp", "sim"],
        needs: "memory that can refuse a writer",
        durability: &["memory-quorum"],
        members_change: false,
    };
    const DEAD_MEMORY_COUNTS: bool = true;

    type Bug = Bug;
    type Machine<P: Planting<Bug>> = Mu<P>;

    fn layout(members: usize, shape: &LogShape) -> Layout {
        let places = Places::new(At(omega::N_WORDS), shape);
        Layout::new("mu 3", members, shape, places.end())
    }

    fn start<P: Planting<Bug>, H: Host>(
        config: &NodeConfig,
        shape: &LogShape,
        planted: P,
        host: &mut H,
    ) -> Result<Mu<P>, StartError> {
        Ok(Mu::new(config, At(omega::N_WORDS), shape, planted, host)?)
    }
}
