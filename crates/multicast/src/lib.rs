//! The door to atomic multicast: a message to any set of groups, delivered everywhere in one
//! consistent order, through crashes of primaries.
//!
//! A *system* ([`System`]) has up to seven *nodes* (operating-system processes on one fabric) and
//! up to thirty-two *groups*; each group has members on some of the nodes, at most one on each. A
//! node that hosts no member may multicast too.
//!
//! - [`Door`] is the usual interface: a thread of its own runs the node, `multicast` and deliveries
//!   are calls from any thread.
//! - [`Node`] and [`Application`] avoid the second thread: the application is called within the
//!   loop, and its sockets are in the loop's [`runtime::Poller`].
//! - [`run`] opens a node's fabric and picks the protocol, for either.
//!
//! Promises: those of the chosen protocol, by [`proto::amcast`] (validity, uniform integrity,
//! uniform agreement, global total order, uniform prefix order; with an [`Order`] other than plain,
//! real-time order); every queue has a bound and every wait a deadline; a refused message was not
//! multicast, and an unknown outcome is reported as unknown.
//!
//! A node that died comes back under its name: with a data directory ([`Data`]) as itself, since
//! the directory holds its promises and its application's state; without one as another
//! *incarnation* ([`Start::Anew`]), which its groups seat instead, and which gets a state from live
//! nodes. A successor that claims to be the same incarnation and has forgotten its promises is told
//! to stop.
//!
//! The crate never contains protocol decisions.
#![forbid(unsafe_code)]

pub mod application;
pub mod bugs;
mod clock;
pub mod desk;
pub mod door;
pub mod driver;
mod journal;
mod member;
pub mod node;
pub mod open;
mod places;
mod repeats;
mod span;
mod stop;
mod stream;
pub mod system;
mod world;

pub use application::{Application, Delivery};
pub use desk::{
    Desk, Figures, MemberView, NoRemoval, Options, Outcome, PAYLOAD_BYTES_MAX, Refused, Snapshot,
};
pub use door::{Door, Failed, Pending};
pub use driver::Descriptors;
pub use journal::Sizes;
pub use node::Node;
pub use open::{Data, Error, Seat, Start, run};
pub use places::Places;
pub use proto::amcast::{
    AFTER_MAX, Cut, Footprint, GroupId, GroupSet, Message, MessageId, Timestamp, WINDOW,
};
pub use proto::registry::MulticastProtocol as Protocol;
pub use stop::StopError;
pub use stream::{End, Refusal};
pub use system::{ClockBy, Contradiction, FabricKind, Limits, Order, System};
