//! What is simulated: a whole member, seen through what the runtime may do with one.

use crate::Store;
use base::{Event, Instant, MemberSet, Rank, Slot};
use proto::durable::{Change, ChangeRefused, Configuration, StateHead};
use proto::{Host, Refused, Status, Ticket};

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
        applied: base::Prefix,
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
}

/// A member under test. The world keeps the runtime's part of the contract (`proto::Replicator`).
pub trait Subject: Sized {
    /// How it is called in reports.
    const NAME: &'static str;

    /// Whether it has a disk, and survives with it what memory does not.
    const IS_DURABLE: bool = false;

    /// Whether its members change: an operator sees to it that they do.
    const HAS_OPERATOR: bool = false;

    /// What its disk is made of.
    const STORE: Store = Store::Model;

    /// A planted bug of the runtime: snapshots lack what each client has asked last.
    const SNAPSHOT_WITHOUT_SESSIONS: bool = false;

    /// How many words its region has.
    fn n_words(members: usize, shape: &Shape) -> usize;

    /// A life begins.
    fn start<H: Host>(setup: &Setup, now: Instant, host: &mut H) -> Self;

    /// The longest value, in bytes.
    fn value_bytes_max(&self) -> usize;

    /// See `proto::Replicator::propose`.
    ///
    /// # Errors
    /// Nothing was proposed.
    fn propose<H: Host>(
        &mut self,
        value: &[u8],
        now: Instant,
        host: &mut H,
    ) -> Result<Slot, Refused>;

    /// See `proto::Replicator::read`.
    fn read<H: Host>(&mut self, ticket: Ticket, now: Instant, host: &mut H);

    /// One event of the fabric.
    fn on_event<H: Host>(&mut self, event: Event<'_>, now: Instant, host: &mut H);

    /// One event of its disk.
    fn on_disk<H: Host>(&mut self, _event: proto::disk::DiskEvent, _now: Instant, _host: &mut H) {}

    /// A durable state covers everything below `prefix`.
    fn snapshotted<H: Host>(&mut self, _prefix: base::Prefix, _now: Instant, _host: &mut H) {}

    /// Looks at the own region and at the time.
    fn poll<H: Host>(&mut self, now: Instant, host: &mut H);

    /// When `poll` has something to do even if nothing happens.
    fn deadline(&self) -> Option<Instant>;

    /// The state machine now holds the state of `applied`.
    fn install<H: Host>(
        &mut self,
        applied: base::Prefix,
        head: Option<StateHead>,
        now: Instant,
        host: &mut H,
    );

    /// What goes with a state of everything below `prefix`.
    fn state_head(&self, _prefix: base::Prefix) -> Option<StateHead> {
        None
    }

    /// Its figures.
    fn status(&self) -> Status;

    /// Who takes part, as far as it knows; `None` where that never changes.
    fn configuration(&self) -> Option<Configuration> {
        None
    }

    /// See `proto::Replicator::change`.
    ///
    /// # Errors
    /// Nothing changes.
    fn change<H: Host>(
        &mut self,
        _change: Change,
        _now: Instant,
        _host: &mut H,
    ) -> Result<Slot, ChangeRefused> {
        Err(ChangeRefused::Fixed)
    }

    /// Who leads, as far as it knows.
    fn trusted(&self) -> Option<Rank>;

    /// What it says every voter's disk holds, and who votes, if it knows.
    fn held(&self) -> Option<(base::Prefix, MemberSet)> {
        None
    }

    /// Slots that it has read from others' rings and delivered, if it counts them.
    fn n_caught_up(&self) -> u64 {
        0
    }
}
