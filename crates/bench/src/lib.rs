//! Benchmarks: each beside the machine's floor or a peer, measured in the same run.
//!
//! Promises: a figure is printed as it was measured, with what it was measured for beside it. No
//! test depends on one.
//!
//! - [`core`]: the protocol alone, in one thread.
#![forbid(unsafe_code)]

pub mod core;
pub mod figures;
