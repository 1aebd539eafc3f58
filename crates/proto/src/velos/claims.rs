//! The applied prefixes that members tell each other (I3, I13).

use super::eras::seal_claim;
use super::*;

/// The interval at which a member announces its applied prefix while little happens.
const TELL_EVERY: Duration = Duration::from_millis(2);

/// The other members' claims, and the last own one.
#[derive(Clone, Debug, Hash)]
pub(super) struct Claims {
    /// The prefix that each other member claims to have applied, and the incarnation that claims it
    /// (I13).
    heard: [(Prefix, Incarnation); MAX_MEMBERS],
    /// The words of each claim.
    words: [[u64; 2]; MAX_MEMBERS],
    /// The processes that failed: what they had applied was lost with them.
    failed: MemberSet,
    told: Prefix,
    told_at: Instant,
}

impl Claims {
    pub(super) const fn new() -> Claims {
        Claims {
            heard: [(Prefix::ZERO, Incarnation(0)); MAX_MEMBERS],
            words: [[0; 2]; MAX_MEMBERS],
            failed: MemberSet::EMPTY,
            told: Prefix::ZERO,
            told_at: Instant::ZERO,
        }
    }

    /// Whether these words of `rank` differ from its last claim.
    pub(super) fn is_news(&self, rank: Rank, words: [u64; 2]) -> bool {
        words != self.words[rank.index()]
    }

    /// Takes the words in which `rank` claims a prefix, if one of `named` has sealed them (I13), or
    /// if `any` claim counts (a planted bug). Returns the prefix.
    pub(super) fn hear(
        &mut self,
        rank: Rank,
        words: [u64; 2],
        named: [Incarnation; 2],
        any: bool,
    ) -> Option<Prefix> {
        let prefix = Prefix(words[0]);
        let mut named = named.into_iter().filter(|of| of.0 > 0);
        let of = named.find(|of| words[1] == seal_claim(prefix, *of) || any)?;
        self.words[rank.index()] = words;
        self.heard[rank.index()] = (prefix, of);
        Some(prefix)
    }

    /// The prefix that this incarnation of another member has applied, as far as is known.
    pub(super) fn of(&self, rank: Rank, incarnation: Incarnation) -> Prefix {
        let (prefix, of) = self.heard[rank.index()];
        if of == incarnation && !self.failed.contains(rank) { prefix } else { Prefix::ZERO }
    }

    /// The last claim from the seat of `rank`, of whichever incarnation.
    pub(super) const fn last(&self, rank: Rank) -> Prefix {
        self.heard[rank.index()].0
    }

    pub(super) fn process_failed(&mut self, rank: Rank) {
        self.failed.insert(rank);
    }

    /// Notes that these members are alive.
    pub(super) fn are_alive(&mut self, members: MemberSet) {
        self.failed = self.failed.difference(members);
    }

    pub(super) const fn has_failed(&self, rank: Rank) -> bool {
        self.failed.contains(rank)
    }

    /// Whether to tell the others that `applied` is applied here: at once when that is `urgent`
    /// slots more than they know, otherwise at intervals. `Err` has the time at which it is due.
    pub(super) fn tell(
        &mut self,
        applied: Prefix,
        urgent: u64,
        now: Instant,
    ) -> Result<bool, Instant> {
        let lag = applied.ahead_of(self.told);
        if lag == 0 {
            return Ok(false);
        }
        let due = self.told_at.plus(TELL_EVERY);
        if lag < urgent && now < due {
            return Err(due);
        }
        (self.told, self.told_at) = (applied, now);
        Ok(true)
    }

    #[cfg(test)]
    pub(super) const fn set(&mut self, rank: Rank, prefix: Prefix, of: Incarnation) {
        self.heard[rank.index()] = (prefix, of);
    }
}

/// The largest prefix that a majority of `n` members claims, by the claims of those that are known.
/// (With no members, nothing is claimed.)
pub(super) fn claimed_by_majority(n: usize, claims: impl Iterator<Item = Prefix>) -> Prefix {
    // The claims in falling order; the result is the one at which a majority is complete.
    let mut highest = [Prefix::ZERO; MAX_MEMBERS];
    for (n_there, claimed) in claims.enumerate() {
        let mut at = n_there;
        while at > 0 && highest[at - 1] < claimed {
            highest[at] = highest[at - 1];
            at -= 1;
        }
        highest[at] = claimed;
    }
    highest[majority(n) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Incarnation = Incarnation(7);
    const OTHER: Incarnation = Incarnation(8);

    fn words(prefix: u64, of: Incarnation) -> [u64; 2] {
        [prefix, seal_claim(Prefix(prefix), of)]
    }

    #[test]
    fn i13_a_claim_counts_for_the_incarnation_that_sealed_it() {
        let rank = Rank::at(1);
        let mut claims = Claims::new();
        assert_eq!(claims.hear(rank, words(5, OTHER), [ONE, Incarnation(0)], false), None);
        assert_eq!(claims.of(rank, OTHER), Prefix::ZERO);
        assert_eq!(claims.hear(rank, words(5, ONE), [ONE, OTHER], false), Some(Prefix(5)));
        assert_eq!((claims.of(rank, ONE), claims.of(rank, OTHER)), (Prefix(5), Prefix::ZERO));
        claims.process_failed(rank);
        assert_eq!((claims.of(rank, ONE), claims.last(rank)), (Prefix::ZERO, Prefix(5)));
        claims.are_alive(MemberSet::all(2));
        assert_eq!(claims.of(rank, ONE), Prefix(5));
    }

    #[test]
    fn a_prefix_is_told_at_once_if_urgent_else_when_due_and_once() {
        let (mut claims, due) = (Claims::new(), Instant::ZERO.plus(TELL_EVERY));
        assert_eq!(claims.tell(Prefix::ZERO, 4, due), Ok(false), "there is nothing to tell");
        assert_eq!(claims.tell(Prefix(3), 4, Instant::ZERO), Err(due));
        assert_eq!(claims.tell(Prefix(4), 4, Instant::ZERO), Ok(true));
        assert_eq!(claims.tell(Prefix(4), 4, due), Ok(false));
        assert_eq!(claims.tell(Prefix(5), 4, due), Ok(true));
    }

    #[test]
    fn i3_what_a_majority_claims_is_the_middle_one() {
        let of = |claims: &[u64]| {
            claimed_by_majority(claims.len(), claims.iter().map(|claim| Prefix(*claim)))
        };
        assert_eq!(of(&[3, 9, 5]), Prefix(5));
        assert_eq!(of(&[9, 0, 0]), Prefix::ZERO);
        assert_eq!(of(&[1, 2, 3, 4]), Prefix(2), "three of four");
    }
}
