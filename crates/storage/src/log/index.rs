//! The entries that the log holds, and their places: the meaning of a sequence of records.

use super::record::{Flaw, Head, Kind, Position};
use base::{Ballot, Slot};
use std::collections::VecDeque;

/// The place of an entry, and the fields that its user reads most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) position: Position,
    pub(super) ballot: Ballot,
    pub(super) view: u64,
    payload: u32,
}

/// Entries of the slots from `first` on, without a gap.
#[derive(Debug, Default)]
pub(super) struct Index {
    first: Slot,
    places: VecDeque<Place>,
    n_payload_bytes: u64,
}

impl Index {
    pub(super) fn first(&self) -> Slot {
        self.first
    }

    pub(super) fn end(&self) -> Slot {
        self.first.plus(self.places.len() as u64)
    }

    pub(super) fn n_payload_bytes(&self) -> u64 {
        self.n_payload_bytes
    }

    pub(super) fn at(&self, slot: Slot) -> Option<Place> {
        let n = slot.0.checked_sub(self.first.0)?;
        self.places.get(usize::try_from(n).ok()?).copied()
    }

    /// The oldest segment that contains an entry.
    pub(super) fn oldest(&self) -> Option<u32> {
        self.places.front().map(|place| place.position.segment())
    }

    /// Applies a record; `is_oldest` for the first one of the oldest segment.
    pub(super) fn apply(&mut self, head: &Head, is_oldest: bool) -> Result<(), Flaw> {
        let begins = head.position == super::segment::first(head.position.segment());
        // I8: each segment begins with the record that makes it independent.
        if begins != (head.kind == Kind::Begin) {
            return Err(Flaw::Order);
        }
        match head.kind {
            Kind::Begin if is_oldest => self.first = head.slot,
            Kind::Begin if head.slot == self.end() => {}
            Kind::Entry if head.slot == self.end() => self.push(head),
            Kind::Cut if head.slot <= self.end() => self.cut(head.slot),
            Kind::Skip => {
                *self = Index { first: head.slot, ..Index::default() };
            }
            Kind::Meta | Kind::Seal => {}
            Kind::Begin | Kind::Entry | Kind::Cut => return Err(Flaw::Order),
        }
        Ok(())
    }

    fn push(&mut self, head: &Head) {
        let Head { position, ballot, view, payload, .. } = *head;
        self.n_payload_bytes += u64::from(payload);
        self.places.push_back(Place { position, ballot, view, payload });
    }

    fn cut(&mut self, end: Slot) {
        let kept = end.0.saturating_sub(self.first.0);
        let kept = usize::try_from(kept).unwrap_or(usize::MAX);
        while self.places.len() > kept {
            self.forget(VecDeque::pop_back);
        }
        // Entries below `first` went with their segments; those at `end` and above are appended
        // again.
        self.first = self.first.min(end);
    }

    /// Forgets entries below `slot`, which is within the log.
    pub(super) fn free_below(&mut self, slot: Slot) {
        while self.first < slot && !self.places.is_empty() {
            self.forget(VecDeque::pop_front);
            self.first = self.first.next();
        }
    }

    fn forget(&mut self, which: impl FnOnce(&mut VecDeque<Place>) -> Option<Place>) {
        if let Some(place) = which(&mut self.places) {
            self.n_payload_bytes -= u64::from(place.payload);
        }
    }
}
