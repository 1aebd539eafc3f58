//! The replicate door: an unmodified server program, a copy of it at every member, and one order of
//! everything that clients say.
//!
//! The member's process terminates clients. What they say becomes [`entry::Entry`]s of the log.
//! Each member feeds the executed entries to its own copy of the program, over a *leg*: a local
//! stream for each connection. The copy at the client's member answers it. Nothing that is not
//! decided reaches a copy, so no output is held back for that (Falcon, paper 003, sections 2 and 4,
//! with legs in place of hooked calls: docs/decisions/0017-replicate.md).
//!
//! ```text
//!   clients ---- Streams ----> Clients -- entries --> Desk (engine) --> log
//!      ^                                                                 |
//!      |  output of the own clients' legs                                v
//!   Streams <---- Feeder <--------------- transcript ------------------- State
//!                  |  ^
//!             legs v  |     Program: the copy, as a process or a simulation
//! ```
//!
//! - [`table`], [`state`]: which entries are executed, and the state of the members.
//! - [`feeder`], [`framing`]: in which order a copy sees them, and when it is at rest.
//! - `reads`, `requests`: what runs beside the log, at one copy alone.
//! - [`hash`], [`verdict`]: whether copies answer alike; [`held`]: what waits until that is known.
//! - [`checkpoint`]: where a copy begins, so that the transcript ends.
//! - `halts`: when connections are closed for a checkpoint.
//! - `pace`: how far the clients may be ahead of a majority's copies.
//! - [`clients`], [`door`]: the clients of one member.
#![forbid(unsafe_code)]

pub mod batch;
pub mod bugs;
pub mod checkpoint;
pub mod clients;
pub mod door;
pub mod entry;
pub mod feeder;
pub mod framing;
mod halts;
pub mod hash;
pub mod held;
mod outbox;
mod pace;
pub mod program;
mod reads;
mod reports;
mod requests;
mod restoring;
mod session;
mod shown;
pub mod stall;
pub mod state;
pub mod table;
#[cfg(test)]
mod tests;
pub mod transcript;
pub mod verdict;
mod words;
