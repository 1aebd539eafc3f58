//! Whether a program waits: the states of its threads, and of the processes that it has forked.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// The most processes of one program that are looked at; a program with more is taken to run.
const PROCESSES_MAX: usize = 512;

/// Whether every thread of process `pid` and of its descendants sleeps. A process that has ended
/// runs no more. One that was stopped does not sleep: it has not read what it was sent, and would
/// find it all at once.
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

/// Adds the children of `pid`, and its threads. Returns whether these sleep.
fn look(pid: u32, pids: &mut Vec<u32>, sleepers: &mut BTreeMap<u32, u64>) -> bool {
    let tasks = PathBuf::from(format!("/proc/{pid}/task"));
    for task in fs::read_dir(&tasks).into_iter().flatten().flatten() {
        let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let value = |of: &str| status.lines().find_map(|line| line.strip_prefix(of));
        let state = value("State:").and_then(|state| state.trim_start().chars().next());
        if state.is_some_and(|state| !matches!(state, 'S' | 'I' | 'Z' | 'X')) {
            return false;
        }
        let n_sleeps: Option<u64> =
            value("voluntary_ctxt_switches:").and_then(|n| n.trim().parse().ok());
        let id: Option<u32> = task.file_name().to_string_lossy().parse().ok();
        sleepers.extend(id.zip(n_sleeps));
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        pids.extend(children.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    true
}

/// The state in a line of `stat`, behind the name in parentheses, which may hold any character.
pub(super) fn state_of(stat: &str) -> Option<char> {
    stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next())
}

#[cfg(test)]
mod tests {
    use super::*;
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
}
