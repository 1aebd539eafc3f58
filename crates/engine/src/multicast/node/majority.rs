//! The nodes that are given up, and the ones that stop for it.
//!
//! A node gives any peer up for which it keeps too much (S3): one that is dead, or whose link is
//! cut for long. It has dropped bytes for that peer, so one of the two must not continue. In memory
//! that is a death, and a group survives the death of a minority alone.
//!
//! - N13 A node that was cut off from the majorities of its groups gives up none of their nodes for
//!   what it writes by itself: that is bounded, however long the cut is. Own messages without a
//!   delivery have at most `backlog_bytes` (D3), and questions do not accumulate (S8). By
//!   construction otherwise: what members say of a message is said once. Limit: a candidate and a
//!   newcomer repeat their words for each group, some 150 bytes each patience.
//! - N14 A node that has given up two or more voters of a group here, so that the others and itself
//!   are no majority, is the one that stops: it is of no use to that group in this life, and others
//!   may have continued without it. By `Node::weigh`, before anything is sent. With a disk it stops
//!   for those that are there: one of them greets it, or has a link for [`CUT_MAX`] and says
//!   nothing, since it has given this node up as well. Until then it tells them nothing, and serves
//!   its other groups: dead nodes are no reason to stop, and their next lives are accepted.
//! - N15 A process without a disk stops for another one only if a majority of each of its groups
//!   lives without it. It is told to only while, of each of its groups, the voters that the teller
//!   hears, the teller among them, are a majority without it; and it stops by N14 when others that
//!   greet it, and that it hears, are one. Until then nothing is said. A group with seats for two
//!   nodes at most does not count: no majority of it ever lives without one of them. By
//!   `Node::weigh` and `Streams::need`. A process with a disk comes back with all its promises, so
//!   it is told at once.
//!
//! So the node that was cut off does not tell the others, they tell it. Where a group has two
//! nodes, the one that was given up is told. One of two that do not speak to each other stops in
//! the end, if all links are back and no other process has died: a node that gives one up while it
//! hears a majority has not given up any of that majority.
//!
//! Limits: two words that cross may stop one process too many in memory, if two nodes that hear
//! different majorities tell members of each other's at the same moment. Where two nodes of three
//! in memory have given each other up and the third dies before their link is back, they stay
//! silent, and the group waits: neither can stop without the loss of what both promised.

use super::Node;
use crate::multicast::application::Application;
use crate::multicast::bugs::Bug;
use crate::multicast::stop::StopError;
use base::{Incarnation, Rank, SeatSet};
use core::time::Duration;
use proto::amcast::{GroupId, Multicast};
use proto::planted::Planting;

/// The time for which a node with a disk waits for the word of one that it has given up.
const CUT_MAX: Duration = Duration::from_secs(60);

/// The voters of a group by their nodes, and those of them whose process is the one that votes.
struct Electorate {
    voters: SeatSet,
    present: SeatSet,
}

impl Electorate {
    /// Whether these nodes are a majority of it.
    fn has_majority(&self, of: SeatSet) -> bool {
        2 * self.present.intersection(of).len() > self.voters.len()
    }
}

impl<M: Multicast, A: Application, P: Planting<Bug>> Node<M, A, P> {
    /// The voters of `group`, as far as known.
    fn electorate(&self, group: GroupId) -> Electorate {
        let nodes = self.world.places.nodes_of(group);
        let all = || nodes.iter().copied().collect();
        let member = self.member_of[group.index()];
        let known = member.and_then(|at| self.members[usize::from(at)].machine.members());
        let Some((members, _)) = known else { return Electorate { voters: all(), present: all() } };
        let seats = nodes.iter().enumerate().map(|(at, node)| (Rank::at(at), *node));
        let (mut voters, mut present) = (SeatSet::EMPTY, SeatSet::EMPTY);
        for (rank, node) in seats.filter(|(rank, _)| members.voters.contains(*rank)) {
            voters.insert(node);
            let incarnation: Incarnation = self.world.streams.incarnation(node);
            if members.has(rank, incarnation) {
                present.insert(node);
            }
        }
        Electorate { voters, present }
    }

    /// Decides whether this node stops for the peers that it has given up, and which of them it may
    /// tell (N14, N15).
    pub(super) fn weigh(&mut self) -> Result<(), StopError> {
        let left = self.world.streams.left();
        if left.is_empty() || self.world.planted.has(Bug::TellsTheMajority) {
            self.world.streams.cut_for(false, self.desk.now);
            return Ok(());
        }
        let me = self.world.me;
        let streams = &self.world.streams;
        let mut heard = streams.linked();
        let greets = streams.left_and_greets();
        let lives_without = |group: GroupId, with: SeatSet| {
            let is_small = self.world.places.nodes_of(group).len() < 3;
            is_small || self.electorate(group).has_majority(with)
        };
        let hosted = self.world.places.hosted(me);
        let greet = heard.union(greets);
        let may_stop = hosted.iter().all(|group| lives_without(group, greet));
        let mut waited_for = SeatSet::EMPTY;
        let mut over = None;
        for group in hosted.iter() {
            let voters = self.electorate(group).voters;
            let (rest, given) = (voters.difference(left), voters.intersection(left));
            if !rest.contains(me) || 2 * rest.len() > voters.len() || given.len() < 2 {
                continue;
            }
            let stops = match streams.has_disk(me) {
                true => !given.intersection(greets).is_empty(),
                false => may_stop,
            };
            if stops {
                return Err(StopError::CutOff(group)); // N14
            }
            if streams.has_disk(me) {
                waited_for = waited_for.union(given);
                over = over.or(Some(group));
            }
        }
        heard.insert(me);
        let is_needed = |node: &Rank| {
            let groups = self.world.places.hosted(*node);
            let needs = |group| !lives_without(group, heard);
            waited_for.contains(*node) || !streams.has_disk(*node) && groups.iter().any(needs)
        };
        let needed = left.iter().filter(is_needed).collect();
        let is_cut = !waited_for.intersection(streams.left_and_linked()).is_empty();
        let streams = &mut self.world.streams;
        streams.need(needed); // N15
        let waits_for = streams.cut_for(is_cut, self.desk.now);
        match over.filter(|_| waits_for > CUT_MAX) {
            Some(group) => Err(StopError::CutOff(group)), // N14
            None => Ok(()),
        }
    }
}
