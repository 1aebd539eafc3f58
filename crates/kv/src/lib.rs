//! The key-value door: RESP, Redis commands, and the replicated state machine behind them.
//!
//! Promises: everything here is a function of its input (bytes, commands, stamps), so it runs in
//! the simulator as it runs in a server. It never contains a socket, a clock, a thread or a source
//! of randomness.
//!
//! - [`resp`]: requests from bytes; [`reply`]: replies to bytes.
//! - [`command`]: which commands there are; [`store`]: what they act on; [`exec`]: what they do.
//! - [`entry`]: commands as bytes of the log; [`machine`]: what every replica makes of them, with
//!   [`sessions`], so that none is executed twice, [`client_sessions`], so that none is although
//!   every process died meanwhile, and [`snapshot`], for who has missed them.
//! - [`script`]: Lua, executed by every replica alike.
//! - [`partition`]: the same keyspace cut into partitions under atomic multicast.
//! - [`backup`]: keys and values as bytes for a file, whoever reads them later.
//! - [`connection`]: a client's conversation, from its bytes to requests and back.
//! - [`door`]: all clients of a member, and the state behind them.
//! - [`text`]: what clients hear when the cluster is the reason.
#![forbid(unsafe_code)]

pub mod backup;
pub mod client_sessions;
pub mod command;
pub mod connection;
pub mod door;
pub mod entry;
pub mod exec;
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
