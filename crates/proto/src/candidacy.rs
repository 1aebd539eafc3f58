//! Whether, when and above which ballots a member tries to lead.
//!
//! - C1 A ballot is used in one life: that of a term is above every one that was seen. Asserted in
//!   [`Candidacy::stand`].

use base::{Ballot, Instant, Rank};
use core::time::Duration;

/// The pause of a deposed but trusted leader: longer the higher its rank and with each term that
/// decided nothing, so that two trusted members do not depose each other for ever.
const BACK_OFF: Duration = Duration::from_millis(2);
/// The largest number of doublings of the back-off.
const DOUBLINGS_MAX: u32 = 5;

/// The trust of Ω, and the ballots and attempts so far.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Candidacy {
    trusted: bool,
    /// The time at which a trusted but deposed node tries again.
    retry_at: Option<Instant>,
    /// The number of terms that ended without a decision since the last term with one.
    n_futile: u32,
    /// The highest known ballot.
    highest: Ballot,
}

impl Candidacy {
    pub(crate) const fn new(highest: Ballot) -> Candidacy {
        Candidacy { trusted: false, retry_at: None, n_futile: 0, highest }
    }

    /// Notes that Ω names this member.
    pub(crate) const fn trust(&mut self) {
        self.trusted = true;
    }

    /// Notes that Ω names another member.
    pub(crate) const fn distrust(&mut self) {
        (self.trusted, self.retry_at) = (false, None);
    }

    pub(crate) const fn highest(&self) -> Ballot {
        self.highest
    }

    /// Notes that a ballot exists.
    pub(crate) fn see(&mut self, ballot: Ballot) {
        self.highest = self.highest.max(ballot);
    }

    /// The ballot of the next term of `me`, above `floor`; C1 holds unless the promises of an
    /// earlier life are forgotten (a planted bug).
    pub(crate) fn stand(&mut self, me: Rank, floor: Ballot, forgets: bool) -> Ballot {
        let ballot = Ballot::above(floor, me);
        assert!(ballot > self.highest || forgets, "C1: a ballot is used in one life");
        self.highest = ballot;
        ballot
    }

    /// Notes that the term of `me` has ended for a higher ballot: it pauses.
    pub(crate) fn back_off(&mut self, me: Rank, now: Instant) {
        let doublings = self.n_futile.min(DOUBLINGS_MAX);
        self.n_futile += 1;
        let pause = BACK_OFF * (1 + me.index() as u32) * (1 << doublings);
        self.put_off(now.plus(pause));
    }

    /// Puts the next attempt off until then.
    pub(crate) const fn put_off(&mut self, until: Instant) {
        self.retry_at = Some(until);
    }

    /// Notes that a term has decided something.
    pub(crate) const fn succeed(&mut self) {
        self.n_futile = 0;
    }

    /// Whether to try to lead now.
    pub(crate) fn tries(&mut self, now: Instant) -> bool {
        let tries = self.trusted && self.retry_at.is_none_or(|at| at <= now);
        if tries {
            self.retry_at = None;
        }
        tries
    }

    /// The time of the next attempt, if one is put off.
    pub(crate) const fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: Rank = Rank::at(1);

    #[test]
    fn c1_a_ballot_is_above_every_one_that_was_seen() {
        let mut candidacy = Candidacy::new(Ballot::NONE);
        candidacy.see(Ballot::above(Ballot(100), Rank::at(2)));
        let (seen, before) = (candidacy.highest(), candidacy.highest());
        let ballot = candidacy.stand(ME, seen, false);
        assert!(ballot > before && ballot.proposer() == Some(ME));
        assert_eq!(candidacy.highest(), ballot);
    }

    #[test]
    #[should_panic(expected = "C1")]
    fn c1_a_ballot_of_an_earlier_life_is_not_used_again() {
        let mut candidacy = Candidacy::new(Ballot::above(Ballot(100), ME));
        candidacy.stand(ME, Ballot::NONE, false);
    }

    #[test]
    fn pauses_double_until_something_is_decided_and_end_with_trust() {
        let mut candidacy = Candidacy::new(Ballot::NONE);
        candidacy.trust();
        let mut pause = || {
            candidacy.back_off(ME, Instant::ZERO);
            candidacy.retry_at().expect("it pauses").since(Instant::ZERO)
        };
        let (first, second) = (pause(), pause());
        assert_eq!((first, second), (BACK_OFF * 2, BACK_OFF * 4));
        let longest = (0..10).map(|_| pause()).max();
        assert_eq!(longest, Some(first * (1 << DOUBLINGS_MAX)));
        candidacy.succeed();
        candidacy.back_off(ME, Instant::ZERO);
        assert!(!candidacy.tries(Instant::ZERO) && candidacy.tries(Instant::ZERO.plus(first)));
        candidacy.distrust();
        assert!(!candidacy.tries(Instant::ZERO.plus(first)));
    }
}
