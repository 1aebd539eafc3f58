//! Copies that are saved by their files: programs of other kinds than databases, and deaths in the
//! middle of a copy. (The databases are in `mariadb` and `postgres`, by what is here.)

use crate::bank::{CHECKPOINTS_WITHIN, began_at};
use crate::copies::{digests, pid_of, program};
use crate::seats::{seat, votes_above};
use crate::support::{Cluster, Ends, PATIENCE, signal, wait_until, wait_within};
use crate::unmodified::{Client, agreed, jobs};
use redis::Commands;
use std::collections::BTreeMap;
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The flags of a cluster on disk whose copies are saved often, by their files.
pub(crate) fn flags(data: &Path) -> [&str; 12] {
    let path = data.to_str().expect("a plain path");
    [
        "--durability",
        "disk-quorum",
        "--data",
        path,
        "--snapshot-log-bytes",
        "100kb",
        "--program-save",
        "files",
        "--program-checkpoint",
        "300",
        "--program-close",
        "1",
    ]
}

/// Kills a member, and takes its data away. Its supervisor begins a new incarnation of it.
pub(crate) fn lose(cluster: &Cluster, id: u16, data: &Path) {
    let at = id % 3 + 1;
    let (_, before) = seat(cluster, at, id);
    let pid = pid_of(cluster, at, id);
    signal(pid, "STOP"); // it must not write into what is being removed
    std::fs::remove_dir_all(data.join(format!("member-{id}"))).unwrap();
    signal(pid, "KILL");
    votes_above(cluster, at, id, before);
}

/// Redis with its log of writes, which has each write before that is answered.
const REDIS: &str = "redis-server --port 0 --unixsocket {socket} --dir {dir} --save '' \
    --appendonly yes --appendfsync no --timeout 0 --enable-debug-command yes";

/// The bytes of a file that makes copies of a directory take long. They are all zero, so that the
/// log is spared them.
const BALLAST: usize = 400 << 20;

/// The copy of the ballast that is made below `data` now, and the member that makes it.
fn half_saved(data: &Path) -> Option<(u16, PathBuf)> {
    (1..=3).find_map(|id| {
        let runs = std::fs::read_dir(data.join(format!("copy-{id}"))).ok()?.flatten();
        let saved = runs.filter_map(|run| std::fs::read_dir(run.path()).ok()).flatten().flatten();
        let is_saved = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("saved-"))
        };
        let place = saved.map(|entry| entry.path()).find(is_saved)?.join("ballast");
        let n_bytes = std::fs::metadata(&place).ok()?.blocks() * 512;
        (n_bytes > 0 && n_bytes < BALLAST as u64).then_some((id, place))
    })
}

/// A client that increments a key of its own, on another connection when it has lost one. An
/// increment of unknown end was executed, or not.
fn increments(port: u16, key: &str, is_over: &AtomicBool) -> u64 {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
    let (mut acknowledged, mut unknown) = (0, 0);
    let mut connection = None;
    while !is_over.load(Ordering::Relaxed) {
        if connection.is_none() {
            connection = client.get_connection_with_timeout(PATIENCE).ok();
        }
        let Some(open) = &mut connection else { continue };
        match open.incr::<_, _, u64>(key, 1) {
            Ok(now) => {
                assert!(
                    (acknowledged + 1..=acknowledged + 1 + unknown).contains(&now),
                    "{now} behind {acknowledged} and {unknown} of unknown end"
                );
                (acknowledged, unknown) = (now, 0);
            }
            Err(_) => {
                unknown += 1;
                connection = None;
            }
        }
    }
    acknowledged
}

/// A member is killed while it copies its directory: nothing of that copy counts, and the next
/// checkpoints do.
#[test]
fn a_member_that_dies_in_the_middle_of_a_copy_leaves_nothing_half_done() {
    let base = tempfile::tempdir_in("/dev/shm").unwrap();
    let (genesis, data) = (base.path().join("genesis"), base.path().join("log"));
    std::fs::create_dir(&genesis).unwrap();
    std::fs::write(genesis.join("ballast"), vec![0; BALLAST]).unwrap();
    let of_program = ["--replicate", REDIS, "--genesis", genesis.to_str().unwrap()];
    let every = ["--program-compare", "100"];
    let mut cluster = Cluster::start_with(&[&flags(&data)[..], &of_program, &every].concat());
    let is_over = AtomicBool::new(false);
    let n_checkpoints = || program(&cluster, 1, 1)["checkpoints"].as_u64().unwrap_or(0);
    let acknowledged = std::thread::scope(|scope| {
        let ends = Ends(&is_over);
        let (cluster, is_over, port) = (&cluster, &is_over, cluster.port_of(1));
        let clients: Vec<_> = (0..4)
            .map(|n| scope.spawn(move || increments(port, &format!("n{n}"), is_over)))
            .collect();
        let end = Instant::now() + Duration::from_secs(120);
        let victim = loop {
            assert!(Instant::now() < end, "no copy was seen");
            // (Member 1 is that of the clients.)
            let Some((id, _)) = half_saved(&data).filter(|(id, _)| *id != 1) else { continue };
            let pid = pid_of(cluster, 1, id);
            signal(pid, "STOP");
            if half_saved(&data).is_some_and(|(still, _)| still == id) {
                signal(pid, "KILL");
                break id;
            }
            signal(pid, "CONT"); // it was quicker
        };
        let before = n_checkpoints();
        wait_within(Duration::from_secs(120), "two more checkpoints", || {
            n_checkpoints() >= before + 2
        });
        wait_within(Duration::from_secs(120), "the member to be back", || {
            let of = program(cluster, 1, victim);
            of["executed"].as_u64() > Some(0) && of["checkpoints"].as_u64() >= Some(before + 1)
        });
        drop(ends);
        clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>()
    });
    for (n, least) in acknowledged.into_iter().enumerate() {
        let there: u64 = cluster.connect(2).get(format!("n{n}")).unwrap();
        assert!(there >= least, "n{n} is {there}, and {least} was acknowledged");
    }
    wait_until("the copies to be equal", || digests(&cluster).len() == 1);
    for id in 1..=3 {
        let of = program(&cluster, id, id);
        assert_eq!((&of["verdicts"]["differed"], &of["verdicts"]["split"]), (&0.into(), &0.into()));
    }
    assert_eq!(cluster.stop(), Some(0));
}

/// A put of a job, on another connection when it has lost one. Returns the job's number, if that
/// was said.
fn put(client: &mut Option<Client<TcpStream>>, port: u16, body: &str) -> Option<u64> {
    let open = client.get_or_insert_with(|| Client::at(port));
    let said = open
        .try_say(&format!("put 0 0 3600 {}\r\n{body}\r\n", body.len()))
        .and_then(|()| open.try_line())
        .unwrap_or_default();
    let number = said.strip_prefix("INSERTED ").and_then(|id| id.trim_end().parse().ok());
    if number.is_none() {
        *client = None;
    }
    number
}

#[test]
fn beanstalkd_begins_with_its_files() {
    let data = tempfile::tempdir_in("/dev/shm").unwrap();
    let of_program = ["--replicate", "beanstalkd -l unix:{socket} -b {dir}"];
    let every = ["--program-compare", "50"];
    let all = [&flags(data.path())[..], &of_program, &every].concat();
    let mut cluster = Cluster::start_with(&all);
    let mut jobs_put = BTreeMap::new();
    let (mut client, mut n) = (None, 0);
    wait_within(CHECKPOINTS_WITHIN, "two checkpoints", || {
        for _ in 0..50 {
            n += 1;
            let body = format!("job {n}");
            if let Some(id) = put(&mut client, cluster.port_of(n % 3 + 1), &body) {
                assert_eq!(jobs_put.insert(id, body), None, "{id} is new");
            }
        }
        program(&cluster, 1, 1)["checkpoints"].as_u64() >= Some(2)
    });
    let pids: Vec<u32> = (1..=3).map(|id| pid_of(&cluster, 1, id)).collect();
    cluster.kill_all(&pids, || {});
    cluster.start_again();
    wait_until("a member that takes a job", || {
        put(&mut None, cluster.port_of(2), "last").is_some_and(|id| {
            jobs_put.insert(id, "last".to_owned());
            true
        })
    });
    for id in 1..=3 {
        let began_at = began_at(&cluster, id);
        assert!(began_at > 0, "member {id} has executed everything");
    }
    let n_max = *jobs_put.keys().next_back().unwrap();
    let there = agreed(&cluster, |at| jobs(at, n_max));
    for (id, body) in &jobs_put {
        assert_eq!(there.get(id), Some(body), "job {id}");
    }
    let of = program(&cluster, 1, 1);
    assert_eq!((&of["verdicts"]["differed"], &of["verdicts"]["split"]), (&0.into(), &0.into()));
    assert_eq!(cluster.stop(), Some(0));
}

/// The flags of a cluster in memory whose copies are saved often, by SAVE.
const BY_SAVE: [&str; 6] =
    ["--durability", "memory-quorum", "--program-compare", "10", "--program-checkpoint", "50"];

/// The value of the key at member `id`, if it serves.
fn precious(cluster: &Cluster, id: u16) -> Option<Option<String>> {
    let client = redis::Client::open(format!("redis://127.0.0.1:{}", cluster.port_of(id))).unwrap();
    client.get_connection_with_timeout(Duration::from_secs(1)).ok()?.get("precious").ok()
}

fn is_precious(value: &str) -> Option<Option<String>> {
    Some(Some(value.to_owned()))
}

/// A client has given the file of a checkpoint another name, and a program that begins reads the
/// one of its command: the copy would be empty.
#[test]
fn a_copy_of_redis_that_reads_another_file_than_its_checkpoint_serves_no_client() {
    let command = format!("{} --enable-protected-configs yes", crate::copies::REDIS);
    let mut cluster = Cluster::start_with(&[&BY_SAVE[..], &["--replicate", &command]].concat());
    assert_eq!(cluster.cli(1, &["CONFIG", "SET", "dbfilename", "other.rdb"]), "OK");
    let mut connection = cluster.connect(1);
    let () = connection.set("precious", "kept").unwrap();
    wait_within(CHECKPOINTS_WITHIN, "a checkpoint", || {
        (0..20).for_each(|n| connection.set::<_, _, ()>("n", n).unwrap());
        program(&cluster, 1, 1)["checkpoints"].as_u64() >= Some(1)
    });
    signal(pid_of(&cluster, 1, 2), "KILL");
    let said = cluster.wait_for_one(&["say --dbfilename other.rdb", "member 2 serves again"]);
    assert!(said.contains("other.rdb"), "{said}");
    for id in [1, 3] {
        assert_eq!(precious(&cluster, id), is_precious("kept"));
    }
    assert_eq!(cluster.stop(), Some(0));
}

/// Settings in a file say that the program has a log of its own, with which it would begin.
#[test]
fn redis_that_logs_its_writes_is_not_saved_by_save() {
    let genesis = tempfile::tempdir_in("/dev/shm").unwrap();
    std::fs::write(genesis.path().join("redis.conf"), "appendonly yes\n").unwrap();
    let command = "redis-server {dir}/redis.conf --port 0 --unixsocket {socket} --dir {dir} --save '' \
                   --timeout 0";
    let of_program = ["--replicate", command, "--genesis", genesis.path().to_str().unwrap()];
    let mut cluster = Cluster::start_with(&[&BY_SAVE[..], &of_program].concat());
    let mut connection = cluster.connect(1);
    let () = connection.set("precious", "kept").unwrap();
    wait_within(CHECKPOINTS_WITHIN, "a word of each member's about that", || {
        (0..20).for_each(|n| connection.set::<_, _, ()>("n", n).unwrap());
        let says = |id| program(&cluster, id, id)["trouble"].to_string().contains("appendonly");
        (1..=3).all(says)
    });
    assert_eq!(program(&cluster, 1, 1)["checkpoints"], 0);
    signal(pid_of(&cluster, 1, 2), "KILL");
    cluster.wait_for("member 2 serves again");
    wait_until("the copy that begins again to be level", || {
        let there = precious(&cluster, 2);
        assert!(there.is_none() || there == is_precious("kept"), "{there:?}");
        there.is_some()
    });
    assert_eq!(cluster.stop(), Some(0));
}
