//! The calls of this process that have no outcome yet.

use super::pending::{CallError, Outcome, Slot};
use crate::event::{Ended, Member, View};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The calls, by their tickets (O2).
#[derive(Debug, Default)]
pub(super) struct Calls {
    book: Mutex<Book>,
    is_over: Condvar,
}

#[derive(Debug, Default)]
struct Book {
    n_tickets: u64,
    /// With the member that was asked, where it was one.
    waiting: BTreeMap<u64, (Arc<Slot>, Option<Member>)>,
    ended: Option<Ended>,
}

impl Calls {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A ticket for a call.
    pub(super) fn ticket(&self) -> u64 {
        let mut book = self.book();
        book.n_tickets += 1;
        book.n_tickets
    }

    /// Notes that the outcome of the call with this ticket goes to `slot`; of `asked`, if one
    /// member alone is asked. An error if the process has ended.
    pub(super) fn enter(
        &self,
        ticket: u64,
        slot: &Arc<Slot>,
        asked: Option<Member>,
    ) -> Result<(), Ended> {
        let mut book = self.book();
        if let Some(ended) = &book.ended {
            return Err(ended.clone());
        }
        book.waiting.insert(ticket, (Arc::clone(slot), asked));
        Ok(())
    }

    /// Ends the questions to processes that are not in `view`.
    pub(super) fn keep_asking(&self, view: &View) {
        let mut gone = Vec::new();
        self.book().waiting.retain(|_, (slot, asked)| {
            let lost = asked.filter(|asked| !view.members.contains(asked));
            gone.extend(lost.map(|asked| (Arc::clone(slot), asked.seat)));
            lost.is_none()
        });
        for (slot, seat) in gone {
            slot.fill(Err(CallError::Gone(seat)));
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

    /// Gives a call its outcome, if it has none.
    pub(super) fn settle(&self, ticket: u64, outcome: Outcome) {
        let slot = self.book().waiting.remove(&ticket);
        if let Some((slot, _)) = slot {
            slot.fill(outcome);
        }
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
        for (slot, _) in waiting.into_values() {
            slot.fill(Err(CallError::Unknown(ended.clone())));
        }
    }
}
