//! `gregale launch`: becomes the program of a copy.
//!
//! The member starts its copy through this: the new process asks for its own death at the member's,
//! leaves the terminal's process group, is confined, and then turns into the program. Where process
//! ids are the copy's own, it is a child that does so, the first of a space of ids: this process
//! waits for it and ends as it does, and with the child end all processes of the space.

use super::confine::{Writes, confine};
use super::copy::TEMPORARY;
use crate::config::Confine;
use clap::Args;
use console::{Failure, Outcome};
use rustix::process::{Signal, set_parent_process_death_signal, setsid};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// The loader's list of libraries.
const PRELOAD: &str = "LD_PRELOAD";

/// `gregale launch`
#[derive(Debug, Args)]
pub(crate) struct LaunchArgs {
    /// The id of the member's process; of the first stage's in the second one.
    #[arg(long)]
    parent: i32,
    /// The library that the program loads before others.
    #[arg(long)]
    preload: Option<PathBuf>,
    /// How much it is confined; not given where it is confined already.
    #[arg(long, value_enum)]
    confine: Option<Confine>,
    /// Whether it gets a network of its own.
    #[arg(long)]
    own_network: bool,
    /// Whether the thread that has started this process traces it, and what it becomes.
    #[arg(long)]
    traced: bool,
    /// The directory in which it makes its socket.
    #[arg(long)]
    sockets: Option<PathBuf>,
    /// The directory in which it makes a socket by a name of its own, and files.
    #[arg(long)]
    files: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    words: Vec<String>,
}

/// Becomes the program.
pub(crate) fn launch(args: &LaunchArgs) -> Outcome {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| Failure::os("ask for a signal at the member's death", error))?;
    // The member may have died before that.
    if parent().is_some_and(|parent| parent != args.parent) {
        return Err(Failure::new("the member has ended"));
    }
    if args.traced {
        nix::sys::ptrace::traceme()
            .and_then(|()| nix::sys::signal::raise(nix::sys::signal::Signal::SIGSTOP))
            .map_err(|error| Failure::os("be traced", error))?;
    }
    let Some(how) = args.confine else { return Err(become_program(args)) };
    setsid().map_err(|error| Failure::os("leave the process group", error))?;
    let dir = std::env::current_dir().map_err(|error| Failure::os("find the directory", error))?;
    let page = std::env::var_os(waits::PAGE).map(PathBuf::from);
    let writes = Writes {
        dir,
        temporary: std::env::var_os(TEMPORARY).map(PathBuf::from),
        files: args.files.clone(),
        sockets: args.sockets.clone(),
        page,
    };
    if confine(how, args.own_network, &writes)? {
        run_apart(args)
    } else {
        Err(become_program(args))
    }
}

/// The parent's process, by its id where `/proc` was mounted: the system call knows none if the
/// parent is outside of this process's space of ids.
fn parent() -> Option<i32> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// Starts the second stage, and ends as it does.
fn run_apart(args: &LaunchArgs) -> Outcome {
    let failed = |error| Failure::os("start the program in a space of its own", error);
    let mut second = Command::new(std::env::current_exe().map_err(failed)?);
    second.args(["launch", "--parent", &std::process::id().to_string()]);
    if let Some(library) = &args.preload {
        second.arg("--preload").arg(library);
    }
    let status = second.arg("--").args(&args.words).status().map_err(failed)?;
    let signal = status.signal().and_then(Signal::from_named_raw);
    if let Some(signal) = signal {
        // No program has begun here, so no signal has a handler.
        let _ = rustix::process::kill_process(rustix::process::getpid(), signal);
    }
    Ok(ExitCode::from(status.code().map_or(u8::MAX, |code| code as u8)))
}

/// Returns the failure, if there is one.
fn become_program(args: &LaunchArgs) -> Failure {
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
    Failure::os(format_args!("start {}", args.words[0]), program.exec())
}
