//! A majority of the disks is lost: an operator continues with the remaining disk.

use crate::support::{
    Cluster, GREGALE, gregale, refused, role, signal, start_on_disk as start, wait_until,
};
use std::path::Path;
use std::process::Output;

fn recover(data: &Path, words: &[&str]) -> Output {
    gregale(&[&["recover", data.to_str().unwrap()], words].concat())
}

const YES: [&str; 2] = ["--yes-i-may-lose", "acknowledged writes"];

fn lose(data: &Path, id: u16) {
    std::fs::remove_dir_all(data.join(format!("member-{id}"))).unwrap();
}

fn votes(cluster: &Cluster, at: u16) -> usize {
    let status = cluster.status_at(at);
    let members = status["members"].as_array().unwrap();
    members.iter().filter(|member| member["membership"] == "voter").count()
}

/// What it shows of a file system that cannot be written, if this user may mount one.
fn recover_read_only(data: &Path) -> Option<Output> {
    let place = data.to_str().unwrap();
    let mount = format!("mount --bind {place} {place} && mount -o remount,bind,ro {place}");
    let unshare = |script: &str| {
        let words = ["--mount", "bash", "-c", script];
        std::process::Command::new("unshare").args(words).output().ok()
    };
    unshare(&mount).filter(|output| output.status.success())?;
    unshare(&format!("{mount} && exec {GREGALE} recover {place}"))
}

#[test]
fn what_is_left_of_a_lost_majority_goes_on_and_the_others_come_back() {
    let data = tempfile::tempdir().unwrap();
    let mut cluster = start(data.path(), &["--snapshot-log-bytes", "20000"]);
    let value = "x".repeat(1000);
    for n in 0..100 {
        assert_eq!(cluster.cli(1, &["SET", &format!("k{n}"), &value]), "OK");
    }
    wait_until("all to have it", || {
        (1..=3).all(|id| cluster.status_at(1)["members"][id - 1]["applied"].as_u64() > Some(100))
    });
    let used = refused(&recover(data.path(), &YES));
    assert!(used.contains("in use by another process"), "{used}");
    assert_eq!(cluster.stop(), Some(0));
    drop(cluster);

    lose(data.path(), 1);
    let whole = refused(&recover(data.path(), &YES));
    assert!(whole.contains("a majority is left (2 of 3 voters)"), "{whole}");
    lose(data.path(), 3);
    let silent = recover(data.path(), &[]);
    let shown = String::from_utf8(silent.stdout.clone()).unwrap();
    assert!(shown.contains("MAY BE LOST") && shown.contains("members 1, 3"), "{shown}");
    if let Some(frozen) = recover_read_only(data.path()) {
        assert_eq!(String::from_utf8(frozen.stdout).unwrap(), shown);
    }
    let line = refused(&silent);
    assert!(line.contains("nothing was changed") && line.contains("--yes-i-may-lose"), "{line}");
    let wrong = refused(&recover(data.path(), &["--yes-i-may-lose", "nothing"]));
    assert!(wrong.contains("nothing was changed"), "{wrong}");
    let old_secret = std::fs::read(data.path().join("secret")).unwrap();

    let done = recover(data.path(), &YES);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_ne!(std::fs::read(data.path().join("secret")).unwrap(), old_secret);
    let mut cluster = start(data.path(), &[]);
    assert_eq!(cluster.cli(2, &["DBSIZE"]), "100");
    wait_until("three voters", || votes(&cluster, 2) == 3);
    assert_eq!(cluster.cli(3, &["GET", "k99"]), value);
    assert_eq!(cluster.cli(1, &["SET", "k", "v"]), "OK");
    assert_eq!(cluster.stop(), Some(0));
    drop(cluster);

    // A directory that was put aside belongs to another cluster: back in its place it takes part in
    // nothing.
    let [own, aside, kept] =
        ["member-2", "member-2.old-1", "kept"].map(|name| data.path().join(name));
    std::fs::rename(&own, &kept).unwrap();
    std::fs::rename(&aside, &own).unwrap();
    let cluster = start(data.path(), &[]);
    assert_eq!(role(&cluster.status_at(1), 2), "down");
    assert_eq!(cluster.cli(1, &["GET", "k"]), "v");
    assert_eq!(cluster.cli(3, &["SET", "k", "w"]), "OK", "a majority of the new cluster is up");
}

#[test]
fn a_disk_that_holds_less_is_refused_while_a_better_one_is_left() {
    let data = tempfile::tempdir().unwrap();
    let mut cluster = start(data.path(), &["--nodes", "5", "--no-restart"]);
    assert_eq!(cluster.cli(1, &["SET", "k", "old"]), "OK");
    let leader = cluster.leader();
    let lags = leader % 5 + 1;
    signal(cluster.pid_of(lags), "KILL");
    cluster.wait_for_role(leader, lags, &["down"]);
    assert_eq!(cluster.cli(leader, &["SET", "k", "new"]), "OK");
    // The leader has it by now.
    let holder = cluster.leader_seen_by(leader);
    let others: Vec<u16> = (1..=5).filter(|id| *id != lags && *id != holder).collect();
    assert_eq!(cluster.stop(), Some(0));
    drop(cluster);
    others.iter().for_each(|id| lose(data.path(), *id));
    let member = lags.to_string();
    let line = refused(&recover(data.path(), &[&["--member", &member][..], &YES].concat()));
    assert!(line.contains(&format!("member {holder} holds more than member {lags}")), "{line}");
    // A disk that cannot be read may hold more than any.
    let identity = data.path().join(format!("member-{holder}/identity"));
    let whole = std::fs::read(&identity).unwrap();
    std::fs::write(&identity, b"garbage").unwrap();
    let line = refused(&recover(data.path(), &YES));
    assert!(line.contains(&format!("say --without {holder}")), "{line}");
    std::fs::write(&identity, whole).unwrap();

    let done = recover(data.path(), &YES);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let cluster = start(data.path(), &["--nodes", "5"]);
    assert_eq!(cluster.cli(lags, &["GET", "k"]), "new");
    wait_until("five voters", || votes(&cluster, holder) == 5);
}
