//! `gregale launch`: becomes the program of a copy.
//!
//! The member starts its copy through this: the new process asks for its own death at the member's,
//! leaves the terminal's process group, and then turns into the program.

use clap::Args;
use console::{Failure, Outcome};
use rustix::process::{Signal, set_parent_process_death_signal, setsid};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// `gregale launch`
#[derive(Debug, Args)]
pub(crate) struct LaunchArgs {
    /// The id of the member's process.
    #[arg(long)]
    parent: i32,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    words: Vec<String>,
}

/// Becomes the program.
pub(crate) fn launch(args: &LaunchArgs) -> Outcome {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| Failure::os("ask for a signal at the member's death", error))?;
    // The member may have died before that.
    if rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(args.parent) {
        return Err(Failure::new("the member has ended"));
    }
    setsid().map_err(|error| Failure::os("leave the process group", error))?;
    let error = Command::new(&args.words[0]).args(&args.words[1..]).exec();
    Err(Failure::os(format_args!("start {}", args.words[0]), error))
}
