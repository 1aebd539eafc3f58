//! Benchmarks: each beside the machine's floor or a peer, measured in the same run.
//!
//! Promises: a figure is printed as it was measured, with what it was measured for beside it. No
//! test depends on one.
//!
//! - [`core`]: the protocol alone, in one thread, beside [`rivals`].
//! - [`decide`], [`failover`], [`verbs`]: real processes over a real fabric. [`group`] is their
//!   parent's side, [`worker`] their own, [`member`] the loop of a worker that decides, [`death`]
//!   the floor of a failover.
//! - [`mod@amcast`]: atomic multicast between processes that each host a member of every group.
//! - [`kv`], [`idle`]: a real [`cluster`], beside the servers that people use today.
//! - [`restart`], [`snapshot`]: what logs on [`mod@disk`] cost besides.
//! - [`run`]: how often, and what becomes of it.
#![forbid(unsafe_code)]

pub mod amcast;
mod child;
pub mod clock;
pub mod cluster;
pub mod comeback;
pub mod core;
pub mod death;
pub mod decide;
pub mod disk;
pub mod failover;
pub mod group;
pub mod idle;
pub mod kv;
pub mod member;
pub mod pictures;
pub mod process;
mod resp;
pub mod restart;
pub mod rivals;
pub mod run;
pub mod snapshot;
pub mod verbs;
pub mod worker;
