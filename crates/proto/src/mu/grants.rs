//! The owner's side of the own log: which ballot it is promised, and was last granted, to (M1).

use super::*;

/// The promise of a log's owner.
#[derive(Debug)]
pub(super) struct Grants {
    /// The highest ballot that this member's log was granted to, or that it used.
    promised: Ballot,
    /// The last ballot that this life has granted the log to.
    granted: Ballot,
}

impl Grants {
    pub(super) const fn new(promised: Ballot) -> Grants {
        Grants { promised, granted: Ballot::NONE }
    }

    pub(super) const fn promised(&self) -> Ballot {
        self.promised
    }

    /// Whether the log may be promised to `ballot` of `from`: to one's own ballot alone, above the
    /// last promise or again; or (a planted bug) also to a `lower` one.
    pub(super) fn may_promise(&self, from: Rank, ballot: Ballot, lower: bool) -> bool {
        ballot.proposer() == Some(from) && (ballot >= self.promised || lower)
    }

    /// Promises the log.
    pub(super) fn promise(&mut self, ballot: Ballot, lower: bool) {
        assert!(ballot >= self.promised || lower, "M1: a promise never falls");
        self.promised = ballot;
    }

    /// Notes that the log is granted. True if it was not granted to this ballot last.
    pub(super) fn grant(&mut self, ballot: Ballot) -> bool {
        core::mem::replace(&mut self.granted, ballot) != ballot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m1_a_log_is_promised_to_rising_ballots_of_those_that_ask() {
        let (one, two) = (Rank::at(0), Rank::at(1));
        let low = Ballot::above(Ballot::NONE, one);
        let high = Ballot::above(low, two);
        let mut grants = Grants::new(low);
        assert!(grants.may_promise(one, low, false), "again");
        assert!(!grants.may_promise(one, high, false), "it is another member's ballot");
        assert!(grants.may_promise(two, high, false));
        grants.promise(high, false);
        assert!(!grants.may_promise(one, low, false));
        assert!(grants.grant(high) && !grants.grant(high));
    }
}
