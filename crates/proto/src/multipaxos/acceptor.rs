//! The acceptor: what one member has promised and accepted, in words of its own region.
//!
//! The region outlives the process, so a process that comes back finds the acceptor as it was. It
//! may have died between any two stores.
//!
//! ```text
//! promised   8 words    the highest ballot promised
//! decided    8          every slot below is decided, and some life here has applied it
//! names      ring       which of a place's two areas holds what is accepted: 0 none, 1, 2
//! areas      2 x ring   labelled values (`crate::value`)
//! ```
//!
//! - A1 A promise never falls, over lives neither. Asserted in [`Acceptor::promise`].
//! - A2 What is accepted is replaced in one store: the new value is written into the area that the
//!   place's name does not point to, whole, and then named. So a process that dies in between
//!   leaves what it had acknowledged. By construction: [`Acceptor::accept`]. Simulated
//!   (`ACCEPT_IN_PLACE`), asserted in [`Acceptor::load`].
//! - A3 A slot's place is taken by the slot one ring later only if the former is decided and was
//!   applied here. Asserted in [`Acceptor::accept`].
//! - A4 Every word has one writer, this member.

use super::bugs::Bug;
use crate::LogShape;
use crate::claims;
use crate::planted::Planting;
use crate::value::{self, Content, HEADER_WORDS, Label};
use alloc::vec;
use alloc::vec::Vec;
use base::{At, Ballot, Port, Prefix, Slot};
use core::ops::Range;

const LINE: u32 = 8;

/// Where everything is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    base: At,
    ring_slots: u32,
    area_words: u32,
}

impl Places {
    pub(crate) fn new(base: At, shape: &LogShape) -> Places {
        assert!(shape.ring_slots.is_power_of_two() && shape.ring_slots >= 16);
        let area_words = HEADER_WORDS as u32 + shape.value_bytes.div_ceil(8);
        Places { base, ring_slots: shape.ring_slots, area_words }
    }

    const fn promised(&self) -> At {
        self.base
    }

    const fn decided(&self) -> At {
        self.base.plus(LINE)
    }

    const fn name(&self, place: usize) -> At {
        self.base.plus(2 * LINE + place as u32)
    }

    const fn area(&self, place: usize, area: Area) -> At {
        let first = 2 * LINE + self.ring_slots;
        self.base.plus(first + (2 * place as u32 + area.0 as u32 - 1) * self.area_words)
    }

    /// The words of all names, for judges.
    pub(super) const fn names(&self) -> Range<u32> {
        let first = self.name(0).0;
        first..first + self.ring_slots
    }

    /// The words of what `place` names in a region, for judges.
    fn named<'a>(&self, region: &'a [u64], place: usize) -> Option<&'a [u64]> {
        match region[self.name(place).0 as usize] {
            0 => None,
            name => {
                let at = self.area(place, Area(name as u8)).0 as usize;
                Some(&region[at..at + self.area_words as usize])
            }
        }
    }

    /// What `place` holds in a region, for judges.
    pub(super) fn entry(&self, region: &[u64], place: usize) -> claims::Entry {
        match self.named(region, place).map(value::decode) {
            None => claims::Entry::Empty,
            Some(None) => claims::Entry::Torn,
            Some(Some((label, _))) => claims::Entry::Holds(label.slot),
        }
    }

    /// The acceptor for `slot` in the words of a region, for judges.
    pub(super) fn inspect<'a>(&self, region: &'a [u64], slot: Slot) -> claims::Acceptor<'a> {
        let place = (slot.0 % u64::from(self.ring_slots)) as usize;
        let accepted = self.named(region, place).and_then(|words| {
            let (label, _) = value::decode(words).filter(|(label, _)| label.slot == slot)?;
            Some((label.ballot, claims::delivered(words)))
        });
        let promised = Ballot(region[self.promised().0 as usize]);
        claims::Acceptor { promised, accepted, is_covered: true }
    }

    pub(crate) const fn end(&self) -> At {
        self.base.plus(2 * LINE + self.ring_slots * (1 + 2 * self.area_words))
    }
}

/// One of a place's two areas, as its name says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Area(u8);

impl Area {
    const fn other(self) -> Area {
        Area(3 - self.0)
    }
}

/// What a place of the ring holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    slot: Slot,
    ballot: Ballot,
    area: Area,
}

/// One member's acceptor.
#[derive(Debug)]
pub(super) struct Acceptor {
    places: Places,
    promised: Ballot,
    decided: Prefix,
    /// One past the highest slot that was ever accepted.
    end: Prefix,
    held: Vec<Option<Held>>,
    words: Vec<u64>,
}

impl Acceptor {
    /// The acceptor that the region holds: an earlier life's, or, in zeroed memory, a new one.
    pub(super) fn load<P: Port>(places: Places, planted: impl Planting<Bug>, port: &P) -> Acceptor {
        let n_places = places.ring_slots as usize;
        let mut acceptor = Acceptor {
            places,
            promised: Ballot(port.load(places.promised())),
            decided: Prefix(port.load(places.decided())),
            end: Prefix::ZERO,
            held: vec![None; n_places],
            words: Vec::new(),
        };
        if planted.has(Bug::ForgetPromise) {
            acceptor.promised = Ballot::NONE;
        }
        if planted.has(Bug::ForgetAccepted) {
            return acceptor;
        }
        for place in 0..n_places {
            let area = match port.load(places.name(place)) {
                0 => continue,
                name => Area(name as u8),
            };
            let at = places.area(place, area);
            let label = value::load(port, at, places.area_words, &mut acceptor.words);
            let Label { slot, ballot, .. } = label.expect("A2: what is named is whole");
            acceptor.held[place] = Some(Held { slot, ballot, area });
            acceptor.end = acceptor.end.max(slot.prefix_through());
        }
        acceptor
    }

    fn place(&self, slot: Slot) -> usize {
        (slot.0 % self.held.len() as u64) as usize
    }

    pub(super) const fn ring_slots(&self) -> u64 {
        self.places.ring_slots as u64
    }

    pub(super) const fn promised(&self) -> Ballot {
        self.promised
    }

    /// Every slot below is decided, and this life or an earlier one has applied it.
    pub(super) const fn decided(&self) -> Prefix {
        self.decided
    }

    pub(super) const fn end(&self) -> Prefix {
        self.end
    }

    /// What was accepted below may be gone. It was decided.
    pub(super) const fn floor(&self) -> Prefix {
        Prefix(self.end.0.saturating_sub(self.ring_slots()))
    }

    /// Whether `slot` may be accepted without harm to what is not decided (A3).
    pub(super) const fn has_room(&self, slot: Slot) -> bool {
        slot.0 < self.decided.0 + self.ring_slots()
    }

    pub(super) fn promise<P: Port>(
        &mut self,
        ballot: Ballot,
        planted: impl Planting<Bug>,
        port: &mut P,
    ) {
        assert!(
            ballot >= self.promised || planted.has(Bug::PromiseLower),
            "A1: {ballot} after {}",
            self.promised
        );
        self.promised = ballot;
        port.store(self.places.promised(), ballot.0);
    }

    /// Accepts `value` for `slot` in `ballot`.
    pub(super) fn accept<P: Port>(
        &mut self,
        (slot, ballot): (Slot, Ballot),
        value: &[u8],
        planted: impl Planting<Bug>,
        port: &mut P,
    ) {
        assert!(
            ballot == self.promised || planted.has(Bug::AcceptOlderBallot),
            "P2: {ballot} after {}",
            self.promised
        );
        assert!(
            self.has_room(slot) || planted.has(Bug::OverrunRing),
            "A3: {slot} after {}",
            self.decided
        );
        let place = self.place(slot);
        let area = match &self.held[place] {
            None => Area(1),
            Some(held) if planted.has(Bug::AcceptInPlace) => held.area,
            Some(held) => held.area.other(),
        };
        let label = Label { slot, ballot, decided: Prefix::ZERO, content: Content::Value };
        value::encode(&mut self.words, label, value);
        let at = self.places.area(place, area);
        for (word, offset) in self.words.iter().zip(0..) {
            port.store(at.plus(offset), *word);
        }
        port.store(self.places.name(place), u64::from(area.0));
        self.held[place] = Some(Held { slot, ballot, area });
        self.end = self.end.max(slot.prefix_through());
    }

    /// Every slot below `prefix` is decided and applied.
    pub(super) fn decide<P: Port>(&mut self, prefix: Prefix, port: &mut P) {
        if prefix > self.decided {
            self.decided = prefix;
            port.store(self.places.decided(), prefix.0);
        }
    }

    /// In which ballot `slot` was accepted, if it was and is still held.
    pub(super) fn accepted(&self, slot: Slot) -> Option<Ballot> {
        let held = self.held[self.place(slot)].as_ref()?;
        (held.slot == slot).then_some(held.ballot)
    }

    /// What was accepted for `slot`.
    pub(super) fn value<P: Port>(&mut self, slot: Slot, port: &P) -> Option<&[u8]> {
        let place = self.place(slot);
        let held = self.held[place].filter(|held| held.slot == slot)?;
        let at = self.places.area(place, held.area);
        value::load(port, at, self.places.area_words, &mut self.words)
            .expect("A4: no other member writes here");
        Some(value::payload(&self.words))
    }
}
