//! The role of a process in its group, and the epochs that it is in.
//!
//! - P3 `current <= promised`; a primary and a follower are in the epoch that they have promised.
//!   Asserted after each step.

use alloc::collections::BTreeMap;
use base::{Ballot, Instant, MemberSet, Rank};

/// The role of a process in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Primary,
    Follower,
    Candidate,
    Promised,
}

/// The role of this process, and its epochs.
#[derive(Clone, Debug)]
pub(super) struct Office {
    pub(super) phase: Phase,
    /// The time at which the present phase began.
    pub(super) since: Instant,
    /// The epoch that the log belongs to.
    pub(super) current: Ballot,
    /// The highest epoch promised.
    pub(super) promised: Ballot,
    /// Whether `current` has begun here: a quorum has accepted it.
    pub(super) has_begun: bool,
    /// The members that have accepted each epoch from `promised` on.
    pub(super) accepts: BTreeMap<Ballot, MemberSet>,
    /// The member that Ω names.
    pub(super) trusted: Option<Rank>,
    /// The epoch up to which messages may have been lost with an earlier life (P11).
    pub(super) lost: Ballot,
    /// What an earlier life had promised: messages of that epoch may have been lost too.
    pub(super) returned: Ballot,
    /// Whether its host brings it a state.
    pub(super) rests: bool,
}

impl Office {
    /// A founder's, in the first epoch.
    pub(super) const fn new(phase: Phase, epoch: Ballot) -> Office {
        Office {
            phase,
            since: Instant::ZERO,
            current: epoch,
            promised: epoch,
            has_begun: true,
            accepts: BTreeMap::new(),
            trusted: None,
            lost: Ballot::NONE,
            returned: Ballot::NONE,
            rests: false,
        }
    }

    pub(super) const fn enter(&mut self, phase: Phase, now: Instant) {
        (self.phase, self.since) = (phase, now);
    }

    /// Notes that a member has accepted an epoch. Returns the members that have accepted `current`.
    pub(super) fn accept(&mut self, from: Rank, epoch: Ballot) -> MemberSet {
        self.accepts.entry(epoch).or_default().insert(from);
        self.accepts = self.accepts.split_off(&self.promised);
        self.accepts.get(&self.current).copied().unwrap_or(MemberSet::EMPTY)
    }

    /// P3, after each step.
    pub(super) fn check(&self) {
        assert!(self.current <= self.promised, "P3");
        if matches!(self.phase, Phase::Primary | Phase::Follower) {
            assert_eq!(self.current, self.promised, "P3");
        }
    }
}
