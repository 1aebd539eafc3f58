//! From nothing to service: every process of a durable cluster is killed, and the cluster is
//! started again.
//!
//! The clock runs from the start of `gregale up` until every member serves and has answered a count
//! of its keys, which is a read that has to be right. *warm*: the kernel still has the files in
//! memory, as after a crash of the processes. *cold*: it does not, as after a power cut. The floor
//! is a single reader that reads every file of the three members in the same state of the cache.

use crate::cluster::{Cluster, Fabric, Plan};
use crate::disk::{Place, forget_cached, read_all, size_of};
use crate::group::Error;
use crate::resp::{KEY_BYTES, fill, wait_for_keys};
use crate::run;
use report::{Progress, Report, Row, median};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The size of values.
const VALUE_BYTES: usize = 1024;
/// The time after its start of service within which a member must answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The disk space per byte of state: three members, each with a log and up to three snapshots at
/// once.
const DISK_PER_STATE: u64 = 3 * 5;

/// The settings of a restart.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The `gregale` to start.
    pub gregale: PathBuf,
    /// The providers.
    pub fabrics: Vec<Fabric>,
    /// The bytes of keys and values.
    pub state_bytes: u64,
    /// The directory of data; without it, beside the program.
    pub data: Option<PathBuf>,
}

/// The state of the cache before a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cache {
    Warm,
    Cold,
}

impl Cache {
    const fn name(self) -> &'static str {
        match self {
            Cache::Warm => "warm",
            Cache::Cold => "cold",
        }
    }
}

/// The times of one restart.
#[derive(Clone, Copy, Debug)]
struct Took {
    ready_ns: f64,
    restart_ns: f64,
    floor_ns: f64,
}

/// Restarts `runs` times for each kind; reports medians.
///
/// # Errors
/// [`Error`]: also if a member has lost keys.
pub fn report(setting: &Setting, runs: u32) -> Result<Report, Error> {
    let place = Place::new(setting.data.as_deref(), &setting.gregale)?;
    place.require(setting.state_bytes.saturating_mul(DISK_PER_STATE))?;
    let total = setting.fabrics.len() as u64 * (1 + 2 * u64::from(runs));
    let mut progress = Progress::new("restart", total);
    let (mut rows, mut done) = (Vec::new(), 0);
    for fabric in &setting.fabrics {
        progress.set(done, "fill");
        let data = place.fresh()?;
        let plan = Plan {
            gregale: setting.gregale.clone(),
            fabric: *fabric,
            protocol: None,
            data: Some(data.path().to_owned()),
            snapshot_log_bytes: None,
            program: None,
        };
        let n_keys = (setting.state_bytes / (KEY_BYTES + VALUE_BYTES) as u64).max(1);
        let mut cluster = Cluster::start_as(&plan)?;
        cluster.at_leader(|port| fill(port, n_keys, VALUE_BYTES))?;
        done += 1;
        let mut took = [(Cache::Warm, Vec::new()), (Cache::Cold, Vec::new())];
        for _ in 0..runs {
            for (cache, times) in &mut took {
                progress.set(done, cache.name());
                let (next, time) = restart(cluster, &plan, data.path(), *cache, n_keys)?;
                cluster = next;
                times.push(time);
                done += 1;
            }
        }
        let disk_bytes = size_of(data.path())?;
        for (cache, times) in took {
            let of = |value: fn(&Took) -> f64| {
                let values: Vec<f64> = times.iter().map(value).collect();
                (median(&values).unwrap_or(f64::NAN), values.into_iter().fold(f64::NAN, f64::max))
            };
            let (restart, longest) = of(|took| took.restart_ns);
            rows.push(
                Row::new(cache.name())
                    .with("fabric", fabric.name())
                    .with("protocol", plan.protocol())
                    .with("durability", plan.durability())
                    .with("members", cluster.members())
                    .with("state_bytes", setting.state_bytes)
                    .with("value_bytes", VALUE_BYTES)
                    .with("keys", n_keys)
                    .with("disk_bytes", disk_bytes)
                    .with("ready_ns", of(|took| took.ready_ns).0)
                    .with("restart_ns", restart)
                    .with("restart_max_ns", longest)
                    .with("floor_read_ns", of(|took| took.floor_ns).0),
            );
        }
    }
    Ok(run::report("restart", runs, rows))
}

fn restart(
    cluster: Cluster,
    plan: &Plan,
    data: &Path,
    cache: Cache,
    n_keys: u64,
) -> Result<(Cluster, Took), Error> {
    let port = cluster.kill()?;
    if cache == Cache::Cold {
        forget_cached(data)?;
    }
    let began = Instant::now();
    read_all(data)?;
    let floor = began.elapsed();
    if cache == Cache::Cold {
        forget_cached(data)?;
    }
    let began = Instant::now();
    let cluster = Cluster::start_at(plan, port)?;
    let ready = began.elapsed();
    for port in cluster.all_ports() {
        wait_for_keys(port, n_keys, PATIENCE)?;
    }
    let ns = |time: Duration| time.as_nanos() as f64;
    let (ready_ns, restart_ns, floor_ns) = (ns(ready), ns(began.elapsed()), ns(floor));
    Ok((cluster, Took { ready_ns, restart_ns, floor_ns }))
}
