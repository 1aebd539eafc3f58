//! One process of a group with views, without its I/O: the machine of [`proto::vsync`], fed from
//! below, and its application above.
//!
//! ```text
//! turn:  the fabric's events -> the machine -> what it says, in order -> the application
//!                                                           messages and writes leave
//! ```
//! Production ([`Ground`] is a fabric) and the simulator run this code alike.
//!
//! - G1 *Told in order.* The application is told what the machine says, each thing once, in its
//!   order; the state for a newcomer is made at the place in that order where it was asked for. By
//!   construction: one loop over one list.
//! - G2 *Due at once.* A turn in which the application gave a state is followed by another one,
//!   which sends it. By the instant that `turn` returns.
//! - G3 *A full application is waited for.* While it takes no more, nothing is delivered to it but
//!   what a view ends with, which is at most a window of each member; the process still takes part
//!   in everything else. By [`Machine::hold`].
//!
//! Work per turn is bounded by what a poll brings and by the windows of all members.

use crate::ground::Ground;
use base::{Inbox, Instant, Rank, SeatSet};
use proto::disk::{Disk, DiskEvent};
use proto::planted::Sound;
use proto::vsync::bugs::Plantings;
use proto::vsync::{
    Blank, Config, Delivery, End, Ending, Machine, Output, Payload, Position, Refused, Relayed,
    ShardId, Time, UnreadableError, View,
};

/// A ground that shows the date.
pub trait WallClock: Ground {
    /// What the host's clock shows: by it messages get their times. It may be set, also back.
    fn wall(&self) -> Time;
}

/// A view as it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The view.
    pub view: View,
    /// The number of its members that may fail.
    pub n_tolerated: usize,
    /// The seats of the members of the view before that left as they wished.
    pub left: SeatSet,
}

/// The application of a process of a group. Its calls come in the group's order (G1).
pub trait Application {
    /// A view begins.
    fn install(&mut self, installed: Installed);

    /// The view that began has too few members: nothing is multicast in it.
    fn inadequate(&mut self, n_members: usize);

    /// A subgroup lacks members in the view that began: nothing is multicast in it.
    fn inadequate_subgroup(&mut self, subgroup: usize);

    /// The last `n_messages` that were taken of this process for `shard` are not multicast, as it
    /// is no longer in that shard. No member delivers them.
    fn unsent(&mut self, shard: ShardId, n_messages: usize);

    /// A message is delivered.
    fn deliver(&mut self, delivery: Delivery);

    /// The state of `shard` as it is now, for the newcomer on `to`. `None` if it comes later, by
    /// [`Process::give`], for this position.
    fn give(&mut self, to: Rank, shard: ShardId, at: Position) -> Option<Vec<u8>>;

    /// The state of `shard`, as another member had it, which covers everything before `at`. It is
    /// the first thing that a newcomer to a shard is told of it.
    fn take(&mut self, shard: ShardId, at: Position, bytes: Vec<u8>);

    /// The process is no longer in the group, and nothing follows.
    fn end(&mut self, end: End);

    /// Whether it takes no deliveries now (G3).
    fn is_full(&self) -> bool {
        false
    }
}

/// The result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The time at which the next one is due though nothing happens.
    pub due: Instant,
    /// Whether anything came from below, or was said above.
    pub worked: bool,
}

/// A process of a group; see the module's text.
#[derive(Debug)]
pub struct Process<P = Sound> {
    machine: Machine<P>,
    inbox: Inbox,
    of_disk: Vec<DiskEvent>,
    out: Vec<Output>,
}

impl Process {
    /// A process that begins as `config` says.
    pub fn new(config: Config, now: Instant) -> Process {
        Process::with(config, Sound, now)
    }
}

impl<P: Plantings> Process<P> {
    /// The same, perhaps with a planted mistake.
    pub fn with(config: Config, planted: P, now: Instant) -> Process<P> {
        Process::of(Machine::with(config, planted, now))
    }

    /// A process of a durable group, with its disk: [`Machine::on`].
    ///
    /// # Errors
    /// [`UnreadableError`]: the disk has the records of something else.
    pub fn on(
        config: Config,
        disk: &mut impl Disk,
        planted: P,
        now: Instant,
    ) -> Result<Process<P>, UnreadableError> {
        Machine::on(config, disk, planted, now).map(Process::of)
    }

    const fn of(machine: Machine<P>) -> Process<P> {
        Process { machine, inbox: Inbox::new(), of_disk: Vec::new(), out: Vec::new() }
    }

    /// One turn: everything that there is to do now.
    pub fn turn(
        &mut self,
        now: Instant,
        ground: &mut impl WallClock,
        app: &mut impl Application,
    ) -> Turn {
        self.inbox.clear();
        ground.poll(&mut self.inbox);
        for event in self.inbox.iter() {
            self.machine.on_event(event, now, ground);
        }
        ground.poll_disk(now, &mut self.of_disk);
        let worked = !self.inbox.is_empty() || !self.of_disk.is_empty();
        for event in self.of_disk.drain(..) {
            self.machine.on_disk(event);
        }
        self.machine.hold(app.is_full());
        self.machine.see(ground.wall());
        self.machine.poll(now, ground, &mut self.out);
        let worked = worked || !self.out.is_empty();
        let mut gives = false;
        let mut out = core::mem::take(&mut self.out);
        for output in out.drain(..) {
            gives |= self.perform(output, app);
        }
        self.out = out;
        if let Some(disk) = ground.disk() {
            self.machine.write(disk);
        }
        ground.flush();
        // G2
        let due = if gives { now } else { self.machine.deadline() };
        Turn { due, worked }
    }

    /// Tells the application one thing. True if it gave a state, which waits to be sent.
    fn perform(&mut self, output: Output, app: &mut impl Application) -> bool {
        match output {
            Output::View { view, n_tolerated, left } => {
                app.install(Installed { view, n_tolerated, left });
            }
            Output::Inadequate { n_members } => app.inadequate(n_members),
            Output::Deliver(delivery) => app.deliver(delivery),
            Output::InadequateSubgroup { subgroup } => app.inadequate_subgroup(subgroup),
            Output::Unsent { shard, n_messages } => app.unsent(shard, n_messages),
            Output::GiveState { to, shard, at } => {
                if let Some(bytes) = app.give(to, shard, at) {
                    self.machine.give(to, shard, at, bytes);
                    return true;
                }
            }
            Output::TakeState { shard, at, bytes } => app.take(shard, at, bytes),
            Output::Ended(end) => app.end(end),
        }
        false
    }

    // ---- calls from above ----

    /// Multicasts `message` in `shard`; see [`Machine::multicast`].
    ///
    /// # Errors
    /// [`Refused`]: nothing happened.
    pub fn multicast(&mut self, shard: ShardId, message: Payload) -> Result<(), Refused> {
        self.machine.multicast(shard, message)
    }

    /// Takes it that something of this time has led to what is multicast from now on; see
    /// [`Machine::learn`].
    pub fn learn(&mut self, time: Time) {
        self.machine.learn(time);
    }

    /// A place for a message that all members read there; see [`Machine::blank`].
    pub fn blank(&mut self, ground: &impl Ground) -> Option<Blank> {
        self.machine.blank(ground)
    }

    /// Copies the messages that the application reads elsewhere, before the end of this process is
    /// known; see [`Machine::copy_held`].
    pub fn copy_held(&self) {
        self.machine.copy_held();
    }

    /// Whether a message of `n_bytes` would be taken now for `shard`; see [`Machine::accepts`].
    ///
    /// # Errors
    /// [`Refused`]: why it would not.
    pub fn accepts(&self, shard: ShardId, n_bytes: usize) -> Result<(), Refused> {
        self.machine.accepts(shard, n_bytes)
    }

    /// Asks to leave; see [`Machine::leave`].
    pub fn leave(&mut self) {
        self.machine.leave();
    }

    /// Takes it from the application that the member on `seat` has failed.
    pub fn suspect(&mut self, seat: Rank) {
        self.machine.suspect(seat);
    }

    /// Gives a state that [`Application::give`] did not have at once.
    pub fn give(&mut self, to: Rank, shard: ShardId, at: Position, state: Vec<u8>) {
        self.machine.give(to, shard, at, state);
    }

    // ---- what is told ----

    /// The view that this process is in.
    pub fn view(&self) -> Option<&View> {
        self.machine.view()
    }

    /// The position up to which this process has delivered in its shard of a subgroup.
    pub fn position(&self, subgroup: usize) -> Option<Position> {
        self.machine.position(subgroup)
    }

    /// The end of the lease; see [`Machine::lease_until`].
    pub fn lease_until(&self) -> Instant {
        self.machine.lease_until()
    }

    /// The time from which on answers may be given; see [`Machine::answers_from`].
    pub fn answers_from(&self, subgroup: usize) -> Instant {
        self.machine.answers_from(subgroup)
    }

    /// The position that a read has to see; see [`Machine::held`].
    pub fn held(&self, subgroup: usize) -> Option<Position> {
        self.machine.held(subgroup)
    }

    /// What this process holds of the order and has not delivered; see [`Machine::ahead`].
    pub fn ahead(&self, subgroup: usize, ground: &impl Ground) -> Vec<Delivery> {
        self.machine.ahead(subgroup, ground)
    }

    /// The time up to which the order of the own shard of a subgroup is final; see
    /// [`Machine::frontier`].
    pub fn frontier(&self, subgroup: usize) -> Time {
        self.machine.frontier(subgroup)
    }

    /// Whether the application has the states of all shards that it is in.
    pub fn is_ready(&self) -> bool {
        self.machine.is_ready()
    }

    /// Whether this process has the log of one before, and is in no view yet.
    pub fn is_returning(&self) -> bool {
        self.machine.is_returning()
    }

    /// What such a process has promised in a restart, and told; 0 for nothing.
    pub fn promised(&self) -> u64 {
        self.machine.promised()
    }

    /// Whether the view is ending.
    pub fn is_wedged(&self) -> bool {
        self.machine.is_wedged()
    }

    /// What this process says of the ends of its view and of the one before.
    pub fn endings(&self) -> Vec<Ending> {
        self.machine.endings()
    }

    /// What this process has sent of large messages over a network.
    pub fn relayed(&self) -> Relayed {
        self.machine.relayed()
    }

    /// Whether other members are to get blocks of others' messages by way of this process.
    pub fn owes_blocks(&self) -> bool {
        self.machine.owes_blocks()
    }
}
