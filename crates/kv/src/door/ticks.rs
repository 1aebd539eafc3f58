//! Time that passes in partitions to which no command comes: there, too, expired keys are removed.
//!
//! - I1 a partition whose first key is due is sent a batch without commands, within [`LOOK_EVERY`],
//!   by the member that leads it. A batch removes a bounded number of keys: where it leaves keys
//!   behind that were due at its own stamp, the next follows at once. Keys that are due since then
//!   wait for the next look, or there would be a batch in each turn. Tests
//!   `i1_ticks_end_when_no_due_key_is_left`,
//!   `i1_keys_that_are_due_one_by_one_wait_for_the_next_look`.
//! - I2 at most one batch of a member is under way to a partition: until the partition has executed
//!   that very message, or for [`PATIENCE`]. Tests `i2_one_tick_is_under_way`,
//!   `i2_another_message_ends_no_tick`.

use crate::entry::BatchWriter;
use crate::partition::{Executor, Name};
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
    name: Name,
    is_delivered: bool,
    until: Instant,
}

impl Ticks {
    /// Whether it is time to look at the partitions.
    pub(super) fn is_due(&self, now: Instant, executor: &Executor) -> bool {
        now >= self.look_at || self.under_way.iter().any(|tick| tick.has_come(executor))
    }

    /// Hears that a message was delivered here, if it is one of these.
    pub(super) fn delivered(&mut self, name: Name) {
        for tick in self.under_way.iter_mut().filter(|tick| tick.name == name) {
            tick.is_delivered = true;
        }
    }

    /// Sends what is due at `now`, which is `stamp_ms` in state time. `leads` tells whether this
    /// member leads a partition, and `send` multicasts a batch to one, or refuses. True if any was
    /// sent.
    pub(super) fn look(
        &mut self,
        (now, stamp_ms): (Instant, u64),
        executor: &Executor,
        leads: impl Fn(usize) -> bool,
        mut send: impl FnMut(usize, &[u8]) -> Option<Name>,
    ) -> bool {
        let looks = now >= self.look_at;
        if looks {
            self.look_at = now.plus(LOOK_EVERY);
        }
        let come: Vec<Tick> =
            self.under_way.extract_if(.., |tick| tick.has_come(executor)).collect();
        self.under_way.retain(|tick| now < tick.until);
        let n_before = self.under_way.len();
        let is_of = |ticks: &[Tick], at| ticks.iter().any(|tick| tick.partition == at);
        for partition in 0..executor.map().n {
            let waits = is_of(&self.under_way, partition);
            let is_due = || executor.next_expiry_ms(partition).is_some_and(|at| at <= stamp_ms);
            let has_left = || is_of(&come, partition) && executor.has_due_keys_left(partition);
            if waits || !leads(partition) || !(looks && is_due() || has_left()) {
                continue;
            }
            let mut batch = Vec::new();
            BatchWriter::new().begin(stamp_ms, &mut batch);
            if let Some(name) = send(partition, &batch) {
                let until = now.plus(PATIENCE);
                self.under_way.push(Tick { partition, name, is_delivered: false, until });
            }
        }
        self.under_way.len() > n_before
    }
}

impl Tick {
    fn has_come(&self, executor: &Executor) -> bool {
        self.is_delivered && !executor.is_waiting(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::command::put_plain;
    use crate::entry::{Appended, Origin, Sequence};
    use crate::partition::{Order, Partitions, Place};
    use crate::reply::Protocol;
    use base::{Incarnation, Rank};

    const ME: Origin = Origin { rank: Rank::at(0), incarnation: Incarnation(1) };

    /// A process whose messages are delivered when it is told.
    struct Alone {
        executor: Executor,
        ticks: Ticks,
        n_delivered: u64,
        /// The ticks that are under way, and the number of all.
        sent: Vec<(usize, Name, Vec<u8>)>,
        n_sent: u64,
        stamp_ms: u64,
    }

    impl Alone {
        /// Two partitions with `n` keys that expire at 100 ms, which is now.
        fn with_keys(n: usize) -> Alone {
            Alone::with_keys_at((0..n).map(|_| 100))
        }

        fn with_keys_at(expiries: impl Iterator<Item = u64>) -> Alone {
            let executor = Executor::new(ME, 2, Order::default(), 0);
            let (ticks, sent) = (Ticks::default(), Vec::new());
            let mut alone =
                Alone { executor, ticks, n_delivered: 0, sent, n_sent: 0, stamp_ms: 100 };
            for (at, expiry_ms) in expiries.enumerate() {
                let key = format!("k{at}");
                let expiry = expiry_ms.to_string();
                alone.say(&[b"SET", key.as_bytes(), b"v", b"PXAT", expiry.as_bytes()]);
            }
            alone
        }

        /// Another message: a command for the partition of its key.
        fn say(&mut self, args: &[&[u8]]) {
            let mut command = Vec::new();
            put_plain(args, Protocol::Resp2, &mut command);
            let (mut batch, mut writer) = (Vec::new(), BatchWriter::new());
            writer.begin(1, &mut batch);
            let sequence = Sequence(self.n_delivered + 1);
            let appended = writer.append(ME, sequence, &command, 1 << 16, &mut batch);
            assert_eq!(appended, Appended::Whole);
            let name = Name { sender: 0, sequence: self.n_delivered + 1 };
            self.deliver(crate::partition::partition_of(args[1], 2), name, &batch);
        }

        fn deliver(&mut self, partition: usize, name: Name, batch: &[u8]) {
            self.n_delivered += 1;
            let place = Place { at: self.n_delivered, name };
            let all = Partitions::one(partition);
            self.executor.deliver(partition, place, all, &batch.into(), &mut |_, _| {}).unwrap();
            self.ticks.delivered(name);
        }

        /// Delivers the tick that was sent last. False if none is under way.
        fn deliver_tick(&mut self) -> bool {
            let Some((to, name, batch)) = self.sent.pop() else { return false };
            self.deliver(to, name, &batch);
            true
        }

        fn look(&mut self, now: Instant, leads: impl Fn(usize) -> bool) -> usize {
            let Alone { executor, ticks, sent, n_sent, stamp_ms, .. } = self;
            let before = sent.len();
            if ticks.is_due(now, executor) {
                ticks.look((now, *stamp_ms), executor, leads, |to, batch| {
                    *n_sent += 1;
                    let name = Name { sender: 1, sequence: *n_sent };
                    sent.push((to, name, batch.to_vec()));
                    Some(name)
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
        while alone.deliver_tick() {
            n_ticks += alone.look(now, |_| true);
        }
        assert_eq!(alone.len(), 0, "no time has passed");
        assert!((6..=8).contains(&n_ticks), "{n_ticks}");
        assert_eq!(alone.look(now.plus(LOOK_EVERY), |_| true), 0);
    }

    /// With thousands of expirations in a second a key is due at any time.
    #[test]
    fn i1_keys_that_are_due_one_by_one_wait_for_the_next_look() {
        let mut alone = Alone::with_keys_at((0..2000).map(|at| 100 + at));
        let (mut now, mut n_ticks) = (Instant(5), 0);
        for _ in 0..4 {
            n_ticks += alone.look(now, |_| true);
            for ms in 1..200 {
                alone.stamp_ms += 1;
                alone.deliver_tick();
                n_ticks += alone.look(now.plus(Duration::from_millis(ms)), |_| true);
            }
            now = now.plus(LOOK_EVERY);
        }
        assert!((4..=8).contains(&n_ticks), "{n_ticks}: one for each look and partition at most");
    }

    #[test]
    fn i2_another_message_ends_no_tick() {
        let mut alone = Alone::with_keys(3000);
        let now = Instant(5);
        assert_eq!(alone.look(now, |_| true), 2);
        for at in 0..20 {
            alone.say(&[b"SET", format!("other{at}").as_bytes(), b"v"]);
            assert_eq!(alone.look(now, |_| true), 0, "two are under way");
        }
        assert!(alone.deliver_tick());
        assert_eq!(alone.look(now, |_| true), 1, "the next follows its own");
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
