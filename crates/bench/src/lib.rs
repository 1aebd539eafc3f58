//! Benchmarks: each beside the machine's floor or a peer, measured in the same run.
//!
//! Promises: a figure is printed as it was measured, with what it was measured for beside it. No
//! test depends on one.
//!
//! - [`core`]: the protocol alone, in one thread.
//! - [`decide`], [`failover`], [`verbs`]: real processes over a real fabric. [`group`] is their parent's
//!   side, [`worker`] their own, [`member`] the loop of a worker that decides.
#![forbid(unsafe_code)]

pub mod clock;
pub mod core;
pub mod decide;
pub mod failover;
pub mod group;
pub mod member;
pub mod run;
pub mod worker;
