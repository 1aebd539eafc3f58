//! An unmodified program, replicated: `gregale up --replicate`, deaths of members and of copies.

use crate::copies::{REDIS, control, copy_of, digests, leader, pid_of, program, sockets, status};
use crate::support::{Cluster, Ends, GREGALE, gregale, is_alive, signal, wait_until};
use redis::Commands;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

over_both_fabrics! {
    every_member_takes_any_request_and_the_copies_agree
    increments_are_executed_once_while_members_die
}

fn start(flags: &[&str]) -> Cluster {
    Cluster::start_with(&[flags, &["--replicate", REDIS]].concat())
}

fn every_member_takes_any_request_and_the_copies_agree(flags: &[&str]) {
    let mut cluster = start(flags);
    for id in 1..=3u16 {
        assert_eq!(cluster.cli(id, &["RPUSH", "list", &id.to_string()]), id.to_string());
    }
    for id in 1..=3u16 {
        assert_eq!(cluster.cli(id, &["LRANGE", "list", "0", "-1"]), "1\n2\n3");
    }
    // What the program knows and we do not: a value longer than any entry, scripts, a transaction.
    let long = "x".repeat(100_000);
    assert_eq!(cluster.cli(1, &["SET", "long", &long]), "OK");
    assert_eq!(cluster.cli(2, &["GET", "long"]), long);
    let script = "return redis.call('incr', KEYS[1])";
    assert_eq!(cluster.cli(3, &["EVAL", script, "1", "n"]), "1");
    let mut connection = cluster.connect(2);
    let both: (i64, i64) =
        redis::pipe().atomic().incr("n", 5).incr("n", 4).query(&mut connection).unwrap();
    assert_eq!(both, (6, 10));
    wait_until("the copies to be equal", || digests(&cluster).len() == 1);

    // (What a member shows is published at intervals.)
    wait_until("nothing to wait", || {
        let status = status(&cluster, 1).unwrap();
        let program = &status["members"][0]["program"];
        assert!(program["executed"].as_u64().unwrap() > 10, "{status}");
        program["waiting_bytes"] == 0
    });
    drop(connection);
    assert_eq!(cluster.stop(), Some(0));
}

/// A client that is blocked waits for what another one says later, through another member.
#[test]
fn a_blocked_client_is_answered_when_another_one_pushes() {
    let cluster = start(&[]);
    let mut waits = cluster.connect(1);
    let popped = std::thread::spawn(move || {
        redis::cmd("BLPOP").arg("queue").arg(0).query::<(String, String)>(&mut waits).unwrap()
    });
    let mut pushes = cluster.connect(2);
    let mut n = 0;
    // It is not known here when the other one is blocked: one of the pushes comes after that.
    while !popped.is_finished() {
        n += 1;
        let _: () = pushes.rpush("queue", n).unwrap();
    }
    assert_eq!(popped.join().unwrap().0, "queue");
    let left: Vec<i64> = cluster.connect(3).lrange("queue", 0, -1).unwrap();
    assert_eq!(left.len(), n - 1, "one was taken");
    wait_until("the copies to be equal", || digests(&cluster).len() == 1);
}

/// Clients count at survivors while leaders and other members are killed: each increment that was
/// answered is there, each that was not is there or not, and no client of a survivor is cut off.
fn increments_are_executed_once_while_members_die(flags: &[&str]) {
    let mut cluster = start(flags);
    let is_over = AtomicBool::new(false);
    let (mut n_answered, mut longest) = (0, Duration::ZERO);
    std::thread::scope(|scope| {
        let ends = Ends(&is_over);
        let counts = |id: u16| {
            let mut connection = cluster.connect(id);
            let is_over = &is_over;
            move || {
                let (mut last, mut n, mut longest) = (0i64, 0, Duration::ZERO);
                while !is_over.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    let now: i64 = connection.incr("n", 1).expect("a survivor's client goes on");
                    longest = longest.max(began.elapsed());
                    assert!(now > last, "{now} after {last}");
                    (last, n) = (now, n + 1);
                }
                (n, longest)
            }
        };
        let counting = [scope.spawn(counts(1))];
        // Member 1 survives; the others die in turn, the leader among them if it is another one.
        for victim in [2u16, 3, 2, 3] {
            let pid = pid_of(&cluster, 1, victim);
            let copies_before = cluster.cli(1, &["GET", "n"]);
            signal(pid, "KILL");
            let mut back = cluster.connect(victim);
            let seen: i64 = back.get("n").unwrap();
            assert!(seen >= copies_before.parse().unwrap_or(0));
        }
        drop(ends);
        for one in counting {
            let (n, silence) = one.join().unwrap();
            n_answered += n;
            longest = longest.max(silence);
        }
    });
    let total: i64 = cluster.cli(2, &["GET", "n"]).parse().unwrap();
    assert_eq!(total, n_answered, "all were answered, and each was executed once");
    println!("{n_answered} increments, longest silence {longest:?}");
    wait_until("the copies to be equal", || digests(&cluster).len() == 1);
    assert_eq!(cluster.stop(), Some(0));
}

#[test]
fn the_leader_dies_and_a_survivors_client_goes_on() {
    let cluster = start(&[]);
    for _ in 0..3 {
        let leader = leader(&cluster, 1);
        let survivor = leader % 3 + 1;
        let mut connection = cluster.connect(survivor);
        let before: i64 = connection.incr("n", 1).unwrap();
        let pid = pid_of(&cluster, survivor, leader);
        signal(pid, "KILL");
        let after: i64 = connection.incr("n", 1).unwrap();
        assert_eq!(after, before + 1);
        // It comes back with everything.
        let seen: i64 = cluster.connect(leader).get("n").unwrap();
        assert_eq!(seen, after);
    }
}

/// A copy that has gone its own way is found by its answers, and begins again, while the others
/// serve.
#[test]
fn a_copy_that_answers_otherwise_is_dropped_and_begins_again() {
    let mut cluster = start(&["--program-compare", "20"]);
    assert_eq!(cluster.cli(1, &["SET", "k", "right"]), "OK");
    wait_until("the copies to be equal", || digests(&cluster).len() == 1);
    let name = |path: &std::path::Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let socket = sockets(&cluster).into_iter().find(|path| name(path).starts_with("copy-3."));
    let mut cli = Command::new("redis-cli");
    let wrong = cli.arg("-s").arg(socket.unwrap()).args(["SET", "k", "wrong"]).output().unwrap();
    assert_eq!(wrong.stdout, b"OK\n");
    let mut survivor = cluster.connect(1);
    let mut ask = || {
        let value: String = survivor.get("k").unwrap();
        assert_eq!(value, "right");
    };
    (0..60).for_each(|_| ask());
    let line = cluster.wait_for("are not those of a majority's copies");
    assert!(line.contains("up to entry"), "{line}");
    cluster.wait_for("serves again");
    assert_eq!(cluster.cli(3, &["GET", "k"]), "right");
    wait_until("the copies to be equal", || digests(&cluster).len() == 1);
    let verdicts = program(&cluster, 1, 1)["verdicts"].clone();
    assert!(verdicts["differed"].as_u64().unwrap() > 0, "{verdicts}");
    assert_eq!(verdicts["split"], 0, "{verdicts}");
    (0..60).for_each(|_| ask());
    wait_until("all copies to answer alike", || {
        let verdicts = program(&cluster, 1, 1)["verdicts"].clone();
        verdicts["agreed_by"] == 3
    });
    assert_eq!(cluster.stop(), Some(0));
}

/// No majority answers alike: each copy's own time.
#[test]
fn copies_without_a_majority_are_named_and_serve_on() {
    let cluster = start(&["--program-compare", "20"]);
    let time = "return redis.call('time')";
    for _ in 0..30 {
        assert!(cluster.cli(1, &["EVAL", time, "0"]).contains('\n'));
    }
    wait_until("a split", || program(&cluster, 1, 1)["verdicts"]["split"].as_u64() > Some(0));
    assert_eq!(cluster.cli(2, &["SET", "k", "v"]), "OK");
    let output = gregale(&["status", "--control", &control(&cluster, 1)]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("NO MAJORITY"), "{text}");
}

/// In memory the others still have the values from before the checkpoint, and a member that comes
/// back executes these (32 MB are kept). Its transcript ends at the checkpoint like theirs.
#[test]
fn a_member_that_comes_back_in_memory_is_in_step_behind_checkpoints() {
    begin_with_the_checkpoint(&["--durability", "memory-quorum"]);
}

/// A member that comes back begins with a checkpoint, and executes only what comes after it; what
/// stands before is forgotten.
#[test]
fn a_member_that_comes_back_begins_with_the_checkpoint_on_disk() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().to_str().unwrap();
    begin_with_the_checkpoint(&["--durability", "disk-quorum", "--data", path]);
}

fn begin_with_the_checkpoint(flags: &[&str]) {
    let every = ["--program-compare", "100", "--program-checkpoint", "300"];
    let rest = ["--snapshot-log-bytes", "200kb", "--replicate", REDIS];
    let rest = if flags.contains(&"--data") { &rest[..] } else { &rest[2..] };
    let mut cluster = Cluster::start_with(&[flags, &every[..], rest].concat());
    // A connection whose database a new copy has to be told, and a script that it has to know.
    let mut connection = cluster.connect(1);
    let _: () = redis::cmd("SELECT").arg(3).query(&mut connection).unwrap();
    let script = "return redis.call('incr', KEYS[1])";
    let sha: String = redis::cmd("SCRIPT").arg("LOAD").arg(script).query(&mut connection).unwrap();
    let value = "x".repeat(1000);
    let mut n_sent = 0;
    let mut write = |n: u64| {
        for _ in 0..n {
            n_sent += 1;
            let _: () = connection.set(format!("key {}", n_sent % 200), &value).unwrap();
            let n: u64 =
                redis::cmd("EVALSHA").arg(&sha).arg(1).arg("n").query(&mut connection).unwrap();
            assert_eq!(n, n_sent);
        }
        n_sent
    };
    // A checkpoint counts at a later point, which takes more entries: a slow copy lets some pass.
    wait_until("two checkpoints", || {
        write(500);
        program(&cluster, 1, 1)["checkpoints"].as_u64() >= Some(2)
    });
    let (checkpoint, pid) =
        (program(&cluster, 1, 1)["checkpoint_at"].as_u64().unwrap(), pid_of(&cluster, 1, 2));
    assert!(checkpoint >= 300, "{checkpoint}");
    signal(pid, "KILL");
    // On disk it begins with its own newest snapshot, which may hold the checkpoint before.
    let least = u64::from(flags.contains(&"--data"));
    wait_until("the member to be back", || {
        let program = program(&cluster, 1, 2);
        program["began_at"].as_u64() >= Some(least) && program["waiting_bytes"] == 0
    });
    wait_until("the copies to be equal", || digests(&cluster).len() == 1);
    // The one that is told again what the connection was does as the others do.
    let n_sent = write(1000);
    assert_eq!(cluster.cli(2, &["-n", "3", "GET", "n"]), n_sent.to_string());
    wait_until("the copies to be equal", || digests(&cluster).len() == 1);
    let of_second = program(&cluster, 1, 2);
    assert_eq!(of_second["verdicts"]["differed"], 0, "{of_second}");
    for id in 1..=3 {
        // Of two megabytes that were sent, and as many checkpoints of 200 kB as there were.
        wait_until("the transcript to be short", || {
            program(&cluster, 1, id)["transcript_bytes"].as_u64().is_some_and(|n| n < 1_500_000)
        });
    }
    assert_eq!(cluster.stop(), Some(0));
}

/// Copy and member end together, and the next ones begin together.
#[test]
fn a_copy_that_dies_takes_its_member_along_and_both_come_back() {
    let mut cluster = start(&[]);
    assert_eq!(cluster.cli(1, &["SET", "k", "v"]), "OK");
    let mut survivor = cluster.connect(1);
    signal(copy_of(&cluster, 2), "KILL");
    let line = cluster.wait_for("redis-server has ended");
    assert!(line.contains("SIGKILL") || line.contains("signal: 9"), "{line}");
    let value: String = survivor.get("k").unwrap();
    assert_eq!(value, "v");
    cluster.wait_for("serves again");
    assert_eq!(cluster.cli(2, &["GET", "k"]), "v");
    wait_until("the copies to be equal", || digests(&cluster).len() == 1);
}

/// A copy that is stopped answers no client: those of its member wait, until the others' copies
/// have passed it for long enough.
#[test]
fn a_copy_that_takes_up_nothing_is_named_and_replaced() {
    let mut cluster = start(&["--program-compare", "20", "--program-stall", "2"]);
    let victim = leader(&cluster, 1) % 3 + 1;
    let other = victim % 3 + 1;
    let (process, copy) = (pid_of(&cluster, other, victim), copy_of(&cluster, victim));
    signal(copy, "STOP");
    let mut connection = cluster.connect(other);
    for n in 0..100 {
        let _: () = connection.rpush("list", n).unwrap();
    }
    wait_until("the copy to be named", || {
        program(&cluster, other, victim)["stalled_ms"].as_u64() > Some(0)
    });
    wait_until("its member to have begun again", || {
        let _: () = connection.rpush("list", "more").unwrap();
        !is_alive(copy) && pid_of(&cluster, other, victim) != process
    });
    wait_until("a new copy to be level", || {
        let n: usize = cluster.cli(victim, &["LLEN", "list"]).parse().unwrap_or(0);
        digests(&cluster).len() == 1 && n > 100
    });
    assert_eq!(cluster.stop(), Some(0));
}

/// Nothing of a copy outlives its cluster.
#[test]
fn no_copy_is_left_when_the_cluster_ends() {
    let mut cluster = start(&[]);
    let pids = [1, 2, 3].map(|id| copy_of(&cluster, id));
    assert_eq!(cluster.stop(), Some(0));
    wait_until("the copies to end", || !pids.iter().any(|pid| is_alive(*pid)));
}

/// On disk the log is executed again from the program's first state: the genesis directory.
#[test]
fn what_was_acknowledged_is_there_after_all_have_been_killed() {
    let data = tempfile::tempdir().unwrap();
    let genesis = tempfile::tempdir().unwrap();
    std::fs::write(genesis.path().join("redis.conf"), "proto-max-bulk-len 2mb\n").unwrap();
    let path = data.path().to_str().unwrap();
    let command = format!("redis-server redis.conf {}", REDIS.trim_start_matches("redis-server "));
    let from = genesis.path().to_str().unwrap();
    let flags = ["--durability", "disk-quorum", "--data", path, "--genesis", from];
    let rest = ["--snapshot-log-bytes", "20kb", "--replicate", &command];
    let mut cluster = Cluster::start_with(&[&flags[..], &rest[..]].concat());
    assert_eq!(
        cluster.cli(1, &["CONFIG", "GET", "proto-max-bulk-len"]),
        "proto-max-bulk-len\n2097152"
    );
    let mut connection = cluster.connect(2);
    for n in 1..=400 {
        let now: i64 = connection.incr("n", 1).unwrap();
        assert_eq!(now, n);
    }
    // So the next lives begin with a snapshot: a part of the transcript.
    wait_until("a snapshot", || {
        let status = status(&cluster, 1).unwrap_or_default();
        status["members"][0]["disk"]["snapshots"].as_u64().is_some_and(|n| n > 0)
    });
    for round in 0..2 {
        let pids = [1, 2, 3].map(|id| pid_of(&cluster, 1, id));
        cluster.kill_all(&pids, || {});
        cluster.start_again();
        for id in 1..=3 {
            assert_eq!(cluster.cli(id, &["GET", "n"]), (400 + round).to_string());
        }
        assert_eq!(cluster.cli(3, &["INCR", "n"]), (401 + round).to_string());
    }
    assert_eq!(cluster.stop(), Some(0));
    // Another command would mean another state.
    let name = format!("test{}", std::process::id());
    let port = cluster.port.to_string();
    let output = gregale(&["up", "--data", path, "--port", &port, "--cluster", &name]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("was begun with --replicate"), "{error}");
}

/// A program whose protocol is not known is at rest when it is silent and sleeps.
#[test]
fn a_program_without_known_replies_is_replicated_by_its_silence() {
    let cluster = Cluster::start_with(&["--replicate", REDIS, "--program-rest", "quiet"]);
    let mut connections = [1, 2, 3].map(|id| cluster.connect(id));
    for n in 0..20usize {
        let connection = &mut connections[n % 3];
        let _: () = connection.rpush("list", n).unwrap();
    }
    let list: Vec<usize> = connections[0].lrange("list", 0, -1).unwrap();
    assert_eq!(list, (0..20).collect::<Vec<_>>());
    drop(connections);
    wait_until("the copies to be equal", || digests(&cluster).len() == 1);
}

#[test]
fn what_cannot_be_replicated_is_refused_and_nothing_is_begun() {
    let refused = |words: &[&str]| {
        let mut all = vec!["up", "--durability", "memory-quorum", "--port", "1"];
        all.extend(words);
        let output = Command::new(GREGALE).args(&all).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(&["--replicate", "redis-server"]).contains("say where the program listens"));
    assert!(refused(&["--replicate", "no-such {socket}"]).contains("no program \"no-such\""));
    assert!(refused(&["--replicate", "cat {sokcet} {socket}"]).contains("stands for nothing"));
    let abd = refused(&["--protocol", "abd", "--replicate", REDIS]);
    assert!(abd.contains("one order of everything"), "{abd}");
    let genesis = refused(&["--genesis", "/no/such", "--replicate", REDIS]);
    assert!(genesis.contains("no such directory"), "{genesis}");
}

#[test]
fn a_program_that_ends_at_once_is_named_with_its_last_words() {
    let command = "redis-server --port 0 --unixsocket {socket} --no-such-setting 5";
    let port = crate::support::free_ports(3).to_string();
    let words = ["up", "--durability", "memory-quorum", "--port", &port, "--replicate", command];
    let output = gregale(&words);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    let told = error.contains("before it listened") && error.contains("no-such-setting");
    assert!(told, "{error}");
}
