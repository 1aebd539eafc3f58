//! Velos in the registry.

use super::bugs::Bug;
use super::layout::ENTRY;
use super::learner::ENTRY_READ;
use super::word::{Narrow, SlotWord, Wide, Widths};
use super::{Machine, Places, rpc};
use crate::claims::{self, Accepting, Acceptor, By, Entry, Reads, Rising, Vouched, Witness};
use crate::node::{Layout, NodeConfig};
use crate::omega;
use crate::planted::Planting;
use crate::registry::{LogSpec, StartError};
use crate::table::{Ordering, Row};
use crate::{Host, LogShape, value};
use base::{At, Rank, Slot};
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
    /// A word that is wide enough for every ballot needs no message.
    const UNMET: &'static [&'static str] = if W::ARE_WIDE { &["MachineMessage"] } else { &[] };

    type Bug = Bug;
    type Machine<P: Planting<Bug>> = Machine<P, W>;

    fn layout(members: usize, shape: &LogShape) -> Layout {
        let places = places(members, shape);
        // The number after the name is the layout's version: raise it when a word changes its
        // meaning.
        Layout::new("velos 4", members, shape, places.end())
    }

    fn introduction(members: usize, shape: &LogShape, leader: Rank) -> Option<At> {
        Some(places(members, shape).fact(leader))
    }

    fn accepting(members: usize, shape: &LogShape) -> Accepting {
        let places = places(members, shape);
        let min_proposal = W::PACKING.sealed_ballot();
        let promise = W::PACKING.pack(SlotWord { min_proposal, ..SlotWord::default() });
        Accepting { places: places.all_slots(), stride: ENTRY, mask: !promise }
    }

    /// I8
    fn rising(members: usize, shape: &LogShape) -> Rising {
        let horizons = places(members, shape).horizons().0;
        horizons..horizons + base::MAX_MEMBERS as u32
    }

    fn entry(members: usize, shape: &LogShape, region: &[u64], index: u32) -> Entry {
        let places = places(members, shape);
        let place = Slot(u64::from(index));
        let word = word_at::<W>(&places, region, place);
        let Some((proposer, area)) = word.tag.place().filter(|_| word.has_value()) else {
            return Entry::Empty;
        };
        let at = places.area(place, proposer, area).0 as usize;
        match value::label(&region[at..]).map(|label| label.slot) {
            Some(slot) if W::PACKING.generation_of(slot, shape.ring_slots) == word.generation => {
                Entry::Holds(slot)
            }
            Some(_) | None => Entry::Torn,
        }
    }

    /// I5
    fn spoils(members: usize, shape: &LogShape, region: &[u64], at: At, words: &[u64]) -> bool {
        let places = places(members, shape);
        let Some((place, tag)) = places.area_of(at) else { return false };
        let word = word_at::<W>(&places, region, place);
        // A request by message may be repeated, with its value.
        let differs = || region[at.0 as usize..][..words.len()] != *words;
        word.has_value() && word.tag == tag && differs()
    }

    fn acceptor<'a>(
        members: usize,
        shape: &LogShape,
        region: &'a [u64],
        slot: Slot,
    ) -> Option<Acceptor<'a>> {
        let places = places(members, shape);
        let word = word_at::<W>(&places, region, slot);
        let held = || {
            let (proposer, area) = word.tag.place()?;
            let at = places.area(slot, proposer, area).0 as usize;
            let area = &region[at..at + places.area_words as usize];
            let (label, _) = value::decode(area)?;
            // The generation may have wrapped: the label names the slot.
            let is_of_slot = word.has_value() && label.slot == slot;
            is_of_slot.then(|| (word.accepted_proposal, claims::delivered(area)))
        };
        let is_covered = word.tag.place().is_none_or(|(proposer, _)| {
            let horizon = places.horizons().plus(proposer.index() as u32);
            region[horizon.0 as usize] > slot.0
        });
        Some(Acceptor { promised: word.min_proposal, accepted: held(), is_covered })
    }

    fn reads(members: usize, shape: &LogShape) -> Reads {
        let places = places(members, shape);
        Reads::Witnessed(Witness {
            places: places.all_slots(),
            by: By::Read,
            // The meaning of the words depends on the asker: `reads` R1, R2.
            vouches: |_, _| Some(Vouched::Memory),
        })
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

/// The state of the acceptor of `slot` in a region, whether sealed or not.
fn word_at<W: Widths>(places: &Places, region: &[u64], slot: Slot) -> SlotWord {
    let at = places.slot(slot).0 as usize;
    rpc::entry_word(W::PACKING, &region[at..at + ENTRY_READ])
}

/// The places in a region, behind those of Ω.
fn places(members: usize, shape: &LogShape) -> Places {
    Places::new(At(omega::N_WORDS), members, shape)
}
