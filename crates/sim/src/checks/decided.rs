//! Decided: when a slot's value is delivered first, a majority of the slot's voters hold it
//! accepted.
//!
//! Why it matters: a leader that counts an acceptor which has not accepted, or a follower that
//! takes an undecided value for decided, is right most of the time: two values for one slot come
//! only if a later leader finds another value. Why no false alarm: what a majority has accepted
//! under one ballot is accepted, with the same value, under every later one, and no place is used
//! again before its slot was delivered at a majority. A memory that was replaced since counts as
//! it was.

use base::{MemberSet, Rank, Slot, majority};

/// The memory of one voter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// It holds the value with this hash accepted for the slot, or none.
    Holds(Option<u64>),
    /// It was replaced.
    Gone,
}

/// Checks that a majority of the voters hold the `value` of `slot`.
pub(crate) fn check(
    slot: Slot,
    value: u64,
    voters: MemberSet,
    memory: impl Fn(Rank) -> Memory,
) -> Result<(), String> {
    let may_hold = |rank: &Rank| match memory(*rank) {
        Memory::Holds(held) => held == Some(value),
        Memory::Gone => true,
    };
    let n_needed = majority(voters.len());
    // (The first majority is enough: to look costs.)
    if voters.iter().filter(may_hold).take(n_needed).count() == n_needed {
        return Ok(());
    }
    let holders: MemberSet = voters.iter().filter(may_hold).collect();
    Err(format!("slot {slot} is delivered as {value:#x}, which {holders:?} of {voters:?} hold"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_a_minority_holds_is_not_decided() {
        let judge = |memories: [Memory; 3]| {
            check(Slot(4), 7, MemberSet::all(3), |rank| memories[rank.index()])
        };
        let (this, other, none) =
            (Memory::Holds(Some(7)), Memory::Holds(Some(8)), Memory::Holds(None));
        assert_eq!(judge([this, this, none]), Ok(()));
        assert_eq!(judge([other, this, this]), Ok(()));
        assert_eq!(judge([this, Memory::Gone, other]), Ok(()));
        assert!(judge([this, none, none]).is_err());
        assert!(judge([this, other, other]).is_err());
    }
}
