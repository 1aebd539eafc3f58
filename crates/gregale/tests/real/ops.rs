//! Operators' tasks: look at directories and disks, take backups and restore them.

use crate::support::{Cluster, GREGALE, gregale, refused, until_known, wait_until};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn durable(data: &Path) -> Cluster {
    Cluster::start_with(&["--durability", "disk-quorum", "--data", data.to_str().unwrap()])
}

fn in_memory(flags: &[&str]) -> Cluster {
    Cluster::start_with(&[&["--durability", "memory-quorum"], flags].concat())
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {output:?}");
    })
}

fn set(cluster: &Cluster, key: &str, value: &str) {
    let answer: String =
        redis::cmd("SET").arg(key).arg(value).query(&mut cluster.connect(1)).unwrap();
    assert_eq!(answer, "OK");
}

/// Flips a bit of the first `needle` in a file.
fn flip(path: &Path, needle: &[u8]) {
    let mut bytes = std::fs::read(path).unwrap();
    let at = bytes.windows(needle.len()).position(|part| part == needle).unwrap();
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_directory_is_inspected_and_damage_is_named() {
    let base = tempfile::tempdir().unwrap();
    let nothing = base.path().join("nothing");
    let inspect = |path: &Path| gregale(&["log", "inspect", path.to_str().unwrap()]);
    assert!(refused(&inspect(&nothing)).contains("nothing"));
    std::fs::create_dir(&nothing).unwrap();
    let text = refused(&inspect(&nothing));
    assert!(text.contains("no data directory") && text.contains("--data DIR"), "{text}");

    let data = base.path().join("data");
    let mut cluster = durable(&data);
    let mut connection = cluster.connect(1);
    for n in 0..200 {
        let _: () =
            redis::cmd("SET").arg(format!("needle-{n}-")).arg(n).query(&mut connection).unwrap();
    }
    drop(connection);
    let live = gregale(&["log", "inspect", data.to_str().unwrap()]);
    assert_eq!(live.status.code(), Some(0), "{live:?}");
    assert_eq!(cluster.stop(), Some(0));

    let whole = gregale(&["log", "inspect", data.to_str().unwrap(), "--format", "json"]);
    assert_eq!(whole.status.code(), Some(0), "{whole:?}");
    let report = json(&whole);
    assert_eq!(report["damaged"], serde_json::json!([]));
    let members = report["members"].as_array().unwrap();
    assert_eq!(members.len(), 3);
    for (at, member) in members.iter().enumerate() {
        assert_eq!(member["node"], at + 1);
        assert!(member["end"].as_u64().unwrap() >= 100, "{member}");
        assert_ne!(member["ending"], "damaged");
    }
    let one = data.join("member-2");
    let text = inspect(&one).stdout;
    assert!(String::from_utf8_lossy(&text).contains("node 2 incarnation"));
    let before = std::fs::read(one.join("log-00000000")).unwrap();

    flip(&one.join("log-00000000"), b"needle-20-");
    let damaged = gregale(&["log", "inspect", data.to_str().unwrap(), "--format", "json"]);
    assert_eq!(damaged.status.code(), Some(1), "{damaged:?}");
    let report = json(&damaged);
    let lines = report["damaged"].as_array().unwrap();
    assert_eq!(lines.len(), 1, "{report}");
    let line = lines[0].as_str().unwrap();
    assert!(line.contains("member-2/log-00000000 is damaged at byte"), "{line}");
    assert_eq!(report["members"][1]["ending"], "damaged");
    let after = std::fs::read(one.join("log-00000000")).unwrap();
    assert_eq!(after.len(), before.len(), "it only reads");
}

#[test]
fn the_disk_is_in_status_info_and_metrics() {
    let base = tempfile::tempdir().unwrap();
    let cluster = durable(&base.path().join("data"));
    set(&cluster, "k", &"v".repeat(1000));
    let mut status = serde_json::Value::Null;
    wait_until("every member's disk to show the write", || {
        status = cluster.status_at(2);
        status["members"].as_array().unwrap().iter().all(|member| {
            // (A disk that is slow for a moment is reported as such.)
            member["disk"]["logged_bytes"].as_u64().is_some_and(|bytes| bytes >= 1000)
                && member["disk"]["trouble"].is_null()
        })
    });
    let disk = &status["members"][2]["disk"];
    let place = base.path().canonicalize().unwrap().join("data/member-3");
    assert_eq!(disk["directory"], place.to_str().unwrap());
    assert!(disk["log_end"].as_u64().unwrap() > disk["log_start"].as_u64().unwrap());
    assert_eq!(disk["snapshots"].as_u64(), Some(0));
    let address = format!("127.0.0.1:{}", cluster.port_of(1));
    wait_until("the third disk in the table", || {
        let table = gregale(&["status", "--connect", &address]).stdout;
        let table = String::from_utf8(table).unwrap();
        table.contains(&format!("disk 3  {}: slots", place.display()))
    });
    let info = cluster.cli(3, &["INFO", "gregale"]);
    assert!(info.contains(&format!("gregale_disk:{}", place.display())), "{info}");
    assert!(info.contains("gregale_disk_trouble:"), "{info}");

    let text = std::fs::read_to_string(cluster.directory().join("member-1.toml")).unwrap();
    let config: toml::Value = toml::from_str(&text).unwrap();
    let control = config["members"][0]["control"].as_str().unwrap();
    wait_until("the metrics to show the disk", || {
        let mut stream = TcpStream::connect(control).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut metrics = String::new();
        stream.read_to_string(&mut metrics).unwrap();
        for name in ["gregale_log_end ", "gregale_logged_bytes ", "gregale_disk_trouble "] {
            assert!(metrics.contains(&format!("\n{name}")), "{name} is not in {metrics}");
        }
        metrics.contains("\ngregale_disk_trouble 0")
    });
}

#[test]
fn no_disk_is_shown_where_there_is_none() {
    let cluster = in_memory(&["--nodes", "1"]);
    set(&cluster, "k", "v");
    assert!(cluster.status_at(1)["members"][0].get("disk").is_none());
    assert!(!cluster.cli(1, &["INFO", "gregale"]).contains("gregale_disk"));
}

fn take(cluster: &Cluster, member: u16, file: &Path) -> Output {
    let address = format!("127.0.0.1:{}", cluster.port_of(member));
    let file = file.to_str().unwrap();
    gregale(&["backup", file, "--connect", &address, "--format", "json"])
}

fn restore(cluster: &Cluster, member: u16, file: &Path, flags: &[&str]) -> Output {
    let address = format!("127.0.0.1:{}", cluster.port_of(member));
    let words = ["restore", file.to_str().unwrap(), "--connect", &address, "--format", "json"];
    gregale(&[&words[..], flags].concat())
}

/// Every transaction gives both counters one value: a backup in which they differ does not show one
/// point.
#[test]
fn a_backup_under_load_is_one_point_and_restores() {
    let base = tempfile::tempdir().unwrap();
    let source = durable(&base.path().join("data"));
    let mut connection = source.connect(1);
    for n in 0..3000 {
        let mut set = redis::cmd("SET");
        set.arg(format!("key:{n}")).arg("x".repeat(n % 500));
        let () = until_known(|| set.query(&mut connection));
    }
    let far: u64 = 4_000_000_000_000;
    let _: () = redis::cmd("SET")
        .arg(&["far", "v", "PXAT", &far.to_string()])
        .query(&mut connection)
        .unwrap();
    let _: () =
        redis::cmd("SET").arg(&["bin\0ary\r\n", "\u{1}\0\r\n"]).query(&mut connection).unwrap();
    drop(connection);

    let stop = Arc::new(AtomicBool::new(false));
    let n_written = Arc::new(AtomicU64::new(0));
    let mut writer = source.connect(2);
    let writing = std::thread::spawn({
        let (stop, n_written) = (Arc::clone(&stop), Arc::clone(&n_written));
        move || {
            while !stop.load(Ordering::Relaxed) {
                let n = n_written.load(Ordering::Relaxed) + 1;
                let mut both = redis::pipe();
                both.atomic().set("left", n).set("right", n);
                let () = until_known(|| both.query(&mut writer));
                n_written.store(n, Ordering::Relaxed);
            }
        }
    });
    let mut floors = Vec::new();
    for member in 1..=3 {
        let before = n_written.load(Ordering::Relaxed);
        wait_until("writes", || n_written.load(Ordering::Relaxed) > before);
        let floor = n_written.load(Ordering::Relaxed);
        let file = base.path().join(format!("{member}.backup"));
        let taken = take(&source, member, &file);
        assert!(taken.status.success(), "{taken:?}");
        assert_eq!(json(&taken)["keys"], 3004);
        assert!(refused(&take(&source, member, &file)).contains("is there already"));
        floors.push((file, floor, n_written.load(Ordering::Relaxed)));
    }
    stop.store(true, Ordering::Relaxed);
    writing.join().unwrap();

    let target = in_memory(&[]);
    for (file, floor, ceiling) in &floors {
        let verified = gregale(&["backup", "verify", file.to_str().unwrap(), "--format", "json"]);
        assert!(verified.status.success(), "{verified:?}");
        assert_eq!(json(&verified)["keys"], 3004);
        let is_first = file == &floors[0].0;
        if !is_first {
            let text = refused(&restore(&target, 2, file, &[]));
            assert!(text.contains("holds 3004 keys") && text.contains("--force"), "{text}");
        }
        let flags: &[&str] = if is_first { &[] } else { &["--force"] };
        let restored = restore(&target, 2, file, flags);
        assert!(restored.status.success(), "{restored:?}");
        let report = json(&restored);
        assert_eq!((&report["written"], &report["keys"]), (&3004.into(), &3004.into()));
        let mut reader = target.connect(3);
        let (left, right): (u64, u64) =
            redis::cmd("MGET").arg(&["left", "right"]).query(&mut reader).unwrap();
        assert_eq!(left, right, "one point");
        // One more may have been written and not counted yet.
        assert!((*floor..=*ceiling + 1).contains(&left), "{floor} <= {left} <= {ceiling} + 1");
        for n in [0, 1, 499, 2999] {
            let value: String =
                redis::cmd("GET").arg(format!("key:{n}")).query(&mut reader).unwrap();
            assert_eq!(value.len(), n % 500);
        }
        let at: u64 = redis::cmd("PEXPIRETIME").arg("far").query(&mut reader).unwrap();
        assert_eq!(at, far);
        let value: Vec<u8> = redis::cmd("GET").arg("bin\0ary\r\n").query(&mut reader).unwrap();
        assert_eq!(value, b"\x01\0\r\n");
    }
    // The reverse: a cluster in memory can be backed up as well.
    let taken = take(&target, 3, &base.path().join("again.backup"));
    assert!(taken.status.success(), "{taken:?}");
    assert_eq!(json(&taken)["keys"], 3004);
}

#[test]
fn what_is_no_whole_backup_is_refused_and_writes_nothing() {
    let base = tempfile::tempdir().unwrap();
    let cluster = in_memory(&["--requirepass", "sesame", "--nodes", "1"]);
    let file = base.path().join("one.backup");
    let address = format!("127.0.0.1:{}", cluster.port_of(1));
    let path = file.to_str().unwrap();
    let text = refused(&gregale(&["backup", path, "--connect", &address]));
    assert!(text.contains("NOAUTH") && text.contains("--password"), "{text}");
    let mut connection = cluster.connect(1);
    let _: () = redis::cmd("SET").arg(&["a-key", "a-value"]).query(&mut connection).unwrap();
    let taken = Command::new(GREGALE)
        .args(["backup", path, "--connect", &address])
        .env("GREGALE_REQUIREPASS", "sesame")
        .output()
        .unwrap();
    assert!(taken.status.success(), "{taken:?}");
    assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 1, "nothing is left beside it");
    let _: () = redis::cmd("FLUSHALL").query(&mut connection).unwrap_or_else(|_| {
        let _: u64 = redis::cmd("DEL").arg("a-key").query(&mut connection).unwrap();
    });

    let whole = std::fs::read(&file).unwrap();
    let refuse = |bytes: &[u8]| {
        let broken = base.path().join("broken.backup");
        std::fs::write(&broken, bytes).unwrap();
        let broken = broken.to_str().unwrap();
        let verified = refused(&gregale(&["backup", "verify", broken]));
        let words = ["restore", broken, "--connect", &address, "--password", "sesame"];
        assert_eq!(refused(&gregale(&words)), verified);
        assert!(verified.contains("broken.backup: "), "{verified}");
        verified
    };
    let half = whole.len() / 2;
    assert!(refuse(&whole[..half]).contains(&format!("cut off at byte {half}")));
    let mut flipped = whole.clone();
    flipped[half] ^= 8;
    assert!(refuse(&flipped).contains("damaged in the frame that begins at byte"));
    let end = whole.len();
    let longer = [&whole[..], b"x"].concat();
    assert!(refuse(&longer).contains(&format!("ends at byte {end}")));
    assert!(refuse(b"SELECT * FROM").contains("no backup"));
    let n: u64 = redis::cmd("DBSIZE").query(&mut connection).unwrap();
    assert_eq!(n, 0, "nothing was written");

    let restored = gregale(&["restore", path, "--connect", &address, "--password", "sesame"]);
    assert!(restored.status.success(), "{restored:?}");
    let value: String = redis::cmd("GET").arg("a-key").query(&mut connection).unwrap();
    assert_eq!(value, "a-value");
}
