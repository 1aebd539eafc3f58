//! A gate for messages that wait for their turn in several queues at once.
//!
//! Each partition has a queue. A name stands in the queues of some partitions and passes when it is
//! first in each of them. This is S-SMR's exchange of signals for replicas that live in one
//! process: the signal "I have reached m" is a place at the front of a queue, and costs no message.
//!
//! - W1 in each queue names pass in the order in which they joined it. By construction.
//! - W2 as long as all queues agree on the order of the names that they share, and a name that
//!   joins one of its queues eventually joins all of them, every name passes: the first name in
//!   that order is at the front of each of its queues. Test `w2_everything_passes`.

use super::Name;
use super::hash::Partitions;
use std::collections::VecDeque;

/// The gate; see the module's text.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    /// The names in each queue, with the queues in which each has to be first.
    queues: Vec<VecDeque<(Name, Partitions)>>,
    /// The queues whose front may have changed.
    stirred: Partitions,
}

impl Gate {
    pub(super) fn new(n: usize) -> Gate {
        Gate { queues: vec![VecDeque::new(); n], stirred: Partitions::NONE }
    }

    /// Adds `name` to the queue of `at`; it passes when it is first in each of `all`.
    pub(super) fn join(&mut self, at: usize, name: Name, all: Partitions) {
        assert!(all.contains(at), "it waits where it stands");
        self.queues[at].push_back((name, all));
        self.stirred = self.stirred.and(Partitions::one(at));
    }

    /// The names in one queue in order, with the queues in which each has to be first.
    pub(super) fn queue(&self, at: usize) -> impl Iterator<Item = (Name, Partitions)> + '_ {
        self.queues[at].iter().copied()
    }

    /// The next name that passes, and the queues that it leaves.
    pub(super) fn pass(&mut self) -> Option<(Name, Partitions)> {
        while let Some(at) = self.stirred.lowest() {
            let Some(&(name, all)) = self.queues[at].front() else {
                self.stirred = self.stirred.without(at);
                continue;
            };
            let is_first =
                |at: usize| self.queues[at].front().is_some_and(|(first, _)| *first == name);
            if all.iter().all(is_first) {
                for at in all.iter() {
                    self.queues[at].pop_front();
                }
                self.stirred = self.stirred.and(all);
                return Some((name, all));
            }
            // The last queue in which the name becomes first will be stirred then.
            self.stirred = self.stirred.without(at);
        }
        None
    }

    /// Removes `name` from every queue.
    pub(super) fn leave(&mut self, name: Name) {
        for (at, queue) in self.queues.iter_mut().enumerate() {
            queue.retain(|(waiting, _)| *waiting != name);
            self.stirred = self.stirred.and(Partitions::one(at));
        }
    }

    /// The number of places in all queues.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    #[test]
    fn w1_w2_everything_passes_in_each_queues_order() {
        const QUEUES: usize = 4;
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let things: Vec<(Name, Partitions)> = (0..60)
                .map(|sequence| {
                    let bits = rng.range(1, (1 << QUEUES) - 1) as u32;
                    (Name { sender: 1, sequence }, Partitions::from_bits(bits))
                })
                .collect();
            // Each queue gets its names in the same order, at its own pace.
            let mut gate = Gate::new(QUEUES);
            let mut next = [0; QUEUES];
            let mut passed = Vec::new();
            while next.iter().any(|&at| at < things.len()) {
                let at = rng.below(QUEUES as u64) as usize;
                if let Some(&(name, all)) = things.get(next[at]) {
                    next[at] += 1;
                    if all.contains(at) {
                        gate.join(at, name, all);
                    }
                }
                passed.extend(std::iter::from_fn(|| gate.pass()));
            }
            assert_eq!((passed.len(), gate.len()), (things.len(), 0), "W2, seed {seed}");
            for at in 0..QUEUES {
                let of = |all: &[(Name, Partitions)]| -> Vec<Name> {
                    all.iter().filter(|it| it.1.contains(at)).map(|it| it.0).collect()
                };
                assert_eq!(of(&passed), of(&things), "W1, seed {seed}");
            }
        }
    }

    #[test]
    fn w2_what_leaves_lets_through_what_stood_behind_it() {
        let name = |sequence| Name { sender: 1, sequence };
        let (one, both) = (Partitions::one(0), Partitions::from_bits(0b11));
        let mut gate = Gate::new(2);
        gate.join(0, name(1), both);
        gate.join(0, name(2), one);
        assert_eq!(gate.pass(), None, "the first has not come to the other queue");
        gate.leave(name(1));
        assert_eq!(gate.pass(), Some((name(2), one)));
        assert_eq!(gate.len(), 0);
    }
}
