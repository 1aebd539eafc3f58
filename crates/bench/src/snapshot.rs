//! The cost of snapshots for clients: the same SETs on a cluster that takes snapshots, and on one
//! that never does.
//!
//! A snapshot is taken whenever as much was logged as the state has: the usual proportion of a
//! large state. The load is as long as several snapshots, and they are counted: a load that met
//! none is an error and not a result.

use crate::cluster::{Cluster, Fabric, Plan};
use crate::disk::Place;
use crate::group::Error;
use crate::kv::load::Sets;
use crate::pipeline::Told;
use crate::resp::{KEY_BYTES, fill};
use crate::run;
use report::{Progress, Report, Row, median_rows};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The size of values.
const VALUE_BYTES: usize = 1024;
/// The clients, and the requests of each that are under way at once.
const LOADS: [(usize, usize); 2] = [(64, 1), (64, 16)];
/// The length of a load, in snapshots.
const SNAPSHOTS: u64 = 4;
/// The volume of a log that no load reaches.
const NEVER_BYTES: u64 = 1 << 62;
/// The interval at which the directories are checked: snapshots are far rarer, and two are kept.
const LOOK: Duration = Duration::from_millis(10);
/// The disk space per byte of state: three members, each with up to three snapshots at once, and
/// the log of a cluster without any.
const DISK_PER_STATE: u64 = 3 * (3 + 2 * (SNAPSHOTS + 1) * LOADS.len() as u64);

/// The settings of a measurement.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The `gregale` to start.
    pub gregale: PathBuf,
    /// The providers.
    pub fabrics: Vec<Fabric>,
    /// The bytes of keys and values, and of log between two snapshots.
    pub state_bytes: u64,
    /// The directory of data; without it, beside the program.
    pub data: Option<PathBuf>,
}

/// Measures both clusters in turn in every run.
///
/// # Errors
/// [`Error`].
pub fn report(setting: &Setting, runs: u32) -> Result<Report, Error> {
    let place = Place::new(setting.data.as_deref(), &setting.gregale)?;
    place.require(setting.state_bytes.saturating_mul(DISK_PER_STATE))?;
    let mut progress =
        Progress::new("snapshot", setting.fabrics.len() as u64 * 2 * u64::from(runs));
    let (mut all, mut done) = (Vec::new(), 0);
    for _ in 0..runs {
        let mut rows = Vec::new();
        for fabric in &setting.fabrics {
            progress.set(done, "without snapshots");
            let without = measure(setting, *fabric, &place, NEVER_BYTES)?;
            progress.set(done + 1, "with snapshots");
            let with = measure(setting, *fabric, &place, setting.state_bytes)?;
            done += 2;
            for ((load, with), without) in LOADS.into_iter().zip(with).zip(without) {
                rows.push(row(setting, *fabric, load, &with, &without)?);
            }
        }
        all.push(rows);
    }
    let mut rows = median_rows(&all);
    for row in &mut rows {
        let number = |name: &str| row.number(name).unwrap_or(f64::NAN);
        row.set("ratio", number("per_s") / number("peer_per_s"));
    }
    Ok(run::report("snapshot", runs, rows))
}

/// One load on one cluster.
#[derive(Clone, Copy, Debug)]
struct Loaded {
    told: Told,
    /// The number of snapshots of all members.
    snapshots: usize,
    /// The number of times that the load was begun again: `Cluster::at_leader`.
    voided: u32,
}

fn row(
    setting: &Setting,
    fabric: Fabric,
    (clients, pipeline): (usize, usize),
    with: &Loaded,
    without: &Loaded,
) -> Result<Row, Error> {
    if with.snapshots == 0 || without.snapshots > 0 {
        return Err(Error::Peer(format!(
            "{} snapshots were taken where some were expected, and {} where none were: \
             a larger --state gives them time",
            with.snapshots, without.snapshots
        )));
    }
    Ok(Row::new(format!("SET -P {pipeline}"))
        .with("fabric", fabric.name())
        .with("durability", "disk-quorum")
        .with("clients", clients)
        .with("pipeline", pipeline)
        .with("value_bytes", VALUE_BYTES)
        .with("state_bytes", setting.state_bytes)
        .with("snapshots", with.snapshots)
        .with("voided", with.voided + without.voided)
        .with("per_s", with.told.per_s)
        .with("p50_ns", with.told.p50_ns)
        .with("p99_ns", with.told.p99_ns)
        .with("peer", "without snapshots")
        .with("peer_per_s", without.told.per_s)
        .with("peer_p50_ns", without.told.p50_ns)
        .with("peer_p99_ns", without.told.p99_ns))
}

/// Fills a new cluster and measures each load.
fn measure(
    setting: &Setting,
    fabric: Fabric,
    place: &Place,
    snapshot_log_bytes: u64,
) -> Result<Vec<Loaded>, Error> {
    let data = place.fresh()?;
    let plan = Plan {
        gregale: setting.gregale.clone(),
        fabric,
        protocol: None,
        data: Some(data.path().to_owned()),
        snapshot_log_bytes: Some(snapshot_log_bytes),
        program: None,
    };
    let cluster = Cluster::start_as(&plan)?;
    let entry_bytes = (KEY_BYTES + VALUE_BYTES) as u64;
    let keys = (setting.state_bytes / entry_bytes).max(2);
    cluster.at_leader(|port| fill(port, keys, VALUE_BYTES))?;
    let requests = SNAPSHOTS * setting.state_bytes / entry_bytes;
    let mut loaded = Vec::new();
    for (clients, pipeline) in LOADS {
        let sets = Sets { clients, pipeline, value_bytes: VALUE_BYTES, keys };
        let load = |port| counting(data.path(), || sets.run(port, requests));
        let ((told, snapshots), voided) = cluster.at_leader(load)?;
        loaded.push(Loaded { told, snapshots, voided });
    }
    Ok(loaded)
}

/// Does `work` and counts the snapshots that members finish meanwhile.
fn counting<T>(data: &Path, work: impl FnOnce() -> Result<T, Error>) -> Result<(T, usize), Error> {
    let before = snapshots(data);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut seen = BTreeSet::new();
            while !is_done.load(Ordering::Acquire) {
                seen.extend(snapshots(data));
                std::thread::sleep(LOOK);
            }
            seen.extend(snapshots(data));
            seen
        });
        let worked = work();
        is_done.store(true, Ordering::Release);
        let failed = |_| Error::Peer("a thread of the benchmark panicked".to_owned());
        let seen = watch.join().map_err(failed)?;
        Ok((worked?, seen.difference(&before).count()))
    })
}

/// The finished snapshots of all members, by member and file.
fn snapshots(data: &Path) -> BTreeSet<(OsString, OsString)> {
    // A file that cannot be read was removed meanwhile.
    let names = |path: &Path| {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name()).collect::<Vec<_>>()
    };
    let is_finished =
        |name: &OsString| name.to_str().is_some_and(|name| storage::snapshot::slot(name).is_some());
    let mut found = BTreeSet::new();
    for member in names(data) {
        let files = names(&data.join(&member)).into_iter().filter(is_finished);
        found.extend(files.map(|file| (member.clone(), file)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finished_snapshots_are_counted() {
        let data = tempfile::tempdir().expect("a directory");
        let member = data.path().join("member-1");
        std::fs::create_dir(&member).expect("made");
        let write = |name: &str| std::fs::write(member.join(name), b"").expect("written");
        write("snapshot-0000000000000001");
        let counted = counting(data.path(), || {
            write("snapshot-0000000000000002");
            write("snapshot-0000000000000003.unfinished");
            write("log-00000001");
            Ok("done")
        });
        assert_eq!(counted.expect("nothing fails"), ("done", 1));
    }

    #[test]
    fn a_load_without_snapshots_is_no_result() {
        let setting =
            Setting { gregale: "gregale".into(), fabrics: vec![], state_bytes: 1, data: None };
        let told = Told { per_s: 1.0, p50_ns: 1.0, p99_ns: 1.0 };
        let loaded = |snapshots| Loaded { told, snapshots, voided: 0 };
        let row =
            |with, without| row(&setting, Fabric::Shm, (64, 1), &loaded(with), &loaded(without));
        assert!(row(3, 0).is_ok());
        assert!(row(0, 0).is_err() && row(3, 1).is_err());
    }
}
