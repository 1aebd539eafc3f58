//! Every protocol as a deterministic state machine.
//!
//! A machine is handed events and time and acts through a [`Host`]; it contains no clock, thread,
//! socket, file, randomness, `async`, `unsafe` or hash-map order, so the same code runs in the
//! simulator, under the model checker, over shared memory and over TCP.
//!
//! - [`keyed`]: what every protocol that keeps each key by itself offers to the engine.
//! - [`abd`]: multi-writer registers, one a key (ABD).
//! - [`Replicator`]: what every protocol that replicates a log offers to the runtime.
//! - [`amcast`]: atomic multicast to any set of groups (paper 004).
//! - [`velos`]: one-sided Paxos, a log of compare-and-swap words (paper 001).
//! - [`mu`]: one-sided writes under a permission (for comparison).
//! - [`multipaxos`]: two-sided Paxos with a stable leader and a read lease.
//! - [`durable`]: Falcon's Paxos over one-sided writes, on disk before it is acknowledged (003).
//! - [`disk`]: stable storage, as a machine sees it.
//! - [`omega`]: who should lead (the papers' Ω).
//! - [`members`]: who takes part in a log, and how that changes.
//! - [`node`]: one member, the two together.
//! - [`planted`]: mistakes that are planted to see whether they are caught.
//! - [`registry`]: the lists of protocols that an engine can run.
//! - [`table`]: what each protocol promises, as data.
#![forbid(unsafe_code)]
#![no_std]

extern crate alloc;

pub mod abd;
pub mod amcast;
pub mod disk;
pub mod durable;
pub mod keyed;
pub mod members;
pub mod mu;
pub mod multipaxos;
pub mod node;
pub mod omega;
pub mod planted;
pub mod registry;
pub mod table;
mod terms;
mod value;
pub mod velos;

use base::{Ballot, Event, Incarnation, Instant, MemberSet, Port, Prefix, Rank, Slot};

/// The world around a machine: its memory, its peers, and the state machine above it.
pub trait Host: Port {
    /// Its stable storage; [`disk::NoDisk`] where there is none.
    type Disk: disk::Disk;

    /// Its stable storage, if it has any.
    fn disk(&mut self) -> Option<&mut Self::Disk> {
        None
    }

    /// `value` is decided for `slot`. Called in slot order, once a slot and life of this node. An
    /// empty value is a no-op of the protocol's own.
    fn deliver(&mut self, slot: Slot, value: &[u8]);

    /// Something that the runtime should know.
    fn notify(&mut self, note: Note);
}

/// What a machine tells the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// This node leads: it may propose and serve.
    Leading {
        /// By which right.
        ballot: Ballot,
    },
    /// This node led, or tried to, and does not any more. What it proposed and has not seen
    /// delivered may be decided or not: unknown.
    Deposed {
        /// The right that it had.
        ballot: Ballot,
    },
    /// A linearizable read may be answered from the state as it is now.
    ReadReady(Ticket),
    /// The check could not be made here and now: try again, or ask the leader.
    ReadRefused(Ticket),
    /// The next slots are not to be had from anybody's ring: install a state that covers at least
    /// this prefix ([`Replicator::install`]).
    NeedState(Prefix),
}

/// One check for a batch of linearizable reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Why a value was not taken. Nothing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Surely not proposed: this node does not lead.
    NotLeader,
    /// The window is full: propose again after the next delivery.
    Full,
    /// Longer than [`Replicator::value_bytes_max`].
    TooLong,
}

/// What a machine is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Serves and proposes.
    Leader,
    /// Prepares to lead.
    Candidate,
    /// Applies what the leader decides.
    Follower,
    /// Applies, but has not the state yet: must serve nobody.
    Learner,
}

/// A machine's figures, for `status` and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// What it is.
    pub role: Role,
    /// Its own ballot if it leads or tries to, else the highest it knows to lead.
    pub ballot: Ballot,
    /// Every slot below is decided, as far as this node knows.
    pub committed: Prefix,
    /// Every slot below has been delivered here.
    pub applied: Prefix,
}

/// A protocol that replicates a log under one leader.
///
/// The runtime's part of the contract: every event of the fabric goes to [`Replicator::on_event`];
/// [`Replicator::poll`] is called after each batch of events and not later than
/// [`Replicator::deadline`]; [`Replicator::lead`] and [`Replicator::follow`] follow the verdicts of
/// `omega`.
pub trait Replicator {
    /// Whether a state without its head ([`Replicator::state_head`]) makes a learner of the member
    /// that installs it.
    const NEEDS_HEAD: bool = false;

    /// The longest value, in bytes.
    fn value_bytes_max(&self) -> usize;

    /// Ω trusts this node: try to lead until told otherwise.
    fn lead<H: Host>(&mut self, now: Instant, host: &mut H);

    /// Ω trusts another, or nobody.
    fn follow<H: Host>(&mut self, now: Instant, host: &mut H);

    /// Proposes `value` for the next free slot. It will be delivered, here too, unless this node is
    /// deposed first.
    ///
    /// # Errors
    /// [`Refused`]: nothing was proposed.
    fn propose<H: Host>(
        &mut self,
        value: &[u8],
        now: Instant,
        host: &mut H,
    ) -> Result<Slot, Refused>;

    /// Starts a linearizability check for every read that has arrived by now; the answer is a
    /// [`Note`] with the same ticket, perhaps before this returns.
    fn read<H: Host>(&mut self, ticket: Ticket, now: Instant, host: &mut H);

    /// One event of the fabric.
    fn on_event<H: Host>(&mut self, event: Event<'_>, now: Instant, host: &mut H);

    /// One event of the disk. Only protocols that have asked something of one need it.
    fn on_disk<H: Host>(&mut self, _event: disk::DiskEvent, _now: Instant, _host: &mut H) {}

    /// A state of everything below `prefix` is durable. (Nothing to do for a protocol without a
    /// disk.)
    fn snapshotted<H: Host>(&mut self, _prefix: Prefix, _host: &mut H) {}

    /// Who takes part, as far as this node's log goes; `None` for a protocol whose members never
    /// change, and while it is not known.
    fn configuration(&self) -> Option<members::Configuration> {
        None
    }

    /// Whose votes elect a leader, as far as this node has heard: Ω counts them. `None` if all do.
    fn electors(&self) -> Option<MemberSet> {
        self.configuration().map(|of| of.members.voters)
    }

    /// Who was elected in the present promise and has begun to tell this member its log, if the
    /// protocol has elections that Ω should know of: who is behind may not know by its own log that
    /// this one takes part.
    fn follows(&self) -> Option<Rank> {
        None
    }

    /// Who may be elected, as far as this node has heard. `None` if all may.
    fn candidates(&self) -> Option<MemberSet> {
        self.electors()
    }

    /// Which disk sits on this node's seat. The first, for a protocol that has none.
    fn incarnation(&self) -> Incarnation {
        Incarnation::FIRST
    }

    /// Whether members of this protocol come and go.
    fn has_seats(&self) -> bool {
        false
    }

    /// Begins a change of who takes part. It is decided when [`Replicator::configuration`] says so,
    /// or undone by the next leader.
    ///
    /// # Errors
    /// [`members::ChangeRefused`]: nothing changes.
    fn change<H: Host>(
        &mut self,
        _change: members::Change,
        _now: Instant,
        _host: &mut H,
    ) -> Result<Slot, members::ChangeRefused> {
        Err(members::ChangeRefused::Fixed)
    }

    /// Whether Ω may trust this node: who lacks the state, for one, cannot lead.
    fn can_lead(&self) -> bool {
        self.status().role != Role::Learner
    }

    /// These members have been heard lately: whoever was reported dead among them lives.
    fn heard(&mut self, members: MemberSet);

    /// Looks at the own region and at the time.
    fn poll<H: Host>(&mut self, now: Instant, host: &mut H);

    /// When [`Replicator::poll`] has something to do even if nothing happens.
    fn deadline(&self) -> Option<Instant>;

    /// The state machine now holds the state of `applied` (from a live member): continue there.
    /// A protocol with a disk may then let go of what the state replaces: the state is on stable
    /// storage before this is called.
    /// `head` is what the member that the state comes from said of it.
    fn install<H: Host>(
        &mut self,
        applied: Prefix,
        head: Option<members::StateHead>,
        now: Instant,
        host: &mut H,
    );

    /// What has to be kept, or sent, beside a state of everything below `prefix`, which was applied
    /// here: where the log goes on from it. `None` if that is not known, or means nothing here; so
    /// for every prefix above what [`Replicator::status`] says is applied.
    fn state_head(&self, _prefix: Prefix) -> Option<members::StateHead> {
        None
    }

    /// Its figures.
    fn status(&self) -> Status;

    /// Members whose state is known to hold at least `prefix` (for WAIT and for metrics).
    fn holders(&self, prefix: Prefix) -> MemberSet;

    /// Every slot below is on the stable storage of every member, as far as this node knows, and it
    /// is the leader's business to know. Nothing, for a protocol without a disk.
    fn held_by_all(&self) -> Prefix {
        Prefix::ZERO
    }

    /// Somebody waits until every member holds what is below `prefix`: what is posted late to those
    /// that are not needed goes out. (Nothing to do where nobody is.)
    fn hasten<H: Host>(&mut self, _prefix: Prefix, _now: Instant, _host: &mut H) {}

    /// The prefix that `member` is known to have applied.
    fn applied_by(&self, member: Rank) -> Prefix;
}

/// The first byte of a message that belongs to the machines here. The runtime's own messages start
/// with another; it hands on only those that start with this one.
pub const MESSAGE_CHANNEL: u8 = 0;

/// The first eight bytes, little endian; what is missing is zero.
pub(crate) fn le_word(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}
