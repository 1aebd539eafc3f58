//! The loop of one replica: one thread that drains clients, builds batches, polls the fabric, feeds
//! the machine, and sleeps when there is nothing to do.
//!
//! ```text
//! turn:  ready descriptors -> service -> commands and reads on the desk
//!        repeat while something happens:
//!            propose or forward; begin checks; poll the fabric; events -> machine -> execute
//!        send replies
//! idle:  spin a little; say that we sleep; look once more; wait
//! ```
//! - I1 work per turn is bounded: a wait reports a bounded number of descriptors, the service reads
//!   a bounded number of bytes from each, and a turn repeats at most `REPEATS_MAX` times.
//! - I2 nobody sleeps on work: between `prepare_sleep` and the wait everything is looked at once
//!   more (fabric T9), and the wait ends at the first deadline of anybody.

use crate::clock::{Clock, boot_now, unix_ms};
use crate::core::{Core, SWEEP_EVERY};
use crate::desk::{Desk, PATIENCE, View};
use crate::disk::{Found, LogDisk};
use crate::flow::{CHANNEL, Incoming};
use crate::poller::{Interest, Poller, Ready};
use crate::service::{Origin, Service};
use crate::world::World;
use base::{Event, Inbox, Instant};
use fabric::Fabric;
use proto::node::Node;
use proto::{MESSAGE_CHANNEL, Replicator};
use std::error::Error;
use std::io;
use std::time::Duration;

const _: () = assert!(CHANNEL != MESSAGE_CHANNEL, "the runtime and the machines share a channel");

/// See I1.
const REPEATS_MAX: usize = 64;
/// The service's keys are below this.
pub const SERVICE_KEYS: u64 = u64::MAX - 16;
const KEY_FABRIC: u64 = u64::MAX;
const KEY_DISK: u64 = u64::MAX - 1;
/// How often the figures are published at most.
const PUBLISH_EVERY: Duration = Duration::from_millis(20);
/// The longest sleep.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// What a replica has to be told.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// This process: which member, which life.
    pub origin: Origin,
    /// How many members there are.
    pub members: usize,
    /// How long a client's request may take.
    pub patience: Duration,
    /// How many bytes of executed values are kept for members that fall behind.
    pub backlog_bytes: usize,
    /// How long to look for more before sleeping, after something happened.
    pub spin: Duration,
    /// Clients hear of a write when it is on every member's disk, not on a majority's (disk-all).
    pub waits_for_all: bool,
}

impl Config {
    /// The usual, for `origin` of `members`.
    pub fn new(origin: Origin, members: usize) -> Config {
        Config {
            origin,
            members,
            patience: PATIENCE,
            backlog_bytes: crate::backlog::BACKLOG_BYTES,
            spin: Duration::ZERO,
            waits_for_all: false,
        }
    }
}

/// What the machine's constructor gets to work with: its memory and its peers.
pub type Memory<F, S> = World<F, S>;

/// One replica. See the module's text.
#[derive(Debug)]
pub struct Replica<F, R, S> {
    core: Core<F, R, S>,
    incoming: Incoming,
    inbox: Inbox,
    poller: Poller,
    ready: Vec<Ready>,
    clock: Clock,
    spin: Duration,
    last_work_at: Instant,
    published_at: Instant,
}

impl<F: Fabric, R: Replicator, S: Service> Replica<F, R, S> {
    /// Puts fabric, disk, machine and service together. `node` makes the machine. `found` is the
    /// state that the disk had.
    ///
    /// # Errors
    /// No descriptors left, a state that the service does not take, or a protocol that cannot run
    /// on this fabric or this disk.
    pub fn new<E: Into<Box<dyn Error + Send + Sync>>>(
        config: Config,
        fabric: F,
        service: S,
        disk: Option<(LogDisk, Option<Found>)>,
        node: impl FnOnce(&mut Memory<F, S>) -> Result<Node<R>, E>,
    ) -> io::Result<Replica<F, R, S>> {
        let poller = Poller::new()?;
        poller.add(fabric.wait_fd(), KEY_FABRIC, Interest::Read)?;
        let desk = Desk::new(View::new(config.origin.rank, config.members), config.patience);
        let (disk, found) = disk.unzip();
        if let Some(disk) = &disk {
            poller.add(disk.wait_fd(), KEY_DISK, Interest::Read)?;
        }
        let mut world = World::new(fabric, service, disk, desk, &config);
        if let Some(Found { prefix, state, .. }) = found.flatten() {
            crate::catchup::put_in_place(&mut world, prefix, &state).map_err(io::Error::other)?;
        }
        let node = node(&mut world).map_err(io::Error::other)?;
        Ok(Replica {
            core: Core::new(node, world),
            incoming: Incoming::default(),
            inbox: Inbox::new(),
            poller,
            ready: Vec::new(),
            clock: Clock::start(),
            spin: config.spin,
            last_work_at: Instant::ZERO,
            published_at: Instant::ZERO,
        })
    }

    /// The set that the service's descriptors go into, with keys below [`SERVICE_KEYS`].
    pub fn poller(&self) -> &Poller {
        &self.poller
    }

    /// The service.
    pub fn service(&mut self) -> &mut S {
        &mut self.core.world.service
    }

    /// The service and the set that its descriptors go into.
    pub fn service_and_poller(&mut self) -> (&mut S, &Poller) {
        (&mut self.core.world.service, &self.poller)
    }

    /// Runs until `stop` says so; it is asked once a turn.
    ///
    /// # Errors
    /// The kernel's, of the waiting itself.
    pub fn run(&mut self, mut stop: impl FnMut(&mut S, &mut F) -> bool) -> io::Result<()> {
        while !stop(&mut self.core.world.service, &mut self.core.world.fabric) {
            self.turn()?;
        }
        Ok(())
    }

    /// Hands leadership over and goes on serving until somebody else leads and nothing is open, or
    /// for `at_most`.
    ///
    /// # Errors
    /// The kernel's, of the waiting itself.
    pub fn hand_over(&mut self, at_most: Duration) -> io::Result<()> {
        let me = self.core.world.origin.rank;
        let end = self.clock.now().plus(at_most);
        let now = self.tell_time();
        self.core.node.resign(now, &mut self.core.world);
        loop {
            self.turn()?;
            let led_by_another = self.core.node.trusted().is_some_and(|leader| leader != me);
            let alone = self.core.world.desk.view.members == 1;
            if (led_by_another || alone) && self.core.world.desk.is_idle() {
                return Ok(());
            }
            if self.clock.now() >= end {
                return Ok(());
            }
        }
    }

    /// Goes on serving until nothing is open, or for `at_most`.
    ///
    /// # Errors
    /// The kernel's, of the waiting itself.
    pub fn finish(&mut self, at_most: Duration) -> io::Result<()> {
        let end = self.clock.now().plus(at_most);
        while !self.core.world.desk.is_idle() && self.clock.now() < end {
            self.turn()?;
        }
        Ok(())
    }

    /// Ends the replica; its fabric can then be closed in the way that is wanted.
    pub fn into_fabric(self) -> F {
        self.core.world.fabric
    }

    fn tell_time(&mut self) -> Instant {
        let now = self.clock.now();
        self.core.world.desk.now = now;
        now
    }

    /// One turn: waits if there is nothing to do.
    fn turn(&mut self) -> io::Result<()> {
        self.core.world.stats.turns += 1;
        if let Some(why) = self.core.world.disk.as_ref().and_then(LogDisk::failure) {
            return Err(io::Error::other(why.to_owned()));
        }
        let now = self.tell_time();
        let spins = now.since(self.last_work_at) <= self.spin;
        let looking = spins || self.core.world.fabric.is_alert();
        if looking {
            self.poller.wait(Some(Duration::ZERO), &mut self.ready)?;
        } else {
            // I2: say so, look once more, and only then wait.
            self.core.world.fabric.prepare_sleep();
            let timeout =
                if self.advance() { Duration::ZERO } else { self.sleep_for(self.clock.now()) };
            if !timeout.is_zero() {
                self.core.world.stats.sleeps += 1;
                self.publish(now);
            }
            self.send();
            self.poller.wait(Some(timeout), &mut self.ready)?;
            self.core.world.fabric.awake();
        }
        let now = self.tell_time();
        self.core.world.desk.begin_slice();
        let mut worked = false;
        for at in 0..self.ready.len() {
            let ready = self.ready[at];
            if ready.key < SERVICE_KEYS {
                let world = &mut self.core.world;
                world.service.on_ready(ready, &self.poller, &mut world.desk);
                worked = true;
            }
        }
        for _ in 0..REPEATS_MAX {
            if !self.advance() {
                break;
            }
            worked = true;
        }
        // Once a turn, whatever else goes on: what is read takes its time.
        worked |= self.core.mind_restoring();
        self.send();
        if worked {
            self.last_work_at = now;
        }
        self.core.sweep();
        self.publish(now);
        Ok(())
    }

    /// Everything that can go on without waiting, once. True if something happened, so that more
    /// may be possible.
    fn advance(&mut self) -> bool {
        let core = &mut self.core;
        core.refresh_view();
        let mut worked = core.dispatch_commands();
        worked |= core.dispatch_reads();
        worked |= core.perform_ripe();
        core.world.flows.send(&mut core.world.fabric);
        core.world.fabric.flush();
        self.inbox.clear();
        core.world.fabric.poll(&mut self.inbox);
        worked |= !self.inbox.is_empty();
        for event in self.inbox.iter() {
            match event {
                Event::Message { from, bytes } if bytes.first() == Some(&CHANNEL) => {
                    core.on_message(from, bytes, &mut self.incoming);
                }
                Event::LinkDown(peer) | Event::LinkUp(peer) => {
                    self.incoming.reset(peer);
                    core.on_event(event);
                }
                // A suspicion ends no stream: were it false, the peer would not begin a new one.
                Event::ProcessFailed(_) | Event::Completed { .. } | Event::Message { .. } => {
                    core.on_event(event);
                }
            }
        }
        worked |= core.refuse_streams(&mut self.incoming);
        let before = core.world.executed();
        let now = core.now();
        core.node.poll(now, &mut core.world);
        worked |= core.world.executed() != before;
        worked |= core.take_notes();
        worked |= core.mind_disk();
        worked |= core.world.tell_held(core.node.held_by_all());
        core.mind_fetch();
        worked |= core.mind_giving();
        core.poll_ticks();
        worked |= core.mind_seats();
        worked |= core.end_waits();
        worked |= core.world.service.resume(&self.poller, &mut core.world.desk);
        worked
    }

    /// Puts replies and frames on their way.
    fn send(&mut self) {
        let world = &mut self.core.world;
        world.service.flush(&self.poller, &mut world.desk);
        world.flows.send(&mut world.fabric);
        world.fabric.flush();
    }

    /// How long nothing has to be done, if nothing happens.
    fn sleep_for(&self, now: Instant) -> Duration {
        let core = &self.core;
        if core.has_state_to_read() || core.world.desk.has_ripe() {
            return Duration::ZERO;
        }
        let desk = &core.world.desk;
        let mut end = now.plus(SLEEP_MAX).min(core.node.deadline());
        let mut consider = |at: Option<Instant>| end = end.min(at.unwrap_or(end));
        consider(self.incoming.deadline());
        consider(core.fetch.deadline());
        consider(core.give.deadline());
        consider(core.give.pause().map(|pause| now.plus(pause)));
        if core.has_seats() {
            consider(core.seats.deadline(core.world.leads));
        }
        let look_within = core.world.disk.as_ref().and_then(LogDisk::look_within);
        consider(look_within.map(|within| now.plus(within)));
        consider(core.snapshot_pause().map(|pause| now.plus(pause)));
        consider(desk.waits.iter().filter_map(|wait| wait.deadline).min());
        if !desk.is_idle() {
            consider(Some(core.next_sweep_at.max(now.plus(SWEEP_EVERY / 50))));
            consider(Some(core.pause_until).filter(|at| *at > now));
            consider(Some(core.read_pause_until).filter(|at| *at > now));
        }
        if core.world.flows.is_pending() {
            consider(Some(now.plus(Duration::from_millis(1))));
        }
        if core.world.leads {
            let expires = core.world.service.next_expiry_ms().is_some();
            consider(Some(core.ticks.deadline(expires).max(now)));
        }
        end.since(now)
    }

    fn publish(&mut self, now: Instant) {
        if now.since(self.published_at) < PUBLISH_EVERY {
            return;
        }
        self.published_at = now;
        let World { service, stats, desk, disk, state_clock, flows, .. } = &mut self.core.world;
        stats.state_time_ahead_ms = state_clock.ahead_ms(unix_ms(), boot_now());
        stats.state_bytes_sent = self.core.give.n_bytes;
        stats.state_bytes_received = self.core.fetch.n_bytes;
        stats.transfers_given_up = self.core.fetch.n_given_up;
        stats.frames_malformed = self.incoming.n_malformed;
        stats.frames_passed_on = flows.n_passed_on;
        stats.disk = disk.as_ref().map(LogDisk::figures);
        service.publish(desk.view(), stats);
    }
}
