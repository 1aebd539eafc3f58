//! The loop that runs an [`engine::Engine`] on this machine: it waits for descriptors, lets clients
//! in, and puts a fabric, clocks and a disk below.
//!
//! Promises: one thread a replica; no lock, no system call and no allocation per command between
//! the queue and the decision while everyone is awake; no wait without a deadline; no lost wake-up.
//! Contains no protocol decision and looks into no command: those are the business of `proto`
//! below and of an [`engine::Application`] above.
//!
//! - [`replica`]: the loop. `plant`: what the engine stands on here.
//! - [`disk`]: the log in a directory. [`offline`]: a directory without a replica.
//! - [`clock`], [`poller`].
#![forbid(unsafe_code)]

pub mod clock;
pub mod disk;
pub mod offline;
mod plant;
pub mod poller;
pub mod replica;
mod saving;

pub use clock::{boot_now, unix_ms};
pub use engine::service::ANSWER_BYTES_MAX;
pub use engine::{
    Answer, Answers, Appended, Application, Asker, Changed, Desk, DiskFigures, Door, Family, Laid,
    NoChange, Origin, Overdue, PATIENCE, Parted, Performed, ReadAnswer, Saving, Sequence,
    StableStorage, Stats, View,
};
pub use plant::HostPlant;
pub use poller::{Interest, Poller, Ready};
pub use replica::{Config, Replica, Sockets};
