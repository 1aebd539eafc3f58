//! Elected: when an entry of a ballot is in a log for the first time, a majority's disks have
//! promised that ballot, its members no longer vouch for an earlier leader, and the elected log has
//! everything that is committed.
//!
//! Why it matters: a vote that was counted twice, too early or for another ballot elects a leader
//! like any other, and it takes a second leader or a power cut to show it. Why no false alarm: a
//! vote leaves when its promise is durable, a promise never falls, and before this ballot's first
//! entry only lower ballots have committed: the first entry of a ballot that is not above all
//! before is not judged. Two logs with an entry of one ballot at one place are equal up to there.
//!
//! - I1 Each ballot is judged once, by its leader's own log.

use base::{Ballot, MemberSet, Prefix, Rank, Slot, majority};

/// The ballots that were judged.
#[derive(Default)]
pub(crate) struct Elected {
    highest: Ballot,
    /// The end of what is committed, and the ballot of the last entry before it.
    pub(crate) committed: (Prefix, Option<Ballot>),
}

impl Elected {
    /// Whether the leader of `ballot` has to be judged now.
    #[inline]
    pub(crate) fn is_news(&mut self, ballot: Ballot) -> bool {
        let is_news = ballot > self.highest;
        self.highest = self.highest.max(ballot);
        is_news
    }
}

/// Checks that a majority of the `voters` follows `ballot`.
pub(crate) fn check_followed(
    ballot: Ballot,
    voters: MemberSet,
    follows: impl Fn(Rank) -> bool,
) -> Result<(), String> {
    let electors: MemberSet = voters.iter().filter(|rank| follows(*rank)).collect();
    if electors.len() >= majority(voters.len()) {
        return Ok(());
    }
    Err(format!("{ballot} leads, which {electors:?} of {voters:?} have promised on their disks"))
}

impl Elected {
    /// Checks that a log up to `end`, whose entries have these ballots, has everything committed.
    pub(crate) fn check_complete(
        &self,
        ballot: Ballot,
        end: Prefix,
        ballot_at: impl Fn(Slot) -> Option<Ballot>,
    ) -> Result<(), String> {
        let (committed, of) = self.committed;
        let last = committed.0.checked_sub(1).and_then(|slot| ballot_at(Slot(slot)));
        // (A log that begins later has its state.)
        let is_other = last.is_some_and(|last| of.is_some_and(|of| of != last));
        if end < committed || is_other {
            return Err(format!(
                "{ballot} leads with a log up to {end}; {committed} is committed, under {of:?}, \
                 which it has under {last:?}"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i1_a_ballot_is_judged_once_and_none_below_it() {
        let mut elected = Elected::default();
        assert!(elected.is_news(Ballot(9)) && !elected.is_news(Ballot(9)));
        assert!(!elected.is_news(Ballot(8)) && elected.is_news(Ballot(10)));
    }

    #[test]
    fn promises_of_a_minority_elect_nobody() {
        let judge =
            |n: usize| check_followed(Ballot(9), MemberSet::all(3), |rank: Rank| rank.index() < n);
        assert!(judge(2).is_ok());
        assert!(judge(1).is_err());
    }

    #[test]
    fn a_leader_without_what_is_committed_is_a_violation() {
        let committed = (Prefix(4), Some(Ballot(5)));
        let elected = Elected { committed, ..Elected::default() };
        let judge = |end, last: Option<u64>| {
            elected.check_complete(Ballot(9), Prefix(end), |_| last.map(Ballot))
        };
        assert!(judge(4, Some(5)).is_ok());
        assert!(judge(3, Some(5)).is_err());
        assert!(judge(7, Some(4)).is_err(), "as long, and another one");
        assert!(judge(7, None).is_ok(), "it is in the state");
    }
}
