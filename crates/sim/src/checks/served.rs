//! Served: a member performs a read only after a check of its machine that began when the read had
//! come, and on a state that has everything that any member had executed by then.
//!
//! Why it matters: the clients' history shows a read without its check only if it misses a write
//! that was answered before. Why no false alarm: times are those that the member itself was told,
//! so no clocks are compared; a read that comes in a turn counts as one that came at its beginning.

use base::{Instant, Prefix};
use proto::Ticket;
use std::collections::VecDeque;

/// The number of checks under way of which the beginning is remembered.
const N_CHECKS: usize = 1024;

/// One process, as far as its reads are concerned.
#[derive(Default)]
pub(crate) struct Served {
    /// The prefix that some member had executed, when this one was told the time.
    seen: Vec<(Instant, Prefix)>,
    begun: VecDeque<(Ticket, Instant)>,
    /// The latest beginning of a check that has succeeded.
    checked: Option<Instant>,
}

impl Served {
    /// It is told that it is `now`, and some member has executed everything below `executed`.
    pub(crate) fn told(&mut self, now: Instant, executed: Prefix) {
        if self.seen.last().is_none_or(|(at, before)| *at < now && *before < executed) {
            self.seen.push((now, executed));
        }
    }

    /// A check begins.
    pub(crate) fn begins(&mut self, ticket: Ticket, now: Instant) {
        if self.begun.len() == N_CHECKS {
            self.begun.pop_front();
        }
        self.begun.push_back((ticket, now));
    }

    /// The machine says that the check has succeeded.
    pub(crate) fn passes(&mut self, ticket: Ticket) {
        let begun = self.begun.iter().rev().find(|(of, _)| *of == ticket).map(|(_, at)| *at);
        self.checked = self.checked.max(begun);
    }

    /// A read that came at this time is performed on a state of everything below `executed`.
    pub(crate) fn performs(&self, came: Instant, executed: Prefix) -> Result<(), String> {
        if self.checked.is_none_or(|began| began < came) {
            return Err(format!("a read is performed, and no check since it came at {came:?}"));
        }
        let known = self.seen.partition_point(|(at, _)| *at <= came);
        let wanted = known.checked_sub(1).map_or(Prefix::ZERO, |last| self.seen[last].1);
        if executed < wanted {
            return Err(format!("a read is performed on {executed}; {wanted} was there before it"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_began_before_the_read_is_none() {
        let mut served = Served::default();
        assert!(served.performs(Instant(5), Prefix(0)).is_err());
        served.begins(Ticket(1), Instant(4));
        served.begins(Ticket(2), Instant(5));
        served.passes(Ticket(1));
        assert!(served.performs(Instant(5), Prefix(0)).is_err());
        served.passes(Ticket(2));
        assert!(served.performs(Instant(5), Prefix(0)).is_ok());
        assert!(served.performs(Instant(6), Prefix(0)).is_err());
    }

    #[test]
    fn a_state_without_what_another_had_executed_is_a_violation() {
        let mut served = Served::default();
        served.told(Instant(2), Prefix(3));
        served.told(Instant(6), Prefix(4));
        served.begins(Ticket(1), Instant(9));
        served.passes(Ticket(1));
        assert!(served.performs(Instant(5), Prefix(3)).is_ok());
        assert!(served.performs(Instant(5), Prefix(2)).is_err());
        assert!(served.performs(Instant(6), Prefix(3)).is_err());
        assert!(served.performs(Instant(1), Prefix(0)).is_ok());
    }
}
