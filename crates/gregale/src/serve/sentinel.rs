//! `gregale sentinel`: a small process beside a replica on tcp. It learns of the replica's death
//! from the kernel, before the memory is torn down and the sockets close, and tells the other
//! members.

use super::{Opened, open};
use crate::config::Config;
use crate::config::ServeArgs;
use crate::control::Board;
use crate::status::SentinelStatus;
use console::{Failure, Outcome};
use fabric::OpenError;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The pause before the next sentinel is started; it doubles while they die at once.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Watches until the replica has ended.
pub(crate) fn run(args: &ServeArgs) -> Outcome {
    let config = Config::load(args)?;
    let Opened { setup, addresses } = open(&config, None)?;
    match fabric::tcp::sentinel::run(&setup, &addresses) {
        // A replica that gave up at its start has removed its new memory: there is no process to
        // watch.
        Ok(_) | Err(OpenError::Region(region::Error::Missing { .. })) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Failure::new(error)),
    }
}

/// Starts the sentinel of this process, which has opened its region, and another one whenever a
/// sentinel dies before this process: an unreported death costs the others ten times as long. The
/// last sentinel outlives this process, and ends by itself.
pub(super) fn keep(args: &ServeArgs, board: &Arc<Board>) -> Outcome<()> {
    let program =
        std::env::current_exe().map_err(|error| Failure::os("find this program", error))?;
    let mut command = Command::new(program);
    command.arg("sentinel").arg("--config").arg(&args.config);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let first = spawn(&mut command)?;
    let board = Arc::clone(board);
    std::thread::Builder::new()
        .name("sentinel-keeper".into())
        .spawn(move || replace(&mut command, first, &board))
        .map_err(|error| Failure::os("start the thread that replaces sentinels", error))?;
    Ok(())
}

fn spawn(command: &mut Command) -> Outcome<Child> {
    command.spawn().map_err(|error| Failure::os("start the sentinel", error))
}

/// Waits for the end of each sentinel and starts the next, until one has seen this process end:
/// that sentinel exits with success.
fn replace(command: &mut Command, mut sentinel: Child, board: &Board) {
    let (mut replaced, mut pause) = (0, PAUSE_MIN);
    loop {
        board.leave_sentinel(SentinelStatus { pid: Some(sentinel.id()), replaced });
        let since = Instant::now();
        let ended = sentinel.wait();
        if ended.as_ref().is_ok_and(ExitStatus::success) {
            return;
        }
        board.leave_sentinel(SentinelStatus { pid: None, replaced });
        let how = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
        runtime::complain(format_args!(
            "the sentinel of this member ended ({how}); another one is started"
        ));
        if since.elapsed() > PAUSE_MAX {
            pause = PAUSE_MIN;
        }
        sentinel = loop {
            std::thread::sleep(pause);
            pause = (2 * pause).min(PAUSE_MAX);
            match spawn(command) {
                Ok(next) => break next,
                Err(failure) => runtime::complain(format_args!("{failure}")),
            }
        };
        replaced += 1;
    }
}
