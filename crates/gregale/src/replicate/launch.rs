//! `gregale launch`: becomes the program of a copy.
//!
//! The member starts its copy through this: the new process asks for its own death at the member's,
//! leaves the terminal's process group, is confined, and then turns into the program. Where process
//! ids are the copy's own, it is a child that does so, the first of a space of ids: this process
//! waits for it and ends as it does, and with the child end all processes of the space.
//!
//! Where a copy is saved by a dump of its processes (`criu`), it has mounts of its own (`apart`),
//! and the child begins a session. Then a program may also be restored, in place of being begun.

use super::confine::{WRITES, Writes, confine, told};
use super::copy::TEMPORARY;
use super::{apart, criu};
use crate::config::Confine;
use crate::program::this_program;
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
    /// The directories of its process and of its socket, which it is to find where all copies do.
    #[arg(long, num_args = 2)]
    apart: Option<Vec<PathBuf>>,
    /// Whether it begins a session of its own, as the first process of its space.
    #[arg(long)]
    leads: bool,
    /// Whether the words restore a program, which this process waits for then.
    #[arg(long)]
    restores: bool,
    /// The process whose mounts and network the words are run in.
    #[arg(long)]
    inside: Option<u32>,
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
    if let Some(pid) = args.inside {
        apart::join(pid)?;
    }
    let begin_session =
        || setsid().map_err(|error| Failure::os("leave the process group", error)).map(drop);
    let Some(how) = args.confine else {
        if args.leads {
            begin_session()?;
        }
        return Err(become_program(args));
    };
    begin_session()?;
    if let Some([run, sockets]) = args.apart.as_deref() {
        apart::enter(run, sockets)?;
        told(how, apart::seal(), WRITES)?;
    }
    if args.restores {
        return restore(args);
    }
    let dir = std::env::current_dir().map_err(|error| Failure::os("find the directory", error))?;
    let page = std::env::var_os(waits::PAGE).map(PathBuf::from);
    let writes = Writes {
        dir,
        temporary: std::env::var_os(TEMPORARY).map(PathBuf::from),
        files: args.files.clone(),
        sockets: args.sockets.clone(),
        page,
    };
    let writes = Some(&writes).filter(|_| args.apart.is_none());
    match confine(how, args.own_network, writes)? {
        true => run_apart(args),
        false if args.apart.is_some() => Err(Failure::new(
            "this host gives the program no process ids of its own, which --program-save criu \
             takes: allow it, or say --program-save files",
        )),
        false => Err(become_program(args)),
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
    let mut second = this_program();
    second.args(["launch", "--parent", &std::process::id().to_string()]);
    if let Some(library) = &args.preload {
        second.arg("--preload").arg(library);
    }
    if args.apart.is_some() {
        let output = apart::output()?;
        let errors = output.try_clone().map_err(failed)?;
        second.arg("--leads").stdout(output).stderr(errors);
    }
    let status = second.arg("--").args(&args.words).status().map_err(failed)?;
    end_as(status.code(), status.signal())
}

/// Restores the program, and ends as it does.
fn restore(args: &LaunchArgs) -> Outcome {
    if args.own_network {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)
            .map_err(|error| Failure::os("make a network for the program", error))?;
    }
    let status = criu::run_restored(&args.words)?;
    end_as(status.exit_status(), status.terminating_signal())
}

/// Ends as the program did.
fn end_as(code: Option<i32>, signal: Option<i32>) -> Outcome {
    if let Some(signal) = signal.and_then(Signal::from_named_raw) {
        // No program has begun here, so no signal has a handler.
        let _ = rustix::process::kill_process(rustix::process::getpid(), signal);
    }
    Ok(ExitCode::from(code.map_or(u8::MAX, |code| code as u8)))
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
