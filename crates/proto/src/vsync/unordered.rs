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

use super::bugs::{Bug, Plantings};
use super::current::Current;
use super::outbox::Outbox;
use super::slots::Damaged;
use super::view::Knock;
use super::{Delivery, Output};
use alloc::vec::Vec;
use base::Port;

impl<P: Plantings> Current<P> {
    /// V14, V15
    pub(super) fn deliver_received(
        &mut self,
        outbox: &mut Outbox,
        port: &impl Port,
        out: &mut Vec<Output>,
    ) -> Result<(), Damaged> {
        for seat in self.others().iter() {
            let sender = self.view.member(seat).expect("a seat of the view").process;
            let sent = self.of(seat, self.row.sent);
            for index in self.received(self.me, seat)..sent {
                if let Some((number, message)) = self.read_slot(seat, index, port)?
                    && (self.heard.note(&sender, number) || self.planted.has(Bug::RepeatedIsNew))
                {
                    out.push(self.next_delivery(sender, message));
                }
                self.table.set(self.row.received, seat.index(), index + 1);
            }
        }
        let is_hasty = self.planted.has(Bug::OwnAtOnce);
        let received = if is_hasty { outbox.n_sent() } else { self.received_of_me() };
        let me = self.view.member(self.me).expect("V1: this process is a member").process;
        while outbox.n_delivered() < received {
            if let Some(message) = outbox.delivered() {
                out.push(self.next_delivery(me, message));
            }
        }
        Ok(())
    }

    fn next_delivery(&mut self, sender: Knock, message: super::Payload) -> Output {
        let at = self.position();
        self.table.set(self.row.delivered, 0, at.at + 1);
        Output::Deliver(Delivery { at, sender, message })
    }
}
