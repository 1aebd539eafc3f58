//! The coordinator: operations of this member's clients, from the query to the end.
//!
//! ```text
//! Query --majority--> (a write, or the newest is not at a majority) --> Store --majority--> end
//!       --majority--> (a read, and a majority holds the newest) --> end
//! ```

use super::bugs::Bug;
use super::wire::{Body, Runs};
use super::{Abd, CROWDED_PAUSE, RESEND_AFTER, RESEND_AFTER_MAX};
use crate::keyed::{Claim, End, KeyedHost, KeyedMachine, Op, Tag, Ticket};
use crate::planted::Planting;
use alloc::vec::Vec;
use base::{Incarnation, Instant, MAX_MEMBERS, Rank, majority};
use core::time::Duration;

/// What members have replied in one phase: in which run, and what.
#[derive(Debug)]
pub(super) struct Replies<T> {
    of: [Option<(u64, T)>; MAX_MEMBERS],
    /// All that came, the same again included (`Bug::CountedTwice`).
    n_came: usize,
}

impl<T> Default for Replies<T> {
    fn default() -> Replies<T> {
        Replies { of: [const { None }; MAX_MEMBERS], n_came: 0 }
    }
}

impl<T> Replies<T> {
    fn put(&mut self, from: Rank, run: u64, reply: T) {
        self.n_came += 1;
        let place = &mut self.of[from.index()];
        if place.as_ref().is_none_or(|(of, _)| *of <= run) {
            *place = Some((run, reply));
        }
    }

    /// Those of runs that are not known to be over (A4).
    fn valid<'a>(
        &'a self,
        runs: &'a Runs,
        all: bool,
    ) -> impl Iterator<Item = (Rank, &'a T)> + Clone {
        let is_valid = move |at: usize, run: u64| all || run == runs[at];
        self.of.iter().enumerate().filter_map(move |(at, reply)| {
            let (run, reply) = reply.as_ref()?;
            is_valid(at, *run).then(|| (Rank::at(at), reply))
        })
    }

    fn has(&self, rank: Rank, runs: &Runs, all: bool) -> bool {
        self.valid(runs, all).any(|(from, _)| from == rank)
    }
}

/// How far an operation is.
#[derive(Debug)]
pub(super) enum Phase {
    /// Versions are collected; the newest is kept.
    Query { replies: Replies<Tag>, tag: Tag, value: Vec<u8> },
    /// A version is stored.
    Store { acks: Replies<()>, tag: Tag, value: Vec<u8>, is_write: bool },
}

/// One operation.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) ticket: Ticket,
    key: Vec<u8>,
    is_write: bool,
    phase: Phase,
    deadline: Instant,
    pub(super) resend_at: Instant,
    resend_after: Duration,
}

impl Operation {
    pub(super) fn new(ticket: Ticket, op: Op<'_>, deadline: Instant, at: Instant) -> Operation {
        let (replies, tag, value) = (Replies::default(), Tag::NONE, Vec::new());
        Operation {
            ticket,
            key: op.key().to_vec(),
            is_write: matches!(op, Op::Write { .. }),
            phase: Phase::Query { replies, tag, value },
            deadline,
            resend_at: at,
            resend_after: RESEND_AFTER,
        }
    }

    /// When something has to be done about it.
    pub(super) fn due_at(&self) -> Instant {
        self.deadline.min(self.resend_at)
    }

    fn begin_phase(&mut self, now: Instant) {
        self.resend_after = RESEND_AFTER;
        self.resend_at = now.plus(RESEND_AFTER);
    }
}

impl<P: Planting<Bug>> Abd<P> {
    fn quorum(&self, one: bool) -> usize {
        if one { 1 } else { majority(self.members) }
    }

    pub(super) fn begin_query<H: KeyedHost>(&mut self, number: u64, now: Instant, host: &mut H) {
        let Some(mut operation) = self.operations.remove(&number) else { return };
        let own = host.register(&operation.key).map(|(tag, value)| (tag, value.to_vec()));
        let own = own.unwrap_or((Tag::NONE, Vec::new()));
        if let Phase::Query { replies, tag, value } = &mut operation.phase {
            replies.put(self.me, self.run(), own.0);
            (*tag, *value) = own;
        }
        self.ask(number, &mut operation, now, host);
        self.operations.insert(number, operation);
        self.advance(number, now, host);
    }

    /// Sends an operation's present request to all that have not answered it.
    fn ask<H: KeyedHost>(&mut self, number: u64, of: &mut Operation, now: Instant, host: &mut H) {
        let (runs, all) = (self.runs, self.planted.has(Bug::OldRunsCount));
        for to in self.others() {
            let (has, body) = match &of.phase {
                Phase::Query { replies, .. } => {
                    (replies.has(to, &runs, all), Body::Query { number, key: &of.key })
                }
                Phase::Store { acks, tag, value, .. } => {
                    let body = Body::Store { number, key: &of.key, tag: *tag, value };
                    (acks.has(to, &runs, all), body)
                }
            };
            if !has && !self.send(to, &body, host) {
                of.resend_at = of.resend_at.min(now.plus(CROWDED_PAUSE));
            }
        }
    }

    /// Which operation a reply is for.
    fn answered(&self, number: u64) -> Option<u64> {
        if self.planted.has(Bug::AnyReplyCounts) {
            return self.operations.keys().next().copied();
        }
        self.operations.contains_key(&number).then_some(number)
    }

    pub(super) fn on_value<H: KeyedHost>(
        &mut self,
        (from, run): (Rank, u64),
        number: u64,
        (found, bytes): (Tag, &[u8]),
        now: Instant,
        host: &mut H,
    ) {
        let Some(number) = self.answered(number) else { return };
        let oldest_wins = self.planted.has(Bug::OldestWins);
        let Some(Operation { phase, .. }) = self.operations.get_mut(&number) else { return };
        let Phase::Query { replies, tag, value } = phase else { return };
        replies.put(from, run, found);
        let is_taken = if oldest_wins { found < *tag } else { found > *tag };
        if is_taken {
            (*tag, *value) = (found, bytes.to_vec());
        }
        self.advance(number, now, host);
    }

    pub(super) fn on_stored<H: KeyedHost>(
        &mut self,
        (from, run): (Rank, u64),
        number: u64,
        now: Instant,
        host: &mut H,
    ) {
        let Some(number) = self.answered(number) else { return };
        let Some(operation) = self.operations.get_mut(&number) else { return };
        let Phase::Store { acks, .. } = &mut operation.phase else { return };
        acks.put(from, run, ());
        self.advance(number, now, host);
    }

    /// Everything that the replies allow.
    fn advance<H: KeyedHost>(&mut self, number: u64, now: Instant, host: &mut H) {
        let Some(mut operation) = self.operations.remove(&number) else { return };
        let has_ended = self.conclude_query(number, &mut operation, now, host)
            || self.conclude_store(&mut operation, host);
        if !has_ended {
            self.operations.insert(number, operation);
        }
    }

    /// Ends a query that has its quorum. True if that is the end of the operation.
    fn conclude_query<H: KeyedHost>(
        &mut self,
        number: u64,
        operation: &mut Operation,
        now: Instant,
        host: &mut H,
    ) -> bool {
        let all = self.planted.has(Bug::OldRunsCount);
        let twice = self.planted.has(Bug::CountedTwice);
        let quorum = self.quorum(self.planted.has(Bug::QueryOfOne));
        let Phase::Query { replies, tag, value } = &mut operation.phase else { return false };
        let n_valid = if twice { replies.n_came } else { replies.valid(&self.runs, all).count() };
        if n_valid < quorum {
            return false;
        }
        let (tag, value) = (*tag, core::mem::take(value));
        let mut new = Vec::new();
        if operation.is_write && host.compute(operation.ticket, &value, &mut new) {
            let tag = self.next_tag(&operation.key, tag, host);
            self.begin_store(number, operation, (tag, new, true), Replies::default(), now, host);
            return false;
        }
        let mut acks = Replies::default();
        let mut n_holders = 0;
        // A member that holds it need not be asked to store it.
        for (rank, _) in replies.valid(&self.runs, all).filter(|(_, held)| **held == tag) {
            n_holders += 1;
            acks.put(rank, self.runs[rank.index()], ());
        }
        if n_holders >= quorum || self.planted.has(Bug::NoWriteBack) {
            self.end_confirmed(operation, (tag, &value), host);
            return true;
        }
        self.counts.write_backs += 1;
        self.begin_store(number, operation, (tag, value, false), acks, now, host);
        false
    }

    /// A tag above all that were heard, and above all that this run has given away (A1).
    fn next_tag<H: KeyedHost>(&self, key: &[u8], heard: Tag, host: &H) -> Tag {
        let own = host.register(key).map_or(Tag::NONE, |(tag, _)| tag);
        let heard = if self.planted.has(Bug::CounterFromOwn) { Tag::NONE } else { heard };
        let no_run = self.planted.has(Bug::TagWithoutRun);
        let run = Incarnation(if no_run { 0 } else { self.run() });
        let own = if self.planted.has(Bug::CounterFromHeard) { Tag::NONE } else { own };
        let counter = heard.counter.max(own.counter) + 1;
        Tag { counter, rank: self.me.index() as u16, run }
    }

    fn begin_store<H: KeyedHost>(
        &mut self,
        number: u64,
        operation: &mut Operation,
        (tag, value, is_write): (Tag, Vec<u8>, bool),
        mut acks: Replies<()>,
        now: Instant,
        host: &mut H,
    ) {
        assert!(value.len() <= <Abd<P> as KeyedMachine>::VALUE_BYTES_MAX, "the host keeps to it");
        self.place(&operation.key, tag, &value, host);
        if !self.planted.has(Bug::TiesUnbroken) && !self.planted.has(Bug::OlderReplaces) {
            let held = host.register(&operation.key).map(|(tag, _)| tag);
            assert!(held >= Some(tag), "A1: the own replica holds what is given away");
        }
        acks.put(self.me, self.run(), ());
        operation.phase = Phase::Store { acks, tag, value, is_write };
        operation.begin_phase(now);
        self.ask(number, operation, now, host);
    }

    /// Ends a store that has its quorum.
    fn conclude_store<H: KeyedHost>(&mut self, operation: &mut Operation, host: &mut H) -> bool {
        let all = self.planted.has(Bug::OldRunsCount);
        let Phase::Store { acks, is_write, tag, value } = &mut operation.phase else {
            return false;
        };
        let tag = *tag;
        let of_one = if *is_write { Bug::StoreAtOne } else { Bug::WriteBackToOne };
        let quorum = self.quorum(self.planted.has(of_one));
        let twice = self.planted.has(Bug::CountedTwice);
        let n_valid = if twice { acks.n_came } else { acks.valid(&self.runs, all).count() };
        if n_valid < quorum {
            return false;
        }
        let value = core::mem::take(value);
        self.end_confirmed(operation, (tag, &value), host);
        true
    }

    /// A majority holds this version or a newer one.
    fn end_confirmed<H: KeyedHost>(
        &self,
        operation: &Operation,
        (tag, value): (Tag, &[u8]),
        host: &mut H,
    ) {
        host.claim(Claim::Confirms { key: &operation.key, tag });
        let end = if operation.is_write { End::Written } else { End::Value(value) };
        host.end(operation.ticket, end);
    }

    /// An operation's deadline has passed, or its request is due again.
    pub(super) fn on_due<H: KeyedHost>(&mut self, number: u64, now: Instant, host: &mut H) {
        let Some(mut operation) = self.operations.remove(&number) else { return };
        if operation.deadline <= now {
            host.end(operation.ticket, self.end_at_deadline(&operation));
            return;
        }
        self.counts.resent += 1;
        operation.resend_after = (2 * operation.resend_after).min(RESEND_AFTER_MAX);
        operation.resend_at = now.plus(operation.resend_after);
        if self.planted.has(Bug::SentAgainAsNewer) {
            self.renew(&mut operation, host);
        }
        self.ask(number, &mut operation, now, host);
        self.operations.insert(number, operation);
        // A run may be known to be over by now, or a reply to count again.
        self.advance(number, now, host);
    }

    /// A8.
    fn end_at_deadline(&self, operation: &Operation) -> End<'static> {
        match operation.phase {
            Phase::Store { is_write: true, .. } if self.planted.has(Bug::UnknownCalledUndone) => {
                End::NotDone
            }
            Phase::Store { is_write: true, .. } => End::Unknown,
            Phase::Query { .. } | Phase::Store { .. } => End::NotDone,
        }
    }

    /// `Bug::SentAgainAsNewer`.
    fn renew<H: KeyedHost>(&mut self, operation: &mut Operation, host: &mut H) {
        let Phase::Store { tag, value, is_write: true, .. } = &mut operation.phase else { return };
        let newer = self.next_tag(&operation.key, *tag, host);
        *tag = newer;
        let value = value.clone();
        self.place(&operation.key, newer, &value, host);
    }
}
