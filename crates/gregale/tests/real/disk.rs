//! Clusters whose acknowledged writes are on disk: all members die, disks are full or lost.

use crate::support::{
    Cluster, PATIENCE, signal, start_on_disk as start, until_known, wait_until, wait_within,
};
use redis::{Commands, Connection};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// A longer look: `DURABLE_ROUNDS=50 cargo test -p gregale --test real everything_acknowledged`.
fn rounds() -> u64 {
    std::env::var("DURABLE_ROUNDS").map_or(4, |text| text.parse().expect("a number"))
}

fn command(connection: &mut Connection, words: &[&str]) -> redis::RedisResult<i64> {
    let (name, arguments) = words.split_first().expect("a command has a name");
    redis::cmd(name).arg(arguments).query(connection)
}

/// Increments until an error; returns the last acknowledged value.
fn count_until_it_fails(mut connection: Connection) -> i64 {
    let mut last = 0;
    while let Ok(n) = command(&mut connection, &["INCR", "n"]) {
        last = n;
    }
    last
}

#[test]
fn everything_acknowledged_survives_the_death_of_all_again_and_again() {
    let data = tempfile::tempdir().unwrap();
    let mut cluster = start(data.path(), &[]);
    let mut acknowledged = 0;
    for round in 0..rounds() {
        let pids = [1, 2, 3].map(|id| cluster.pid_of(id));
        let (counting, mut other) = (cluster.connect(1), cluster.connect(2));
        let counter = std::thread::spawn(|| count_until_it_fails(counting));
        let goal = acknowledged + 200;
        wait_until("some writes", || command(&mut other, &["GET", "n"]).unwrap_or(0) > goal);
        pids.iter().for_each(|pid| signal(*pid, "KILL"));
        let counted = counter.join().unwrap();
        assert!(counted > acknowledged);
        acknowledged = counted;
        (0..3).for_each(|_| drop(cluster.wait_for("serves again")));
        let n = command(&mut cluster.connect(3), &["GET", "n"]).unwrap();
        // The increment under way may have been decided.
        assert!((acknowledged..=acknowledged + 1).contains(&n), "round {round}: {n}");
        acknowledged = n;
    }
}

#[test]
fn a_cluster_that_was_stopped_goes_on_where_it_was() {
    let data = tempfile::tempdir().unwrap();
    let mut cluster = start(data.path(), &[]);
    assert_eq!(cluster.cli(1, &["SET", "k", "v", "EX", "1000"]), "OK");
    assert_eq!(cluster.stop(), Some(0));
    drop(cluster);
    let cluster = start(data.path(), &["--fabric", "tcp"]);
    assert_eq!(cluster.cli(3, &["GET", "k"]), "v");
    let left: i64 = cluster.cli(2, &["TTL", "k"]).parse().unwrap();
    assert!((900..=1000).contains(&left), "{left}");
}

/// No member that died came back, though all disks were whole.
#[test]
fn a_directory_that_is_removed_under_a_cluster_on_disk_is_made_again() {
    for fabric in ["shm", "tcp"] {
        let data = tempfile::tempdir().unwrap();
        let mut cluster = start(data.path(), &["--fabric", fabric]);
        let _: () = cluster.connect(1).set("k", "v").unwrap();
        let pid = cluster.pid_of(1);
        std::fs::remove_dir_all(cluster.directory()).unwrap();
        signal(pid, "KILL");
        cluster.wait_for("was removed while the members ran");
        cluster.wait_for("member 1 serves again");
        let read = until_known(|| cluster.connect(1).get::<_, String>("k"));
        assert_eq!(read, "v", "{fabric}");
        assert_eq!(cluster.stop(), Some(0));
    }
}

/// A file system of its own, which can be made too small.
struct Small<'a>(&'a Path);

impl<'a> Small<'a> {
    fn mount(at: &'a Path, size: &str) -> Option<Small<'a>> {
        std::fs::create_dir_all(at).unwrap();
        let options = format!("size={size}");
        let words = ["-t", "tmpfs", "-o", &options, "none"];
        let mounted = Command::new("mount").args(words).arg(at).output();
        mounted.is_ok_and(|done| done.status.success()).then_some(Small(at))
    }

    fn grow(&self, size: &str) {
        let options = format!("remount,size={size}");
        let done = Command::new("mount").args(["-o", &options]).arg(self.0).status();
        assert!(done.unwrap().success());
    }
}

impl Drop for Small<'_> {
    fn drop(&mut self) {
        // Lazily: a process that is just ending may hold a file.
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_loses_nothing_and_its_member_comes_back_when_there_is_room() {
    let data = tempfile::tempdir().unwrap();
    let member = data.path().join("member-3");
    let Some(small) = Small::mount(&member, "36m") else {
        println!("skipped: no right to mount a small file system");
        return;
    };
    let cluster = start(data.path(), &[]);
    let leader_at_first = cluster.leader();
    let mut connection = cluster.connect(1);
    let value = "x".repeat(4000);
    let lag = |cluster: &Cluster| {
        let status = cluster.status_at(1);
        let applied = |id: usize| status["members"][id - 1]["applied"].as_u64().unwrap();
        applied(1).abs_diff(applied(3))
    };
    // More than its disk can take; every write is acknowledged. (In batches: each write alone waits
    // for a sync, and there are thousands. An idle machine has done it in seconds.)
    let end = Instant::now() + 4 * PATIENCE;
    let mut n = 0;
    while lag(&cluster) < 1000 {
        assert!(Instant::now() < end, "the small disk took {n} values");
        let mut sets = redis::pipe();
        for _ in 0..100 {
            n += 1;
            sets.cmd("SET").arg(format!("key{n}")).arg(&value);
        }
        let done: Vec<String> = until_known(|| sets.query(&mut connection));
        assert_eq!(done, ["OK"; 100], "up to value {n}, {leader_at_first} led at first");
    }
    assert_ne!(cluster.leader(), 3, "who cannot store does not lead");
    small.grow("400m");
    wait_within(4 * PATIENCE, "the member to catch up", || lag(&cluster) == 0);
    assert_eq!(cluster.cli(3, &["DBSIZE"]), n.to_string());
}
