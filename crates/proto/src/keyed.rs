//! The per-key family: protocols that keep each key's value by itself, without a log.
//!
//! A log orders all commands; a protocol of this family orders the operations of one key only. So
//! it has no leader for all operations, and no command can be about two keys at one moment.
//!
//! A [`KeyedMachine`] gets the clients' requests ([`KeyedMachine::submit`]) and the fabric's
//! events, and acts through a [`KeyedHost`], which holds this member's replica of every key (its
//! *register*: a tag and a value) and computes new values. Values are the host's concern: to a
//! machine they are bytes, and the empty value is that of an absent key.
//!
//! - K1 an operation ends once, by [`KeyedHost::end`], not later than its deadline and a poll.
//! - K2 [`End::NotDone`] is reported only if no other member can ever see an effect of the
//!   operation.
//! - K3 an operation is never begun again by a machine: a client that tries again has another one.
//!   By construction: [`KeyedMachine::submit`] alone begins one.

use crate::codec::{self, Varints};
use base::{Event, Incarnation, Instant, MemberSet, Port, Rank};

pub use crate::Ticket;

codec::coded! {
    /// A version of one key's value. Versions are ordered by counter, then rank, then run.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Tag in Varints {
        /// The number of the write: above every one that its writer knew for this key.
        pub counter: u64,
        /// The writer's position.
        pub rank: u16,
        /// The process run of the writer: a later run has a higher one.
        pub run: Incarnation,
    }
}

impl Tag {
    /// The version of a key that was never written.
    pub const NONE: Tag = Tag { counter: 0, rank: 0, run: Incarnation(0) };
}

/// A client's request about one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<'a> {
    /// A request for its value.
    Read {
        /// The key.
        key: &'a [u8],
    },
    /// A request to give it the value that [`KeyedHost::compute`] returns.
    Write {
        /// The key.
        key: &'a [u8],
    },
}

impl<'a> Op<'a> {
    /// The key of the request.
    pub const fn key(&self) -> &'a [u8] {
        match self {
            Op::Read { key } | Op::Write { key } => key,
        }
    }
}

/// The result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End<'a> {
    /// A read: the key has this value, and a majority holds it or a newer one.
    Value(&'a [u8]),
    /// A write: a majority holds what was computed, or nothing had to change.
    Written,
    /// Nothing was written, and nothing will be (K2: in ABD, A8).
    NotDone,
    /// The deadline passed during the operation: others may see the new value, or never.
    Unknown,
}

/// The reason why an operation was not begun. Nothing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Too many operations are under way: try again when one has ended.
    Full,
    /// This member has no state yet, and does not count.
    Merging,
}

/// The state of a machine, for `status` and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyedStatus {
    /// Whether this member's replica counts, so that it serves.
    pub counts: bool,
    /// The members heard lately, including this one.
    pub heard: MemberSet,
    /// The members among them that say that they count.
    pub counting: MemberSet,
    /// Whether so many members have lost their memory that none of them can ever get a state again.
    pub is_lost: bool,
}

/// The counts of a machine since its process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyedCounts {
    /// The reads that had to write back what they had found.
    pub write_backs: u64,
    /// The completed merges of a majority's state; at most one a run.
    pub merges: u64,
    /// The keys that a merge brought.
    pub keys_merged: u64,
    /// The messages that were dropped since their sender's run is over, or since they were for
    /// another run.
    pub outdated: u64,
    /// The requests that were sent again.
    pub resent: u64,
}

/// The parameters of every protocol of this family.
#[derive(Clone, Copy, Debug)]
pub struct KeyedConfig {
    /// The rank of this member.
    pub me: Rank,
    /// The number of members.
    pub members: usize,
    /// This process run. Runs of one member rise.
    pub run: Incarnation,
    /// Whether this is the first run of a member of a new cluster: the empty state is the state.
    pub founds: bool,
}

/// What a machine claims, for the judges of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim<'a> {
    /// A majority of replicas that count holds this version of the key, or a newer one.
    Confirms {
        /// The key.
        key: &'a [u8],
        /// The version.
        tag: Tag,
    },
    /// This replica counts from now on: it holds all that was confirmed before this run began.
    Counts,
}

/// The environment of a machine: its peers, this member's registers, and the computation of values.
pub trait KeyedHost: Port {
    /// This member's replica of `key`, if it has ever stored one.
    fn register(&self, key: &[u8]) -> Option<(Tag, &[u8])>;

    /// Replaces the version of `key` in this member's replica.
    fn put_register(&mut self, key: &[u8], tag: Tag, value: &[u8]);

    /// The first register after `after` in the order of keys; the first of all for `None`.
    fn next_register(&self, after: Option<&[u8]>) -> Option<(&[u8], Tag, &[u8])>;

    /// Puts into `new` the value that the write `ticket` gives a key with `value`. False if nothing
    /// changes. Called once an operation.
    fn compute(&mut self, ticket: Ticket, value: &[u8], new: &mut alloc::vec::Vec<u8>) -> bool;

    /// Reports the end of an operation (K1).
    fn end(&mut self, ticket: Ticket, end: End<'_>);

    /// Takes a claim of the machine. Simulations alone look at it.
    fn claim(&mut self, _claim: Claim<'_>) {}
}

/// A protocol that keeps each key separately.
///
/// The engine's part of the contract: every event of the fabric goes to
/// [`KeyedMachine::on_event`]; [`KeyedMachine::poll`] is called after each batch of events and not
/// later than [`KeyedMachine::deadline`].
pub trait KeyedMachine {
    /// The largest value that [`KeyedHost::compute`] may return, in bytes.
    const VALUE_BYTES_MAX: usize;

    /// Begins an operation. It may end before this returns.
    ///
    /// # Errors
    /// [`Refused`]: nothing was begun.
    fn submit<H: KeyedHost>(
        &mut self,
        ticket: Ticket,
        op: Op<'_>,
        deadline: Instant,
        now: Instant,
        host: &mut H,
    ) -> Result<(), Refused>;

    /// Takes one event of the fabric.
    fn on_event<H: KeyedHost>(&mut self, event: Event<'_>, now: Instant, host: &mut H);

    /// Takes the time.
    fn poll<H: KeyedHost>(&mut self, now: Instant, host: &mut H);

    /// The time at which [`KeyedMachine::poll`] is due even if nothing happens.
    fn deadline(&self) -> Instant;

    /// The state of the machine.
    fn status(&self) -> KeyedStatus;

    /// The counts of the machine.
    fn counts(&self) -> KeyedCounts;
}
