//! The configurations that may have decided more than the remaining disks hold.
//!
//! - I1 **Every configuration that may have been in force is considered.** A change that is in a
//!   log and not known to be decided may have been undone, and the members before it may have
//!   continued.
//! - I2 **No configuration is considered that cannot have been in force.** A member that holds a
//!   change votes for no candidate without it. So if so many of the members before the change hold
//!   it that the others are not a majority, that configuration is excluded.

use base::{MemberSet, Prefix, Rank, majority};
use proto::members::{Configuration, Members};

/// The configurations that may be the last decided one.
pub(super) struct Claims {
    newest: Members,
    before: Option<Members>,
}

impl Claims {
    /// The configurations by the newest log that is left: `before` is the configuration before the
    /// newest, and surely decided, as is everything below `decided`.
    pub(super) fn new(newest: &Configuration, before: Option<Members>, decided: Prefix) -> Claims {
        let is_open = !newest.is_decided && newest.at > decided;
        let before = before.filter(|_| is_open);
        Claims { newest: newest.members, before }
    }

    /// The members of the newest configuration.
    pub(super) const fn newest(&self) -> &Members {
        &self.newest
    }

    /// Whether only the previous configuration names `rank` as a voter.
    pub(super) fn is_leaving(&self, rank: Rank) -> bool {
        let voted = self.before.is_some_and(|of| of.voters.contains(rank));
        voted && !self.newest.all().contains(rank)
    }

    fn possible(&self) -> impl Iterator<Item = &Members> {
        [&self.newest].into_iter().chain(&self.before)
    }

    /// Whether a majority is left, so that the cluster surely continues by itself. `is_left` tells
    /// whether the voting disk of a rank is there, `has_newest` whether its log has the newest
    /// change.
    pub(super) fn majority_is_left(
        &self,
        is_left: impl Fn(&Members, Rank) -> bool,
        has_newest: impl Fn(Rank) -> bool,
    ) -> bool {
        let goes_on = self.newest.has_quorum(left(&self.newest, &is_left));
        goes_on
            && self.before.is_none_or(|of| {
                let left = left(&of, &is_left);
                let holders = left.iter().filter(|rank| has_newest(*rank)).collect();
                of.has_quorum(left) || !of.has_quorum(of.voters.difference(holders))
            })
    }

    /// The voters whose disks are gone; and whether these may have decided without the others.
    pub(super) fn gone(&self, is_left: impl Fn(&Members, Rank) -> bool) -> (MemberSet, Gone) {
        let gone = |of: &Members| of.voters.difference(left(of, &is_left));
        let all = self.possible().map(gone).fold(MemberSet::EMPTY, MemberSet::union);
        let could = |of: &Members| gone(of).len() >= majority(of.voters.len());
        let how = if self.possible().all(could) {
            Gone::WasMajority
        } else if self.possible().any(could) {
            Gone::MayHaveBeen
        } else {
            Gone::WasNone
        };
        (all, how)
    }
}

/// The roles of the disks that are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    WasMajority,
    MayHaveBeen,
    WasNone,
}

fn left(of: &Members, is_left: impl Fn(&Members, Rank) -> bool) -> MemberSet {
    of.voters.iter().filter(|rank| is_left(of, *rank)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(voters: &[usize]) -> Members {
        let voters = voters.iter().map(|id| Rank::at(id - 1)).collect();
        Members { voters, ..Members::default() }
    }

    /// Three voters, and the removal of member 2 as the third entry.
    fn removal(decided: u64) -> Claims {
        let newest = Configuration {
            at: Prefix(3),
            members: members(&[1, 3]),
            is_decided: false,
            leaving: MemberSet::EMPTY,
        };
        Claims::new(&newest, Some(members(&[1, 2, 3])), Prefix(decided))
    }

    fn only(ids: &'static [usize]) -> impl Fn(&Members, Rank) -> bool {
        move |_: &Members, rank: Rank| ids.contains(&(rank.index() + 1))
    }

    // I1: members 2 and 3 never received it, and continued.
    #[test]
    fn who_leaves_by_a_change_that_may_be_undone_may_have_decided_without_it() {
        let (gone, how) = removal(2).gone(only(&[1]));
        assert_eq!((gone, how), (members(&[2, 3]).voters, Gone::MayHaveBeen));
        let (gone, how) = removal(3).gone(only(&[1]));
        assert_eq!((gone, how), (members(&[3]).voters, Gone::WasNone), "it is decided");
        assert_eq!(removal(2).gone(only(&[])).1, Gone::WasMajority);
        assert!(removal(2).is_leaving(Rank::at(1)) && !removal(3).is_leaving(Rank::at(1)));
    }

    // I1: member 1 votes for no older log than its own, and member 3 is needed for that one.
    #[test]
    fn a_majority_is_left_if_it_is_one_by_both() {
        let is_left = |left| removal(2).majority_is_left(only(left), |rank| rank.index() == 0);
        assert!(!is_left(&[1, 2]));
        assert!(is_left(&[1, 3]));
        assert!(!is_left(&[1]));
    }

    // I2: a change that was decided long ago, and is not known to be, does not compensate a loss.
    #[test]
    fn a_majority_is_left_if_those_who_had_to_agree_hold_the_change() {
        let newest = Configuration {
            at: Prefix(3),
            members: members(&[1, 2, 3]),
            is_decided: false,
            leaving: MemberSet::EMPTY,
        };
        let added = Claims::new(&newest, Some(members(&[1, 3])), Prefix(2));
        let left = only(&[1, 2]);
        assert!(added.majority_is_left(&left, |rank| rank.index() < 2));
        // Without it, member 1 may have let member 3 continue.
        assert!(!added.majority_is_left(&left, |rank| rank.index() == 1));
    }
}
