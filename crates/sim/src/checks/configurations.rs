//! Membership: all members decide the same configurations, and of two that follow each other any
//! two majorities meet, because they differ by one voter at most.
//!
//! A voter is a disk, not a seat: another incarnation on the same seat is another voter.
//!
//! Why no false alarm: a node reports a configuration as decided only by its own log, and a leader
//! is examined before each change that it begins. A new leader may decide the change of the one
//! before and begin another in one turn: then the one in between was reported as begun alone, and
//! counts if it leads from one neighbour to the other.

use base::{Incarnation, Prefix, Rank, Slot};
use proto::members::Members;

/// The configurations that were decided, with their starts; and those that were begun.
#[derive(Default)]
pub(crate) struct Configurations {
    /// The decided ones in order. There are few, and a report is usually of the newest.
    decided: Vec<(Prefix, Members)>,
    begun: Vec<(Prefix, Members)>,
    /// The begun ones, by the start of the configuration that each was made from.
    made: Vec<(Prefix, Members)>,
}

impl Configurations {
    /// Notes a node's report that `members` govern from `at` on, and that this is decided.
    pub(crate) fn decided(&mut self, at: Prefix, members: &Members) -> Result<(), String> {
        let place = self.decided.iter().rposition(|(known, _)| *known <= at);
        if let Some((known, same)) = place.map(|place| &self.decided[place])
            && *known == at
        {
            return if same == members {
                Ok(())
            } else {
                Err(format!("from {at} on: {same:?}, {members:?}"))
            };
        }
        let next = place.map_or(0, |place| place + 1);
        let before = place.map(|place| &self.decided[place]);
        for (other, neighbour) in before.into_iter().chain(self.decided.get(next)) {
            let n_changed = n_changed(neighbour, members);
            if n_changed > 1 && !self.is_bridged((*other, neighbour), (at, members)) {
                return Err(format!(
                    "{n_changed} voters differ between {neighbour:?} from {other} on and {members:?} \
                     from {at} on"
                ));
            }
        }
        self.decided.insert(next, (at, *members));
        Ok(())
    }

    /// Whether one that was begun between the two leads from one to the other.
    fn is_bridged(&self, one: (Prefix, &Members), two: (Prefix, &Members)) -> bool {
        let (first, last) = if one.0 < two.0 { (one, two) } else { (two, one) };
        let mut between = self.begun.iter().filter(|(at, _)| first.0 < *at && *at < last.0);
        between.any(|(_, middle)| n_changed(first.1, middle) <= 1 && n_changed(middle, last.1) <= 1)
    }

    /// Notes that a leader has begun to change to `members`.
    pub(crate) fn began(&mut self, at: Prefix, members: Members) {
        self.begun.push((at, members));
    }

    /// Notes that a leader has begun to change the configuration of `base` to `members`.
    pub(crate) fn made(&mut self, base: Prefix, members: Members) {
        self.made.push((base, members));
    }

    /// The newest decided configuration, and those that may follow it, if only ones made from it
    /// can follow.
    pub(crate) fn successors(&self) -> Vec<Members> {
        let Some((newest, members)) = self.newest() else { return Vec::new() };
        let open =
            self.made.iter().filter(|(base, _)| *base == newest).map(|(_, members)| *members);
        std::iter::once(members).chain(open).collect()
    }

    /// The newest configuration that is known to be decided for `slot`, and those that were begun
    /// for it since: one of them governs it.
    pub(crate) fn upto(&self, slot: Slot) -> Vec<Members> {
        let is_upto = |(at, _): &&(Prefix, Members)| at.0 <= slot.0;
        let newest = self.decided.iter().rfind(is_upto);
        let from = newest.map_or(Prefix::ZERO, |(at, _)| *at);
        let begun = self.begun.iter().filter(|one| is_upto(one) && one.0 > from);
        newest.into_iter().chain(begun).map(|(_, members)| *members).collect()
    }

    /// As [`Configurations::upto`], and the one before.
    pub(crate) fn around(&self, slot: Slot) -> Vec<Members> {
        let newest = self.decided.iter().rposition(|(at, _)| at.0 <= slot.0);
        let before = newest.and_then(|newest| self.decided.get(newest.checked_sub(1)?));
        before.map(|(_, members)| *members).into_iter().chain(self.upto(slot)).collect()
    }

    /// The newest decided configuration.
    pub(crate) fn newest(&self) -> Option<(Prefix, Members)> {
        self.decided.last().copied()
    }

    /// Whether the disk of `rank` may be lost: whatever is decided next, two voters are left
    /// without it, and all of those are sound.
    pub(crate) fn can_spare(&self, rank: Rank, is_sound: impl Fn(&Members, Rank) -> bool) -> bool {
        let possible = self.possible();
        let can_go_on = |members: &Members| {
            let mut left = members.voters;
            left.remove(rank);
            left.len() >= 2 && left.iter().all(|of| is_sound(members, of))
        };
        !possible.is_empty() && possible.iter().all(can_go_on)
    }

    /// The newest decided configuration, and all that may still be decided.
    pub(crate) fn possible(&self) -> Vec<Members> {
        let Some((newest, members)) = self.newest() else { return Vec::new() };
        let open = self.begun.iter().filter(|(at, _)| *at > newest).map(|(_, members)| *members);
        std::iter::once(members).chain(open).collect()
    }
}

/// Whether this disk is a voter.
pub(crate) fn votes(members: &Members, rank: Rank, incarnation: Incarnation) -> bool {
    members.voters.contains(rank) && members.incarnation(rank) == incarnation
}

fn n_changed(one: &Members, two: &Members) -> usize {
    let gone = |from: &Members, to: &Members| {
        from.voters.iter().filter(|rank| !votes(to, *rank, from.incarnation(*rank))).count()
    };
    gone(one, two) + gone(two, one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::MemberSet;

    fn of(voters: &[usize]) -> Members {
        let voters: MemberSet = voters.iter().map(|rank| Rank::at(*rank)).collect();
        Members { voters, incarnations: [1; base::MAX_MEMBERS], ..Members::default() }
    }

    #[test]
    fn two_configurations_for_one_place_are_a_violation() {
        let mut configurations = Configurations::default();
        assert!(configurations.decided(Prefix(4), &of(&[0, 1, 2])).is_ok());
        assert!(configurations.decided(Prefix(4), &of(&[0, 1, 2])).is_ok());
        assert!(configurations.decided(Prefix(4), &of(&[0, 1])).is_err());
    }

    #[test]
    fn two_voters_at_once_are_a_violation_and_another_disk_is_another_voter() {
        let mut configurations = Configurations::default();
        assert!(configurations.decided(Prefix(0), &of(&[0, 1, 2])).is_ok());
        assert!(configurations.decided(Prefix(9), &of(&[0, 1])).is_ok());
        assert!(configurations.decided(Prefix(12), &of(&[0, 1, 3, 4])).is_err());
        let mut swapped = of(&[0, 1]);
        swapped.incarnations[1] = 2;
        assert!(configurations.decided(Prefix(12), &swapped).is_err());
        assert!(configurations.decided(Prefix(12), &of(&[0])).is_ok());
        assert!(configurations.decided(Prefix(5), &of(&[0, 1, 2, 3])).is_err(), "late news too");
    }

    #[test]
    fn one_that_was_begun_in_between_counts_where_it_leads_from_one_to_the_other() {
        let mut configurations = Configurations::default();
        let mut renewed = of(&[0, 1, 2]);
        renewed.incarnations[2] = 2;
        assert!(configurations.decided(Prefix(0), &of(&[0, 1, 2])).is_ok());
        assert!(configurations.decided(Prefix(9), &renewed).is_err());
        configurations.began(Prefix(7), of(&[0]));
        assert!(configurations.decided(Prefix(9), &renewed).is_err(), "it leads to neither");
        configurations.began(Prefix(12), of(&[0, 1]));
        assert!(configurations.decided(Prefix(9), &renewed).is_err(), "it is later");
        configurations.began(Prefix(8), of(&[0, 1]));
        assert!(configurations.decided(Prefix(9), &renewed).is_ok());
    }

    #[test]
    fn a_slot_is_governed_by_the_newest_before_it_or_by_one_that_was_begun_since() {
        let mut configurations = Configurations::default();
        assert!(configurations.upto(Slot(3)).is_empty());
        assert!(configurations.decided(Prefix(0), &of(&[0, 1, 2])).is_ok());
        assert!(configurations.decided(Prefix(9), &of(&[0, 1])).is_ok());
        configurations.began(Prefix(4), of(&[0, 1]));
        assert_eq!(configurations.upto(Slot(3)), [of(&[0, 1, 2])]);
        assert_eq!(configurations.upto(Slot(4)), [of(&[0, 1, 2]), of(&[0, 1])]);
        assert_eq!(configurations.upto(Slot(9)), [of(&[0, 1])]);
    }

    #[test]
    fn what_was_begun_is_possible_until_something_later_is_decided() {
        let mut configurations = Configurations::default();
        assert!(configurations.decided(Prefix(0), &of(&[0, 1, 2])).is_ok());
        configurations.began(Prefix(9), of(&[0, 1]));
        assert_eq!(configurations.possible().len(), 2);
        assert!(configurations.decided(Prefix(9), &of(&[0, 1])).is_ok());
        assert_eq!(configurations.possible(), [of(&[0, 1])]);
    }
}
