//! A keyspace in partitions, with real processes and real Redis clients.
//!
//! - [`away`]: members in memory that die and come back, or stay away for long.
//! - [`commands`]: commands across partitions: those that work, and those that are refused.
//! - [`comeback`]: members with disks, which come back.
//! - [`hangs`]: members that hang delay no other member, and no request without a bound.
//! - [`snapshots`]: reads of several partitions at one timestamp.
//! - [`client`] and [`nemesis`]: clients whose every operation may be a transaction on keys of
//!   several partitions, while leaders are killed and hang; two judges that share no code look for
//!   one order of all of it (strict serializability: keys that transactions connect are one
//!   object).
//!
//! `GREGALE_LINEARIZABILITY_SEED=N` chooses other faults and operations than the usual ones.

mod away;
mod client;
mod comeback;
mod commands;
mod hangs;
#[path = "../linearizability/judges.rs"]
mod judges;
mod nemesis;
mod snapshots;
#[allow(
    dead_code,
    reason = "the harness of the other tests of real clusters, which use more of it"
)]
#[path = "../real/support.rs"]
mod support;
#[path = "../linearizability/wire.rs"]
mod wire;

use check::{End, History};
use client::{Client, Shared};
use nemesis::Nemesis;
use std::sync::atomic::Ordering;
use support::{Cluster, Ends, wait_until};

/// Enough members that two may die, one after the other, while neither has come back.
const NODES: u16 = 5;
const PARTITIONS: usize = 4;
const CLIENTS: u64 = 6;

#[test]
fn over_shm_transactions_are_serializable_while_leaders_die() {
    judge_a_run("shm", "linearizable");
}

#[test]
fn over_tcp_transactions_are_serializable_while_leaders_die() {
    judge_a_run("tcp", "linearizable");
}

#[test]
fn by_signals_transactions_are_serializable_while_leaders_die() {
    judge_a_run("shm", "signals");
}

#[test]
fn by_held_back_replies_transactions_are_serializable_while_leaders_die() {
    judge_a_run("shm", "reply");
}

fn judge_a_run(fabric: &str, order: &str) {
    let seed = std::env::var("GREGALE_LINEARIZABILITY_SEED")
        .map_or(1, |text| text.parse().expect("GREGALE_LINEARIZABILITY_SEED is a number"));
    let (nodes, partitions) = (NODES.to_string(), PARTITIONS.to_string());
    let flags = ["--nodes", &nodes, "--partitions", &partitions, "--fabric", fabric];
    let mut cluster = Cluster::start_with(&[&flags[..], &["--order", order]].concat());
    let shared = Shared::new((1..=NODES).map(|id| cluster.port_of(id)).collect());
    let nemesis = Nemesis::new(&cluster, &shared, seed);
    let (mut history, survivors) = beside_clients(CLIENTS, seed, &shared, || nemesis.run());

    let n_writes = shared.n_acknowledged_writes.load(Ordering::Relaxed);
    let unknown = history.ops.iter().filter(|op| op.end == End::Unknown).count();
    println!(
        "{fabric}, {order}, seed {seed}: {} operations, {unknown} of unknown outcome, {n_writes} \
         writes acknowledged",
        history.ops.len()
    );
    assert!(n_writes >= 250, "too little happened to be judged");
    let tied = |op: &&check::Op| op.commands.len() > 1 && op.complete_ns().is_some();
    assert!(history.ops.iter().filter(tied).count() >= 150, "too few transactions");

    agree(&survivors, CLIENTS, seed, &shared, &mut history);
    assert_eq!(cluster.stop(), Some(0), "what is left of the cluster stops in order");
    judge(&history, &format!("partitions-{fabric}-{order}-{seed}"));
}

/// Runs `act` beside `n` clients; returns their record and its result. The clients end however it
/// ends.
fn beside_clients<T>(n: u64, seed: u64, shared: &Shared, act: impl FnOnce() -> T) -> (History, T) {
    let mut history = History::new();
    let acted = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..n)
            .map(|id| {
                let client = Client::new(id, seed, shared);
                scope.spawn(move || client.run())
            })
            .collect();
        let acted = {
            let _ends = Ends(&shared.is_over);
            act()
        };
        for client in clients {
            history.ops.extend(client.join().expect("its own message stands above").ops);
        }
        acted
    });
    (history, acted)
}

/// Waits until `members` agree on every key, with clients of numbers from `first` on: a write whose
/// client gave it up may still be under way.
fn agree(members: &[u16], first: u64, seed: u64, shared: &Shared, history: &mut History) {
    let mut id = first;
    wait_until("the members to agree on every key", || {
        let mut read_at = |member: &u16| {
            id += 1;
            let (replies, seen) = Client::new(id, seed, shared).read_all(*member);
            history.ops.extend(seen.ops);
            replies
        };
        let reads: Vec<_> = members.iter().map(&mut read_at).collect();
        reads.iter().all(|replies| *replies == reads[0])
    });
}

/// Checks that both judges accept the record, and that neither does when it is forged.
fn judge(history: &History, name: &str) {
    judges::both_accept(history, name);
    let forged = judges::forge(history).expect("some key was read before and after a write");
    judges::both_reject(&forged, name);
}
