//! Benchmarks: each beside the machine's floor or a peer, measured in the same run.
//!
//! Promises: a figure is printed as it was measured, with its settings beside it. No test depends
//! on one.
//!
//! - [`core`]: the protocol alone, in one thread, beside [`rivals`].
//! - [`decide`], [`failover`], [`verbs`]: real processes over a real fabric. [`group`] is their
//!   parent's side, [`worker`] their own. Members that decide are those that ship, with the
//!   state of [`counter`] and the observer of [`member`]; [`death`] is the floor of a failover.
//! - [`mod@amcast`]: atomic multicast between processes that each host a member of every group.
//! - [`mod@multicast`]: ordered multicast in a group with views.
//! - [`versions`]: versions of replicated objects, times, queries and arguments, in a group.
//! - [`shapes`]: groups of simulated members, on hosts and a network with costs.
//! - [`kv`], [`idle`]: a real [`cluster`], beside servers in common use.
//! - [`mod@replicate`]: replicated programs, beside the program alone and copies without an order.
//! - [`restart`], [`snapshot`]: the further costs of logs on [`mod@disk`].
//! - [`run`]: the repetition of measurements, and their report.
#![forbid(unsafe_code)]

pub mod amcast;
mod child;
pub mod clock;
pub mod cluster;
pub mod comeback;
pub mod core;
pub mod counter;
mod crew;
pub mod death;
pub mod decide;
pub mod disk;
pub mod failover;
pub mod group;
pub mod idle;
pub mod kv;
pub mod member;
pub mod multicast;
pub mod pictures;
mod pipeline;
pub mod process;
pub mod replicate;
mod resp;
pub mod restart;
pub mod rivals;
pub mod run;
pub mod shapes;
pub mod snapshot;
pub mod verbs;
pub mod versions;
pub mod worker;
