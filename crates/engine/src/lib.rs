//! One member, without its I/O: requests of clients in, a protocol machine in the middle, replies
//! out.
//!
//! Production and the simulator run this code alike. They differ in the [`Plant`] below (fabric,
//! clocks, disk) and in what moves bytes between clients and the [`Door`] above.
//!
//! Promises: work per turn is bounded, and so is every queue; no clock, thread, socket or file; no
//! allocation per command between the queue and the decision. The engine decides nothing that is
//! the protocol's and looks into no command.
//!
//! - [`Engine`]: the turns, of one [`Family`] or another, [`Log`] or [`Keyed`]. [`plant`]: what
//!   they stand on. [`service`]: what they serve.
//! - [`streams`]: the bytes of connections, for a door.
//! - [`desk`], [`outbox`]: requests that have no answer yet.
//! - [`group`]: a process of a group with views, with turns of its own.
//! - [`multicast`]: a node of atomic multicast, with turns of its own too.
//! - [`wire`], [`flow`]: frames between engines; `detour`: around a cut.
//! - [`order`]: what a leader proposed is executed in its order, or not at all.
//! - [`backlog`], [`transfer`], `catchup`: a member that fell behind gets what it lacks.
//! - `seats`: the members, and how they change.
//! - [`bugs`]: planted mistakes, for a simulation that wants to know whether it would notice.
#![forbid(unsafe_code)]

pub mod backlog;
pub mod bugs;
mod config;
pub mod desk;
mod detour;
mod engine;
mod family;
pub mod flow;
mod ground;
pub mod group;
mod host;
pub mod keyed;
mod log;
pub mod multicast;
pub mod order;
pub mod orders;
mod origin;
pub mod outbox;
pub mod plant;
pub mod service;
pub mod stats;
pub mod streams;
pub mod transfer;
pub mod wire;

mod catchup;
mod core;
mod pace;
mod propose;
mod reading;
mod restoring;
mod seats;
mod ticks;
mod withheld;

#[cfg(test)]
mod mock;

pub use bugs::Bug;
pub use catchup::{put_head, split_state};
pub use config::{Bounds, Config};
pub use desk::{Desk, Laid, Overdue, PATIENCE, View};
pub use engine::Engine;
pub use family::{Family, Parts};
pub use ground::Ground;
pub use host::HostState;
pub use keyed::Keyed;
pub use log::{FoundState, Log};
pub use orders::{Order, Orders};
pub use outbox::Sequence;
pub use plant::{Claim, Plant, StableStorage};
pub use seats::{Changed, NoChange, Parted};
pub use service::{
    Answer, Answers, Appended, Application, Asker, Door, Origin, Performed, ReadAnswer, Saving,
};
pub use stats::{DiskFigures, Stats};
