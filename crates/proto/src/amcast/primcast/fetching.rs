//! The states that members of a group ask each other for (P7), and when.

use alloc::vec::Vec;
use base::{Instant, MemberSet, Rank};
use core::time::Duration;

/// The requests of this process, and the states that it sent.
#[derive(Clone, Debug)]
pub(super) struct Fetching {
    /// The member that was last asked.
    asked: Option<Rank>,
    /// The time of the next request, while this process is behind.
    ask_at: Instant,
    /// The time at which each member of the own group was last sent a state.
    sent_at: Vec<Option<Instant>>,
}

impl Fetching {
    /// In a group of `n_members`.
    pub(super) fn new(n_members: usize) -> Fetching {
        Fetching { asked: None, ask_at: Instant::ZERO, sent_at: alloc::vec![None; n_members] }
    }

    pub(super) const fn ask_at(&self) -> Instant {
        self.ask_at
    }

    /// Asks for a state now if this process is behind.
    pub(super) const fn ask_from(&mut self, now: Instant) {
        self.ask_at = now;
    }

    /// Whether a request is due; the next one is after `patience`.
    pub(super) fn is_due(&mut self, now: Instant, patience: Duration) -> bool {
        let is_due = self.ask_at <= now;
        if is_due {
            self.ask_at = now.plus(patience);
        }
        is_due
    }

    /// The member to ask: the leader, or without another one each of `voters` in turn.
    pub(super) fn next(
        &mut self,
        leader: Option<Rank>,
        voters: MemberSet,
        me: Rank,
    ) -> Option<Rank> {
        let last = self.asked.unwrap_or(me);
        let next = voters.iter().find(|rank| rank.index() > last.index()).or(voters.iter().next());
        let to = leader.or(next)?;
        self.asked = Some(to);
        Some(to)
    }

    /// Whether a state that was sent to this member is younger than `patience`.
    pub(super) fn is_fresh(&self, to: Rank, now: Instant, patience: Duration) -> bool {
        self.sent_at[to.index()].is_some_and(|at| at.plus(patience) > now)
    }

    /// Notes that a state was sent.
    pub(super) fn sent(&mut self, to: Rank, now: Instant) {
        self.sent_at[to.index()] = Some(now);
    }

    /// Notes that what was sent to this seat is lost: another incarnation is there, or its process
    /// came back.
    pub(super) fn lose(&mut self, to: Rank) {
        self.sent_at[to.index()] = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_leader_the_members_are_asked_in_turn() {
        let [a, b, c] = [0, 1, 2].map(Rank::at);
        let mut fetching = Fetching::new(3);
        let voters = MemberSet::all(3);
        let mut next = |leader| fetching.next(leader, voters, b);
        assert_eq!([next(None), next(None), next(None)], [Some(c), Some(a), Some(b)]);
        assert_eq!((next(Some(a)), next(None)), (Some(a), Some(b)));
    }

    #[test]
    fn a_state_is_sent_again_after_a_patience_or_when_it_was_lost() {
        let (to, patience) = (Rank::at(1), Duration::from_millis(2));
        let (now, later) = (Instant::ZERO, Instant::ZERO.plus(patience));
        let mut fetching = Fetching::new(3);
        assert!(fetching.is_due(now, patience) && !fetching.is_due(now, patience));
        assert!(!fetching.is_fresh(to, now, patience));
        fetching.sent(to, now);
        assert!(fetching.is_fresh(to, now, patience) && !fetching.is_fresh(to, later, patience));
        fetching.lose(to);
        assert!(!fetching.is_fresh(to, now, patience));
    }
}
