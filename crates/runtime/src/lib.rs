//! The loop that runs an [`engine::Engine`] on this machine: it waits for descriptors, admits
//! clients, and connects the engine to a fabric, clocks and a disk.
//!
//! Promises: one thread per replica; no lock, no system call and no allocation per command between
//! the queue and the decision while all members are awake; no wait without a deadline; no lost
//! wake-up. The crate contains no protocol decision and interprets no command: `proto` below and an
//! [`engine::Application`] above do that.
//!
//! - [`replica`]: the loop. `plant`: the layer below the engine on this machine.
//! - [`disk`]: the log in a directory. [`offline`]: a directory without a replica.
//! - [`clock`], [`poller`].
#![forbid(unsafe_code)]
#![warn(clippy::print_stderr)]

mod by;
pub mod clock;
mod complaint;
pub mod disk;
mod frozen;
mod keepalive;
pub mod offline;
mod plant;
pub mod poller;
pub mod replica;
mod saving;

pub use by::By;
pub use clock::{boot_now, unix_ms};
pub use complaint::complain;
pub use engine::service::ANSWER_BYTES_MAX;
pub use engine::streams::{Interest, Ready};
pub use engine::{
    Answer, Answers, Appended, Application, Asker, Changed, Desk, DiskFigures, Door, Family, Laid,
    NoChange, Order, Orders, Origin, Overdue, PATIENCE, Parted, Performed, ReadAnswer, Saving,
    Sequence, StableStorage, Stats, View,
};
pub use keepalive::probe_client;
pub use plant::HostPlant;
pub use poller::Poller;
pub use replica::{Config, Replica, Sockets};
