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
use super::delivery::Damaged;
use super::outbox::Outbox;
use super::view::{Knock, View};
use super::{Delivery, Output};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use base::{Incarnation, Port, Rank};

/// The number of the last message that was heard of each process.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard(BTreeMap<Rank, (Incarnation, u64)>);

impl Heard {
    /// Notes that message `number` of `sender` was heard; false if it was before.
    fn note(&mut self, sender: &Knock, number: u64) -> bool {
        let last = self.0.entry(sender.seat).or_insert((sender.incarnation, 0));
        if last.0 != sender.incarnation {
            *last = (sender.incarnation, 0);
        }
        let is_new = number > last.1;
        last.1 = last.1.max(number);
        is_new
    }

    /// Forgets the processes that are not members.
    pub(super) fn keep(&mut self, view: &View) {
        self.0.retain(|seat, _| view.seats().contains(*seat));
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vsync::view::tests::process;

    #[test]
    fn v15_a_number_is_new_once_for_each_process() {
        let mut heard = Heard::default();
        let (old, young, other) = (process(1, 4), process(1, 5), process(2, 1));
        assert!(heard.note(&old, 7), "a newcomer begins anywhere");
        assert!(!heard.note(&old, 7) && !heard.note(&old, 6) && heard.note(&old, 8));
        assert!(heard.note(&young, 1) && heard.note(&other, 1));
        heard.keep(&View::founded_by(&[process(1, 5)]));
        assert!(!heard.note(&young, 1) && heard.note(&other, 1));
    }
}
