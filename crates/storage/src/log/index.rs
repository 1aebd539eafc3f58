//! Which entries the log holds, and where: what a sequence of records means.

use super::record::{Flaw, Head, Kind, Position};
use base::Slot;
use std::collections::VecDeque;

/// Entries of the slots from `first` on, without a gap.
#[derive(Debug, Default)]
pub(super) struct Index {
    first: Slot,
    places: VecDeque<Position>,
}

impl Index {
    pub(super) fn first(&self) -> Slot {
        self.first
    }

    pub(super) fn end(&self) -> Slot {
        self.first.plus(self.places.len() as u64)
    }

    pub(super) fn at(&self, slot: Slot) -> Option<Position> {
        let n = slot.0.checked_sub(self.first.0)?;
        self.places.get(usize::try_from(n).ok()?).copied()
    }

    /// The oldest segment that an entry stands in.
    pub(super) fn oldest(&self) -> Option<u32> {
        self.places.front().map(|place| place.segment())
    }

    /// Takes a record in; `is_oldest` for the first one of the oldest segment.
    pub(super) fn apply(&mut self, head: &Head, is_oldest: bool) -> Result<(), Flaw> {
        let begins = head.position == super::segment::first(head.position.segment());
        // I8: each segment begins with the record that makes it stand alone.
        if begins != (head.kind == Kind::Begin) {
            return Err(Flaw::Order);
        }
        match head.kind {
            Kind::Begin if is_oldest => self.first = head.slot,
            Kind::Begin if head.slot == self.end() => {}
            Kind::Entry if head.slot == self.end() => self.places.push_back(head.position),
            Kind::Cut if head.slot <= self.end() => self.cut(head.slot),
            Kind::Skip if head.slot > self.end() => {
                self.places.clear();
                self.first = head.slot;
            }
            Kind::Meta | Kind::Seal => {}
            Kind::Begin | Kind::Entry | Kind::Cut | Kind::Skip => return Err(Flaw::Order),
        }
        Ok(())
    }

    fn cut(&mut self, end: Slot) {
        let kept = end.0.saturating_sub(self.first.0);
        self.places.truncate(usize::try_from(kept).unwrap_or(usize::MAX));
        // Entries below `first` went with their segments; those at `end` and above come anew.
        self.first = self.first.min(end);
    }

    /// Forgets entries below `slot`, which is within the log.
    pub(super) fn free_below(&mut self, slot: Slot) {
        let n = slot.0.saturating_sub(self.first.0);
        let n = usize::try_from(n).unwrap_or(usize::MAX).min(self.places.len());
        self.places.drain(..n);
        self.first = self.first.plus(n as u64);
    }
}
