//! The loop of one node: one thread runs the node, and sleeps when there is nothing to do.
//!
//! ```text
//! round: ready descriptors -> application; turns of the node while something happens
//! idle:  spin a little; announce the sleep; look once more; wait
//! ```
//! - N3 The loop never sleeps while there is work: between `prepare_sleep` and the wait the node
//!   has one more turn (fabric T9), and the wait ends at the earliest deadline.
//! - N13 Work per round is bounded. By construction: a round has at most `TURNS_MAX` turns.

use crate::clock::Attested;
use base::verb::Relay;
use base::{Inbox, Instant, SeatSet};
use core::time::Duration;
use engine::multicast::{Application, Desk, Node};
use engine::{Ground, StableStorage};
use fabric::{Fabric, HostFabric};
use proto::amcast::{Multicast, RealClock};
use proto::disk::DiskEvent;
use runtime::clock::Clock;
use runtime::disk::LogDisk;
use runtime::{Interest, Poller, Ready};
use std::io;

/// The bound of N13.
const TURNS_MAX: usize = 64;
/// The bound of the application's keys, which are below it.
pub const APPLICATION_KEYS: u64 = u64::MAX - 16;
/// The time between two lines about a disk that stalls.
const SAY_EVERY: Duration = Duration::from_secs(60);
const KEY_FABRIC: u64 = u64::MAX;
const KEY_DISK: u64 = u64::MAX - 1;

/// The descriptors of an application, in the loop's set.
pub trait Descriptors: Application {
    /// Adds its descriptors to `poller`, with keys below [`APPLICATION_KEYS`], before the node
    /// begins.
    ///
    /// # Errors
    /// An error ends the node.
    fn begin(&mut self, _poller: &Poller) -> io::Result<()> {
        Ok(())
    }

    /// Reports that a descriptor of the application is ready.
    fn on_ready(&mut self, _ready: Ready, _desk: &mut Desk) {}
}

/// What a node stands on in production.
#[derive(Debug)]
pub(crate) struct HostGround {
    pub(crate) fabric: HostFabric,
    pub(crate) disk: Option<LogDisk>,
    pub(crate) clock: Option<Attested>,
    /// Whether the operator knows that the disk has no room.
    said_full: bool,
    /// The time at which the operator was last told that it stalls.
    said_stalled_at: Option<Instant>,
}

impl HostGround {
    pub(crate) const fn new(
        fabric: HostFabric,
        disk: Option<LogDisk>,
        clock: Option<Attested>,
    ) -> HostGround {
        HostGround { fabric, disk, clock, said_full: false, said_stalled_at: None }
    }

    /// The reason why the disk ends the node.
    pub(crate) fn check_disk(&self) -> io::Result<()> {
        match self.disk.as_ref().and_then(LogDisk::failure) {
            Some(why) => Err(io::Error::other(why.to_owned())),
            None => Ok(()),
        }
    }
}

impl Relay for HostGround {
    type Port = HostFabric;

    fn port(&self) -> &HostFabric {
        &self.fabric
    }

    fn port_mut(&mut self) -> &mut HostFabric {
        &mut self.fabric
    }
}

impl Ground for HostGround {
    type Disk = LogDisk;

    fn poll(&mut self, inbox: &mut Inbox) {
        self.fabric.poll(inbox);
    }

    fn flush(&mut self) {
        self.fabric.flush();
    }

    fn disk(&mut self) -> Option<&mut LogDisk> {
        self.disk.as_mut()
    }

    fn poll_disk(&mut self, now: Instant, events: &mut Vec<DiskEvent>) {
        let Some(disk) = &mut self.disk else { return };
        disk.pump(now, |event| events.push(event));
        if events.contains(&DiskEvent::Full) {
            let why = disk.trouble().unwrap_or("the disk is full");
            runtime::complain(format_args!("{why}: nothing is said until it has room"));
            self.said_full = true;
        } else if events.contains(&DiskEvent::Room) && std::mem::take(&mut self.said_full) {
            runtime::complain(format_args!("the disk has room again"));
        }
        let is_due = self.said_stalled_at.is_none_or(|at| now.since(at) >= SAY_EVERY);
        if is_due && events.contains(&DiskEvent::Stalled) {
            let why = disk.trouble().unwrap_or("a sync of the disk does not end");
            runtime::complain(format_args!("{why}: other nodes lead while that lasts"));
            self.said_stalled_at = Some(now);
        }
    }

    fn real_clock(&mut self) -> Option<RealClock> {
        self.clock.as_mut()?.read()
    }
}

/// A node that has begun, and what its loop needs.
#[derive(Debug)]
pub(crate) struct Begun<M: Multicast, A> {
    node: Node<M, A>,
    poller: Poller,
    clock: Clock,
}

impl<M: Multicast, A: Descriptors> Begun<M, A> {
    /// Begins a node, made by `begin` when the application's descriptors are watched. No other node
    /// hears of it yet.
    ///
    /// # Errors
    /// No descriptors left, or what keeps the application or the node from beginning.
    pub(crate) fn new(
        mut app: A,
        ground: &mut HostGround,
        begin: impl FnOnce(A, Instant, &mut HostGround) -> io::Result<Node<M, A>>,
    ) -> io::Result<Begun<M, A>> {
        let poller = Poller::new()?;
        poller.add(ground.fabric.wait_fd(), KEY_FABRIC, Interest::Read)?;
        if let Some(disk) = &ground.disk {
            poller.add(disk.wait_fd(), KEY_DISK, Interest::Read)?;
        }
        app.begin(&poller)?;
        let clock = Clock::start();
        let node = begin(app, clock.now(), ground);
        ground.check_disk()?;
        Ok(Begun { node: node?, poller, clock })
    }
}

/// The loop of the module's text.
#[derive(Debug)]
pub(crate) struct Driver<M: Multicast, A> {
    node: Node<M, A>,
    ground: HostGround,
    poller: Poller,
    ready: Vec<Ready>,
    clock: Clock,
    spin: Duration,
    last_work_at: Instant,
    /// The nodes of which the operator knows that they were given up.
    said_left: SeatSet,
}

impl<M: Multicast, A: Descriptors> Driver<M, A> {
    /// A loop for a node.
    pub(crate) fn new(begun: Begun<M, A>, ground: HostGround, spin: Duration) -> Driver<M, A> {
        let Begun { node, poller, clock } = begun;
        let (ready, last_work_at) = (Vec::new(), Instant::ZERO);
        let said_left = SeatSet::EMPTY;
        Driver { node, ground, poller, ready, clock, spin, last_work_at, said_left }
    }

    /// Ends the node; the caller then closes its fabric in the way that it wants.
    pub(crate) fn into_parts(self) -> (HostFabric, A) {
        (self.ground.fabric, self.node.into_application())
    }

    /// Runs until `stop` returns true; it is called once a round.
    ///
    /// # Errors
    /// The kernel's error in the wait itself; the disk's; or the node has to stop.
    pub(crate) fn run(&mut self, mut stop: impl FnMut(&mut A) -> bool) -> io::Result<()> {
        while !stop(self.node.application()) {
            self.round()?;
        }
        Ok(())
    }

    fn turn(&mut self) -> io::Result<bool> {
        let worked = self.node.turn(self.clock.now(), &mut self.ground);
        self.ground.check_disk()?;
        worked.map_err(io::Error::other)
    }

    /// One round: waits if there is nothing to do.
    fn round(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        self.node.begin_round(now);
        if now.since(self.last_work_at) <= self.spin {
            self.poller.wait(Some(Duration::ZERO), &mut self.ready)?;
        } else {
            // Announce the sleep, look once more, and only then wait (N3).
            self.ground.fabric.prepare_sleep();
            let timeout = if self.turn()? { Duration::ZERO } else { self.idle_for() };
            if !timeout.is_zero() {
                self.node.note_sleep();
            }
            self.poller.wait(Some(timeout), &mut self.ready)?;
            self.ground.fabric.awake();
        }
        let mut worked = false;
        let now = self.clock.now();
        let (app, desk) = self.node.at_desk_now(now);
        for ready in self.ready.drain(..).filter(|ready| ready.key < APPLICATION_KEYS) {
            app.on_ready(ready, desk);
            worked = true;
        }
        for _ in 0..TURNS_MAX {
            if !self.turn()? {
                break;
            }
            worked = true;
        }
        if worked {
            self.last_work_at = self.node.desk().now();
        }
        self.say_left();
        Ok(())
    }

    /// Tells the operator which nodes were given up.
    fn say_left(&mut self) {
        let left = self.node.left();
        for node in left.difference(self.said_left).iter() {
            runtime::complain(format_args!(
                "node {} was given up: what is kept for it has passed limits.kept_bytes; one of \
                 the two stops, or waits, when it is heard again",
                node.member()
            ));
        }
        self.said_left = left;
    }

    /// The time for which there is nothing to do without an event.
    fn idle_for(&self) -> Duration {
        let idle = self.node.due().since(self.node.desk().now());
        let disk = self.ground.disk.as_ref().and_then(LogDisk::look_within);
        idle.min(disk.unwrap_or(idle))
    }
}
