//! `gregale sim` and `gregale bench`, which run the program `gregale-workbench`.
//!
//! The simulator holds every protocol with its planted bugs, which takes longer to build than all
//! other crates.

use clap::Args;
use console::{Failure, Outcome};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The arguments of the other program.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct WorkbenchArgs {
    /// Arguments; --help shows them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Replaces this process by the other program, which lies beside this one.
pub(crate) fn run(subcommand: &str, args: &WorkbenchArgs) -> Outcome {
    let program = console::beside("gregale-workbench", &format!("`gregale {subcommand}`"))?;
    let error = Command::new(&program).arg(subcommand).args(&args.words).exec();
    Err(Failure::os(format_args!("run {}", program.display()), error))
}
