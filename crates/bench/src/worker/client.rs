//! The door of a member under measurement: its only client lives here, and so do the parent's
//! orders.
//!
//! - I1 at most one command of the client is under way. By construction: `is_open`.
//! - I2 the client sends commands only while this member leads: what it measures is never
//!   forwarded, but for a command that was under way when this member was deposed. By construction:
//!   `resume` asks the view.

use super::decide::Decide;
use super::mail::Mail;
use super::order::{Answer, Order};
use crate::counter::Counter;
use proto::Role;
use runtime::{
    Answer as Ended, Asker, Desk, Door, Performed, ReadAnswer, Ready, Sockets, Stats, View,
};
use std::collections::VecDeque;

/// The client's one name.
const ASKER: Asker = Asker { connection: 0, request: 0 };

/// The client's work.
#[derive(Debug)]
enum Work {
    Nothing,
    /// One command after the other.
    Load(Vec<u8>),
    /// The same, timed.
    Decide(Box<Decide>),
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Client {
    mail: Mail,
    orders: VecDeque<Order>,
    work: Work,
    /// Whether a command has no answer yet (I1).
    is_open: bool,
    /// The end of a measurement that the parent has not been told.
    outcome: Option<Answer>,
}

impl Client {
    pub(super) fn new(mail: Mail) -> Client {
        let mut client = Client {
            mail,
            orders: VecDeque::new(),
            work: Work::Nothing,
            is_open: false,
            outcome: None,
        };
        client.read_mail();
        client
    }

    fn read_mail(&mut self) {
        while let Some(order) = self.mail.read() {
            self.orders.push_back(order);
        }
    }

    /// Whether there is an order, or an answer for the parent.
    pub(super) fn has_news(&self) -> bool {
        self.outcome.is_some() || !self.orders.is_empty()
    }

    pub(super) fn next_order(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }

    pub(super) fn take_outcome(&mut self) -> Option<Answer> {
        self.outcome.take()
    }

    pub(super) fn load(&mut self, value: Vec<u8>) {
        self.work = Work::Load(value);
    }

    pub(super) fn decide(&mut self, decide: Decide) {
        self.work = Work::Decide(Box::new(decide));
    }

    /// Whether it sends commands while this member leads.
    pub(super) fn is_at_work(&self) -> bool {
        !matches!(self.work, Work::Nothing)
    }

    /// Continues a measurement. True if a command was laid on the desk.
    fn step(&mut self, mut decide: Box<Decide>, leads: bool, desk: &mut Desk) -> bool {
        if !self.is_open
            && decide.is_timing()
            && let Some(row) = decide.end()
        {
            self.outcome = Some(Answer::Took(row));
            return false;
        }
        if !leads {
            self.outcome = Some(Answer::Deposed);
            return false;
        }
        let begins = !self.is_open;
        if begins {
            desk.write(ASKER, decide.begin());
            self.is_open = true;
        }
        self.work = Work::Decide(decide);
        begins
    }
}

impl Door<Counter> for Client {
    fn perform(&mut self, _: Asker, _: u64, _: &mut Counter, _: &mut Desk) -> Performed {
        unreachable!("the client reads nothing")
    }

    fn describe_read(&mut self, _: Asker, _: &mut Vec<u8>) {
        unreachable!("the client reads nothing")
    }

    fn answer(&mut self, _: Asker, answer: Ended<'_>, _: &mut Desk) {
        self.is_open = false;
        // A decision takes far less than a client's patience, unless no member leads.
        if answer == Ended::Unknown && matches!(self.work, Work::Decide(_)) {
            self.work = Work::Nothing;
            self.outcome = Some(Answer::Deposed);
        }
    }

    fn answer_read(&mut self, _: Asker, _: ReadAnswer<'_>, _: &mut Desk) {
        unreachable!("the client reads nothing")
    }

    fn answer_wait(&mut self, _: Asker, _: usize, _: &mut Desk) {
        unreachable!("the client sends no WAIT")
    }

    fn resume(&mut self, _: &mut Counter, desk: &mut Desk) -> bool {
        let leads = desk.view().role == Role::Leader;
        match std::mem::replace(&mut self.work, Work::Nothing) {
            Work::Nothing => false,
            Work::Load(value) => {
                let begins = leads && !self.is_open;
                if begins {
                    desk.write(ASKER, &value);
                    self.is_open = true;
                }
                self.work = Work::Load(value);
                begins
            }
            Work::Decide(decide) => self.step(decide, leads, desk),
        }
    }

    fn flush(&mut self, _: &mut Desk) {}

    fn publish(&mut self, _: &View, _: &Stats, _: &mut Counter) {}
}

impl Sockets<Counter> for Client {
    fn on_ready(&mut self, _: Ready, _: &mut Counter, _: &mut Desk) {
        self.read_mail();
    }
}
