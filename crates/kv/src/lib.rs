//! The key-value door: RESP, Redis commands, and the replicated state machine behind them.
//!
//! Promises: everything here is a function of its input (bytes, commands, stamps), so it runs in
//! the simulator as it runs in a server. It never contains a socket, a clock, a thread or a source
//! of randomness.
//!
//! - [`resp`]: requests from bytes; [`reply`]: replies to bytes.
//! - [`command`]: which commands there are; [`store`]: what they act on; [`exec`]: what they do.
#![forbid(unsafe_code)]

pub mod command;
pub mod exec;
pub mod reply;
pub mod resp;
pub mod store;

pub use command::{Args, CommandSpec, lookup, resolve};
pub use reply::{Protocol, Reply};
pub use store::Store;
