//! Registers, each kept by itself: what `gregale up --protocol abd` answers, and what a death
//! interrupts.

use crate::support::{Cluster, gregale, role, signal, wait_until};
use redis::Commands;

const ABD: [&str; 2] = ["--protocol", "abd"];

over_both_fabrics! {
    every_member_reads_and_writes
    a_death_interrupts_nobody_else_and_who_returns_has_everything
    a_member_whose_region_is_gone_comes_back
    a_state_that_too_few_have_is_said_to_be_lost
    pipelines_keep_their_order
}

fn with<'a>(flags: &[&'a str]) -> Vec<&'a str> {
    [flags, &ABD[..]].concat()
}

fn every_member_reads_and_writes(flags: &[&str]) {
    let mut cluster = Cluster::start_with(&with(flags));
    for id in 1..=3u16 {
        let value = format!("of {id}");
        assert_eq!(cluster.cli(id, &["SET", "k", &value]), "OK");
        for other in 1..=3u16 {
            assert_eq!(cluster.cli(other, &["GET", "k"]), value);
            assert_eq!(cluster.cli(other, &["STRLEN", "k"]), "4");
            assert_eq!(cluster.cli(other, &["GETRANGE", "k", "0", "1"]), "of");
        }
    }
    assert_eq!(cluster.cli(1, &["EXISTS", "k", "none", "k"]), "2");
    assert_eq!(cluster.cli(2, &["MGET", "k", "none"]), "of 3");
    assert_eq!(cluster.cli(3, &["DEL", "k", "none"]), "1");
    assert_eq!(cluster.cli(1, &["GET", "k"]), "");
    assert_eq!(cluster.cli(1, &["WAIT", "1", "100"]), "1");
    for (words, text) in [
        (&["MSET", "a", "1", "b", "2"][..], "CROSSSLOT"),
        (&["SET", "a", "1", "NX"][..], "ERR abd cannot decide"),
        (&["APPEND", "a", "1"][..], "ERR abd cannot decide"),
        (&["SET", "a", "1", "EX", "5"][..], "ERR abd has no expiry"),
        (&["EVAL", "return 1", "0"][..], "ERR abd has no scripts"),
        (&["WATCH", "a"][..], "ERR abd has no transactions"),
        (&["GREGALE.SESSION"][..], "ERR abd has no client sessions"),
        (&["KEYS", "*"][..], "ERR abd keeps each key by itself"),
    ] {
        let answer = cluster.cli(2, words);
        assert!(answer.starts_with(text) && answer.contains("velos"), "{words:?}: {answer}");
    }
    let mut connection = cluster.connect(1);
    let mut ask = |words: &[&str]| {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query::<redis::Value>(&mut connection).map_err(|error| error.to_string())
    };
    assert!(ask(&["MULTI"]).is_ok() && ask(&["SET", "a", "1"]).is_ok());
    let refused = ask(&["EXEC"]).unwrap_err();
    assert!(refused.contains("abd has no transactions"), "{refused}");
    assert_eq!(cluster.cli(1, &["GET", "a"]), "", "nothing of what was refused was done");
    let info = cluster.cli(1, &["INFO", "gregale"]);
    assert!(info.contains("gregale_protocol:abd") && info.contains("gregale_registers:"), "{info}");
    assert_eq!(cluster.stop(), Some(0));
}

fn a_death_interrupts_nobody_else_and_who_returns_has_everything(flags: &[&str]) {
    let mut cluster = Cluster::start_with(&with(flags));
    let mut n = 0u32;
    for victim in [1u16, 2, 3, 1] {
        let (other, third) = (victim % 3 + 1, (victim + 1) % 3 + 1);
        let mut connection = cluster.connect(other);
        let pid = cluster.pid_of(victim);
        signal(pid, "STOP");
        for _ in 0..200 {
            n += 1;
            let _: () = connection.set(format!("k{}", n % 50), n).unwrap();
        }
        signal(pid, "KILL");
        for _ in 0..200 {
            n += 1;
            let _: () = connection.set(format!("k{}", n % 50), n).unwrap();
        }
        wait_until("the killed member to count again", || {
            let status = cluster.status_at(other);
            let now = status["members"][usize::from(victim) - 1]["pid"].as_u64();
            now.is_some_and(|now| now != u64::from(pid)) && role(&status, victim) == "leader"
        });
        let info = cluster.cli(victim, &["INFO", "gregale"]);
        assert!(info.contains("gregale_merges:1"), "{info}");
        // Its state is good for a majority with the one that was not written to.
        let paused = cluster.pid_of(other);
        signal(paused, "STOP");
        let mut returned = cluster.connect(victim);
        for at in n - 49..=n {
            let read: u32 = returned.get(format!("k{}", at % 50)).unwrap();
            assert_eq!(read, at);
            let read: u32 = cluster.connect(third).get(format!("k{}", at % 50)).unwrap();
            assert_eq!(read, at);
        }
        signal(paused, "CONT");
    }
    assert_eq!(cluster.stop(), Some(0));
}

/// A process keeps nothing in its region, so no operator is needed for a new one.
fn a_member_whose_region_is_gone_comes_back(flags: &[&str]) {
    let mut cluster = Cluster::start_with(&with(flags));
    for victim in 1..=3u16 {
        let value = format!("before {victim} died");
        assert_eq!(cluster.cli(victim, &["SET", "k", &value]), "OK");
        let (other, pid) = (victim % 3 + 1, cluster.pid_of(victim));
        std::fs::remove_file(cluster.directory().join(format!("node-{victim}.region"))).unwrap();
        signal(pid, "KILL");
        wait_until("the killed member to count again", || {
            let status = cluster.status_at(other);
            let now = status["members"][usize::from(victim) - 1]["pid"].as_u64();
            now.is_some_and(|now| now != u64::from(pid)) && role(&status, victim) == "leader"
        });
        let paused = cluster.pid_of(other);
        signal(paused, "STOP");
        assert_eq!(cluster.cli(victim, &["GET", "k"]), value);
        signal(paused, "CONT");
    }
    assert_eq!(cluster.stop(), Some(0));
}

/// Two of three die at once: the third alone is no majority, and no member begins empty.
fn a_state_that_too_few_have_is_said_to_be_lost(flags: &[&str]) {
    let mut cluster = Cluster::start_with(&with(flags));
    assert_eq!(cluster.cli(1, &["SET", "k", "v"]), "OK");
    let pids = [cluster.pid_of(2), cluster.pid_of(3)];
    for name in ["STOP", "KILL"] {
        pids.iter().for_each(|pid| signal(*pid, name));
    }
    for id in 1..=3u16 {
        wait_until("the loss to be said", || {
            cluster.cli(id, &["GET", "k"]).starts_with("ERR data lost")
        });
    }
    let output = gregale(&["status", "--connect", &format!("127.0.0.1:{}", cluster.port_of(1))]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("DATA LOST  seen by member 1, 2, 3: "), "{text}");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(cluster.status_at(1)["members"][0]["data_lost"], true);
    assert_eq!(cluster.stop(), Some(0));
}

/// Commands about one key are done one after the other, however they come.
fn pipelines_keep_their_order(flags: &[&str]) {
    let mut cluster = Cluster::start_with(&with(flags));
    let mut connection = cluster.connect(2);
    let mut pipe = redis::pipe();
    for n in 0..2000u32 {
        pipe.set("k", n).get("k");
    }
    let answers: Vec<redis::Value> = pipe.query(&mut connection).unwrap();
    for (n, pair) in answers.chunks(2).enumerate() {
        let expected = redis::Value::BulkString(n.to_string().into_bytes());
        assert_eq!(pair, [redis::Value::Okay, expected]);
    }
    assert_eq!(cluster.stop(), Some(0));
}
