//! Velos in the registry.

use super::bugs::Bug;
use super::word::{Narrow, Wide, Widths};
use super::{Machine, Places};
use crate::node::{Layout, NodeConfig};
use crate::omega;
use crate::planted::Planting;
use crate::registry::{LogSpec, StartError};
use crate::table::{Ordering, Row};
use crate::{Host, LogShape};
use base::{At, Rank};
use core::marker::PhantomData;

/// Velos with slot words of these widths.
#[derive(Clone, Copy, Debug)]
pub struct Of<W>(PhantomData<W>);

/// The Velos that is released.
pub type Spec = Of<Wide>;

/// Velos with words that overflow after a few leader changes.
pub type NarrowSpec = Of<Narrow>;

impl<W: Widths + Copy> LogSpec for Of<W> {
    const ROW: &'static Row = &Row {
        name: "velos",
        summary: "One-sided Paxos",
        source: "Velos, sections 4 and 5",
        ordering: Ordering::LeaderTotal,
        consistency: "linearizable",
        survives: "the crash of any minority",
        write_cost: "one WRITE and one CAS round trip to a majority",
        read_cost: "one READ round trip to a majority, at any member, batched",
        leader_change: "one CAS round trip, then the undecided slots",
        fabrics: &["shm", "tcp", "sim"],
        needs: "",
        durability: &["memory-quorum"],
        members_change: true,
    };
    const DEAD_MEMORY_COUNTS: bool = true;

    type Bug = Bug;
    type Machine<P: Planting<Bug>> = Machine<P, W>;

    fn layout(members: usize, shape: &LogShape) -> Layout {
        let places = Places::new(At(omega::N_WORDS), members, shape);
        // The number after the name is the layout's version: raise it when a word changes its
        // meaning.
        Layout::new("velos 4", members, shape, places.end())
    }

    fn introduction(members: usize, shape: &LogShape, leader: Rank) -> Option<At> {
        Some(Places::new(At(omega::N_WORDS), members, shape).fact(leader))
    }

    fn start<P: Planting<Bug>, H: Host>(
        config: &NodeConfig,
        shape: &LogShape,
        planted: P,
        host: &mut H,
    ) -> Result<Machine<P, W>, StartError> {
        Ok(Machine::new(config, At(omega::N_WORDS), shape, planted, host))
    }

    fn n_caught_up<P: Planting<Bug>>(machine: &Machine<P, W>) -> u64 {
        machine.counters().applied_from_fetch
    }
}
