//! SETs that are on disk before they are acknowledged: our logs beside other servers' on one disk,
//! and beside the disk's own time for a record.

use super::load::{Sets, VALUE_BYTES, mixed};
use super::server::{Etcd, Peer, Redis, build_etcdload};
use super::{Setting, refuse};
use crate::cluster::{Cluster, Fabric, Plan};
use crate::disk::Place;
use crate::group::Error;
use crate::pipeline::Told;
use crate::run::{self, Effort};
use proto::table;
use report::{Progress, Report, Row, median_rows};
use std::path::Path;

/// The clients, and the requests of each that are under way at once.
const LOADS: [(usize, usize); 4] = [(1, 1), (64, 1), (256, 1), (64, 16)];
/// The size of keys, the same for all servers; each client of etcd has a key of its own.
const KEY_BYTES: usize = 8;

fn sets(clients: usize, pipeline: usize) -> Sets {
    Sets { clients, pipeline, value_bytes: VALUE_BYTES, keys: 1 }
}

/// Measures everything, with all servers in turn in every run.
///
/// # Errors
/// [`Error`].
pub fn report(setting: &Setting, effort: &Effort) -> Result<Report, Error> {
    refuse(setting, Peer::is_on_disk, "keeps nothing on disk: use etcd or redis-aof")?;
    let place = Place::new(setting.data.as_deref(), &setting.gregale)?;
    let etcdload = setting.against.contains(&Peer::Etcd).then(build_etcdload).transpose()?;
    let chosen = setting.chosen("disk-quorum")?;
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
            rows.extend(ours(&setting.gregale, *fabric, protocol, &place, effort)?);
        }
        for peer in &setting.against {
            turn(peer.name());
            rows.extend(theirs(*peer, etcdload.as_deref(), &place, effort)?);
        }
        runs.push(rows);
    }
    Ok(run::report("kv-disk-quorum", effort.runs, compare(&median_rows(&runs))))
}

fn row(server: &str, clients: usize, pipeline: usize, told: &Told) -> Row {
    let case = match pipeline {
        1 => format!("SET, {clients} clients"),
        _ => format!("SET, {clients} clients, -P {pipeline}"),
    };
    Row::new(case)
        .with("server", server)
        .with("clients", clients)
        .with("pipeline", pipeline)
        .with("key_bytes", KEY_BYTES)
        .with("value_bytes", VALUE_BYTES)
        .with("per_s", told.per_s)
        .with("p50_ns", told.p50_ns)
        .with("p99_ns", told.p99_ns)
}

fn ours(
    gregale: &Path,
    fabric: Fabric,
    protocol: &'static table::Row,
    place: &Place,
    effort: &Effort,
) -> Result<Vec<Row>, Error> {
    let data = place.fresh()?;
    let plan = Plan {
        gregale: gregale.to_owned(),
        fabric,
        protocol: Some(protocol),
        data: Some(data.path().to_owned()),
        snapshot_log_bytes: None,
        program: None,
    };
    let cluster = Cluster::start_as(&plan)?;
    // The cluster is idle: the floor is the disk's alone.
    let floor_ns = place.floor_fdatasync_ns(effort)?;
    let mut rows = Vec::new();
    for (clients, pipeline) in LOADS {
        let load = |port| sets(clients, pipeline).run_for(port, effort.span);
        let (told, voided) = cluster.at_leader(load)?;
        // The median since the cluster began, which is that of this load where it is the first.
        let batch_ns = if clients == 1 { Some(cluster.batch_p50_ns()?) } else { None };
        rows.push(
            row("the leader", clients, pipeline, &told)
                .with("fabric", fabric.name())
                .with("protocol", plan.protocol())
                .with("durability", plan.durability())
                .with("members", cluster.members())
                .with("voided", voided)
                .with("floor_fdatasync_ns", floor_ns)
                .with("batch_p50_ns", batch_ns.unwrap_or(f64::NAN)),
        );
    }
    let load = |server| move |port| mixed(server, port, effort.span);
    for (mixed_rows, voided) in
        [cluster.at_leader(load("the leader"))?, cluster.at_follower(load("a follower"))?]
    {
        rows.extend(mixed_rows.into_iter().map(|row| {
            row.with("fabric", fabric.name())
                .with("protocol", plan.protocol())
                .with("durability", plan.durability())
                .with("members", cluster.members())
                .with("voided", voided)
        }));
    }
    Ok(rows)
}

fn theirs(
    peer: Peer,
    etcdload: Option<&Path>,
    place: &Place,
    effort: &Effort,
) -> Result<Vec<Row>, Error> {
    let directory = place.fresh()?;
    let mut rows = Vec::new();
    match peer {
        Peer::RedisAof => {
            let redis = Redis::start_synced(directory)?;
            for (clients, pipeline) in LOADS {
                let told = sets(clients, pipeline).run_for(redis.port, effort.span)?;
                rows.push(row(peer.name(), clients, pipeline, &told));
            }
            rows.extend(mixed(peer.name(), redis.port, effort.span)?);
            if !redis.has_log() {
                return Err(Error::Peer("redis-server has written no log".to_owned()));
            }
        }
        Peer::Etcd => {
            let etcd = Etcd::start(directory)?;
            let tool = etcdload.expect("it was built for this peer");
            for (clients, _) in LOADS.into_iter().filter(|(_, pipeline)| *pipeline == 1) {
                let told = etcd.load(tool, "put", clients, VALUE_BYTES, effort.span)?;
                rows.push(row(peer.name(), clients, 1, &told));
            }
        }
        Peer::Redis | Peer::RedisWait2 => unreachable!("refused above"),
    }
    Ok(rows)
}

/// Our rows beside each peer with as many clients. etcd has no pipeline: a pipelining client is
/// compared with etcd's clients that wait for each answer, which is etcd's only alternative.
fn compare(rows: &[Row]) -> Vec<Row> {
    let number = |row: &Row, name: &str| row.number(name).unwrap_or(f64::NAN);
    let is_ours = |row: &&Row| row.get("fabric").is_some();
    let mut out = Vec::new();
    for ours in rows.iter().filter(is_ours) {
        let mut ours = ours.clone();
        if ours.get("floor_fdatasync_ns").is_some() && number(&ours, "clients") == 1.0 {
            let floor_ns = number(&ours, "floor_fdatasync_ns");
            let over = |name| number(&ours, name) / floor_ns;
            let (batch, all) = (over("batch_p50_ns"), over("p50_ns"));
            ours.set("batch_over_floor", batch);
            ours.set("p50_over_floor", all);
        }
        let mut compared = false;
        for peer in rows.iter().filter(|row| !is_ours(row)) {
            let Some(report::Value::Text(name)) = peer.get("server") else { continue };
            let same = |name: &str| number(peer, name) == number(&ours, name);
            let is_mixed = |row: &Row| row.get("sets_per_s").is_some();
            if is_mixed(&ours) != is_mixed(peer) {
                continue;
            }
            let waits = name == Peer::Etcd.name() && !same("pipeline");
            if !same("clients") || !(same("pipeline") || waits) {
                continue;
            }
            compared = true;
            let mut row = ours.clone();
            row.set("peer", if waits { format!("{name}, -P 1") } else { name.clone() });
            for field in ["per_s", "p50_ns", "p99_ns"] {
                row.set(&format!("peer_{field}"), number(peer, field));
            }
            row.set("ratio", number(&ours, "per_s") / number(peer, "per_s"));
            // For a batch and a single request the comparison would be invalid.
            if !waits {
                row.set("p50_ratio", number(&ours, "p50_ns") / number(peer, "p50_ns"));
            }
            out.push(row);
        }
        if !compared {
            out.push(ours);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn ours(clients: usize, pipeline: usize, per_s: f64) -> Row {
        let told = Told { per_s, p50_ns: 150.0, p99_ns: 400.0 };
        row("the leader", clients, pipeline, &told)
            .with("fabric", "shm")
            .with("floor_fdatasync_ns", 60.0)
    }

    fn theirs(server: &str, clients: usize, pipeline: usize, per_s: f64) -> Row {
        row(server, clients, pipeline, &Told { per_s, p50_ns: 600.0, p99_ns: 900.0 })
    }

    #[test]
    fn who_has_as_many_clients_is_compared_and_one_client_with_the_floor() {
        let rows = compare(&[
            ours(1, 1, 6.0),
            ours(64, 1, 50.0),
            ours(64, 16, 400.0),
            theirs("etcd", 1, 1, 2.0),
            theirs("etcd", 64, 1, 10.0),
            theirs("redis-aof", 64, 16, 500.0),
        ]);
        let ratios: Vec<_> = rows.iter().map(|row| row.number("ratio")).collect();
        assert_eq!(ratios, [Some(3.0), Some(5.0), Some(40.0), Some(0.8)]);
        let peers: Vec<_> = rows.iter().map(|row| row.get("peer").cloned()).collect();
        assert_eq!(peers[2..], [Some("etcd, -P 1".into()), Some("redis-aof".into())]);
        let p50: Vec<_> = rows.iter().map(|row| row.number("p50_ratio")).collect();
        assert_eq!(p50, [Some(0.25), Some(0.25), None, Some(0.25)]);
        let over: Vec<_> = rows.iter().map(|row| row.number("p50_over_floor")).collect();
        assert_eq!(over, [Some(2.5), None, None, None]);
    }

    #[test]
    fn a_peer_that_promises_less_is_refused() {
        let setting = Setting {
            gregale: "gregale".into(),
            fabrics: vec![],
            protocols: vec![],
            against: vec![Peer::RedisWait2],
            data: None,
        };
        let effort = Effort { runs: 1, span: Duration::ZERO };
        let refused = report(&setting, &effort).expect_err("no disk").to_string();
        assert!(refused.contains("redis-wait2") && refused.contains("redis-aof"), "{refused}");
        let setting = Setting { against: vec![Peer::RedisAof], ..setting };
        let refused = super::super::report(&setting, &effort).expect_err("a disk").to_string();
        assert!(refused.contains("--durability disk-quorum"), "{refused}");
    }
}
