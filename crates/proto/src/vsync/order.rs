//! The round-robin order of the messages of a view (paper 000, A.1.2 and A.3.1).
//!
//! A view has n senders, by their standing. Message k of sender s is at position `k * n + s`: the
//! paper's printed formula (`i * |G| + k`, with i the sender) swaps the two, its inverse is right.
//! A sender that has nothing to say sends a *null* when its turn blocks others.

use super::view::Standing;

/// The order of a view with this many senders.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundRobin {
    n_senders: u64,
}

impl RoundRobin {
    /// The order of `n_senders`.
    pub(super) const fn new(n_senders: usize) -> RoundRobin {
        RoundRobin { n_senders: n_senders as u64 }
    }

    /// The position of message `index` of `sender`.
    pub(super) const fn position(self, sender: Standing, index: u64) -> u64 {
        index * self.n_senders + sender.0 as u64
    }

    /// The sender and the index of the message at `position`.
    pub(super) const fn turn(self, position: u64) -> (Standing, u64) {
        (Standing((position % self.n_senders) as u16), position / self.n_senders)
    }

    /// The length of the order without a gap, of which `counts`, by standing, are there: the
    /// position of the first message that is missing. The smallest count decides, and of the
    /// senders that have it the *first* (A.3.1 does not say which).
    pub(super) fn prefix(self, counts: impl IntoIterator<Item = u64>) -> u64 {
        let missing = counts.into_iter().enumerate();
        let missing = missing.map(|(at, count)| self.position(Standing(at as u16), count));
        missing.min().unwrap_or(0)
    }

    /// The number of messages that `sender` must have sent, so that its turns do not block those of
    /// which `counts`, by standing, are there.
    pub(super) fn due(self, sender: Standing, counts: impl IntoIterator<Item = u64>) -> u64 {
        let each = counts.into_iter().enumerate().map(|(at, count)| {
            // Turns of `sender` before the last message of this one.
            if sender.index() < at { count } else { count.saturating_sub(1) }
        });
        each.max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use base::Rng;

    #[test]
    fn positions_and_turns_are_inverse_and_leave_no_gap() {
        for n in 1..6 {
            let order = RoundRobin::new(n);
            let mut positions = Vec::new();
            for index in 0..4 {
                for sender in (0..n as u16).map(Standing) {
                    let position = order.position(sender, index);
                    assert_eq!(order.turn(position), (sender, index));
                    positions.push(position);
                }
            }
            assert!(positions.into_iter().eq(0..4 * n as u64));
        }
    }

    #[test]
    fn a_prefix_ends_at_the_first_message_that_is_missing() {
        let mut rng = Rng::new(5);
        for _ in 0..1000 {
            let n = rng.range(1, 6) as usize;
            let counts: Vec<u64> = (0..n).map(|_| rng.below(5)).collect();
            let order = RoundRobin::new(n);
            let is_there = |position: &u64| {
                let (sender, index) = order.turn(*position);
                index < counts[sender.index()]
            };
            let twin = (0..).take_while(is_there).count() as u64;
            assert_eq!(order.prefix(counts.iter().copied()), twin, "{counts:?}");
        }
    }

    #[test]
    fn after_what_is_due_no_turn_of_the_sender_blocks_what_is_there() {
        let mut rng = Rng::new(6);
        for _ in 0..1000 {
            let n = rng.range(1, 6) as usize;
            let counts: Vec<u64> = (0..n).map(|_| rng.below(5)).collect();
            let order = RoundRobin::new(n);
            let last = (0..n).filter(|at| counts[*at] > 0);
            let last = last.map(|at| order.position(Standing(at as u16), counts[at] - 1)).max();
            for sender in (0..n as u16).map(Standing) {
                let turns = (0..last.unwrap_or(0)).filter(|at| order.turn(*at).0 == sender);
                assert_eq!(order.due(sender, counts.iter().copied()), {
                    let own = counts[sender.index()];
                    (turns.count() as u64).max(own.saturating_sub(1))
                });
            }
        }
    }
}
