//! The times of messages: a hybrid logical clock in each process, one time for each position of an
//! order, and the time up to which an order is final (paper 000, sections 2.4 and 3.1: *temporal
//! stability*).
//!
//! ```text
//! stamp     of a message: its sender's clock as it is sent
//! time      of a position: the view's, or the latest stamp up to there if that is later
//! frontier  of a shard at a member: nothing is delivered there any longer with a time up to it
//! ```
//!
//! - K1 *Stamps rise.* A stamp is later than everything that its process has stamped, seen or
//!   shown in its row. A message that is sent again in the next view is stamped again. By
//!   construction: [`HybridClock::stamp`] is asked as a slot is filled. What a member
//!   has seen it takes from view to view. Mutants `STAMP_KEPT`, `CLOCK_NOT_CARRIED`.
//! - K2 *Received is seen.* A member's clock is not before the stamp of a message that it has
//!   received, and the row of a member that has wedged says how late that is (`seen`). So what a
//!   process sends after a delivery, in whichever shard, has a later stamp. Mutant `STAMP_UNSEEN`.
//! - K3 *One time.* All members deliver a message with the same time, and times do not fall along
//!   the order of a shard. (Stamps of several senders do, in the order of their turns.) A newcomer
//!   reads the stamps of what its state covers of its view. Mutants `TIME_IS_STAMP`,
//!   `SKIPPED_UNREAD`.
//! - K4 *Views have times.* The change that ends a view gives the next one a time: the latest in
//!   the rows that the change was made of, all of them wedged. So it is not before any time or
//!   frontier of the view that ends (K2), nor of a member that is not asked: a row shows no later
//!   clock once it is wedged. Members' clocks begin there, and all messages are later. Mutants
//!   `VIEW_WITHOUT_TIME`, `CLOCK_OF_WEDGED`.
//! - K5 *Frontier.* The earliest clock in the rows of the shard's members, once what they had sent
//!   as they showed it is delivered: what they send later has later stamps (K1), and later times.
//!   In the next view everything is later than the view's time. Mutants `FRONTIER_AT_ONCE`,
//!   `FRONTIER_OF_SOME`.
//! - K6 *Kept by clocks.* In a durable group a row shows the clock of its host and not what was
//!   seen of others; and a restart gives its view the latest time that a log tells, or that of
//!   the clock of a host that returns. So a frontier outlives the death of all processes, if the
//!   clock of no host goes back meanwhile. Mutant `SHOWS_THE_SEEN`.

use crate::codec::numbers;

/// A time of a group, in nanoseconds since 1970 by the clocks of its hosts: close to theirs, and
/// later than every time that led to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

numbers! { Time }

/// The clock of a process, and that of its host.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HybridClock {
    now: Time,
    host: Time,
}

impl HybridClock {
    /// A clock that shows `time`.
    pub(super) const fn at(time: Time) -> HybridClock {
        HybridClock { now: time, host: Time(0) }
    }

    /// Takes it that a time has come.
    pub(super) fn see(&mut self, time: Time) {
        self.now = self.now.max(time);
    }

    /// Takes it that the host's clock shows `time`.
    pub(super) fn see_host(&mut self, time: Time) {
        self.host = time;
        self.see(time);
    }

    /// What the host's clock showed last.
    pub(super) const fn host(&self) -> Time {
        self.host
    }

    /// What the clock shows. Later stamps are later.
    pub(super) const fn now(&self) -> Time {
        self.now
    }

    /// The stamp of a message that is sent now (K1).
    pub(super) fn stamp(&mut self) -> Time {
        self.now = Time(self.now.0.saturating_add(1));
        self.now
    }
}

/// The frontier of a shard at a member.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frontier {
    /// What is told.
    told: Time,
    /// What will be told once the order is delivered up to a length.
    next: Option<(Time, u64)>,
}

impl Frontier {
    pub(super) const fn time(&self) -> Time {
        self.told
    }

    /// Takes it that the order is delivered up to `delivered`. True if another time can be noted.
    pub(super) fn advance(&mut self, delivered: u64) -> bool {
        if let Some((time, _)) = self.next.take_if(|(_, length)| *length <= delivered) {
            self.told = self.told.max(time);
        }
        self.next.is_none()
    }

    /// Notes the earliest clock of the members, which had sent the order up to `length` then.
    pub(super) fn note(&mut self, time: Time, length: u64) {
        if time > self.told {
            self.next = Some((time, length));
        }
    }

    /// The same in the next view, whose order has another beginning.
    pub(super) const fn passed_on(&self) -> Frontier {
        Frontier { told: self.told, next: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k1_a_stamp_is_later_than_everything_before() {
        let mut clock = HybridClock::at(Time(7));
        assert_eq!((clock.stamp(), clock.stamp()), (Time(8), Time(9)));
        clock.see_host(Time(3));
        assert_eq!(clock.now(), Time(9), "a host's clock that is set back is waited for");
        clock.see(Time(20));
        assert_eq!((clock.now(), clock.stamp()), (Time(20), Time(21)));
    }

    #[test]
    fn k5_a_frontier_waits_for_what_was_sent_and_does_not_fall() {
        let mut frontier = Frontier::default();
        assert!(frontier.advance(0));
        frontier.note(Time(5), 3);
        assert!(!frontier.advance(2), "one at a time");
        assert_eq!(frontier.time(), Time(0));
        assert!(frontier.advance(3));
        assert_eq!(frontier.time(), Time(5));
        frontier.note(Time(4), 3);
        assert!(frontier.advance(3));
        assert_eq!(frontier.time(), Time(5));
        frontier.note(Time(9), 8);
        let mut next = frontier.passed_on();
        assert!(next.advance(8), "what waited for the last view's order is gone");
        assert_eq!(next.time(), Time(5));
    }
}
