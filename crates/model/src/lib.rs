//! Bounded exhaustive exploration of protocols in small worlds.
//!
//! What the simulator samples, this crate walks whole: every order in which the verbs of a small
//! world can take effect and their completions can arrive. Small worlds only: the number of states
//! explodes, and what a bound leaves out is said where the bound stands.
//!
//! - [`explore()`]: a depth-first walk over hashed states.
//! - [`amcast`]: a few messages among a few groups.
//! - [`log`]: a few terms of the log protocols that ship, with members that stop at any point.
//!
//! Never here: randomness, time.
#![forbid(unsafe_code)]

pub mod amcast;
mod explore;
pub mod log;
mod mix;

pub use explore::{Explored, Violation, World, explore};
