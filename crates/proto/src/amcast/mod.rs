//! Atomic multicast: a message to any set of groups, delivered in one consistent order (paper 004,
//! chapters 2, 4 and 5).
//!
//! - [`primcast`]: three communication steps to every destination, through crashes of primaries.
//! - [`skeen`]: the classic, one process a group, no failures; also as the thesis extends it.
//! - [`whitebox`], [`fastcast`]: the protocols that PrimCast is compared with.
//! - [`linear`]: the rules that make the order respect real time, over PrimCast and over Skeen.
//!
//! A machine is one process of one group. It acts through a [`Host`]; it owns no clock, thread or
//! socket.
//!
//! What the host promises:
//! - T1 Links are FIFO and neither create, corrupt nor duplicate messages.
//! - T2 Between two processes that live, what is sent arrives (a runtime over TCP numbers and
//!   repeats across reconnections).
//! - T3 A sender numbers its messages in order, and fewer than [`WINDOW`] lie between the oldest
//!   that some destination has not delivered and the newest.
//!
//! What every protocol here promises, each with a checker of its own in the simulator: validity,
//! uniform integrity, uniform agreement, global total order, uniform prefix order, genuineness
//! (except where [`linear::Rule::AllGroups`] gives it up), and atomic global order where a rule of
//! [`linear`] is chosen.

pub mod fastcast;
mod id;
pub mod linear;
pub mod primcast;
mod seen;
pub mod skeen;
pub mod variant;

pub mod whitebox;
pub mod wire;

pub use id::{GroupId, GroupSet, Layout, MAX_GROUPS, MessageId, Pid, Place, Timestamp};
pub use seen::{Seen, WINDOW};

use alloc::sync::Arc;
use alloc::vec::Vec;
use base::{Instant, Rank};
use wire::Wire;

/// What is multicast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its name.
    pub id: MessageId,
    /// The groups that deliver it.
    pub dest: GroupSet,
    /// Its final timestamp shall be above this one (4.4.2): what its sender has seen.
    pub after: Timestamp,
    /// What the application said.
    pub payload: Arc<[u8]>,
}

/// Whom something is sent to. Never to the sender itself: a machine handles its own messages at
/// once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// One process.
    One(Pid),
    /// Every member of these groups but the sender.
    Groups(GroupSet),
}

/// What a real clock says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealClock {
    /// Nanoseconds since an origin that all processes share.
    pub now: u64,
    /// It is off by this much at most: attested by whoever synchronizes it.
    pub error: u64,
}

/// The world around a machine.
pub trait Host<W> {
    /// Sends (T1, T2).
    fn send(&mut self, to: To, wire: &W);

    /// `message` is next in the order, at this final timestamp.
    fn deliver(&mut self, message: &Arc<Message>, at: Timestamp);

    /// The synchronized clock, if there is one whose error is bounded and attested right now.
    fn real_clock(&mut self) -> Option<RealClock> {
        None
    }

    /// Whether [`Host::state`] gives states: without them what a dead member lacks is kept for it,
    /// for ever.
    fn keeps_states(&self) -> bool {
        false
    }

    /// The application's state after everything that was delivered to it so far.
    fn state(&mut self) -> Option<Vec<u8>> {
        None
    }

    /// Replaces the application's state by one that another member's host gave, and that covers
    /// everything up to `through`. Only called where states are kept.
    fn install(&mut self, state: &[u8], through: Place) {
        let _ = (state, through);
        debug_assert!(self.keeps_states(), "a state came to a host that keeps none");
    }
}

/// How a system is built: the same everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its groups.
    pub layout: Layout,
    /// Which order across groups.
    pub rule: linear::Rule,
    /// Timestamps follow real clocks (4.4.1).
    pub hybrid: bool,
    /// How long a message may stay undelivered before a process asks for what it lacks.
    pub patience: core::time::Duration,
    /// How many delivered messages a process keeps for members that have not delivered them, where
    /// states can be handed over instead ([`Host::keeps_states`]).
    pub retain: usize,
}

/// A protocol of atomic multicast: one process of it.
///
/// The runtime's part: what arrives from another process goes to [`Multicast::on_wire`]; what a
/// sender multicasts goes to [`Multicast::on_start`] at every member of every destination group;
/// [`Multicast::trust`] follows Ω; [`Multicast::tick`] is called not later than
/// [`Multicast::deadline`]; after any of these, or after a batch of them, [`Multicast::settle`].
pub trait Multicast: Sized + 'static {
    /// What travels between its processes.
    type Wire: Wire;

    /// Whether a group goes on when a minority of it dies.
    const SURVIVES_CRASHES: bool;

    /// A process at the beginning of time.
    fn new(config: &Config, me: Pid) -> Self;

    /// A sender's message (the papers' START).
    fn on_start<H: Host<Self::Wire>>(&mut self, message: &Arc<Message>, now: Instant, host: &mut H);

    /// Something from another process.
    fn on_wire<H: Host<Self::Wire>>(
        &mut self,
        from: Pid,
        wire: &Self::Wire,
        now: Instant,
        host: &mut H,
    );

    /// Ω of this group names `leader`.
    fn trust<H: Host<Self::Wire>>(&mut self, leader: Rank, now: Instant, host: &mut H);

    /// Looks at the time.
    fn tick<H: Host<Self::Wire>>(&mut self, now: Instant, host: &mut H);

    /// Does what follows from everything that has happened since the last time: a protocol may
    /// leave it until here, so that a batch costs one answer.
    fn settle<H: Host<Self::Wire>>(&mut self, _now: Instant, _host: &mut H) {}

    /// When [`Multicast::tick`] has something to do.
    fn deadline(&self) -> Option<Instant>;

    /// Whether this process leads its group, as far as it knows.
    fn is_primary(&self) -> bool;

    /// Every message with a final timestamp up to here that is addressed to this group has been
    /// delivered here (4.4.2); `None` where the protocol cannot tell.
    fn safe_ts(&self) -> Option<Timestamp> {
        None
    }

    /// How many messages this process remembers, if the protocol ever forgets any.
    fn n_held(&self) -> Option<usize> {
        None
    }

    /// What a wire message is about: for the check of genuineness.
    fn about(wire: &Self::Wire) -> impl Iterator<Item = About>;
}

/// What a wire message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// One message's ordering: only its destinations may be involved.
    Message(MessageId),
    /// A clock between two groups that some message addresses together.
    Clock,
    /// A group's own affairs: its epochs, its collection of garbage.
    Group,
}
