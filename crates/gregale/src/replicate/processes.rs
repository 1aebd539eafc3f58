//! The processes of a copy, and their end.
//!
//! - F1 all of them are stopped before any is killed: one that is stopped begins no other. So none
//!   is left that no look has found. One that has just begun another (`vfork`) does not stop before
//!   that one has gone on to its own program or ended: then that one, which is stopped, is killed
//!   first. The first one was told to stop too, and does so before it can begin others.
//! - F2 the end is over when the kernel has said of each that it has ended: none writes a file from
//!   then on.

use super::asleep::{is_of_the_dead, state_of};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// An end of all processes of a copy under way. No call blocks.
#[derive(Debug)]
pub(super) enum Ending {
    /// They are stopped: the process from which all others come, and those that were told so.
    Stopping(u32, BTreeSet<u32>),
    /// They are killed.
    Killing(Vec<OwnedFd>),
}

impl Ending {
    /// Ends `pid` and all that it has begun.
    pub(super) fn of(pid: u32) -> Ending {
        Ending::Stopping(pid, BTreeSet::new())
    }

    /// Whether all have ended; asked again a moment later until then.
    ///
    /// # Errors
    /// A process cannot be ended.
    pub(super) fn poll(&mut self) -> Result<bool, String> {
        if let Ending::Stopping(pid, told) = self {
            let all = family(*pid);
            let has_news = all.iter().any(|pid| !told.contains(pid));
            for pid in all.iter().filter(|pid| told.insert(**pid)) {
                send(*pid, Signal::STOP);
            }
            if has_news || !all.iter().all(|pid| is_stopped(*pid)) {
                all.iter().filter(|pid| is_blocked(**pid)).for_each(|pid| free(*pid));
                return Ok(false);
            }
            let mut killed = Vec::new();
            for pid in all.iter().filter_map(|pid| Pid::from_raw(*pid as i32)) {
                // One that is gone has ended.
                let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
                pidfd_send_signal(&pidfd, Signal::KILL)
                    .map_err(|error| format!("cannot end a process of the program: {error}"))?;
                killed.push(pidfd);
            }
            *self = Ending::Killing(killed);
        }
        let Ending::Killing(killed) = self else { return Ok(false) };
        have_ended(killed)
    }
}

/// F2: whether all these processes have ended.
///
/// # Errors
/// The kernel's.
pub(super) fn have_ended(pidfds: &[OwnedFd]) -> Result<bool, String> {
    let mut fds: Vec<PollFd<'_>> =
        pidfds.iter().map(|pidfd| PollFd::new(pidfd, PollFlags::IN)).collect();
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).map_err(|error| format!("cannot watch the program: {error}"))?;
    Ok(fds.iter().all(|fd| fd.revents().contains(PollFlags::IN)))
}

/// The process that `launch` has become the parent of: the first one of the program.
pub(super) fn program_of(launch: u32) -> Option<u32> {
    family(launch).get(1).copied()
}

/// Asks a program to end, by the signal TERM to its first process: that which `launch` has become,
/// or is the parent of.
pub(super) fn ask_to_end(launch: u32) {
    first_of(launch).into_iter().for_each(|pid| send(pid, Signal::TERM));
}

/// Whether the first process of a program has ended, be it that its end was not noted yet, or has
/// not begun.
pub(super) fn has_ended(launch: u32) -> bool {
    !first_of(launch).is_some_and(is_alive)
}

/// Whether a process runs, or may.
fn is_alive(pid: u32) -> bool {
    match fs::read(format!("/proc/{pid}/stat")) {
        Ok(stat) => state_of(&String::from_utf8_lossy(&stat))
            .is_some_and(|state| !matches!(state, 'Z' | 'X')),
        Err(error) => !is_of_the_dead(&error),
    }
}

/// The first process of a program: that which `launch` has become, or is the parent of.
fn first_of(launch: u32) -> Option<u32> {
    let file = |pid: &str| fs::metadata(format!("/proc/{pid}/exe")).map(|it| (it.dev(), it.ino()));
    let waits = file("self").is_ok_and(|own| file(&launch.to_string()).is_ok_and(|of| of == own));
    if waits { program_of(launch) } else { Some(launch) }
}

/// Lets a process, and all that it has begun, run again.
pub(super) fn let_go(pid: u32) {
    for pid in family(pid) {
        send(pid, Signal::CONT);
    }
}

fn send(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid as i32) {
        let _ = kill_process(pid, signal); // one that is gone has ended
    }
}

/// F1: kills what a process waits for that has been told to stop: those that it has begun, if they
/// and all that they have begun are stopped.
fn free(pid: u32) {
    for child in children(pid) {
        let all = family(child);
        if all.iter().all(|pid| is_stopped(*pid)) {
            all.iter().for_each(|pid| send(*pid, Signal::KILL));
        }
    }
}

/// A process, and all that it and its descendants have begun.
pub(super) fn family(pid: u32) -> Vec<u32> {
    let (mut pids, mut at) = (vec![pid], 0);
    while at < pids.len() {
        pids.extend(children(pids[at]));
        at += 1;
    }
    pids
}

/// What a process has begun, and what has not ended.
fn children(pid: u32) -> Vec<u32> {
    let of_task = |task: std::path::PathBuf| {
        let children = fs::read_to_string(task.join("children")).unwrap_or_default();
        children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()
    };
    tasks(pid).flat_map(of_task).collect()
}

fn tasks(pid: u32) -> impl Iterator<Item = std::path::PathBuf> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.map(|task| task.path())
}

/// Whether no thread of a process runs, or will.
fn is_stopped(pid: u32) -> bool {
    states(pid).all(|state| matches!(state, 'T' | 't' | 'Z' | 'X'))
}

/// Whether a thread of a process waits in the kernel, and no signal but the last ends that.
fn is_blocked(pid: u32) -> bool {
    states(pid).any(|state| state == 'D')
}

fn states(pid: u32) -> impl Iterator<Item = char> {
    tasks(pid).filter_map(|task| {
        let stat = fs::read_to_string(task.join("stat")).unwrap_or_default();
        state_of(&stat)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    #[test]
    fn a_program_that_was_killed_has_ended_before_that_is_noted() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        assert!(!has_ended(child.id()));
        child.kill().unwrap();
        while !has_ended(child.id()) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(has_ended(child.id()), "nothing is left of it");
    }

    #[test]
    fn f1_a_program_that_begins_processes_without_end_is_ended_with_all_of_them() {
        // Each has left the group of the first one, and begins others.
        let script = "work() { while :; do setsid sh -c 'echo $$; exec sleep 60' & sleep 0; done; }
            work & wait";
        let mut child =
            Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut begun: BTreeSet<u32> = BTreeSet::new();
        while begun.len() < 5 {
            begun.insert(lines.next().unwrap().unwrap().parse().unwrap());
        }
        let mut ending = Ending::of(child.id());
        while !ending.poll().unwrap() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        begun.extend(lines.map_while(Result::ok).filter_map(|line| line.parse::<u32>().ok()));
        let left: Vec<u32> = begun.into_iter().filter(|pid| is_alive(*pid)).collect();
        assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn f1_a_process_that_waits_for_one_that_it_has_just_begun_is_ended_with_it() {
        let script = "import ctypes; c = ctypes.CDLL(None); c.vfork() or c.pause()";
        let Ok(mut parent) = Command::new("python3").args(["-c", script]).spawn() else {
            println!("skipped: there is no python3");
            return;
        };
        while !is_blocked(parent.id()) || children(parent.id()).is_empty() {
            assert!(parent.try_wait().unwrap().is_none(), "it has ended");
            std::thread::yield_now();
        }
        let child = children(parent.id())[0];
        let mut ending = Ending::of(parent.id());
        while !ending.poll().unwrap() {
            std::thread::yield_now();
        }
        parent.wait().unwrap();
        assert!(!is_alive(child));
    }
}
