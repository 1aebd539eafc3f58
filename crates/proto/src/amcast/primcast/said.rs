//! What a process has told each group, and what it owes them.
//!
//! A group has received what stands here: its links lose nothing while both processes live (T1). A
//! process that came back asks for all of it again (P12, [`Said::forget`]).

use super::Listed;
use crate::amcast::{GroupId, GroupSet, Layout, Place, Timestamp};
use alloc::vec::Vec;
use base::Instant;

/// The reports that the groups have received.
#[derive(Clone, Debug)]
pub(super) struct Said {
    /// The last clock reported to each group.
    pub(super) reported: Vec<Timestamp>,
    /// The groups that ever received a clock, to which a new primary reports again; and groups that
    /// share a message that was delivered here, which keep it until every member of this group has
    /// reported that: also one that came later, with a state that covers the message.
    pub(super) audience: GroupSet,
    /// The last list sent to each group (`hop`).
    pub(super) listed: Vec<Vec<Listed>>,
    /// The mark that this process last reported to each group.
    pub(super) told: Vec<Place>,
    /// The groups that know the members of `current`.
    pub(super) informed: GroupSet,
    /// The timestamp up to which this process has acknowledged in `current`.
    pub(super) acked_upto: Timestamp,
}

impl Said {
    pub(super) fn new(layout: &Layout) -> Said {
        let n_groups = layout.n_groups();
        Said {
            reported: alloc::vec![Timestamp::ZERO; n_groups],
            audience: GroupSet::EMPTY,
            listed: alloc::vec![Vec::new(); n_groups],
            told: alloc::vec![Place::default(); n_groups],
            informed: layout.groups(),
            acked_upto: Timestamp::ZERO,
        }
    }

    /// Those of `to` that have not received a clock of `ts` or more.
    pub(super) fn behind(&self, ts: Timestamp, to: GroupSet) -> GroupSet {
        to.iter().filter(|group| self.reported[group.index()] < ts).collect()
    }

    /// Those of `to` that have not received a mark of `place` or more.
    pub(super) fn behind_mark(&self, place: Place, to: GroupSet) -> GroupSet {
        to.iter().filter(|group| self.told[group.index()] < place).collect()
    }

    /// Notes that the groups receive a clock.
    pub(super) fn report(&mut self, clock: Timestamp, to: GroupSet) {
        to.iter().for_each(|group| self.reported[group.index()] = clock);
        self.audience = self.audience.union(to);
    }

    /// Notes that the groups receive a mark.
    pub(super) fn tell(&mut self, mark: Place, to: GroupSet) {
        to.iter().for_each(|group| self.told[group.index()] = mark);
    }

    /// P12: a process of the group has lost what it was told.
    pub(super) fn forget(&mut self, group: GroupId) {
        self.reported[group.index()] = Timestamp::ZERO;
        self.told[group.index()] = Place::default();
        self.informed = self.informed.without(group);
    }
}

/// What no message has carried yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Owed {
    /// The groups that have not received the acknowledgements up to [`Said::acked_upto`].
    pub(super) acks: GroupSet,
    /// The groups that must receive the clock, if no other message carries it.
    pub(super) clocks: GroupSet,
    /// The groups that share later deliveries than those that they were told of.
    pub(super) marks: GroupSet,
}

/// The times at which this process does something by itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Alarms {
    /// The time of the next report of the own mark.
    pub(super) tell_at: Option<Instant>,
    /// The time at which messages that have been undelivered for long are looked for.
    pub(super) ask_at: Option<Instant>,
    /// The time at which a commit-wait ends.
    pub(super) wake_at: Option<Instant>,
}
