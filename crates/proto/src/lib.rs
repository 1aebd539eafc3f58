//! Every protocol as a deterministic state machine.
//!
//! A machine gets events and the time and acts through a [`Host`]; it contains no clock, thread,
//! socket, file, randomness, `async`, `unsafe` or hash-map order, so the same code runs in the
//! simulator, under the model checker, over shared memory and over TCP.
//!
//! - [`keyed`]: the interface of every protocol that keeps each key separately.
//! - [`abd`]: multi-writer registers, one a key (ABD).
//! - [`Replicator`]: the interface of every protocol that replicates a log.
//! - [`amcast`]: atomic multicast to any set of groups (paper 004).
//! - [`velos`]: one-sided Paxos, a log of compare-and-swap words (paper 001).
//! - [`mu`]: one-sided writes under a permission (for comparison).
//! - [`multipaxos`]: two-sided Paxos with a stable leader and a read lease.
//! - [`durable`]: Falcon's Paxos over one-sided writes, on disk before it is acknowledged (003).
//! - [`codec`]: messages as bytes.
//! - [`disk`]: stable storage, as a machine uses it.
//! - [`claims`]: what members' memory says, for judges.
//! - [`omega`]: the member that should lead (the papers' Ω).
//! - [`members`]: the members of a log, and their changes.
//! - [`node`]: one member, Ω and a machine together.
//! - [`planted`]: mistakes that are planted to test the checks.
//! - [`registry`]: the list of protocols.
//! - [`rdmc`]: schedules that relay a long message in blocks (paper 000).
//! - [`sst`]: rows that members write into each other's memory (paper 000).
//! - [`vsync`]: views and ordered multicast in them (paper 000).
//! - [`table`]: the promises of each protocol, as data.
#![forbid(unsafe_code)]
#![no_std]

extern crate alloc;

pub mod abd;
pub mod amcast;
mod candidacy;
pub mod claims;
mod clock;
pub mod codec;
pub mod disk;
pub mod durable;
pub mod keyed;
pub mod members;
pub mod mu;
pub mod multipaxos;
pub mod node;
pub mod omega;
pub mod planted;
pub mod rdmc;
pub mod registry;
mod shape;
pub mod sst;
#[cfg(test)]
mod stage;
pub mod table;
mod terms;
mod value;
pub mod velos;
pub mod vsync;

pub use shape::LogShape;

use base::{Ballot, Event, Incarnation, Instant, MemberSet, Port, Prefix, Rank, Slot};

/// The environment of a machine: its memory, its peers, and the state machine above it.
pub trait Host: Port {
    /// The stable storage; [`disk::NoDisk`] for a host without any.
    type Disk: disk::Disk;

    /// The stable storage, if the host has any.
    fn disk(&mut self) -> Option<&mut Self::Disk> {
        None
    }

    /// Delivers `value`, which is decided for `slot`. Called in slot order, once a slot and life of
    /// this node. An empty value is a no-op of the protocol's own.
    fn deliver(&mut self, slot: Slot, value: &[u8]);

    /// Reports an event that the runtime should know of.
    fn notify(&mut self, note: Note);
}

/// The report of a machine to the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// This node leads: it may propose and serve.
    Leading {
        /// The ballot of its term.
        ballot: Ballot,
    },
    /// This node led, or tried to, and no longer does. Its proposals that it has not seen delivered
    /// may be decided or not: unknown.
    Deposed {
        /// The ballot that it had.
        ballot: Ballot,
    },
    /// A linearizable read may be answered from the state as it is now.
    ReadReady(Ticket),
    /// The check could not be made now at this member: try again, or ask the leader.
    ReadRefused(Ticket),
    /// The next slots are in no member's ring any longer: install a state that covers at least this
    /// prefix ([`Replicator::install`]).
    NeedState(Prefix),
}

/// The name of one check for a batch of linearizable reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// The reason why a value was not taken. Nothing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The value was surely not proposed: this node does not lead.
    NotLeader,
    /// The window is full: propose again after the next delivery.
    Full,
    /// The value is longer than [`Replicator::value_bytes_max`].
    TooLong,
}

/// The role of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It serves and proposes.
    Leader,
    /// It prepares to lead.
    Candidate,
    /// It applies the leader's decisions.
    Follower,
    /// It applies, but does not have the state yet: it must not serve.
    Learner,
}

/// The figures of a machine, for `status` and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The role.
    pub role: Role,
    /// The own ballot of a leader or candidate, otherwise the highest that is known to lead.
    pub ballot: Ballot,
    /// The prefix that is decided, as far as this node knows.
    pub committed: Prefix,
    /// The prefix that has been delivered here.
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

    /// Starts to lead, or tries to, until the opposite order: Ω trusts this node.
    fn lead<H: Host>(&mut self, now: Instant, host: &mut H);

    /// Stops leading: Ω trusts another member, or none.
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

    /// Takes one event of the fabric.
    fn on_event<H: Host>(&mut self, event: Event<'_>, now: Instant, host: &mut H);

    /// Takes one event of the disk. Only protocols that use a disk need it.
    fn on_disk<H: Host>(&mut self, _event: disk::DiskEvent, _now: Instant, _host: &mut H) {}

    /// Notes that a state of everything below `prefix` is durable. (Protocols without a disk do
    /// nothing.)
    fn snapshotted<H: Host>(&mut self, _prefix: Prefix, _host: &mut H) {}

    /// The members, as far as this node's log goes; `None` for a protocol whose members never
    /// change, and while they are not known.
    fn configuration(&self) -> Option<members::Configuration> {
        None
    }

    /// The members whose votes elect a leader, as far as this node knows: Ω counts them. `None` if
    /// all do.
    fn electors(&self) -> Option<MemberSet> {
        self.configuration().map(|of| of.members.voters)
    }

    /// The winner of the election in the present promise, once it has begun to send this member its
    /// log, if the protocol has elections that Ω should know of: a member that is behind may not
    /// know from its own log that the winner is a member.
    fn follows(&self) -> Option<Rank> {
        None
    }

    /// The members that may be elected, as far as this node knows. `None` if all may.
    fn candidates(&self) -> Option<MemberSet> {
        self.electors()
    }

    /// The incarnation on this node's seat. It is the first, for a protocol without incarnations.
    fn incarnation(&self) -> Incarnation {
        Incarnation::FIRST
    }

    /// Whether members of this protocol change.
    fn has_seats(&self) -> bool {
        false
    }

    /// Begins a change of the members. It is decided when [`Replicator::configuration`] says so, or
    /// undone by the next leader.
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

    /// Whether Ω may trust this node: a member that lacks the state, for one, cannot lead.
    fn can_lead(&self) -> bool {
        self.status().role != Role::Learner
    }

    /// Notes that these members have been heard lately: one that was reported dead lives.
    fn heard(&mut self, members: MemberSet);

    /// Reads the own region and takes the time.
    fn poll<H: Host>(&mut self, now: Instant, host: &mut H);

    /// The time at which [`Replicator::poll`] is due even if nothing happens.
    fn deadline(&self) -> Option<Instant>;

    /// Continues from the state of `applied`, which the state machine now holds (from a live
    /// member). A protocol with a disk may then free what the state replaces: the state is on
    /// stable storage before this is called. `head` is the head that came with the state.
    fn install<H: Host>(
        &mut self,
        applied: Prefix,
        head: Option<members::StateHead>,
        now: Instant,
        host: &mut H,
    );

    /// The head that has to be kept, or sent, beside a state of everything below `prefix`, which
    /// was applied here: the log continues from it. `None` if that is not known, or has no meaning
    /// here; so for every prefix above the applied one of [`Replicator::status`].
    fn state_head(&self, _prefix: Prefix) -> Option<members::StateHead> {
        None
    }

    /// The figures of the machine.
    fn status(&self) -> Status;

    /// The members whose state is known to hold at least `prefix` (for WAIT and for metrics).
    fn holders(&self, prefix: Prefix) -> MemberSet;

    /// The prefix that is on the stable storage of every member, as far as this node knows: only a
    /// leader does. Zero, for a protocol without a disk.
    fn held_by_all(&self) -> Prefix {
        Prefix::ZERO
    }

    /// Sends everything below `prefix` that is held back from spare followers, since a client waits
    /// until every member holds it. (Without spare followers there is nothing to do.)
    fn hasten<H: Host>(&mut self, _prefix: Prefix, _now: Instant, _host: &mut H) {}

    /// The prefix that `member` is known to have applied.
    fn applied_by(&self, member: Rank) -> Prefix;
}

/// The first byte of a message that belongs to the machines of this crate. The runtime's own
/// messages start with another; it passes on only those that start with this one.
pub const MESSAGE_CHANNEL: u8 = 0;

/// The first eight bytes, little endian; missing bytes are zero.
pub(crate) fn le_word(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}
