//! A deterministic world that breaks everything that is not promised.
//!
//! The same machines that run over shared memory and TCP run here, in virtual time, from one seed:
//! torn memory, late completions, links that break, processes that die, stop and come back, clocks
//! that drift and jump; clients that record what they saw; and a file for each checked property
//! (`checks`). A seed replays everything, byte for byte.
//!
//! - [`Subject`]: the simulated kinds of members of protocols that replicate a log;
//!   [`mod@subjects`] lists them.
//! - [`run`], [`sweep()`], [`replay`]: one seed, many seeds, one seed with its trace.
//! - [`cluster`]: whole members, as they are released, and clients that speak RESP.
//! - [`group`]: processes with views, over the same network and memory.
//! - [`amcast`]: the world of atomic multicast, with judges of its own.
//! - [`script::Script`]: a world that a test steps by hand.
//!
//! Promises: no wall time , no thread, no hash-map order.
//! Never here: protocol logic.
#![forbid(unsafe_code)]

mod accepts;
pub mod amcast;
mod areas;
mod breaks;
mod checks;
mod clock;
pub mod cluster;
pub mod costs;
mod coverage;
mod disk;
mod disk_all;
mod disks;
mod dying;
pub mod group;
mod history;
mod kinds;
mod kv;
mod ledger;
mod link;
mod member;
mod memory;
mod outcome;
mod parcels;
mod plan;
mod queue;
mod runner;
pub mod script;
mod stable;
mod stamper;
mod stamps;
mod states;
mod stored;
mod subject;
pub mod subjects;
pub mod sweep;
mod trace;
mod words;
mod world;

pub use coverage::{Coverage, Mark};
pub use outcome::Outcome;
pub use plan::Config;
pub(crate) use plan::Weather;
pub use proto::LogShape as Shape;
pub use stamps::Stamps;
pub use stored::Store;
pub use subject::{Birth, Life, Setup, Subject};
pub use subjects::subjects;
pub use sweep::{Finding, Mutant, Report, replay, sweep};
pub use world::node::NodeHost;
pub use world::run;
pub use world::saving::Snapshots;

use std::fmt;

/// The promises of the simulated fabric beyond the common ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// A dead process's memory answers; links never break.
    Shm,
    /// The peer's process performs the verbs: while it is stopped or dead, nothing happens; links
    /// break.
    Tcp,
}

/// A checked property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// One value for each slot.
    Agreement,
    /// Slots in order, once, without gaps.
    Order,
    /// Every delivered value was proposed.
    Validity,
    /// Equal prefixes give equal states.
    Digest,
    /// A member that comes back without the state does not serve.
    Learner,
    /// A word that no CAS changes has one writer.
    SingleWriter,
    /// What a leader has decided stands beside its ballot.
    Introduced,
    /// A decided value is accepted by a majority.
    Decided,
    /// No value is accepted while another one may be decided.
    Safe,
    /// A leader has a majority's promises, and everything that is committed.
    Elected,
    /// A read is answered for a reason.
    Read,
    /// A client is answered for a reason.
    Answer,
    /// The log respects real time.
    RealTime,
    /// The clients' history is linearizable.
    Linearizable,
    /// Everything that is reported as held by every disk is there.
    Held,
    /// The committed prefix is on the disks of a majority.
    Durability,
    /// Configurations change by one voter at a time, and are the same at all members.
    Membership,
    /// State time follows elapsed time.
    StateTime,
    /// Views of one number are one view.
    ViewAgreement,
    /// A minority of a view makes no next one.
    Minority,
    /// Views deliver in one order.
    TotalOrder,
    /// A view ends at one position.
    SameTrim,
    /// The same messages are delivered between two views.
    VirtualSynchrony,
    /// A position has one time, times rise, and what is final stays.
    Times,
    /// What a member of a group shows ahead of deliveries is what is delivered next.
    Ahead,
    /// A read by a lease sees what was answered before it.
    Leases,
    /// What its sender saw delivered is not lost.
    Kept,
    /// The state is not lost by members that leave.
    StateKept,
    /// What a durable group has delivered is there again after all its processes have died.
    Restored,
    /// Shards overlap nowhere, few members are moved, and no state is lost by a move.
    Shards,
    /// Messages of one sender keep their order, and none is missing.
    SenderFifo,
    /// What is kept for others has a bound.
    Bounded,
    /// A healed majority serves.
    Liveness,
    /// The machine's own assertions.
    Panic,
}

/// A property that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The virtual time.
    pub at_ns: u64,
    /// The property.
    pub property: Property,
    /// The event.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {} ms: {}", self.property, self.at_ns / plan::MS, self.detail)
    }
}
