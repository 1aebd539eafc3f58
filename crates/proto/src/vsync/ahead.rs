//! What a member holds of the order and has not delivered: pending versions of the paper's objects
//! (paper 000, section 2.3 and figure 7).
//!
//! - V32 *Ahead is next.* What is shown ahead are the messages behind those that were delivered, up
//!   to where this member holds the order without a gap, each with its place and its time. While
//!   the view lasts, they are what is delivered next, here and at every member. A view that ends
//!   may cut them off: nothing is promised of them but their order. Mutant `AHEAD_IS_STAMPED`.

use super::bugs::{Bug, Plantings};
use super::clock::Time;
use super::current::Current;
use super::outbox::Outbox;
use super::payload::Payload;
use super::view::Knock;
use super::{Delivery, End, Position};
use alloc::vec::Vec;
use base::Port;

/// A message of the order: its sender, its stamp and its bytes.
pub(super) type Held = (Knock, Time, Payload);

impl<P: Plantings> Current<P> {
    /// The message at a position of the order that this member holds, and has not delivered;
    /// `None` for a null.
    pub(super) fn message_at(
        &self,
        subgroup: usize,
        position: u64,
        outbox: &Outbox,
        port: &impl Port,
    ) -> Result<Option<Held>, End> {
        let lane = self.lane(subgroup);
        let (sender, index) = lane.order.turn(position);
        let sender = lane.senders[sender.index()];
        let held = if sender.process.seat == self.me {
            let sent = outbox.sent(index).expect("V7: it is under way");
            sent.message.clone().map(|message| (sent.stamp, message))
        } else {
            self.read_slot(&sender, index, port)?.map(|read| (read.stamp, read.message))
        };
        Ok(held.map(|(stamp, message)| (sender.process, stamp, message)))
    }

    /// V32. (`End::Excluded` if this member was left behind by a view that writes into its rings,
    /// or uses places again that it holds.)
    pub(super) fn ahead(
        &self,
        subgroup: usize,
        outbox: &Outbox,
        port: &impl Port,
    ) -> Result<Vec<Delivery>, End> {
        let (lane, first) = (self.lane(subgroup), self.position(subgroup));
        let mut latest = lane.time;
        let mut ahead = Vec::new();
        for at in first.at..self.held_by(subgroup, self.me) {
            let Some((sender, stamp, message)) = self.message_at(subgroup, at, outbox, port)?
            else {
                continue;
            };
            // `landing`, V18: messages are looked at before they are stable. They are copied here.
            if message.bytes().is_none() {
                return Err(End::Excluded);
            }
            latest = latest.max(stamp);
            let time = if self.planted.has(Bug::AheadIsStamped) { stamp } else { latest };
            let at = Position { at, ..first };
            ahead.push(Delivery { shard: lane.id, at, time, sender, message });
        }
        Ok(ahead)
    }
}
