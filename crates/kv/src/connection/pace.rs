//! The distance by which a connection runs ahead of a client that does not read.
//!
//! - C9 the answers to reads that a connection keeps are bounded by [`OUTPUT_BYTES_MAX`] and one
//!   answer: above it a read is put off ([`Pace::put_off`]) and asked for again when its client has
//!   read. A read has no effect, so performing it later is correct. The first request without an
//!   answer is always answered once almost everything before it is sent, so there is no deadlock.
//!   Tests `c9_*`.
//! - C14 while a read is put off, or asked for again, no later read is answered: it would show an
//!   older state. Such a later read is put off as well. By [`Pace::waits_for_earlier`]; the owner
//!   keeps the order of reads of one key. One that came back too early is not asked for again
//!   before the others that were asked for again have come back, so that none is asked for in vain
//!   over and over. Test `c14_reads_of_a_client_that_does_not_read_do_not_go_back_in_time`.
//! - C10 the answers to writes cannot be put off, so writes with long answers are not asked for
//!   while the writes under way may fill the output, judged by the longest recent answer. The
//!   output limit covers estimates that are too low.

use std::collections::VecDeque;

use super::limits::OutputLimit;
use super::{OUTPUT_BYTES_MAX, RequestId};
use base::Instant;

/// The pace of one connection; see the module's text.
#[derive(Debug)]
pub(super) struct Pace {
    /// The estimated bytes of the next long answer: the longest recent one, halved by each shorter
    /// one.
    expected: usize,
    /// The number of writes with long answers under way.
    n_long: usize,
    /// The reads that are to be asked for again, in order.
    put_off: VecDeque<RequestId>,
    /// The reads that were asked for again and have no answer yet.
    again: Vec<RequestId>,
    /// The last read that was asked for again since `again` was empty (C14).
    again_through: Option<RequestId>,
    /// The time at which the output went over the soft limit.
    over_since: Option<Instant>,
}

impl Default for Pace {
    /// The initial pace: the first writes with long answers are asked for one at a time.
    fn default() -> Pace {
        Pace {
            expected: OUTPUT_BYTES_MAX,
            n_long: 0,
            put_off: VecDeque::new(),
            again: Vec::new(),
            again_through: None,
            over_since: None,
        }
    }
}

impl Pace {
    /// Notes that a write with a long answer is under way.
    pub(super) fn began_long(&mut self) {
        self.n_long += 1;
    }

    /// Notes that it is answered.
    pub(super) fn ended_long(&mut self, n_bytes: usize) {
        self.n_long -= 1;
        self.learn(n_bytes);
    }

    /// Notes that a read is answered.
    pub(super) fn ended_read(&mut self, id: RequestId, n_bytes: usize) {
        self.forget(id);
        self.learn(n_bytes);
    }

    fn learn(&mut self, n_bytes: usize) {
        self.expected = n_bytes.max(self.expected / 2);
    }

    fn forget(&mut self, id: RequestId) {
        self.again.retain(|again| *again != id);
        self.put_off.retain(|put_off| *put_off != id);
    }

    /// Whether a write with a long answer may be asked for, while `n_bytes` of answers wait (C10).
    pub(super) fn takes_long(&self, n_bytes: usize) -> bool {
        self.n_long == 0 || self.fits(self.n_long, n_bytes)
    }

    fn fits(&self, n: usize, n_bytes: usize) -> bool {
        n.saturating_mul(self.expected).saturating_add(n_bytes) < OUTPUT_BYTES_MAX
    }

    /// Puts off the read `id`; it is asked for again later (C9).
    pub(super) fn put_off(&mut self, id: RequestId) {
        self.forget(id);
        let at = self.put_off.partition_point(|other| *other < id);
        self.put_off.insert(at, id);
    }

    /// Whether a read before `id` is put off, or was asked for again and has no answer (C14).
    pub(super) fn waits_for_earlier(&self, id: RequestId) -> bool {
        let is_put_off = self.put_off.front().is_some_and(|first| *first < id);
        is_put_off || self.again.iter().any(|again| *again < id)
    }

    /// Whether reads are put off.
    pub(super) fn has_put_off(&self) -> bool {
        !self.put_off.is_empty()
    }

    /// The next read to ask for again, if there is room for its answer by `takes` while `n_bytes`
    /// of answers wait.
    pub(super) fn ask_again(
        &mut self,
        n_bytes: usize,
        takes: impl FnOnce(RequestId) -> bool,
    ) -> Option<RequestId> {
        let id = *self.put_off.front()?;
        if self.again.is_empty() {
            self.again_through = None;
        }
        let came_too_early = self.again_through >= Some(id);
        let fits = self.again.is_empty() || self.fits(self.again.len() + 1, n_bytes);
        if came_too_early || !fits || !takes(id) {
            return None;
        }
        self.put_off.pop_front();
        self.again.push(id);
        self.again_through = Some(id);
        Some(id)
    }

    /// Whether the connection is to be closed, because `n_bytes` of answers wait.
    pub(super) fn is_over(&mut self, limit: OutputLimit, n_bytes: usize, now: Instant) -> bool {
        let n_bytes = n_bytes as u64;
        if limit.soft_bytes == 0 || n_bytes < limit.soft_bytes {
            self.over_since = None;
        } else {
            self.over_since = self.over_since.or(Some(now));
        }
        let too_long =
            self.over_since.is_some_and(|since| now.since(since).as_secs() >= limit.soft_s);
        (limit.hard_bytes != 0 && n_bytes >= limit.hard_bytes) || too_long
    }
}

/// Whether a write command's answer has a few bytes, whatever is stored.
pub(super) fn answers_shortly(name: &str, args: &[&[u8]]) -> bool {
    match name {
        // SET key value GET answers the old value.
        "set" => !args[3..].iter().any(|option| option.eq_ignore_ascii_case(b"get")),
        "append" | "bitop" | "copy" | "decr" | "decrby" | "del" | "expire" | "expireat"
        | "flushall" | "flushdb" | "incr" | "incrby" | "incrbyfloat" | "move" | "mset"
        | "msetnx" | "persist" | "pexpire" | "pexpireat" | "psetex" | "publish" | "rename"
        | "renamenx" | "restore" | "script|flush" | "script|load" | "setbit" | "setex"
        | "setnx" | "setrange" | "swapdb" | "unlink" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn c10_long_answers_are_begun_one_at_a_time_until_they_prove_short() {
        let mut pace = Pace::default();
        assert!(pace.takes_long(0));
        pace.began_long();
        assert!(!pace.takes_long(0));
        for _ in 0..20 {
            pace.ended_long(5);
            pace.began_long();
        }
        (0..1000).for_each(|_| pace.began_long());
        assert!(pace.takes_long(0) && !pace.takes_long(OUTPUT_BYTES_MAX));
        pace.ended_long(512 << 10);
        assert!(!pace.takes_long(0), "and long again");
    }

    #[test]
    fn a_client_is_over_its_limit_at_once_or_after_a_while() {
        let at = |s| Instant::ZERO.plus(Duration::from_secs(s));
        let limit = OutputLimit { hard_bytes: 100, soft_bytes: 10, soft_s: 5 };
        let mut pace = Pace::default();
        assert!(pace.is_over(limit, 100, at(1)));
        assert!(!pace.is_over(limit, 9, at(2)) && !pace.is_over(limit, 10, at(3)));
        assert!(!pace.is_over(limit, 99, at(7)) && pace.is_over(limit, 10, at(8)));
        assert!(!pace.is_over(limit, 9, at(9)) && !pace.is_over(limit, 10, at(10)), "anew");
        let none = OutputLimit { hard_bytes: 0, soft_bytes: 0, soft_s: 0 };
        assert!(!pace.is_over(none, 1 << 40, at(99)));
    }
}
