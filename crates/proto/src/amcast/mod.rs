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
//!   that some destination has not delivered and the newest, where the protocol forgets names
//!   ([`Multicast::FORGETS_NAMES`]).
//! - T4 Where a process that lost its memory comes back as another incarnation of its seat: of one
//!   seat, nothing of an earlier incarnation is handed over after something of a later one, and
//!   [`Multicast::meet`] is called in between. Nothing that was sent to the earlier one reaches
//!   the later, and neither does what is sent to the later one by who has met only the earlier.
//! - T5 No message asks for a timestamp above [`AFTER_MAX`].
//!
//! Where `multicast`, the host that ships, checks that it keeps them:
//!
//! | promise | kept by | what happens where it is not |
//! | --- | --- | --- |
//! | T1, T2 | `stream.rs` S1, by the numbers of bytes | the peer is given up |
//! | T3 | `Desk::multicast` refuses | asserted in `span.rs`, W1 |
//! | T4 | `Node::meet_newcomers`; `stream.rs` S6, S7 | asserted in `Node::take_records` |
//! | T5 | `Desk::multicast` refuses | asserted in `Node::hand` |
//!
//! What every protocol here promises, each with a checker of its own in the simulator: validity,
//! uniform integrity, uniform agreement, global total order, uniform prefix order, genuineness
//! (except where [`linear::Rule::AllGroups`] gives it up), and atomic global order where a rule of
//! [`linear`] is chosen.

pub mod fastcast;
pub mod footprint;
mod id;
pub mod linear;
pub mod members;
pub mod primcast;
mod seen;
pub mod skeen;
pub mod variant;

pub mod whitebox;
pub mod wire;

pub use footprint::Footprint;
pub use id::{GroupId, GroupSet, Layout, MAX_GROUPS, MessageId, Pid, Place, Timestamp};
pub use members::{FOUNDER, Members, NoChange};
pub use seen::{Seen, WINDOW};

use alloc::sync::Arc;
use alloc::vec::Vec;
use base::{Incarnation, Instant, Rank};
use wire::Wire;

/// The highest [`Message::after`] (T5): clocks rise above it by what is proposed, and never end.
/// (Of nanoseconds since 1970 it is the year 2262.)
pub const AFTER_MAX: Timestamp = Timestamp(1 << 63);

/// What is multicast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its name.
    pub id: MessageId,
    /// The groups that deliver it.
    pub dest: GroupSet,
    /// Its final timestamp shall be above this one (4.4.2): what its sender has seen.
    pub after: Timestamp,
    /// What it touches: see [`Config::commutes`].
    pub footprint: Footprint,
    /// What the application said.
    pub payload: Arc<[u8]>,
}

impl Message {
    /// One whose final timestamp may be any, and that commutes with no other.
    pub fn new(id: MessageId, dest: GroupSet, payload: impl Into<Arc<[u8]>>) -> Message {
        let (after, footprint) = (Timestamp::ZERO, Footprint::ALL);
        Message { id, dest, after, footprint, payload: payload.into() }
    }
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

/// What became of a cut at a timestamp (4.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Now: exactly what is addressed to this group with a final timestamp up to there has been
    /// delivered here.
    Exact,
    /// Never: another member's state was installed, and there is more in it.
    Missed,
}

/// Why there is no cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoCut {
    /// This was delivered already, and is above.
    TooLate(Timestamp),
    /// Too many are waited for.
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

    /// What became of the cut at `at` that was asked for ([`Multicast::cut`]): said between the
    /// deliveries, at its place among them.
    fn cut(&mut self, at: Timestamp, cut: Cut) {
        let _ = (at, cut);
    }

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
    /// everything up to `through` (where messages commute also some above). Only called where
    /// states are kept.
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
    /// Messages whose [`Footprint`]s do not conflict may be delivered in either order (4.4.3).
    /// PrimCast only; the others keep one order for all, which is more than that.
    pub commutes: bool,
    /// How long a message may stay undelivered before a process asks for what it lacks.
    pub patience: core::time::Duration,
    /// How many bytes of a log one message of the protocol carries, unless one entry is longer.
    pub part_bytes: usize,
    /// How many delivered messages a process keeps for members that have not delivered them, where
    /// states can be handed over instead ([`Host::keeps_states`]).
    pub retain: usize,
    /// How many bytes of them.
    pub retain_bytes: usize,
}

/// Two options that do not go together.
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
    /// Whether the options go together.
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

    /// The lowest timestamp that [`Multicast::cut`] still takes; what is lower comes sooner.
    fn lowest_cut(&self) -> Option<Timestamp> {
        None
    }

    /// Asks for a cut at `at`: [`Host::cut`] says when exactly what is addressed to this group with
    /// a final timestamp up to there has been delivered here (4.4.2). Asked for twice, it is said
    /// once. The group's clocks are raised to `at`, so it should not be far above them.
    ///
    /// # Errors
    /// [`NoCut`]: nothing happens.
    fn cut(&mut self, _at: Timestamp, _now: Instant) -> Result<(), NoCut> {
        Err(NoCut::NotKnown)
    }

    /// Whether what is older than [`WINDOW`] counts as delivered, so that T3 binds senders.
    const FORGETS_NAMES: bool = false;

    /// Whether this process has delivered a message, or has a state that covers it. Only asked
    /// where names are forgotten.
    fn has_delivered(&self, _id: MessageId) -> bool {
        false
    }

    /// How many messages this process remembers, if the protocol ever forgets any.
    fn n_held(&self) -> Option<usize> {
        None
    }

    /// One of the messages in `delivered` (names and final timestamps of what this process has
    /// delivered) that a log handed on by it would lack without saying so: the simulator asks after
    /// each step. `None` where the protocol keeps what it is asked about.
    fn unrecorded(&self, _delivered: &[(MessageId, Timestamp)]) -> Option<MessageId> {
        None
    }

    /// Whether its processes come back after a crash, with what they wrote down.
    ///
    /// Their host gives nothing of what a step did to anybody, neither what it sent nor what it
    /// delivered, before what that step changed is on stable storage, with the application's state
    /// (or with the deliveries that make it). Links to and from a process that came back are new:
    /// what was under way is lost.
    const RECOVERS: bool = false;

    /// Appends all that has to be on stable storage; [`Multicast::changes`] says what changes from
    /// here on.
    fn stable(&mut self, _out: &mut Vec<u8>) {}

    /// Appends what has changed of it since it was last asked; nothing if nothing has.
    fn changes(&mut self, _out: &mut Vec<u8>) {}

    /// The process that wrote `stable` and then `changes`, after a crash. `host` has the
    /// application's state as of `stable`, and is given again what was delivered since; what it is
    /// asked to send is for nobody before what [`Multicast::changes`] says then is stored, too.
    ///
    /// # Errors
    /// [`Malformed`](wire::Malformed): nobody wrote that.
    fn restore<H: Host<Self::Wire>>(
        _config: &Config,
        _me: Pid,
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

    /// A process that remembers nothing and wants the seat of `me`, whose last incarnation has
    /// stopped for ever; `None` where groups keep their members. Its host keeps states, and is at
    /// the beginning. No incarnation is ever used twice on a seat, and each is above those before.
    fn join(_config: &Config, _me: Pid, _life: Incarnation, _now: Instant) -> Option<Self> {
        None
    }

    /// What comes from `who` from now on is of this incarnation (T4), which is not a founder's.
    fn meet(&mut self, _who: Pid, _life: Incarnation) {}

    /// Has the own group go on without whoever sits on `seat`.
    ///
    /// Only the primary can; it does so as soon as it may, if it leads so long.
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

    /// Whether this process may propose and deliver: it is in an epoch that has begun, and has what
    /// others have forgotten. One that joins does not until it has its seat and a state.
    fn takes_part(&self) -> bool {
        true
    }

    /// Whether others have forgotten what this process has not delivered: it needs a state.
    fn is_behind(&self) -> bool {
        false
    }

    /// Whether it knows where its group stands: it is in an epoch, that may not have begun yet.
    fn is_in_an_epoch(&self) -> bool {
        true
    }

    /// Everything up to here was delivered here.
    fn delivered_upto(&self) -> Place {
        Place::default()
    }

    /// How many bytes of delivered messages this process keeps for members that lack them.
    fn n_kept_bytes(&self) -> usize {
        0
    }

    /// Neither proposes nor delivers from now on, or does so again: its host brings it a state,
    /// and nothing may be delivered before that.
    fn rest(&mut self, _rests: bool) {}

    /// Appends what another member needs besides the application's state, to stand where this one
    /// stands: for hosts that bring states themselves (they keep states, and [`Host::state`] gives
    /// none).
    fn give_state(&self, _out: &mut Vec<u8>) {}

    /// Takes what another member gave, unless it is no further than this one; the host has its
    /// application's state.
    ///
    /// # Errors
    /// [`Malformed`](wire::Malformed): nobody gave that. Nothing happens.
    fn take_state<H: Host<Self::Wire>>(
        &mut self,
        _given: &[u8],
        _now: Instant,
        _host: &mut H,
    ) -> Result<(), wire::Malformed> {
        Err(wire::Malformed)
    }

    /// Whether this process was told that it is no member any more: it has stopped for good.
    fn has_parted(&self) -> bool {
        false
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
    /// A process has come back, and says so to its own group and where it is known.
    Return,
    /// A group's own affairs: its epochs, its collection of garbage.
    Group,
}
