//! What the answers to a connection say of its requests (R4).
//!
//! - A1 answers come in the order of the requests, one for each, as long as nothing is lost. Where
//!   that cannot be said, each request that waits for its answer is in doubt, and so is each later
//!   one: behind a header that programs may read in two ways, a zero in a line, a name in signs
//!   for others, and requests that have no answer, or several.
//! - A2 a request that is queued in a transaction was executed when an element of EXEC's answer
//!   says so.

use super::kept::{Keep, is_error};
use crate::framing::{self, Begun, ends_transaction};
use std::collections::VecDeque;

/// The most requests that wait for their answer.
const AWAITED_MAX: usize = 1 << 16;
/// The most bytes of those, and of the queued ones.
const AWAITED_BYTES_MAX: usize = 4 << 20;

/// A request whose answer matters.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    Keep(Keep),
    /// A request whose name is not known: it may be one that makes answers others' (A1).
    Hidden(Keep),
    /// MULTI
    Begin,
    /// EXEC or DISCARD, and its number among those that may be kept (R5).
    End(u64),
    Watch,
    Unwatch,
    Reset,
}

/// What became of a request.
#[derive(Debug)]
pub(super) enum Done {
    Executed(Keep),
    InDoubt(Keep),
    /// RESET was executed.
    Reset,
}

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard {
    replies: framing::Resp,
    n_asked: u64,
    n_heard: u64,
    /// The requests that wait for their answer, by number.
    awaited: VecDeque<(u64, Asked)>,
    /// The bytes of the requests that are waited for, or queued.
    n_bytes: usize,
    is_in_transaction: bool,
    /// The requests of the transaction, and those of them to be kept, by place.
    n_queued: u64,
    queued: VecDeque<(u64, Keep)>,
    /// The same of the transaction whose answer comes, and the elements that have come.
    running: VecDeque<(u64, Keep)>,
    n_elements: u64,
    is_watching: bool,
    /// A1 cannot be said.
    is_lost: bool,
}

impl Heard {
    /// Whether a new connection would be treated like this one, as far as transactions tell.
    pub(super) fn is_plain(&self) -> bool {
        !self.is_lost && !self.is_watching && !self.may_be_in_transaction()
    }

    /// Whether requests may be queued, or what they were is not known yet.
    pub(super) fn may_be_in_transaction(&self) -> bool {
        self.is_in_transaction || !self.awaited.is_empty()
    }

    /// Whether answers are not one for each request.
    pub(super) const fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// The requests that were fed so far.
    pub(super) const fn n_asked(&self) -> u64 {
        self.n_asked
    }

    /// Whether the request of this number may wait for its answer, where the connection is owed so
    /// many answers: behind a request that blocks it is executed when that has ended. (Where A1
    /// cannot be said, each may be it as long as any answer is owed.)
    pub(super) const fn may_await(&self, number: u64, n_owed: u64) -> bool {
        if self.is_lost { n_owed > 0 } else { self.n_heard < number }
    }

    /// Another request was fed.
    pub(super) fn ask(&mut self, asked: Option<Asked>, each: &mut impl FnMut(Done)) {
        self.n_asked += 1;
        let Some(asked) = asked else { return };
        if let Asked::Keep(keep) = &asked {
            self.n_bytes += keep.n_bytes();
        }
        self.awaited.push_back((self.n_asked, asked));
        let is_too_much = self.awaited.len() > AWAITED_MAX || self.n_bytes > AWAITED_BYTES_MAX;
        if is_too_much || self.is_lost {
            self.lose(each);
        }
    }

    /// The program has sent these bytes.
    pub(super) fn hear(&mut self, bytes: &[u8], each: &mut impl FnMut(Done)) {
        if self.is_lost {
            return;
        }
        let mut replies = std::mem::take(&mut self.replies);
        replies.replies_by(bytes, |begun, line| match begun {
            Begun::Reply => self.reply(line, each),
            Begun::Element => self.element(line, each),
        });
        let is_lost = replies.has_lost_replies() || self.n_heard > self.n_asked;
        self.replies = replies;
        if is_lost {
            self.lose(each);
        }
    }

    fn reply(&mut self, line: &[u8], each: &mut impl FnMut(Done)) {
        self.n_heard += 1;
        let is_next = self.awaited.front().is_some_and(|(number, _)| *number == self.n_heard);
        let asked = if is_next { self.awaited.pop_front() } else { None };
        let asked = asked.map(|(_, asked)| asked);
        if self.is_in_transaction && line == b"+QUEUED" {
            let is_hidden = matches!(asked, Some(Asked::Hidden(_)));
            if let Some(Asked::Keep(keep) | Asked::Hidden(keep)) = asked {
                self.queued.push_back((self.n_queued, keep));
            }
            self.n_queued += 1;
            if is_hidden {
                self.lose(each);
            }
            return;
        }
        match asked {
            None => {}
            Some(Asked::Keep(keep)) => self.settle(keep, line, each),
            Some(Asked::Hidden(keep)) => {
                // If it has no answer, it has done nothing to the program, and this one is the
                // next request's.
                self.settle(keep, line, each);
                self.lose(each);
            }
            Some(Asked::Begin) => self.is_in_transaction |= !is_error(line),
            Some(Asked::End(number)) if ends_transaction(line) => {
                self.end_transaction(number, line, each);
            }
            Some(Asked::End(_)) => {}
            Some(Asked::Watch) => self.is_watching |= !is_error(line),
            Some(Asked::Unwatch) => self.is_watching &= is_error(line),
            Some(Asked::Reset) if line == b"+RESET" => {
                self.is_watching = false;
                self.forget_transaction();
                each(Done::Reset);
            }
            Some(Asked::Reset) => {}
        }
    }

    /// The answer to EXEC or DISCARD begins so.
    fn end_transaction(&mut self, number: u64, line: &[u8], each: &mut impl FnMut(Done)) {
        self.is_watching = false;
        if line.starts_with(b"*") && line != b"*-1" {
            let is_whole = line == format!("*{}", self.n_queued).as_bytes();
            let queued = self.queued.drain(..);
            self.running = queued.map(|(at, keep)| (at, keep.executed_at(number))).collect();
            self.n_elements = 0;
            if !is_whole {
                self.lose(each);
            }
        }
        self.forget_transaction();
    }

    /// What is queued is not executed.
    fn forget_transaction(&mut self) {
        self.n_bytes -= self.queued.drain(..).map(|(_, keep)| keep.n_bytes()).sum::<usize>();
        (self.is_in_transaction, self.n_queued) = (false, 0);
    }

    /// An element of an array begins so.
    fn element(&mut self, line: &[u8], each: &mut impl FnMut(Done)) {
        let at = self.n_elements;
        self.n_elements += 1;
        let is_next = self.running.front().is_some_and(|(place, _)| *place == at);
        if is_next && let Some((_, keep)) = self.running.pop_front() {
            self.settle(keep, line, each); // A2
        }
    }

    fn settle(&mut self, keep: Keep, line: &[u8], each: &mut impl FnMut(Done)) {
        self.n_bytes -= keep.n_bytes();
        if keep.was_executed(line) {
            each(Done::Executed(keep));
        }
    }

    /// Answers are no longer one for each request (A1).
    pub(super) fn lose(&mut self, each: &mut impl FnMut(Done)) {
        self.is_lost = true;
        self.n_bytes = 0;
        let transaction = self.running.drain(..).chain(self.queued.drain(..));
        transaction.for_each(|(_, keep)| each(Done::InDoubt(keep)));
        for (_, asked) in self.awaited.drain(..) {
            match asked {
                Asked::Keep(keep) | Asked::Hidden(keep) => each(Done::InDoubt(keep)),
                // What the requests say is all that is known.
                Asked::Begin => self.is_in_transaction = true,
                Asked::End(_) => self.is_in_transaction = false,
                Asked::Watch | Asked::Unwatch | Asked::Reset => {}
            }
        }
    }

    /// The connection is no more: what was not answered is in doubt, and what was queued was not
    /// executed.
    pub(super) fn end(&mut self, each: &mut impl FnMut(Done)) {
        if !self.awaited.iter().any(|(_, asked)| matches!(asked, Asked::End(_))) {
            self.forget_transaction();
        }
        self.lose(each);
    }
}
