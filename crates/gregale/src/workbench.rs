//! `gregale sim` and `gregale bench`: a program of its own, `gregale-workbench`, is run instead.
//!
//! The simulator holds every protocol once for each planted bug, which takes longer to build than
//! all the rest.

use clap::Args;
use console::{Failure, Outcome};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

const PROGRAM: &str = "gregale-workbench";

/// What the other program is told.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct WorkbenchArgs {
    /// Arguments; --help shows them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Becomes the other program, which lies beside this one.
pub(crate) fn run(subcommand: &str, args: &WorkbenchArgs) -> Outcome {
    let own = std::env::current_exe().map_err(|error| Failure::os("find this program", error))?;
    let program = own.with_file_name(PROGRAM);
    if !program.exists() {
        return Err(Failure::new(format_args!(
            "`gregale {subcommand}` needs {}, which is not there: `cargo build --release --package \
             {PROGRAM}` builds it beside a release build of gregale",
            program.display()
        )));
    }
    let error = Command::new(&program).arg(subcommand).args(&args.words).exec();
    Err(Failure::os(format_args!("run {}", program.display()), error))
}
