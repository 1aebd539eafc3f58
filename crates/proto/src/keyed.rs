//! The per-key family: protocols that keep each key's value by itself, without a log.
//!
//! A log orders all commands; a protocol of this family orders the operations of one key only. So
//! it has no leader that everything passes, and no command can be about two keys at one moment.
//!
//! A [`KeyedMachine`] is told what clients want ([`KeyedMachine::submit`]) and what the fabric
//! brings, and acts through a [`KeyedHost`], which holds this member's replica of every key (its
//! *register*: a tag and a value) and computes new values. Values are the host's business: to a
//! machine they are bytes, and the empty value is that of a key that is not there.
//!
//! - K1 an operation ends once, by [`KeyedHost::end`], not later than its deadline and a poll.
//! - K2 [`End::NotDone`] is said only if no other member can ever see an effect of the operation.
//! - K3 an operation is never begun again by a machine: a client that tries again has another one.
//!   By construction: [`KeyedMachine::submit`] alone begins one.

use base::{Event, Incarnation, Instant, MemberSet, Port, Rank};

pub use crate::Ticket;

/// A version of one key's value. Versions are ordered by counter, then rank, then run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag {
    /// The number of the write: above every one that its writer had heard of for this key.
    pub counter: u64,
    /// The writer's position.
    pub rank: u16,
    /// The process run of the writer: a later run has a higher one.
    pub run: Incarnation,
}

impl Tag {
    /// The version of a key that was never written.
    pub const NONE: Tag = Tag { counter: 0, rank: 0, run: Incarnation(0) };
}

/// What a client wants of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<'a> {
    /// Its value.
    Read {
        /// The key.
        key: &'a [u8],
    },
    /// To give it the value that [`KeyedHost::compute`] says.
    Write {
        /// The key.
        key: &'a [u8],
    },
}

impl<'a> Op<'a> {
    /// The key that it is about.
    pub const fn key(&self) -> &'a [u8] {
        match self {
            Op::Read { key } | Op::Write { key } => key,
        }
    }
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End<'a> {
    /// A read: the key has this value, and a majority holds it or a newer one.
    Value(&'a [u8]),
    /// A write: a majority holds what was computed, or nothing had to change.
    Written,
    /// Nothing was written, and nothing will be (K2: in ABD, A8).
    NotDone,
    /// The deadline passed on the way: others may see the new value, or never.
    Unknown,
}

/// Why an operation was not begun. Nothing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Enough are under way: try again when one has ended.
    Full,
    /// This member has no state yet, and does not count.
    Merging,
}

/// How a machine stands, for `status` and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyedStatus {
    /// Whether this member's replica counts, and it serves.
    pub counts: bool,
    /// The members that were heard lately, this one too.
    pub heard: MemberSet,
    /// Those among them that say that they count.
    pub counting: MemberSet,
    /// Whether so many have lost their memory that none of them can ever get a state again.
    pub is_lost: bool,
}

/// What a machine has counted since its process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyedCounts {
    /// Reads that had to write back what they had found.
    pub write_backs: u64,
    /// Merges of a majority's state that came to their end; at most one a run.
    pub merges: u64,
    /// Keys that a merge brought.
    pub keys_merged: u64,
    /// Messages that were dropped since their sender's run is over, or was not meant.
    pub outdated: u64,
    /// Requests that were sent again.
    pub resent: u64,
}

/// What every protocol of this family has to be told.
#[derive(Clone, Copy, Debug)]
pub struct KeyedConfig {
    /// Which member this is.
    pub me: Rank,
    /// How many there are.
    pub members: usize,
    /// This process run. Runs of one member rise.
    pub run: Incarnation,
    /// Whether this is the first run of a member of a new cluster: the empty state is the state.
    pub founds: bool,
}

/// The world around a machine: its peers, this member's registers, and what computes values.
pub trait KeyedHost: Port {
    /// This member's replica of `key`, if it has ever stored one.
    fn register(&self, key: &[u8]) -> Option<(Tag, &[u8])>;

    /// Puts a version in the place of whatever this member's replica of `key` holds.
    fn put_register(&mut self, key: &[u8], tag: Tag, value: &[u8]);

    /// The first register behind `after` in the order of keys; the first of all for `None`.
    fn next_register(&self, after: Option<&[u8]>) -> Option<(&[u8], Tag, &[u8])>;

    /// The value that the write `ticket` gives a key that has `value`, put into `new`. False if
    /// nothing is to change. Called once an operation.
    fn compute(&mut self, ticket: Ticket, value: &[u8], new: &mut alloc::vec::Vec<u8>) -> bool;

    /// An operation has ended (K1).
    fn end(&mut self, ticket: Ticket, end: End<'_>);
}

/// A protocol that keeps each key by itself.
///
/// The engine's part of the contract: every event of the fabric goes to
/// [`KeyedMachine::on_event`]; [`KeyedMachine::poll`] is called after each batch of events and not
/// later than [`KeyedMachine::deadline`].
pub trait KeyedMachine {
    /// The longest value that [`KeyedHost::compute`] may give, in bytes.
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

    /// One event of the fabric.
    fn on_event<H: KeyedHost>(&mut self, event: Event<'_>, now: Instant, host: &mut H);

    /// Looks at the time.
    fn poll<H: KeyedHost>(&mut self, now: Instant, host: &mut H);

    /// When [`KeyedMachine::poll`] has something to do even if nothing happens.
    fn deadline(&self) -> Instant;

    /// How it stands.
    fn status(&self) -> KeyedStatus;

    /// What it has counted.
    fn counts(&self) -> KeyedCounts;
}
