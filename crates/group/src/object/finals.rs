//! The times up to which the copies of this process are final, and questions that wait for them.
//!
//! - F1 *Final here.* A copy is final up to a time when it has executed everything that can have
//!   that time or an earlier one. By construction: the event that says so follows these calls, and
//!   the thread that executes them takes it.
//! - F2 *Bounds.* At most [`HELD_MAX`] questions of other members wait; of one more that with the
//!   latest time is dropped, and asked again by its caller, while that waits.

use crate::time::Time;
use proto::vsync::ShardId;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most questions that wait.
const HELD_MAX: usize = 1024;

/// A question of another member that waits for a time.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) shard: ShardId,
    pub(super) then: Time,
    pub(super) method: u16,
    pub(super) arguments: Vec<u8>,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Finals(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// By subgroup, the shard that this process was in, and its time.
    times: BTreeMap<u16, (u16, Time)>,
    /// By caller: its seat, and its ticket.
    held: BTreeMap<(usize, u64), Held>,
}

impl Finals {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the copy of `shard` is final up to `then`.
    pub(super) fn has(&self, shard: ShardId, then: Time) -> bool {
        let inner = self.inner();
        let own = inner.times.get(&shard.subgroup).filter(|(own, _)| *own == shard.shard);
        own.is_some_and(|(_, time)| *time >= then)
    }

    /// Holds a question back (F2).
    pub(super) fn hold(&self, caller: (usize, u64), held: Held) {
        let mut inner = self.inner();
        inner.held.insert(caller, held);
        if inner.held.len() > HELD_MAX {
            // (A caller that has given up does not take its question back.)
            let latest = inner.held.iter().max_by_key(|(_, held)| held.then);
            let latest = latest.map(|(caller, _)| *caller);
            latest.and_then(|caller| inner.held.remove(&caller));
        }
    }

    /// Notes that a copy is final up to `time`. Returns the questions that waited for that.
    pub(super) fn note(&self, shard: ShardId, time: Time) -> Vec<((usize, u64), Held)> {
        let mut inner = self.inner();
        inner.times.insert(shard.subgroup, (shard.shard, time));
        let is_due = |held: &Held| held.shard == shard && held.then <= time;
        let callers: Vec<_> =
            inner.held.iter().filter(|(_, held)| is_due(held)).map(|(caller, _)| *caller).collect();
        callers.into_iter().filter_map(|one| inner.held.remove_entry(&one)).collect()
    }

    /// Forgets what waits for a shard in which this process is not.
    pub(super) fn keep(&self, is_in: impl Fn(ShardId) -> bool) {
        let mut inner = self.inner();
        inner
            .times
            .retain(|subgroup, (shard, _)| is_in(ShardId { subgroup: *subgroup, shard: *shard }));
        inner.held.retain(|_, held| is_in(held.shard));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: ShardId = ShardId { subgroup: 1, shard: 0 };
    const THERE: ShardId = ShardId { subgroup: 1, shard: 1 };

    fn held(ns: u64) -> Held {
        Held { shard: HERE, then: Time::from_nanos(ns), method: 0, arguments: Vec::new() }
    }

    #[test]
    fn f1_a_question_waits_for_its_time_in_its_shard() {
        let finals = Finals::default();
        finals.hold((3, 1), held(7));
        finals.hold((3, 2), held(9));
        assert!(finals.note(HERE, Time::from_nanos(6)).is_empty());
        let due = finals.note(HERE, Time::from_nanos(7));
        assert_eq!(due.iter().map(|(caller, _)| *caller).collect::<Vec<_>>(), [(3, 1)]);
        assert!(finals.has(HERE, Time::from_nanos(7)) && !finals.has(HERE, Time::from_nanos(8)));
        assert!(!finals.has(THERE, Time::from_nanos(1)));
        finals.keep(|shard| shard == THERE);
        assert!(finals.note(HERE, Time::from_nanos(9)).is_empty(), "it has moved");
    }

    #[test]
    fn f2_no_more_questions_wait_than_there_is_room_for() {
        let finals = Finals::default();
        (0..2 * HELD_MAX as u64).for_each(|ticket| finals.hold((1, ticket), held(100 + ticket)));
        finals.hold((2, 7), held(9));
        assert_eq!(finals.note(HERE, Time::from_nanos(9)).len(), 1, "the latest one was dropped");
        assert_eq!(finals.note(HERE, Time::from_nanos(u64::MAX)).len(), HELD_MAX - 1);
    }
}
