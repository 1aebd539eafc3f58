//! Sweeps of the simulator, and runs that are stepped by hand: one program, which is linked once.

mod amcast;
mod cluster;
mod common;
mod commuting;
mod durable;
mod durable_groups;
mod groups;
mod logs;
mod members;
mod mu;
mod multipaxos;
mod replay;
mod snapshots;
mod velos;
