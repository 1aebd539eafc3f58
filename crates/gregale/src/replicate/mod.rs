//! The process side of the replicate door: the copy of the program, its directory, its streams, and
//! the history in a file.
//!
//! `replicate` decides what the copy is fed and when; the runtime knows leaders and logs. A process
//! and its copy end together: the next process begins with the program's first state, and feeds the
//! history from its beginning.

mod asleep;
mod copy;
mod door;
mod history;
mod launch;
mod place;

pub(crate) use door::ProgramDoor;
pub(crate) use launch::{LaunchArgs, launch};
