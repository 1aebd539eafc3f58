//! The loop of one node: one thread runs every member that lives here, and sleeps when there is
//! nothing to do.
//!
//! ```text
//! turn:  ready descriptors -> application
//!        repeat while something happens:
//!            application -> START; poll the fabric; records -> members -> records
//!            deliveries and outcomes -> application; send, once per peer
//! idle:  spin a little; announce the sleep; look once more; wait
//! ```
//! - N1 Links between members are FIFO and lose nothing between live nodes (the machines' T1, T2):
//!   between nodes by `stream.rs`, within a node by one queue.
//! - N2 Work per turn is bounded: a poll brings a bounded number of messages, and a turn repeats at
//!   most `REPEATS_MAX` times.
//! - N3 The loop never sleeps while there is work: between `prepare_sleep` and the wait everything
//!   is looked at once more (fabric T9), and the wait ends at the earliest deadline.
//! - N5 With a data directory, the sends and deliveries of a turn leave the node when its changes
//!   are synced (`disk.rs`). The first whole of a life is synced before any other node hears of
//!   that life.
//! - N4 A node that others have given up stops: its members would wait for records that no node
//!   keeps.
//! - N6 to N8: incarnations (`lives`). N9 to N12: states of all groups together (`joint`).

mod behind;
mod joint;
mod lives;
mod records;
mod rest;
mod snapshots;

pub(crate) use lives::Origin;

use crate::application::{Application, Delivery};
use crate::clock::Attested;
use crate::desk::{Desk, Snapshot, sender_of};
use crate::disk::{Held, Journal};
use crate::member::{Member, comes_back, whole};
use crate::repeats::Repeats;
use crate::stream::{End, Streams, Who};
use crate::system::{Places, System};
use crate::world::{ByMember, Handed, Parcel, Record, Stage, World};
use base::{At, Inbox, Instant, MAX_MEMBERS, MemberSet, Rank};
use fabric::Fabric;
use proto::amcast::{AFTER_MAX, FOUNDER, GroupId, GroupSet, MAX_GROUPS, Multicast, Timestamp};
use proto::omega::{self, Omega, Timing};
use proto::planted::Sound;
use runtime::clock::Clock;
use runtime::{Interest, Poller, Ready};
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The bound of N2.
const REPEATS_MAX: usize = 64;
/// The bound of the application's keys, which are below it.
pub const APPLICATION_KEYS: u64 = u64::MAX - 16;
const KEY_FABRIC: u64 = u64::MAX;
const KEY_DISK: u64 = u64::MAX - 1;
/// The longest sleep.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// The interval at which members' deadlines are checked while there is work.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// The interval at which a peer is told what was processed, if nothing else is sent.
const TELL_EVERY: Duration = Duration::from_millis(10);
/// The most parcels between members of this node that are handed over before the fabric is polled.
const LOCAL_MAX: usize = 4096;

/// The number of words of protocol memory that a node of `system` needs.
pub fn n_words(system: &System) -> u32 {
    lives::place(system).0 + 1
}

/// One node; see the module's text.
#[derive(Debug)]
pub struct Node<F, M: Multicast, A> {
    fabric: F,
    members: Vec<Member<M>>,
    /// The index in `members` of each group's member.
    member_of: [Option<u8>; MAX_GROUPS],
    world: World<M::Wire>,
    desk: Desk,
    app: A,
    /// The deliveries that are being handed over.
    deliveries: Vec<Handed>,
    /// The snapshots that wait for a cut of one group at one timestamp.
    cuts: BTreeMap<(GroupId, Timestamp), Vec<Snapshot>>,
    /// The number of groups that are still missing in each snapshot.
    snapshots: BTreeMap<Snapshot, usize>,
    /// The node's disk, for everything that it has to remember.
    journal: Option<Journal>,
    /// The number of deliveries that may be handed over.
    n_released: u64,
    n_handed: u64,
    changes: Vec<(GroupId, Vec<u8>)>,
    inbox: Inbox,
    /// The incarnation of each node up to which groups must remove it (N8).
    removals: [u64; MAX_MEMBERS],
    /// The states on their way.
    joint: joint::Joint,
    /// The nodes that have sent something.
    heard: MemberSet,
    /// The recent questions of other nodes.
    repeats: Repeats,
    /// The groups whose member here received something since it settled.
    touched: GroupSet,
    poller: Poller,
    ready: Vec<Ready>,
    clock: Clock,
    spin: Duration,
    last_work_at: Instant,
    look_at: Instant,
    tell_at: Instant,
}

impl<F: Fabric, M: Multicast<Planted = Sound>, A: Application> Node<F, M, A> {
    /// Node `me` of a system, with an application. `fabric` joins the system's nodes and gives each
    /// [`n_words`] words.
    ///
    /// # Errors
    /// No descriptors left, or the application's error at its beginning; a disk that fails.
    pub fn new(
        system: &System,
        places: &Places,
        me: Rank,
        fabric: F,
        app: A,
    ) -> io::Result<Node<F, M, A>> {
        Node::begin(system, places, me, fabric, app, Origin::Founder)
    }

    /// A node that may have run before.
    pub(crate) fn begin(
        system: &System,
        places: &Places,
        me: Rank,
        mut fabric: F,
        mut app: A,
        origin: Origin,
    ) -> io::Result<Node<F, M, A>> {
        let poller = Poller::new()?;
        poller.add(fabric.wait_fd(), KEY_FABRIC, Interest::Read)?;
        app.begin(&poller)?;
        let limits = &system.limits;
        // The value is unique among the lives of a node as long as its clock is not set back
        // between them.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let life = since.as_nanos() as u64;
        let incarnation = lives::begin(&mut fabric, system, &origin)?;
        let (mut journal, found) = match origin {
            Origin::Founder | Origin::Newcomer => (None, None),
            Origin::Disk(journal, found) => (Some(*journal), found),
        };
        let disk = journal.as_ref().map_or(0, Journal::disk);
        let who = Who { incarnation, life, disk };
        let mut streams = Streams::new(me, who, limits.kept_bytes, limits.backlog_bytes);
        let changes_members = M::CHANGES_MEMBERS
            && journal.is_none()
            && !system.commutes
            && app.takes_states_of_others();
        if changes_members {
            streams.take_newcomers();
        }
        let config = system.config(places);
        let timing = Timing {
            suspect_after: Duration::from_millis(limits.suspect_ms),
            heartbeat_every: Duration::from_millis(limits.suspect_ms / 15)
                .clamp(Duration::from_millis(1), Timing::default().heartbeat_every),
        };
        let mut member_of = [None; MAX_GROUPS];
        let mut members = Vec::new();
        let hosted = places.hosted(me).iter().filter_map(|group| places.member(me, group));
        for (at, pid) in hosted.enumerate() {
            member_of[pid.group.index()] = Some(at as u8);
            let nodes = places.nodes_of(pid.group).to_vec();
            let base = At(omega::N_WORDS * pid.group.index() as u32);
            // The memory of a dead member is of no use: members communicate by messages.
            let omega = Omega::new(pid.rank, nodes.len(), base, timing, false, true);
            let machine = lives::machine::<M>(&config, pid, incarnation)?;
            members.push(Member::new(pid, machine, omega, nodes, incarnation == FOUNDER));
        }
        let attested = |us: u64| Attested::new(us.saturating_mul(1000), system.clock_by);
        let clock = system.clock_error_us.map(attested);
        let mut world = World::new(me, places.clone(), streams, clock);
        world.kept_bytes_max = limits.held_bytes;
        // The base of message names: no two lives of a node have the same.
        let lives = found.as_ref().map_or(0, |found| found.lives) + incarnation.0;
        if let Some(found) = found {
            world.streams.know_disks(&found.disks);
            for member in &mut members {
                comes_back(member, &config, &found, &mut world, &mut app)?;
            }
        }
        if let Some(journal) = &mut journal {
            poller.add(journal.wait_fd(), KEY_DISK, Interest::Read)?;
            // The first whole is synced before other nodes hear of this life (N5).
            journal.begin_whole(&whole(lives, &mut members, &world, &mut app));
            journal.finish()?;
            journal.hand(world.n_delivered);
        }
        let mut desk = Desk::new(places, sender_of(me, lives), limits.window);
        desk.changes_members = changes_members;
        desk.span = desk.span.filter(|_| M::FORGETS_NAMES);
        desk.is_seated = members.iter().all(|member| member.is_seated);
        let mut node = Node {
            fabric,
            members,
            member_of,
            n_released: world.n_delivered,
            n_handed: 0,
            changes: Vec::new(),
            journal,
            world,
            desk,
            removals: [0; MAX_MEMBERS],
            app,
            deliveries: Vec::new(),
            cuts: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            inbox: Inbox::new(),
            joint: joint::Joint::default(),
            heard: MemberSet::EMPTY,
            repeats: Repeats::new(Duration::from_millis(limits.patience_ms)),
            touched: GroupSet::EMPTY,
            poller,
            ready: Vec::new(),
            clock: Clock::start(),
            spin: limits.spin(),
            last_work_at: Instant::ZERO,
            look_at: Instant::ZERO,
            tell_at: Instant::ZERO,
        };
        if incarnation > FOUNDER {
            node.meet(me);
        }
        Ok(node)
    }
}

impl<F: Fabric, M: Multicast, A: Application> Node<F, M, A> {
    /// The application.
    pub const fn application(&mut self) -> &mut A {
        &mut self.app
    }

    /// The application and its desk, for its work between turns.
    pub const fn at_desk(&mut self) -> (&mut A, &mut Desk) {
        (&mut self.app, &mut self.desk)
    }

    /// The nodes that are no longer spoken to, and why.
    pub fn ended(&self) -> impl Iterator<Item = (Rank, End)> + '_ {
        let nodes = Rank::all(self.world.places.n_nodes());
        nodes.filter_map(|node| Some((node, self.world.streams.ended(node)?)))
    }

    /// Ends the node; the caller then closes its fabric in the way that it wants.
    pub fn into_parts(self) -> (F, A) {
        (self.fabric, self.app)
    }

    /// Runs until `stop` returns true; it is called once a turn.
    ///
    /// # Errors
    /// The kernel's error in the wait itself; or others have given this node up (N4).
    pub fn run(&mut self, mut stop: impl FnMut(&mut A) -> bool) -> io::Result<()> {
        while !stop(&mut self.app) {
            self.turn()?;
        }
        Ok(())
    }

    /// One turn: waits if there is nothing to do.
    ///
    /// # Errors
    /// As of [`Node::run`].
    pub fn turn(&mut self) -> io::Result<()> {
        self.desk.figures.turns += 1;
        self.desk.now = self.clock.now();
        let looks = self.desk.now.since(self.last_work_at) <= self.spin;
        if looks {
            self.poller.wait(Some(Duration::ZERO), &mut self.ready)?;
        } else {
            // Announce the sleep, look once more, and only then wait (N3).
            self.fabric.prepare_sleep();
            let timeout = if self.advance()? { Duration::ZERO } else { self.sleep_for() };
            self.desk.figures.sleeps += u64::from(!timeout.is_zero());
            self.poller.wait(Some(timeout), &mut self.ready)?;
            self.fabric.awake();
        }
        self.desk.now = self.clock.now();
        let mut worked = false;
        for at in 0..self.ready.len() {
            let ready = self.ready[at];
            if ready.key < APPLICATION_KEYS {
                self.app.on_ready(ready, &self.poller, &mut self.desk);
                worked = true;
            }
        }
        for _ in 0..REPEATS_MAX {
            if !self.advance()? {
                break;
            }
            worked = true;
            self.desk.now = self.clock.now();
        }
        if worked {
            self.last_work_at = self.desk.now;
        }
        if self.world.has_garbage {
            return Err(io::Error::other("a member gave an invalid state: update all nodes"));
        }
        self.check_life()
    }

    /// Performs everything that is possible without waiting, once. True if something happened.
    fn advance(&mut self) -> io::Result<bool> {
        let mut worked = self.app.turn(&self.poller, &mut self.desk);
        worked |= self.begin_snapshots();
        worked |= self.take_removals();
        worked |= self.install_states()?;
        worked |= self.start();
        worked |= self.poll();
        let waits = self.journal.as_ref().is_some_and(Journal::is_behind);
        self.desk.is_full = self.app.is_full() || waits;
        if !self.desk.is_full {
            worked |= self.take_records();
            worked |= self.take_local();
        }
        self.mind_time();
        self.settle();
        self.keep()?;
        worked |= self.hand_over();
        let tells = self.desk.now >= self.tell_at;
        if tells {
            self.tell_at = self.desk.now.plus(TELL_EVERY);
        }
        self.world.streams.send(&mut self.fabric, tells);
        self.fabric.flush();
        self.desk.figures.frames = self.world.streams.n_frames;
        self.desk.figures.frame_bytes = self.world.streams.n_bytes;
        // A parcel that a tick or Ω had one member send to another is work, too (N3).
        Ok(worked || !self.world.local.is_empty() && !self.desk.is_full)
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
    fn keep(&mut self) -> io::Result<()> {
        let Some(journal) = &mut self.journal else {
            self.n_released = self.world.n_delivered;
            return Ok(());
        };
        let now = self.desk.now;
        let (members, world, n_handed) = (&self.members, &self.world, self.n_handed);
        let held = || Held {
            marks: world.streams.marks(),
            n_delivered: world.n_delivered,
            views: members.iter().map(Member::view).collect(),
        };
        let is_news = world.streams.holds() || n_handed < world.n_delivered;
        let waits = journal.keep(&world.streams.disks(), &self.changes, || {
            (is_news || !self.changes.is_empty()).then(held)
        })?;
        let mut released = (!waits).then(held);
        self.changes.clear();
        if journal.wants_whole() {
            let lives = self.desk.sender() >> crate::desk::RANK_BITS;
            journal.begin_whole(&whole(lives, &mut self.members, &self.world, &mut self.app));
        }
        released = journal.pump(now)?.or(released);
        if let Some(Held { marks, n_delivered, views }) = released {
            self.world.streams.release(&marks);
            self.n_released = self.n_released.max(n_delivered);
            self.desk.views = views;
        }
        Ok(())
    }

    /// Sends the application's messages to their destinations.
    fn start(&mut self) -> bool {
        let worked = !self.desk.started.is_empty();
        // This comes before anything new, so that messages under way are sent in their order.
        for node in self.world.streams.take_renewed().iter() {
            self.world.start_again(node, self.desk.open());
        }
        for message in self.desk.started.drain(..) {
            self.world.start(&message);
        }
        worked
    }

    fn on_record(&mut self, from: Rank, record: Record<M::Wire>) {
        self.desk.figures.records += 1;
        match record {
            Record::Parcel(to, parcel) => self.hand(to, &parcel),
            Record::Done(id, at) => self.desk.complete(id, at),
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
    fn mind_time(&mut self) {
        let now = self.desk.now;
        self.desk.sweep();
        self.look_behind();
        if now < self.look_at {
            return;
        }
        self.look_at = now.plus(LOOK_EVERY);
        self.mind_states();
        let leaves = self.is_leaving() || self.rests();
        for member in &mut self.members {
            member.follow_members(leaves);
            self.world.acting = member.pid;
            let mut port = ByMember { fabric: &mut self.fabric, nodes: &member.nodes };
            member.omega.poll(now, &mut port);
            let stage = &mut Stage { world: &mut self.world, app: &mut self.app };
            if let Some(leader) = member.omega.trusted() {
                member.machine.trust(leader, now, stage);
            }
            if member.machine.deadline().is_some_and(|at| at <= now) {
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
        let worked = !self.deliveries.is_empty() || !self.desk.outcomes.is_empty();
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
        let mut outcomes = std::mem::take(&mut self.desk.outcomes);
        for (id, outcome) in outcomes.drain(..) {
            self.app.outcome(id, outcome, &mut self.desk);
        }
        outcomes.append(&mut self.desk.outcomes);
        self.desk.outcomes = outcomes;
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
        self.desk.complete(id, ts);
        self.desk.settle(id.sender, &[id.sequence], of);
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
