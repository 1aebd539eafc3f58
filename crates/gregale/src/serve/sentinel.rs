//! `gregale sentinel`: a small process beside a replica on tcp. It learns of the replica's death
//! from the kernel, before the memory is torn down and the sockets close, and tells the other
//! members.

use super::{Opened, open};
use crate::config::Config;
use crate::config::ServeArgs;
use crate::control::Board;
use crate::program::this_program;
use crate::status::SentinelStatus;
use console::{Failure, Outcome};
use fabric::OpenError;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
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
    let mut command = this_program();
    command.arg("sentinel").arg("--config").arg(&args.config);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let board = Arc::clone(board);
    std::thread::Builder::new()
        .name("sentinel-keeper".into())
        .spawn(move || replace(&mut command, |status| board.leave_sentinel(status)))
        .map_err(|error| Failure::os("start the thread that replaces sentinels", error))?;
    Ok(())
}

/// Starts a sentinel, waits for its end, and starts the next, until one has seen this process end:
/// that sentinel exits with success. One that cannot be started is tried again: the member serves
/// without it meanwhile.
fn replace(command: &mut Command, tell: impl Fn(SentinelStatus)) {
    let (mut replaced, mut pause) = (0, PAUSE_MIN);
    loop {
        let since = Instant::now();
        let ended = match command.spawn() {
            Ok(mut sentinel) => {
                tell(SentinelStatus { pid: Some(sentinel.id()), replaced });
                sentinel.wait()
            }
            Err(error) => {
                tell(SentinelStatus { pid: None, replaced });
                let failure = Failure::os("start the sentinel", error);
                runtime::complain(format_args!("{failure}; it is tried again"));
                std::thread::sleep(pause);
                pause = (2 * pause).min(PAUSE_MAX);
                continue;
            }
        };
        if ended.as_ref().is_ok_and(ExitStatus::success) {
            return;
        }
        tell(SentinelStatus { pid: None, replaced });
        let how = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
        runtime::complain(format_args!(
            "the sentinel of this member ended ({how}); another one is started"
        ));
        if since.elapsed() > PAUSE_MAX {
            pause = PAUSE_MIN;
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(PAUSE_MAX);
        replaced += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// A member ended since its first sentinel could not be started.
    #[test]
    fn a_sentinel_that_cannot_be_started_is_tried_again() {
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("sentinel");
        let mut command = Command::new(&program);
        let (said, told) = channel();
        let keeper = std::thread::spawn(move || {
            replace(&mut command, |status| said.send(status.pid).unwrap());
        });
        assert_eq!(told.recv().unwrap(), None, "there is no such program yet");
        std::os::unix::fs::symlink("/bin/true", &program).unwrap();
        keeper.join().unwrap();
        assert!(told.try_iter().last().unwrap().is_some());
    }
}
