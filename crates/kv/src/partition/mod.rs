//! A keyspace in partitions, each replicated by a group of its own, under atomic multicast.
//!
//! A process holds a replica of every partition. A message carries a batch of commands that concern
//! the same partitions, and is delivered once to each of them, in one order (final timestamp, name)
//! of all messages. This module decides which partitions a command concerns ([`Map`]), when it is
//! sent ([`Sender`]), and how it is executed ([`Executor`]). It knows no network.
//!
//! - X1 a partition executes its messages in the order of their places: the state of a partition is
//!   a function of what was delivered to it and to the partitions that it executes together with.
//!   Asserted in [`Executor::deliver`]; test `x1_replicas_agree_whatever_their_pace`.
//! - X2 a command of several partitions sees each of them as it is at the command's place. By
//!   construction: it is executed when it is first in each one's queue, or piece by piece, each
//!   when it is first in its own.
//! - X3 all commands together are linearizable (of transactions: strictly serializable). By the
//!   argument below; test `x3_histories_are_linearizable`.
//! - X4 the messages that wait here are bounded by what all processes have under way, which each
//!   process's [`Sender`] bounds (K4), while no replica here is behind its group. By construction:
//!   only delivered messages wait. Where one is, other processes execute and answer what waits
//!   here, and send more: it grows until that replica has caught up.
//! # Why it is linearizable
//!
//! Within a partition the order of delivery is one order, and respects real time. Between
//! partitions there is the schedule of the thesis's figure 5.2: r of partitions 0 and 1 is answered
//! in part by 0, then a is written in 0, then b in 1, and only now r is delivered in 1: r has seen
//! b and not a, though a was over before b began. Three ways out ([`Order`]):
//!
//! - *Linearizable.* The multicast itself keeps real time: order by delivery, where two messages
//!   share a partition, and real time, where one is multicast after the other was delivered
//!   anywhere, together have no cycle (atomic global order, 5.2.2; its section 5.2.3 has the
//!   argument). So they have linear extensions, and each of these explains every answer: an answer
//!   depends on the order within the command's partitions alone, on which all extensions agree. A
//!   piece needs nothing of other partitions, so it is executed at once; a command that does need
//!   them reads their state at its own place, by X2. It is answered when each of its partitions has
//!   executed it here, hence was delivered, so whatever begins afterwards follows it in each
//!   extension. The order of places need not be one of them: under `hop` a message may have a lower
//!   place than another that was delivered elsewhere before it was multicast, if no chain of
//!   messages leads from the one to the other. Test
//!   `x3_an_atomic_order_is_enough_though_places_fall_behind_real_time`.
//! - *Signals* (S-SMR). Plain order. A partition that comes to a command of several waits until all
//!   of them have come to it. In one process that costs no message. Let m be answered before b is
//!   multicast, and suppose that the order has b before m: b < x1 < ... < xn < m, neighbours
//!   sharing a partition. xn stands before m in a partition that they share, and m was executed, so
//!   xn was executed here, in all of its partitions; so x(n-1), which is before xn in another, was
//!   too; and so on to x1. A partition k that x1 shares with b has thus delivered x1 here, and not
//!   b, which was not yet multicast. But another replica of k delivers b before x1: against the
//!   order of k.
//! - *Reply.* Plain order; everything is executed as with the first, but an answer is given only
//!   when the command would have been executed with the second. The same argument, with "answered"
//!   for "executed". It is not enough to hold back the answers of commands of several partitions:
//!   in the schedule above it is the answer to a, of one partition, that comes too early. Nor is it
//!   enough to wait until each partition has *delivered* r: with three partitions a chain goes
//!   through another undelivered message (docs/protocols/linearizable-multicast.md).
//!
//! # Time
//!
//! State time is a partition's own: the largest stamp that it has executed. What is executed
//! together brings all its partitions to the latest of their times (`together`'s U3). A piece is
//! executed at its partition's time, so of two keys of different partitions that expire at the same
//! instant one may be seen without the other.

mod executor;
mod gate;
mod hash;
mod kept;
mod merge;
mod plan;
mod scan;
mod sender;
mod snapshot;
#[cfg(test)]
mod tests;
mod together;

pub use executor::{Executor, Figures, PUT_OFF};
pub(crate) use hash::slot_of;
pub use hash::{PARTITIONS_MAX, Partitions, partition_of};
pub use kept::KeptError;
pub use plan::Map;
pub use sender::{BYTES_MAX, COMMANDS_MAX, Fate, PAYLOAD_BYTES_MAX, Sender};
pub use snapshot::{NOT_BY_PIECES, REQUEST as SNAPSHOT_REQUEST};

use crate::client_sessions::ClientSessions;
use crate::store::Store;

/// A message's name, as the multicast assigns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    /// The sender.
    pub sender: u64,
    /// The sender's number for the message.
    pub sequence: u64,
}

/// A message's place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The final timestamp.
    pub at: u64,
    /// The name, which decides between equal timestamps.
    pub name: Name,
}

/// How commands of several partitions are kept in an order that respects real time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The multicast keeps real time.
    #[default]
    Linearizable,
    /// Partitions wait for each other's signal before they execute.
    Signals,
    /// Partitions wait for each other's signal before they answer.
    Reply,
}

impl Order {
    /// The name of the order in options and files.
    pub const fn name(self) -> &'static str {
        match self {
            Order::Linearizable => "linearizable",
            Order::Signals => "signals",
            Order::Reply => "reply",
        }
    }

    /// Whether the multicast has to respect real time by itself.
    pub const fn needs_real_time(self) -> bool {
        matches!(self, Order::Linearizable)
    }
}

/// One partition's replica.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) store: Store,
    /// The clients' sessions whose home is this partition.
    pub(crate) clients: ClientSessions,
    /// The place of the last message that was delivered.
    pub(crate) delivered: Option<Place>,
    /// The number of messages executed so far.
    pub(crate) executed: u64,
}

impl Part {
    fn new(memory_bytes_max: u64) -> Part {
        Part {
            store: Store::new(memory_bytes_max),
            clients: ClientSessions::default(),
            delivered: None,
            executed: 0,
        }
    }

    fn advance(&mut self, stamp_ms: u64) {
        self.store.advance_time(stamp_ms);
        self.clients.expire(self.store.now_ms());
    }
}
