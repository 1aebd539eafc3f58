//! The calls of this process that have no outcome yet, and those that it makes for others.

use super::letters::NoAnswer;
use super::pending::{CallError, Outcome, Slot};
use crate::error::Refused;
use crate::event::{Ended, Member, View};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The calls, by their tickets (O2).
#[derive(Debug)]
pub(super) struct Calls {
    book: Mutex<Book>,
    is_over: Condvar,
}

#[derive(Debug, Default)]
struct Book {
    n_tickets: u64,
    waiting: BTreeMap<u64, Waiter>,
    ended: Option<Ended>,
    /// By subgroup: what became of the messages of this process.
    sent: Vec<Sent>,
}

/// The messages of one subgroup.
#[derive(Clone, Debug, Default)]
struct Sent {
    /// The tickets of those that are on their way, by their numbers.
    tickets: BTreeMap<u64, u64>,
    /// The numbers of those that were not sent.
    unsent: Vec<RangeInclusive<u64>>,
}

/// The place to which the outcome of a call goes.
#[derive(Clone, Debug)]
pub(super) enum Waiter {
    /// A caller of this process.
    Here(Arc<Slot>),
    /// The same, of a call that the member was asked for: to answer it, or to make it.
    Asks(Arc<Slot>, Member, Wish),
    /// The caller with this ticket at the process on this seat.
    There { seat: usize, ticket: u64 },
}

/// What a member was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// An answer, which changes nothing.
    Answer,
    /// A call.
    Call,
}

/// The answer that the process on a seat is owed.
pub(super) type Owed = (usize, u64, Outcome);

impl Calls {
    /// Of a group with so many subgroups.
    pub(super) fn new(n_subgroups: usize) -> Calls {
        let sent = vec![Sent::default(); n_subgroups];
        Calls { book: Mutex::new(Book { sent, ..Book::default() }), is_over: Condvar::new() }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A ticket for a call.
    pub(super) fn ticket(&self) -> u64 {
        let mut book = self.book();
        book.n_tickets += 1;
        book.n_tickets
    }

    /// Notes where the outcome of the call with this ticket goes. An error if the process has
    /// ended.
    pub(super) fn enter(&self, ticket: u64, waiter: Waiter) -> Result<(), Ended> {
        let mut book = self.book();
        if let Some(ended) = &book.ended {
            return Err(ended.clone());
        }
        book.waiting.insert(ticket, waiter);
        Ok(())
    }

    /// Notes the number of the message that makes a call. What is owed if it is unsent already.
    pub(super) fn number(
        &self,
        subgroup: u16,
        number: u64,
        ticket: u64,
        why: &Refused,
    ) -> Option<Owed> {
        let mut book = self.book();
        if !book.waiting.contains_key(&ticket) {
            return None;
        }
        let sent = &mut book.sent[usize::from(subgroup)];
        if !sent.unsent.iter().any(|numbers| numbers.contains(&number)) {
            sent.tickets.insert(number, ticket);
            return None;
        }
        drop(book);
        self.settle(ticket, Err(CallError::NotExecuted(why.clone())))
    }

    /// Gives the calls of messages that were not sent their outcome. Returns what is owed.
    pub(super) fn unsent(
        &self,
        subgroup: u16,
        numbers: &RangeInclusive<u64>,
        why: &Refused,
    ) -> Vec<Owed> {
        let mut book = self.book();
        let sent = &mut book.sent[usize::from(subgroup)];
        sent.unsent.push(numbers.clone());
        let tickets: Vec<u64> = sent.tickets.range(numbers.clone()).map(|(_, one)| *one).collect();
        sent.tickets.retain(|number, _| !numbers.contains(number));
        drop(book);
        let settle = |ticket| self.settle(ticket, Err(CallError::NotExecuted(why.clone())));
        tickets.into_iter().filter_map(settle).collect()
    }

    /// Notes that message `number` of a subgroup was delivered.
    pub(super) fn delivered(&self, subgroup: u16, number: u64) {
        self.book().sent[usize::from(subgroup)].tickets.remove(&number);
    }

    /// Ends what was asked of processes that are not in `view`.
    pub(super) fn keep_asking(&self, view: &View) {
        let mut gone = Vec::new();
        self.book().waiting.retain(|_, waiter| {
            let Waiter::Asks(slot, asked, wish) = waiter else { return true };
            let stays = view.members.contains(asked);
            if !stays {
                gone.push((Arc::clone(slot), asked.seat, *wish));
            }
            stays
        });
        for (slot, seat, wish) in gone {
            slot.fill(Err(match wish {
                Wish::Answer => CallError::Gone(seat),
                Wish::Call => CallError::Lost(seat),
            }));
        }
    }

    /// Whether the process is in the group.
    pub(super) fn check(&self) -> Result<(), Ended> {
        self.book().ended.clone().map_or(Ok(()), Err)
    }

    /// Waits until the process is not in the group; `None` after the timeout.
    pub(super) fn wait_end(&self, timeout: Duration) -> Option<Ended> {
        let over =
            self.is_over.wait_timeout_while(self.book(), timeout, |book| book.ended.is_none());
        let (book, _) = over.unwrap_or_else(PoisonError::into_inner);
        book.ended.clone()
    }

    /// Gives a call its outcome, if it has none. Returns what another process is owed.
    pub(super) fn settle(&self, ticket: u64, outcome: Outcome) -> Option<Owed> {
        let waiter = self.book().waiting.remove(&ticket)?;
        match waiter {
            Waiter::Here(slot) | Waiter::Asks(slot, ..) => slot.fill(outcome),
            Waiter::There { seat, ticket } => return Some((seat, ticket, outcome)),
        }
        None
    }

    /// Ends every call that has no outcome, and refuses later ones.
    pub(super) fn end(&self, ended: &Ended) {
        let mut book = self.book();
        if book.ended.is_some() {
            return;
        }
        book.ended = Some(ended.clone());
        let waiting = std::mem::take(&mut book.waiting);
        drop(book);
        self.is_over.notify_all();
        for waiter in waiting.into_values() {
            match waiter {
                Waiter::Here(slot) | Waiter::Asks(slot, ..) => {
                    slot.fill(Err(CallError::Unknown(ended.clone())));
                }
                Waiter::There { .. } => {}
            }
        }
    }
}

/// The outcome of a call that was made here for another process, as it is told there.
pub(super) fn told(outcome: &Outcome) -> Result<&[u8], NoAnswer> {
    match outcome {
        Ok(reply) => Ok(&reply.bytes),
        Err(CallError::NotExecuted(_)) => Err(NoAnswer::Declined),
        Err(_) => Err(NoAnswer::Undecodable),
    }
}
