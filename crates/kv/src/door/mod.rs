//! The door of one member: its clients, and the replicated state behind them.
//!
//! The door has no socket, no clock, no thread and no source of randomness. Time and seeds are
//! arguments, bytes come and go by [`Streams`], requests are submitted to an engine's
//! [`Desk`](engine::Desk), and the process is [`Outside`]. So a simulator runs the code that ships.
//!
//! ```text
//!   Streams: sockets, or pipes in memory
//!      |  bytes
//!   RespClients ---- Outside: INFO, statuses, a new incarnation
//!      |  commands, reads       ^
//!   Desk                        | answers
//!      |  ordered, checked      |
//!   State ----------------------+
//! ```
//!
//! - [`RespDoor`]: the clients as an engine sees them.
//! - [`PartitionDoor`]: the clients of a keyspace in partitions, under atomic multicast.
//! - [`RespClients`]: all connections; CLIENT LIST, channels, INFO, members.
//! - [`Pipes`]: connections in memory, for simulations and tests.
//! - [`State`]: the replicated application, with snapshots and backups.

mod backups;
mod bugs;
mod channels;
mod clients;
mod figures;
mod members;
mod outside;
mod partitioned;
mod resp_door;
mod snapshots;
mod state;
#[cfg(test)]
mod tests;
mod ticks;

pub use backups::NO_SUCH_BACKUP;
pub use bugs::Bug;
pub use clients::RespClients;
pub use engine::streams::{
    Addresses, Broken, Interest, PipeId, Pipes, Ready, Received, STREAMS_MAX, Streams, place_of,
};
pub use figures::PartitionFigures;
pub use members::{MAY_PASS, NOT_LEADER, UNKNOWN, UNSUPERVISED, end_of};
pub use outside::{Config, Facts, Figures, Member, Outside, STATUS_SECTION};
pub use partitioned::{Clocked, PartitionConfig, PartitionDoor, seats as partition_seats};
pub use resp_door::RespDoor;
pub use state::{Discarded, Holding, Holds, Serves, State, of_each};
