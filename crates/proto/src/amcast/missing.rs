//! The messages that a process knows by name alone, for the protocols that PrimCast is compared
//! with.
//!
//! - MI1 Each of them has its turn: those that were asked about the longest time ago come first,
//!   and messages that are here take no turn. By construction; test `mi1_`.

use super::MessageId;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use base::Instant;
use core::time::Duration;

/// The number of missing messages that one tick asks about: the rest wait for the next.
pub(super) const PULLS_MAX: usize = 64;

/// The missing messages; see the module's text.
#[derive(Clone, Debug, Default)]
pub(super) struct Missing {
    /// The time at which each became known, or was last asked about.
    asked_at: BTreeMap<MessageId, Instant>,
    turns: BTreeSet<(Instant, MessageId)>,
    /// The time before which no more are asked about.
    rests_until: Instant,
}

impl Missing {
    /// Notes that a message became known by name.
    pub(super) fn add(&mut self, id: MessageId, now: Instant) {
        if let Some(before) = self.asked_at.insert(id, now) {
            self.turns.remove(&(before, id));
        }
        self.turns.insert((now, id));
    }

    /// Notes that the message is here.
    pub(super) fn remove(&mut self, id: MessageId) {
        if let Some(at) = self.asked_at.remove(&id) {
            self.turns.remove(&(at, id));
        }
    }

    /// The messages to ask about now, in the order of their names.
    pub(super) fn take_due(&mut self, now: Instant, patience: Duration) -> Vec<MessageId> {
        if self.rests_until > now {
            return Vec::new();
        }
        let due = self.turns.iter().take_while(|(at, _)| at.plus(patience) <= now);
        let mut due: Vec<MessageId> = due.take(PULLS_MAX).map(|(_, id)| *id).collect();
        if due.len() == PULLS_MAX {
            self.rests_until = now.plus(patience);
        }
        due.iter().for_each(|id| self.add(*id, now));
        due.sort_unstable();
        due
    }

    /// The time of the next question.
    pub(super) fn due_at(&self, patience: Duration) -> Option<Instant> {
        let (at, _) = self.turns.first()?;
        Some(at.plus(patience).max(self.rests_until))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::amcast::linear::Rule;
    use crate::amcast::outbox::Outbox;
    use crate::amcast::{
        Config, GroupId, GroupSet, Layout, Message, Multicast, Pid, Timestamp, To,
    };
    use crate::planted::Sound;
    use alloc::sync::Arc;
    use base::Rank;
    use core::fmt::Debug;

    /// Asserts that a message which a process knows by its leader's `proposal` alone is asked for
    /// by `pull`, though many messages with lower names are here and not delivered.
    pub(in crate::amcast) fn is_asked_for_behind_many<M>(
        proposal: impl FnOnce(&M, MessageId, GroupSet, Timestamp) -> M::Wire,
        pull: impl FnOnce(MessageId) -> M::Wire,
    ) where
        M: Multicast<Planted = Sound, Wire: Debug + PartialEq>,
    {
        let pid = |rank| Pid { group: GroupId::at(0), rank: Rank::at(rank) };
        let patience = Duration::from_millis(40);
        let config = Config {
            layout: Layout::new(&[3]),
            rule: Rule::Plain,
            hybrid: false,
            patience,
            commutes: false,
            part_bytes: 64 << 10,
            retain: 100,
            retain_bytes: usize::MAX,
        };
        let mut machine = M::new(&config, pid(1), Sound);
        let mut out = Outbox::<M::Wire, Vec<(MessageId, Timestamp)>>::default();
        let (dest, now) = (GroupSet::all(1), Instant(1));
        for sequence in 0..2 * PULLS_MAX as u64 {
            let id = MessageId { sender: 1, sequence };
            machine.on_start(&Arc::new(Message::new(id, dest, *b"x")), now, &mut out);
        }
        let id = MessageId { sender: 2, sequence: 1 };
        let proposal = proposal(&machine, id, dest, Timestamp(1));
        machine.on_wire(pid(0), &proposal, now, &mut out);
        assert_eq!(machine.deadline(), Some(now.plus(patience)));
        machine.tick(now.plus(patience), &mut out);
        assert!(out.sent.contains(&(To::Groups(dest), pull(id))));
    }

    #[test]
    fn mi1_each_missing_message_has_its_turn() {
        let id = |sequence| MessageId { sender: 1, sequence };
        let patience = Duration::from_millis(40);
        let mut missing = Missing::default();
        assert_eq!(missing.due_at(patience), None);
        let n_missing = 2 * PULLS_MAX as u64 + 1;
        (0..=n_missing).for_each(|sequence| missing.add(id(sequence), Instant(1)));
        missing.remove(id(0));
        let mut asked = BTreeSet::new();
        for _ in 0..3 {
            let now = missing.due_at(patience).expect("some are missing");
            let due = missing.take_due(now, patience);
            assert!(!due.is_empty() && due.len() <= PULLS_MAX && due.is_sorted());
            asked.extend(due);
        }
        assert!(asked.into_iter().eq((1..=n_missing).map(id)));
        (1..=n_missing).for_each(|sequence| missing.remove(id(sequence)));
        assert_eq!(missing.due_at(patience), None);
    }
}
