//! A member in a process of its own, so that it can be killed.

use super::DEADLINE;
use crate::{Event, Fabric, Inbox};
use base::Rank;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The variable that holds the place in the group, in the environment of a process that a test
/// started.
pub const CHILD_VARIABLE: &str = "GREGALE_CONFORMANCE_CHILD";

/// A child process; killed with SIGKILL and reaped when dropped.
#[derive(Debug)]
pub struct Child(std::process::Child);

impl Child {
    /// Starts this test program again, with only its test named `test`, which must call
    /// [`place`] and serve if it gets one.
    pub fn of_this_program(test: &str, place: &str) -> Child {
        let program = std::env::current_exe().expect("the path of the running program");
        let child = Command::new(program)
            .args([test, "--exact", "--nocapture", "--test-threads=1"])
            .env(CHILD_VARIABLE, place)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("starting the running program again");
        Child(child)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Sends SIGKILL, without waiting for anything.
    pub fn kill(&mut self) {
        // An error means that it is dead already.
        let _ = self.0.kill();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
        let _ = self.0.wait();
    }
}

/// The place in the group that this process was started for, if it was.
pub fn place() -> Option<String> {
    std::env::var(CHILD_VARIABLE).ok()
}

/// Waits until `fabric` may have something to poll, or for `timeout`.
pub fn sleep_until_readable<F: Fabric>(fabric: &F, timeout: Duration) -> bool {
    let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: 0 };
    let fd = fabric.wait_fd();
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    // An interruption by a signal counts as nothing: callers loop.
    poll(&mut fds, Some(&timeout)).is_ok_and(|ready| ready > 0)
}

/// Serves until killed: the child sends messages back, and sleeps when there is nothing.
///
/// It ends by itself when its parent dies, or a minute after it started.
pub fn serve<F: Fabric>(mut fabric: F) {
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let until = Instant::now() + 3 * DEADLINE;
    let mut inbox = Inbox::new();
    let mut answers: Vec<(Rank, Vec<u8>)> = Vec::new();
    while Instant::now() < until {
        if work(&mut fabric, &mut inbox, &mut answers) {
            continue;
        }
        fabric.prepare_sleep();
        if !work(&mut fabric, &mut inbox, &mut answers) {
            sleep_until_readable(&fabric, DEADLINE);
        }
        fabric.awake();
    }
}

/// Polls once; true if there was or is anything to do.
fn work<F: Fabric>(fabric: &mut F, inbox: &mut Inbox, answers: &mut Vec<(Rank, Vec<u8>)>) -> bool {
    inbox.clear();
    fabric.poll(inbox);
    for event in inbox.iter() {
        if let Event::Message { from, bytes } = event {
            answers.push((from, bytes.to_vec()));
        }
    }
    let busy = !inbox.is_empty() || !answers.is_empty();
    while let Some((to, bytes)) = answers.first() {
        if !fabric.send(*to, bytes) {
            break;
        }
        answers.remove(0);
    }
    fabric.flush();
    busy
}
