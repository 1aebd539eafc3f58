//! The `gregale` command.
//!
//! One file a subcommand; [`cli`] says what there is, [`failure`] how it ends. Exit codes: 0 done,
//! 1 a negative answer (a check that failed), 2 refused: the input or the machine does not allow
//! it, and one line on standard error names the cause and the mend.
#![forbid(unsafe_code)]

#[macro_use]
mod out;

mod backup;
mod bench;
mod channel;
mod check;
mod cli;
mod config;
mod control;
mod door;
mod failure;
mod log;
mod member;
mod protocols;
mod recover;
mod resp;
mod serve;
mod sim;
mod status;
mod up;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::Cli::parse().command.run() {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("gregale: {failure}");
            ExitCode::from(2)
        }
    }
}
