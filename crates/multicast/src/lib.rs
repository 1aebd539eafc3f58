//! The door to atomic multicast: a message to any set of groups, delivered everywhere in one
//! consistent order, through crashes of primaries.
//!
//! A *system* ([`System`]) has up to seven *nodes* (operating-system processes on one fabric) and
//! up to thirty-two *groups*; each group has members on some of the nodes, at most one on each. A
//! node that hosts no member may multicast too.
//!
//! - [`Door`] is for most: a thread of its own runs the node, `multicast` and deliveries are calls
//!   from any thread.
//! - [`Node`] and [`Application`] are for who wants no second thread: the application is called
//!   within the loop, and its sockets are in the loop's [`runtime::Poller`].
//! - [`run`] opens a node's fabric and picks the protocol, for either.
//!
//! Promises: what [`proto::amcast`] promises of the protocol that is chosen (validity, uniform
//! integrity, uniform agreement, global total order, uniform prefix order; with an [`Order`] other
//! than plain, real-time order); every queue has a bound and every wait a deadline; a message that
//! was refused was not multicast, and one whose outcome is unknown is said to be unknown.
//!
//! A node that died comes back under its name: with a data directory ([`Data`]) as itself, since
//! there is what it promised and its application's state; without one as another *incarnation*
//! ([`Start::Anew`]), which its groups take in instead, and which gets a state from the living. A
//! successor that claims to be itself and has forgotten what was promised is told to stop.
//!
//! Never here: protocol decisions.
#![forbid(unsafe_code)]

pub mod application;
mod clock;
pub mod desk;
mod disk;
pub mod door;
mod member;
pub mod node;
pub mod open;
mod repeats;
mod span;
mod stream;
pub mod system;
mod world;

pub use application::{Application, Delivery};
pub use desk::{
    Desk, Figures, MemberView, NoRemoval, Options, Outcome, PAYLOAD_BYTES_MAX, Refused, Snapshot,
};
pub use door::{Door, Failed, Pending};
pub use node::Node;
pub use open::{Data, Error, Seat, Start, run};
pub use proto::amcast::{
    AFTER_MAX, Cut, Footprint, GroupId, GroupSet, Message, MessageId, Timestamp, WINDOW,
};
pub use stream::End;
pub use system::{ClockBy, Contradiction, FabricKind, Limits, Order, Places, Protocol, System};
