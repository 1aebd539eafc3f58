//! `disk-all`: a write is acknowledged when it is on the disk of every member.

use crate::support::{Cluster, gregale, signal, until_known, wait_until};
use std::path::Path;

fn start(data: &Path, flags: &[&str]) -> Cluster {
    let path = data.to_str().expect("a plain path");
    Cluster::start_with(&[&["--durability", "disk-all", "--data", path], flags].concat())
}

fn set(connection: &mut redis::Connection, value: &str) -> redis::RedisResult<String> {
    redis::cmd("SET").arg("k").arg(value).query(connection)
}

/// One member, leader or not, stands still: no write is acknowledged, each is reported as unknown,
/// reads continue; when it resumes, so do writes.
fn a_member_that_hangs_blocks_writes_alone(flags: &[&str], does_lead: bool) {
    let data = tempfile::tempdir().unwrap();
    let cluster = start(data.path(), flags);
    let mut other = cluster.connect(1);
    assert_eq!(set(&mut other, "before").as_deref(), Ok("OK"));
    let leader = cluster.leader();
    let hung = if does_lead { leader } else { leader % 3 + 1 };
    let [near, far] = [hung % 3 + 1, (hung + 1) % 3 + 1];
    let pid = cluster.pid_of(hung);
    let mut writers = [near, far].map(|id| cluster.connect(id));
    signal(pid, "STOP");
    for writer in &mut writers {
        let error = set(writer, "during").unwrap_err().to_string();
        assert!(error.to_uppercase().contains("UNKNOWN"), "{error}");
    }
    assert_ne!(cluster.leader_seen_by(near), hung);
    for id in [near, far] {
        let read = cluster.cli(id, &["GET", "k"]);
        assert!(["before", "during"].contains(&read.as_str()), "{read}");
    }
    let info = cluster.cli(near, &["INFO", "gregale"]);
    assert!(info.contains("gregale_durability:disk-all"), "{info}");
    wait_until("both to say who is waited for, and nobody else", || {
        let info = cluster.cli(near, &["INFO", "gregale"]);
        info.contains(&format!("gregale_writes_wait_for:{hung}\r\n"))
            && cluster.status_at(near)["writes_wait_for"] == serde_json::json!([hung])
    });
    signal(pid, "CONT");
    wait_until("a write", || set(&mut writers[0], "after").is_ok());
    assert_eq!(cluster.cli(hung, &["GET", "k"]), "after");
    wait_until("nobody to be waited for", || cluster.status_at(near)["writes_wait_for"].is_null());
}

#[test]
fn a_follower_that_hangs_blocks_writes_alone() {
    a_member_that_hangs_blocks_writes_alone(&[], false);
}

#[test]
fn a_leader_that_hangs_blocks_writes_alone_over_tcp_too() {
    a_member_that_hangs_blocks_writes_alone(&["--fabric", "tcp"], true);
}

#[test]
fn writes_that_wait_for_a_dead_member_go_on_when_it_is_removed() {
    let data = tempfile::tempdir().unwrap();
    let cluster = start(data.path(), &["--no-restart"]);
    let mut writer = cluster.connect(1);
    assert_eq!(set(&mut writer, "before").as_deref(), Ok("OK"));
    let dead = if cluster.leader() == 3 { 2 } else { 3 };
    signal(cluster.pid_of(dead), "KILL");
    assert!(set(&mut writer, "during").is_err());
    let address = format!("127.0.0.1:{}", cluster.port_of(1));
    let removed = gregale(&["member", "remove", &dead.to_string(), "--connect", &address]);
    assert!(removed.status.success(), "{}", String::from_utf8_lossy(&removed.stderr));
    assert_eq!(set(&mut writer, "after").as_deref(), Ok("OK"));
    wait_until("nobody to be waited for", || {
        cluster.cli(1, &["INFO", "gregale"]).contains("gregale_writes_wait_for:\r\n")
            && cluster.status_at(1)["writes_wait_for"].is_null()
    });
}

#[test]
fn each_disk_alone_holds_every_acknowledged_write() {
    let data = tempfile::tempdir().unwrap();
    let mut cluster = start(data.path(), &[]);
    let mut writer = cluster.connect(1);
    for n in 0..200 {
        let mut set = redis::cmd("SET");
        set.arg(format!("k{n}")).arg("v");
        let () = until_known(|| set.query(&mut writer));
    }
    assert_eq!(redis::cmd("WAIT").arg(2).arg(1).query::<i64>(&mut writer), Ok(2));
    let leader = usize::from(cluster.leader());
    let committed = cluster.status_at(1)["members"][leader - 1]["committed"].as_u64().unwrap();
    // No process reports anything to the others now.
    let pids = [1, 2, 3].map(|id| cluster.pid_of(id));
    cluster.kill_all(&pids, || {});
    for member in 1..=3 {
        let end = log_end(&data.path().join(format!("member-{member}")));
        assert!(end >= committed, "member {member} holds {end} of {committed} slots");
    }
    cluster.start_again();
    assert_eq!(cluster.cli(2, &["DBSIZE"]), "200");
}

/// Where the log of a member's directory ends.
fn log_end(directory: &Path) -> u64 {
    let mut inspect = std::process::Command::new(crate::support::GREGALE);
    let shown = inspect.args(["log", "inspect", "--format", "json"]).arg(directory).output();
    let shown = shown.unwrap();
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    let json: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    json["members"][0]["end"].as_u64().unwrap()
}
