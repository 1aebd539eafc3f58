//! What a simulated program does by the time: each request sees it, and some set a timer. Of all
//! that it has seen a program keeps a hash, so that copies can be compared.
//!
//! - P6 copies that have done as many things have seen the same times, and their timers have ended
//!   at the same places among the requests. Judged by [`Journal`], of every copy that begins, also
//!   one that executes again what others have executed long ago.
//! - P7 where copies are saved by their files, what a process has seen since its beginning shows: a
//!   copy that does not begin again where the others do has seen something else.

use std::collections::BTreeMap;

/// What a program has seen of the time.
#[derive(Debug, Default)]
pub(super) struct Timers {
    time_ms: u64,
    /// When its timer ends, if it has set one.
    ends_at_ms: Option<u64>,
    n_seen: u64,
    hash: u64,
    n_ended: u64,
    /// The hashes that were not judged, each with the number of things that it is of.
    fresh: Vec<(u64, u64)>,
    /// What its process alone has seen, if that shows (P7).
    n_of_process: Option<u64>,
}

/// The hash behind another word (FNV-1a, by words).
fn hashed(hash: u64, word: u64) -> u64 {
    (hash ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(17)
}

impl Timers {
    fn see(&mut self, what: u64) {
        self.n_seen += 1;
        let n_of_process = self.n_of_process.as_mut().map_or(0, |n| {
            *n += 1;
            *n
        });
        self.hash = hashed(hashed(self.hash, what), self.time_ms + (n_of_process << 48));
        self.fresh.push((self.n_seen, self.hash));
    }

    /// Its process begins: it has seen nothing, and knows no time.
    pub(super) fn begin_process(&mut self) {
        (self.n_of_process, self.time_ms) = (Some(0), 0);
    }

    /// A request is executed.
    pub(super) fn execute(&mut self, words: &[Vec<u8>]) {
        let bytes = words.iter().flatten();
        self.see(bytes.fold(1, |hash, byte| hashed(hash, u64::from(*byte))));
        if self.time_ms > 0 {
            let after_ms = 1 + self.n_seen * 37 % 60;
            self.ends_at_ms.get_or_insert(self.time_ms + after_ms);
        }
    }

    /// A connection is over.
    pub(super) fn see_end(&mut self) {
        self.see(3);
    }

    /// Whether the timer is over, and was not taken.
    pub(super) fn is_over(&self) -> bool {
        self.ends_at_ms.is_some_and(|at| at <= self.time_ms)
    }

    /// Takes the timer that is over.
    pub(super) fn take(&mut self) {
        self.n_ended += 1;
        self.see(2);
        let sets_another = !self.n_ended.is_multiple_of(4);
        self.ends_at_ms = sets_another.then_some(self.time_ms + 5 + self.n_seen % 50);
    }

    /// The program is told the time. Returns whether its timer is over.
    pub(super) fn tell(&mut self, time_ms: u64) -> bool {
        self.time_ms = time_ms;
        self.is_over()
    }

    /// See `Program::awaited_ms`.
    pub(super) fn awaited_ms(&self) -> Option<u64> {
        self.ends_at_ms
    }

    /// The timers that have ended.
    pub(super) fn n_ended(&self) -> u64 {
        self.n_ended
    }

    /// The words that a checkpoint holds; the time is told.
    pub(super) fn words(&self) -> [u64; 4] {
        [self.n_seen, self.hash, self.n_ended, self.ends_at_ms.unwrap_or(0)]
    }

    /// Begins with those.
    pub(super) fn restore(&mut self, [n_seen, hash, n_ended, ends_at_ms]: [u64; 4]) {
        (self.n_seen, self.hash, self.n_ended) = (n_seen, hash, n_ended);
        self.ends_at_ms = (ends_at_ms > 0).then_some(ends_at_ms);
    }

    /// What was not judged.
    pub(super) fn take_fresh(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.fresh)
    }
}

/// What the copies of a run have seen, by the number of things (P6).
#[derive(Clone, Debug, Default)]
pub(super) struct Journal(BTreeMap<u64, u64>);

impl Journal {
    /// Judges what a copy has seen. Returns the number of things after which it has seen another
    /// time than a copy before.
    pub(super) fn judge(&mut self, fresh: &[(u64, u64)]) -> Option<u64> {
        let differs = |(n, hash): &&(u64, u64)| *self.0.entry(*n).or_insert(*hash) != *hash;
        fresh.iter().find(differs).map(|(n, _)| *n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p6_a_copy_that_sees_another_time_or_a_timer_elsewhere_is_told() {
        let mut journal = Journal::default();
        let mut run = |steps: &[(u64, bool)]| {
            let mut timers = Timers::default();
            for (time_ms, takes) in steps {
                timers.tell(*time_ms);
                if *takes && timers.is_over() {
                    timers.take();
                }
                timers.execute(&[b"SET".to_vec()]);
            }
            journal.judge(&timers.take_fresh())
        };
        assert_eq!(run(&[(100, true), (200, true), (201, true)]), None);
        assert_eq!(run(&[(100, true), (200, true), (201, true), (300, true)]), None);
        assert_eq!(run(&[(100, true), (201, true)]), Some(2));
        assert_eq!(run(&[(100, false), (200, false), (201, false)]), Some(2));
    }
}
