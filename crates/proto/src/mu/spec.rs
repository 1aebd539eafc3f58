//! Mu in the registry.

use super::bugs::Bug;
use super::{Half, Mu, Places};
use crate::claims::{self, Accepting, Acceptor, By, Entry, Reads, Witness};
use crate::node::{Layout, NodeConfig};
use crate::omega;
use crate::planted::Planting;
use crate::registry::{LogSpec, StartError};
use crate::table::{Ordering, Row};
use crate::{Host, LogShape, value};
use base::{At, Ballot, Slot};

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

    fn accepting(_members: usize, shape: &LogShape) -> Accepting {
        let places = Places::new(At(omega::N_WORDS), shape);
        Accepting { places: places.log.0..places.probe().0, stride: places.area_words, mask: 0 }
    }

    fn entry(members: usize, shape: &LogShape, region: &[u64], index: u32) -> Entry {
        let Accepting { places, stride, .. } = Self::accepting(members, shape);
        let at = (places.start + index * stride) as usize;
        // A WRITE may be under way, or its writer may have been interrupted.
        let whole = value::decode(&region[at..at + stride as usize]);
        whole.map_or(Entry::Empty, |(label, _)| Entry::Holds(label.slot))
    }

    /// M5
    fn spoils(members: usize, shape: &LogShape, region: &[u64], at: At, words: &[u64]) -> bool {
        let places = Self::accepting(members, shape);
        let Some(label) = places.index(at.0).and_then(|_| value::label(words)) else {
            return false;
        };
        let places = Places::new(At(omega::N_WORDS), shape);
        let held = |half| {
            let at = places.entry(label.slot, half);
            let words = &region[at.0 as usize..][..places.area_words as usize];
            let found = value::decode(words).filter(|(found, _)| found.slot == label.slot);
            (at, found.map_or(Ballot::NONE, |(found, _)| found.ballot))
        };
        let [one, two] = Half::BOTH.map(held);
        let (there, other) = if one.0 == at { (one.1, two.1) } else { (two.1, one.1) };
        there > other && there < label.ballot
    }

    fn acceptor<'a>(
        _members: usize,
        shape: &LogShape,
        region: &'a [u64],
        slot: Slot,
    ) -> Option<Acceptor<'a>> {
        let places = Places::new(At(omega::N_WORDS), shape);
        let held = |half| {
            let at = places.entry(slot, half).0 as usize;
            let words = region.get(at..)?.get(..places.area_words as usize)?;
            let (label, _) = value::decode(words)?;
            (label.slot == slot).then(|| (label.ballot, claims::delivered(words)))
        };
        let accepted = Half::BOTH.into_iter().filter_map(held).max_by_key(|(ballot, _)| *ballot);
        let promised = Ballot(*region.get(places.promised().0 as usize)?);
        Some(Acceptor { promised, accepted })
    }

    fn reads(_members: usize, shape: &LogShape) -> Reads {
        let at = Places::new(At(omega::N_WORDS), shape).probe().0;
        Reads::Witnessed(Witness { places: at..at + 1, by: By::Write, vouches: |_, _| true })
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
