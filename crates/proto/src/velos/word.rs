//! The slot word: an acceptor's whole state for one slot, small enough for one CAS (section 5.2).
//!
//! ```text
//!  63          52 51                    28 27                     4 3      0
//! +--------------+------------------------+------------------------+--------+
//! |  generation  |      min_proposal      |   accepted_proposal    |  tag   |   Packing::WIDE
//! +--------------+------------------------+------------------------+--------+
//! ```
//!
//! - I1 A word is a bijection of its fields: `unpack(pack(w)) == w` for every word that fits. By
//!   test over all widths.
//! - I2 `min_proposal` never falls, not even when the slot is recycled: so no stale expectation of
//!   a deposed proposer can ever match again, even after the generation wraps. By construction:
//!   every successor of a word is made by [`SlotWord::promised`], [`SlotWord::prepared`],
//!   [`SlotWord::accepting`] or [`SlotWord::sealed`], which assert it.
//!
//! **Differs from the paper.** The paper packs 31 + 31 + 2 bits and has no generation; two bits of
//! tag leave room for three proposers. Here the widths are parameters, so that tests can shrink
//! them until they overflow. The top value of `min_proposal` means *sealed*: this acceptor's slot
//! has left the CAS protocol and uses messages (the paper's fall-back to RPC).

use base::{Ballot, Rank, Slot};

/// The proposer and area that hold the accepted value, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tag(u8);

impl Tag {
    /// No value.
    pub const NONE: Tag = Tag(0);

    /// The tag's width in the word: two areas of each of seven proposers, or none.
    pub const BITS: u32 = 4;

    /// The value area `area` of `proposer`.
    pub const fn of(proposer: Rank, area: Area) -> Tag {
        Tag(1 + 2 * proposer.index() as u8 + area as u8)
    }

    /// The place of the value, or `None` for no value.
    pub const fn place(self) -> Option<(Rank, Area)> {
        match self.0 {
            0 => None,
            tag => match Rank::new(((tag - 1) / 2) as usize) {
                Some(rank) => Some((rank, if (tag - 1) % 2 == 0 { Area::Even } else { Area::Odd })),
                None => None,
            },
        }
    }

    /// An area of `proposer` that this tag does not refer to, so that writing there cannot destroy
    /// a value that may be chosen: `at_best` if it is one.
    pub const fn free_area(self, proposer: Rank, at_best: Area) -> Area {
        if self.0 != Tag::of(proposer, at_best).0 { at_best } else { at_best.other() }
    }

    /// The raw bits.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// From raw bits; what does not fit the width is cut off.
    pub const fn from_bits(bits: u8) -> Tag {
        Tag(bits & ((1 << Tag::BITS) - 1))
    }
}

/// A proposer has two value areas for each slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// The first.
    Even = 0,
    /// The second.
    Odd = 1,
}

/// The ordinal of the use that `slot` makes of its place, from 0.
const fn use_of(slot: Slot, ring_slots: u32) -> u64 {
    debug_assert!(ring_slots.is_power_of_two());
    slot.0 >> ring_slots.trailing_zeros()
}

impl Area {
    /// The area for this use of a ring's place: consecutive uses have different areas, and
    /// acceptors with different histories have the same, so that one's word predicts the other's.
    pub const fn of(slot: Slot, ring_slots: u32) -> Area {
        if use_of(slot, ring_slots) & 1 == 0 { Area::Even } else { Area::Odd }
    }

    /// The area that this is not.
    #[must_use]
    pub const fn other(self) -> Area {
        match self {
            Area::Even => Area::Odd,
            Area::Odd => Area::Even,
        }
    }
}

/// The division of 64 bits into the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    generation_bits: u32,
    proposal_bits: u32,
}

impl Packing {
    /// 12 bits of generation, 24 of each proposal number: two million leader changes.
    pub const WIDE: Packing = Packing::new(12, 24);

    /// The widths of `generation` and of each of the two proposal numbers; the tag has
    /// [`Tag::BITS`].
    ///
    /// # Panics
    /// If they do not fit into 64 bits, or are too small to mean anything (5 bits of proposal hold
    /// one round below the limit).
    pub const fn new(generation_bits: u32, proposal_bits: u32) -> Packing {
        assert!(generation_bits >= 1 && proposal_bits >= 5);
        assert!(generation_bits + 2 * proposal_bits + Tag::BITS <= 64);
        Packing { generation_bits, proposal_bits }
    }

    /// The first ballot that does not fit and needs messages (the paper's 2^31 - |Π|).
    pub const fn ballot_limit(self) -> Ballot {
        Ballot((1 << self.proposal_bits) - Ballot::STRIDE)
    }

    /// The `min_proposal` of a slot that uses messages.
    pub const fn sealed_ballot(self) -> Ballot {
        Ballot((1 << self.proposal_bits) - 1)
    }

    /// The use of the ring (of `ring_slots`, a power of two) that `slot` belongs to, modulo the
    /// width.
    pub const fn generation_of(self, slot: Slot, ring_slots: u32) -> Generation {
        Generation((use_of(slot, ring_slots) & ((1 << self.generation_bits) - 1)) as u32)
    }

    /// The word of these fields.
    ///
    /// # Panics
    /// If a field does not fit: our own bug, and silent truncation would forget a promise.
    pub const fn pack(self, word: SlotWord) -> u64 {
        let top = 1u64 << self.proposal_bits;
        assert!(word.min_proposal.0 < top && word.accepted_proposal.0 < top);
        assert!((word.generation.0 as u64) < 1 << self.generation_bits);
        ((((word.generation.0 as u64) << self.proposal_bits | word.min_proposal.0)
            << self.proposal_bits)
            | word.accepted_proposal.0)
            << Tag::BITS
            | word.tag.0 as u64
    }

    /// The fields of this word. Total: any 64 bits are some word.
    pub const fn unpack(self, raw: u64) -> SlotWord {
        let proposal = (1u64 << self.proposal_bits) - 1;
        let above_tag = raw >> Tag::BITS;
        SlotWord {
            generation: Generation(
                ((above_tag >> (2 * self.proposal_bits)) & ((1 << self.generation_bits) - 1))
                    as u32,
            ),
            min_proposal: Ballot((above_tag >> self.proposal_bits) & proposal),
            accepted_proposal: Ballot(above_tag & proposal),
            tag: Tag::from_bits(raw as u8),
        }
    }
}

/// The use of a ring's place, modulo the width.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Generation(pub u32);

/// An acceptor's state for one slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SlotWord {
    /// The use of the ring's place.
    pub generation: Generation,
    /// The ballot below which nothing is accepted.
    pub min_proposal: Ballot,
    /// The ballot under which a value was accepted last in this generation; or none.
    pub accepted_proposal: Ballot,
    /// The place of that value.
    pub tag: Tag,
}

impl SlotWord {
    /// The word after a prepare by `ballot` for `generation`. If the word is of another (older)
    /// generation this recycles the slot: the value is dropped, the promise stays.
    #[must_use]
    pub const fn prepared(self, generation: Generation, ballot: Ballot) -> SlotWord {
        assert!(ballot.0 >= self.min_proposal.0, "I2: min_proposal never falls");
        if self.generation.0 == generation.0 {
            SlotWord { min_proposal: ballot, ..self }
        } else {
            SlotWord {
                generation,
                min_proposal: ballot,
                accepted_proposal: Ballot::NONE,
                tag: Tag::NONE,
            }
        }
    }

    /// The word after a promise of `ballot` alone, whatever use of the place this is: from now on
    /// no lower ballot can change it.
    #[must_use]
    pub const fn promised(self, ballot: Ballot) -> SlotWord {
        assert!(ballot.0 >= self.min_proposal.0, "I2: min_proposal never falls");
        SlotWord { min_proposal: ballot, ..self }
    }

    /// The word after an accept by `ballot` for `generation`.
    #[must_use]
    pub const fn accepting(self, generation: Generation, ballot: Ballot, tag: Tag) -> SlotWord {
        assert!(ballot.0 >= self.min_proposal.0, "I2: min_proposal never falls");
        SlotWord { generation, min_proposal: ballot, accepted_proposal: ballot, tag }
    }

    /// The word out of the CAS protocol, with its value.
    #[must_use]
    pub const fn sealed(self, packing: Packing) -> SlotWord {
        SlotWord { min_proposal: packing.sealed_ballot(), ..self }
    }

    /// Whether it is out of the CAS protocol.
    pub const fn is_sealed(self, packing: Packing) -> bool {
        self.min_proposal.0 == packing.sealed_ballot().0
    }

    /// Whether it holds an accepted value.
    pub const fn has_value(self) -> bool {
        self.accepted_proposal.0 != 0
    }
}

/// The widths of the slot words of a machine.
pub trait Widths: core::fmt::Debug + 'static {
    /// The widths.
    const PACKING: Packing;

    /// Whether no ballot that a run of years brings about overflows them.
    const ARE_WIDE: bool;
}

/// The widths that are released.
#[derive(Clone, Copy, Debug, Hash)]
pub enum Wide {}

impl Widths for Wide {
    const PACKING: Packing = Packing::WIDE;
    const ARE_WIDE: bool = true;
}

/// Widths so narrow that a few leader changes overflow them, for simulations.
#[derive(Clone, Copy, Debug, Hash)]
pub enum Narrow {}

impl Widths for Narrow {
    const PACKING: Packing = Packing::new(2, 6);
    const ARE_WIDE: bool = false;
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{MAX_MEMBERS, Rng};

    #[test]
    fn i1_a_word_is_a_bijection_of_its_fields() {
        let mut rng = Rng::new(1);
        for (g, p) in [(2, 5), (12, 24), (16, 22), (8, 26), (4, 28), (3, 6)] {
            let packing = Packing::new(g, p);
            for _ in 0..2000 {
                let word = SlotWord {
                    generation: Generation(rng.below(1 << g) as u32),
                    min_proposal: Ballot(rng.below(1 << p)),
                    accepted_proposal: Ballot(rng.below(1 << p)),
                    tag: Tag::from_bits(rng.below(16) as u8),
                };
                assert_eq!(packing.unpack(packing.pack(word)), word);
            }
        }
    }

    #[test]
    fn a_zeroed_region_is_a_fresh_acceptor() {
        assert_eq!(Packing::WIDE.unpack(0), SlotWord::default());
        assert!(!SlotWord::default().has_value());
    }

    #[test]
    fn every_proposers_areas_have_tags_of_their_own() {
        let mut seen = alloc::vec::Vec::from([Tag::NONE]);
        for rank in Rank::all(MAX_MEMBERS) {
            for area in [Area::Even, Area::Odd] {
                let tag = Tag::of(rank, area);
                assert_eq!(tag.place(), Some((rank, area)));
                assert_eq!(tag.free_area(rank, area), area.other(), "never what is referred to");
                assert_eq!(tag.free_area(rank, area.other()), area.other());
                assert!(!seen.contains(&tag));
                seen.push(tag);
            }
        }
        assert_eq!(Tag::from_bits(15).place(), None);
    }

    #[test]
    fn recycling_keeps_the_promise_and_drops_the_value() {
        let rank = Rank::at(1);
        let word = SlotWord::default().prepared(Generation(0), Ballot(9)).accepting(
            Generation(0),
            Ballot(9),
            Tag::of(rank, Area::Odd),
        );
        let recycled = word.prepared(Generation(1), Ballot(9));
        assert_eq!(recycled.min_proposal, Ballot(9));
        assert!(!recycled.has_value());
        let again = word.prepared(Generation(0), Ballot(10));
        assert!(again.has_value() && again.min_proposal == Ballot(10));
    }

    #[test]
    #[should_panic(expected = "I2")]
    fn i2_a_promise_never_falls() {
        let word = SlotWord::default().prepared(Generation(0), Ballot(9));
        let _ = word.prepared(Generation(1), Ballot(8));
    }

    #[test]
    fn no_ballot_of_the_cas_protocol_looks_sealed() {
        let packing = Packing::new(2, 5);
        for floor in 0..packing.ballot_limit().0 {
            let ballot = Ballot::above(Ballot(floor), Rank::at(6));
            assert!(ballot >= packing.ballot_limit() || ballot != packing.sealed_ballot());
        }
        let sealed = SlotWord::default().sealed(packing);
        assert!(sealed.is_sealed(packing));
        assert_eq!(packing.unpack(packing.pack(sealed)), sealed);
    }
}
