//! Clients' observations while no member fails.

use crate::support::{Cluster, role, wait_until};
use redis::{Commands, RedisResult, Value};
use std::io::{Read, Write};
use std::net::TcpStream;

#[test]
fn what_is_written_at_one_member_is_read_at_every_other() {
    let cluster = Cluster::start();
    let mut members: Vec<_> = (1..=3).map(|id| cluster.connect(id)).collect();
    for round in 0..30 {
        let (writer, value) = (round % 3, format!("v{round}"));
        let _: () = members[writer].set("k", &value).unwrap();
        for (at, member) in members.iter_mut().enumerate() {
            let read: String = member.get("k").unwrap();
            assert_eq!(read, value, "written at {writer}, read at {at}");
        }
    }
}

#[test]
fn the_same_holds_over_tcp_and_by_mu() {
    for flags in
        [["--fabric", "tcp", "--protocol", "velos"], ["--fabric", "tcp", "--protocol", "mu"]]
    {
        let cluster = Cluster::start_with(&flags);
        let mut members: Vec<_> = (1..=3).map(|id| cluster.connect(id)).collect();
        for round in 0..30 {
            let _: () = members[round % 3].set("k", round).unwrap();
            for member in &mut members {
                assert_eq!(member.get::<_, usize>("k").unwrap(), round, "{flags:?}");
            }
        }
    }
}

#[test]
fn one_five_and_seven_members_serve_too() {
    for nodes in ["1", "5", "7"] {
        let cluster = Cluster::start_with(&["--nodes", nodes]);
        let n: u16 = nodes.parse().unwrap();
        let _: () = cluster.connect(n).set("k", n).unwrap();
        assert_eq!(cluster.connect(1).get::<_, u16>("k").unwrap(), n);
    }
}

#[test]
fn redis_cli_works_at_every_member() {
    let cluster = Cluster::start();
    assert_eq!(cluster.cli(1, &["SET", "greeting", "hello"]), "OK");
    assert_eq!(cluster.cli(3, &["GET", "greeting"]), "hello");
    assert_eq!(cluster.cli(2, &["INCR", "n"]), "1");
    assert_eq!(cluster.cli(3, &["INCR", "n"]), "2");
    assert_eq!(
        cluster.cli(1, &["NOSUCH"]),
        "ERR unknown command 'NOSUCH', with args beginning with:"
    );
    assert_eq!(
        cluster.cli(2, &["LPUSH", "greeting"]).split('\'').next(),
        Some("ERR unknown command ")
    );
    assert!(cluster.cli(2, &["GET"]).contains("wrong number of arguments"));
    assert_eq!(
        cluster.cli(2, &["INCR", "greeting"]),
        "ERR value is not an integer or out of range"
    );
}

#[test]
fn a_pipeline_is_answered_in_its_order() {
    let cluster = Cluster::start();
    for id in 1..=3 {
        let mut connection = cluster.connect(id);
        let mut pipeline = redis::pipe();
        for n in 0..200 {
            pipeline.set("p", n).ignore().get("p").append("p", "x").ignore();
        }
        let read: Vec<String> = pipeline.query(&mut connection).unwrap();
        let expected: Vec<String> = (0..200).map(|n| n.to_string()).collect();
        assert_eq!(read, expected, "at member {id}");
    }
}

#[test]
fn long_values_pass_through_every_member() {
    let cluster = Cluster::start();
    let value: Vec<u8> =
        (0..500_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for id in 1..=3 {
        let key = format!("long{id}");
        let _: () = cluster.connect(id).set(&key, &value).unwrap();
        for reader in 1..=3 {
            let read: Vec<u8> = cluster.connect(reader).get(&key).unwrap();
            assert!(read == value, "written at {id}, read at {reader}");
        }
    }
    let too_long = vec![0u8; 600_000];
    let refused: RedisResult<()> = cluster.connect(1).set("x", &too_long);
    assert!(refused.unwrap_err().to_string().contains("limit"));
}

#[test]
fn transactions_are_atomic_and_watch_sees_other_members() {
    let cluster = Cluster::start();
    for id in 1..=3 {
        let mut connection = cluster.connect(id);
        let _: () = connection.set("t", 5).unwrap();
        let both: (i64, i64) =
            redis::pipe().atomic().incr("t", 1).incr("t", 10).query(&mut connection).unwrap();
        assert_eq!(both, (6, 16));
        // No client touches the watched key: executed.
        let _: () = redis::cmd("WATCH").arg("t").query(&mut connection).unwrap();
        let done: Option<(i64,)> =
            redis::pipe().atomic().incr("t", 1).query(&mut connection).unwrap();
        assert_eq!(done, Some((17,)));
        // Another member's client touches it: not executed.
        let _: () = redis::cmd("WATCH").arg("t").query(&mut connection).unwrap();
        let _: () = cluster.connect(id % 3 + 1).set("t", 0).unwrap();
        let done: Option<(i64,)> =
            redis::pipe().atomic().incr("t", 1).query(&mut connection).unwrap();
        assert_eq!(done, None, "at member {id}");
    }
}

#[test]
fn keys_expire_everywhere_at_once() {
    let cluster = Cluster::start();
    let mut members: Vec<_> = (1..=3).map(|id| cluster.connect(id)).collect();
    for writer in 0..3 {
        let _: () = members[writer].pset_ex("e", "v", 300).unwrap();
        let mut gone = false;
        wait_until("the key to expire", || {
            // Once one member has answered that the key is gone, no other may show it.
            for member in &mut members {
                let there: bool = member.exists("e").unwrap();
                assert!(!(gone && there), "a key came back to life");
                gone |= !there;
            }
            gone
        });
        let left: i64 = members[writer].ttl("e").unwrap();
        assert_eq!(left, -2);
    }
}

#[test]
fn keys_that_nobody_reads_are_removed_too() {
    let cluster = Cluster::start();
    let mut connection = cluster.connect(2);
    for n in 0..50 {
        let _: () = connection.pset_ex(format!("e{n}"), "v", 100).unwrap();
    }
    let _: () = connection.set("stays", 1).unwrap();
    wait_until("due keys to be removed", || {
        // INFO shows the present state and has no effect.
        let info: String = redis::cmd("INFO").arg("keyspace").query(&mut connection).unwrap();
        info.contains("keys=1,")
    });
}

#[test]
fn wait_counts_the_members_that_hold_the_last_write() {
    let cluster = Cluster::start();
    for id in 1..=3 {
        let mut connection = cluster.connect(id);
        let _: () = connection.set("w", id).unwrap();
        let n: i64 = redis::cmd("WAIT").arg(2).arg(20_000).query(&mut connection).unwrap();
        assert_eq!(n, 2, "at member {id}");
        let n: i64 = redis::cmd("WAIT").arg(3).arg(50).query(&mut connection).unwrap();
        assert_eq!(n, 2, "there are only two besides the leader, asked at member {id}");
    }
}

#[test]
fn info_and_status_tell_who_is_who() {
    let cluster = Cluster::start();
    for id in 1..=3 {
        let mut connection = cluster.connect(id);
        let info: String = redis::cmd("INFO").query(&mut connection).unwrap();
        for line in [
            "redis_mode:standalone".to_owned(),
            "role:master".to_owned(),
            "gregale_engine:one-sided".to_owned(),
            "gregale_durability:memory-quorum".to_owned(),
            "gregale_protocol:velos".to_owned(),
            "gregale_fabric:shm".to_owned(),
            format!("gregale_member:{id}"),
            "gregale_members:3".to_owned(),
        ] {
            assert!(info.contains(&format!("\r\n{line}\r\n")), "{line} in {info}");
        }
        let status = cluster.status_at(id);
        assert_eq!(status["members"].as_array().unwrap().len(), 3);
        for key in ["cluster", "engine", "protocol", "durability", "fabric", "view", "ballot"] {
            assert!(!status[key].is_null(), "{key} in {status}");
        }
        // The leader may change between two looks, and a member may answer too late for one.
        wait_until("both to name the leader", || {
            let leader = cluster.leader();
            let info: String = redis::cmd("INFO").query(&mut connection).unwrap();
            let status = cluster.status_at(id);
            info.contains(&format!("\r\ngregale_leader:{leader}\r\n"))
                && role(&status, leader) == "leader"
                && status["ballot"].as_u64().unwrap() > 0
        });
    }
    let address = format!("127.0.0.1:{}", cluster.port);
    let mut table = String::new();
    wait_until("the table", || {
        let output = crate::support::gregale(&["status", "--connect", &address]);
        table = String::from_utf8(output.stdout).unwrap();
        output.status.success()
    });
    assert_eq!(table.lines().count(), 5, "{table}");
}

#[test]
fn without_the_password_nothing_is_answered() {
    let cluster = Cluster::start_with(&["--requirepass", "sesame"]);
    let port = cluster.port_of(2);
    let open = |url: String| redis::Client::open(url).unwrap().get_connection();
    let mut stranger = open(format!("redis://127.0.0.1:{port}")).unwrap();
    let refused: RedisResult<()> = stranger.set("k", 1);
    assert!(refused.unwrap_err().to_string().contains("Authentication required"));
    assert!(open(format!("redis://:wrong@127.0.0.1:{port}")).is_err());
    let _: () = cluster.connect(2).set("k", 1).unwrap();
    let address = format!("127.0.0.1:{port}");
    let output = crate::support::gregale(&["status", "--connect", &address]);
    assert!(crate::support::refused(&output).contains("--password"));
    assert_eq!(cluster.status_at(2)["members"].as_array().unwrap().len(), 3);
}

#[test]
fn resp3_is_spoken_when_asked_for() {
    let cluster = Cluster::start();
    let url = format!("redis://127.0.0.1:{}/?protocol=resp3", cluster.port_of(3));
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    let _: () = connection.set("k", "v").unwrap();
    let nothing: Value = redis::cmd("GET").arg("nothing").query(&mut connection).unwrap();
    assert_eq!(nothing, Value::Nil);
    let hello: Value = redis::cmd("HELLO").arg(3).query(&mut connection).unwrap();
    assert!(matches!(hello, Value::Map(_)), "{hello:?}");
}

/// Sends raw bytes to a member; returns what comes back until the connection is closed.
fn raw(cluster: &Cluster, id: u16, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", cluster.port_of(id))).unwrap();
    stream.set_read_timeout(Some(crate::support::PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8(answer).unwrap()
}

#[test]
fn malformed_requests_get_rediss_own_errors() {
    let cluster = Cluster::start();
    let answer = raw(&cluster, 1, b"*1\r\n+PING\r\n");
    assert_eq!(answer, "-ERR Protocol error: expected '$', got '+'\r\n");
    let answer = raw(&cluster, 2, b"*99999999999\r\n");
    assert_eq!(answer, "-ERR Protocol error: invalid multibulk length\r\n");
    let answer = raw(&cluster, 3, b"SET k \"open\r\nQUIT\r\n");
    assert_eq!(answer, "-ERR Protocol error: unbalanced quotes in request\r\n");
    let answer = raw(&cluster, 3, b"SET k v\r\nGET k\r\nNOSUCH\r\nPING\r\nQUIT\r\n");
    let lines: Vec<&str> = answer.lines().collect();
    assert_eq!(lines[..3], ["+OK", "$1", "v"]);
    assert!(lines[3].starts_with("-ERR unknown command"), "the connection survives");
    assert_eq!(lines[4..], ["+PONG", "+OK"]);
}

#[test]
fn a_request_in_many_pieces_is_one_request() {
    let cluster = Cluster::start();
    let mut stream = TcpStream::connect(("127.0.0.1", cluster.port_of(2))).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(crate::support::PATIENCE)).unwrap();
    for byte in b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\na\r\nbc\r\n" {
        stream.write_all(&[*byte]).unwrap();
    }
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+OK\r\n");
    let value: String = cluster.connect(1).get("k").unwrap();
    assert_eq!(value, "a\r\nbc");
}

#[test]
fn one_client_too_many_is_told_so() {
    let cluster = Cluster::start_with(&["--maxclients", "2"]);
    let held: Vec<_> = (0..2).map(|_| cluster.connect(1)).collect();
    let mut answer = String::new();
    let mut stream = TcpStream::connect(("127.0.0.1", cluster.port)).unwrap();
    stream.set_read_timeout(Some(crate::support::PATIENCE)).unwrap();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "-ERR max number of clients reached\r\n");
    drop(held);
    wait_until("a place to be free again", || cluster.cli(1, &["PING"]) == "PONG");
}

#[test]
fn a_full_memory_refuses_writes_with_rediss_error() {
    let cluster = Cluster::start_with(&["--maxmemory", "1mb"]);
    let mut connection = cluster.connect(2);
    let value = vec![b'x'; 100_000];
    let refused = (0..20).find_map(|n| {
        let result: RedisResult<()> = connection.set(format!("k{n}"), &value);
        result.err()
    });
    assert!(refused.unwrap().to_string().contains("OOM"), "1 MB does not hold 2 MB");
    let _: () = connection.del("k0").unwrap();
    let there: Vec<u8> = cluster.connect(3).get("k1").unwrap();
    assert!(there == value, "reads go on");
}

#[test]
fn the_metrics_count() {
    let cluster = Cluster::start();
    let mut connection = cluster.connect(1);
    for n in 0..10 {
        let _: () = connection.set("m", n).unwrap();
    }
    wait_until("the metrics to show what happened", || {
        let value = |name| cluster.metric(1, name);
        value("commands_total") >= 10.0 && value("applied") >= 10.0 && value("keys") == 1.0
    });
}
