//! Reads: at the moment of its answer, a read sees everything that was decided when it was taken,
//! and no later leader can have decided anything by then.
//!
//! - *Whole*: the answer is of a prefix that holds every slot that any node had delivered when the
//!   read was taken. `real_time` compares answers with what clients had heard, which is less.
//! - *Unopposed*: where a leader alone answers, by what its acceptors say, a majority of them had
//!   promised nothing later when the read was taken.
//! - *Covered*: an answer without a question is covered by the grants of a majority, now.
//! - *Open*: where a leader alone answers, a read is open only at the leader that took it. One that
//!   falls refuses its reads: a client waits for nothing, and no answer of an earlier term counts.
//!
//! Why no false alarm: what is delivered was decided, and a check that begins later sees it; a
//! promise never falls, so what a question finds later was true before. A process that is dead
//! covers: the next one on its memory keeps what it may have granted.

use base::{Ballot, MemberSet, Prefix, majority};
use proto::members::Members;
use proto::{Role, Status};

/// A read that was taken, and what the world knew then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) ticket: proto::Ticket,
    pub(crate) at: u64,
    /// The number of verbs that were posted before.
    pub(crate) number: u64,
    /// The ballot of the node.
    pub(crate) ballot: Ballot,
    /// The prefix that was delivered somewhere.
    pub(crate) decided: Prefix,
    /// The members, as the node knew them.
    pub(crate) members: Members,
    /// The prefix that the node had applied.
    pub(crate) applied: Prefix,
    /// The members that had promised nothing later than the node's ballot, where that matters.
    pub(crate) unopposed: Option<MemberSet>,
}

/// Checks that an answer from `applied` holds everything decided.
pub(crate) fn check_whole(taken: &Taken, applied: Prefix) -> Result<(), String> {
    if applied >= taken.decided {
        return Ok(());
    }
    let decided = taken.decided;
    Err(format!("a read is answered from {applied}, and {decided} was decided before it came"))
}

/// Checks that a majority had promised nothing later.
pub(crate) fn check_unopposed(taken: &Taken) -> Result<(), String> {
    match taken.unopposed {
        Some(members) if members.len() < majority(taken.members.voters.len()) => Err(format!(
            "a read is answered, and when it came {members:?} alone had promised nothing later"
        )),
        Some(_) | None => Ok(()),
    }
}

/// Checks that `covering` of the `voters` is a majority.
pub(crate) fn check_covered(covering: MemberSet, voters: MemberSet) -> Result<(), String> {
    if covering.intersection(voters).len() >= majority(voters.len()) {
        return Ok(());
    }
    Err(format!("a read is answered by a lease, and the grants of {covering:?} alone cover it"))
}

/// Checks that a read that is still open is so at the leader that took it.
pub(crate) fn check_open(taken: &Taken, status: &Status) -> Result<(), String> {
    if status.role == Role::Leader && status.ballot == taken.ballot {
        return Ok(());
    }
    let (&Taken { ticket, ballot, .. }, Status { role, ballot: now, .. }) = (taken, status);
    Err(format!("read {} of {ballot} is open, of a {role:?} in {now}", ticket.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rank;

    fn taken(unopposed: Option<MemberSet>) -> Taken {
        let members = Members::first(MemberSet::all(3));
        let ticket = proto::Ticket(1);
        let (ballot, applied) = (Ballot(7), Prefix(4));
        Taken { ticket, at: 5, number: 0, ballot, decided: Prefix(4), members, applied, unopposed }
    }

    #[test]
    fn an_answer_without_what_was_decided_is_a_violation() {
        assert!(check_whole(&taken(None), Prefix(4)).is_ok());
        assert!(check_whole(&taken(None), Prefix(3)).is_err());
    }

    #[test]
    fn a_majority_that_has_promised_later_is_a_violation() {
        let one: MemberSet = std::iter::once(Rank::at(0)).collect();
        let two: MemberSet = Rank::all(2).collect();
        assert!(check_unopposed(&taken(None)).is_ok());
        assert!(check_unopposed(&taken(Some(two))).is_ok());
        assert!(check_unopposed(&taken(Some(one))).is_err());
    }

    #[test]
    fn a_lease_of_a_minority_is_a_violation() {
        let two: MemberSet = Rank::all(2).collect();
        assert!(check_covered(two, MemberSet::all(3)).is_ok());
        assert!(check_covered(two, MemberSet::all(5)).is_err());
    }

    #[test]
    fn a_read_that_outlives_its_leaders_term_is_a_violation() {
        let judged = |role, ballot| {
            let status = Status { role, ballot, committed: Prefix(4), applied: Prefix(4) };
            check_open(&taken(None), &status).is_ok()
        };
        assert!(judged(Role::Leader, Ballot(7)));
        assert!(!judged(Role::Leader, Ballot(8)), "of its next term");
        assert!(!judged(Role::Candidate, Ballot(7)));
        assert!(!judged(Role::Follower, Ballot(7)));
    }
}
