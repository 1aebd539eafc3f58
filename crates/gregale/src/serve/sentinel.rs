//! `gregale sentinel`: a small process beside a replica on tcp. It learns of the replica's death
//! from the kernel, before the memory is torn down and the sockets close, and tells the other
//! members.

use super::{Opened, open};
use crate::cli::ServeArgs;
use crate::config::Config;
use crate::failure::{Failure, Outcome};
use fabric::OpenError;
use std::process::{Command, ExitCode, Stdio};

/// Watches until the replica has ended.
pub(crate) fn run(args: &ServeArgs) -> Outcome {
    let config = Config::load(args)?;
    let Opened { setup, addresses } = open(&config, None)?;
    match fabric::tcp::sentinel::run(&setup, &addresses) {
        // A replica that gave up at its start has taken its new memory with it: nobody to watch.
        Ok(_) | Err(OpenError::Region(region::Error::Missing { .. })) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Failure::new(error)),
    }
}

/// Starts the sentinel of this process, which has opened its region. It ends by itself when this
/// process does, so nobody waits for it but whoever inherits it.
pub(super) fn start(args: &ServeArgs) -> Outcome<()> {
    let program =
        std::env::current_exe().map_err(|error| Failure::os("find this program", error))?;
    Command::new(program)
        .arg("sentinel")
        .arg("--config")
        .arg(&args.config)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| Failure::os("start the sentinel", error))?;
    Ok(())
}
