//! Durable in the registry.

use super::bugs::Bug;
use super::places::Published;
use super::{Durable, Places, places};
use crate::claims::{By, Reads, Vouched, Witness};
use crate::node::{Layout, NodeConfig};
use crate::omega;
use crate::planted::Planting;
use crate::registry::{LogSpec, StartError};
use crate::table::{Ordering, Row};
use crate::{Host, LogShape};
use base::{At, Ballot};

/// The Durable that is released.
#[derive(Clone, Copy, Debug)]
pub struct Spec;

impl LogSpec for Spec {
    const ROW: &'static Row = &Row {
        name: "durable",
        summary: "One-sided writes into logs on disk; for the durable modes",
        source: "Falcon (published as APUS), sections 2 and 4, with elections of our own",
        ordering: Ordering::LeaderTotal,
        consistency: "linearizable",
        survives: "the crash of any minority for good, and a power cut of all",
        write_cost: "one WRITE round trip to a majority, and its and the leader's disk sync",
        read_cost: "one READ round trip to a majority, at the leader, batched",
        leader_change: "two syncs, one after the other, two message round trips, one decision",
        fabrics: &["shm", "tcp", "sim"],
        needs: "",
        durability: &["disk-quorum", "disk-all"],
        members_change: true,
    };
    /// A process with its disk votes and acknowledges, not memory alone.
    const DEAD_MEMORY_COUNTS: bool = false;
    /// Reads are the leader's: that it has lost the lead when it answers one takes some 1,000
    /// seeds.
    const UNMET: &'static [&'static str] = &["FollowerRead"];
    const LEADER_ALONE_READS: bool = true;

    type Bug = Bug;
    type Machine<P: Planting<Bug>> = Durable<P>;

    fn layout(members: usize, shape: &LogShape) -> Layout {
        let places = places(members, shape);
        Layout::new("durable 3", members, shape, places.end())
    }

    fn reads(members: usize, shape: &LogShape) -> Reads {
        let at = places(members, shape).promised().0;
        let vouches = |words: &[u64], ballot: Ballot| {
            let published = Published::decode(words).filter(|of| of.promised <= ballot)?;
            Some(Vouched::Disk(published.by))
        };
        let places = at..at + places::PUBLISHED_WORDS as u32;
        Reads::Witnessed(Witness { places, by: By::ReadOfPeers, vouches })
    }

    fn start<P: Planting<Bug>, H: Host>(
        config: &NodeConfig,
        shape: &LogShape,
        planted: P,
        host: &mut H,
    ) -> Result<Durable<P>, StartError> {
        Ok(Durable::new(config, At(omega::N_WORDS), shape, planted, host)?)
    }
}

/// The places in a region, behind those of Ω.
fn places(members: usize, shape: &LogShape) -> Places {
    Places::new(At(omega::N_WORDS), members, shape)
}
