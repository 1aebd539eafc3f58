//! The calls of this process that have no outcome yet, and those that it makes for others.

use super::done::{Once, Open};
use super::gather::Gather;
use super::letters::NoAnswer;
use super::pending::{ASK_EVERY, CallError, Outcome, Slot};
use crate::error::Refused;
use crate::event::{Ended, Member, View};
use crate::time::Time;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The number of questions without callers that may be kept beside as many as there are others.
const ABANDONED_MAX: usize = 64;

/// The calls, by their tickets (O2).
#[derive(Debug)]
pub(super) struct Calls {
    book: Mutex<Book>,
    is_over: Condvar,
    /// Signals that what a member was asked for has an outcome, or that replies were read.
    has_room: Condvar,
}

#[derive(Debug, Default)]
struct Book {
    n_tickets: u64,
    waiting: BTreeMap<u64, Waiter>,
    /// The number of these at which those are looked for whose callers have given up.
    look_at: usize,
    ended: Option<Ended>,
    /// By subgroup: what became of the messages of this process.
    sent: Vec<Sent>,
    /// By member: the p2p calls that it was asked for.
    p2p: BTreeMap<Member, Open>,
    /// Calls to which each member replies, and by their tickets what was replied.
    each: Open,
    gathers: BTreeMap<u64, Arc<Gather>>,
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
    /// A caller of this process, which is told each member's reply besides.
    Each(Arc<Gather>),
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
    /// A p2p call, with its number.
    P2p(u64),
}

/// The answer that the process on a seat is owed.
pub(super) type Owed = (usize, u64, Outcome);

impl Calls {
    /// Of a process in a group with so many subgroups. Its tickets follow its incarnation: they are
    /// not those of the processes before it on its seat, whose answers may still come.
    pub(super) fn new(incarnation: u64, n_subgroups: usize) -> Calls {
        let (n_tickets, sent) = (incarnation, vec![Sent::default(); n_subgroups]);
        let book = Book { n_tickets, sent, ..Book::default() };
        Calls { book: Mutex::new(book), is_over: Condvar::new(), has_room: Condvar::new() }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A ticket for a call.
    pub(super) fn ticket(&self) -> u64 {
        let mut book = self.book();
        book.n_tickets = book.n_tickets.wrapping_add(1);
        book.n_tickets
    }

    /// Notes where the outcome of the call with this ticket goes. An error if the process has
    /// ended.
    pub(super) fn enter(&self, ticket: u64, waiter: Waiter) -> Result<(), Ended> {
        let mut book = self.book();
        if let Some(ended) = &book.ended {
            return Err(ended.clone());
        }
        if book.waiting.len() >= book.look_at {
            book.forget_abandoned();
        }
        book.waiting.insert(ticket, waiter);
        Ok(())
    }

    /// Notes that `asked` is asked for a p2p call with this ticket: its outcome goes to the place
    /// that `place` makes. `None` if too many are open (`done`, D3).
    pub(super) fn enter_p2p(
        &self,
        ticket: u64,
        asked: Member,
        place: impl FnOnce(Once) -> Arc<Slot>,
    ) -> Result<Option<Arc<Slot>>, Ended> {
        let mut book = self.book();
        if let Some(ended) = &book.ended {
            return Err(ended.clone());
        }
        if !book.p2p.entry(asked).or_default().has_room() {
            book.forget_p2p(asked);
        }
        let Some(once) = book.p2p.entry(asked).or_default().enter(ticket) else { return Ok(None) };
        let slot = place(once);
        let waiter = Waiter::Asks(Arc::clone(&slot), asked, Wish::P2p(once.number));
        book.waiting.insert(ticket, waiter);
        Ok(Some(slot))
    }

    /// Waits until `asked` may be asked for one more p2p call. False after `by`.
    pub(super) fn wait_p2p(&self, asked: Member, by: Instant) -> bool {
        let is_full = |book: &mut Book| {
            book.ended.is_none() && book.p2p.get(&asked).is_some_and(|open| !open.has_room())
        };
        let left = by.saturating_duration_since(Instant::now());
        let waited = self.has_room.wait_timeout_while(self.book(), left, is_full);
        let (book, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        drop(book);
        !waited.timed_out()
    }

    /// The place of the outcome of the first p2p call of `asked` that is open.
    pub(super) fn first_p2p(&self, asked: Member) -> Option<Arc<Slot>> {
        let book = self.book();
        let (_, ticket) = book.p2p.get(&asked)?.tickets().next()?;
        match book.waiting.get(&ticket)? {
            Waiter::Asks(slot, ..) => Some(Arc::clone(slot)),
            Waiter::Here(_) | Waiter::Each(_) | Waiter::There { .. } => None,
        }
    }

    /// Notes a call to which each member replies. `None` if no room has come by then.
    pub(super) fn enter_each(
        &self,
        ticket: u64,
        gather: &Arc<Gather>,
        by: Instant,
    ) -> Result<Option<Once>, Ended> {
        let is_full = |book: &mut Book| book.ended.is_none() && !book.each.has_room();
        let left = by.saturating_duration_since(Instant::now());
        let waited = self.has_room.wait_timeout_while(self.book(), left, is_full);
        let (mut book, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if let Some(ended) = &book.ended {
            return Err(ended.clone());
        }
        let once = book.each.enter(ticket);
        if once.is_some() {
            book.waiting.insert(ticket, Waiter::Each(Arc::clone(gather)));
            book.gathers.insert(ticket, Arc::clone(gather));
        }
        Ok(once)
    }

    /// Notes that no more replies are read of a call.
    pub(super) fn close_each(&self, ticket: u64, once: Once) {
        let mut book = self.book();
        book.gathers.remove(&ticket);
        book.each.close(once.number);
        drop(book);
        self.has_room.notify_all();
    }

    /// What is replied to the call with this ticket, if each member does and it is read.
    pub(super) fn gather(&self, ticket: u64) -> Option<Arc<Gather>> {
        self.book().gathers.get(&ticket).map(Arc::clone)
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
        let mut book = self.book();
        book.p2p.retain(|asked, _| view.members.contains(asked));
        book.gathers.values().for_each(|gather| gather.keep(view));
        book.waiting.retain(|_, waiter| {
            let Waiter::Asks(slot, asked, wish) = waiter else { return true };
            let stays = view.members.contains(asked);
            if !stays {
                gone.push((Arc::clone(slot), asked.seat, *wish));
            }
            stays
        });
        drop(book);
        self.has_room.notify_all();
        for (slot, seat, wish) in gone {
            slot.fill(Err(match wish {
                Wish::Answer => CallError::Gone(seat),
                Wish::Call | Wish::P2p(_) => CallError::Lost(seat),
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

    /// Waits until everything has its outcome that other members were asked to execute, and a
    /// caller waits for; until `by` at most. What may be lost on its way is asked for again, but
    /// for calls: one of these may stay open for good.
    pub(super) fn wait_others(&self, by: Instant) {
        loop {
            let is_open = |book: &mut Book| book.ended.is_none() && book.awaits_others();
            let left = by.saturating_duration_since(Instant::now());
            let span = left.min(ASK_EVERY);
            let waited = self.has_room.wait_timeout_while(self.book(), span, is_open);
            let (book, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            if !waited.timed_out() || left.is_zero() {
                return;
            }
            let slots = book.waiting.values().filter_map(|waiter| match waiter {
                Waiter::Asks(slot, _, Wish::P2p(_)) => Some(Arc::clone(slot)),
                _ => None,
            });
            let slots: Vec<_> = slots.collect();
            drop(book);
            slots.iter().for_each(|slot| slot.ask(Duration::ZERO));
        }
    }

    /// Gives a call its outcome, if it has none. Returns what another process is owed.
    pub(super) fn settle(&self, ticket: u64, outcome: Outcome) -> Option<Owed> {
        let waiter = self.take(ticket)?;
        match waiter {
            Waiter::Here(slot) | Waiter::Asks(slot, ..) => slot.fill(outcome),
            Waiter::Each(gather) => gather.tell(outcome),
            Waiter::There { seat, ticket } => return Some((seat, ticket, outcome)),
        }
        None
    }

    fn take(&self, ticket: u64) -> Option<Waiter> {
        let mut book = self.book();
        let waiter = book.waiting.remove(&ticket)?;
        if let Waiter::Asks(_, asked, wish) = &waiter {
            if let Wish::P2p(number) = wish
                && let Some(open) = book.p2p.get_mut(asked)
            {
                open.close(*number);
            }
            self.has_room.notify_all();
        }
        Some(waiter)
    }

    /// Ends every call that has no outcome, and refuses later ones.
    pub(super) fn end(&self, ended: &Ended) {
        let mut book = self.book();
        if book.ended.is_some() {
            return;
        }
        book.ended = Some(ended.clone());
        let waiting = std::mem::take(&mut book.waiting);
        let gathers = std::mem::take(&mut book.gathers);
        drop(book);
        self.is_over.notify_all();
        self.has_room.notify_all();
        for waiter in waiting.into_values() {
            match waiter {
                Waiter::Here(slot) | Waiter::Asks(slot, ..) => {
                    slot.fill(Err(CallError::Unknown(ended.clone())));
                }
                Waiter::Each(_) | Waiter::There { .. } => {}
            }
        }
        for gather in gathers.into_values() {
            gather.tell(Err(CallError::Unknown(ended.clone())));
        }
    }
}

impl Book {
    /// Forgets what other members were asked for and no caller waits for: it changes nothing, or
    /// will be done all the same. (P2p calls have an end of their own: `done`, D3.)
    fn forget_abandoned(&mut self) {
        self.waiting.retain(|_, waiter| match waiter {
            Waiter::Asks(slot, _, Wish::Answer | Wish::Call) => Arc::strong_count(slot) > 1,
            _ => true,
        });
        self.look_at = (2 * self.waiting.len()).max(ABANDONED_MAX);
    }

    /// Whether a caller waits for what another member was asked to execute.
    fn awaits_others(&self) -> bool {
        self.waiting.values().any(|waiter| match waiter {
            Waiter::Asks(slot, _, Wish::Call | Wish::P2p(_)) => Arc::strong_count(slot) > 1,
            _ => false,
        })
    }

    /// Forgets p2p calls of a member whose outcomes can reach no caller any longer.
    fn forget_p2p(&mut self, asked: Member) {
        let Book { p2p, waiting, .. } = self;
        let Some(open) = p2p.get_mut(&asked) else { return };
        let is_left = |ticket| match waiting.get(&ticket) {
            Some(Waiter::Asks(slot, ..)) => Arc::strong_count(slot) == 1,
            _ => true,
        };
        let left: Vec<_> = open.tickets().filter(|(_, ticket)| is_left(*ticket)).collect();
        for (number, ticket) in left {
            open.close(number);
            waiting.remove(&ticket);
        }
    }
}

/// The outcome of a call that was made here for another process, as it is told there; and the time
/// that led to it, where this process knows of `latest`.
pub(super) fn told(
    outcome: &Outcome,
    latest: Time,
    n_most: usize,
) -> (Time, Result<&[u8], NoAnswer>) {
    match outcome {
        Ok(reply) if reply.bytes.len() > n_most => (reply.time, Err(NoAnswer::TooLong)),
        Ok(reply) => (reply.time, Ok(&reply.bytes)),
        Err(CallError::NotExecuted(_)) => (latest, Err(NoAnswer::Declined)),
        Err(CallError::QueryPanicked) => (latest, Err(NoAnswer::Panicked)),
        Err(_) => (latest, Err(NoAnswer::Undecodable)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::pending::Reply;
    use super::*;
    use crate::deadline::deadline;

    #[test]
    fn o2_an_answer_to_the_process_before_settles_no_call() {
        let calls = |incarnation| Calls::new(incarnation, 1);
        let (before, next) = (calls(1_000_000), calls(2_000_000));
        let tickets = |calls: &Calls| (0..1000).map(|_| calls.ticket()).collect::<Vec<_>>();
        let late = tickets(&before);
        assert!(tickets(&next).iter().all(|ticket| !late.contains(ticket)));
    }

    /// Enters a question to a member, with this wish.
    fn ask(calls: &Calls, wish: Wish) -> Arc<Slot> {
        let slot = Arc::<Slot>::default();
        let asked = Member { seat: 2, incarnation: 7, metadata: [0; 2] };
        let waiter = Waiter::Asks(Arc::clone(&slot), asked, wish);
        calls.enter(calls.ticket(), waiter).expect("it has not ended");
        slot
    }

    #[test]
    fn questions_whose_callers_have_given_up_are_forgotten() {
        let calls = Calls::new(7, 1);
        let kept: Vec<_> = (0..100).map(|_| ask(&calls, Wish::Answer)).collect();
        for _ in 0..10_000 {
            drop(ask(&calls, Wish::Answer));
            drop(ask(&calls, Wish::Call));
        }
        assert!(calls.book().waiting.len() <= 2 * 101, "{}", calls.book().waiting.len());
        calls.end(&Ended::Left);
        let outcome = Some(Err(CallError::Unknown(Ended::Left)));
        assert!(kept.iter().all(|slot| slot.wait(Duration::ZERO) == outcome));
    }

    #[test]
    fn a_process_that_leaves_waits_for_what_others_execute_for_its_callers() {
        let calls = Calls::new(7, 1);
        drop(ask(&calls, Wish::Call));
        let question = ask(&calls, Wish::Answer);
        let far = || deadline(Duration::from_secs(600));
        calls.wait_others(far());
        let slot = ask(&calls, Wish::Call);
        calls.wait_others(Instant::now());
        let ticket = *calls.book().waiting.last_key_value().expect("a call").0;
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| calls.wait_others(far()));
            let reply = Reply { bytes: vec![5], time: Time::default() };
            calls.settle(ticket, Ok(reply));
            waits.join().expect("it is over");
        });
        assert!(slot.wait(Duration::ZERO).is_some() && question.wait(Duration::ZERO).is_none());
    }

    #[test]
    fn o5_the_caller_of_another_process_is_told_the_time_of_its_call() {
        let (bytes, [time, latest]) = (vec![7; 9], [3, 8].map(Time::from_nanos));
        let outcome = Ok(Reply { bytes, time });
        assert_eq!(told(&outcome, latest, 9), (time, Ok(&[7; 9][..])), "later calls are later");
        assert_eq!(told(&outcome, latest, 8), (time, Err(NoAnswer::TooLong)));
        let ended = Err(CallError::NotExecuted(Ended::Left.into()));
        assert_eq!(told(&ended, latest, 9), (latest, Err(NoAnswer::Declined)));
    }
}
