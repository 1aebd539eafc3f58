//! `gregale launch`: becomes the program of a copy.
//!
//! The member starts its copy through this: the new process asks for its own death at the member's,
//! leaves the terminal's process group, is confined, and then turns into the program.

use super::confine::{Writes, confine};
use crate::config::Confine;
use clap::Args;
use console::{Failure, Outcome};
use rustix::process::{Signal, set_parent_process_death_signal, setsid};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// The loader's list of libraries.
const PRELOAD: &str = "LD_PRELOAD";

/// `gregale launch`
#[derive(Debug, Args)]
pub(crate) struct LaunchArgs {
    /// The id of the member's process.
    #[arg(long)]
    parent: i32,
    /// The library that the program loads before others.
    #[arg(long)]
    preload: Option<PathBuf>,
    /// How much it is confined.
    #[arg(long, value_enum)]
    confine: Confine,
    /// Whether it gets a network of its own.
    #[arg(long)]
    own_network: bool,
    /// The directory in which it makes its socket.
    #[arg(long)]
    sockets: Option<PathBuf>,
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
    let dir = std::env::current_dir().map_err(|error| Failure::os("find the directory", error))?;
    let page = std::env::var_os(waits::PAGE).map(PathBuf::from);
    let writes = Writes { dir, sockets: args.sockets.clone(), page };
    confine(args.confine, args.own_network, &writes)?;
    let mut program = Command::new(&args.words[0]);
    program.args(&args.words[1..]);
    if let Some(library) = &args.preload {
        let mut all = library.clone().into_os_string();
        if let Some(others) = std::env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
            all.push(":");
            all.push(others);
        }
        program.env(PRELOAD, all);
    }
    let error = program.exec();
    Err(Failure::os(format_args!("start {}", args.words[0]), error))
}
