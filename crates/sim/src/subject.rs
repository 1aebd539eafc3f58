//! What is simulated: a whole member, seen through what the runtime may do with one.
//!
//! The world is compiled once: it knows its members as [`Life`], and of their kind what [`Species`]
//! says. Only a member itself is compiled for each protocol and each planted bug.

use crate::{NodeHost, Snapshots, Stamps, Store};
use base::{Inbox, Instant, MemberSet, Prefix, Rank, Slot};
use proto::disk::DiskEvent;
use proto::members::{Change, ChangeRefused, Configuration, StateHead};
use proto::node::Timing;
use proto::{Refused, Status, Ticket};

/// How a life begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Birth {
    /// With the group, on zeroed memory, with the empty state.
    Fresh,
    /// On an empty disk, on a seat of a cluster that is there already.
    Joined {
        /// Which disk it is.
        incarnation: base::Incarnation,
    },
    /// On the region of an earlier life, without the state.
    Reattached,
    /// On the disk of an earlier life, with the state of its last snapshot.
    Recovered {
        /// What that state covers.
        applied: Prefix,
        /// What was kept beside it.
        head: Option<StateHead>,
    },
}

/// The sizes of what a member keeps in its region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Slots in the ring: a power of two.
    pub ring_slots: u32,
    /// The longest value, in bytes.
    pub value_bytes: u32,
}

/// What a member is told at its start.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Which member it is.
    pub me: Rank,
    /// How many seats there are.
    pub members: usize,
    /// Which of them vote at first.
    pub founders: MemberSet,
    /// How this life begins.
    pub birth: Birth,
    /// The sizes.
    pub shape: Shape,
    /// Posting to a peer wakes it (`fabric::Capabilities::peer_works`).
    pub peer_works: bool,
    /// A dead process's memory answers.
    pub memory_outlives_process: bool,
    /// How long its detector's beats and suspicions take.
    pub timing: Timing,
}

/// A kind of member.
pub trait Subject: Life + Sized {
    /// How it is called in reports.
    const NAME: &'static str;

    /// Whether it has a disk, and survives with it what memory does not.
    const IS_DURABLE: bool = false;

    /// See [`proto::Replicator::NEEDS_HEAD`].
    const NEEDS_HEAD: bool = false;

    /// Whether its members change: an operator sees to it that they do.
    const HAS_OPERATOR: bool = false;

    /// What its disk is made of.
    const STORE: Store = Store::Model;

    /// How the runtime makes snapshots.
    const SNAPSHOTS: Snapshots = Snapshots::Sound;

    /// How leaders stamp their batches.
    const STAMPS: Stamps = Stamps::Sound;

    /// How many words its region has.
    fn n_words(members: usize, shape: &Shape) -> usize;

    /// A life begins.
    fn start(setup: &Setup, host: &mut NodeHost<'_>) -> Self;
}

/// A member under test, from its start to its end. The world keeps the runtime's part of the
/// contract (`proto::Replicator`).
pub trait Life: 'static {
    /// The longest value, in bytes.
    fn value_bytes_max(&self) -> usize;

    /// See `proto::Replicator::propose`.
    ///
    /// # Errors
    /// Nothing was proposed.
    fn propose(
        &mut self,
        value: &[u8],
        now: Instant,
        host: &mut NodeHost<'_>,
    ) -> Result<Slot, Refused>;

    /// See `proto::Replicator::read`.
    fn read(&mut self, ticket: Ticket, now: Instant, host: &mut NodeHost<'_>);

    /// Everything that the fabric has to say, and then a look at the own region and at the time.
    fn run(&mut self, events: &Inbox, now: Instant, host: &mut NodeHost<'_>);

    /// One event of its disk.
    fn on_disk(&mut self, event: DiskEvent, now: Instant, host: &mut NodeHost<'_>);

    /// A durable state covers everything below `prefix`.
    fn snapshotted(&mut self, prefix: Prefix, host: &mut NodeHost<'_>);

    /// When [`Life::run`] has something to do even if nothing happens.
    fn deadline(&self) -> Instant;

    /// The state machine now holds the state of `applied`.
    fn install(
        &mut self,
        applied: Prefix,
        head: Option<StateHead>,
        now: Instant,
        host: &mut NodeHost<'_>,
    );

    /// What goes with a state of everything below `prefix`.
    fn state_head(&self, prefix: Prefix) -> Option<StateHead>;

    /// Its figures.
    fn status(&self) -> Status;

    /// Who takes part, as far as it knows; `None` where that never changes.
    fn configuration(&self) -> Option<Configuration>;

    /// See `proto::Replicator::change`.
    ///
    /// # Errors
    /// Nothing changes.
    fn change(
        &mut self,
        change: Change,
        now: Instant,
        host: &mut NodeHost<'_>,
    ) -> Result<Slot, ChangeRefused>;

    /// Who leads, as far as it knows.
    fn trusted(&self) -> Option<Rank>;

    /// What it says every voter's disk holds, where there are disks.
    fn held(&self) -> Option<Prefix>;

    /// Slots that it has read from others' rings and delivered, if it counts them.
    fn n_caught_up(&self) -> u64;
}

/// What a world has to know of a kind of member: a [`Subject`] without its type.
#[derive(Clone, Copy)]
pub(crate) struct Species {
    pub(crate) is_durable: bool,
    /// See [`proto::Replicator::NEEDS_HEAD`].
    pub(crate) needs_head: bool,
    pub(crate) has_operator: bool,
    pub(crate) store: Store,
    pub(crate) snapshots: Snapshots,
    pub(crate) stamps: Stamps,
    pub(crate) n_words: fn(usize, &Shape) -> usize,
    pub(crate) start: fn(&Setup, &mut NodeHost<'_>) -> Box<dyn Life>,
}

impl Species {
    pub(crate) fn of<S: Subject>() -> Species {
        Species {
            is_durable: S::IS_DURABLE,
            needs_head: S::NEEDS_HEAD,
            has_operator: S::HAS_OPERATOR,
            store: S::STORE,
            snapshots: S::SNAPSHOTS,
            stamps: S::STAMPS,
            n_words: S::n_words,
            start: |setup, host| Box::new(S::start(setup, host)),
        }
    }
}
