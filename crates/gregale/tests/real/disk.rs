//! Clusters whose acknowledged writes are on disk: all members die, disks are full or lost.

use crate::support::{Cluster, PATIENCE, gregale, signal, wait_until};
use redis::Connection;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A longer look: `DURABLE_ROUNDS=50 cargo test -p gregale --test real everything_acknowledged`.
fn rounds() -> u64 {
    std::env::var("DURABLE_ROUNDS").map_or(4, |text| text.parse().expect("a number"))
}

fn start(data: &Path, flags: &[&str]) -> Cluster {
    let path = data.to_str().expect("a plain path");
    let mut all = vec!["--durability", "disk-quorum", "--data", path];
    all.extend_from_slice(flags);
    Cluster::start_with(&all)
}

fn command(connection: &mut Connection, words: &[&str]) -> redis::RedisResult<i64> {
    let (name, arguments) = words.split_first().expect("a command has a name");
    redis::cmd(name).arg(arguments).query(connection)
}

/// Increments until something fails; what was acknowledged last.
fn count_until_it_fails(mut connection: Connection) -> i64 {
    connection.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
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
        // The one under way may have been decided.
        assert!((acknowledged..=acknowledged + 1).contains(&n), "round {round}: {n}");
        acknowledged = n;
    }
}

/// The snapshot that is being written in a member's directory.
fn unfinished_snapshot(directory: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap();
    // What cannot be read has gone in the meantime.
    let mut paths = entries.flatten().map(|entry| entry.path());
    paths.find(|path| path.extension().is_some_and(|extension| extension == "part"))
}

#[test]
fn a_member_killed_in_the_middle_of_a_snapshot_loses_nothing() {
    let data = tempfile::tempdir().unwrap();
    let mut cluster = start(data.path(), &["--snapshot-log-bytes", "1000000"]);
    let value = "x".repeat(16_000);
    let (mut acknowledged, mut unknown, mut n_sets) = (0, 0, 0);
    for victim in 1..=3 {
        let directory = data.path().join(format!("member-{victim}"));
        let mut client = cluster.connect(victim % 3 + 1);
        let end = Instant::now() + PATIENCE * 2;
        // A state that takes a while, and a log that soon asks for its next snapshot.
        let cut_short = loop {
            assert!(Instant::now() < end, "no snapshot of member {victim} was met");
            let mut pipe = redis::pipe();
            for _ in 0..32 {
                pipe.cmd("SET").arg(format!("key{}", n_sets % 600)).arg(&value).ignore();
                n_sets += 1;
            }
            pipe.query::<()>(&mut client).unwrap();
            match command(&mut client, &["INCR", "n"]) {
                Ok(_) => acknowledged += 1,
                Err(_) => unknown += 1,
            }
            if unfinished_snapshot(&directory).is_none() {
                continue;
            }
            signal(cluster.pid_of(victim), "KILL");
            let left = unfinished_snapshot(&directory);
            cluster.wait_for(&format!("member {victim} serves again"));
            if let Some(left) = left {
                break left;
            }
        };
        assert!(!cut_short.exists(), "{} is cleared away", cut_short.display());
        let n = command(&mut client, &["GET", "n"]).unwrap();
        assert!((acknowledged..=acknowledged + unknown).contains(&n), "{n} of {acknowledged}");
        let keys: i64 = command(&mut client, &["DBSIZE"]).unwrap();
        assert_eq!(keys, 1 + n_sets.min(600));
    }
    assert_eq!(cluster.stop(), Some(0));
    let path = data.path().to_str().unwrap();
    let inspected = gregale(&["log", "inspect", path]);
    assert_eq!(inspected.status.code(), Some(0), "{inspected:?}");
}

/// How much is overwritten, in bytes. A day of it, by volume:
/// `OVERWRITE_BYTES=20000000000 cargo test --release -p gregale --test real overwrites`.
fn volume() -> u64 {
    std::env::var("OVERWRITE_BYTES").map_or(150 << 20, |text| text.parse().expect("a number"))
}

/// The bytes of a member's files.
fn size_of(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    entries.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

#[test]
fn space_on_disk_is_bounded_under_overwrites() {
    const MIB: u64 = 1 << 20;
    let data = tempfile::tempdir().unwrap();
    let mut cluster = start(data.path(), &["--snapshot-log-bytes", "2000000"]);
    let leader = cluster.leader();
    let mut client = cluster.connect(leader);
    let directories = [1, 2, 3].map(|id| data.path().join(format!("member-{id}")));
    let value = "x".repeat(16_000);
    // 64 keys: a state of 1 MiB. Of its snapshots two are kept and one is being written; of the
    // log, what a snapshot does not cover yet, what is kept for those that lag (2048 slots of up to
    // 8 KiB), and segments of 16 MiB: one at either end in use in part, the next, and a spare.
    let bound = 3 * 2 * MIB + 2 * 2 * MIB + 16 * MIB + 4 * 16 * MIB;
    let (mut written, mut largest) = (0, [0; 2]);
    while written < volume() {
        let mut pipe = redis::pipe();
        for n in 0..64 {
            pipe.cmd("SET").arg(format!("key{n}")).arg(&value).ignore();
            written += value.len() as u64;
        }
        pipe.query::<()>(&mut client).unwrap();
        let size = directories.iter().map(|directory| size_of(directory)).max().unwrap();
        assert!(size <= bound, "{size} bytes after {written}, where {bound} are the bound");
        let half = &mut largest[usize::from(written > volume() / 2)];
        *half = size.max(*half);
    }
    let [first, second] = largest;
    println!("{written} bytes overwritten; at most {first}, then {second} bytes on a disk");
    assert!(written > second, "what was written was given back");
    assert!(second <= first + 16 * MIB, "it grows: {first}, then {second}");
    assert_eq!(cluster.stop(), Some(0));
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

#[test]
fn a_lost_disk_is_named_and_the_majority_goes_on() {
    let data = tempfile::tempdir().unwrap();
    let mut cluster = start(data.path(), &[]);
    assert_eq!(cluster.cli(1, &["SET", "k", "v"]), "OK");
    assert_eq!(cluster.stop(), Some(0));
    drop(cluster);
    std::fs::remove_dir_all(data.path().join("member-2")).unwrap();
    let cluster = start(data.path(), &[]);
    assert_eq!(cluster.cli(1, &["GET", "k"]), "v");
    assert_eq!(cluster.cli(3, &["SET", "k", "w"]), "OK");
    assert!(!data.path().join("member-2").exists(), "a lost member is not begun anew");
}

/// A file system of its own, which can be too small.
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
    // More than its disk can take; every write is acknowledged.
    let end = Instant::now() + PATIENCE;
    let mut n = 0;
    while lag(&cluster) < 1000 {
        assert!(Instant::now() < end, "the small disk took {n} values");
        for _ in 0..100 {
            n += 1;
            let mut set = redis::cmd("SET");
            let set = set.arg(format!("key{n}")).arg(&value);
            let done: redis::RedisResult<String> = set.query(&mut connection);
            assert_eq!(done.as_deref(), Ok("OK"), "value {n}, {leader_at_first} led at first");
        }
    }
    assert_ne!(cluster.leader(), 3, "who cannot store does not lead");
    small.grow("400m");
    wait_until("the member to catch up", || lag(&cluster) == 0);
    assert_eq!(cluster.cli(3, &["DBSIZE"]), n.to_string());
}
