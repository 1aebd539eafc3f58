//! Safe: a value is accepted only if no other one can have been decided under a lower ballot.
//!
//! - *One value*: what is accepted for one slot under one ballot is one value.
//! - *Safe*: when it is accepted first, a majority has promised its ballot, and of what that
//!   majority had accepted before, and perhaps others that have promised, this is the value of the
//!   highest ballot, if there is one.
//!
//! Why it matters: a proposer that overlooks a value is right as long as that one was not decided.
//! Why no false alarm: this is the rule of Paxos for a proposal, and any majority will do. A
//! promise freezes what was accepted below its ballot, so what is found later is what was found
//! then.
//! Members without a vote may be asked too, and a value of theirs be adopted: one of a higher
//! ballot than the majority's was proposed under that ballot, so it is what was decided below it,
//! and above it nothing was.
//!
//! - I1 Everything that a memory accepts is noted when it is there, so nothing is lost when it is
//!   overwritten.

use base::{Ballot, Incarnation, Rank, Slot, majority};
use std::collections::BTreeMap;

/// The memory of one member.
type Memory = (Rank, Incarnation);

/// What was accepted for one slot.
#[derive(Default)]
struct Record(Vec<(Memory, Ballot, u64)>);

/// Everything that was accepted.
#[derive(Default)]
pub(crate) struct Accepted {
    slots: BTreeMap<Slot, Record>,
    /// What was accepted for slots below is forgotten.
    floor: Slot,
}

/// The number of slots, about, of which everything is remembered.
const N_SLOTS: u64 = 512;

impl Accepted {
    /// Notes that `memory` has accepted `value` for `slot` under `ballot`. True if it is to be
    /// judged: the first time, unless the slot is long gone.
    pub(crate) fn note(
        &mut self,
        memory: Memory,
        (slot, ballot): (Slot, Ballot),
        value: u64,
    ) -> Result<bool, String> {
        if slot < self.floor {
            return Ok(false);
        }
        let Record(held) = self.slots.entry(slot).or_default();
        let before = held.iter().find(|(_, of, _)| *of == ballot).map(|(.., value)| *value);
        if !held.contains(&(memory, ballot, value)) {
            held.push((memory, ballot, value));
        }
        match before {
            None => Ok(true),
            Some(first) if first == value => Ok(false),
            Some(first) => Err(format!("{first:#x} and {value:#x} are accepted under one ballot")),
        }
    }

    /// What `memory` had accepted last for `slot` under a ballot below this one.
    pub(crate) fn before(
        &self,
        memory: Memory,
        (slot, ballot): (Slot, Ballot),
    ) -> Option<(Ballot, u64)> {
        let Record(held) = self.slots.get(&slot)?;
        let earlier = held.iter().filter(|(of, at, _)| *of == memory && *at < ballot);
        earlier.map(|(_, at, value)| (*at, *value)).max_by_key(|(at, _)| *at)
    }

    /// Forgets what is far below the slots that are `decided`.
    pub(crate) fn forget(&mut self, decided: u64) {
        if decided > self.floor.0 + 2 * N_SLOTS {
            self.floor = Slot(decided - N_SLOTS);
            self.slots = self.slots.split_off(&self.floor);
        }
    }
}

/// An acceptor when a value is accepted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Voter {
    /// It has not promised the ballot.
    Unpromised,
    /// It has, and had accepted this under a lower ballot, or nothing.
    Promised(Option<(Ballot, u64)>),
}

/// Checks that `value` is safe, whatever else the `voters` may decide; the `others` are acceptors
/// without a vote.
pub(crate) fn check(value: u64, voters: &[Voter], others: &[Voter]) -> Result<(), String> {
    let is_majority_upto = |limit: Ballot| {
        let is_upto = |voter: &&Voter| match voter {
            Voter::Promised(held) => held.is_none_or(|(ballot, _)| ballot <= limit),
            Voter::Unpromised => false,
        };
        voters.iter().filter(is_upto).count() >= majority(voters.len())
    };
    let makes_safe = |voter: &Voter| match voter {
        Voter::Promised(Some((ballot, held))) => *held == value && is_majority_upto(*ballot),
        Voter::Promised(None) | Voter::Unpromised => false,
    };
    if is_majority_upto(Ballot::NONE) || voters.iter().chain(others).any(makes_safe) {
        return Ok(());
    }
    Err(format!("{value:#x} is accepted, and is not safe: {voters:x?}, without a vote {others:x?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNPROMISED: Voter = Voter::Unpromised;
    const EMPTY: Voter = Voter::Promised(None);

    const fn held(ballot: u64, value: u64) -> Voter {
        Voter::Promised(Some((Ballot(ballot), value)))
    }

    #[test]
    fn i1_one_ballot_has_one_value_and_what_was_accepted_is_remembered() {
        let mut accepted = Accepted::default();
        let (one, two) = ((Rank::at(0), Incarnation(1)), (Rank::at(1), Incarnation(1)));
        let of = |ballot| (Slot(3), Ballot(ballot));
        assert_eq!(accepted.note(one, of(9), 7), Ok(true));
        assert_eq!(accepted.note(two, of(9), 7), Ok(false));
        assert_eq!(accepted.note(one, of(12), 8), Ok(true));
        assert_eq!(accepted.before(one, of(12)), Some((Ballot(9), 7)));
        assert_eq!(accepted.before(one, of(9)), None);
        assert!(accepted.note(two, of(12), 7).is_err());
        accepted.forget(3 * N_SLOTS);
        assert_eq!(accepted.note(one, of(12), 7), Ok(false), "long gone");
        assert_eq!(accepted.before(one, of(12)), None);
    }

    #[test]
    fn a_proposal_needs_a_majority_of_promises() {
        assert!(check(7, &[EMPTY, EMPTY, UNPROMISED], &[]).is_ok());
        assert!(check(7, &[EMPTY, UNPROMISED, UNPROMISED], &[]).is_err());
    }

    #[test]
    fn the_value_of_the_highest_ballot_in_some_majority_is_safe() {
        assert!(check(7, &[EMPTY, EMPTY, held(5, 8)], &[]).is_ok(), "the third was not asked");
        assert!(check(7, &[EMPTY, held(5, 7), UNPROMISED], &[]).is_ok());
        assert!(check(7, &[EMPTY, held(5, 8), UNPROMISED], &[]).is_err());
        assert!(
            check(7, &[held(4, 7), held(5, 8), EMPTY], &[]).is_ok(),
            "the second was not asked"
        );
        assert!(check(8, &[held(4, 7), held(5, 8), UNPROMISED], &[]).is_ok());
        assert!(check(7, &[held(4, 7), held(5, 8), UNPROMISED], &[]).is_err());
    }

    #[test]
    fn a_value_of_one_without_a_vote_is_safe_if_no_voter_has_a_later_one() {
        let voters = [EMPTY, held(5, 8), UNPROMISED];
        assert!(check(7, &voters, &[held(6, 7)]).is_ok());
        assert!(check(8, &voters, &[held(6, 7)]).is_ok(), "it was not asked");
        assert!(check(7, &voters, &[held(4, 7)]).is_err());
        assert!(check(7, &voters, &[UNPROMISED, EMPTY]).is_err());
    }
}
