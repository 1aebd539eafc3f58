//! The key-value door: RESP, Redis commands, and the replicated state machine behind them.
//!
//! Promises: everything here is a function of its input (bytes, commands, stamps), so it runs in
//! the simulator exactly as in a server. The crate never contains a socket, a clock, a thread or a
//! source of randomness.
//!
//! - [`resp`]: requests from bytes; [`reply`]: replies to bytes.
//! - [`command`]: the table of commands; [`store`]: the data; [`exec`]: the commands' execution.
//! - [`entry`]: commands as bytes of the log; [`machine`]: their execution at every replica, with
//!   [`sessions`], so that no command is executed twice, [`client_sessions`], so that no call is
//!   executed twice although every process died meanwhile, and [`snapshot`], for replicas that have
//!   missed commands.
//! - [`script`]: Lua, executed by every replica alike.
//! - [`partition`]: the same keyspace cut into partitions under atomic multicast.
//! - [`keyed`]: the same keyspace as registers, each kept by itself.
//! - [`backup`]: keys and values as bytes for a file, for any later reader.
//! - [`connection`]: a client's conversation, from its bytes to requests and back.
//! - [`door`]: all clients of a member, and the state behind them.
//! - [`text`]: error texts for failures that the cluster causes.
#![forbid(unsafe_code)]

pub mod backup;
pub mod client_sessions;
pub mod command;
pub mod connection;
pub mod door;
pub mod entry;
pub mod exec;
pub mod keyed;
pub mod machine;
pub mod partition;
pub mod reply;
pub mod resp;
pub mod script;
pub mod sessions;
pub mod snapshot;
pub mod store;
pub mod text;

pub use command::{Args, CommandSpec, lookup, resolve};
pub use reply::{Protocol, Reply};
pub use store::Store;
