//! Acknowledgements without names: one timestamp for each member of a group.
//!
//! A follower acknowledges proposals in the order of its primary, whose timestamps rise (P4). One
//! number therefore names all of them, for every process that has them from the primary, and costs
//! a follower one message a batch instead of one a proposal. Nothing is searched when it comes: a
//! proposal is compared with it when its decision is needed (`Record::decide`).
//!
//! - P9 "Epoch E up to ts" of a member counts as its acknowledgement of each proposal that E's
//!   primary gave a timestamp of at most ts, and of nothing else. By the order of one log (P4) and
//!   of one link (T1); asserted where it is made, in `Machine::acknowledge_later`.
//!
//! Named acknowledgements remain: the primary's, which are the proposals; those that a new epoch
//! repeats, since a dead primary may not have told all processes; and answers to requests.

use crate::amcast::Timestamp;
use crate::amcast::bugs::Bug;
use crate::planted::Planting;
use alloc::vec::Vec;
use base::{Ballot, MAX_MEMBERS, MemberSet, Rank};

/// The number of epochs before a member's last one whose acknowledgements are kept; a process that
/// needs older ones asks.
const EPOCHS_MAX: usize = 3;

/// The acknowledgements of one group.
#[derive(Clone, Debug)]
pub(super) struct Acks {
    n_members: usize,
    /// The timestamp up to which each member has acknowledged, in its last epoch.
    upto: [(Ballot, Timestamp); MAX_MEMBERS],
    /// The same for earlier epochs, oldest first.
    before: Vec<(Rank, Ballot, Timestamp)>,
}

impl Acks {
    pub(super) fn new(n_members: usize) -> Acks {
        Acks { n_members, upto: Default::default(), before: Vec::new() }
    }

    /// Notes that a member has acknowledged `epoch` up to `upto`.
    pub(super) fn extend(&mut self, rank: Rank, epoch: Ballot, upto: Timestamp) {
        let (last, known) = &mut self.upto[rank.index()];
        if *last == epoch {
            *known = upto.max(*known);
        } else if *last < epoch {
            if *last > Ballot::NONE {
                self.before.push((rank, *last, *known));
                let is_its = |(of, ..): &(Rank, Ballot, Timestamp)| *of == rank;
                if self.before.iter().filter(|one| is_its(one)).count() > EPOCHS_MAX {
                    let oldest = self.before.iter().position(is_its).expect("it was counted");
                    self.before.remove(oldest);
                }
            }
            (*last, *known) = (epoch, upto);
        }
        // A member's epochs rise (P5): a message to the contrary is dropped.
    }

    /// The members that have acknowledged the proposal of `epoch` at `ts` (P9).
    pub(super) fn covering(
        &self,
        epoch: Ballot,
        ts: Timestamp,
        planted: impl Planting<Bug>,
    ) -> MemberSet {
        let covers = |of: Ballot, upto| (of == epoch || planted.has(Bug::MixEpochs)) && ts <= upto;
        let last = Rank::all(self.n_members).filter(|rank| {
            let (of, upto) = self.upto[rank.index()];
            covers(of, upto)
        });
        let mut by: MemberSet = last.collect();
        for (rank, of, upto) in &self.before {
            if covers(*of, *upto) {
                by.insert(*rank);
            }
        }
        by
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planted::Sound;

    const FIRST: Ballot = Ballot(1);

    fn covering(acks: &Acks, epoch: Ballot, ts: u64) -> Vec<usize> {
        acks.covering(epoch, Timestamp(ts), Sound).iter().map(Rank::index).collect()
    }

    #[test]
    fn p9_what_was_acknowledged_is_covered_and_nothing_else() {
        let mut acks = Acks::new(3);
        assert!(covering(&acks, FIRST, 1).is_empty());
        acks.extend(Rank::at(1), FIRST, Timestamp(4));
        acks.extend(Rank::at(2), FIRST, Timestamp(9));
        acks.extend(Rank::at(2), FIRST, Timestamp(7));
        assert_eq!(covering(&acks, FIRST, 4), [1, 2]);
        assert_eq!(covering(&acks, FIRST, 9), [2], "it never falls");
        assert!(covering(&acks, FIRST, 10).is_empty());
    }

    #[test]
    fn p9_an_epoch_says_nothing_about_another() {
        let mut acks = Acks::new(3);
        for epoch in 1..=6 {
            acks.extend(Rank::at(1), Ballot(epoch), Timestamp(10 - epoch));
        }
        acks.extend(Rank::at(1), Ballot(3), Timestamp(99));
        assert_eq!(covering(&acks, Ballot(6), 4), [1]);
        assert!(covering(&acks, Ballot(6), 5).is_empty(), "that was another epoch's");
        assert_eq!(covering(&acks, Ballot(3), 7), [1]);
        assert!(covering(&acks, Ballot(3), 8).is_empty(), "epochs of one member rise");
        assert!(covering(&acks, Ballot(2), 1).is_empty(), "too long ago to be kept");
    }
}
