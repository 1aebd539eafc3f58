//! What the tests of replicated programs see of a cluster: its status, and its copies.

use crate::support::{Cluster, gregale, wait_until};
use std::collections::BTreeSet;
use std::process::Command;

/// (`DEBUG DIGEST` is refused to all without a word about it.)
pub(crate) const REDIS: &str = "redis-server --port 0 --unixsocket {socket} --dir {dir} --save '' \
    --appendonly no --timeout 0 --enable-debug-command yes";

/// The control address of member `id`, from what `up` said.
pub(crate) fn control(cluster: &Cluster, id: u16) -> String {
    let said = cluster.said();
    let begins = format!("member {id}: ");
    let line = said.iter().find(|line| line.starts_with(&begins)).expect("a line for each member");
    line.split("http://").nth(1).unwrap().trim_end_matches("/metrics").to_owned()
}

pub(crate) fn status(cluster: &Cluster, id: u16) -> Option<serde_json::Value> {
    let output = gregale(&["status", "--control", &control(cluster, id), "--format", "json"]);
    serde_json::from_slice(&output.stdout).ok()
}

pub(crate) fn pid_of(cluster: &Cluster, asked: u16, id: u16) -> u32 {
    let mut pid = 0;
    wait_until("a status", || {
        let status = status(cluster, asked);
        pid = status.map_or(0, |of| of["members"][usize::from(id) - 1]["pid"].as_u64().unwrap());
        pid != 0
    });
    pid as u32
}

pub(crate) fn leader(cluster: &Cluster, asked: u16) -> u16 {
    let mut leader = 0;
    wait_until("a leader", || {
        let status = status(cluster, asked).unwrap_or_default();
        let members = status["members"].as_array().cloned().unwrap_or_default();
        let leads = members.iter().find(|member| member["role"] == "leader");
        leader = leads.map_or(0, |member| member["id"].as_u64().unwrap());
        leader != 0
    });
    leader as u16
}

/// The part of a member's status that is about its copy; nothing while it is down.
pub(crate) fn program(cluster: &Cluster, asked: u16, id: u16) -> serde_json::Value {
    let status = status(cluster, asked).unwrap_or_default();
    status["members"][usize::from(id) - 1]["program"].clone()
}

/// The process of a member's copy of Redis, among all that the member has started.
pub(crate) fn copy_of(cluster: &Cluster, id: u16) -> u32 {
    let children = |pid: u32| -> Vec<u32> {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let lists = tasks.flat_map(|task| std::fs::read_to_string(task.path().join("children")));
        lists.flat_map(|list| parsed(&list)).collect()
    };
    let mut pids = vec![pid_of(cluster, id % 3 + 1, id)];
    while let Some(pid) = pids.pop() {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        if name.trim_end() == "redis-server" {
            return pid;
        }
        pids.extend(children(pid));
    }
    panic!("member {id} has no copy");
}

fn parsed(list: &str) -> Vec<u32> {
    list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// The sockets at which the copies listen.
pub(crate) fn sockets(cluster: &Cluster) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(cluster.directory()).unwrap().flatten();
    let is_socket = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("copy-") && name.contains('.')
    };
    entries.map(|entry| entry.path()).filter(is_socket).collect()
}

/// What copies of Redis say themselves, which no member takes part in.
pub(crate) fn all_say(cluster: &Cluster, words: &[&str]) -> BTreeSet<String> {
    let says = |socket: std::path::PathBuf| {
        let mut cli = Command::new("redis-cli");
        let output = cli.arg("-s").arg(socket).args(words).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    sockets(cluster).into_iter().map(says).collect()
}

/// The copies' answers to `DEBUG DIGEST`.
pub(crate) fn digests(cluster: &Cluster) -> BTreeSet<String> {
    let digests = all_say(cluster, &["DEBUG", "DIGEST"]);
    // One that has just ended says nothing.
    let is_one = |digest: &String| matches!(digest.trim().len(), 0 | 40);
    assert!(digests.iter().all(is_one), "digests: {digests:?}");
    digests
}
