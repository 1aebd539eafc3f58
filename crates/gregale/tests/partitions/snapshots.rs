//! Reads of several partitions at one timestamp, which no multicast carries: money that is moved
//! between partitions is neither lost nor made in them, while a leader dies.

use crate::commands::apart;
use crate::support::{Cluster, signal, wait_until};
use redis::{Connection, FromRedisValue, RedisError, cmd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const ACCOUNTS: usize = 4;
const EACH: i64 = 1000;
/// The number of snapshots that each reader checks before the leader dies, and again after it, and
/// the number of them that differ from its previous one.
const SNAPSHOTS: u64 = 100;
const CHANGES: u64 = 10;

fn read(keys: &[String], at: &mut Connection) -> Result<Vec<i64>, RedisError> {
    cmd("GREGALE.SNAPSHOT").arg("MGET").arg(keys).query(at)
}

/// The progress at one member.
#[derive(Default)]
struct Counts {
    seen: AtomicU64,
    changed: AtomicU64,
    moved: AtomicU64,
}

impl Counts {
    fn now(&self) -> [u64; 3] {
        [&self.seen, &self.changed, &self.moved].map(|n| n.load(Ordering::Relaxed))
    }

    /// Whether the progress since `before` is enough to show something.
    fn is_enough(&self, before: [u64; 3]) -> bool {
        let enough = [SNAPSHOTS, CHANGES, 1];
        (0..3).all(|at| self.now()[at] >= before[at] + enough[at])
    }
}

fn moves(keys: &[String], over: &AtomicBool, seed: u64, mut at: Connection, n_moved: &AtomicU64) {
    let mut rng = base::Rng::new(seed);
    while !over.load(Ordering::Relaxed) {
        let from = rng.below(ACCOUNTS as u64) as usize;
        let to = (from + 1 + rng.below(ACCOUNTS as u64 - 1) as usize) % ACCOUNTS;
        let amount = rng.below(50);
        let mut pipe = redis::pipe();
        pipe.atomic().decr(&keys[from], amount).incr(&keys[to], amount);
        // A transfer whose outcome a dying leader makes unknown is still whole or absent.
        let is_moved = pipe.query::<(i64, i64)>(&mut at).is_ok();
        n_moved.fetch_add(u64::from(is_moved), Ordering::Relaxed);
    }
}

fn nothing_is_lost(order: &str) {
    let cluster = Cluster::start_with(&["--partitions", "4", "--order", order]);
    let keys = apart(ACCOUNTS, 4);
    let pairs: Vec<(&String, i64)> = keys.iter().map(|key| (key, EACH)).collect();
    let () = cmd("MSET").arg(&pairs).query(&mut cluster.connect(1)).unwrap();
    // A member's snapshots come after everything that it has answered.
    let () = cmd("INCRBY").arg(&keys[0]).arg(0).query(&mut cluster.connect(2)).unwrap();
    let (over, counts) = (AtomicBool::new(false), [Counts::default(), Counts::default()]);
    let (keys, over) = (&keys, &over);
    let leader = cluster.status_at(1)["partitions"][0]["leader"].as_u64().unwrap() as u16;
    let (one, other) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    std::thread::scope(|scope| {
        for (member, counts) in [one, other].into_iter().zip(&counts) {
            let at = cluster.connect(member);
            scope.spawn(move || moves(keys, over, u64::from(member), at, &counts.moved));
        }
        let readers: Vec<_> = [one, other]
            .into_iter()
            .zip(&counts)
            .map(|(member, counts)| {
                let mut at = cluster.connect(member);
                scope.spawn(move || {
                    let mut last = Vec::new();
                    while !over.load(Ordering::Relaxed) {
                        // Before the accounts exist at this member, and while a group has no
                        // leader, there is no answer to check.
                        let Ok(seen) = read(keys, &mut at) else { continue };
                        let sum: i64 = seen.iter().sum();
                        assert_eq!(sum, EACH * ACCOUNTS as i64, "{seen:?} at member {member}");
                        counts.changed.fetch_add(u64::from(seen != last), Ordering::Relaxed);
                        last = seen;
                        counts.seen.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        // The threads end whatever fails.
        let _ends = crate::support::Ends(over);
        let is_over = || readers.iter().any(|reader| reader.is_finished());
        wait_until("each to see and to move something before the leader dies", || {
            is_over() || counts.iter().all(|at| at.is_enough([0; 3]))
        });
        signal(cluster.pid_of(leader), "KILL");
        let before = counts.each_ref().map(Counts::now);
        wait_until("the same after it", || {
            is_over() || counts.iter().zip(before).all(|(at, before)| at.is_enough(before))
        });
        over.store(true, Ordering::Relaxed);
        // (A reader that ended sooner reports why.)
        readers.into_iter().for_each(|reader| reader.join().unwrap());
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
        // This holds also where only other partitions are read: they reach the same timestamp.
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

#[test]
fn a_snapshot_shows_no_key_behind_its_time_where_nothing_is_written() {
    let cluster = Cluster::start_with(&["--partitions", "2"]);
    let [mut one, mut other] = [1, 2].map(|member| cluster.connect(member));
    let () = cmd("SET").arg(&["lease", "mine", "PX", "300"]).query(&mut one).unwrap();
    for at in [&mut one, &mut other] {
        wait_until("the lease to end", || ask::<u64>(&["EXISTS", "lease"], at) == 0);
        assert_eq!(ask::<u64>(&["EXISTS", "lease"], at), 0, "it does not come back");
    }
    let then: [u64; 2] = ask(&["TIME"], &mut other);
    wait_until("time to pass", || ask::<[u64; 2]>(&["TIME"], &mut other) > then);
}

fn ask<T: FromRedisValue>(words: &[&str], at: &mut Connection) -> T {
    let seen = cmd("GREGALE.SNAPSHOT").arg(words).query(at);
    seen.unwrap_or_else(|error| panic!("{words:?}: {error}"))
}
