//! The knowledge of one process about one message, and about all.

use super::acks::Acks;
use super::clocks::Clocks;
use crate::amcast::bugs::Bug;
use crate::amcast::{GroupId, GroupSet, Message, MessageId, Timestamp};
use crate::planted::Planting;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use base::{Ballot, Instant, MemberSet, Rank};
use core::fmt;
use core::hash::BuildHasher;
use core::time::Duration;
use foldhash::fast::FixedState;
use hashbrown::HashTable;

/// One group's proposal of one epoch.
#[derive(Clone, Copy, Debug)]
struct Proposal {
    group: GroupId,
    epoch: Ballot,
    ts: Timestamp,
    /// The members that acknowledged it by name.
    by: MemberSet,
    /// Whether it is decided (line 9). Of a group with a decided proposal no other is kept.
    is_decided: bool,
}

/// One message.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) dest: GroupSet,
    /// The message, absent while only others have it.
    pub(super) body: Option<Arc<Message>>,
    proposals: Vec<Proposal>,
    n_decided: usize,
    /// The own group's proposal, if it is in the log.
    pub(super) tuple: Option<(Ballot, Timestamp)>,
    /// The epoch of the proposal that this process acknowledged.
    pub(super) acked: Option<Ballot>,
    /// The epoch of the one that it acknowledged by name, for processes without the proposal.
    pub(super) named: Option<Ballot>,
    /// The key of the message among the pending, if it is there.
    pub(super) bound: Option<Timestamp>,
    pub(super) is_delivered: bool,
    /// The place of its delivery, here or at a process that reported it.
    pub(super) final_at: Option<Timestamp>,
    /// Whether all groups were asked to report (`commit-wait` without a clock).
    pub(super) has_asked_all: bool,
    /// The time at which it became known, or was last asked about.
    pub(super) asked_at: Instant,
    /// The number of questions about it without an answer, [`DOUBLINGS_MAX`] at most.
    pub(super) n_asked: u8,
}

/// The most times that the wait for an answer doubles.
const DOUBLINGS_MAX: u8 = 4;

impl Record {
    pub(super) fn new(dest: GroupSet, now: Instant) -> Record {
        Record {
            dest,
            body: None,
            proposals: Vec::with_capacity(dest.len()),
            n_decided: 0,
            tuple: None,
            acked: None,
            named: None,
            bound: None,
            is_delivered: false,
            final_at: None,
            has_asked_all: false,
            asked_at: now,
            n_asked: 0,
        }
    }

    /// Notes that it is asked about now.
    pub(super) fn ask(&mut self, now: Instant) {
        self.asked_at = now;
        self.n_asked = DOUBLINGS_MAX.min(self.n_asked + 1);
    }

    /// The time to ask about it again. Nothing here waits for a message that is known by name
    /// alone: perhaps all processes that had it are dead, and no answer ever comes.
    pub(super) fn ask_again_at(&self, patience: Duration) -> Instant {
        let is_awaited = self.body.is_some() || self.bound.is_some();
        let n_doublings = if is_awaited { 0 } else { self.n_asked };
        self.asked_at.plus(patience * (1 << n_doublings))
    }

    /// Counts a process's acknowledgement of a proposal by its message's name.
    pub(super) fn vote(
        &mut self,
        (group, rank): (GroupId, Rank),
        epoch: Ballot,
        ts: Timestamp,
        planted: impl Planting<Bug>,
    ) {
        for known in self.proposals.iter_mut().filter(|known| known.group == group) {
            if known.is_decided {
                return;
            }
            if known.epoch == epoch || planted.has(Bug::MixEpochs) {
                known.by.insert(rank);
                return;
            }
        }
        let by = [rank].into_iter().collect();
        self.proposals.push(Proposal { group, epoch, ts, by, is_decided: false });
    }

    /// P19: notes that this proposal is in the log with which a later epoch began, among other
    /// members.
    pub(super) fn choose(&mut self, group: GroupId, epoch: Ballot, ts: Timestamp) {
        if !self.proposals.iter().any(|one| one.group == group && one.is_decided) {
            self.proposals.retain(|one| one.group != group);
            let by = MemberSet::EMPTY;
            self.proposals.push(Proposal { group, epoch, ts, by, is_decided: true });
            self.n_decided += 1;
        }
    }

    /// Line 10, for one group: whether the group's timestamp is decided.
    pub(super) fn is_decided(
        &mut self,
        group: GroupId,
        acks: &Acks,
        clocks: &Clocks,
        planted: impl Planting<Bug>,
    ) -> bool {
        let is_quorum = |one: &Proposal| {
            // P17: the members of the proposal's own epoch count.
            let Some(members) = clocks.seats.of(one.epoch, planted) else { return false };
            let quorum = members.quorum();
            let quorum =
                if planted.has(Bug::LocalQuorumMinusOne) { quorum.max(2) - 1 } else { quorum };
            let by = one.by.union(acks.covering(one.epoch, one.ts, planted));
            by.intersection(members.voters).len() >= quorum
        };
        let decided = self
            .proposals
            .iter()
            .position(|one| one.group == group && (one.is_decided || is_quorum(one)));
        let Some(at) = decided else { return false };
        if !self.proposals[at].is_decided {
            self.proposals[at].is_decided = true;
            self.n_decided += 1;
            self.proposals.retain(|one| one.group != group || one.is_decided);
        }
        true
    }

    /// Line 10, for every group that it is addressed to.
    pub(super) fn decide(&mut self, acks: &[Acks], clocks: &[Clocks], planted: impl Planting<Bug>) {
        if self.n_decided < self.dest.len() {
            for group in self.dest.iter() {
                let at = group.index();
                self.is_decided(group, &acks[at], &clocks[at], planted);
            }
        }
    }

    /// The largest local timestamp that is known to be decided: a lower bound of the final
    /// timestamp.
    fn largest_local(&self) -> Timestamp {
        let decided = self.proposals.iter().filter(|one| one.is_decided);
        decided.map(|one| one.ts).chain(self.final_at).max().unwrap_or_default()
    }

    /// Line 12, as far as [`Record::decide`] has examined.
    pub(super) fn final_ts(&self) -> Option<Timestamp> {
        let is_decided = self.n_decided == self.dest.len();
        self.final_at.or_else(|| is_decided.then(|| self.largest_local()))
    }

    /// Lines 19 to 21, for a known proposal at `proposed`. Lines 22 and 23 are left out: they only
    /// ever replace a bound by another that is above the clocks as well, and a message that is
    /// compared with it is not above the clocks (lines 28 and 29).
    pub(super) fn bound_with(&self, proposed: Timestamp) -> Timestamp {
        proposed.max(self.largest_local())
    }
}

/// Every message that is remembered, by name. The table is hashed, since each message is looked up
/// many times; a walk through it takes the order of names.
#[derive(Clone, Default)]
pub(super) struct Records(HashTable<(MessageId, Record)>);

/// A hash that is the same on every machine and in every run.
fn hash(id: MessageId) -> u64 {
    FixedState::with_seed(0).hash_one(id)
}

impl Records {
    pub(super) fn get(&self, id: MessageId) -> Option<&Record> {
        self.0.find(hash(id), |(of, _)| *of == id).map(|(_, record)| record)
    }

    pub(super) fn get_mut(&mut self, id: MessageId) -> Option<&mut Record> {
        self.0.find_mut(hash(id), |(of, _)| *of == id).map(|(_, record)| record)
    }

    /// The record of a message that is known.
    #[track_caller]
    pub(super) fn known(&mut self, id: MessageId) -> &mut Record {
        self.get_mut(id).expect("the message is known")
    }

    pub(super) fn contains(&self, id: MessageId) -> bool {
        self.get(id).is_some()
    }

    /// Remembers a message that is not known yet.
    pub(super) fn insert(&mut self, id: MessageId, record: Record) {
        debug_assert!(!self.contains(id), "{id:?} is known");
        self.0.insert_unique(hash(id), (id, record), |(of, _)| hash(*of));
    }

    pub(super) fn remove(&mut self, id: MessageId) {
        if let Ok(found) = self.0.find_entry(hash(id), |(of, _)| *of == id) {
            found.remove();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The names for which `is_one` holds, in order.
    pub(super) fn names(&self, is_one: impl Fn(&MessageId, &Record) -> bool) -> Vec<MessageId> {
        let found = self.0.iter().filter(|(id, record)| is_one(id, record));
        let mut names: Vec<MessageId> = found.map(|(id, _)| *id).collect();
        names.sort_unstable();
        names
    }

    /// Changes every record, each independently of the others, so that no order shows.
    pub(super) fn for_each(&mut self, change: impl Fn(&mut Record)) {
        self.0.iter_mut().for_each(|(_, record)| change(record));
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().map(|(id, record)| (id, record)).collect::<BTreeMap<_, _>>().fmt(f)
    }
}
