//! SET and GET as a client sees them: a real `gregale up` and its peers, in turn, never at once.

mod durable;
pub(crate) mod load;
mod server;

pub use durable::report as durable_report;
pub use server::Peer;

use crate::cluster::{Cluster, Fabric, Plan};
use crate::group::Error;
use crate::pipeline::Told;
use crate::resp;
use crate::run::{self, Effort};
use load::{CLIENTS, VALUE_BYTES};
use proto::table::{self, Ordering};
use report::figure::{Axis, FigureError};
use report::{Progress, Report, Row, figure, median_rows};
use server::{Etcd, Redis, build_etcdload, temporary};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The requests of one client that are under way at once.
const PIPELINES: [usize; 2] = [1, 16];
const OPS: [&str; 2] = ["SET", "GET"];
/// The keys of a load on registers that are kept each by itself.
const MANY_KEYS: u64 = 100_000;
/// The clients of etcd: here it is fastest with the second number; the first is that of the others.
const ETCD_CLIENTS: [usize; 2] = [CLIENTS, 256];
/// The approximate speed of a fast server, which turns a time into a number of requests.
const PER_S_GUESS: [u64; 2] = [100_000, 1_000_000];

/// The settings of a comparison.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The `gregale` to start.
    pub gregale: PathBuf,
    /// Our own fabrics.
    pub fabrics: Vec<Fabric>,
    /// Our own protocols, by their promises.
    pub protocols: Vec<&'static table::Row>,
    /// The peers.
    pub against: Vec<Peer>,
    /// The directory of synced data; without it, beside the program.
    pub data: Option<PathBuf>,
}

impl Setting {
    /// Each protocol on each fabric that it runs on.
    ///
    /// # Errors
    /// A protocol does not give that durability, or runs on none of the fabrics.
    fn chosen(&self, durability: &str) -> Result<Vec<(Fabric, &'static table::Row)>, Error> {
        let mut chosen = Vec::new();
        for row in &self.protocols {
            if !row.durability.contains(&durability) {
                let given = row.durability.join(", ");
                let text = format!("{} gives {given}: say --durability", row.name);
                return Err(Error::Peer(text));
            }
            let runs = |fabric: &&Fabric| row.fabrics.contains(&fabric.name());
            let before = chosen.len();
            chosen.extend(self.fabrics.iter().filter(runs).map(|fabric| (*fabric, *row)));
            if chosen.len() == before {
                let (name, fabrics) = (row.name, row.fabrics.join(", "));
                return Err(Error::Peer(format!("{name} runs on {fabrics}: say --fabric")));
            }
        }
        Ok(chosen)
    }
}

/// Refuses a peer that makes another promise, which would be no comparison.
fn refuse(setting: &Setting, fits: impl Fn(Peer) -> bool, why: &str) -> Result<(), Error> {
    match setting.against.iter().find(|peer| !fits(**peer)) {
        Some(peer) => Err(Error::Peer(format!("--against {}: it {why}", peer.name()))),
        None => Ok(()),
    }
}

/// Measures everything, with all servers in turn in every run.
///
/// # Errors
/// [`Error`].
pub fn report(setting: &Setting, effort: &Effort) -> Result<Report, Error> {
    refuse(
        setting,
        |peer| peer != Peer::RedisAof,
        "syncs every write: say --durability disk-quorum",
    )?;
    let etcdload = setting.against.contains(&Peer::Etcd).then(build_etcdload).transpose()?;
    let chosen = setting.chosen("memory-quorum")?;
    let turns = chosen.len() + setting.against.len();
    let mut progress = Progress::new("kv", u64::from(effort.runs) * turns as u64);
    let mut done = 0;
    let mut turn = |name: &str| {
        progress.set(done, name);
        done += 1;
    };
    let mut runs = Vec::new();
    for _ in 0..effort.runs {
        let mut rows = Vec::new();
        for (fabric, protocol) in &chosen {
            turn(&format!("{} {}", protocol.name, fabric.name()));
            rows.extend(ours(&setting.gregale, *fabric, protocol, effort.span)?);
        }
        for peer in &setting.against {
            turn(peer.name());
            rows.extend(theirs(*peer, etcdload.as_deref(), effort.span)?);
        }
        runs.push(rows);
    }
    let rows = median_rows(&runs);
    Ok(run::report("kv", effort.runs, compare(&rows)))
}

fn row(server: &str, op: &str, pipeline: usize, clients: usize, told: &Told) -> Row {
    Row::new(format!("{op} -P {pipeline}"))
        .with("server", server)
        .with("clients", clients)
        .with("pipeline", pipeline)
        .with("value_bytes", VALUE_BYTES)
        .with("per_s", told.per_s)
        .with("p50_ns", told.p50_ns)
        .with("p99_ns", told.p99_ns)
}

/// A load by redis-benchmark.
#[derive(Clone, Copy, Debug)]
struct Load {
    op: &'static str,
    pipeline: usize,
    /// The requests a second of a fast server.
    guess: u64,
    /// All requests are at so many.
    keys: u64,
}

impl Load {
    /// SET and GET with each pipeline.
    fn all(keys: u64) -> impl Iterator<Item = Load> {
        let pipelines = PIPELINES.into_iter().zip(PER_S_GUESS);
        let of = move |(pipeline, guess)| OPS.map(|op| Load { op, pipeline, guess, keys });
        pipelines.flat_map(of)
    }

    fn run(&self, server: &str, port: u16, span: Duration) -> Result<Row, Error> {
        let Load { op, pipeline, guess, keys } = *self;
        let requests = (guess as f64 * span.as_secs_f64()) as u64;
        // The first run on a fresh server is not counted.
        load::redis_benchmark(port, op, pipeline, requests / 10, keys)?;
        let told = load::redis_benchmark(port, op, pipeline, requests, keys)?;
        let op = if keys > 1 { format!("{op} of {keys} keys") } else { op.to_owned() };
        Ok(row(server, &op, pipeline, CLIENTS, &told))
    }
}

/// SET and GET with each pipeline, all requests at one key.
fn benchmark(server: &str, port: u16, span: Duration) -> Result<Vec<Row>, Error> {
    Load::all(1).map(|load| load.run(server, port, span)).collect()
}

/// Does `run` with each load at `keys` keys. All of them are there: a GET of a key that is not is
/// cheaper, and no row says so.
fn of_keys<T>(
    port: u16,
    keys: u64,
    run: impl FnMut(Load) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    resp::fill(port, keys, VALUE_BYTES)?;
    Load::all(keys).map(run).collect()
}

fn ours(
    gregale: &Path,
    fabric: Fabric,
    protocol: &'static table::Row,
    span: Duration,
) -> Result<Vec<Row>, Error> {
    let cluster = Cluster::start_as(&Plan {
        gregale: gregale.to_owned(),
        fabric,
        protocol: Some(protocol),
        data: None,
        snapshot_log_bytes: None,
        program: None,
    })?;
    let servers: &[(&str, Option<bool>)] = match protocol.ordering {
        Ordering::LeaderTotal => &[("the leader", Some(true)), ("a follower", Some(false))],
        Ordering::Versions | Ordering::RoundRobin | Ordering::Timestamps => &[("a member", None)],
    };
    let mut rows = Vec::new();
    for (server, leads) in servers {
        let at = |work: &mut dyn FnMut(u16) -> Result<Vec<Row>, Error>| {
            let (rows, voided) = match leads {
                Some(true) => cluster.at_leader(work)?,
                Some(false) => cluster.at_follower(work)?,
                None => (work(cluster.all_ports().start)?, 0),
            };
            Ok(rows.into_iter().map(|row| row.with("voided", voided)).collect::<Vec<_>>())
        };
        let one = |load: Load| at(&mut |port| Ok(vec![load.run(server, port, span)?]));
        let mut all: Vec<Vec<Row>> = Load::all(1).map(one).collect::<Result<_, _>>()?;
        if protocol.ordering == Ordering::Versions {
            // Requests at one key wait for each other, those at different keys do not.
            all.extend(of_keys(cluster.all_ports().start, MANY_KEYS, one)?);
        }
        all.push(at(&mut |port| load::mixed(server, port, span))?);
        for row in all.into_iter().flatten() {
            rows.push(
                row.with("fabric", fabric.name())
                    .with("protocol", protocol.name)
                    .with("durability", "memory-quorum")
                    .with("members", cluster.members()),
            );
        }
    }
    Ok(rows)
}

fn theirs(peer: Peer, etcdload: Option<&Path>, span: Duration) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    match peer {
        Peer::Redis => {
            let redis = Redis::start(0)?;
            rows = benchmark(peer.name(), redis.port, span)?;
            rows.extend(load::mixed(peer.name(), redis.port, span)?);
        }
        Peer::RedisWait2 => {
            let redis = Redis::start(2)?;
            for pipeline in PIPELINES {
                load::set_and_wait(redis.port, pipeline, 2, span / 10)?;
                let told = load::set_and_wait(redis.port, pipeline, 2, span)?;
                rows.push(row(peer.name(), "SET", pipeline, CLIENTS, &told));
            }
        }
        Peer::RedisAof => unreachable!("refused above"),
        Peer::Etcd => {
            let etcd = Etcd::start(temporary()?)?;
            let tool = etcdload.expect("it was built for this peer");
            for clients in ETCD_CLIENTS {
                for (op, name) in [("put", "SET"), ("get", "GET")] {
                    let told = etcd.load(tool, op, clients, VALUE_BYTES, span)?;
                    rows.push(row(peer.name(), name, 1, clients, &told));
                }
            }
        }
    }
    Ok(rows)
}

/// Our rows, once for each peer that did the same, whose numbers stand beside ours.
fn compare(rows: &[Row]) -> Vec<Row> {
    let text = |row: &Row, name: &str| row.get(name).cloned();
    let is_ours = |row: &&Row| row.get("fabric").is_some();
    let mut out = Vec::new();
    for ours in rows.iter().filter(is_ours) {
        let same = |peer: &&Row| peer.case() == ours.case();
        let mut compared = false;
        for peer in rows.iter().filter(|row| !is_ours(row)).filter(same) {
            let is_etcd = text(peer, "server") == Some("etcd".into());
            compared = true;
            let mut row = ours.clone();
            let server = match (text(peer, "server"), peer.number("clients")) {
                (Some(report::Value::Text(name)), Some(clients)) if is_etcd => {
                    format!("{name}, {clients} clients")
                }
                (Some(report::Value::Text(name)), _) => name,
                _ => String::new(),
            };
            row.set("peer", server);
            let per_s = |row: &Row| row.number("per_s").unwrap_or(f64::NAN);
            row.set("peer_per_s", per_s(peer));
            row.set("peer_p50_ns", peer.number("p50_ns").unwrap_or(f64::NAN));
            row.set("peer_p99_ns", peer.number("p99_ns").unwrap_or(f64::NAN));
            row.set("ratio", per_s(ours) / per_s(peer));
            out.push(row);
        }
        if !compared {
            out.push(ours.clone());
        }
    }
    out
}

/// The throughput of all servers, in groups by command and pipeline.
///
/// # Errors
/// [`FigureError`].
pub fn picture(report: &Report) -> Result<String, FigureError> {
    picture_of(report, &format!("{CLIENTS} clients, {VALUE_BYTES} B values"))
}

/// The throughput with logs on disk.
///
/// # Errors
/// [`FigureError`].
pub fn durable_picture(report: &Report) -> Result<String, FigureError> {
    let title = format!("Synced to disk before it is acknowledged, {VALUE_BYTES} B values");
    picture_of(report, &title)
}

fn picture_of(report: &Report, title: &str) -> Result<String, FigureError> {
    let text = |row: &Row, name: &str| match row.get(name) {
        Some(report::Value::Text(text)) => text.clone(),
        _ => String::new(),
    };
    let mut groups: Vec<String> = Vec::new();
    let mut series: Vec<(String, Vec<(String, f64)>)> = Vec::new();
    let mut put = |name: String, group: &str, per_s: Option<f64>| {
        let Some(per_s) = per_s else { return };
        if !groups.iter().any(|present| present == group) {
            groups.push(group.to_owned());
        }
        let at = series.iter().position(|(present, _)| *present == name).unwrap_or_else(|| {
            series.push((name, Vec::new()));
            series.len() - 1
        });
        series[at].1.push((group.to_owned(), per_s));
    };
    let protocols: BTreeSet<String> = report.rows.iter().map(|row| text(row, "protocol")).collect();
    for row in &report.rows {
        let mut ours = format!("{}, {}", text(row, "fabric"), text(row, "server"));
        if protocols.len() > 1 {
            ours = format!("{} {ours}", text(row, "protocol"));
        }
        put(ours, row.case(), row.number("per_s"));
        put(text(row, "peer"), row.case(), row.number("peer_per_s"));
    }
    let bars: Vec<(String, Vec<f64>)> = series
        .into_iter()
        .map(|(name, points)| {
            let of = |group: &String| points.iter().find(|(at, _)| at == group);
            let heights = groups.iter().map(|group| of(group).map_or(f64::NAN, |(_, n)| *n));
            (name, heights.collect())
        })
        .collect();
    figure::bars(title, &Axis::log("commands per s"), &groups, &bars)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::registry;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::{Arc, Mutex};

    #[test]
    fn each_protocol_is_measured_where_it_runs_and_refused_where_it_runs_nowhere() {
        let setting = |fabrics: &[Fabric]| Setting {
            gregale: "gregale".into(),
            fabrics: fabrics.to_vec(),
            protocols: registry::rows().collect(),
            against: vec![],
            data: None,
        };
        let all = setting(&[Fabric::Shm, Fabric::Tcp]);
        for row in &all.protocols {
            let one = Setting { protocols: vec![row], ..all.clone() };
            for durability in ["memory-quorum", "disk-quorum"] {
                let chosen = one.chosen(durability);
                match row.durability.contains(&durability) {
                    true => assert!(!chosen.expect("it runs").is_empty(), "{}", row.name),
                    false => assert!(chosen.unwrap_err().to_string().contains(row.durability[0])),
                }
            }
        }
        let nowhere = Setting {
            protocols: vec![table::protocol("mu").expect("listed")],
            ..setting(&[Fabric::Shm])
        };
        assert!(nowhere.chosen("memory-quorum").unwrap_err().to_string().contains("tcp"));
    }

    /// A server that answers every SET of a value of [`VALUE_BYTES`] bytes, and notes its key.
    fn noting() -> (u16, Arc<Mutex<Vec<Vec<u8>>>>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let keys = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&keys);
        std::thread::spawn(move || {
            let head = b"*3\r\n$3\r\nSET\r\n$16\r\n".len();
            let frame = head + 16 + b"\r\n$32\r\n".len() + VALUE_BYTES + b"\r\n".len();
            for mut stream in listener.incoming().flatten() {
                let noted = Arc::clone(&noted);
                std::thread::spawn(move || {
                    let mut bytes = vec![0; frame];
                    while stream.read_exact(&mut bytes).is_ok() {
                        let key = bytes[head..head + 16].to_vec();
                        noted.lock().expect("no panic").push(key);
                        if stream.write_all(b"+OK\r\n").is_err() {
                            break;
                        }
                    }
                });
            }
        });
        (port, keys)
    }

    #[test]
    fn each_of_many_keys_is_there_before_the_first_load() {
        let (port, noted) = noting();
        let keys = 200;
        let run = |load: Load| {
            let there: BTreeSet<_> = noted.lock().expect("no panic").iter().cloned().collect();
            Ok((load.op, there.len() as u64))
        };
        let loads = of_keys(port, keys, run).expect("it answers");
        let expected = OPS.map(|op| (op, keys));
        assert_eq!(loads, [expected, expected].concat());
        assert_eq!(noted.lock().expect("no panic").len() as u64, keys, "once each");
    }

    #[test]
    fn each_of_ours_stands_beside_each_peer_that_did_the_same() {
        let told = |per_s| Told { per_s, p50_ns: 1.0, p99_ns: 2.0 };
        let ours = row("the leader", "SET", 1, 50, &told(80.0)).with("fabric", "shm");
        let piped = row("the leader", "SET", 16, 50, &told(500.0)).with("fabric", "shm");
        let rows = [
            ours,
            piped,
            row("redis", "SET", 1, 50, &told(100.0)),
            row("etcd", "SET", 1, 256, &told(10.0)),
            row("redis", "GET", 1, 50, &told(100.0)),
        ];
        let compared = compare(&rows);
        let ratios: Vec<_> = compared.iter().map(|row| row.number("ratio")).collect();
        assert_eq!(ratios, [Some(0.8), Some(8.0), None]);
        assert_eq!(compared[1].get("peer"), Some(&"etcd, 256 clients".into()));
    }
}
