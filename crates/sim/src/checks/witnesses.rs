//! Witnesses: a read is answered only when a majority's memory has answered verbs that were posted
//! after the read was taken.
//!
//! Why it matters: an older answer, or one that vouches for nothing, is as good as a fresh one as
//! long as no other leader decides in between. Why no false alarm: it is the protocols' own rule
//! (`proto::claims::Witness`), and answers are counted as they come to the machine.
//!
//! A witness that vouches with a disk counts for a configuration that seats this disk: another disk
//! on the seat knows nothing of its promise.
//!
//! - I1 Verbs are numbered in the order in which they are posted. A read's number is that of the
//!   last verb before it was taken.

use crate::memory::Region;
use base::{Ballot, MemberSet, Rank};
use proto::claims::{By, Reads, Vouched, Witness};
use proto::members::Members;

/// A verb that was answered.
#[derive(Clone, Copy)]
struct Vouching {
    /// Its number, from 1.
    number: u64,
    with: Vouched,
}

/// The newest answers of each member's memory to each member.
pub(crate) struct Witnesses {
    reads: Reads,
    members: usize,
    /// The ballot under which each node leads.
    ballots: Vec<Ballot>,
    /// The newest verbs of each link that were answered and vouch: one for each that vouches. (A
    /// node may take the answers of two disks on one seat in one turn.)
    newest: Vec<Vec<Vouching>>,
}

impl Witnesses {
    /// For `members` nodes that may answer reads for this reason.
    pub(crate) fn new(reads: Reads, members: usize) -> Witnesses {
        let newest = vec![Vec::new(); members * members];
        Witnesses { reads, members, ballots: vec![Ballot::NONE; members], newest }
    }

    fn witness(&self) -> Option<&Witness> {
        match &self.reads {
            Reads::Witnessed(witness) => Some(witness),
            Reads::Unseen | Reads::Unopposed => None,
        }
    }

    /// Whether promises say in place of witnesses whether a read may be answered.
    pub(crate) fn are_promises(&self) -> bool {
        matches!(self.reads, Reads::Unopposed)
    }

    /// Whether a verb that begins at this word, and READs or WRITEs, finds a witness.
    #[inline]
    pub(crate) fn is_one(&self, at: u32, is_read: bool) -> bool {
        self.witness().is_some_and(|of| of.places.contains(&at) && is_read == (of.by != By::Write))
    }

    /// Whether this region vouches now for a leader of this ballot.
    pub(crate) fn vouches(&self, region: &Region, ballot: Ballot) -> bool {
        self.witness().is_some_and(|witness| {
            let words = region.words(witness.places.start as usize, witness.places.len());
            (witness.vouches)(words, ballot).is_some()
        })
    }

    /// Notes the ballot of `node`.
    #[inline]
    pub(crate) fn leads(&mut self, node: usize, ballot: Ballot) {
        self.ballots[node] = ballot;
    }

    /// Notes that the memory of `to` has answered a verb of `from`.
    pub(crate) fn answered(&mut self, from: usize, to: usize, number: u64, words: &[u64]) {
        let Some(witness) = self.witness() else { return };
        let Some(with) = (witness.vouches)(words, self.ballots[from]) else { return };
        let newest = &mut self.newest[from * self.members + to];
        match newest.iter_mut().find(|of| of.with == with) {
            Some(of) => of.number = of.number.max(number),
            None => newest.push(Vouching { number, with }),
        }
    }

    /// Checks that `node` may answer a read that was taken after the verb `number`, if one of these
    /// configurations governs.
    pub(crate) fn check(
        &self,
        node: usize,
        number: u64,
        possible: impl Iterator<Item = Members>,
    ) -> Result<(), String> {
        let Some(witness) = self.witness() else { return Ok(()) };
        let mut lacking = Vec::new();
        for members in possible {
            let is_fresh = |rank: &Rank| {
                let counts = |of: &Vouching| {
                    let is_seated = match of.with {
                        Vouched::Memory => true,
                        Vouched::Disk(disk) => disk == members.incarnation(*rank),
                    };
                    of.number > number && is_seated
                };
                let needs_none = witness.by == By::ReadOfPeers && rank.index() == node;
                needs_none || self.newest[node * self.members + rank.index()].iter().any(counts)
            };
            let fresh: MemberSet = Rank::all(self.members).filter(is_fresh).collect();
            if members.has_quorum(fresh) {
                return Ok(());
            }
            lacking.push((fresh, members.voters));
        }
        Err(format!(
            "r{node} answers a read, and since it came too few have vouched, of the voters: {lacking:?}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Incarnation;

    fn witnesses(by: By) -> Witnesses {
        let vouches = |words: &[u64], ballot: Ballot| match *words {
            [] => Some(Vouched::Memory),
            [promised] => (promised != 0 && promised <= ballot.0).then_some(Vouched::Memory),
            [_, disk, ..] => Some(Vouched::Disk(Incarnation(disk))),
        };
        let reads = Reads::Witnessed(Witness { places: 4..5, by, vouches });
        let mut witnesses = Witnesses::new(reads, 3);
        witnesses.leads(0, Ballot(9));
        witnesses
    }

    fn all() -> impl Iterator<Item = Members> {
        std::iter::once(Members::first(MemberSet::all(3)))
    }

    #[test]
    fn i1_an_answer_to_an_earlier_verb_is_none() {
        let mut of = witnesses(By::ReadOfPeers);
        assert!(of.is_one(4, true) && !of.is_one(5, true) && !of.is_one(4, false));
        of.answered(0, 1, 7, &[9]);
        assert!(of.check(0, 7, all()).is_err(), "posted before the read came");
        assert!(of.check(0, 6, all()).is_ok());
        assert!(of.check(1, 6, all()).is_err(), "another node's");
    }

    #[test]
    fn memory_that_does_not_vouch_is_no_witness() {
        let mut of = witnesses(By::ReadOfPeers);
        of.answered(0, 1, 7, &[0]);
        of.answered(0, 2, 8, &[10]);
        assert!(of.check(0, 6, all()).is_err());
        of.answered(0, 2, 9, &[9]);
        assert!(of.check(0, 6, all()).is_ok());
    }

    #[test]
    fn a_disk_is_a_witness_for_its_own_seat_alone() {
        let mut of = witnesses(By::ReadOfPeers);
        of.answered(0, 1, 7, &[9, 2]);
        assert!(of.check(0, 6, all()).is_err(), "the first disk was asked");
        of.answered(0, 1, 8, &[9, 1]);
        assert!(of.check(0, 6, all()).is_ok());
        of.answered(0, 1, 9, &[9, 2]);
        assert!(of.check(0, 6, all()).is_ok(), "it was answered, in the same turn");
    }

    #[test]
    fn the_own_memory_counts_where_it_needs_no_verb() {
        let mut of = witnesses(By::Write);
        assert!(of.is_one(4, false));
        of.answered(0, 1, 7, &[]);
        assert!(of.check(0, 6, all()).is_err());
        of.answered(0, 0, 8, &[]);
        assert!(of.check(0, 6, all()).is_ok());
        assert!(
            Witnesses::new(Reads::Unseen, 3).check(0, 6, all()).is_ok(),
            "memory does not show it"
        );
    }
}
