//! The layout of a member's region.
//!
//! ```text
//! highest     8 words   the highest ballot that the owner ever used, and its
//!                       incarnation                                           written by the owner
//! applied     8 x 7     the prefix that member m has applied, and a seal that
//!                       says which incarnation of it                          written by m
//! facts       8 x 7     (ballot n, decided prefix d), published by leader m   written by m
//! horizons    8         no slot from here on was ever prepared here by m      written by m
//! slots       4 x ring  the slot word, changed by CAS only; and, once it is
//!                       sealed: min_proposal, accepted word                   written by the owner
//! areas       ring x members x 2 areas of (6 + value) words               written by the proposer
//! ```
//!
//! - I1 Every word that is not changed by CAS has exactly one writer, the one named above. By
//!   construction: the parts do not overlap (test), and each part's writer is in its index.

use super::word::{Area, Tag};
use crate::LogShape;
use crate::value::HEADER_WORDS;
use base::{At, MAX_MEMBERS, Rank, Slot};

/// One cache line, so that two writers never share one.
const LINE: u32 = 8;
/// The slot word and the two words of its sealed state, padded to half a line.
pub(super) const ENTRY: u32 = 4;

/// The places of the parts, computed once.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Places {
    base: At,
    members: u32,
    ring_mask: u64,
    pub(super) area_words: u32,
    slots: At,
    areas: At,
    end: At,
}

impl Places {
    /// The parts of a log of this `shape`, from `base` on.
    ///
    /// # Panics
    /// If the shape is invalid: it comes from our own configuration.
    pub(crate) fn new(base: At, members: usize, shape: &LogShape) -> Places {
        let ring = shape.ring_slots;
        assert!(ring.is_power_of_two() && ring >= 8, "ring_slots {ring}");
        assert!((1..=MAX_MEMBERS).contains(&members), "{members} members");
        let area_words = HEADER_WORDS as u32 + shape.value_bytes.div_ceil(8);
        let slots = base.plus(2 * LINE + 2 * LINE * MAX_MEMBERS as u32);
        let areas = slots.plus(ENTRY * ring);
        let end = areas.plus(ring * members as u32 * 2 * area_words);
        Places {
            base,
            members: members as u32,
            ring_mask: u64::from(ring) - 1,
            area_words,
            slots,
            areas,
            end,
        }
    }

    pub(crate) const fn end(&self) -> At {
        self.end
    }

    pub(super) const fn highest(&self) -> At {
        self.base
    }

    /// The word that names the region's incarnation; zero before its owner has begun.
    pub(super) const fn incarnation(&self) -> At {
        self.base.plus(1)
    }

    /// The word of the applied prefix; the word after it seals it.
    pub(super) const fn applied(&self, member: Rank) -> At {
        self.base.plus(LINE + LINE * member.index() as u32)
    }

    /// The word of the published ballot; the decided prefix is the word after it.
    pub(super) const fn fact(&self, leader: Rank) -> At {
        self.base.plus(LINE + LINE * (MAX_MEMBERS + leader.index()) as u32)
    }

    /// The horizon words of all members, side by side.
    pub(super) const fn horizons(&self) -> At {
        self.base.plus(LINE + 2 * LINE * MAX_MEMBERS as u32)
    }

    pub(super) const fn ring_index(&self, slot: Slot) -> usize {
        (slot.0 & self.ring_mask) as usize
    }

    pub(super) const fn ring_slots(&self) -> u32 {
        self.ring_mask as u32 + 1
    }

    /// The place and the tag of the area that begins at `at`.
    pub(super) fn area_of(&self, at: At) -> Option<(Slot, Tag)> {
        let index = at.0.checked_sub(self.areas.0)? / self.area_words;
        let area = if index.is_multiple_of(2) { Area::Even } else { Area::Odd };
        let row = index / 2;
        let proposer = Rank::new((row % self.members) as usize)?;
        Some((Slot(u64::from(row / self.members)), Tag::of(proposer, area)))
    }

    /// The words of all slots.
    pub(super) const fn all_slots(&self) -> core::ops::Range<u32> {
        self.slots.0..self.areas.0
    }

    /// The slot word; then the sealed state's two words.
    pub(super) const fn slot(&self, slot: Slot) -> At {
        self.slots.plus(ENTRY * self.ring_index(slot) as u32)
    }

    pub(super) const fn sealed_min(&self, slot: Slot) -> At {
        self.slot(slot).plus(1)
    }

    pub(super) const fn sealed_accepted(&self, slot: Slot) -> At {
        self.slot(slot).plus(2)
    }

    pub(super) const fn area(&self, slot: Slot, proposer: Rank, area: Area) -> At {
        let row = self.ring_index(slot) as u32 * self.members + proposer.index() as u32;
        self.areas.plus((row * 2 + area as u32) * self.area_words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn i1_no_two_parts_overlap_and_none_sticks_out() {
        let shape = LogShape { ring_slots: 16, value_bytes: 20 };
        let places = Places::new(At(5), 3, &shape);
        let mut owners = vec![0u32; places.end().0 as usize];
        let mut claim = |at: At, words: u32, who: u32| {
            for word in at.0..at.0 + words {
                assert_eq!(owners[word as usize], 0, "word {word} has two uses");
                owners[word as usize] = who;
            }
        };
        claim(places.highest(), 1, 1);
        claim(places.incarnation(), 1, 60);
        for rank in Rank::all(MAX_MEMBERS) {
            claim(places.applied(rank), 2, 2 + rank.index() as u32);
            claim(places.fact(rank), 2, 20 + rank.index() as u32);
        }
        claim(places.horizons(), MAX_MEMBERS as u32, 30);
        for slot in (0..16).map(Slot) {
            claim(places.slot(slot), ENTRY, 40);
            for rank in Rank::all(3) {
                for area in [Area::Even, Area::Odd] {
                    claim(places.area(slot, rank, area), places.area_words, 50);
                }
            }
        }
        assert_eq!(places.slot(Slot(3)), places.slot(Slot(19)));
        for area in [Area::Even, Area::Odd] {
            let (slot, rank) = (Slot(3), Rank::at(1));
            let found = places.area_of(places.area(slot, rank, area));
            assert_eq!(found, Some((slot, Tag::of(rank, area))));
        }
        assert_eq!(places.area_of(places.slot(Slot(3))), None);
    }
}
