//! Time that passes in partitions to which no command comes: there, too, expired keys are removed.
//!
//! - I1 a partition whose first key is due is sent a batch without commands, within [`LOOK_EVERY`],
//!   by the member that leads it. A batch removes a bounded number of keys: where due keys are left
//!   behind one, the next follows at once. Test `i1_ticks_end_when_no_due_key_is_left`.
//! - I2 at most one batch of a member is under way to a partition. Where none is executed, there is
//!   one in [`PATIENCE`]. Test `i2_one_tick_is_under_way`.

use crate::entry::BatchWriter;
use crate::partition::Executor;
use base::Instant;
use core::time::Duration;

/// The longest time between two looks at a partition's first expiry.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How long a tick is waited for before another one is sent.
const PATIENCE: Duration = Duration::from_secs(10);

/// The ticks that one member sends.
#[derive(Debug, Default)]
pub(super) struct Ticks {
    look_at: Instant,
    under_way: Vec<Tick>,
}

#[derive(Clone, Copy, Debug)]
struct Tick {
    partition: usize,
    /// The messages that the partition had executed when it was sent.
    executed: u64,
    until: Instant,
}

impl Ticks {
    /// Whether it is time to look at the partitions.
    pub(super) fn is_due(&self, now: Instant, executor: &Executor) -> bool {
        now >= self.look_at || self.under_way.iter().any(|tick| tick.has_come(executor))
    }

    /// Sends what is due at `now`, which is `stamp_ms` in state time. `leads` tells whether this
    /// member leads a partition, and `send` multicasts a batch to one, or refuses. True if any was
    /// sent.
    pub(super) fn look(
        &mut self,
        (now, stamp_ms): (Instant, u64),
        executor: &Executor,
        leads: impl Fn(usize) -> bool,
        mut send: impl FnMut(usize, &[u8]) -> bool,
    ) -> bool {
        if now >= self.look_at {
            self.look_at = now.plus(LOOK_EVERY);
        }
        self.under_way.retain(|tick| now < tick.until && !tick.has_come(executor));
        let n_before = self.under_way.len();
        for partition in 0..executor.map().n {
            let waits = self.under_way.iter().any(|tick| tick.partition == partition);
            let is_due = || executor.next_expiry_ms(partition).is_some_and(|at| at <= stamp_ms);
            if waits || !leads(partition) || !is_due() {
                continue;
            }
            let mut batch = Vec::new();
            BatchWriter::new().begin(stamp_ms, &mut batch);
            if send(partition, &batch) {
                let executed = executor.figures(partition).executed;
                self.under_way.push(Tick { partition, executed, until: now.plus(PATIENCE) });
            }
        }
        self.under_way.len() > n_before
    }
}

impl Tick {
    fn has_come(&self, executor: &Executor) -> bool {
        executor.figures(self.partition).executed != self.executed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::command::put_plain;
    use crate::entry::{Appended, Origin, Sequence};
    use crate::partition::{Name, Order, Partitions, Place};
    use crate::reply::Protocol;
    use base::{Incarnation, Rank};

    const ME: Origin = Origin { rank: Rank::at(0), incarnation: Incarnation(1) };

    /// A process whose messages are delivered when it is told.
    struct Alone {
        executor: Executor,
        ticks: Ticks,
        n_delivered: u64,
        sent: Vec<(usize, Vec<u8>)>,
    }

    impl Alone {
        /// Two partitions with `n` keys that expire at 100 ms.
        fn with_keys(n: usize) -> Alone {
            let executor = Executor::new(ME, 2, Order::default(), 0);
            let mut alone =
                Alone { executor, ticks: Ticks::default(), n_delivered: 0, sent: Vec::new() };
            for at in 0..n {
                let mut command = Vec::new();
                let key = format!("k{at}");
                let args = [&b"SET"[..], key.as_bytes(), b"v", b"PXAT", b"100"];
                put_plain(&args, Protocol::Resp2, &mut command);
                let (mut batch, mut writer) = (Vec::new(), BatchWriter::new());
                writer.begin(1, &mut batch);
                let sequence = Sequence(at as u64 + 1);
                let appended = writer.append(ME, sequence, &command, 1 << 16, &mut batch);
                assert_eq!(appended, Appended::Whole);
                alone.deliver(crate::partition::partition_of(key.as_bytes(), 2), &batch);
            }
            alone
        }

        fn deliver(&mut self, partition: usize, batch: &[u8]) {
            self.n_delivered += 1;
            let name = Name { sender: 0, sequence: self.n_delivered };
            let place = Place { at: self.n_delivered, name };
            let all = Partitions::one(partition);
            self.executor.deliver(partition, place, all, &batch.into(), &mut |_, _| {}).unwrap();
        }

        fn look(&mut self, now: Instant, leads: impl Fn(usize) -> bool) -> usize {
            let Alone { executor, ticks, sent, .. } = self;
            let before = sent.len();
            if ticks.is_due(now, executor) {
                ticks.look((now, 100), executor, leads, |to, batch| {
                    sent.push((to, batch.to_vec()));
                    true
                });
            }
            sent.len() - before
        }

        fn len(&self) -> u64 {
            (0..2).map(|at| self.executor.figures(at).keys).sum()
        }
    }

    /// A partition that no command came to kept its expired keys for ever.
    #[test]
    fn i1_ticks_end_when_no_due_key_is_left() {
        let mut alone = Alone::with_keys(3000);
        let now = Instant(5);
        assert_eq!(alone.look(now, |_| false), 0, "others lead");
        let now = now.plus(LOOK_EVERY);
        let mut n_ticks = alone.look(now, |_| true);
        assert_eq!(n_ticks, 2);
        while let Some((to, batch)) = alone.sent.pop() {
            alone.deliver(to, &batch);
            n_ticks += alone.look(now, |_| true);
        }
        assert_eq!(alone.len(), 0, "no time has passed");
        assert!((6..=8).contains(&n_ticks), "{n_ticks}");
        assert_eq!(alone.look(now.plus(LOOK_EVERY), |_| true), 0);
    }

    #[test]
    fn i2_one_tick_is_under_way() {
        let mut alone = Alone::with_keys(10);
        let now = Instant(5);
        assert_eq!(alone.look(now, |partition| partition == 1), 1);
        for turn in 1..20 {
            assert_eq!(alone.look(now.plus(LOOK_EVERY * turn), |partition| partition == 1), 0);
        }
        assert_eq!(alone.look(now.plus(PATIENCE), |partition| partition == 1), 1);
    }
}
