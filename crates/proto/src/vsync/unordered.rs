//! Delivery in each sender's order, as soon as a message is received: the paper's unreliable mode,
//! with what is cheap to promise (paper 000, section 2.2 and appendix A.3).
//!
//! - V14 *Received is delivered.* A member takes messages out of a ring in their order, and tells
//!   that it has received one when it has delivered it. So a sender's slot is free when all others
//!   have received its message, and while an application takes nothing, its member receives
//!   nothing.
//! - V15 *Each sender's messages, once, while both stay.* A member delivers its own message when
//!   all others have received it; what it has not delivered when its view ends, it sends again in
//!   the next. A message has a number, through all views; a receiver drops those that it has heard.
//!   So of a sender that stays, every member that stays delivers every message, once, in order. Of
//!   a sender that fails, each delivers a prefix, not all the same. Mutants `REPEATED_IS_NEW`,
//!   `OWN_AT_ONCE`.
//!
//! There is no common order and so no common state: a newcomer begins with what is sent, or sent
//! again, in its first view. A view agrees on members, and its trim means nothing.
//!
//! A subgroup can be without an order in a group that has one. It is in memory alone there, and its
//! large messages go through rings.

use super::bugs::{Bug, Plantings};
use super::clock::Time;
use super::current::Current;
use super::delivery::Read;
use super::outbox::Outbox;
use super::payload::Payload;
use super::view::Knock;
use super::{Delivery, End, Output};
use alloc::vec::Vec;
use base::Port;

impl<P: Plantings> Current<P> {
    /// V14, V15
    pub(super) fn deliver_received(
        &mut self,
        subgroup: usize,
        outbox: &mut Outbox,
        port: &impl Port,
        out: &mut Vec<Output>,
    ) -> Result<(), End> {
        for turn in 0..self.lane(subgroup).senders.len() {
            let sender = self.lane(subgroup).senders[turn];
            let seat = sender.process.seat;
            if seat == self.me {
                continue;
            }
            let sent = self.sent(subgroup, seat);
            // L6
            if sent > 0 && !self.lane(subgroup).order.has(sender.turn) {
                return Err(End::Damaged(seat));
            }
            for index in self.received(subgroup, self.me, seat)..sent {
                if let Some(Read { number, stamp, message }) =
                    self.read_slot(&sender, index, port)?
                {
                    // K2: where other subgroups have orders.
                    self.clock.see(stamp);
                    let is_news = self.is_news(subgroup, &sender.process, number);
                    if is_news || self.planted.has(Bug::RepeatedIsNew) {
                        out.push(self.next_delivery(subgroup, sender.process, message));
                    }
                }
                self.table.set(self.row.received, self.row.of(subgroup, seat), index + 1);
            }
        }
        let is_hasty = self.planted.has(Bug::OwnAtOnce);
        let received = if is_hasty { outbox.n_sent() } else { self.received_of_me(subgroup) };
        let me = self.view.member(self.me).expect("V1: this process is a member").process;
        while outbox.n_delivered() < received {
            if let Some(message) = outbox.delivered().message {
                out.push(self.next_delivery(subgroup, me, message));
            }
        }
        Ok(())
    }

    fn is_news(&mut self, subgroup: usize, sender: &Knock, number: u64) -> bool {
        let lane = self.lanes[subgroup].as_mut();
        lane.is_some_and(|lane| lane.heard.note(sender, number))
    }

    fn next_delivery(&mut self, subgroup: usize, sender: Knock, message: Payload) -> Output {
        let (shard, at) = (self.lane(subgroup).id, self.position(subgroup));
        self.table.set(self.row.delivered, subgroup, at.at + 1);
        Output::Deliver(Delivery { shard, at, time: Time::default(), sender, message })
    }
}
