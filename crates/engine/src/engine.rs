//! The turns of one member.
//!
//! ```text
//! driver                         engine
//!   begin_turn  --------------->  the time
//!   (waits, if `idle_for` says so)
//!   begin_slice --------------->  the time after the wait
//!   at_the_door --------------->  clients' bytes become commands and reads on the desk
//!   work        --------------->  propose or forward; checks; events -> machine -> execute;
//!                                 replies and frames leave
//! ```
//! - I1 work per turn is bounded: `work` repeats at most `REPEATS_MAX` times, and each client is
//!   read a bounded number of bytes by its door.
//! - I2 a driver that waits for `idle_for` after an `advance` that found nothing misses no work:
//!   that is the earliest deadline of everything in here.

use crate::bugs::Bug;
use crate::core::{Core, SWEEP_EVERY};
use crate::desk::{Desk, PATIENCE, View};
use crate::flow::{CHANNEL, Incoming};
use crate::host::HostState;
use crate::plant::{Plant, StableStorage};
use crate::service::{Application, Door, Origin};
use crate::stats::Stats;
use base::{Event, Inbox, Instant, Prefix};
use core::time::Duration;
use proto::node::Node;
use proto::{MESSAGE_CHANNEL, Replicator};

const _: () = assert!(CHANNEL != MESSAGE_CHANNEL, "the engine and the machines share a channel");

/// See I1.
const REPEATS_MAX: usize = 64;
/// How often the figures are published at most.
const PUBLISH_EVERY: Duration = Duration::from_millis(20);
/// The longest sleep.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// What an engine has to be told.
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
            waits_for_all: false,
        }
    }
}

/// What an engine is made of, each part for its owner alone.
#[derive(Debug)]
pub struct Parts<'a, P, A, D> {
    /// Fabric, clocks, disk.
    pub plant: &'a mut P,
    /// The replicated state.
    pub app: &'a mut A,
    /// The clients.
    pub door: &'a mut D,
    /// Their requests.
    pub desk: &'a mut Desk,
}

/// A state that a disk had, and the prefix that it covers.
pub type FoundState = (Prefix, Vec<u8>);

/// One member. See the module's text.
#[derive(Debug)]
pub struct Engine<P: Plant, R, A, D> {
    core: Core<P, R, A, D>,
    incoming: Incoming,
    inbox: Inbox,
    published_at: Instant,
}

impl<P: Plant, R: Replicator, A: Application, D: Door<A>> Engine<P, R, A, D> {
    /// Puts plant, disk, application, door and machine together. `node` makes the machine. `found`
    /// is what the disk had.
    ///
    /// # Errors
    /// A state that the application does not take, or what `node` says.
    pub fn new<E: From<String>>(
        config: &Config,
        plant: P,
        (app, door): (A, D),
        (disk, found): (Option<P::Disk>, Option<FoundState>),
        node: impl FnOnce(&mut HostState<P, A, D>) -> Result<Node<R>, E>,
    ) -> Result<Engine<P, R, A, D>, E> {
        let desk = Desk::new(View::new(config.origin.rank, config.members), config.patience);
        let mut host = HostState::new(plant, (app, door), disk, desk, config);
        if let Some((prefix, state)) = found {
            crate::catchup::put_in_place(&mut host, prefix, &state)?;
        }
        let node = node(&mut host)?;
        Ok(Engine {
            core: Core::new(node, host),
            incoming: Incoming::default(),
            inbox: Inbox::new(),
            published_at: Instant::ZERO,
        })
    }

    /// Its parts.
    pub fn parts(&mut self) -> Parts<'_, P, A, D> {
        let HostState { plant, app, door, desk, .. } = &mut self.core.host;
        Parts { plant, app, door, desk }
    }

    /// How it stands, as of the present turn.
    pub fn view(&self) -> &View {
        &self.core.host.desk.view
    }

    /// What it counts.
    pub fn stats(&self) -> &Stats {
        &self.core.host.stats
    }

    /// The replicated state.
    pub fn app(&self) -> &A {
        &self.core.host.app
    }

    /// The machine.
    pub fn node(&self) -> &Node<R> {
        &self.core.node
    }

    /// Its disk, if it has one.
    pub fn disk(&mut self) -> Option<&mut P::Disk> {
        self.core.host.disk.as_mut()
    }

    /// Ends it.
    pub fn into_plant(self) -> P {
        self.core.host.plant
    }

    /// Why this member must stop: its disk has failed.
    pub fn failure(&self) -> Option<&str> {
        self.core.host.disk.as_ref().and_then(StableStorage::failure)
    }

    /// Whether no client's request is open here.
    pub fn is_idle(&self) -> bool {
        self.core.host.desk.is_idle()
    }

    /// Hands leadership over, if it is here.
    pub fn resign(&mut self) {
        let now = self.tell_time();
        self.core.node.resign(now, &mut self.core.host);
    }

    /// Whether another member leads, or no other member is there to lead.
    pub fn has_handed_over(&self) -> bool {
        let me = self.core.host.origin.rank;
        let led_by_another = self.core.node.trusted().is_some_and(|leader| leader != me);
        led_by_another || self.view().members == 1
    }

    /// A turn begins, at the time that is returned.
    pub fn begin_turn(&mut self) -> Instant {
        self.core.host.stats.turns += 1;
        self.tell_time()
    }

    /// The wait of this turn is over, if there was one.
    pub fn begin_slice(&mut self) -> Instant {
        let now = self.tell_time();
        self.core.host.desk.begin_slice();
        now
    }

    /// Lets clients in.
    pub fn at_the_door(&mut self, come_in: impl FnOnce(&mut D, &mut A, &mut Desk)) {
        let HostState { door, app, desk, .. } = &mut self.core.host;
        come_in(door, app, desk);
    }

    /// Everything that can be done in this turn. True if something was.
    pub fn work(&mut self) -> bool {
        let mut worked = false;
        for _ in 0..REPEATS_MAX {
            if !self.advance() {
                break;
            }
            worked = true;
        }
        // Once a turn, however often the rest is repeated: reading a state takes its time.
        worked |= self.core.mind_restoring();
        self.send();
        self.core.sweep();
        self.publish();
        worked
    }

    /// The driver is about to sleep.
    pub fn note_sleep(&mut self) {
        self.core.host.stats.sleeps += 1;
        self.publish();
    }

    fn tell_time(&mut self) -> Instant {
        let now = self.core.host.plant.now();
        self.core.host.desk.now = now;
        now
    }

    /// Does everything that is possible without waiting, once. True if something happened, so that
    /// more may be possible.
    pub fn advance(&mut self) -> bool {
        let core = &mut self.core;
        core.refresh_view();
        let mut worked = core.dispatch_commands();
        worked |= core.dispatch_reads();
        worked |= core.perform_ripe();
        core.host.flows.send(&mut core.host.plant);
        core.host.plant.flush();
        self.inbox.clear();
        core.host.plant.poll(&mut self.inbox);
        worked |= !self.inbox.is_empty();
        for event in self.inbox.iter() {
            match event {
                Event::Message { from, bytes } if bytes.first() == Some(&CHANNEL) => {
                    core.on_message(from, bytes, &mut self.incoming);
                }
                Event::LinkDown(peer) | Event::LinkUp(peer) => {
                    if !core.host.plant.has_planted(Bug::StreamsOutliveLinks) {
                        self.incoming.reset(peer);
                    }
                    core.on_event(event);
                }
                // A suspicion ends no stream: were it false, the peer would not begin a new one.
                Event::ProcessFailed(_) | Event::Completed { .. } | Event::Message { .. } => {
                    core.on_event(event);
                }
            }
        }
        worked |= core.refuse_streams(&mut self.incoming);
        let before = core.host.executed();
        let now = core.now();
        core.node.poll(now, &mut core.host);
        worked |= core.host.executed() != before;
        worked |= core.take_notes();
        worked |= core.mind_disk();
        worked |= core.host.tell_held(core.node.held_by_all());
        core.mind_fetch();
        worked |= core.mind_giving();
        core.poll_ticks();
        worked |= core.mind_seats();
        worked |= core.end_waits();
        let HostState { door, app, desk, .. } = &mut core.host;
        worked |= door.resume(app, desk);
        worked
    }

    /// Puts replies and frames on their way.
    pub fn send(&mut self) {
        let HostState { door, desk, flows, plant, .. } = &mut self.core.host;
        door.flush(desk);
        flows.send(plant);
        plant.flush();
    }

    /// How long nothing has to be done, if nothing happens (I2).
    pub fn idle_for(&self) -> Duration {
        let core = &self.core;
        if core.has_state_to_read() || core.host.desk.has_ripe() {
            return Duration::ZERO;
        }
        let desk = &core.host.desk;
        let now = core.host.plant.now();
        let mut end = now.plus(SLEEP_MAX).min(core.node.deadline());
        let mut consider = |at: Option<Instant>| end = end.min(at.unwrap_or(end));
        consider(self.incoming.deadline());
        consider(core.fetch.deadline());
        consider(core.give.deadline());
        consider(core.give.pause(now).map(|pause| now.plus(pause)));
        if core.has_seats() {
            consider(core.seats.deadline(core.host.leads));
        }
        let look_within = core.host.disk.as_ref().and_then(StableStorage::look_within);
        consider(look_within.map(|within| now.plus(within)));
        consider(core.snapshot_pause(now).map(|pause| now.plus(pause)));
        consider(desk.waits.iter().filter_map(|wait| wait.deadline).min());
        if !desk.is_idle() {
            consider(Some(core.next_sweep_at.max(now.plus(SWEEP_EVERY / 50))));
            consider(Some(core.pause_until).filter(|at| *at > now));
            consider(Some(core.read_pause_until).filter(|at| *at > now));
        }
        if core.host.flows.is_pending() {
            consider(Some(now.plus(Duration::from_millis(1))));
        }
        if core.host.leads {
            let expires = core.host.app.next_expiry_ms().is_some();
            consider(Some(core.ticks.deadline(expires).max(now)));
        }
        end.since(now)
    }

    fn publish(&mut self) {
        let now = self.core.now();
        if now.since(self.published_at) < PUBLISH_EVERY {
            return;
        }
        self.published_at = now;
        let HostState { app, door, stats, desk, disk, state_clock, flows, plant, .. } =
            &mut self.core.host;
        stats.state_time_ahead_ms = state_clock.ahead_ms(plant.wall_ms(), plant.boot_now());
        stats.state_bytes_sent = self.core.give.n_bytes;
        stats.state_bytes_received = self.core.fetch.n_bytes;
        stats.transfers_given_up = self.core.fetch.n_given_up;
        stats.frames_malformed = self.incoming.n_malformed;
        stats.frames_passed_on = flows.n_passed_on;
        stats.disk = disk.as_ref().map(StableStorage::figures);
        door.publish(desk.view(), stats, app);
    }
}
