//! Mu in the registry.

use super::bugs::Bug;
use super::{Half, Mu, Places};
use crate::claims::{self, Accepting, Acceptor, By, Entry, Reads, Vouched, Witness};
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
    /// A protocol that writes without compare-and-swap never sees one fail, and has neither a ring
    /// nor effects that others could see halfway.
    const UNMET: &'static [&'static str] =
        &["FailedCas", "FailedCasOfLeader", "CaughtUpByRead", "OthersBetween"];
    const LEADER_ALONE_READS: bool = true;

    type Bug = Bug;
    type Machine<P: Planting<Bug>> = Mu<P>;

    fn layout(members: usize, shape: &LogShape) -> Layout {
        let places = places(shape);
        Layout::new("mu 3", members, shape, places.end())
    }

    fn accepting(_members: usize, shape: &LogShape) -> Accepting {
        let places = places(shape);
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
        let is_entry = Self::accepting(members, shape).index(at.0).is_some();
        let Some(label) = value::label(words).filter(|_| is_entry) else { return false };
        let places = places(shape);
        let [one, two] = Half::BOTH.map(|half| {
            let held = held(&places, region, label.slot, half);
            held.map_or(Ballot::NONE, |(ballot, _)| ballot)
        });
        let is_first = places.entry(label.slot, Half::BOTH[0]) == at;
        let (there, other) = if is_first { (one, two) } else { (two, one) };
        there > other && there < label.ballot
    }

    fn acceptor<'a>(
        _members: usize,
        shape: &LogShape,
        region: &'a [u64],
        slot: Slot,
    ) -> Option<Acceptor<'a>> {
        let places = places(shape);
        let halves = Half::BOTH.into_iter().filter_map(|half| held(&places, region, slot, half));
        let newest = halves.max_by_key(|(ballot, _)| *ballot);
        let accepted = newest.map(|(ballot, words)| (ballot, claims::delivered(words)));
        let promised = Ballot(region[places.promised().0 as usize]);
        Some(Acceptor { promised, accepted, is_covered: true })
    }

    fn reads(_members: usize, shape: &LogShape) -> Reads {
        let at = places(shape).probe().0;
        let vouches = |_: &[u64], _| Some(Vouched::Memory);
        Reads::Witnessed(Witness { places: at..at + 1, by: By::Write, vouches })
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

/// The whole entry of `slot` in one half of its place, and its ballot.
fn held<'a>(
    places: &Places,
    region: &'a [u64],
    slot: Slot,
    half: Half,
) -> Option<(Ballot, &'a [u64])> {
    let at = places.entry(slot, half).0 as usize;
    let words = &region[at..][..places.area_words as usize];
    let (label, _) = value::decode(words)?;
    (label.slot == slot).then_some((label.ballot, words))
}

/// The places in a region, behind those of Ω.
fn places(shape: &LogShape) -> Places {
    Places::new(At(omega::N_WORDS), shape)
}
