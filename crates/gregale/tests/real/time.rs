//! Keys live as long as specified, whatever the wall clock does and however long the silence.

use crate::support::{Cluster, FakeClock, signal, start_on_disk, wait_until};
use std::path::Path;
use std::time::{Duration, Instant};

/// The ways to keep the state.
fn of_each_kind(data: &Path, flags: &[&str]) -> Vec<Cluster> {
    let partitions = [&["--partitions", "2"], flags].concat();
    vec![Cluster::start_with(flags), start_on_disk(data, flags), Cluster::start_with(&partitions)]
}

/// A difference longer than any step that one batch could be allowed to make.
const QUIET: Duration = Duration::from_secs(60);

/// The shortest life of a lock of 20 s, while state time follows a wall clock.
const LOCK_LEAST: Duration = Duration::from_millis(19_800);

#[test]
fn a_lock_taken_after_a_quiet_time_is_held_for_its_time() {
    let data = tempfile::tempdir().unwrap();
    let clusters = of_each_kind(data.path(), &[]);
    for cluster in &clusters {
        assert_eq!(cluster.cli(1, &["SET", "x", "1"]), "OK");
    }
    std::thread::sleep(QUIET);
    let before = Instant::now();
    for cluster in &clusters {
        assert_eq!(cluster.cli(2, &["SET", "lock", "me", "EX", "20", "NX"]), "OK");
        // Each reads, and so looks at the time.
        for id in [1, 2, 3] {
            let ttl_ms: i64 = cluster.cli(id, &["PTTL", "lock"]).parse().unwrap();
            assert_eq!(cluster.cli(id, &["GET", "lock"]), "me", "{ttl_ms} ms were left");
            assert!(ttl_ms <= 20_000);
        }
    }
    let mut held: Vec<&Cluster> = clusters.iter().collect();
    wait_until("the locks to be free", || {
        let take = ["SET", "lock", "another", "EX", "20", "NX"];
        held.retain(|cluster| cluster.cli(3, &take).is_empty());
        let passed = before.elapsed();
        let all_held = held.len() == clusters.len();
        assert!(all_held || passed >= LOCK_LEAST, "a lock of 20 s was free after {passed:?}");
        held.is_empty()
    });
}

#[test]
fn a_wall_clock_that_is_set_takes_no_key_early_and_keeps_none() {
    let data = tempfile::tempdir().unwrap();
    let clock = FakeClock::new(data.path());
    let clusters = clock.for_all(|| of_each_kind(&data.path().join("logs"), &[]));
    for cluster in &clusters {
        assert_eq!(cluster.cli(1, &["SET", "hour", "kept", "EX", "3500"]), "OK");
    }
    clock.set(3_600);
    for cluster in &clusters {
        // The clock is really set: absolute times that are in the past by it are not, by state
        // time.
        wait_until("a member to see that its clock was set", || ahead_ms(cluster) < -3_000_000);
        wait_until("the metrics to say so", || {
            let ahead_s = (1..=3).map(|id| cluster.metric(id, "state_time_ahead_seconds"));
            ahead_s.fold(0.0, f64::min) < -3_000.0
        });
        let mut connection = cluster.connect(1);
        for n in 0..2_000 {
            let set = redis::cmd("SET").arg(format!("k{n}")).arg(n).exec(&mut connection);
            set.unwrap();
        }
        assert_eq!(cluster.cli(2, &["GET", "hour"]), "kept");
        let ttl_s: u64 = cluster.cli(3, &["TTL", "hour"]).parse().unwrap();
        assert!(ttl_s > 3_300, "{ttl_s} s are left of 3500");
    }
    clock.set(-3_600);
    for cluster in &clusters {
        assert_eq!(cluster.cli(1, &["SET", "blink", "v", "PX", "300"]), "OK");
        wait_until("a key to expire", || cluster.cli(2, &["GET", "blink"]).is_empty());
    }
}

/// The age that a lock has when a member meets it first; far more than a clock may be wrong by.
const AGE: Duration = Duration::from_secs(5);

#[test]
fn a_member_that_was_away_knows_how_old_a_lock_is() {
    let mut cluster = Cluster::start();
    let leader = cluster.leader();
    let [killed, stopped] = [1, 2].map(|n| (leader - 1 + n) % 3 + 1);
    let pid = cluster.pid_of(stopped);
    signal(pid, "STOP");
    assert_eq!(cluster.cli(leader, &["SET", "lock", "me", "EX", "600"]), "OK");
    std::thread::sleep(AGE);
    signal(pid, "CONT");
    let wait_until_right = |cluster: &Cluster, id| {
        wait_until(&format!("member {id} to know the time"), || {
            let [first, left, last] = [leader, id, leader].map(|id| {
                let answer = cluster.cli(id, &["PTTL", "lock"]);
                answer.parse::<i64>().unwrap_or(-1)
            });
            (last - 1_000..=first + 1_000).contains(&left)
        });
    };
    wait_until_right(&cluster, stopped);
    signal(cluster.pid_of(killed), "KILL");
    cluster.wait_for(&format!("member {killed} serves again"));
    wait_until_right(&cluster, killed);
}

/// The time by which state time is ahead of the wall clock of the member that stamps for member 1's
/// clients.
fn ahead_ms(cluster: &Cluster) -> i64 {
    let status = cluster.status_at(1);
    let members = status["members"].as_array().unwrap();
    members.iter().map(|member| member["state_time_ahead_ms"].as_i64().unwrap()).min().unwrap()
}
