//! Reads at one timestamp of several partitions: the clients that wait for them, and their
//! deadlines.
//!
//! - S1 each asker is answered once: by the last of its partitions, by a refusal, or at its
//!   deadline. By construction: all three remove it.
//! - S2 at most [`engine::multicast::SNAPSHOTS_MAX`] wait: the multicast refuses more, and so does
//!   the door, at once.

use crate::entry::Sequence;
use crate::partition::Partitions;
use base::Instant;
use engine::Asker;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The first sequence of snapshots; the sequences of commands count up from 1 and never reach it.
const FIRST: u64 = 1 << 63;

/// A read at a timestamp.
#[derive(Debug)]
pub(super) struct Waiting {
    asker: Asker,
    deadline: Instant,
    /// The partitions that it reads.
    pub(super) all: Partitions,
    /// The read's bytes, as the executor takes them.
    pub(super) payload: Arc<[u8]>,
}

/// The reads of a process; see the module's text.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    waiting: BTreeMap<u64, Waiting>,
}

impl Snapshots {
    /// The sequence of snapshot `number`'s read among the commands of this process.
    pub(super) const fn sequence(number: u64) -> Sequence {
        Sequence(FIRST | number)
    }

    /// The snapshot with this sequence, if it is a snapshot's.
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

    /// Removes snapshot `number` and returns its asker (S1).
    pub(super) fn end(&mut self, number: u64) -> Option<Asker> {
        self.waiting.remove(&number).map(|waiting| waiting.asker)
    }

    /// A read whose deadline has passed.
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
    use core::time::Duration;

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
