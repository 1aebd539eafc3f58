//! Ends: what members say of the end of a state is the same for all states of one prefix: the
//! members that govern there, where that was decided, and what is to govern later. On disks that
//! holds for the ballot of the last entry, too.
//!
//! Why it matters: a machine that continues from a state believes it. Another state's members
//! become two majorities, and another state's ballot makes a log of it that is not there. Why no
//! false alarm: only what is decided is in a state, and a disk keeps each decided entry with the
//! ballot under which it was proposed first. (In memory a value is decided under any ballot that
//! carries it, so no ballot is compared.)

use base::{Ballot, Prefix};
use proto::members::StateHead;
use std::collections::BTreeMap;

/// What was said first of each prefix.
#[derive(Default)]
pub(crate) struct Ends(BTreeMap<Prefix, StateHead>);

impl Ends {
    /// A member says this of the state of everything below `prefix`.
    pub(crate) fn said(
        &mut self,
        prefix: Prefix,
        head: StateHead,
        is_on_disk: bool,
    ) -> Result<(), String> {
        let ballot = if is_on_disk { head.ballot } else { Ballot::NONE };
        let head = StateHead { ballot, ..head };
        let first = *self.0.entry(prefix).or_insert(head);
        if first == head {
            return Ok(());
        }
        Err(format!(
            "the state of prefix {prefix} is said to end with {head:?}, and with {first:?}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::MemberSet;
    use proto::members::Members;

    #[test]
    fn two_ends_of_one_state_are_a_violation() {
        let head = |ballot, at| {
            let members = Members::first(MemberSet::all(3));
            StateHead { ballot: Ballot(ballot), members_at: Prefix(at), members, coming: None }
        };
        let mut ends = Ends::default();
        assert!(ends.said(Prefix(4), head(9, 2), true).is_ok());
        assert!(ends.said(Prefix(4), head(9, 2), true).is_ok());
        assert!(ends.said(Prefix(5), head(10, 5), true).is_ok());
        assert!(ends.said(Prefix(4), head(9, 3), true).is_err());
        assert!(ends.said(Prefix(4), head(8, 2), true).is_err());
        let mut ends = Ends::default();
        assert!(ends.said(Prefix(4), head(9, 2), false).is_ok());
        assert!(ends.said(Prefix(4), head(8, 2), false).is_ok());
        assert!(ends.said(Prefix(4), head(8, 1), false).is_err());
    }
}
