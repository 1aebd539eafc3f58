//! The `gregale` command.
//!
//! Each subcommand has a file; [`cli`] lists them, and [`console`] ends them.
#![forbid(unsafe_code)]
// A member continues when standard error is closed: `runtime::complain`.
#![warn(clippy::print_stderr)]

#[macro_use]
extern crate console;

mod backup;
mod channel;
mod check;
mod cli;
mod config;
mod connect;
mod control;
mod door;
mod elf;
mod log;
mod member;
mod orders;
mod program;
mod protocols;
mod random;
mod recover;
mod replicate;
mod resp;
mod serve;
mod signals;
mod status;
mod up;
mod workbench;

use std::process::ExitCode;

fn main() -> ExitCode {
    let command = cli::Cli::of_process().command;
    console::ended(signals::heed_children().and_then(|()| command.run()))
}
