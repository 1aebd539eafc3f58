//! Multi-Paxos, as the registry knows it.

use super::bugs::Bug;
use super::{MultiPaxos, Places};
use crate::claims::{Accepting, Acceptor, Entry, Reads};
use crate::node::{Layout, NodeConfig};
use crate::omega;
use crate::planted::Planting;
use crate::registry::{LogSpec, StartError};
use crate::table::{Ordering, Row};
use crate::{Host, LogShape};
use base::{At, Instant, Rank, Slot};

/// Multi-Paxos as it ships.
#[derive(Clone, Copy, Debug)]
pub struct Spec;

impl LogSpec for Spec {
    const ROW: &'static Row = &Row {
        name: "multipaxos",
        summary: "Two-sided Paxos with a stable leader and a read lease; for comparison",
        source: "Paxos Made Simple (Lamport 2001); leases as in Paxos Made Live (2007)",
        ordering: Ordering::LeaderTotal,
        consistency: "linearizable, if clocks run at rates at most 10 % from true",
        survives: "the crash of any minority",
        write_cost: "one message round trip to a majority",
        read_cost: "nothing at a leader with a lease, else one message round trip to a majority",
        leader_change: "one message round trip, one more for what is open; at most 50 ms of lease",
        fabrics: &["shm", "tcp", "sim"],
        needs: "",
        durability: &["memory-quorum"],
        members_change: false,
    };
    /// What promises and accepts is a process.
    const DEAD_MEMORY_COUNTS: bool = false;
    /// Of its leases.
    const NEEDS_STEADY_CLOCKS: bool = true;
    /// Of what comes by messages nothing is torn, compared or read in others' rings; and a follower
    /// forwards what it is asked to read.
    const UNMET: &'static [&'static str] =
        &["TornVerb", "FailedCas", "FailedCasOfLeader", "CaughtUpByRead", "FollowerRead"];
    const LEADER_ALONE_READS: bool = true;

    type Bug = Bug;
    type Machine<P: Planting<Bug>> = MultiPaxos<P>;

    fn layout(members: usize, shape: &LogShape) -> Layout {
        let places = places(shape);
        Layout::new("multipaxos 1", members, shape, places.end())
    }

    fn accepting(_members: usize, shape: &LogShape) -> Accepting {
        Accepting { places: places(shape).names(), stride: 1, mask: 0 }
    }

    fn entry(_members: usize, shape: &LogShape, region: &[u64], index: u32) -> Entry {
        places(shape).entry(region, index as usize)
    }

    fn acceptor<'a>(
        _members: usize,
        shape: &LogShape,
        region: &'a [u64],
        slot: Slot,
    ) -> Option<Acceptor<'a>> {
        Some(places(shape).inspect(region, slot))
    }

    fn reads(_members: usize, _shape: &LogShape) -> Reads {
        Reads::Unopposed
    }

    fn granted<P: Planting<Bug>>(machine: &MultiPaxos<P>, now: Instant) -> Option<Rank> {
        machine.granted_to(now)
    }

    fn start<P: Planting<Bug>, H: Host>(
        config: &NodeConfig,
        shape: &LogShape,
        planted: P,
        host: &mut H,
    ) -> Result<MultiPaxos<P>, StartError> {
        Ok(MultiPaxos::new(config, At(omega::N_WORDS), shape, planted, host))
    }
}

/// The places in a region, behind those of Ω.
fn places(shape: &LogShape) -> Places {
    Places::new(At(omega::N_WORDS), shape)
}
