//! Reads at one timestamp of several partitions: who waits for which, and until when.
//!
//! - S1 each asker is answered once: by the last of its partitions, or that there is nothing to be
//!   had, or at its deadline. By construction: all three take it out.
//! - S2 at most [`multicast::desk::SNAPSHOTS_MAX`] wait: the multicast refuses more, and so does
//!   the door, at once.

use base::Instant;
use kv::door::Asker;
use kv::entry::Sequence;
use kv::partition::Partitions;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Sequences of snapshots; those of commands count up from 1 and never come here.
const FIRST: u64 = 1 << 63;

/// One read.
#[derive(Debug)]
pub(super) struct Waiting {
    asker: Asker,
    deadline: Instant,
    /// The partitions that it asks.
    pub(super) all: Partitions,
    /// As the executor takes it.
    pub(super) payload: Arc<[u8]>,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    waiting: BTreeMap<u64, Waiting>,
}

impl Snapshots {
    /// What snapshot `number`'s read is called among the commands of this process.
    pub(super) const fn sequence(number: u64) -> Sequence {
        Sequence(FIRST | number)
    }

    /// Which snapshot it is that is called so, if it is one.
    pub(super) fn number(sequence: Sequence) -> Option<u64> {
        (sequence.0 >= FIRST).then_some(sequence.0 ^ FIRST)
    }

    pub(super) fn wait(
        &mut self,
        number: u64,
        asker: Asker,
        deadline: Instant,
        (all, payload): (Partitions, Arc<[u8]>),
    ) {
        self.waiting.insert(number, Waiting { asker, deadline, all, payload });
    }

    pub(super) fn get(&self, number: u64) -> Option<&Waiting> {
        self.waiting.get(&number)
    }

    /// Who waits for snapshot `number`, for the last time (S1).
    pub(super) fn end(&mut self, number: u64) -> Option<Asker> {
        self.waiting.remove(&number).map(|waiting| waiting.asker)
    }

    /// One that has waited for too long.
    pub(super) fn late(&self, now: Instant) -> Option<u64> {
        let late = self.waiting.iter().find(|(_, waiting)| waiting.deadline <= now);
        late.map(|(number, _)| *number)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.waiting.values().map(|waiting| waiting.deadline).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn s1_each_is_answered_once() {
        let mut snapshots = Snapshots::default();
        let asker = Asker { connection: 7, request: 3 };
        let soon = Instant::ZERO.plus(Duration::from_millis(5));
        for number in [1, 2] {
            let about = (Partitions::first(2), Arc::from(*b"read"));
            snapshots.wait(number, asker, soon, about);
            assert_eq!(Snapshots::number(Snapshots::sequence(number)), Some(number));
        }
        assert_eq!(Snapshots::number(Sequence(2)), None, "a command's");
        assert_eq!((snapshots.end(1), snapshots.end(1)), (Some(asker), None));
        assert_eq!((snapshots.deadline(), snapshots.late(Instant::ZERO)), (Some(soon), None));
        assert_eq!(snapshots.late(soon), Some(2));
        assert_eq!((snapshots.end(2), snapshots.late(soon)), (Some(asker), None));
    }
}
