//! The deliveries of a process so far: their mark, those above it, and all their names.
//!
//! - P1, P8 and P15 (the parent's) are kept here. Asserted in [`Delivered::add`].

use crate::amcast::{GroupSet, MessageId, Place, Seen, Timestamp};
use alloc::collections::BTreeMap;

/// What was delivered.
#[derive(Clone, Debug, Default)]
pub(super) struct Delivered {
    /// The place up to which everything was delivered (P15).
    last: Place,
    /// The messages delivered above it, which commute with the pending ones, and their groups.
    ahead: BTreeMap<Place, GroupSet>,
    /// The names of the delivered messages, for ever (P8).
    seen: Seen,
}

impl Delivered {
    /// What a process that comes back had delivered.
    pub(super) const fn restored(last: Place, seen: Seen) -> Delivered {
        Delivered { last, ahead: BTreeMap::new(), seen }
    }

    /// The mark: the place up to which everything was delivered.
    pub(super) const fn last(&self) -> Place {
        self.last
    }

    pub(super) const fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Whether this message was delivered, or is covered by a state.
    pub(super) fn has(&self, id: MessageId) -> bool {
        self.seen.contains(id)
    }

    /// The highest final timestamp of a delivered message.
    pub(super) fn highest(&self) -> Timestamp {
        let ahead = self.ahead.last_key_value().map_or(Timestamp::ZERO, |((at, _), _)| *at);
        self.last.0.max(ahead)
    }

    /// Adds a delivery: the next in the order, or one that commutes with what is pending below it,
    /// and goes to these groups.
    pub(super) fn add(&mut self, place: Place, commutes: Option<GroupSet>) {
        let (at, id) = place;
        assert!(self.last < place, "P1: {id:?} at {at:?} comes after {:?}", self.last);
        assert!(!self.seen.contains(id), "P8: {id:?} is delivered twice");
        self.seen.insert(id);
        match commutes {
            Some(dest) => {
                self.ahead.insert(place, dest);
            }
            None => self.last = place,
        }
    }

    /// P15: raises the mark by one delivery, if that is below the first pending place and not above
    /// the clocks that were `passed`. Returns the groups of the message.
    pub(super) fn raise_mark(
        &mut self,
        first_pending: Option<Place>,
        passed: Timestamp,
    ) -> Option<GroupSet> {
        let entry = self.ahead.first_entry()?;
        let place = *entry.key();
        let may_rise = first_pending.is_none_or(|first| place < first) && place.0 <= passed;
        may_rise.then(|| {
            self.last = place;
            entry.remove()
        })
    }

    /// Whether a state that covers these messages undoes no delivery (P8).
    pub(super) fn is_within(&self, seen: &Seen) -> bool {
        self.ahead.keys().all(|(_, id)| seen.contains(*id))
    }

    /// Continues from a state: what it covers up to `through`, and those above. Returns what was
    /// delivered above the mark before.
    pub(super) fn install(
        &mut self,
        seen: Seen,
        through: Place,
        ahead: BTreeMap<Place, GroupSet>,
    ) -> BTreeMap<Place, GroupSet> {
        (self.seen, self.last) = (seen, through);
        core::mem::replace(&mut self.ahead, ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amcast::GroupId;

    const fn place(at: u64, sequence: u64) -> Place {
        (Timestamp(at), MessageId { sender: 1, sequence })
    }

    #[test]
    fn p15_the_mark_stays_below_what_is_pending_and_what_clocks_have_passed() {
        let dest = GroupId::at(1).alone();
        let mut delivered = Delivered::default();
        delivered.add(place(1, 0), None);
        delivered.add(place(3, 1), Some(dest));
        delivered.add(place(5, 2), Some(dest));
        assert_eq!((delivered.last(), delivered.highest()), (place(1, 0), Timestamp(5)));
        assert_eq!(delivered.raise_mark(Some(place(2, 9)), Timestamp(9)), None);
        assert_eq!(delivered.raise_mark(Some(place(4, 9)), Timestamp(9)), Some(dest));
        assert_eq!(delivered.last(), place(3, 1));
        assert_eq!(delivered.raise_mark(None, Timestamp(4)), None);
        assert_eq!(delivered.raise_mark(None, Timestamp(5)), Some(dest));
        assert_eq!(delivered.raise_mark(None, Timestamp(9)), None);
    }

    #[test]
    fn p8_a_state_that_lacks_a_delivery_undoes_it() {
        let mut delivered = Delivered::default();
        delivered.add(place(3, 1), Some(GroupSet::EMPTY));
        let mut seen = Seen::default();
        assert!(!delivered.is_within(&seen));
        seen.insert(place(3, 1).1);
        assert!(delivered.is_within(&seen));
        let before = delivered.install(seen, place(4, 0), BTreeMap::new());
        assert!(before.contains_key(&place(3, 1)) && delivered.has(place(3, 1).1));
        assert_eq!(delivered.highest(), Timestamp(4));
    }

    #[test]
    #[should_panic(expected = "P8")]
    fn p8_nothing_is_delivered_twice() {
        let mut delivered = Delivered::default();
        delivered.add(place(1, 0), None);
        delivered.add(place(2, 0), None);
    }

    #[test]
    #[should_panic(expected = "P1")]
    fn p1_nothing_is_delivered_below_the_mark() {
        let mut delivered = Delivered::default();
        delivered.add(place(2, 0), None);
        delivered.add(place(1, 1), None);
    }
}
