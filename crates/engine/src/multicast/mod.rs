//! A node of atomic multicast, without its I/O: the members of all groups that live on it, streams
//! to the other nodes, the application above.
//!
//! Production (the crate `multicast`) and the simulator run this code alike; they differ in the
//! [`Ground`](crate::Ground) below.
//!
//! - [`Node`]: the turns. [`Application`]: the part above, which multicasts by its [`Desk`].
//! - `stream`: records between nodes that outlive broken links; `world`: what is in them.
//! - `journal`: what a node writes to its disk, and the output that waits for it.
//! - [`bugs`]: planted mistakes.

mod application;
pub mod bugs;
mod desk;
mod journal;
mod member;
mod node;
mod own;
#[cfg(test)]
mod paper;
mod places;
mod repeats;
mod span;
mod stop;
mod stream;
mod world;

pub use application::{Application, Delivery};
pub use bugs::Bug;
pub use desk::{
    Desk, Figures, MemberView, NoRemoval, Options, Outcome, PAYLOAD_BYTES_MAX, Refused,
    SNAPSHOTS_MAX, Snapshot,
};
pub use journal::Sizes;
pub use node::{Beginning, Node, Origin, Setup, n_words};
pub use places::Places;
pub use proto::amcast::{
    AFTER_MAX, Cut, Footprint, GroupId, GroupSet, Message, MessageId, Timestamp, WINDOW,
};
pub use stop::StopError;
pub use stream::{End, Refusal};
