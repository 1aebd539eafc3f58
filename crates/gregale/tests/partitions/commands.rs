//! Commands across partitions: those that work, and those that are refused.

use crate::support::{Cluster, gregale, refused, signal, wait_until};
use redis::Commands;

/// Keys of as many different partitions.
pub(crate) fn apart(n: usize, partitions: usize) -> Vec<String> {
    let of = |key: &String| kv::partition::partition_of(key.as_bytes(), partitions);
    let mut keys: Vec<String> = Vec::new();
    for key in (0..).map(|at| format!("key{at}")) {
        if keys.iter().all(|other| of(other) != of(&key)) {
            keys.push(key);
        }
        if keys.len() == n {
            break;
        }
    }
    keys
}

#[test]
fn commands_of_several_keys_work_across_partitions_at_every_member() {
    let cluster = Cluster::start_with(&["--partitions", "4"]);
    let keys = apart(4, 4);
    let [a, b, c, d] = [&keys[0], &keys[1], &keys[2], &keys[3]];
    let pairs: Vec<(&String, u32)> = keys.iter().zip(1..).collect();
    let () = cluster.connect(1).mset(&pairs).unwrap();
    for id in 1..=3 {
        let mut at = cluster.connect(id);
        let values: Vec<u32> = at.mget(&keys).unwrap();
        assert_eq!(values, [1, 2, 3, 4]);
        let count: u32 = redis::cmd("DBSIZE").query(&mut at).unwrap();
        assert_eq!(count, 4);
        let mut scanned: Vec<String> = at.scan().unwrap().map(Result::unwrap).collect();
        scanned.sort();
        let mut all: Vec<String> = at.keys("*").unwrap();
        all.sort();
        let mut expected = keys.clone();
        expected.sort();
        assert_eq!((&scanned, &all), (&expected, &expected));
        let random: String = redis::cmd("RANDOMKEY").query(&mut at).unwrap();
        assert!(keys.contains(&random));
    }
    let mut at = cluster.connect(2);
    let was_set: bool = at.mset_nx(&[("{x}new", 1), (a, 9)]).unwrap();
    assert!(!was_set, "one of them is there");
    let () = at.rename(a, b).unwrap();
    let copied: bool = redis::cmd("COPY").arg(b).arg(a).query(&mut at).unwrap();
    assert!(copied);
    let values: Vec<u32> = cluster.connect(3).mget(&[a, b, c]).unwrap();
    assert_eq!(values, [1, 1, 3]);
    let there: u32 = at.exists(&keys).unwrap();
    let gone: u32 = at.del(&[c, d]).unwrap();
    assert_eq!((there, gone), (4, 2));
    let () = redis::cmd("FLUSHALL").query(&mut at).unwrap();
    let count: u32 = redis::cmd("DBSIZE").query(&mut cluster.connect(1)).unwrap();
    assert_eq!(count, 0);
}

#[test]
fn transactions_and_watched_keys_span_partitions() {
    let cluster = Cluster::start_with(&["--partitions", "3", "--fabric", "tcp"]);
    let keys = apart(2, 3);
    let [a, b] = [&keys[0], &keys[1]];
    let (mut one, mut other) = (cluster.connect(1), cluster.connect(2));
    let () = redis::cmd("WATCH").arg(a).arg(b).query(&mut one).unwrap();
    let transfer = |connection: &mut redis::Connection| -> Option<(i64, i64)> {
        let mut pipe = redis::pipe();
        pipe.atomic().decr(a, 5).incr(b, 5);
        pipe.query(connection).unwrap()
    };
    assert_eq!(transfer(&mut one), Some((-5, 5)));
    let () = redis::cmd("WATCH").arg(a).arg(b).query(&mut one).unwrap();
    assert_eq!(transfer(&mut other), Some((-10, 10)));
    assert_eq!(transfer(&mut one), None, "a watched key of another partition has changed");

    // A session's calls are executed once, whichever partitions they concern.
    let opened: Vec<i64> = redis::cmd("GREGALE.SESSION").query(&mut one).unwrap();
    let mut call = redis::cmd("GREGALE.CALL");
    call.arg(1).arg("MSETNX").arg(format!("{a}.")).arg(1).arg(format!("{b}.")).arg(1);
    let first: i64 = call.query(&mut one).unwrap();
    let resumed: Vec<i64> = redis::cmd("GREGALE.SESSION").arg(opened[0]).query(&mut other).unwrap();
    assert_eq!(resumed[..2], [opened[0], 1]);
    let again: i64 = call.query(&mut other).unwrap();
    assert_eq!((first, again), (1, 1), "the second time it would have answered 0");
}

#[test]
fn a_dead_replica_comes_back_and_the_others_go_on() {
    let mut cluster = Cluster::start_with(&["--partitions", "4"]);
    let keys = apart(4, 4);
    let status = cluster.status_at(1);
    assert_eq!(status["engine"], "multicast");
    assert_eq!(status["protocol"], "primcast");
    assert_eq!(status["order"], "linearizable");
    assert_eq!(status["partitions"].as_array().map(Vec::len), Some(4));
    let leader = status["partitions"][0]["leader"].as_u64().unwrap() as u16;
    let survivor = leader % 3 + 1;
    signal(cluster.pid_of(leader), "KILL");
    let mut at = cluster.connect(survivor);
    wait_until("the survivors to lead and serve", || {
        let pairs: Vec<(&String, u32)> = keys.iter().zip(1..).collect();
        redis::cmd("MSET").arg(&pairs).query::<()>(&mut at).is_ok()
    });
    let info: String = redis::cmd("INFO").arg("gregale").query(&mut at).unwrap();
    assert!(info.contains("gregale_partitions:4\r\n"), "{info}");
    cluster.wait_for(&format!("member {leader} serves again"));
    wait_until("what was written without it to be there", || {
        let mut back = cluster.connect(leader);
        let read = redis::cmd("MGET").arg(&keys).query::<Vec<u32>>(&mut back);
        read.is_ok_and(|values| values == [1, 2, 3, 4])
    });
    let status = cluster.status_at(leader);
    assert_eq!(status["partitions"].as_array().map(Vec::len), Some(4));
    assert_eq!(cluster.stop(), Some(0));
}

#[test]
fn what_partitions_do_not_offer_is_refused_by_name() {
    let up = |words: &[&str]| refused(&gregale(&[&["up", "--partitions", "4"], words].concat()));
    let all = up(&["--durability", "disk-all"]);
    assert!(all.contains("say --durability disk-quorum"), "{all}");
    let reply = up(&["--durability", "disk-quorum", "--order", "reply"]);
    assert!(reply.contains("--order linearizable"), "{reply}");
    let velos = up(&["--protocol", "velos"]);
    assert!(velos.contains("velos does not order partitions"), "{velos}");
    let many = refused(&gregale(&["up", "--partitions", "33"]));
    assert!(many.contains("choose 1 to 32"), "{many}");
    let none =
        refused(&gregale(&["up", "--protocol", "primcast", "--durability", "memory-quorum"]));
    assert!(none.contains("--partitions 4"), "{none}");
    let cluster = Cluster::start_with(&["--partitions", "2", "--nodes", "1"]);
    let backup = cluster.cli(1, &["GREGALE.BACKUP", "BEGIN"]);
    assert!(backup.starts_with("ERR"), "{backup}");
    assert_eq!(cluster.cli(1, &["SET", "a", "1"]), "OK");
    assert_eq!(cluster.cli(1, &["WAIT", "0", "100"]), "0");
}

#[test]
fn databases_are_apart_in_every_partition() {
    let cluster = Cluster::start_with(&["--partitions", "4"]);
    let keys = apart(3, 4);
    let mut at = cluster.connect(1);
    let mut run = |line: &str| {
        let mut words = line.split(' ');
        let mut command = redis::cmd(words.next().unwrap());
        for word in words {
            command.arg(word);
        }
        command.query::<redis::Value>(&mut at).unwrap()
    };
    let [a, b, c] = [&keys[0], &keys[1], &keys[2]];
    run(&format!("MSET {a} 0 {b} 0"));
    run("SELECT 1");
    run(&format!("MSET {a} 1 {b} 1 {c} 1"));
    run(&format!("MOVE {c} 2"));
    run(&format!("COPY {a} {c} DB 3"));
    run("SWAPDB 1 0");
    let dbsize = |db: u32| {
        let mut at = cluster.connect(2);
        let () = redis::cmd("SELECT").arg(db).query(&mut at).unwrap();
        redis::cmd("DBSIZE").query::<u32>(&mut at).unwrap()
    };
    assert_eq!([0, 1, 2, 3, 4].map(dbsize), [2, 2, 1, 1, 0]);
    let values: Vec<u32> = cluster.connect(3).mget(&[a, b]).unwrap();
    assert_eq!(values, [1, 1], "what was in database 1 is in 0");
    run("FLUSHDB");
    assert_eq!([0, 1, 2].map(dbsize), [2, 0, 1]);
    // A member reports what it held a moment ago.
    let mut at = cluster.connect(3);
    wait_until("member 3 to tell of the databases that have keys", || {
        let info: String = redis::cmd("INFO").arg("keyspace").query(&mut at).unwrap();
        info.contains("db0:keys=2,") && !info.contains("db1:") && info.contains("db2:keys=1,")
    });
}
