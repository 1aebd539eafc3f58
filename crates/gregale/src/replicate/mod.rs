//! The process side of the replicate door: the copy of the program, its directory, its streams, and
//! the transcript in a file.
//!
//! `replicate` decides what the copy is fed and when; the runtime knows leaders and logs. A process
//! and its copy end together: the next process begins with the program's first state, or with a
//! checkpoint, and feeds the transcript from there.

mod apart;
mod archive;
mod asleep;
mod confine;
mod copy;
mod criu;
mod datagrams;
mod doctor;
mod door;
mod files;
mod inside;
mod launch;
mod place;
mod processes;
mod renewal;
mod save;
mod streams;
mod transcript;
mod tree;
mod trial;

pub(crate) use criu::check_saver;
pub(crate) use doctor::{ReplicateCommand, replicate};
pub(crate) use door::ProgramDoor;
pub(crate) use launch::{LaunchArgs, launch};
