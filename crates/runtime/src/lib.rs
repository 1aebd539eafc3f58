//! The poll loop of a replica: feeds events to a protocol, performs its effects, waits.
//!
//! Promises: one thread a replica; no lock, no system call and no allocation per command between
//! the queue and the decision while everyone is awake; no wait without a deadline and no queue
//! without a bound; nobody sleeps on work. Contains no protocol decision and looks into no command:
//! those are the business of `proto` below and of a [`Service`] above.
//!
//! - [`replica`]: the loop. [`service`]: what stands behind it. [`desk`]: where the two meet.
//! - [`outbox`], [`wire`], [`flow`]: commands and reads on their way to the leader and back.
//! - [`order`]: what a leader proposed is executed in its order, or not at all.
//! - [`backlog`], [`transfer`]: catching up. `seats`: who takes part, and how that changes.
//! - [`offline`]: a directory without a replica.
//! - [`clock`], [`poller`], [`stats`].
#![forbid(unsafe_code)]

pub mod backlog;
pub mod clock;
pub mod desk;
mod detour;
pub mod disk;
pub mod flow;
pub mod offline;
pub mod order;
pub mod outbox;
pub mod poller;
pub mod replica;
pub mod service;
pub mod stats;
pub mod transfer;
pub mod wire;
pub mod world;

mod catchup;
mod core;
mod propose;
mod reading;
mod restoring;
mod saving;
mod seats;
mod ticks;
mod withheld;

#[cfg(test)]
mod mock;

pub use clock::{boot_now, unix_ms};
pub use desk::{Desk, Laid, Overdue, View};
pub use outbox::Sequence;
pub use poller::{Interest, Poller, Ready};
pub use replica::{Config, Replica};
pub use seats::{Changed, NoChange, Parted};
pub use service::{
    Answer, Answers, Appended, Asker, Origin, Performed, ReadAnswer, Saving, Service,
};
pub use stats::{DiskFigures, Stats};
