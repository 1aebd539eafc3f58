//! What one process knows of one message.

use crate::amcast::variant::Variant;
use crate::amcast::{GroupId, GroupSet, Layout, Message, Timestamp};
use alloc::sync::Arc;
use alloc::vec::Vec;
use base::{Ballot, Instant, MemberSet, Rank};

/// Acknowledgements of one local timestamp.
#[derive(Clone, Debug)]
struct Votes {
    group: GroupId,
    epoch: Ballot,
    ts: Timestamp,
    by: MemberSet,
}

/// One message.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) dest: GroupSet,
    /// Absent while only others have it.
    pub(super) body: Option<Arc<Message>>,
    votes: Vec<Votes>,
    /// Line 9: what is decided.
    local: Vec<(GroupId, Timestamp)>,
    /// The own group's proposal, if it stands in the log.
    pub(super) tuple: Option<(Ballot, Timestamp)>,
    /// Of which epoch's proposal this process sent its acknowledgement.
    pub(super) acked: Option<Ballot>,
    /// Its key among the pending, if it is there.
    pub(super) bound: Option<Timestamp>,
    pub(super) is_delivered: bool,
    /// All groups were asked to report (`commit-wait` without a clock).
    pub(super) has_asked_all: bool,
    /// When it was first heard of, or last asked about.
    pub(super) asked_at: Instant,
}

impl Record {
    pub(super) fn new(dest: GroupSet, now: Instant) -> Record {
        Record {
            dest,
            body: None,
            votes: Vec::new(),
            local: Vec::new(),
            tuple: None,
            acked: None,
            bound: None,
            is_delivered: false,
            has_asked_all: false,
            asked_at: now,
        }
    }

    /// Counts an acknowledgement; true if it decided the group's timestamp.
    pub(super) fn vote<V: Variant>(
        &mut self,
        (group, rank): (GroupId, Rank),
        epoch: Ballot,
        ts: Timestamp,
        layout: &Layout,
    ) -> bool {
        if self.local(group).is_some() {
            return false;
        }
        let same =
            |votes: &&mut Votes| votes.group == group && (votes.epoch == epoch || V::MIX_EPOCHS);
        let votes = match self.votes.iter_mut().find(same) {
            Some(votes) => votes,
            None => {
                self.votes.push(Votes { group, epoch, ts, by: MemberSet::EMPTY });
                self.votes.last_mut().expect("it was just pushed")
            }
        };
        votes.by.insert(rank);
        let decided = votes.ts;
        let quorum = layout.quorum(group);
        let quorum = if V::LOCAL_QUORUM_MINUS_ONE { quorum.max(2) - 1 } else { quorum };
        let is_decided = votes.by.len() >= quorum;
        if is_decided {
            self.local.push((group, decided));
            self.votes.retain(|votes| votes.group != group);
        }
        is_decided
    }

    /// Line 9.
    pub(super) fn local(&self, group: GroupId) -> Option<Timestamp> {
        self.local.iter().find(|(of, _)| *of == group).map(|(_, ts)| *ts)
    }

    /// The largest local timestamp that is decided: a lower bound of the final one.
    fn largest_local(&self) -> Timestamp {
        self.local.iter().map(|(_, ts)| *ts).max().unwrap_or_default()
    }

    /// Line 12.
    pub(super) fn final_ts(&self) -> Option<Timestamp> {
        (self.local.len() == self.dest.len()).then(|| self.largest_local())
    }

    /// Lines 19 to 21, a proposal at `proposed` being known. Lines 22 and 23 are left out: they
    /// only ever replace a bound by another that is above the clocks as well, and whoever is
    /// compared with it is not above the clocks (lines 28 and 29).
    pub(super) fn bound_with(&self, proposed: Timestamp) -> Timestamp {
        proposed.max(self.largest_local())
    }
}
