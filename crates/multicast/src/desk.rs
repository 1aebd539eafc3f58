//! Where the application and the loop meet: what is multicast here, and what became of it.
//!
//! - D1 Every message that was taken gets exactly one outcome: delivered, or unknown at its
//!   deadline. By `Desk::complete` and `Desk::sweep`, which both take it out.
//! - D2 What was refused was not multicast: nothing of it left this node. By construction: the
//!   checks come first.

use crate::system::Places;
use base::{Instant, MemberSet, Rank};
use proto::amcast::wire::is_addressable;
use proto::amcast::{Footprint, GroupId, GroupSet, Layout, Message, MessageId, Timestamp};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// The longest payload.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;

/// How often deadlines are looked at: an outcome is unknown by so much later at most.
pub(crate) const SWEEP_EVERY: Duration = Duration::from_millis(5);

/// How the node's rank stands in a sender's name.
pub(crate) const RANK_BITS: u32 = 3;
const _: () = assert!(base::MAX_MEMBERS <= 1 << RANK_BITS);

/// The name under which `node` multicasts in one of its lives.
pub(crate) const fn sender_of(node: Rank, incarnation: u64) -> u64 {
    incarnation << RANK_BITS | node.index() as u64
}

/// The node of a sender's name.
pub(crate) fn node_of_sender(sender: u64) -> Option<Rank> {
    Rank::new((sender & ((1 << RANK_BITS) - 1)) as usize)
}

/// How a message is to be multicast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Its final timestamp shall be above this one (4.4.2): what its sender has seen.
    pub after: Timestamp,
    /// What it touches: where [`crate::System::commutes`] is set it may overtake, and be overtaken
    /// by, messages that touch other things.
    pub footprint: Footprint,
    /// When its sender wants to hear that nothing is known, if nothing is.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            after: Timestamp::ZERO,
            footprint: Footprint::ALL,
            patience: Duration::from_secs(10),
        }
    }
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was delivered at a destination, at this final timestamp: so every correct member of
    /// every destination delivers it.
    Delivered(Timestamp),
    /// Its deadline came first. It may still be delivered, everywhere, or never be.
    Unknown,
}

/// Why a message was not multicast. Nothing happened (D2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The destinations name no group, or one that does not exist.
    #[error("the destinations {dest:?} are not groups of this system, which has {n_groups}")]
    NoSuchGroup {
        /// What was asked for.
        dest: GroupSet,
        /// How many there are.
        n_groups: usize,
    },
    /// The payload is too long.
    #[error("a payload of {n_bytes} bytes: the longest has {PAYLOAD_BYTES_MAX}")]
    TooLong {
        /// Its length.
        n_bytes: usize,
    },
    /// Too many own messages are under way.
    #[error("{window} messages are under way from this node: wait for an outcome")]
    WindowFull {
        /// How many may be.
        window: usize,
    },
    /// A node that hosts one of the destinations lives and lags behind.
    #[error("a node of the groups {groups:?} lags behind: try again when it has caught up")]
    Lagging {
        /// The destinations that lag.
        groups: GroupSet,
    },
    /// Members of the destinations are away, and what the others keep for them fills
    /// `limits.held_bytes`.
    #[error(
        "members of the groups {groups:?} are away, and what is kept for them fills \
         limits.held_bytes: start them again, or remove them"
    )]
    Kept {
        /// The destinations that keep so much.
        groups: GroupSet,
    },
    /// This node's own application has too many deliveries to take.
    #[error("the deliveries of this node are not taken: take them first")]
    DeliveriesFull,
    /// This node is a new incarnation, and its groups have not taken it in yet.
    #[error("this node has no seat in its groups yet: wait until its members are seated")]
    NoSeat,
    /// Snapshots are of groups that have a member here, which lives by the timestamped interface.
    #[error("no member of the groups {groups:?} is here to take snapshots (PrimCast only)")]
    NotHere {
        /// Which.
        groups: GroupSet,
    },
    /// Too many snapshots are waited for.
    #[error("{SNAPSHOTS_MAX} snapshots are under way at this node: wait for one")]
    SnapshotsFull,
    /// The node has stopped.
    #[error("this node has stopped")]
    Stopped,
}

/// Why groups are not asked to go on without a node. Nothing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoRemoval {
    /// There is no such node.
    #[error("node {node} of a system of {nodes}: nodes are counted from 1")]
    NoSuchNode {
        /// What was asked for.
        node: usize,
        /// How many there are.
        nodes: usize,
    },
    /// It is a member of no group.
    #[error("node {node} is a member of no group: stop its process, and that is all")]
    NotMember {
        /// Which.
        node: usize,
    },
    /// Somebody has to be left.
    #[error("node {node} is the last member of the groups {groups:?}: seat another there first")]
    LastMember {
        /// Which.
        node: usize,
        /// Of which groups.
        groups: GroupSet,
    },
    /// Groups keep their members here.
    #[error(
        "groups keep their members here: to change them takes protocol primcast, commutes = false, \
         an application that keeps states, and no data directory"
    )]
    Fixed,
}

/// A snapshot that was promised: the name by which it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Snapshot(pub u64);

/// The most snapshots that one node waits for.
pub const SNAPSHOTS_MAX: usize = 256;

/// How one hosted member stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberView {
    /// Of which group.
    pub group: GroupId,
    /// As which member.
    pub rank: Rank,
    /// It leads its group, as far as it knows.
    pub is_primary: bool,
    /// Whom Ω trusts to lead the group.
    pub trusted: Option<Rank>,
    /// Every message with a final timestamp up to here that is addressed to the group has been
    /// handed to the application.
    pub safe_ts: Option<Timestamp>,
    /// How many it delivered.
    pub delivered: u64,
    /// It has its seat and what others have forgotten: of a node that came back as a new
    /// incarnation, when its groups have taken it in.
    pub is_seated: bool,
    /// The nodes that vote in the group, as far as it knows.
    pub voters: MemberSet,
}

/// What a node has done, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Turns of the loop.
    pub turns: u64,
    /// Of them such that slept.
    pub sleeps: u64,
    /// Messages of the fabric that were posted.
    pub frames: u64,
    /// Bytes in them.
    pub frame_bytes: u64,
    /// Records that came in frames.
    pub records: u64,
    /// Times that a member was handed something: of its own node or of another.
    pub parcels: u64,
    /// Deliveries.
    pub delivered: u64,
}

#[derive(Clone, Debug)]
struct Open {
    deadline: Instant,
    message: Arc<Message>,
}

/// The application's side of the loop. See the module's text.
#[derive(Debug)]
pub struct Desk {
    pub(crate) now: Instant,
    pub(crate) views: Vec<MemberView>,
    pub(crate) linked: MemberSet,
    /// Destinations that refuse for the moment.
    pub(crate) lagging: GroupSet,
    /// Destinations that keep too much for members that are away.
    pub(crate) kept: GroupSet,
    pub(crate) is_full: bool,
    /// All members here have their seats.
    pub(crate) is_seated: bool,
    /// Whether members can be removed.
    pub(crate) changes_members: bool,
    /// Nodes that the application wants removed.
    pub(crate) removals: MemberSet,
    pub(crate) started: Vec<Arc<Message>>,
    pub(crate) outcomes: Vec<(MessageId, Outcome)>,
    /// Snapshots that nobody has begun to take.
    pub(crate) asked: Vec<(Snapshot, GroupSet)>,
    /// How many are begun and not over in all their groups.
    pub(crate) n_snapshots: usize,
    next_snapshot: u64,
    pub(crate) figures: Figures,
    places: Places,
    sender: u64,
    window: usize,
    /// By sequence, from `first` on; those that have an outcome leave a hole.
    open: VecDeque<Option<Open>>,
    n_open: usize,
    first: u64,
    next_sweep_at: Instant,
}

impl Desk {
    pub(crate) fn new(places: &Places, sender: u64, window: usize) -> Desk {
        Desk {
            now: Instant::ZERO,
            views: Vec::new(),
            linked: MemberSet::EMPTY,
            lagging: GroupSet::EMPTY,
            kept: GroupSet::EMPTY,
            is_full: false,
            is_seated: true,
            changes_members: false,
            removals: MemberSet::EMPTY,
            started: Vec::new(),
            outcomes: Vec::new(),
            asked: Vec::new(),
            n_snapshots: 0,
            next_snapshot: 1,
            figures: Figures::default(),
            places: places.clone(),
            sender,
            window,
            open: VecDeque::new(),
            n_open: 0,
            first: 1,
            next_sweep_at: Instant::ZERO,
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

    /// How the hosted members stand, in order of groups.
    pub fn members(&self) -> &[MemberView] {
        &self.views
    }

    /// What the node has done so far.
    pub const fn figures(&self) -> Figures {
        self.figures
    }

    /// The other nodes that can be spoken to and are not believed dead.
    pub const fn linked(&self) -> MemberSet {
        self.linked
    }

    /// How many own messages have no outcome yet.
    pub const fn n_open(&self) -> usize {
        self.n_open
    }

    /// Multicasts `payload` to `dest`. Its name comes back; its outcome follows.
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
        if self.n_open >= self.window {
            return Err(Refused::WindowFull { window: self.window });
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
        let sequence = self.first + self.open.len() as u64;
        let id = MessageId { sender: self.sender, sequence };
        let Options { after, footprint, .. } = *options;
        let message = Arc::new(Message { id, dest, after, footprint, payload });
        let deadline = self.now.plus(options.patience);
        self.open.push_back(Some(Open { deadline, message: message.clone() }));
        self.n_open += 1;
        self.started.push(message);
        Ok(id)
    }

    /// Wants to see the members of `groups` that live here at one timestamp (4.4.2), without a
    /// message to anybody else's group: [`crate::Application::snapshot`] says when each of them is
    /// there. The timestamp is above that of everything that any member here has delivered, and the
    /// lowest such: it comes when the groups' clocks have passed it, two steps within each at most
    /// if nothing is pending.
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

    /// Has all groups of `node`, counted from 1, go on without it, dead or alive: their primaries
    /// remove it as soon as they may ([`MemberView::voters`] tell), and its process, if it lives,
    /// stops. A later incarnation of the node may take its seats again.
    ///
    /// A group of which too few others live keeps it until they do.
    ///
    /// # Errors
    /// [`NoRemoval`]: nothing happens.
    pub fn remove(&mut self, node: usize) -> Result<(), NoRemoval> {
        let nodes = self.places.n_nodes();
        let rank = node.checked_sub(1).filter(|at| *at < nodes).and_then(Rank::new);
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

    /// One of this node's messages was delivered somewhere (D1).
    pub(crate) fn complete(&mut self, id: MessageId, at: Timestamp) {
        if id.sender == self.sender && self.take(id.sequence) {
            self.outcomes.push((id, Outcome::Delivered(at)));
        }
    }

    fn take(&mut self, sequence: u64) -> bool {
        let at = sequence.checked_sub(self.first);
        let slot = at.and_then(|at| self.open.get_mut(usize::try_from(at).ok()?));
        let was_open = slot.is_some_and(|slot| slot.take().is_some());
        if was_open {
            self.n_open -= 1;
            while self.open.front().is_some_and(Option::is_none) {
                self.open.pop_front();
                self.first += 1;
            }
        }
        was_open
    }

    /// Ends what has waited for too long (D1).
    pub(crate) fn sweep(&mut self) {
        if self.n_open == 0 || self.now < self.next_sweep_at {
            return;
        }
        self.next_sweep_at = self.now.plus(SWEEP_EVERY);
        let late: Vec<u64> = (self.first..)
            .zip(&self.open)
            .filter(|(_, open)| open.as_ref().is_some_and(|open| open.deadline <= self.now))
            .map(|(sequence, _)| sequence)
            .collect();
        for sequence in late {
            self.take(sequence);
            let id = MessageId { sender: self.sender, sequence };
            self.outcomes.push((id, Outcome::Unknown));
        }
    }

    /// Under which name it multicasts.
    pub(crate) const fn sender(&self) -> u64 {
        self.sender
    }

    /// Own messages without an outcome.
    pub(crate) fn open(&self) -> impl Iterator<Item = &Arc<Message>> {
        self.open.iter().flatten().map(|open| &open.message)
    }

    /// When [`Desk::sweep`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let first = self.open.iter().flatten().map(|open| open.deadline).min();
        first.map(|at| at.max(self.next_sweep_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::{FabricKind, Limits, Order, Protocol, System};

    fn desk(window: usize) -> Desk {
        let system = System {
            cluster: "test".into(),
            secret: "sesame".into(),
            protocol: Protocol::Primcast,
            order: Order::Plain,
            fabric: FabricKind::Shm,
            directory: "/dev/shm/none".into(),
            nodes: 1,
            addresses: Vec::new(),
            groups: vec![vec![1], vec![1]],
            commutes: false,
            clock_error_us: None,
            clock_by: Default::default(),
            limits: Limits::default(),
        };
        Desk::new(&system.check().unwrap(), sender_of(Rank::at(0), 1), window)
    }

    #[test]
    fn d1_each_message_gets_one_outcome() {
        let mut desk = desk(10);
        let options = Options { patience: Duration::from_millis(10), ..Options::default() };
        let dest = GroupSet::all(2);
        let ids: Vec<_> = (0..3).map(|_| desk.multicast(dest, *b"x", &options).unwrap()).collect();
        let of_an_earlier_life = MessageId { sender: sender_of(Rank::at(0), 0), ..ids[0] };
        desk.complete(of_an_earlier_life, Timestamp(3));
        desk.complete(ids[1], Timestamp(4));
        desk.complete(ids[1], Timestamp(4));
        desk.now = Instant::ZERO.plus(Duration::from_millis(20));
        assert!(desk.deadline().is_some_and(|at| at <= desk.now));
        desk.sweep();
        desk.complete(ids[0], Timestamp(5));
        let expected = [
            (ids[1], Outcome::Delivered(Timestamp(4))),
            (ids[0], Outcome::Unknown),
            (ids[2], Outcome::Unknown),
        ];
        assert_eq!(desk.outcomes, expected);
        assert_eq!((desk.n_open(), desk.deadline()), (0, None));
        assert!(desk.multicast(dest, *b"x", &options).unwrap() > ids[2], "names rise");
    }

    #[test]
    fn d2_what_is_refused_leaves_nothing_behind() {
        let mut desk = desk(1);
        let options = Options::default();
        let both = GroupSet::all(2);
        for dest in [GroupSet::EMPTY, GroupSet::all(3)] {
            let refused = desk.multicast(dest, *b"x", &options);
            assert_eq!(refused, Err(Refused::NoSuchGroup { dest, n_groups: 2 }));
        }
        let long = vec![0; PAYLOAD_BYTES_MAX + 1];
        let n_bytes = long.len();
        assert_eq!(desk.multicast(both, long, &options), Err(Refused::TooLong { n_bytes }));
        desk.lagging = GroupId::at(1).alone();
        let groups = desk.lagging;
        assert_eq!(desk.multicast(both, *b"x", &options), Err(Refused::Lagging { groups }));
        (desk.lagging, desk.kept) = (GroupSet::EMPTY, groups);
        assert_eq!(desk.multicast(both, *b"x", &options), Err(Refused::Kept { groups }));
        assert!(desk.started.is_empty() && desk.n_open() == 0, "D2");
        assert!(desk.multicast(GroupId::at(0).alone(), *b"x", &options).is_ok());
        let refused = desk.multicast(GroupId::at(0).alone(), *b"x", &options);
        assert_eq!(refused, Err(Refused::WindowFull { window: 1 }));
        assert_eq!(desk.started.len(), 1, "D2");
    }

    #[test]
    fn d2_who_has_no_seat_yet_multicasts_nothing() {
        let mut desk = desk(1);
        desk.is_seated = false;
        let dest = GroupSet::all(2);
        assert_eq!(desk.multicast(dest, *b"x", &Options::default()), Err(Refused::NoSeat));
        assert!(desk.started.is_empty(), "D2");
        desk.is_seated = true;
        assert!(desk.multicast(dest, *b"x", &Options::default()).is_ok());
    }

    #[test]
    fn a_removal_is_refused_with_its_reason() {
        let mut desk = desk(1);
        for node in [0, 2] {
            assert_eq!(desk.remove(node), Err(NoRemoval::NoSuchNode { node, nodes: 1 }));
        }
        assert_eq!(desk.remove(1), Err(NoRemoval::Fixed));
        desk.changes_members = true;
        let groups = GroupSet::all(2);
        assert_eq!(desk.remove(1), Err(NoRemoval::LastMember { node: 1, groups }));
        assert!(desk.removals.is_empty());
    }

    #[test]
    fn a_sender_names_its_node() {
        for node in Rank::all(base::MAX_MEMBERS) {
            assert_eq!(node_of_sender(sender_of(node, 3)), Some(node));
            assert_ne!(sender_of(node, 3), sender_of(node, 4));
        }
    }
}
