//! The desk, at which the application and the loop meet: the messages that are multicast here, and
//! their outcomes.
//!
//! - D1 Every accepted message gets exactly one outcome: delivered, or unknown at its deadline. By
//!   [`Own`], which has the messages that are under way.
//! - D2 A refused message was not multicast: nothing of it left this node. By construction: the
//!   checks come first.
//! - D3 The bytes of messages without a delivery are bounded. By [`Own`], which counts them.

use crate::multicast::own::Own;
pub use crate::multicast::own::{Options, Outcome};
use crate::multicast::places::Places;
use base::{Instant, Rank, SeatSet};
use proto::amcast::wire::is_addressable;
use proto::amcast::{AFTER_MAX, GroupId, GroupSet, Layout, MessageId, Timestamp, WINDOW};
use std::sync::Arc;

/// The longest payload.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;

/// The number of bits that the node's rank takes in a sender's name.
const RANK_BITS: u32 = 5;
const _: () = assert!(base::FABRIC_SEATS_MAX <= 1 << RANK_BITS);

/// The name under which `node` multicasts in one of its lives.
pub(crate) const fn sender_of(node: Rank, incarnation: u64) -> u64 {
    assert!(incarnation >> (u64::BITS - RANK_BITS) == 0, "a name has no room for that");
    incarnation << RANK_BITS | node.index() as u64
}

/// The node of a sender's name.
pub(crate) fn node_of_sender(sender: u64) -> Option<Rank> {
    Rank::on_fabric((sender & ((1 << RANK_BITS) - 1)) as usize)
}

/// The reason why a message was not multicast. Nothing happened (D2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The destinations name no group, or one that does not exist.
    #[error("the destinations {dest:?} are not groups of this system, which has {n_groups}")]
    NoSuchGroup {
        /// The requested destinations.
        dest: GroupSet,
        /// The number of groups.
        n_groups: usize,
    },
    /// The payload is too long.
    #[error("a payload of {n_bytes} bytes: the longest has {PAYLOAD_BYTES_MAX}")]
    TooLong {
        /// The payload's length.
        n_bytes: usize,
    },
    /// Too many own messages are under way, or may be.
    #[error(
        "{window} messages are under way from this node, those of unknown outcome among them: wait \
         until some are delivered"
    )]
    WindowFull {
        /// The most messages that may be under way.
        window: usize,
    },
    /// The own messages under way, or that may be, are too long together (D3).
    #[error(
        "messages of {n_bytes} bytes are under way from this node, those of unknown outcome among \
         them: wait until some are delivered; the oldest waits for the groups {groups:?}, which \
         need a majority"
    )]
    TooMuchUnderWay {
        /// The bytes under way.
        n_bytes: usize,
        /// The destinations of the oldest of them, none of which is known to have delivered it.
        groups: GroupSet,
    },
    /// The oldest own message that some destination has not delivered is too far behind (W1).
    #[error(
        "a message of this node to the groups {groups:?} is not delivered there, and {WINDOW} later \
         ones are out: bring a majority of those groups back"
    )]
    TooFarAhead {
        /// The destinations that have not delivered it.
        groups: GroupSet,
    },
    /// The message must come after a timestamp that no member has seen.
    #[error("a timestamp above {after:?} is asked for: the highest that may be is {AFTER_MAX:?}")]
    AfterTooHigh {
        /// The requested bound.
        after: Timestamp,
    },
    /// A live node that hosts one of the destinations lags behind.
    #[error("a node of the groups {groups:?} lags behind: try again when it has caught up")]
    Lagging {
        /// The destinations that lag.
        groups: GroupSet,
    },
    /// Members of the destinations are away, and the messages that the others keep for them fill
    /// `limits.held_bytes`.
    #[error(
        "members of the groups {groups:?} are away, and what is kept for them fills \
         limits.held_bytes: start them again, or remove them"
    )]
    Kept {
        /// The destinations that keep them.
        groups: GroupSet,
    },
    /// This node's application has too many deliveries to take.
    #[error("the deliveries of this node are not taken: take them first")]
    DeliveriesFull,
    /// This node is a new incarnation, and its groups have not seated it yet.
    #[error("this node has no seat in its groups yet: wait until its members are seated")]
    NoSeat,
    /// A snapshot needs groups that have a member here which uses the timestamped interface.
    #[error("no member of the groups {groups:?} is here to take snapshots (PrimCast only)")]
    NotHere {
        /// The groups without such a member.
        groups: GroupSet,
    },
    /// Too many snapshots are waited for.
    #[error("{SNAPSHOTS_MAX} snapshots are under way at this node: wait for one")]
    SnapshotsFull,
    /// The node has stopped.
    #[error("this node has stopped")]
    Stopped,
}

/// The reason why groups are not asked to remove a node. Nothing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoRemoval {
    /// There is no such node.
    #[error("node {node} of a system of {nodes}: nodes are counted from 1")]
    NoSuchNode {
        /// The requested node.
        node: usize,
        /// The number of nodes.
        nodes: usize,
    },
    /// The node is a member of no group.
    #[error("node {node} is a member of no group: stop its process, and that is all")]
    NotMember {
        /// The node.
        node: usize,
    },
    /// The groups would have no member left.
    #[error("node {node} is the last member of the groups {groups:?}: seat another there first")]
    LastMember {
        /// The node.
        node: usize,
        /// The groups.
        groups: GroupSet,
    },
    /// The members of groups cannot be changed here.
    #[error(
        "groups keep their members here: to change them takes protocol primcast, commutes = false, \
         an application that keeps states, and no data directory"
    )]
    Fixed,
}

/// The name of a promised snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Snapshot(pub u64);

/// The most snapshots for which one node waits.
pub const SNAPSHOTS_MAX: usize = 256;

/// The state of one hosted member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberView {
    /// The member's group.
    pub group: GroupId,
    /// The member's rank in the group.
    pub rank: Rank,
    /// Whether it leads its group, as far as it knows.
    pub is_primary: bool,
    /// The member that Ω trusts to lead the group.
    pub trusted: Option<Rank>,
    /// Every message with a final timestamp up to here that is addressed to the group has been
    /// handed to the application.
    pub safe_ts: Option<Timestamp>,
    /// The number of messages that it delivered.
    pub delivered: u64,
    /// Whether it has its seat and everything that others have dropped: at a node that came back as
    /// a new incarnation, once its groups have seated it.
    pub is_seated: bool,
    /// The nodes that vote in the group, as far as it knows.
    pub voters: SeatSet,
}

/// The work of a node so far, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Turns of the loop.
    pub turns: u64,
    /// The turns that slept.
    pub sleeps: u64,
    /// Messages of the fabric that were posted.
    pub frames: u64,
    /// The bytes in these messages.
    pub frame_bytes: u64,
    /// Records that came in frames.
    pub records: u64,
    /// Parcels that members were handed, from their own node or from another.
    pub parcels: u64,
    /// Deliveries.
    pub delivered: u64,
    /// States of all groups that were installed together.
    pub states: u64,
}

/// The application's side of the loop; see the module's text.
#[derive(Debug)]
pub struct Desk {
    pub(crate) now: Instant,
    pub(crate) views: Vec<MemberView>,
    pub(crate) linked: SeatSet,
    /// The destinations that refuse messages for the moment.
    pub(crate) lagging: GroupSet,
    /// The destinations that keep too much for absent members.
    pub(crate) kept: GroupSet,
    pub(crate) is_full: bool,
    /// Whether all members here have their seats.
    pub(crate) is_seated: bool,
    /// Whether members can be removed.
    pub(crate) changes_members: bool,
    /// The nodes that the application wants removed.
    pub(crate) removals: SeatSet,
    /// The snapshots that are not begun yet.
    pub(crate) asked: Vec<(Snapshot, GroupSet)>,
    /// The number of snapshots that are begun and not over in all their groups.
    pub(crate) n_snapshots: usize,
    next_snapshot: u64,
    pub(crate) figures: Figures,
    places: Places,
    pub(crate) own: Own,
}

impl Desk {
    /// A desk that lets so many messages, and so many bytes, be under way.
    pub(crate) fn new(places: &Places, sender: u64, window: (usize, usize)) -> Desk {
        Desk {
            now: Instant::ZERO,
            views: Vec::new(),
            linked: SeatSet::EMPTY,
            lagging: GroupSet::EMPTY,
            kept: GroupSet::EMPTY,
            is_full: false,
            is_seated: true,
            changes_members: false,
            removals: SeatSet::EMPTY,
            asked: Vec::new(),
            n_snapshots: 0,
            next_snapshot: 1,
            figures: Figures::default(),
            places: places.clone(),
            own: Own::new(sender, window),
        }
    }

    /// The loop's time.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// The groups and their sizes.
    pub const fn layout(&self) -> &Layout {
        self.places.layout()
    }

    /// The states of the hosted members, in order of groups.
    pub fn members(&self) -> &[MemberView] {
        &self.views
    }

    /// The node's work so far.
    pub const fn figures(&self) -> Figures {
        self.figures
    }

    /// The other nodes that are reachable and not suspected.
    pub const fn linked(&self) -> SeatSet {
        self.linked
    }

    /// The number of own messages without an outcome.
    pub const fn n_open(&self) -> usize {
        self.own.n_open()
    }

    /// Multicasts `payload` to `dest`. Returns its name; its outcome follows.
    ///
    /// # Errors
    /// [`Refused`]: nothing happened.
    pub fn multicast(
        &mut self,
        dest: GroupSet,
        payload: impl Into<Arc<[u8]>>,
        options: &Options,
    ) -> Result<MessageId, Refused> {
        let payload: Arc<[u8]> = payload.into();
        if !is_addressable(dest, self.layout()) {
            return Err(Refused::NoSuchGroup { dest, n_groups: self.layout().n_groups() });
        }
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(Refused::TooLong { n_bytes: payload.len() });
        }
        // Its own members would not deliver it, so its outcome would not be known here.
        if !self.is_seated {
            return Err(Refused::NoSeat);
        }
        if options.after > AFTER_MAX {
            return Err(Refused::AfterTooHigh { after: options.after });
        }
        if let Some(window) = self.own.full_window() {
            return Err(Refused::WindowFull { window });
        }
        if let Some((n_bytes, groups)) = self.own.too_long(payload.len()) {
            return Err(Refused::TooMuchUnderWay { n_bytes, groups });
        }
        if let Some(groups) = self.own.too_far_ahead_of() {
            return Err(Refused::TooFarAhead { groups });
        }
        if dest.meets(self.lagging) {
            return Err(Refused::Lagging { groups: dest.intersection(self.lagging) });
        }
        if dest.meets(self.kept) {
            return Err(Refused::Kept { groups: dest.intersection(self.kept) });
        }
        if self.is_full {
            return Err(Refused::DeliveriesFull);
        }
        Ok(self.own.start(dest, payload, options, self.now))
    }

    /// Requests a snapshot of the members of `groups` that live here at one timestamp (4.4.2),
    /// without a message to any other node's group: [`crate::multicast::Application::snapshot`]
    /// reports when each of them is there. The timestamp is the lowest one above everything that
    /// any member here has delivered. The snapshot comes when the groups' clocks have passed it,
    /// after at most two steps within each if nothing is pending.
    ///
    /// # Errors
    /// [`Refused`]: nothing happened.
    pub fn snapshot(&mut self, groups: GroupSet) -> Result<Snapshot, Refused> {
        let can = |view: &&MemberView| view.safe_ts.is_some();
        let here: GroupSet = self.views.iter().filter(can).map(|view| view.group).collect();
        if groups.is_empty() || !groups.is_within(here) {
            return Err(Refused::NotHere { groups: groups.difference(here) });
        }
        if self.n_snapshots + self.asked.len() >= SNAPSHOTS_MAX {
            return Err(Refused::SnapshotsFull);
        }
        let snapshot = Snapshot(self.next_snapshot);
        self.next_snapshot += 1;
        self.asked.push((snapshot, groups));
        Ok(snapshot)
    }

    /// Has all groups of `node`, counted from 1, continue without it, dead or alive: their
    /// primaries remove it as soon as they may ([`MemberView::voters`] shows it), and its process,
    /// if it lives, stops. A later incarnation of the node may take its seats again.
    ///
    /// A group of which too few others live keeps it until they do.
    ///
    /// # Errors
    /// [`NoRemoval`]: nothing happens.
    pub fn remove(&mut self, node: usize) -> Result<(), NoRemoval> {
        let nodes = self.places.n_nodes();
        let rank = Rank::numbered(node).filter(|rank| rank.index() < nodes);
        let Some(rank) = rank else { return Err(NoRemoval::NoSuchNode { node, nodes }) };
        let hosted = self.places.hosted(rank);
        if hosted.is_empty() {
            return Err(NoRemoval::NotMember { node });
        }
        if !self.changes_members {
            return Err(NoRemoval::Fixed);
        }
        let is_last = |group: &GroupId| {
            let view = self.views.iter().find(|view| view.group == *group);
            let voters = view.map_or(self.layout().members(*group), |view| view.voters.len());
            voters < 2 && view.is_none_or(|view| view.voters.contains(rank))
        };
        let groups: GroupSet = hosted.iter().filter(is_last).collect();
        if !groups.is_empty() {
            return Err(NoRemoval::LastMember { node, groups });
        }
        self.removals.insert(rank);
        Ok(())
    }

    /// The sender's name in its messages.
    pub const fn sender(&self) -> u64 {
        self.own.sender
    }

    /// The number in that name which no two lives of the node have.
    pub(crate) const fn lives(&self) -> u64 {
        self.own.sender >> RANK_BITS
    }
}

#[cfg(test)]
mod tests;
