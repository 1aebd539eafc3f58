//! The loop of one replica: one thread admits clients, runs the engine's turns, and sleeps when
//! there is nothing to do.
//!
//! ```text
//! turn:  ready descriptors -> sockets -> commands and reads on the desk
//!        the engine works; replies and frames leave
//! idle:  spin a little; announce the sleep; look once more; wait
//! ```
//! - I1 work per turn is bounded: a wait reports a bounded number of descriptors, the sockets read
//!   a bounded number of bytes from each, and the engine bounds its own work (`Engine::work`). By
//!   construction.
//! - I2 no wake-up is lost: between `prepare_sleep` and the wait everything is looked at once more
//!   (fabric T9), and the wait ends at the earliest deadline.

use crate::disk::{Found, LogDisk};
use crate::plant::HostPlant;
use crate::poller::Poller;
use base::Instant;
use engine::keyed::Registers;
use engine::streams::{Interest, Ready};
use engine::{Application, Desk, Door, Engine, Family, HostState, Keyed, Log, Origin, Parts};
use fabric::Fabric;
use proto::Replicator;
use proto::keyed::KeyedMachine;
use proto::node::Node;
use std::error::Error;
use std::io;
use std::time::Duration;

/// The bound of the keys of the sockets' descriptors, which are below it.
pub const SOCKET_KEYS: u64 = u64::MAX - 16;
const KEY_FABRIC: u64 = u64::MAX;
const KEY_DISK: u64 = u64::MAX - 1;

/// A door whose clients come through descriptors.
pub trait Sockets<A>: Door<A> {
    /// A descriptor that the door put into the poller is ready: bounded work, new commands and
    /// reads go to the desk.
    fn on_ready(&mut self, ready: Ready, app: &mut A, desk: &mut Desk);
}

/// The configuration of a replica.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The configuration of its engine.
    pub engine: engine::Config,
    /// The time to look for more work before sleeping, after something happened.
    pub spin: Duration,
}

impl Config {
    /// The usual configuration, for `origin` of `members`.
    pub fn new(origin: Origin, members: usize) -> Config {
        Config { engine: engine::Config::new(origin, members), spin: Duration::ZERO }
    }
}

/// The memory and the peers that the machine's constructor gets.
pub type Memory<F, A, D> = HostState<HostPlant<F>, A, D>;

/// One replica; see the module's text.
#[derive(Debug)]
pub struct Replica<C> {
    engine: Engine<C>,
    poller: Poller,
    ready: Vec<Ready>,
    spin: Duration,
    last_work_at: Instant,
}

/// A replica of a log.
pub type LogReplica<F, R, A, D> = Replica<Log<HostPlant<F>, R, A, D>>;

impl<F: Fabric + 'static, R: Replicator, A: Application, D: Sockets<A>> LogReplica<F, R, A, D> {
    /// Puts fabric, disk, machine, application and door together. `node` makes the machine. A disk
    /// comes with the state that it had.
    ///
    /// # Errors
    /// No descriptors left, a state that the application does not take, or a protocol that cannot
    /// run on this fabric or this disk.
    pub fn new<E: Into<Box<dyn Error + Send + Sync>>>(
        config: Config,
        fabric: F,
        served: (A, D),
        disk: Option<(LogDisk, Option<Found>)>,
        node: impl FnOnce(&mut Memory<F, A, D>) -> Result<Node<R>, E>,
    ) -> io::Result<LogReplica<F, R, A, D>> {
        let poller = poller_of(&fabric)?;
        let (disk, found) = disk.unzip();
        if let Some(disk) = &disk {
            poller.add(disk.wait_fd(), KEY_DISK, Interest::Read)?;
        }
        let found = found.flatten().map(|Found { prefix, state, .. }| (prefix, state));
        let plant = HostPlant::new(fabric);
        let node = |host: &mut Memory<F, A, D>| node(host).map_err(Into::into);
        let engine = Engine::new::<Box<dyn Error + Send + Sync>>(
            &config.engine,
            plant,
            served,
            (disk, found),
            node,
        );
        Ok(Replica::of(engine.map_err(io::Error::other)?, poller, config.spin))
    }
}

/// A replica that keeps each key by itself.
pub type KeyedReplica<F, M, A, D> = Replica<Keyed<HostPlant<F>, M, A, D>>;

impl<F: Fabric + 'static, M: KeyedMachine, A: Registers, D: Sockets<A>> KeyedReplica<F, M, A, D> {
    /// Puts fabric, machine, application and door together.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn keyed(
        config: Config,
        fabric: F,
        served: (A, D),
        machine: M,
    ) -> io::Result<KeyedReplica<F, M, A, D>> {
        let poller = poller_of(&fabric)?;
        let engine = Engine::keyed(&config.engine, HostPlant::new(fabric), served, machine);
        Ok(Replica::of(engine, poller, config.spin))
    }
}

fn poller_of(fabric: &impl Fabric) -> io::Result<Poller> {
    let poller = Poller::new()?;
    poller.add(fabric.wait_fd(), KEY_FABRIC, Interest::Read)?;
    Ok(poller)
}

impl<F, C> Replica<C>
where
    F: Fabric + 'static,
    C: Family<Plant = HostPlant<F>>,
    C::Door: Sockets<C::App>,
{
    fn of(engine: Engine<C>, poller: Poller, spin: Duration) -> Replica<C> {
        Replica { engine, poller, ready: Vec::new(), spin, last_work_at: Instant::ZERO }
    }

    /// The set for the door's descriptors, with keys below [`SOCKET_KEYS`].
    pub fn poller(&self) -> &Poller {
        &self.poller
    }

    /// The application and the door.
    pub fn served(&mut self) -> (&mut C::App, &mut C::Door) {
        let Parts { app, door, .. } = self.engine.parts();
        (app, door)
    }

    /// Changes the time to look for more work before sleeping ([`Config::spin`]).
    pub fn spin_for(&mut self, spin: Duration) {
        self.spin = spin;
    }

    /// Runs until `stop` returns true; it is called once a turn.
    ///
    /// # Errors
    /// The kernel's, of the waiting itself, or what became of the disk.
    pub fn run(&mut self, mut stop: impl FnMut(&mut C::Door, &mut F) -> bool) -> io::Result<()> {
        loop {
            let Parts { door, plant, .. } = self.engine.parts();
            if stop(door, &mut plant.fabric) {
                return Ok(());
            }
            self.turn()?;
        }
    }

    /// Hands leadership over and serves until another member leads and no request is open, or for
    /// `at_most`.
    ///
    /// # Errors
    /// As [`Replica::run`].
    pub fn hand_over(&mut self, at_most: Duration) -> io::Result<()> {
        let end = self.now().plus(at_most);
        self.engine.resign();
        loop {
            self.turn()?;
            let is_over = self.engine.has_handed_over() && self.engine.is_idle();
            if is_over || self.now() >= end {
                return Ok(());
            }
        }
    }

    /// Serves until no request is open, or for `at_most`.
    ///
    /// # Errors
    /// As [`Replica::run`].
    pub fn finish(&mut self, at_most: Duration) -> io::Result<()> {
        let end = self.now().plus(at_most);
        while !self.engine.is_idle() && self.now() < end {
            self.turn()?;
        }
        Ok(())
    }

    /// Ends the replica; the caller then closes its fabric in the way that it wants.
    pub fn into_fabric(self) -> F {
        self.engine.into_plant().fabric
    }

    fn now(&mut self) -> Instant {
        self.engine.parts().plant.clock.now()
    }

    /// One turn: waits if there is nothing to do.
    fn turn(&mut self) -> io::Result<()> {
        let now = self.engine.begin_turn();
        if let Some(why) = self.engine.failure() {
            return Err(io::Error::other(why.to_owned()));
        }
        let spins = now.since(self.last_work_at) <= self.spin;
        if spins || self.engine.parts().plant.fabric.is_alert() {
            self.poller.wait(Some(Duration::ZERO), &mut self.ready)?;
        } else {
            // I2: announce the sleep, look once more, and only then wait.
            self.engine.parts().plant.fabric.prepare_sleep();
            let timeout =
                if self.engine.advance() { Duration::ZERO } else { self.engine.idle_for() };
            if !timeout.is_zero() {
                self.engine.note_sleep();
            }
            self.engine.send();
            self.poller.wait(Some(timeout), &mut self.ready)?;
            self.engine.parts().plant.fabric.awake();
        }
        let now = self.engine.begin_slice();
        let mut worked = false;
        for ready in self.ready.iter().filter(|ready| ready.key < SOCKET_KEYS) {
            self.engine.at_the_door(|door, app, desk| door.on_ready(*ready, app, desk));
            worked = true;
        }
        worked |= self.engine.work();
        if worked {
            self.last_work_at = now;
        }
        Ok(())
    }
}
