//! What the door of a simulated node is told of the messages that the node has multicast, beside
//! what the doors of all nodes were handed.
//!
//! - O1 an outcome is of a message of this very process, and comes once.
//! - O2 a message that is said to be delivered was handed to some door, at the timestamp that is
//!   told.
//! - O3 a message has one final timestamp, in all groups and at all nodes.
//! - O4 everything reaches the released door unchanged. By delegation.

use crate::Property;
use crate::world::net::Net;
use base::{Instant, Rank};
use engine::multicast::{Application, Cut, Delivery, Desk, Outcome, Snapshot};
use proto::amcast::{GroupId, MessageId, Timestamp};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The final timestamps of the messages that doors were handed, in the whole run.
#[derive(Clone, Debug, Default)]
pub(super) struct Delivered(Rc<RefCell<BTreeMap<MessageId, Timestamp>>>);

/// A door, whose node is judged by this module's text.
pub(super) struct Judged<A> {
    pub(super) door: A,
    me: Rank,
    net: Rc<RefCell<Net>>,
    delivered: Delivered,
    ended: BTreeSet<MessageId>,
}

impl<A> Judged<A> {
    pub(super) fn new(door: A, me: Rank, net: &Rc<RefCell<Net>>, delivered: &Delivered) -> Self {
        let (net, delivered) = (Rc::clone(net), delivered.clone());
        Judged { door, me, net, delivered, ended: BTreeSet::new() }
    }

    fn violate(&self, detail: &str) {
        let detail = format!("{}: {detail}", self.me);
        self.net.borrow_mut().violate(Property::Validity, detail);
    }

    /// O3.
    fn hand(&self, id: MessageId, at: Timestamp) {
        let before = *self.delivered.0.borrow_mut().entry(id).or_insert(at);
        if before != at {
            self.violate(&format!("O3: {id:?} is delivered at {at:?}, and was at {before:?}"));
        }
    }

    /// O1, O2.
    fn end(&mut self, id: MessageId, outcome: Outcome, own: u64) {
        if id.sender != own || !self.ended.insert(id) {
            self.violate(&format!("O1: {outcome:?} of {id:?}, which {own} waits for no longer"));
        }
        let handed = self.delivered.0.borrow().get(&id).copied();
        if let Outcome::Delivered(at) = outcome
            && handed != Some(at)
        {
            self.violate(&format!("O2: {id:?} is said to be delivered at {at:?}: {handed:?}"));
        }
    }
}

impl<A: Application> Application for Judged<A> {
    fn deliver(&mut self, delivery: Delivery, desk: &mut Desk) {
        self.hand(delivery.message.id, delivery.at);
        self.door.deliver(delivery, desk);
    }

    fn snapshot(&mut self, snapshot: Snapshot, group: GroupId, cut: Cut, desk: &mut Desk) {
        self.door.snapshot(snapshot, group, cut, desk);
    }

    fn outcome(&mut self, id: MessageId, outcome: Outcome, desk: &mut Desk) {
        self.end(id, outcome, desk.sender());
        self.door.outcome(id, outcome, desk);
    }

    fn turn(&mut self, desk: &mut Desk) -> bool {
        self.door.turn(desk)
    }

    fn held(&mut self, desk: &mut Desk) {
        self.door.held(desk);
    }

    fn is_full(&self) -> bool {
        self.door.is_full()
    }

    fn keeps_states(&self) -> bool {
        self.door.keeps_states()
    }

    fn takes_states_of_others(&self) -> bool {
        self.door.takes_states_of_others()
    }

    fn states_are_joint(&self) -> bool {
        self.door.states_are_joint()
    }

    fn forget(&mut self, desk: &mut Desk) {
        self.door.forget(desk);
    }

    fn state(&mut self, group: GroupId) -> Vec<u8> {
        self.door.state(group)
    }

    fn install(&mut self, group: GroupId, state: &[u8], desk: &mut Desk) {
        self.door.install(group, state, desk);
    }

    fn deadline(&self) -> Option<Instant> {
        self.door.deadline()
    }
}
