//! The nodes that are given up, and the ones that stop for it.
//!
//! A node gives any peer up for which it keeps too much (S3): one that is dead, or whose link is
//! cut for long. It has dropped bytes for that peer, so one of the two must not continue. In memory
//! that is a death, and a group survives the death of a minority alone.
//!
//! - N13 A node that was cut off from the majorities of its groups gives up none of their nodes for
//!   what it writes by itself: that is bounded, however long the cut is. Own messages without a
//!   delivery have at most `backlog_bytes` (D3), and questions do not accumulate (S8). By
//!   construction otherwise: what members say of a message is said once.
//! - N14 A node that has given up so many voters of a group here that the others and itself are no
//!   majority is the one that stops: it is of no use to that group in this life, and others may
//!   have continued without it. By `Node::weigh`, before anything is sent.
//! - N15 A process without a disk stops for another one only if a majority of each of its groups
//!   lives without it. It is told to only while, of each of its groups, the voters that the teller
//!   hears, the teller among them, are a majority without it; and it stops by N14 when others that
//!   greet it, and that it hears, are one. Until then nothing is said. By `Node::weigh` and
//!   `Streams::need`. A process with a disk comes back with all its promises, so it stops at once.
//!
//! So the node that was cut off does not tell the others, they tell it. One of two that do not
//! speak to each other stops in the end, if all links are back and no other process has died: a
//! node that gives one up while it hears a majority has not given up any of that majority.
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
use proto::amcast::{GroupId, Multicast};
use proto::planted::Planting;

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
            return Ok(());
        }
        let me = self.world.me;
        let streams = &self.world.streams;
        let mut heard = streams.linked();
        let greet = heard.union(streams.left_and_greets());
        let hosted = self.world.places.hosted(me);
        let may_stop = streams.has_disk(me)
            || hosted.iter().all(|group| self.electorate(group).has_majority(greet));
        for group in hosted.iter() {
            let electorate = self.electorate(group);
            let rest = electorate.voters.difference(left);
            let is_over = rest.contains(me) && 2 * rest.len() <= electorate.voters.len();
            if is_over && may_stop {
                return Err(StopError::CutOff(group)); // N14
            }
        }
        heard.insert(me);
        let is_needed = |node: &Rank| {
            let groups = self.world.places.hosted(*node);
            let needs = |group| !self.electorate(group).has_majority(heard);
            !self.world.streams.has_disk(*node) && groups.iter().any(needs)
        };
        let needed = left.iter().filter(is_needed).collect();
        self.world.streams.need(needed); // N15
        Ok(())
    }
}
