//! The `gregale` command.
//!
//! One file a subcommand; [`cli`] says what there is, [`console`] how it ends.
#![forbid(unsafe_code)]

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
mod log;
mod member;
mod protocols;
mod recover;
mod resp;
mod serve;
mod signals;
mod status;
mod up;
mod workbench;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    console::ended(cli::Cli::parse().command.run())
}
