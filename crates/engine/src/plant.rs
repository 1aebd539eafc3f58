//! What an engine stands on: verbs, clocks and a disk. Production has one, the simulator another,
//! and nothing else differs between the two.

use crate::bugs::Bug;
use crate::origin::Origin;
use crate::stats::DiskFigures;
use base::{Evidence, Inbox, Instant, Port, Prefix, Slot};
use core::time::Duration;
use proto::Ticket;
use proto::disk::{Disk, DiskEvent};
use proto::keyed::Tag;
use proto::members::StateHead;
use std::fmt;

/// What a member claims to have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim<'a> {
    /// It has executed everything below.
    Executed(Prefix),
    /// A check of its machine begins for reads.
    CheckBegins(Ticket),
    /// The machine says that the check has succeeded.
    CheckPasses(Ticket),
    /// This goes with the state of everything below: it says so of a state that it gives, that it
    /// saves, or from which its machine continues.
    Ends {
        /// What the state covers.
        prefix: Prefix,
        /// What a machine has to hear of it.
        head: StateHead,
    },
    /// It performs a read.
    Performs {
        /// When the read came, as this member was told the time.
        came: Instant,
        /// Everything below is in the state that it reads.
        executed: Prefix,
    },
    /// It has executed this command of a client of `of`.
    Executes {
        /// The process that the client asked.
        of: Origin,
        /// The command's number there.
        number: u64,
        /// Where the log has it.
        slot: Slot,
    },
    /// It tells its client that this command was executed.
    Tells {
        /// This process.
        of: Origin,
        /// The command's number.
        number: u64,
        /// Where the log has it.
        slot: Slot,
    },
    /// It has performed this read of a client of another process.
    PerformsFor {
        /// The process that the client asked.
        of: Origin,
        /// The read's number there.
        number: u64,
    },
    /// It tells its client what this read has found elsewhere.
    TellsRead {
        /// This process.
        of: Origin,
        /// The read's number.
        number: u64,
    },
    /// Its replica has this version of a key from now on.
    Keeps {
        /// The key.
        key: &'a [u8],
        /// The version.
        tag: Tag,
    },
    /// A machine that keeps each key by itself claims this.
    OfKey(proto::keyed::Claim<'a>),
    /// It is told the state's time.
    Observes {
        /// Unix milliseconds.
        state_ms: u64,
        /// Whether that is news.
        evidence: Evidence,
        /// When the state came to it, by [`Plant::boot_now`].
        at: Instant,
    },
    /// It stamps a batch.
    Stamps {
        /// Unix milliseconds.
        unix_ms: u64,
        /// The state's time.
        state_ms: u64,
        /// When, by [`Plant::boot_now`].
        at: Instant,
    },
}

/// The fabric, the clocks and the disk of one member.
pub trait Plant: Port {
    /// Its stable storage, where the protocol has one.
    type Disk: StableStorage;

    /// The monotonic clock. Reading it twice within a turn shows how long the turn's work takes.
    fn now(&self) -> Instant;

    /// The time since the machine was started, with the time during which it was suspended: keys
    /// grow old also then.
    fn boot_now(&self) -> Instant;

    /// Milliseconds since 1970 by the wall clock, which may be set.
    fn wall_ms(&self) -> u64;

    /// Sends on its way whatever was posted.
    fn flush(&mut self);

    /// Adds completions, messages and failures to `inbox`. Never blocks.
    fn poll(&mut self, inbox: &mut Inbox);

    /// Says whether this member leads: advice about scheduling.
    fn lead(&mut self, leads: bool);

    /// A line for the operator.
    fn say(&mut self, line: &str);

    /// Takes a claim of this member, for the judges of a simulation. Production has none.
    fn claim(&mut self, _claim: Claim<'_>) {}

    /// Takes several. They are made only if they are looked at.
    fn claims(&mut self, _claims: impl Iterator<Item = Claim<'static>>) {}

    /// Whether the engine has this bug. Production has none; a simulation plants one to see whether
    /// its checks notice.
    fn has_planted(&self, _bug: Bug) -> bool {
        false
    }
}

/// A member's log, and the snapshots beside it.
///
/// - S1 nothing here waits: what was asked for is reported by [`StableStorage::pump`] and
///   [`StableStorage::snapshotted`].
/// - S2 one snapshot is written at a time.
/// - S3 a disk that failed says so by [`StableStorage::failure`], and its member ends: what is on
///   it is not known then.
pub trait StableStorage: Disk + fmt::Debug {
    /// Hands over what is asked for, and tells what became of earlier requests.
    fn pump(&mut self, now: Instant, tell: impl FnMut(DiskEvent));

    /// When [`StableStorage::pump`] has to look though nothing woke the loop.
    fn look_within(&self) -> Option<Duration>;

    /// Why this member must stop (S3).
    fn failure(&self) -> Option<&str>;

    /// How it stands.
    fn figures(&self) -> DiskFigures;

    /// Whether enough was logged for a snapshot.
    fn wants_snapshot(&self) -> bool;

    /// Whether a snapshot is being written.
    fn is_writing(&self) -> bool;

    /// Begins to write the state of everything below `prefix`, with `head` for a note; its bytes
    /// come in pieces. False if none can be begun now: the caller tries again later, and the log
    /// only grows meanwhile.
    fn begin_snapshot(&mut self, prefix: Prefix, head: Option<StateHead>, now: Instant) -> bool;

    /// The machine waits for the snapshot that is to be begun: a pause that is long for the sake of
    /// others on the volume ends sooner. Nothing to do for a disk without such pauses.
    fn hurry_snapshot(&mut self) {}

    /// How long no snapshot is begun, after one that failed.
    fn snapshot_pause(&self, now: Instant) -> Option<Duration>;

    /// Whether the next piece of the state is wanted.
    fn wants_piece(&self) -> bool;

    /// The next piece of the state; `is_last` if none follows.
    fn snapshot_piece(&mut self, bytes: Vec<u8>, is_last: bool);

    /// The state that is being written is no longer wanted.
    fn give_up_snapshot(&mut self);

    /// The prefix of the snapshot that has become durable since the last call.
    fn snapshotted(&mut self, now: Instant) -> Option<Prefix>;
}
