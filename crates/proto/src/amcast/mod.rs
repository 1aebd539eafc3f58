//! Atomic multicast: a message to any set of groups, delivered in one consistent order (paper 004,
//! chapters 2, 4 and 5).
//!
//! - [`primcast`]: three communication steps to every destination, through crashes of primaries.
//! - [`skeen`]: the classic, one process a group, no failures; also with the thesis's extensions.
//! - [`whitebox`], [`fastcast`]: the protocols that PrimCast is compared with.
//! - [`linear`]: the rules that make the order respect real time, over PrimCast and over Skeen.
//!
//! A machine is one process of one group. It acts through a [`Host`]; it owns no clock, thread or
//! socket.
//!
//! The host's promises:
//! - T1 Links are FIFO and neither create, corrupt nor duplicate messages.
//! - T2 Between two processes that live, every message arrives (a runtime over TCP numbers and
//!   repeats messages across reconnections).
//! - T3 A sender numbers its messages in order, and fewer than [`WINDOW`] lie between the oldest
//!   that some destination has not delivered and the newest, where the protocol forgets names
//!   ([`Multicast::FORGETS_NAMES`]).
//! - T4 Where a process that lost its memory comes back as another incarnation of its seat: of one
//!   seat, nothing of an earlier incarnation is handed over after something of a later one, and
//!   [`Multicast::meet`] is called in between. No message to the earlier incarnation reaches the
//!   later, and neither does a message to the later one from a process that has met only the
//!   earlier.
//! - T5 No message asks for a timestamp above [`AFTER_MAX`].
//!
//! `multicast`, the released host, checks that it keeps them:
//!
//! | promise | kept by | consequence of a violation |
//! | --- | --- | --- |
//! | T1, T2 | `stream.rs` S1, by the numbers of bytes | the peer is given up |
//! | T3 | `Desk::multicast` refuses | asserted in `span.rs`, W1; `seen.rs` keeps as much, S3 |
//! | T4 | `Node::meet_newcomers`; `stream.rs` S6, S7 | asserted in `Node::take_records` |
//! | T5 | `Desk::multicast` refuses | asserted in `Node::hand` |
//!
//! The promises of every protocol here, each with a checker of its own in the simulator: validity,
//! uniform integrity, uniform agreement, global total order, uniform prefix order, genuineness
//! (except where [`linear::Rule::AllGroups`] gives it up), and atomic global order where a rule of
//! [`linear`] is chosen.
//!
//! [`bugs`] lists the planted mistakes of all of them.

pub mod bugs;
pub mod fastcast;
pub mod footprint;
mod id;
pub mod linear;
pub mod members;
mod missing;
pub mod outbox;
pub mod primcast;
mod seen;
pub mod skeen;
pub mod whitebox;
pub mod wire;

pub use footprint::Footprint;
pub use id::{GroupId, GroupSet, Layout, MAX_GROUPS, MessageId, Pid, Place, Timestamp};
pub use members::{FOUNDER, Members, NoChange};
pub use seen::{Seen, WINDOW};

use crate::planted::Planting;
use alloc::sync::Arc;
use alloc::vec::Vec;
use base::{Incarnation, Instant, Rank};
use wire::Wire;

/// The highest [`Message::after`] (T5): clocks rise above it by proposals, and never reach their
/// end. (As nanoseconds since 1970 it is the year 2262.)
pub const AFTER_MAX: Timestamp = Timestamp(1 << 63);

/// A message to be multicast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its name.
    pub id: MessageId,
    /// The groups that deliver it.
    pub dest: GroupSet,
    /// The timestamp that its final timestamp must exceed (4.4.2): the highest that its sender has
    /// seen.
    pub after: Timestamp,
    /// The classes that it touches: see [`Config::commutes`].
    pub footprint: Footprint,
    /// The application's bytes.
    pub payload: Arc<[u8]>,
}

impl Message {
    /// A message with any final timestamp, which commutes with no other.
    pub fn new(id: MessageId, dest: GroupSet, payload: impl Into<Arc<[u8]>>) -> Message {
        let (after, footprint) = (Timestamp::ZERO, Footprint::ALL);
        Message { id, dest, after, footprint, payload: payload.into() }
    }
}

/// The receivers of a message. The sender is never one of them: a machine handles its own messages
/// at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// One process.
    One(Pid),
    /// Every member of these groups but the sender.
    Groups(GroupSet),
}

/// The result of a cut at a timestamp (4.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The cut is now: exactly the messages to this group with a final timestamp up to it have been
    /// delivered here.
    Exact,
    /// The cut will never be: another member's state was installed, which covers more.
    Missed,
}

/// The reason why there is no cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoCut {
    /// A message above the cut, at this timestamp, was delivered already.
    TooLate(Timestamp),
    /// Too many cuts are waited for.
    TooMany,
    /// The protocol cannot tell when a timestamp has passed.
    NotKnown,
}

impl core::fmt::Display for NoCut {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            NoCut::TooLate(at) => write!(f, "something at {at:?} was delivered: ask for more"),
            NoCut::TooMany => f.write_str("too many snapshots are waited for: try again"),
            NoCut::NotKnown => {
                f.write_str("the protocol has no timestamped interface: use PrimCast")
            }
        }
    }
}

impl core::error::Error for NoCut {}

/// The reading of a real clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealClock {
    /// Nanoseconds since an origin that all processes share.
    pub now: u64,
    /// The largest error of `now`, which the clock's synchronization attests.
    pub error: u64,
}

/// The environment of a machine.
pub trait Host<W>: Deliveries {
    /// Sends (T1, T2).
    fn send(&mut self, to: To, wire: &W);

    /// The reading of the synchronized clock, if there is one whose error is bounded and attested
    /// now.
    fn real_clock(&mut self) -> Option<RealClock> {
        None
    }
}

/// The part of a machine's environment that its deliveries go to.
pub trait Deliveries {
    /// Delivers `message`, which is next in the order, at this final timestamp.
    fn deliver(&mut self, message: &Arc<Message>, at: Timestamp);

    /// Reports the result of the cut at `at` that was requested ([`Multicast::cut`]), between the
    /// deliveries, at its place among them.
    fn cut(&mut self, at: Timestamp, cut: Cut) {
        let _ = (at, cut);
    }

    /// Whether [`Deliveries::state`] gives states: without them the messages that a dead member
    /// lacks are kept for it, for ever.
    fn keeps_states(&self) -> bool {
        false
    }

    /// The application's state after everything that was delivered to it so far.
    fn state(&mut self) -> Option<Vec<u8>> {
        None
    }

    /// Replaces the application's state by one from another member's host, which covers everything
    /// up to `through` (where messages commute also some messages above). Only called where states
    /// are kept.
    fn install(&mut self, state: &[u8], through: Place) {
        let _ = (state, through);
        debug_assert!(self.keeps_states(), "a state came to a host that keeps none");
    }
}

/// The parameters of a system, the same at every process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its groups.
    pub layout: Layout,
    /// The rule for the order across groups.
    pub rule: linear::Rule,
    /// Whether timestamps follow real clocks (4.4.1).
    pub hybrid: bool,
    /// Whether messages whose [`Footprint`]s do not conflict may be delivered in either order
    /// (4.4.3). This is for PrimCast only; the others keep one order for all, which is stronger.
    pub commutes: bool,
    /// The time that a message may stay undelivered before a process asks for what it lacks.
    pub patience: core::time::Duration,
    /// The bytes of a log in one message of the protocol, unless one entry is longer.
    pub part_bytes: usize,
    /// The number of delivered messages that a process keeps for members that have not delivered
    /// them, where states can be handed over instead ([`Deliveries::keeps_states`]).
    pub retain: usize,
    /// The bytes of those messages.
    pub retain_bytes: usize,
}

/// The error of two options that exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsound(linear::Rule);

impl core::fmt::Display for Unsound {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "messages that commute and the order {}: nobody has shown that real time survives \
             overtaking; use the order plain, or let nothing commute",
            self.0.name()
        )
    }
}

impl core::error::Error for Unsound {}

impl Config {
    /// Whether the options are compatible.
    ///
    /// # Errors
    /// [`Unsound`].
    pub fn check(&self) -> Result<(), Unsound> {
        let is_sound = !self.commutes || self.rule == linear::Rule::Plain;
        if is_sound { Ok(()) } else { Err(Unsound(self.rule)) }
    }
}

/// A protocol of atomic multicast: one process of it.
///
/// The runtime's part: messages from other processes go to [`Multicast::on_wire`]; a sender's
/// multicast goes to [`Multicast::on_start`] at every member of every destination group;
/// [`Multicast::trust`] follows Ω; [`Multicast::tick`] is called not later than
/// [`Multicast::deadline`]; after any of these, or after a batch of them, [`Multicast::settle`].
pub trait Multicast: Sized + 'static {
    /// The type of the messages between its processes.
    type Wire: Wire;

    /// Its planted mistake, if it can have one: [`Sound`](crate::planted::Sound) in a release.
    type Planted: Planting<bugs::Bug>;

    /// Whether a group continues when a minority of it dies.
    const SURVIVES_CRASHES: bool;

    /// Whether a message is a request for something that may be long, which is repeated after a
    /// patience if no answer comes. A host may skip one that it has just handed on.
    fn asks(_wire: &Self::Wire) -> bool {
        false
    }

    /// A process in its initial state.
    fn new(config: &Config, me: Pid, planted: Self::Planted) -> Self;

    /// Takes a sender's message (the papers' START).
    fn on_start<H: Host<Self::Wire>>(&mut self, message: &Arc<Message>, now: Instant, host: &mut H);

    /// Takes a message from another process.
    fn on_wire<H: Host<Self::Wire>>(
        &mut self,
        from: Pid,
        wire: &Self::Wire,
        now: Instant,
        host: &mut H,
    );

    /// Notes that Ω of this group names `leader`.
    fn trust<H: Host<Self::Wire>>(&mut self, leader: Rank, now: Instant, host: &mut H);

    /// Takes the time.
    fn tick<H: Host<Self::Wire>>(&mut self, now: Instant, host: &mut H);

    /// Performs the consequences of everything that has happened since the last call: a protocol
    /// may leave them until here, so that a batch costs one answer.
    fn settle<H: Host<Self::Wire>>(&mut self, _now: Instant, _host: &mut H) {}

    /// The time at which [`Multicast::tick`] is due.
    fn deadline(&self) -> Option<Instant>;

    /// Whether this process leads its group, as far as it knows.
    fn is_primary(&self) -> bool;

    /// The timestamp up to which every message to this group has been delivered here (4.4.2);
    /// `None` where the protocol cannot tell.
    fn safe_ts(&self) -> Option<Timestamp> {
        None
    }

    /// The lowest timestamp that [`Multicast::cut`] still takes; lower cuts come sooner.
    fn lowest_cut(&self) -> Option<Timestamp> {
        None
    }

    /// Requests a cut at `at`: [`Deliveries::cut`] reports the moment at which exactly the messages
    /// to this group with a final timestamp up to it have been delivered here (4.4.2). A repeated
    /// request gets one report. The group's clocks are raised to `at`, so it should not be far
    /// above them.
    ///
    /// # Errors
    /// [`NoCut`]: nothing happens.
    fn cut(&mut self, _at: Timestamp, _now: Instant) -> Result<(), NoCut> {
        Err(NoCut::NotKnown)
    }

    /// Whether messages older than [`WINDOW`] count as delivered, so that T3 binds senders.
    const FORGETS_NAMES: bool = false;

    /// Whether this process has delivered a message, or has a state that covers it. It is only
    /// called where names are forgotten.
    fn has_delivered(&self, _id: MessageId) -> bool {
        false
    }

    /// The number of messages that this process remembers, if the protocol ever forgets any.
    fn n_held(&self) -> Option<usize> {
        None
    }

    /// One of the messages in `delivered` (names and final timestamps of this process's deliveries)
    /// that a log from it would lack without a sign: the simulator asks after each step. `None`
    /// where the protocol keeps all messages.
    fn unrecorded(&self, _delivered: &[(MessageId, Timestamp)]) -> Option<MessageId> {
        None
    }

    /// The incarnation that this process hears on the seat of `pid`, and the place up to which that
    /// one has delivered everything, as it has told; of itself, the truth. The simulator compares
    /// the two. `None` where the protocol forgets no message.
    fn mark_of(&self, _pid: Pid) -> Option<(Incarnation, Place)> {
        None
    }

    /// Whether its processes come back after a crash, with their stable storage.
    ///
    /// Their host releases no result of a step, neither its messages nor its deliveries, before the
    /// step's changes are on stable storage, with the application's state (or with the deliveries
    /// that make it). Links to and from a process that came back are new: messages under way are
    /// lost.
    const RECOVERS: bool = false;

    /// Appends everything that has to be on stable storage; [`Multicast::changes`] gives the
    /// changes from here on.
    fn stable(&mut self, _out: &mut Vec<u8>) {}

    /// Appends the changes since the last call; nothing if there are no changes.
    fn changes(&mut self, _out: &mut Vec<u8>) {}

    /// The process that wrote `stable` and then `changes`, after a crash. `host` has the
    /// application's state as of `stable`, and gets the later deliveries again; it must hold back
    /// the messages of this call until [`Multicast::changes`] is stored too.
    ///
    /// # Errors
    /// [`Malformed`](wire::Malformed): the bytes are not from a process.
    fn restore<H: Host<Self::Wire>>(
        _config: &Config,
        _me: Pid,
        _planted: Self::Planted,
        _stable: &[u8],
        _changes: &[&[u8]],
        _now: Instant,
        _host: &mut H,
    ) -> Result<Self, wire::Malformed> {
        Err(wire::Malformed)
    }

    /// Whether its groups change their members: [`Multicast::join`], [`Multicast::meet`],
    /// [`Multicast::remove`].
    const CHANGES_MEMBERS: bool = false;

    /// A process that remembers nothing and requests the seat of `me`, whose last incarnation has
    /// stopped for ever; `None` where groups keep their members. Its host keeps states, and is in
    /// its initial state. No incarnation is ever used twice on a seat, and each is above those
    /// before.
    fn join(
        _config: &Config,
        _me: Pid,
        _planted: Self::Planted,
        _life: Incarnation,
        _now: Instant,
    ) -> Option<Self> {
        None
    }

    /// Notes that the messages of a process are from now on of the incarnation `life` (T4), which
    /// is not a founder's.
    fn meet(&mut self, _who: Pid, _life: Incarnation) {}

    /// Removes the member on `seat` from the own group.
    ///
    /// Only the primary can; it does so as soon as it may, if it still leads then.
    ///
    /// # Errors
    /// [`NoChange`]: nothing happens.
    fn remove(&mut self, _seat: Rank) -> Result<(), NoChange> {
        Err(NoChange::NotPossible)
    }

    /// The own group's members, as far as this process has followed, and whether their epoch has
    /// begun here; `None` where groups keep their members.
    fn members(&self) -> Option<(Members, bool)> {
        None
    }

    /// Whether this process may propose and deliver: it is in an epoch that has begun, and has
    /// everything that others have forgotten. A process that joins may not before it has its seat
    /// and a state.
    fn takes_part(&self) -> bool {
        true
    }

    /// Whether others have forgotten messages that this process has not delivered: it needs a
    /// state.
    fn is_behind(&self) -> bool {
        false
    }

    /// Whether it is in an epoch, which may not have begun yet.
    fn is_in_an_epoch(&self) -> bool {
        true
    }

    /// The place up to which everything was delivered here.
    fn delivered_upto(&self) -> Place {
        Place::default()
    }

    /// The place below which members of the own group may have forgotten messages, as far as this
    /// process knows.
    fn floor(&self) -> Place {
        Place::default()
    }

    /// The bytes of delivered messages that this process keeps for members that lack them.
    fn n_kept_bytes(&self) -> usize {
        0
    }

    /// Stops proposing and delivering, or resumes it: its host brings it a state, and nothing may
    /// be delivered before that.
    fn rest(&mut self, _rests: bool) {}

    /// Appends what another member needs besides the application's state to reach this one's
    /// position: for hosts that bring states themselves (they keep states, and
    /// [`Deliveries::state`] gives none).
    fn give_state(&self, _out: &mut Vec<u8>) {}

    /// Takes another member's state, unless it is no further than this one's; the host has its
    /// application's state.
    ///
    /// # Errors
    /// [`Malformed`](wire::Malformed): the bytes are not a member's state. Nothing happens.
    fn take_state<H: Host<Self::Wire>>(
        &mut self,
        _given: &[u8],
        _now: Instant,
        _host: &mut H,
    ) -> Result<(), wire::Malformed> {
        Err(wire::Malformed)
    }

    /// Whether this process knows that it is no longer a member: it has stopped for good.
    fn has_parted(&self) -> bool {
        false
    }

    /// The subjects of a wire message, for the check of genuineness.
    fn about(wire: &Self::Wire) -> impl Iterator<Item = About>;
}

/// The subject of a wire message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// One message's ordering: only its destinations may be involved.
    Message(MessageId),
    /// A clock between two groups that some message addresses together.
    Clock,
    /// The return of a process, which it tells its own group and the groups that know it.
    Return,
    /// A group's own affairs: its epochs, its collection of garbage.
    Group,
}
