//! The loop of one node: one thread that runs every member that lives here, and sleeps when there
//! is nothing to do.
//!
//! ```text
//! turn:  ready descriptors -> application
//!        repeat while something happens:
//!            application -> START; poll the fabric; records -> members -> records
//!            deliveries and outcomes -> application; send, once a peer
//! idle:  spin a little; say that we sleep; look once more; wait
//! ```
//! - N1 Links between members are FIFO and lose nothing between nodes that live (the machines' T1,
//!   T2): between nodes by `stream.rs`, within a node by one queue.
//! - N2 Work per turn is bounded: a poll brings a bounded number of messages, and a turn repeats at
//!   most `REPEATS_MAX` times.
//! - N3 Nobody sleeps on work: between `prepare_sleep` and the wait everything is looked at once
//!   more (fabric T9), and the wait ends at the first deadline of anybody.
//! - N4 A node that others have given up stops: its members would wait for what nobody keeps.

use crate::application::{Application, Delivery};
use crate::desk::{Desk, MemberView, sender_of};
use crate::stream::{End, Streams};
use crate::system::{Places, System};
use crate::world::{ByMember, Parcel, Record, World};
use base::{At, Event, Inbox, Instant, MemberSet, Rank};
use fabric::Fabric;
use proto::amcast::{Config, GroupSet, MAX_GROUPS, MessageId, Multicast, Pid};
use proto::omega::{self, Omega, Timing};
use runtime::clock::Clock;
use runtime::{Interest, Poller, Ready};
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// See N2.
const REPEATS_MAX: usize = 64;
/// The application's keys are below this.
pub const APPLICATION_KEYS: u64 = u64::MAX - 16;
const KEY_FABRIC: u64 = u64::MAX;
/// The longest sleep.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// How often deadlines of members are looked at while there is work.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// How often a peer hears what was dealt with, if nothing else is said.
const TELL_EVERY: Duration = Duration::from_millis(10);
/// How many parcels between members of this node are handed over before the fabric is polled.
const LOCAL_MAX: usize = 4096;

/// One member that lives here.
#[derive(Debug)]
struct Member<M> {
    pid: Pid,
    machine: M,
    omega: Omega,
    /// Where its group lives, by rank.
    nodes: Vec<Rank>,
    delivered: u64,
}

/// How many words of protocol memory a node of `system` needs.
pub fn n_words(system: &System) -> u32 {
    omega::N_WORDS * system.groups.len() as u32
}

/// One node. See the module's text.
#[derive(Debug)]
pub struct Node<F, M: Multicast, A> {
    fabric: F,
    members: Vec<Member<M>>,
    /// By group: which of `members`.
    member_of: [Option<u8>; MAX_GROUPS],
    world: World<M::Wire>,
    desk: Desk,
    app: A,
    /// Deliveries being handed over.
    deliveries: Vec<Delivery>,
    inbox: Inbox,
    /// Nodes that have said something.
    heard: MemberSet,
    /// Groups whose member here was told something since it settled.
    touched: GroupSet,
    poller: Poller,
    ready: Vec<Ready>,
    clock: Clock,
    spin: Duration,
    last_work_at: Instant,
    look_at: Instant,
    tell_at: Instant,
}

impl<F: Fabric, M: Multicast, A: Application> Node<F, M, A> {
    /// Node `me` of a system, with an application behind it. `fabric` joins the system's nodes and
    /// gives each [`n_words`] words.
    ///
    /// # Errors
    /// No descriptors left, or the application's own at its beginning.
    pub fn new(
        system: &System,
        places: &Places,
        me: Rank,
        fabric: F,
        mut app: A,
    ) -> io::Result<Node<F, M, A>> {
        let poller = Poller::new()?;
        poller.add(fabric.wait_fd(), KEY_FABRIC, Interest::Read)?;
        app.begin(&poller)?;
        let limits = &system.limits;
        // Unique among the lives of a node as long as its clock is not set back between them.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let life = since.as_nanos() as u64;
        let streams = Streams::new(me, life, limits.kept_bytes, limits.backlog_bytes);
        let config = Config {
            layout: places.layout().clone(),
            rule: system.order.rule(),
            hybrid: system.clock_error_us.is_some(),
            patience: Duration::from_millis(limits.patience_ms),
            retain: limits.window,
        };
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
            // What a dead member remembers helps nobody: members speak by messages.
            let omega = Omega::new(pid.rank, nodes.len(), base, timing, false, true);
            let machine = M::new(&config, pid);
            members.push(Member { pid, machine, omega, nodes, delivered: 0 });
        }
        let clock_error_ns = system.clock_error_us.map(|us| us.saturating_mul(1000));
        Ok(Node {
            fabric,
            members,
            member_of,
            world: World::new(me, places.clone(), streams, clock_error_ns),
            desk: Desk::new(places, sender_of(me, 1), limits.window),
            app,
            deliveries: Vec::new(),
            inbox: Inbox::new(),
            heard: MemberSet::EMPTY,
            touched: GroupSet::EMPTY,
            poller,
            ready: Vec::new(),
            clock: Clock::start(),
            spin: limits.spin(),
            last_work_at: Instant::ZERO,
            look_at: Instant::ZERO,
            tell_at: Instant::ZERO,
        })
    }

    /// The application.
    pub const fn application(&mut self) -> &mut A {
        &mut self.app
    }

    /// The application and its desk: for what it does between turns.
    pub const fn at_desk(&mut self) -> (&mut A, &mut Desk) {
        (&mut self.app, &mut self.desk)
    }

    /// Nodes that are not spoken to any more, and why.
    pub fn ended(&self) -> impl Iterator<Item = (Rank, End)> + '_ {
        let nodes = Rank::all(self.world.places.n_nodes());
        nodes.filter_map(|node| Some((node, self.world.streams.ended(node)?)))
    }

    /// Ends the node; its fabric can then be closed in the way that is wanted.
    pub fn into_parts(self) -> (F, A) {
        (self.fabric, self.app)
    }

    /// Runs until `stop` says so; it is asked once a turn.
    ///
    /// # Errors
    /// The kernel's, of the waiting itself; or others have given this node up (N4).
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
            // N3: say so, look once more, and only then wait.
            self.fabric.prepare_sleep();
            let timeout = if self.advance() { Duration::ZERO } else { self.sleep_for() };
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
            if !self.advance() {
                break;
            }
            worked = true;
            self.desk.now = self.clock.now();
        }
        if worked {
            self.last_work_at = self.desk.now;
        }
        match self.world.streams.left_by() {
            None => Ok(()),
            Some(by) => Err(io::Error::other(format!(
                "node {} has given this node up, since it lagged too far behind (N4): start it \
                 under another name, or raise limits.kept_bytes",
                by.member()
            ))),
        }
    }

    /// Everything that can go on without waiting, once. True if something happened.
    fn advance(&mut self) -> bool {
        let mut worked = self.app.turn(&self.poller, &mut self.desk);
        worked |= self.start();
        worked |= self.poll();
        self.desk.is_full = self.app.is_full();
        if !self.desk.is_full {
            worked |= self.take_records();
            worked |= self.take_local();
        }
        self.mind_time();
        self.settle();
        worked |= self.hand_over();
        let tells = self.desk.now >= self.tell_at;
        if tells {
            self.tell_at = self.desk.now.plus(TELL_EVERY);
        }
        self.world.streams.send(&mut self.fabric, tells);
        self.fabric.flush();
        self.desk.figures.frames = self.world.streams.n_frames;
        self.desk.figures.frame_bytes = self.world.streams.n_bytes;
        // N3: what a tick or Ω had one member say to another is work, too.
        worked || !self.world.local.is_empty() && !self.desk.is_full
    }

    /// What a turn has brought is a batch: its members answer it together.
    fn settle(&mut self) {
        for group in std::mem::take(&mut self.touched).iter() {
            let Some(at) = self.member_of[group.index()] else { continue };
            let member = &mut self.members[usize::from(at)];
            self.world.acting = member.pid;
            member.machine.settle(self.desk.now, &mut self.world);
        }
    }

    /// What the application multicast goes to its destinations.
    fn start(&mut self) -> bool {
        let worked = !self.desk.started.is_empty();
        for message in self.desk.started.drain(..) {
            self.world.start(&message);
        }
        worked
    }

    fn poll(&mut self) -> bool {
        self.inbox.clear();
        self.fabric.poll(&mut self.inbox);
        let streams = &mut self.world.streams;
        for event in self.inbox.iter() {
            match event {
                Event::Message { from, bytes } => {
                    if streams.receive(from, bytes) {
                        self.heard.insert(from);
                    }
                }
                Event::LinkUp(node) => streams.on_link_up(node),
                Event::LinkDown(node) => streams.on_link_down(node),
                Event::ProcessFailed(node) => {
                    streams.on_failed(node);
                    self.look_at = Instant::ZERO;
                    for member in &mut self.members {
                        if let Some(at) = member.nodes.iter().position(|on| *on == node) {
                            member.omega.on_event(&Event::ProcessFailed(Rank::at(at)));
                        }
                    }
                }
                // Only Ω posts verbs, and it wants no answers.
                Event::Completed { .. } => {}
            }
        }
        !self.inbox.is_empty()
    }

    /// Hands up what has come from other nodes.
    fn take_records(&mut self) -> bool {
        let heard = std::mem::take(&mut self.heard);
        for node in heard.iter() {
            let mut input = self.world.streams.take_input(node);
            let outcome = loop {
                match input.next() {
                    Ok(None) => break Ok(()),
                    Err(malformed) => break Err(malformed),
                    Ok(Some(record)) => {
                        let bytes = input.bytes(record);
                        match Record::decode(bytes, node, &self.world.places) {
                            Ok(record) => self.on_record(record),
                            Err(malformed) => break Err(malformed),
                        }
                    }
                }
            };
            self.world.streams.put_input(node, input);
            if outcome.is_err() {
                self.world.streams.give_up(node);
            }
        }
        !heard.is_empty()
    }

    fn on_record(&mut self, record: Record<M::Wire>) {
        self.desk.figures.records += 1;
        match record {
            Record::Parcel(to, parcel) => self.hand(to, &parcel),
            Record::Done(sequence, at) => {
                let sender = sender_of(self.world.me, 1);
                self.desk.complete(MessageId { sender, sequence }, at);
            }
        }
    }

    /// N1: what members of this node have said to each other, in order.
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
            match parcel {
                Parcel::Start(message) => member.machine.on_start(message, now, &mut self.world),
                Parcel::Wire(from, wire) => {
                    member.machine.on_wire(*from, wire, now, &mut self.world);
                }
            }
        }
    }

    /// Ω, deadlines of members, deadlines of senders, and who lags.
    fn mind_time(&mut self) {
        let now = self.desk.now;
        self.desk.sweep();
        if now < self.look_at {
            return;
        }
        self.look_at = now.plus(LOOK_EVERY);
        for member in &mut self.members {
            self.world.acting = member.pid;
            let mut port = ByMember { fabric: &mut self.fabric, nodes: &member.nodes };
            member.omega.poll(now, &mut port);
            if let Some(leader) = member.omega.trusted() {
                member.machine.trust(leader, now, &mut self.world);
            }
            if member.machine.deadline().is_some_and(|at| at <= now) {
                member.machine.tick(now, &mut self.world);
            }
            self.touched.insert(member.pid.group);
        }
        let places = &self.world.places;
        let nodes = Rank::all(places.n_nodes());
        let lagging = nodes.filter(|node| self.world.streams.is_behind(*node));
        self.desk.lagging =
            lagging.fold(GroupSet::EMPTY, |all, node| all.union(places.hosted(node)));
    }

    /// Deliveries and outcomes go to the application.
    fn hand_over(&mut self) -> bool {
        std::mem::swap(&mut self.deliveries, &mut self.world.delivered);
        let worked = !self.deliveries.is_empty() || !self.desk.outcomes.is_empty();
        for delivery in self.deliveries.drain(..) {
            let group = delivery.group.index();
            let at = self.member_of[group].expect("only members that live here deliver");
            self.members[usize::from(at)].delivered += 1;
            self.desk.figures.delivered += 1;
            self.world.report(&delivery);
            let (id, ts) = (delivery.message.id, delivery.at);
            self.app.deliver(delivery, &mut self.desk);
            self.desk.complete(id, ts);
        }
        let mut outcomes = std::mem::take(&mut self.desk.outcomes);
        for (id, outcome) in outcomes.drain(..) {
            self.app.outcome(id, outcome, &mut self.desk);
        }
        outcomes.append(&mut self.desk.outcomes);
        self.desk.outcomes = outcomes;
        self.refresh_views();
        worked
    }

    /// Only what has been handed over counts as delivered.
    fn refresh_views(&mut self) {
        self.desk.linked = self.world.streams.linked();
        self.desk.views.clear();
        self.desk.views.extend(self.members.iter().map(|member| MemberView {
            group: member.pid.group,
            rank: member.pid.rank,
            is_primary: member.machine.is_primary(),
            trusted: member.omega.trusted(),
            safe_ts: member.machine.safe_ts(),
            delivered: member.delivered,
        }));
    }

    /// How long nothing has to be done, if nothing happens.
    fn sleep_for(&self) -> Duration {
        let now = self.desk.now;
        let mut end = now.plus(SLEEP_MAX);
        let mut consider = |at: Option<Instant>| end = end.min(at.unwrap_or(end));
        for member in &self.members {
            consider(Some(member.omega.deadline()));
            consider(member.machine.deadline());
        }
        end = end.max(self.look_at);
        let mut consider = |at: Option<Instant>| end = end.min(at.unwrap_or(end));
        consider(self.desk.deadline());
        consider(self.app.deadline());
        if self.world.streams.is_pending() || self.desk.is_full {
            consider(Some(now.plus(LOOK_EVERY)));
        }
        if self.world.streams.has_untold() {
            consider(Some(self.tell_at));
        }
        end.since(now)
    }
}
