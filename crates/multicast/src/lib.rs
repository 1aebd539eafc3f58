//! The door to atomic multicast: a message to any set of groups, delivered everywhere in one
//! consistent order, through crashes of primaries.
//!
//! A *system* ([`System`]) has up to thirty-two *nodes* (operating-system processes on one fabric)
//! and up to thirty-two *groups*; each group has members on some of the nodes, at most one on each.
//! A node that hosts no member may multicast too.
//!
//! - [`Door`] is the usual interface: a thread of its own runs the node, `multicast` and deliveries
//!   are calls from any thread.
//! - [`Application`] and [`Descriptors`] avoid the second thread: the application is called within
//!   the loop, and its sockets are in the loop's [`runtime::Poller`].
//! - [`engine::multicast`] is the node itself, without its I/O.
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
#![warn(clippy::print_stderr)]

mod clock;
pub mod door;
pub mod driver;
pub mod open;
pub mod system;

pub use door::{Door, Failed, Pending};
pub use driver::Descriptors;
pub use engine::multicast::{
    AFTER_MAX, Application, Cut, Delivery, Desk, End, Figures, Footprint, GroupId, GroupSet,
    MemberView, Message, MessageId, NoRemoval, Options, Outcome, PAYLOAD_BYTES_MAX, Places,
    Refusal, Refused, SNAPSHOTS_MAX, Snapshot, StopError, Timestamp, WINDOW,
};
pub use open::{Data, Error, Seat, Start, run};
pub use proto::registry::MulticastProtocol as Protocol;
pub use system::{ClockBy, Contradiction, FabricKind, Limits, Order, System};
