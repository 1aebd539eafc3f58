//! The round-robin order of the messages of a shard (paper 000, A.1.2 and A.3.1).
//!
//! A shard has n senders, by their standing among its members. Message k of the s-th of them is at
//! position `k * n + s`: the paper's printed formula (`i * |G| + k`, with i the sender) swaps the
//! two, its inverse is right. A sender that has nothing to say sends a *null* when its turn blocks
//! others. A member that is no sender has no turn, and no position waits for it.

use alloc::vec::Vec;

/// A member's position in the succession of its view, from 0, or among the members of its shard.
/// The leader is the first member of a view that is not suspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(alias = "rank")]
pub struct Standing(pub u16);

impl Standing {
    /// As an array index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The order of a shard in which these members send.
#[derive(Clone, Debug)]
pub(super) struct RoundRobin {
    senders: Vec<Standing>,
    /// By standing, the place of a sender's turns in a round.
    places: Vec<Option<u16>>,
}

impl RoundRobin {
    /// The order of a shard, of whose members these send, by their standing.
    pub(super) fn new(sends: impl IntoIterator<Item = bool>) -> RoundRobin {
        let mut order = RoundRobin { senders: Vec::new(), places: Vec::new() };
        for (member, sends) in (0..).map(Standing).zip(sends) {
            order.places.push(sends.then_some(order.senders.len() as u16));
            order.senders.extend(sends.then_some(member));
        }
        order
    }

    const fn n_senders(&self) -> u64 {
        self.senders.len() as u64
    }

    /// The place of a member's turns in a round: the number of senders that stand before it.
    fn place(&self, member: Standing) -> Option<u64> {
        self.places[member.index()].map(u64::from)
    }

    /// Whether the member with this standing has turns.
    pub(super) fn has(&self, member: Standing) -> bool {
        self.place(member).is_some()
    }

    /// The position of message `index` of `sender`.
    pub(super) fn position(&self, sender: Standing, index: u64) -> u64 {
        let place = self.place(sender).expect("L6: a member that sends");
        index * self.n_senders() + place
    }

    /// The sender and the index of the message at `position`, of an order that has one.
    pub(super) fn turn(&self, position: u64) -> (Standing, u64) {
        let n = self.n_senders();
        assert!(n > 0, "L6: position {position} of an order without senders");
        (self.senders[(position % n) as usize], position / n)
    }

    /// The number of turns that a member has before `position`.
    pub(super) fn turns_before(&self, member: Standing, position: u64) -> u64 {
        let Some(place) = self.place(member) else { return 0 };
        let n = self.n_senders();
        position / n + u64::from(position % n > place)
    }

    /// The length of the order without a gap, of which `counts`, by standing, are there: the
    /// position of the first message that is missing. The smallest count decides, and of the
    /// senders that have it the *first* (A.3.1 does not say which).
    pub(super) fn prefix(&self, counts: impl Fn(Standing) -> u64) -> u64 {
        let n = self.n_senders();
        let missing = (0..).zip(&self.senders).map(|(place, at)| counts(*at) * n + place);
        missing.min().unwrap_or(0)
    }

    /// The same, where the last sender with the smallest count decides: a planted bug.
    pub(super) fn prefix_of_last(&self, counts: impl Fn(Standing) -> u64) -> u64 {
        let least =
            self.of_senders(counts).min_by_key(|(at, count)| (*count, core::cmp::Reverse(at.0)));
        least.map_or(0, |(at, count)| self.position(at, count))
    }

    /// The number of messages that `sender` must have sent, so that its turns do not block those of
    /// which `counts`, by standing, are there.
    pub(super) fn due(&self, sender: Standing, counts: impl Fn(Standing) -> u64) -> u64 {
        if !self.has(sender) {
            return 0;
        }
        let each = self.of_senders(counts).map(|(at, count)| {
            // Turns of `sender` before the last message of this one.
            if sender < at { count } else { count.saturating_sub(1) }
        });
        each.max().unwrap_or(0)
    }

    /// The counts of senders.
    fn of_senders(
        &self,
        counts: impl Fn(Standing) -> u64,
    ) -> impl Iterator<Item = (Standing, u64)> {
        self.senders.iter().map(move |at| (*at, counts(*at)))
    }

    /// Those that have turns, in their order.
    pub(super) fn senders(&self) -> &[Standing] {
        &self.senders
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use base::Rng;

    /// Orders in which all of some members send, or some of them.
    fn orders(rng: &mut Rng) -> (usize, RoundRobin) {
        let n = rng.range(1, 6) as usize;
        let all = rng.chance(1, 3);
        let sends: Vec<bool> = (0..n).map(|_| all || rng.chance(1, 2)).collect();
        (n, RoundRobin::new(sends))
    }

    fn senders(n: usize, order: &RoundRobin) -> Vec<Standing> {
        (0..n as u16).map(Standing).filter(|at| order.has(*at)).collect()
    }

    #[test]
    fn positions_and_turns_are_inverse_and_leave_no_gap() {
        let mut rng = Rng::new(4);
        for _ in 0..200 {
            let (n, order) = orders(&mut rng);
            let senders = senders(n, &order);
            let mut positions = Vec::new();
            for index in 0..4 {
                for sender in &senders {
                    let position = order.position(*sender, index);
                    assert_eq!(order.turn(position), (*sender, index));
                    positions.push(position);
                }
            }
            assert!(positions.into_iter().eq(0..4 * senders.len() as u64));
        }
    }

    #[test]
    fn a_member_has_the_turns_of_its_positions_and_one_that_is_no_sender_has_none() {
        let mut rng = Rng::new(8);
        for _ in 0..200 {
            let (n, order) = orders(&mut rng);
            for member in (0..n as u16).map(Standing) {
                for position in 0..20 {
                    let is_any = !order.senders.is_empty();
                    let turns = (0..position).filter(|at| is_any && order.turn(*at).0 == member);
                    assert_eq!(order.turns_before(member, position), turns.count() as u64);
                }
            }
        }
    }

    #[test]
    fn a_prefix_ends_at_the_first_message_that_is_missing() {
        let mut rng = Rng::new(5);
        for _ in 0..1000 {
            let (n, order) = orders(&mut rng);
            let counts: Vec<u64> = (0..n).map(|_| rng.below(5)).collect();
            let is_there = |position: &u64| {
                let (sender, index) = order.turn(*position);
                index < counts[sender.index()]
            };
            let all = if order.senders.is_empty() { 0..0 } else { 0..u64::MAX };
            let twin = all.take_while(is_there).count() as u64;
            assert_eq!(order.prefix(|at| counts[at.index()]), twin, "{counts:?}");
        }
    }

    #[test]
    fn after_what_is_due_no_turn_of_the_sender_blocks_what_is_there() {
        let mut rng = Rng::new(6);
        for _ in 0..1000 {
            let (n, order) = orders(&mut rng);
            let counts: Vec<u64> = (0..n).map(|_| rng.below(5)).collect();
            let senders = senders(n, &order);
            let last = senders.iter().filter(|at| counts[at.index()] > 0);
            let last = last.map(|at| order.position(*at, counts[at.index()] - 1)).max();
            for sender in senders {
                let turns = (0..last.unwrap_or(0)).filter(|at| order.turn(*at).0 == sender);
                assert_eq!(order.due(sender, |at| counts[at.index()]), {
                    let own = counts[sender.index()];
                    (turns.count() as u64).max(own.saturating_sub(1))
                });
            }
        }
    }

    #[test]
    fn nothing_is_due_of_a_member_that_is_no_sender() {
        let order = RoundRobin::new([true, false, true]);
        assert_eq!(order.due(Standing(1), |at| [4, 0, 4][at.index()]), 0);
        assert_eq!(order.prefix(|at| [4, 0, 3][at.index()]), 7);
        assert_eq!(RoundRobin::new([false, false]).prefix(|_| 0), 0);
    }
}
