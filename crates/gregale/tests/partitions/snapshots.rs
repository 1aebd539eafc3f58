//! Reads of several partitions at one timestamp, which no multicast carries: money that is moved
//! between partitions is neither lost nor made in them, while a leader dies.

use crate::commands::apart;
use crate::support::{Cluster, signal, wait_until};
use redis::{Connection, RedisError, cmd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const ACCOUNTS: usize = 4;
const EACH: i64 = 1000;
/// As many snapshots are looked at before the leader dies, and again after it.
const SNAPSHOTS: u64 = 200;

fn read(keys: &[String], at: &mut Connection) -> Result<Vec<i64>, RedisError> {
    cmd("GREGALE.SNAPSHOT").arg("MGET").arg(keys).query(at)
}

fn moves(keys: &[String], over: &AtomicBool, seed: u64, mut at: Connection) -> u64 {
    let (mut rng, mut n_moved) = (base::Rng::new(seed), 0);
    while !over.load(Ordering::Relaxed) {
        let from = rng.below(ACCOUNTS as u64) as usize;
        let to = (from + 1 + rng.below(ACCOUNTS as u64 - 1) as usize) % ACCOUNTS;
        let amount = rng.below(50);
        let mut pipe = redis::pipe();
        pipe.atomic().decr(&keys[from], amount).incr(&keys[to], amount);
        // What a dying leader makes unknown is whole or nothing all the same.
        n_moved += u64::from(pipe.query::<(i64, i64)>(&mut at).is_ok());
    }
    n_moved
}

fn nothing_is_lost(order: &str) {
    let cluster = Cluster::start_with(&["--partitions", "4", "--order", order]);
    let keys = apart(ACCOUNTS, 4);
    let pairs: Vec<(&String, i64)> = keys.iter().map(|key| (key, EACH)).collect();
    let () = cmd("MSET").arg(&pairs).query(&mut cluster.connect(1)).unwrap();
    // A member's snapshots come after whatever it has answered.
    let () = cmd("INCRBY").arg(&keys[0]).arg(0).query(&mut cluster.connect(2)).unwrap();
    let (over, n_seen) = (AtomicBool::new(false), AtomicU64::new(0));
    let (keys, over, n_seen) = (&keys, &over, &n_seen);
    let leader = cluster.status_at(1)["partitions"][0]["leader"].as_u64().unwrap() as u16;
    let (one, other) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    std::thread::scope(|scope| {
        let movers: Vec<_> = [one, other]
            .into_iter()
            .map(|member| {
                let at = cluster.connect(member);
                scope.spawn(move || moves(keys, over, u64::from(member), at))
            })
            .collect();
        let readers: Vec<_> = [one, other]
            .into_iter()
            .map(|member| {
                let mut at = cluster.connect(member);
                scope.spawn(move || {
                    let (mut n_distinct, mut last) = (0, Vec::new());
                    while !over.load(Ordering::Relaxed) {
                        // Before the accounts are there at this member, and while a group is
                        // without a leader, there is nothing to look at.
                        let Ok(seen) = read(keys, &mut at) else { continue };
                        let sum: i64 = seen.iter().sum();
                        assert_eq!(sum, EACH * ACCOUNTS as i64, "{seen:?} at member {member}");
                        n_distinct += u64::from(seen != last);
                        last = seen;
                        n_seen.fetch_add(1, Ordering::Relaxed);
                    }
                    n_distinct
                })
            })
            .collect();
        let enough = |n: u64| move || n_seen.load(Ordering::Relaxed) >= n;
        // Whatever fails, the threads end.
        let _ends = crate::client::Ends(over);
        wait_until("snapshots before the leader dies", enough(SNAPSHOTS));
        signal(cluster.pid_of(leader), "KILL");
        let n = n_seen.load(Ordering::Relaxed);
        wait_until("snapshots after it", enough(n + SNAPSHOTS));
        over.store(true, Ordering::Relaxed);
        for mover in movers {
            assert!(mover.join().unwrap() > 0, "nothing was moved");
        }
        for reader in readers {
            assert!(reader.join().unwrap() > 10, "the snapshots saw no change");
        }
    });
}

#[test]
fn snapshots_lose_no_money_while_a_leader_dies() {
    nothing_is_lost("linearizable");
}

#[test]
fn snapshots_lose_no_money_where_partitions_signal() {
    nothing_is_lost("signals");
}

#[test]
fn a_snapshot_has_what_its_member_answered_and_refuses_what_is_no_read() {
    let mut cluster = Cluster::start_with(&["--partitions", "4", "--order", "reply"]);
    let keys = apart(ACCOUNTS, 4);
    let mut at = cluster.connect(3);
    for round in 0..20 {
        let key = &keys[round % ACCOUNTS];
        let () = cmd("SET").arg(key).arg(round).query(&mut at).unwrap();
        // Also where only other partitions are asked: they come to the same timestamp.
        let seen: Vec<Option<usize>> =
            cmd("GREGALE.SNAPSHOT").arg("MGET").arg(&keys).query(&mut at).unwrap();
        assert_eq!(seen[round % ACCOUNTS], Some(round));
        let one: usize = cmd("GREGALE.SNAPSHOT").arg("GET").arg(key).query(&mut at).unwrap();
        assert_eq!(one, round);
    }
    let n: usize = cmd("GREGALE.SNAPSHOT").arg("DBSIZE").query(&mut at).unwrap();
    assert_eq!(n, ACCOUNTS);
    for (words, why) in [
        (&["SET", "a", "1"][..], "only a command that reads keys"),
        (&["PING"], "only a command that reads keys"),
        (&["RANDOMKEY"], "needs several partitions at once"),
        (&["NOSUCH"], "unknown command"),
    ] {
        let refusal = cmd("GREGALE.SNAPSHOT").arg(words).query::<()>(&mut at).unwrap_err();
        assert!(refusal.to_string().contains(why), "{words:?}: {refusal}");
    }
    assert_eq!(cluster.stop(), Some(0));
}
