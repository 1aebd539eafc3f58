//! Whether a program waits: the states of its threads, and of the processes that it has forked.

use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The most processes of one program that are looked at; a program with more is taken to run.
const PROCESSES_MAX: usize = 512;

/// Whether every thread of process `pid` and of its descendants sleeps. A process that has ended
/// runs no more. One that was stopped does not sleep: it has not read what it was sent, and would
/// find it all at once. One that cannot be looked at, where no descriptor is left, may run.
///
/// One look after the other would miss a thread that wakes another one and falls asleep meanwhile:
/// a shell that was seen to wait for a child, which then was gone. So all are looked at twice. A
/// thread that slept both times, and was not put to sleep in between, has slept all the time from
/// the first look to the second; and so there is a moment at which all did.
pub(super) fn is_asleep(pid: u32) -> bool {
    let first = sleepers(pid);
    first.is_some() && first == sleepers(pid)
}

/// How often each thread was put to sleep, by its id; `None` if one does not sleep.
fn sleepers(pid: u32) -> Option<BTreeMap<u32, u64>> {
    let (mut pids, mut sleepers) = (vec![pid], BTreeMap::new());
    let mut at = 0;
    while at < pids.len() {
        if pids.len() > PROCESSES_MAX || !look(pids[at], &mut pids, &mut sleepers) {
            return None;
        }
        at += 1;
    }
    Some(sleepers)
}

/// Adds the children of `pid`, and its threads. Returns whether these sleep, as far as is known.
fn look(pid: u32, pids: &mut Vec<u32>, sleepers: &mut BTreeMap<u32, u64>) -> bool {
    look_at_threads(pid, pids, sleepers).unwrap_or_else(|error| is_of_the_dead(&error))
}

/// The same.
///
/// # Errors
/// That of a look at the threads themselves.
fn look_at_threads(
    pid: u32,
    pids: &mut Vec<u32>,
    sleepers: &mut BTreeMap<u32, u64>,
) -> io::Result<bool> {
    let tasks = PathBuf::from(format!("/proc/{pid}/task"));
    for task in fs::read_dir(&tasks)? {
        let task = task?;
        let Some(status) = text_of(&task.path().join("status")) else { return Ok(false) };
        let value = |of: &str| status.lines().find_map(|line| line.strip_prefix(of));
        let state = value("State:").and_then(|state| state.trim_start().chars().next());
        if state.is_some_and(|state| !matches!(state, 'S' | 'I' | 'Z' | 'X')) {
            return Ok(false);
        }
        let n_sleeps: Option<u64> =
            value("voluntary_ctxt_switches:").and_then(|n| n.trim().parse().ok());
        let id: Option<u32> = task.file_name().to_string_lossy().parse().ok();
        sleepers.extend(id.zip(n_sleeps));
        let Some(children) = text_of(&task.path().join("children")) else { return Ok(false) };
        pids.extend(children.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    Ok(true)
}

/// What the kernel tells in this file: nothing of a thread that is gone. `None` if that is not
/// known. (A name may hold any bytes.)
fn text_of(path: &Path) -> Option<String> {
    match fs::read(path) {
        Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) => is_of_the_dead(&error).then(String::new),
    }
}

/// Whether a file of a process, or of a thread, cannot be read because that is gone.
pub(super) fn is_of_the_dead(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::SRCH))
}

/// The state in a line of `stat`, behind the name in parentheses, which may hold any character.
pub(super) fn state_of(stat: &str) -> Option<char> {
    stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Resource, getrlimit, setrlimit};
    use std::fs::File;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    #[test]
    fn a_name_with_parentheses_hides_no_state() {
        assert_eq!(state_of("7 (a) R (b) S 1 7"), Some('S'));
        assert_eq!(state_of(""), None);
    }

    #[test]
    fn a_program_that_waits_sleeps_and_one_whose_child_runs_does_not() {
        // The child of the shell runs until it is told to end; the shell waits for it.
        let script = "echo up; (while :; do :; done) & read line; kill $!; wait $!; echo down; cat";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut input = child.stdin.take().unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), "up");
        // The shell may not have forked yet; then it runs itself, or the child does soon.
        while is_asleep(child.id()) {
            std::thread::yield_now();
        }
        input.write_all(b"end\n").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), "down");
        while !is_asleep(child.id()) {
            std::thread::yield_now();
        }
        drop(input);
        child.wait().unwrap();
        assert!(is_asleep(child.id()), "it has ended");
    }

    /// The trap: a file that could not be opened was that of a thread that is gone. (The limit is
    /// that of a process: the test is run again in one of its own.)
    #[test]
    fn what_cannot_be_looked_at_is_not_taken_to_sleep() {
        const ALONE: &str = "GREGALE_TEST_IS_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let (_, module) = module_path!().split_once("::").unwrap();
            let name = format!("{module}::what_cannot_be_looked_at_is_not_taken_to_sleep");
            let mut again = Command::new(std::env::current_exe().unwrap());
            let ended = again.args(["--exact", &name]).env(ALONE, "1").output().unwrap();
            let said = String::from_utf8_lossy(&ended.stdout);
            assert!(ended.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = Some(64);
        setrlimit(Resource::Nofile, limit).unwrap();
        let mut held = Vec::new();
        while let Ok(file) = File::open("/dev/null") {
            held.push(file);
        }
        let mut slept = Vec::new();
        for _ in 0..3 {
            slept.push(is_asleep(child.id()));
            held.pop();
        }
        drop(held);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(slept, [false; 3], "with so many descriptors left");
    }
}
