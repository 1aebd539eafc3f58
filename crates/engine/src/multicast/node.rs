//! One node: every member that lives here, fed from below, and the application above it.
//!
//! ```text
//! turn:  application -> START; poll the fabric; records -> members -> records
//!        deliveries and outcomes -> application; send, once per peer
//! ```
//! Production and the simulator run this code alike. They differ in the [`Ground`] below, and in
//! the loop that calls [`Node::turn`]: again while something happens, then at [`Node::due`].
//!
//! - N1 Links between members are FIFO and lose nothing between live nodes (the machines' T1, T2):
//!   between nodes by `stream.rs`, within a node by one queue.
//! - N2 Work per turn is bounded. By construction: a poll brings a bounded number of messages, and
//!   at most [`LOCAL_MAX`] parcels between members are handed over.
//! - N4 A node that others have given up stops: its members would wait for records that no node
//!   keeps.
//! - N5 With a disk, the sends and deliveries of a turn leave the node when its changes are synced
//!   (`journal.rs`). The first whole of a life is synced before any other node hears of that life.
//! - N6 to N8: incarnations (`lives`). N9 to N12: states of all groups together (`joint`). N13 to
//!   N15: nodes that are given up (`majority`).

mod begin;
mod behind;
mod joint;
mod lives;
mod majority;
mod records;
mod rest;
mod snapshots;
#[cfg(test)]
mod tests;

pub use begin::{Beginning, Origin, Setup};

use crate::ground::Ground;
use crate::multicast::application::{Application, Delivery};
use crate::multicast::bugs::Bug;
use crate::multicast::desk::{Desk, node_of_sender};
use crate::multicast::journal::{Held, Journal};
use crate::multicast::member::{Member, whole};
use crate::multicast::repeats::Repeats;
use crate::multicast::stop::StopError;
use crate::multicast::stream::End;
use crate::multicast::world::{ByMember, Handed, Parcel, Record, Stage, World};
use base::{FABRIC_SEATS_MAX, Inbox, Instant, Rank, SeatSet};
use core::time::Duration;
use proto::amcast::{
    AFTER_MAX, GroupId, GroupSet, MAX_GROUPS, MessageId, Multicast, Place, Timestamp,
};
use proto::disk::DiskEvent;
use proto::omega;
use proto::planted::{Planting, Sound};

/// The interval at which members' deadlines are checked while there is work.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// The interval at which a peer is told what was processed, if nothing else is sent.
const TELL_EVERY: Duration = Duration::from_millis(10);
/// The most parcels between members of this node that are handed over before the fabric is polled.
const LOCAL_MAX: usize = 4096;

/// The number of words of protocol memory that a node of a system of `n_groups` needs.
pub const fn n_words(n_groups: usize) -> u32 {
    omega::N_WORDS * n_groups as u32 + 1
}

/// One node; see the module's text.
#[derive(Debug)]
pub struct Node<M: Multicast, A, P = Sound> {
    members: Vec<Member<M>>,
    /// The index in `members` of each group's member.
    member_of: [Option<u8>; MAX_GROUPS],
    world: World<M::Wire, P>,
    desk: Desk,
    app: A,
    /// The deliveries that are being handed over.
    deliveries: Vec<Handed>,
    cuts: snapshots::Cuts,
    /// The records on the node's disk, for everything that it has to remember.
    journal: Option<Journal>,
    /// The number of deliveries that may be handed over.
    n_released: u64,
    n_handed: u64,
    changes: Vec<(GroupId, Vec<u8>)>,
    inbox: Inbox,
    of_disk: Vec<DiskEvent>,
    /// The incarnation of each node up to which groups must remove it (N8).
    removals: [u64; FABRIC_SEATS_MAX],
    /// The states on their way.
    joint: joint::Joint,
    /// The nodes that have sent something.
    heard: SeatSet,
    /// The recent questions of other nodes.
    repeats: Repeats,
    /// The groups whose member here received something since it settled.
    touched: GroupSet,
    look_at: Instant,
    tell_at: Instant,
}

impl<M: Multicast, A: Application, P: Planting<Bug>> Node<M, A, P> {
    /// The application.
    pub const fn application(&mut self) -> &mut A {
        &mut self.app
    }

    /// The application, to look at.
    pub const fn app(&self) -> &A {
        &self.app
    }

    /// The application and its desk, for its work between turns.
    pub const fn at_desk(&mut self) -> (&mut A, &mut Desk) {
        (&mut self.app, &mut self.desk)
    }

    /// The same at a later time.
    pub const fn at_desk_now(&mut self, now: Instant) -> (&mut A, &mut Desk) {
        self.desk.now = now;
        self.at_desk()
    }

    /// The application's desk, to look at.
    pub const fn desk(&self) -> &Desk {
        &self.desk
    }

    /// The nodes that are no longer spoken to, and why.
    pub fn ended(&self) -> impl Iterator<Item = (Rank, End)> + '_ {
        let nodes = Rank::all(self.world.places.n_nodes());
        nodes.filter_map(|node| Some((node, self.world.streams.ended(node)?)))
    }

    /// Those of them that were given up since they lagged, and have not come back since.
    pub fn left(&self) -> SeatSet {
        self.world.streams.left()
    }

    /// Whether others have dropped messages that members here have not delivered.
    pub fn is_behind(&self) -> bool {
        self.members.iter().any(|member| member.machine.is_behind())
    }

    /// The groups of the members here, with the place up to which each has delivered, and the one
    /// below which others of its group may have forgotten, as far as it knows.
    pub fn stands(&self) -> impl Iterator<Item = (GroupId, Place, Place)> + '_ {
        let stand = |member: &Member<M>| {
            (member.pid.group, member.machine.delivered_upto(), member.machine.floor())
        };
        self.members.iter().map(stand)
    }

    /// Ends the node.
    pub fn into_application(self) -> A {
        self.app
    }

    /// Begins the turns of a loop's round at `now`, for the application too.
    pub const fn begin_round(&mut self, now: Instant) {
        self.desk.figures.turns += 1;
        self.desk.now = now;
    }

    /// Notes that the loop sleeps.
    pub const fn note_sleep(&mut self) {
        self.desk.figures.sleeps += 1;
    }

    /// One turn: everything that is possible without waiting, once. True if something happened.
    ///
    /// # Errors
    /// The node has to stop (N4).
    pub fn turn(&mut self, now: Instant, ground: &mut impl Ground) -> Result<bool, StopError> {
        self.desk.now = now;
        if self.is_held(ground)? {
            self.app.held(&mut self.desk);
            return Ok(false);
        }
        let mut worked = self.app.turn(&mut self.desk);
        worked |= self.begin_snapshots();
        worked |= self.take_removals();
        let installs = self.install_states(ground)?;
        if installs && self.journal.is_some() {
            // What this turn would note is of the states' moment: behind an unfinished whole it
            // would continue the one before (N12).
            return Ok(true);
        }
        worked |= installs;
        worked |= self.start();
        worked |= self.poll(ground);
        let waits = self.journal.as_ref().is_some_and(Journal::is_behind);
        self.desk.is_full = self.app.is_full() || waits;
        if !self.desk.is_full {
            worked |= self.take_records();
            worked |= self.take_local();
        }
        self.mind_time(ground);
        self.settle();
        self.keep(ground);
        worked |= self.hand_over();
        let tells = now >= self.tell_at;
        if tells {
            self.tell_at = now.plus(TELL_EVERY);
        }
        self.weigh()?;
        self.world.streams.send(ground, tells);
        ground.flush();
        self.desk.figures.frames = self.world.streams.n_frames;
        self.desk.figures.frame_bytes = self.world.streams.n_bytes;
        self.check_life()?;
        // A parcel that a tick or Ω had one member send to another is work, too: no loop sleeps
        // before it.
        Ok(worked || !self.world.local.is_empty() && !self.desk.is_full)
    }

    /// Whether the node stands still until its disk has taken more (K4, N5, N12).
    fn is_held(&mut self, ground: &mut impl Ground) -> Result<bool, StopError> {
        let Some(journal) = self.journal.as_mut().filter(|journal| journal.holds()) else {
            return Ok(false);
        };
        let now = self.desk.now;
        let released = pump(journal, now, ground, &mut self.of_disk);
        if journal.is_late(now) {
            return Err(StopError::SilentDisk);
        }
        let holds = journal.holds();
        self.release(released);
        Ok(holds)
    }

    /// Ends the batch of a turn's records: the members answer it together.
    fn settle(&mut self) {
        for group in std::mem::take(&mut self.touched).iter() {
            let Some(at) = self.member_of[group.index()] else { continue };
            let member = &mut self.members[usize::from(at)];
            self.world.acting = member.pid;
            let mut stage = Stage { world: &mut self.world, app: &mut self.app };
            member.machine.settle(self.desk.now, &mut stage);
            if self.journal.is_some() {
                let mut changes = Vec::new();
                member.machine.changes(&mut changes);
                if !changes.is_empty() {
                    self.changes.push((member.pid.group, changes));
                }
            }
        }
    }

    /// Writes the changes of the turn, and releases the output that may leave (N5).
    fn keep(&mut self, ground: &mut impl Ground) {
        let (Some(journal), Some(disk)) = (&mut self.journal, ground.disk()) else {
            self.n_released = self.world.n_delivered;
            return;
        };
        let (members, world, n_handed) = (&self.members, &self.world, self.n_handed);
        let held = || Held {
            marks: world.streams.marks(),
            n_delivered: world.n_delivered,
            views: members.iter().map(Member::view).collect(),
        };
        let is_news = world.streams.holds() || n_handed < world.n_delivered;
        let waits = journal.keep(disk, world.streams.disks(), &self.changes, || {
            (is_news || !self.changes.is_empty()).then(held)
        });
        if self.world.planted.has(Bug::EarlierSyncReleases) {
            journal.backdate();
        }
        let is_free = !waits || self.world.planted.has(Bug::HandedBeforeSync);
        let released = is_free.then(held);
        self.changes.clear();
        if journal.wants_whole(disk) {
            let lives = self.desk.lives();
            let whole = whole(lives, &mut self.members, &self.world, &mut self.app);
            journal.begin_whole(disk, &whole);
            if self.world.planted.has(Bug::FreedEarly) {
                journal.free_early(disk);
            }
        }
        let later = pump(journal, self.desk.now, ground, &mut self.of_disk);
        self.release(later.or(released));
    }

    fn release(&mut self, released: Option<Held>) {
        if let Some(Held { marks, n_delivered, views }) = released {
            self.world.streams.release(&marks);
            self.n_released = self.n_released.max(n_delivered);
            self.desk.views = views;
        }
    }

    /// Sends the application's messages to their destinations.
    fn start(&mut self) -> bool {
        let worked = !self.desk.own.started.is_empty();
        // This comes before anything new, so that messages under way are sent in their order.
        for node in self.world.streams.take_renewed().iter() {
            if !self.world.planted.has(Bug::NothingIsStartedAgain) {
                self.world.start_again(node, self.desk.own.open());
            }
            self.repeat_removals(node);
        }
        let started = std::mem::take(&mut self.desk.own.started);
        for message in &started {
            self.world.start(message);
            if self.world.planted.has(Bug::CompletedEarly) {
                self.desk.own.complete(message.id, Timestamp::ZERO);
            }
        }
        self.desk.own.started = started;
        self.desk.own.started.clear();
        worked
    }

    fn on_record(&mut self, from: Rank, record: Record<M::Wire>) {
        self.desk.figures.records += 1;
        match record {
            Record::Parcel(to, parcel) => self.hand(to, &parcel),
            Record::Done(id, at) => self.complete(id, at),
            Record::Remove(node, incarnation) => self.want_removed(node, incarnation),
            Record::Ask(n, stands) => self.give_states(from, n, &stands),
            Record::Next(n, at) => self.give_piece(from, n, at),
            Record::Piece(n, at, of, bytes) => self.take_piece(from, n, (at, of), &bytes),
            Record::Which(named) => self.on_ask(from, named),
            Record::Has(named) => self.on_has(&named),
        }
    }

    /// Hands over the parcels between members of this node, in order (N1).
    fn take_local(&mut self) -> bool {
        let mut n = 0;
        while n < LOCAL_MAX
            && let Some((to, parcel)) = self.world.local.pop_front()
        {
            self.hand(to, &parcel);
            n += 1;
        }
        n > 0
    }

    fn hand(&mut self, to: GroupSet, parcel: &Parcel<M::Wire>) {
        let now = self.desk.now;
        self.touched = self.touched.union(to);
        for group in to.iter() {
            let Some(at) = self.member_of[group.index()] else { continue };
            let member = &mut self.members[usize::from(at)];
            self.desk.figures.parcels += 1;
            self.world.acting = member.pid;
            let stage = &mut Stage { world: &mut self.world, app: &mut self.app };
            match parcel {
                Parcel::Start(message) => {
                    let after = message.after;
                    assert!(after <= AFTER_MAX, "T5: {:?} asks for {after:?}", message.id);
                    member.machine.on_start(message, now, stage);
                }
                Parcel::Wire(from, wire) => {
                    member.machine.on_wire(*from, wire, now, stage);
                }
            }
        }
    }

    /// Handles Ω, deadlines of members, deadlines of senders, and lagging nodes.
    fn mind_time(&mut self, ground: &mut impl Ground) {
        let now = self.desk.now;
        self.desk.own.sweep(self.desk.now);
        self.look_behind();
        if now < self.look_at {
            return;
        }
        self.look_at = now.plus(LOOK_EVERY);
        self.mind_states();
        let takes_nothing = self.journal.as_ref().is_some_and(|journal| journal.is_in_trouble(now))
            && !self.world.planted.has(Bug::LeadsWhileStalled);
        let leaves = self.is_leaving() || self.rests() || takes_nothing;
        for member in &mut self.members {
            member.follow_members(leaves);
            member.is_seated |= self.world.planted.has(Bug::CountsEarly);
            self.world.acting = member.pid;
            let mut port = ByMember { fabric: &mut *ground, nodes: &member.nodes };
            member.omega.poll(now, &mut port);
            let never_ticks = self.world.planted.has(Bug::NeverTicks);
            let stage = &mut Stage { world: &mut self.world, app: &mut self.app };
            if let Some(leader) = member.omega.trusted() {
                member.machine.trust(leader, now, stage);
            }
            if member.machine.deadline().is_some_and(|at| at <= now) && !never_ticks {
                member.machine.tick(now, stage);
            }
            self.touched.insert(member.pid.group);
        }
        self.remove_members();
        self.note_kept();
        self.desk.is_seated = self.members.iter().all(|member| member.is_seated);
        let places = &self.world.places;
        let nodes = Rank::all(places.n_nodes());
        // A hung node delays no other, like a dead one: until it is given up everything is kept for
        // it.
        let hangs = |node| self.members.iter().any(|member| member.misses(node));
        let lagging = nodes.filter(|node| self.world.streams.is_behind(*node) && !hangs(*node));
        self.desk.lagging =
            lagging.fold(GroupSet::EMPTY, |all, node| all.union(places.hosted(node)));
    }

    /// Hands deliveries and outcomes to the application.
    fn hand_over(&mut self) -> bool {
        let n = (self.n_released - self.n_handed) as usize;
        self.n_handed = self.n_released;
        if let Some(journal) = &mut self.journal {
            journal.hand(self.n_handed);
        }
        self.deliveries.extend(self.world.delivered.drain(..n));
        let worked = !self.deliveries.is_empty() || !self.desk.own.outcomes.is_empty();
        let mut deliveries = std::mem::take(&mut self.deliveries);
        for handed in deliveries.drain(..) {
            match handed {
                Handed::Delivery(delivery) => self.deliver(delivery),
                Handed::Cut(group, at, cut) => self.on_cut(group, at, cut),
                Handed::State(group, state) => {
                    self.app.install(group, &state.app, &mut self.desk);
                    for (at, message) in state.since {
                        self.deliver(Delivery { group, message, at });
                    }
                }
            }
        }
        self.deliveries = deliveries;
        let mut outcomes = std::mem::take(&mut self.desk.own.outcomes);
        for (id, outcome) in outcomes.drain(..) {
            self.app.outcome(id, outcome, &mut self.desk);
        }
        outcomes.append(&mut self.desk.own.outcomes);
        self.desk.own.outcomes = outcomes;
        self.refresh_views();
        worked
    }

    fn deliver(&mut self, delivery: Delivery) {
        let group = delivery.group.index();
        let at = self.member_of[group].expect("only members that live here deliver");
        self.members[usize::from(at)].delivered += 1;
        self.desk.figures.delivered += 1;
        self.world.report(&delivery);
        let (id, ts) = (delivery.message.id, delivery.at);
        let of = delivery.group;
        self.app.deliver(delivery, &mut self.desk);
        self.complete(id, ts);
        self.desk.own.settle(id.sender, &[id.sequence], of);
    }

    /// Ends an own message that was delivered somewhere.
    fn complete(&mut self, id: MessageId, at: Timestamp) {
        let own = self.desk.sender();
        let is_of_this_node = node_of_sender(id.sender) == node_of_sender(own);
        let is_mistaken = is_of_this_node && self.world.planted.has(Bug::EarlierLifeEnds);
        self.desk.own.complete(if is_mistaken { MessageId { sender: own, ..id } } else { id }, at);
    }

    /// Refreshes the members' states; only messages that were handed over count as delivered.
    fn refresh_views(&mut self) {
        self.desk.linked = self.world.streams.linked();
        if self.journal.is_none() {
            self.desk.views.clear();
            self.desk.views.extend(self.members.iter().map(Member::view));
        }
    }
}

/// Gives the disk what it has room for, and takes its news: the newest output that may leave.
fn pump(
    journal: &mut Journal,
    now: Instant,
    ground: &mut impl Ground,
    events: &mut Vec<DiskEvent>,
) -> Option<Held> {
    journal.write(ground.disk()?);
    ground.poll_disk(now, events);
    let released = journal.hear(ground.disk()?, events, now);
    events.clear();
    released
}
