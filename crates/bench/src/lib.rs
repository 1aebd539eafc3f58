//! Benchmarks: each beside the machine's floor or a peer, in the same run.
#![forbid(unsafe_code)]

pub mod core;
