//! An application that is slow to give states: it has them as they were when it was asked, and
//! gives them later, whatever has become of the view meanwhile. Those for its own log it gives best
//! when its view ends, and the log has a change of that (`aims`, A17).

use base::{Instant, Rank, Rng};
use core::time::Duration;
use proto::vsync::{Position, ShardId};

/// A state that was asked for, as it was then.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) to: Rank,
    pub(super) shard: ShardId,
    pub(super) at: Position,
    pub(super) bytes: Vec<u8>,
}

/// A state that is given at an instant, or when the view ends.
struct Debt {
    by: Instant,
    waits_for_end: bool,
    asked: Asked,
}

/// The states that a process owes.
#[derive(Default)]
pub(super) struct Owed {
    /// The choices of a slow application; any other gives at once.
    rng: Option<Rng>,
    debts: Vec<Debt>,
}

impl Owed {
    /// Gives some states late from now on.
    pub(super) fn delay(&mut self, rng: Rng) {
        self.rng = Some(rng);
    }

    /// What the process on `me` is asked for at `now`, if it is given at once.
    pub(super) fn ask(&mut self, asked: Asked, me: Rank, now: Instant) -> Option<Vec<u8>> {
        let Some(rng) = &mut self.rng else { return Some(asked.bytes) };
        let waits_for_end = asked.to == me && rng.chance(1, 2);
        // Of all orders of magnitude, up to a quarter of a second.
        let bits = if waits_for_end { 28 } else { rng.below(29) };
        let span = rng.below(1 << bits);
        if span == 0 {
            return Some(asked.bytes);
        }
        let by = now.plus(Duration::from_nanos(span));
        self.debts.push(Debt { by, waits_for_end, asked });
        None
    }

    /// Whether a state waits for the end of the view.
    pub(super) fn waits_for_end(&self) -> bool {
        self.debts.iter().any(|debt| debt.waits_for_end)
    }

    /// What is to be given at `now`, in the order in which it was asked for.
    pub(super) fn due(&mut self, now: Instant, ends: bool) -> Vec<Asked> {
        let due = self.debts.extract_if(.., |of| of.by <= now || ends && of.waits_for_end);
        due.map(|debt| debt.asked).collect()
    }

    /// The instant at which the next state is given.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.debts.iter().map(|debt| debt.by).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::vsync::ViewId;

    const ME: usize = 2;

    fn asked(to: usize, at: u64) -> Asked {
        let (to, shard) = (Rank::at(to), ShardId { subgroup: 0, shard: 0 });
        Asked { to, shard, at: Position { view: ViewId(1), at }, bytes: vec![at as u8] }
    }

    fn ask(owed: &mut Owed, to: usize, at: u64) -> Option<Vec<u8>> {
        owed.ask(asked(to, at), Rank::at(ME), Instant(5))
    }

    #[test]
    fn a_slow_application_gives_each_state_once_as_it_was() {
        let mut owed = Owed::default();
        assert_eq!(ask(&mut owed, 1, 7), Some(vec![7]), "one that is not slow");
        owed.delay(Rng::new(3));
        let n_late = (0..40).filter(|n| ask(&mut owed, 1, *n).is_none()).count();
        assert!(n_late > 20 && !owed.waits_for_end(), "{n_late}");
        let mut given = Vec::new();
        while let Some(at) = owed.next_at() {
            assert!(at > Instant(5) && owed.due(Instant(at.0 - 1), true).is_empty());
            given.extend(owed.due(at, false));
        }
        assert_eq!(given.len(), n_late);
        assert!(given.iter().all(|one| one.bytes == [one.at.at as u8]));
    }

    #[test]
    fn a17_states_for_the_own_log_come_when_the_view_ends() {
        let mut owed = Owed::default();
        owed.delay(Rng::new(3));
        (0..40).for_each(|n| drop(ask(&mut owed, ME, n)));
        assert!(owed.waits_for_end() && owed.due(Instant(5), false).is_empty());
        assert!(!owed.due(Instant(5), true).is_empty() && !owed.waits_for_end());
    }
}
