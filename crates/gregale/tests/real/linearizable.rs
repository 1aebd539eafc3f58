//! Concurrent clients of a real cluster, while its members are killed and paused; what they saw is
//! recorded and judged, by two judges that share no code.

use crate::support::{Cluster, PATIENCE, role, signal};
use base::Rng;
use check::{Action, Command, End, History, Limits, Op, Reply, Verdict};
use redis::{RedisError, Value};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How many clients, spread over the members.
const CLIENTS: u64 = 9;
/// How many faults a run has.
const FAULTS: u64 = 8;
/// Between two operations of a client, at most, so that a run spans its faults and not more
/// operations than two judges can look at.
const PAUSE_US_MAX: u64 = 4000;

/// A longer look: `LINEARIZABLE_RUNS=20 cargo test -p gregale --test real one_order`.
fn runs() -> u64 {
    std::env::var("LINEARIZABLE_RUNS").map_or(1, |text| text.parse().unwrap())
}

#[test]
fn over_shm_clients_see_one_order() {
    (0..runs()).for_each(|n| run("shm", 1 + 2 * n));
}

#[test]
fn over_tcp_clients_see_one_order() {
    (0..runs()).for_each(|n| run("tcp", 2 + 2 * n));
}

fn run(fabric: &str, seed: u64) {
    let mut cluster = Cluster::start_with(&["--fabric", fabric]);
    let start = Instant::now();
    let over = AtomicBool::new(false);
    let answered = AtomicU64::new(0);
    let mut history = History::new();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|id| {
                let (cluster, over, answered) = (Access::of(&cluster, id), &over, &answered);
                scope.spawn(move || client(id, seed, &cluster, start, over, answered))
            })
            .collect();
        disturb(&mut cluster, seed, &answered);
        over.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().unwrap().into_iter().for_each(|op| history.push(op));
        }
    });
    let n_unknown = history.ops.iter().filter(|op| op.end == End::Unknown).count();
    println!("{fabric}: {} operations, {n_unknown} of unknown outcome", history.ops.len());
    assert!(history.ops.len() > 1000, "too little happened to judge");

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.jsonl");
    check::file::write(&history, std::fs::File::create(&path).unwrap()).unwrap();
    match check::judge(&history, Limits::default()).unwrap() {
        Verdict::Linearizable(_) => {}
        Verdict::Violation(violation) => {
            let kept = std::env::temp_dir().join(format!("gregale-violation-{fabric}.jsonl"));
            std::fs::copy(&path, &kept).unwrap();
            panic!("{violation}\nthe history is kept in {}", kept.display());
        }
        Verdict::GaveUp(gave_up) => panic!("{gave_up}"),
    }
    assert_eq!(porcupine(directory.path(), &path), "linearizable");
}

/// The second judge's word.
fn porcupine(directory: &Path, history: &Path) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/porcupine");
    let program = directory.join("porcupine");
    let mut build = std::process::Command::new("go");
    let built = build.args(["build", "-o"]).arg(&program).arg(".").current_dir(source).output();
    let built = built.expect("the second judge needs Go in PATH: apt-get install golang");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let judged = std::process::Command::new(&program).arg(history).output().unwrap();
    let text = String::from_utf8(judged.stdout).unwrap();
    text.split_whitespace().next().unwrap_or_default().to_owned()
}

/// Kills and pauses members, one after the other, while clients go on.
fn disturb(cluster: &mut Cluster, seed: u64, answered: &AtomicU64) {
    let mut rng = Rng::new(seed);
    let progress = || {
        // Each fault falls into the middle of work, and work goes on after it.
        let before = answered.load(Ordering::Relaxed);
        crate::support::wait_until("clients to be answered", || {
            answered.load(Ordering::Relaxed) > before + 200
        });
    };
    for fault in 0..FAULTS {
        progress();
        let status = cluster.status_at(1);
        let leads = |id: &u16| role(&status, *id) == "leader";
        // Every second fault hits the leader.
        let leader = (1..=3).find(leads).unwrap_or(1);
        let victim = if fault % 2 == 0 { leader } else { leader % 3 + 1 };
        let pid = cluster.pid_of(victim);
        if fault % 4 < 2 {
            signal(pid, "KILL");
            cluster.wait_for(&format!("member {victim} serves again"));
        } else {
            signal(pid, "STOP");
            // Longer than a suspicion, or shorter.
            std::thread::sleep(Duration::from_millis(50 + rng.below(800)));
            signal(pid, "CONT");
        }
    }
    progress();
}

/// What a client needs to know of the cluster.
struct Access {
    ports: [u16; 3],
    first: usize,
}

impl Access {
    fn of(cluster: &Cluster, client: u64) -> Access {
        let ports = [1, 2, 3].map(|id| cluster.port_of(id));
        Access { ports, first: (client % 3) as usize }
    }

    /// A connection, to the next member after each loss.
    fn connect(&self, n_lost: usize) -> redis::Connection {
        let end = Instant::now() + PATIENCE;
        loop {
            let port = self.ports[(self.first + n_lost) % 3];
            let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
            if let Ok(connection) = client.get_connection_with_timeout(Duration::from_secs(10)) {
                connection.set_read_timeout(Some(PATIENCE)).unwrap();
                return connection;
            }
            assert!(Instant::now() < end, "no connection to {port}");
        }
    }
}

fn client(
    id: u64,
    seed: u64,
    access: &Access,
    start: Instant,
    over: &AtomicBool,
    answered: &AtomicU64,
) -> Vec<Op> {
    let mut rng = Rng::new(seed << 32 | id);
    let mut n_lost = 0;
    let mut connection = access.connect(n_lost);
    let mut ops = Vec::new();
    for n in 0.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let commands = next_commands(&mut rng, id, n);
        let now_ns = || start.elapsed().as_nanos() as u64;
        let invoke_ns = now_ns();
        let result = execute(&mut connection, &commands);
        let end = match result {
            Ok(replies) => {
                answered.fetch_add(1, Ordering::Relaxed);
                End::Answered { at_ns: now_ns(), replies }
            }
            // "Nothing was changed": it must be true.
            Err(error) if error.code() == Some("TRYAGAIN") => End::Failed { at_ns: now_ns() },
            Err(error) => {
                if error.code() != Some("UNKNOWN") {
                    n_lost += 1;
                    connection = access.connect(n_lost);
                }
                End::Unknown
            }
        };
        ops.push(Op { client: id, invoke_ns, commands, end });
        std::thread::sleep(Duration::from_micros(rng.below(PAUSE_US_MAX)));
    }
    ops
}

fn next_commands(rng: &mut Rng, client: u64, n: u64) -> Vec<Command> {
    let value = format!("{client}.{n}").into_bytes();
    if rng.below(16) == 0 {
        let both = [Action::Set(value.clone()), Action::Get];
        return both.into_iter().zip(["t1", "t2"]).map(|(a, key)| Command::new(key, a)).collect();
    }
    let key = format!("k{}", rng.below(6));
    let counter = format!("n{}", rng.below(3));
    vec![match rng.below(12) {
        0..4 => Command::new(key, Action::Get),
        4..6 => Command::new(key, Action::Set(value)),
        6 => Command::new(key, Action::Swap(value)),
        7 => Command::new(key, Action::Cas { expect: None, value }),
        8 => Command::new(key, Action::Delete),
        9 => Command::new(counter, Action::Get),
        _ => Command::new(counter, Action::Incr(1)),
    }]
}

fn execute(
    connection: &mut redis::Connection,
    commands: &[Command],
) -> Result<Vec<Reply>, RedisError> {
    let mut pipeline = redis::pipe();
    for Command { key, action } in commands {
        match action {
            Action::Get => pipeline.get(key),
            Action::Set(value) => pipeline.set(key, value),
            Action::Swap(value) => pipeline.cmd("GETSET").arg(key).arg(value),
            Action::Cas { value, .. } => pipeline.set_nx(key, value),
            Action::Delete => pipeline.del(key),
            Action::Incr(by) => pipeline.incr(key, *by),
            Action::Append(value) => pipeline.append(key, value),
        };
    }
    if commands.len() > 1 {
        pipeline.atomic();
    }
    let values: Vec<Value> = pipeline.query(connection)?;
    Ok(commands.iter().zip(values).map(|(command, value)| reply(&command.action, value)).collect())
}

fn reply(action: &Action, value: Value) -> Reply {
    match (action, value) {
        (Action::Get | Action::Swap(_), Value::Nil) => Reply::Value(None),
        (Action::Get | Action::Swap(_), Value::BulkString(bytes)) => Reply::Value(Some(bytes)),
        (Action::Set(_), Value::Okay) => Reply::Ok,
        (Action::Cas { .. } | Action::Delete, Value::Int(n)) => Reply::Done(n == 1),
        (Action::Incr(_) | Action::Append(_), Value::Int(n)) => Reply::Number(n),
        (action, value) => panic!("{action:?} answered {value:?}"),
    }
}
