//! The clock reports of one group's members (lines 15 to 18), and their consequences.
//!
//! - P5 Of one member, epochs and clocks never fall: links are FIFO (T1) and both only rise at
//!   their owner. [`Clocks::hear`] drops a report to the contrary.

use super::seats::Seats;
use crate::amcast::bugs::Bug;
use crate::amcast::{Members, Timestamp};
use crate::planted::Planting;
use alloc::vec::Vec;
use base::{Ballot, Incarnation, MemberSet, Rank};

/// The clocks of one group's members, as one process knows them.
#[derive(Clone, Debug)]
pub(super) struct Clocks {
    /// The last clock of each member under each promise that still matters, in order.
    members: Vec<Vec<(Ballot, Timestamp)>>,
    /// The clocks that leaders reported *as primaries*, in order of epochs.
    primaries: Vec<(Ballot, Timestamp)>,
    /// The members.
    pub(super) seats: Seats,
}

impl Clocks {
    /// The clocks of a group of `n` whose first epoch is `first`.
    pub(super) fn new(n: usize, first: Ballot) -> Clocks {
        let seats = Seats::new(n, first);
        Clocks { members: alloc::vec![Vec::new(); n], primaries: Vec::new(), seats }
    }

    /// P18: notes that another incarnation is on this seat. Its predecessor's reports do not bind
    /// it.
    pub(super) fn meet(
        &mut self,
        rank: Rank,
        incarnation: Incarnation,
        planted: impl Planting<Bug>,
    ) -> bool {
        let is_new = self.seats.meet(rank, incarnation);
        let voids = is_new && !planted.has(Bug::KeepOldWords);
        if let Some(heard) = self.members.get_mut(rank.index()).filter(|_| voids) {
            heard.clear();
        }
        is_new
    }

    /// Takes a report that member `rank`, which has promised `epoch`, has this clock; `as_primary`
    /// of that epoch or not.
    pub(super) fn hear(&mut self, rank: Rank, epoch: Ballot, clock: Timestamp, as_primary: bool) {
        if let Some(heard) = self.members.get_mut(rank.index()) {
            raise(heard, epoch, clock);
        }
        // A candidate's clock proves nothing: it may never lead, and another leader may start below
        // it.
        if as_primary && epoch.proposer() == Some(rank) {
            raise(&mut self.primaries, epoch, clock);
        }
    }

    /// The clock that the primary of `epoch` has reported.
    pub(super) fn primary_clock(&self, epoch: Ballot, planted: impl Planting<Bug>) -> Timestamp {
        let leader = epoch.proposer().zip(self.seats.of(epoch, planted));
        let leader = leader.filter(|(leader, members)| self.seats.sits(*leader, members, planted));
        leader.map_or(Timestamp::ZERO, |(leader, _)| self.min_clock(leader, epoch, planted))
    }

    /// Line 15: the member's highest clock under `epoch` or an earlier promise.
    fn min_clock(&self, rank: Rank, epoch: Ballot, planted: impl Planting<Bug>) -> Timestamp {
        let Some(heard) = self.members.get(rank.index()) else { return Timestamp::ZERO };
        let known = heard
            .iter()
            .rev()
            .find(|(promised, _)| planted.has(Bug::ClocksOfLaterEpochs) || *promised <= epoch);
        known.map_or(Timestamp::ZERO, |(_, clock)| *clock)
    }

    /// Line 17: the clock that `quorum` of `members` have reached under `epoch` or an earlier
    /// promise.
    fn clock_of(
        &self,
        epoch: Ballot,
        members: &Members,
        quorum: usize,
        planted: impl Planting<Bug>,
    ) -> Timestamp {
        let mut clocks: [Timestamp; base::MAX_MEMBERS] = Default::default();
        for rank in Rank::all(self.members.len()) {
            if self.seats.sits(rank, members, planted) {
                clocks[rank.index()] = self.min_clock(rank, epoch, planted);
            }
        }
        clocks.sort_unstable_by(|a, b| b.cmp(a));
        clocks[quorum.max(1) - 1]
    }

    /// Line 17: the clock that a quorum has reached, and at which therefore every epoch above
    /// `epoch` begins. Zero as long as the epoch's members are not known (P17).
    pub(super) fn quorum_clock(&self, epoch: Ballot, planted: impl Planting<Bug>) -> Timestamp {
        let members = self.seats.of(epoch, planted);
        members.map_or(Timestamp::ZERO, |members| {
            self.clock_of(epoch, members, members.quorum(), planted)
        })
    }

    /// The largest x such that no message that is multicast from now on can be decided in this
    /// group with a local timestamp of x or less.
    ///
    /// For some epoch E: its leader, as primary of E, has passed x (nothing new in E), and a quorum
    /// that had promised nothing above E has passed x (nothing new in any later epoch). In an
    /// earlier epoch nothing new is decided, since a quorum has promised E before it had a primary.
    pub(super) fn past(&self, planted: impl Planting<Bug>) -> Timestamp {
        let of_epoch = |&(epoch, clock): &(Ballot, Timestamp)| {
            let Some(members) = self.seats.of(epoch, planted) else { return Timestamp::ZERO };
            let quorum = members.quorum();
            let quorum = quorum - usize::from(planted.has(Bug::PastQuorumMinusOne) && quorum > 1);
            let upto = if planted.has(Bug::PastInAnyEpoch) { Ballot(u64::MAX) } else { epoch };
            match (planted.has(Bug::PastWithoutPrimary), planted.has(Bug::PastWithoutQuorum)) {
                (true, _) => self.clock_of(upto, members, quorum, planted),
                (_, true) => clock,
                _ => clock.min(self.clock_of(upto, members, quorum, planted)),
            }
        };
        self.primaries.iter().map(of_epoch).max().unwrap_or_default()
    }

    /// The newest epoch whose primary reported.
    pub(super) fn newest_primary(&self) -> Ballot {
        self.primaries.last().map_or(Ballot::NONE, |(epoch, _)| *epoch)
    }

    /// The newest epoch that any of these members is known to have promised to another one, or to
    /// lead. (A candidate's own promise proves nothing: it may have died as one.)
    pub(super) fn newest_promise(&self, of: MemberSet) -> Ballot {
        let last = |rank: Rank| self.members.get(rank.index())?.last().map(|(epoch, _)| *epoch);
        let to_another = |rank| last(rank).filter(|epoch| epoch.proposer() != Some(rank));
        let promised = of.iter().filter_map(to_another).max();
        promised.unwrap_or(Ballot::NONE).max(self.newest_primary())
    }

    /// Forgets epochs before `epoch`, which no process will ask about any longer.
    pub(super) fn forget_before(&mut self, epoch: Ballot) {
        for heard in &mut self.members {
            let newest = heard.iter().rposition(|(promised, _)| *promised <= epoch);
            heard.drain(..newest.unwrap_or(0));
        }
        self.primaries.retain(|(of, _)| *of >= epoch);
    }
}

#[cfg(test)]
impl Clocks {
    /// The number of reports that are remembered.
    pub(super) fn n_reports(&self) -> usize {
        self.members.iter().map(Vec::len).sum::<usize>() + self.primaries.len()
    }
}

/// P5: the only writer.
fn raise(heard: &mut Vec<(Ballot, Timestamp)>, epoch: Ballot, clock: Timestamp) {
    match heard.last_mut() {
        Some((last, known)) if *last == epoch => *known = clock.max(*known),
        Some((last, _)) if *last > epoch => {}
        _ => heard.push((epoch, clock)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planted::{Planted, Sound};

    const FIRST: Ballot = Ballot(1);
    const SECOND: Ballot = Ballot(2);

    fn clocks() -> Clocks {
        Clocks::new(3, FIRST)
    }

    #[test]
    fn p5_nothing_falls() {
        let mut clocks = clocks();
        clocks.hear(Rank::at(1), SECOND, Timestamp(7), false);
        clocks.hear(Rank::at(1), SECOND, Timestamp(3), false);
        clocks.hear(Rank::at(1), FIRST, Timestamp(9), false);
        assert_eq!(clocks.min_clock(Rank::at(1), SECOND, Sound), Timestamp(7));
        assert_eq!(clocks.min_clock(Rank::at(1), FIRST, Sound), Timestamp::ZERO);
    }

    #[test]
    fn the_quorum_clock_is_what_a_quorum_has_reached() {
        let mut clocks = clocks();
        for (rank, clock) in [(0, 9), (1, 4), (2, 6)] {
            clocks.hear(Rank::at(rank), FIRST, Timestamp(clock), rank == 0);
        }
        assert_eq!(clocks.quorum_clock(FIRST, Sound), Timestamp(6));
        assert_eq!(clocks.past(Sound), Timestamp(6));
        clocks.hear(Rank::at(2), SECOND, Timestamp(8), false);
        assert_eq!(clocks.quorum_clock(FIRST, Sound), Timestamp(6), "promised elsewhere");
    }

    #[test]
    fn a_candidates_clock_is_no_past() {
        let mut clocks = clocks();
        clocks.hear(Rank::at(1), SECOND, Timestamp(8), false);
        clocks.hear(Rank::at(2), SECOND, Timestamp(8), false);
        assert_eq!(clocks.past(Sound), Timestamp::ZERO);
        clocks.hear(Rank::at(1), SECOND, Timestamp(8), true);
        assert_eq!(clocks.past(Sound), Timestamp::ZERO, "P17: whose quorum?");
        let founders = *clocks.seats.newest();
        clocks.seats.learn(SECOND, &founders);
        assert_eq!(clocks.past(Sound), Timestamp(8));
    }

    #[test]
    fn p18_what_a_predecessor_said_of_its_clock_counts_for_nobody() {
        let mut clocks = clocks();
        for rank in 0..3 {
            clocks.hear(Rank::at(rank), FIRST, Timestamp(8 - rank as u64), rank == 0);
        }
        assert_eq!(clocks.past(Sound), Timestamp(7));
        assert!(clocks.meet(Rank::at(1), Incarnation(2), Sound));
        assert_eq!(clocks.past(Sound), Timestamp(6), "two of the founders are left");
        clocks.hear(Rank::at(1), FIRST, Timestamp(9), false);
        assert_eq!(clocks.past(Sound), Timestamp(6), "the new one is no member there");
    }

    /// Five members: their primary and one follower have passed 9, two have only 4 under the first
    /// epoch, and one has passed 9 under a later promise. A quorum of the rest starts at 4.
    #[test]
    fn each_clause_of_past_matters() {
        let mut clocks = Clocks::new(5, FIRST);
        for (rank, epoch, clock) in
            [(0, FIRST, 9), (1, FIRST, 9), (2, FIRST, 4), (3, FIRST, 4), (4, FIRST, 2)]
        {
            clocks.hear(Rank::at(rank), epoch, Timestamp(clock), rank == 0);
        }
        clocks.hear(Rank::at(4), SECOND, Timestamp(9), false);
        assert_eq!(clocks.past(Sound), Timestamp(4));
        for bug in [
            Bug::PastWithoutQuorum,
            Bug::PastQuorumMinusOne,
            Bug::PastInAnyEpoch,
            Bug::ClocksOfLaterEpochs,
        ] {
            assert_eq!(clocks.past(Planted(bug)), Timestamp(9), "{bug:?} believes too much");
        }
        let mut clocks = Clocks::new(3, FIRST);
        for (rank, clock) in [(0, 2), (1, 9), (2, 9)] {
            clocks.hear(Rank::at(rank), FIRST, Timestamp(clock), rank == 0);
        }
        assert_eq!(clocks.past(Sound), Timestamp(2));
        assert_eq!(
            clocks.past(Planted(Bug::PastWithoutPrimary)),
            Timestamp(9),
            "the bug believes too much"
        );
    }
}
