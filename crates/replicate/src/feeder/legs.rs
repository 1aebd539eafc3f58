//! The open legs of a copy, and those among them that something is waited for.
//!
//! - L1 A key that is busy or blocked is that of an open leg, and so is the key of a connection's
//!   name. By construction: [`Legs::open`] is the only way in, and [`Legs::close`] removes a key
//!   from everywhere. Asserted in [`Legs::wait_for`].

use super::leg::Leg;
use crate::entry::ConnectionId;
use std::collections::{BTreeMap, BTreeSet};

/// The legs by key.
#[derive(Debug, Default)]
pub(super) struct Legs {
    slots: Vec<Option<Leg>>,
    keys: BTreeMap<ConnectionId, u64>,
    /// The legs for whose answer, reading or closing the next entry waits.
    busy: BTreeSet<u64>,
    /// The legs that owed a reply when the program slept (the feeder's I3).
    blocked: BTreeSet<u64>,
}

impl Legs {
    /// The leg of an open key.
    pub(super) fn get(&self, key: u64) -> &Leg {
        self.slots[key as usize].as_ref().expect("a key of an open leg")
    }

    /// The leg of an open key.
    pub(super) fn get_mut(&mut self, key: u64) -> &mut Leg {
        self.slots[key as usize].as_mut().expect("a key of an open leg")
    }

    pub(super) fn is_open(&self, key: u64) -> bool {
        self.slots.get(key as usize).is_some_and(Option::is_some)
    }

    /// The key of a connection that has a leg.
    pub(super) fn key(&self, id: ConnectionId) -> Option<u64> {
        self.keys.get(&id).copied()
    }

    /// The keys of the connections that satisfy the condition.
    pub(super) fn keys_of(&self, is_one: impl Fn(&ConnectionId) -> bool) -> Vec<u64> {
        self.keys.iter().filter(|(id, _)| is_one(id)).map(|(_, key)| *key).collect()
    }

    /// The open legs with their keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Leg)> {
        (0..).zip(&self.slots).filter_map(|(key, leg)| Some((key, leg.as_ref()?)))
    }

    /// The open legs.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Leg> {
        self.slots.iter_mut().flatten()
    }

    /// Above the key of every open leg.
    pub(super) const fn end_key(&self) -> u64 {
        self.slots.len() as u64
    }

    /// The key of the next leg.
    pub(super) fn free_key(&self) -> u64 {
        let free = self.slots.iter().position(Option::is_none);
        free.unwrap_or(self.slots.len()) as u64
    }

    /// Adds a leg under [`Legs::free_key`].
    pub(super) fn open(&mut self, leg: Leg) -> u64 {
        let (key, id) = (self.free_key(), leg.id);
        if key as usize == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[key as usize] = Some(leg);
        self.keys.insert(id, key);
        key
    }

    /// Removes a leg.
    pub(super) fn close(&mut self, key: u64) {
        if let Some(leg) = self.slots[key as usize].take() {
            // (No-op for a connection that is over: it has lost its key before.)
            self.keys.remove(&leg.id);
        }
        self.busy.remove(&key);
        self.blocked.remove(&key);
    }

    /// Removes the name of a connection that is over; its leg stays until the program closes it.
    pub(super) fn forget_name(&mut self, id: ConnectionId) {
        self.keys.remove(&id);
    }

    /// Lets the next entry wait for this leg.
    pub(super) fn wait_for(&mut self, key: u64) {
        assert!(self.is_open(key), "L1: {key} is no leg");
        self.busy.insert(key);
    }

    /// Ends the wait for this leg.
    pub(super) fn wait_no_longer_for(&mut self, key: u64) {
        self.busy.remove(&key);
    }

    pub(super) const fn busy(&self) -> &BTreeSet<u64> {
        &self.busy
    }

    /// The busy legs, which are busy no longer.
    pub(super) fn take_busy(&mut self) -> BTreeSet<u64> {
        std::mem::take(&mut self.busy)
    }

    /// Notes that the program slept while this leg was owed something.
    pub(super) fn block(&mut self, key: u64) {
        self.blocked.insert(key);
    }

    /// Notes that nothing is owed to this leg.
    pub(super) fn unblock(&mut self, key: u64) {
        self.blocked.remove(&key);
    }

    pub(super) const fn blocked(&self) -> &BTreeSet<u64> {
        &self.blocked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Answers;
    use base::{Incarnation, Rank};

    fn leg(number: u64) -> Leg {
        Leg {
            id: ConnectionId { owner: Rank::at(0), run: Incarnation(1), number },
            unwritten: Vec::new(),
            n_written: 0,
            framing: None,
            session: None,
            shown: None,
            answers: Answers::default(),
            interest: engine::streams::Interest::Read,
            n_owed: 0,
            is_reading: false,
            is_stuck: false,
            has_ended: false,
            is_end_told: false,
            is_over: false,
        }
    }

    #[test]
    fn l1_a_leg_that_is_closed_is_waited_for_nowhere_and_its_key_is_free() {
        let mut legs = Legs::default();
        let (one, two) = (legs.open(leg(1)), legs.open(leg(2)));
        legs.wait_for(one);
        legs.wait_for(two);
        legs.block(one);
        let id = legs.get(one).id;
        legs.close(one);
        assert!(!legs.is_open(one) && legs.key(id).is_none() && legs.blocked().is_empty());
        assert_eq!(legs.take_busy(), [two].into());
        assert_eq!((legs.free_key(), legs.end_key()), (one, two + 1));
        assert_eq!(legs.iter().map(|(key, _)| key).collect::<Vec<_>>(), [two]);
    }

    #[test]
    #[should_panic(expected = "L1")]
    fn l1_a_key_without_a_leg_is_not_waited_for() {
        Legs::default().wait_for(0);
    }
}
