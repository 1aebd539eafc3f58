//! ABD, as the registry knows it.

use super::Abd;
use super::bugs::Bug;
use crate::keyed::KeyedConfig;
use crate::node::Layout;
use crate::planted::Planting;
use crate::registry::KeyedSpec;
use crate::table::{Ordering, Row};

/// ABD as it ships.
#[derive(Clone, Copy, Debug)]
pub struct Spec;

impl KeyedSpec for Spec {
    const ROW: &'static Row = &Row {
        name: "abd",
        summary: "Registers, each kept by itself: no leader, no commands of several keys",
        source: "Attiya, Bar-Noy, Dolev; Odyssey (EuroSys 2021), ABD",
        ordering: Ordering::Versions,
        consistency: "linearizable, each key by itself",
        survives: "the crash of any minority",
        write_cost: "two message round trips to a majority, from any member",
        read_cost: "one round trip to a majority, two while the key is written",
        leader_change: "none: there is no leader",
        fabrics: &["shm", "tcp", "sim"],
        needs: "",
        durability: &["memory-quorum"],
        members_change: false,
    };

    type Bug = Bug;
    type Machine<P: Planting<Bug>> = Abd<P>;

    fn layout(members: usize) -> Layout {
        Layout::of_messages("abd 1", members)
    }

    fn start<P: Planting<Bug>>(config: &KeyedConfig, planted: P) -> Abd<P> {
        Abd::with(config, planted)
    }
}
