//! Members with disks: they are killed, all at once too, and come back.
//!
//! - I1 every killed member serves again, in another process, before the next is killed: the
//!   supervisor restarts it, and its disk brings its replicas back.

use crate::client::Shared;
use crate::support::{Cluster, gregale, role, signal, start_on_disk, wait_until};
use crate::{PARTITIONS, agree, beside_clients, judge};
use base::Rng;
use check::End;
use std::sync::atomic::Ordering;

const NODES: u16 = 3;
/// Few clients: the client of a member that dies never learns the outcome, and a judge can handle
/// about twenty operations of unknown outcome that transactions connect.
const CLIENTS: u64 = 3;
const WRITES_BETWEEN: u64 = 40;

#[test]
fn over_shm_members_come_back_from_their_disks() {
    judge_comebacks("shm", "linearizable");
}

#[test]
fn over_tcp_members_come_back_from_their_disks() {
    judge_comebacks("tcp", "linearizable");
}

#[test]
fn by_signals_members_come_back_from_their_disks() {
    judge_comebacks("shm", "signals");
}

fn judge_comebacks(fabric: &str, order: &str) {
    let seed = 7;
    let data = tempfile::tempdir().unwrap();
    let (nodes, partitions) = (NODES.to_string(), PARTITIONS.to_string());
    let flags = ["--nodes", &nodes, "--partitions", &partitions, "--fabric", fabric];
    let flags = [&flags[..], &["--order", order]].concat();
    let mut cluster = start_on_disk(&data.path().join("cluster"), &flags);
    let shared = Shared::new((1..=NODES).map(|id| cluster.port_of(id)).collect());
    let act = || kill_and_wait(&cluster, &shared, seed);
    let (mut history, ()) = beside_clients(CLIENTS, seed, &shared, act);
    let unknown = history.ops.iter().filter(|op| op.end == End::Unknown).count();
    let n_writes = shared.n_acknowledged_writes.load(Ordering::Relaxed);
    println!(
        "{fabric}, {order}: {} operations, {unknown} of unknown outcome, {n_writes} writes",
        history.ops.len()
    );
    assert!(n_writes >= 100, "too little happened to be judged");
    let members: Vec<u16> = (1..=NODES).collect();
    agree(&members, CLIENTS, seed, &shared, &mut history);
    assert_eq!(cluster.stop(), Some(0), "the cluster stops in order");
    judge(&history, &format!("partitions-disk-{fabric}-{order}"));
}

/// A member's answer, if it answers.
fn status_at(cluster: &Cluster, id: u16) -> Option<serde_json::Value> {
    let address = format!("127.0.0.1:{}", cluster.port_of(id));
    let output = gregale(&["status", "--connect", &address, "--format", "json"]);
    serde_json::from_slice(&output.stdout).ok().filter(|_| output.status.success())
}

fn kill_and_wait(cluster: &Cluster, shared: &Shared, seed: u64) {
    let mut rng = Rng::new(seed);
    for round in 0..2 {
        let count = || shared.n_acknowledged_writes.load(Ordering::Relaxed);
        let enough = count() + WRITES_BETWEEN;
        wait_until(&format!("writes before round {round}"), || count() >= enough);
        // The last time all of them are killed at once.
        let killed: Vec<u16> = match round {
            1 => (1..=NODES).collect(),
            _ => vec![rng.range(1, NODES.into()) as u16],
        };
        let pids: Vec<u32> = killed.iter().map(|id| cluster.pid_of(*id)).collect();
        pids.iter().for_each(|pid| signal(*pid, "KILL"));
        // The killed members serve again (I1).
        for (id, old) in killed.iter().zip(pids) {
            wait_until(&format!("member {id} to serve again"), || {
                let Some(status) = status_at(cluster, *id) else { return false };
                let member = &status["members"][usize::from(*id) - 1];
                let is_new = member["pid"].as_u64().is_some_and(|pid| pid != u64::from(old));
                is_new && ["leader", "follower"].contains(&role(&status, *id).as_str())
            });
        }
    }
    let count = || shared.n_acknowledged_writes.load(Ordering::Relaxed);
    let enough = count() + WRITES_BETWEEN;
    wait_until("writes at the end", || count() >= enough);
}
