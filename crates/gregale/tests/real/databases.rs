//! SELECT and its related commands, at every member, through a power cut and a backup.

use crate::support::{Cluster, gregale};
use redis::{Commands, Connection};

fn select(cluster: &Cluster, member: u16, db: u8) -> Connection {
    let mut connection = cluster.connect(member);
    let () = redis::cmd("SELECT").arg(db).query(&mut connection).unwrap();
    connection
}

#[test]
fn a_client_that_selects_a_database_is_served_from_it_at_every_member() {
    let cluster = Cluster::start();
    for id in 1..=3 {
        let mut one = select(&cluster, id, 1);
        let () = one.set("k", id).unwrap();
        let zero: Option<u16> = cluster.connect(id % 3 + 1).get("k").unwrap();
        assert_eq!(zero, None, "at member {id}");
        let elsewhere: u16 = select(&cluster, id % 3 + 1, 1).get("k").unwrap();
        assert_eq!(elsewhere, id);
        // A change in another database disturbs no watcher, a change in its own does.
        for (db, expected) in [(0, Some((id,))), (1, None)] {
            let () = redis::cmd("WATCH").arg("k").query(&mut one).unwrap();
            let () = select(&cluster, 1, db).set("k", "x").unwrap();
            let () = select(&cluster, 1, 0).del("k").unwrap();
            let mut transaction = redis::pipe();
            let done: Option<(u16,)> =
                transaction.atomic().set("k", id).ignore().get("k").query(&mut one).unwrap();
            assert_eq!(done, expected, "at member {id}, after a change in database {db}");
        }
    }
}

#[test]
fn databases_come_back_from_disks_and_from_backups() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let flags = ["--durability", "disk-quorum", "--data", data.to_str().unwrap()];
    let mut cluster = Cluster::start_with(&flags);
    for db in 0..16 {
        let () = select(&cluster, 2, db).set("k", db).unwrap();
    }
    let () = redis::cmd("SWAPDB").arg(3).arg(4).query(&mut cluster.connect(1)).unwrap();
    let expected = |db: u8| [0, 1, 2, 4, 3].get(usize::from(db)).copied().unwrap_or(db);
    let pids: Vec<u32> = (1..=3).map(|id| cluster.pid_of(id)).collect();
    cluster.kill_all(&pids, || {});
    cluster.start_again();
    for db in 0..16 {
        let value: u8 = select(&cluster, 1, db).get("k").unwrap();
        assert_eq!(value, expected(db), "in database {db}, after the power cut");
    }
    let file = directory.path().join("backup");
    let path = file.to_str().unwrap();
    let address = format!("127.0.0.1:{}", cluster.port_of(1));
    let taken = gregale(&["backup", path, "--connect", &address]);
    assert!(taken.status.success(), "{taken:?}");
    let () = redis::cmd("FLUSHALL").query(&mut cluster.connect(1)).unwrap();
    let () = select(&cluster, 1, 9).set("other", 1).unwrap();
    let refused = gregale(&["restore", path, "--connect", &address]);
    assert!(!refused.status.success(), "a key in any database counts: {refused:?}");
    let restored = gregale(&["restore", path, "--connect", &address, "--force"]);
    assert!(restored.status.success(), "{restored:?}");
    for db in 0..16 {
        let value: u8 = select(&cluster, 3, db).get("k").unwrap();
        assert_eq!(value, expected(db), "in database {db}, from the backup");
    }
}

#[test]
fn clients_can_be_listed_and_ended() {
    let cluster = Cluster::start();
    let mut me = cluster.connect(1);
    let mut other = cluster.connect(1);
    let id: u64 = redis::cmd("CLIENT").arg("ID").query(&mut other).unwrap();
    let kill = |me: &mut Connection, words: &[&str]| {
        redis::cmd("CLIENT").arg("KILL").arg(words).query::<redis::Value>(me)
    };
    let one = kill(&mut me, &["ID", &id.to_string()]).unwrap();
    assert_eq!(one, redis::Value::Int(1));
    assert!(other.get::<_, Option<u8>>("k").is_err(), "its connection has ended");
    assert_eq!(kill(&mut me, &["ID", &id.to_string()]).unwrap(), redis::Value::Int(0));
    assert!(kill(&mut me, &["1.2.3.4:5"]).unwrap_err().to_string().contains("No such client"));
    let listed: String = redis::cmd("CLIENT").arg("LIST").query(&mut me).unwrap();
    assert!(!listed.contains(&format!("id={id} ")), "{listed}");
    // The client kills itself, after the answer.
    assert_eq!(kill(&mut me, &["SKIPME", "no"]).unwrap(), redis::Value::Int(1));
    assert!(me.get::<_, Option<u8>>("k").is_err());
}

/// The trap: a follower learns that a write is decided before it has executed the write.
#[test]
fn info_at_every_member_tells_of_the_writes_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let flags = ["--durability", "disk-quorum", "--data", data.to_str().unwrap()];
    let cluster = Cluster::start_with(&flags);
    let mut n = 0;
    for member in 1..=3 {
        let mut at = cluster.connect(member);
        for _ in 0..200 {
            n += 1;
            let () = at.set(format!("k{n}"), 1).unwrap();
            let info: String = redis::cmd("INFO").arg("keyspace").query(&mut at).unwrap();
            assert!(info.contains(&format!("db0:keys={n},")), "member {member}, {n}: {info}");
        }
    }
}

#[test]
fn paused_clients_are_served_when_the_pause_is_over() {
    let cluster = Cluster::start();
    let (mut me, mut other) = (cluster.connect(1), cluster.connect(1));
    let () = redis::cmd("CLIENT").arg(&["PAUSE", "300000", "WRITE"]).query(&mut me).unwrap();
    std::thread::scope(|scope| {
        let write = scope.spawn(|| other.set::<_, _, ()>("k", 1));
        let none: Option<u8> = me.get("k").unwrap();
        assert_eq!(none, None, "reads are served");
        let () = redis::cmd("CLIENT").arg("UNPAUSE").query(&mut me).unwrap();
        write.join().unwrap().unwrap();
    });
    let () = redis::cmd("CLIENT").arg(&["PAUSE", "20"]).query(&mut me).unwrap();
    assert_eq!(me.get::<_, u8>("k").unwrap(), 1, "its time is over");
}
