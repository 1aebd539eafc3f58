//! Figures of reports: bars, grouped by the measured case, with a bar for each number of interest.

use report::figure::{Axis, FigureError};
use report::{Report, Row, Value, figure};

/// The fields that tell rows apart, the usual ones first. (The others are measured.)
const TELLING: [&str; 24] = [
    "durability",
    "protocol",
    "fabric",
    "reads",
    "order",
    "server",
    "program",
    "network",
    "shards",
    "of",
    "slow",
    "efficiency_percent",
    "members",
    "senders",
    "bytes",
    "message_bytes",
    "value_bytes",
    "state_bytes",
    "clients",
    "pipeline",
    "under_way",
    "window",
    "mode",
    "schedule",
];

/// The name of each row's group. Where rows would share one, it says what tells them apart.
fn names(rows: &[Row], group: impl Fn(&Row) -> String) -> Vec<String> {
    let mut names: Vec<String> = rows.iter().map(group).collect();
    for field in TELLING {
        let differs = |at: usize| {
            let mut twins = (0..rows.len()).filter(|other| names[*other] == names[at]);
            twins.any(|other| rows[other].get(field) != rows[at].get(field))
        };
        let differing: Vec<usize> = (0..rows.len()).filter(|at| differs(*at)).collect();
        for at in differing {
            let value = text(&rows[at], field);
            let more = match rows[at].get(field) {
                None => String::new(),
                Some(Value::Text(_)) => format!(", {value}"),
                Some(_) => format!(", {} {value}", field.replace('_', " ")),
            };
            names[at] += &more;
        }
    }
    names
}

/// Bars of `fields` (legend, name), in groups that `group` names: one for each row.
fn bars(
    report: &Report,
    title: &str,
    y: &Axis,
    group: impl Fn(&Row) -> String,
    fields: &[(&str, &str)],
) -> Result<String, FigureError> {
    let names = names(&report.rows, group);
    if let Some(at) = (0..names.len()).find(|at| names[..*at].contains(&names[*at])) {
        return Err(FigureError::Twice(names[at].clone()));
    }
    let series: Vec<(String, Vec<f64>)> = fields
        .iter()
        .map(|(legend, field)| {
            let number = |row: &Row| row.number(field).unwrap_or(f64::NAN);
            ((*legend).to_owned(), report.rows.iter().map(number).collect())
        })
        .collect();
    figure::bars(title, y, &names, &series)
}

fn text(row: &Row, name: &str) -> String {
    match row.get(name) {
        Some(Value::Text(text)) => text.clone(),
        Some(Value::Count(count)) => count.to_string(),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::Flag(flag)) => flag.to_string(),
        None => String::new(),
    }
}

/// The figure of a report of any benchmark but `failover`, which draws its own.
///
/// # Errors
/// [`FigureError`].
pub fn of(report: &Report) -> Result<String, FigureError> {
    let ns = Axis::log("time (ns)");
    match report.bench.as_str() {
        "amcast" => crate::amcast::picture(report),
        "amcast-wan-colocated" | "amcast-wan-distributed" => crate::amcast::wan::picture(report),
        "core" => core(report),
        "shapes" => bars(
            report,
            "Groups on hosts with costs",
            &Axis::linear("GB/s"),
            |row| match row.case() {
                "senders" => format!(
                    "{} of {}, {} B",
                    text(row, "senders"),
                    text(row, "members"),
                    text(row, "bytes")
                ),
                other => {
                    format!("{other}: {} members, {} B", text(row, "members"), text(row, "bytes"))
                }
            },
            &[("simulated", "gb_per_s"), ("the paper's text", "paper_gb_per_s")],
        ),
        "decide" => bars(
            report,
            "Decision latency at the leader",
            &ns,
            |row| match row.case() {
                "decide" => format!("{} B", text(row, "value_bytes")),
                _ => format!("{} B, asleep", text(row, "value_bytes")),
            },
            &[("p50", "p50_ns"), ("p99", "p99_ns"), ("p99.9", "p999_ns")],
        ),
        "fabric" => bars(
            report,
            "Verbs, one at a time and 64 at a time",
            &ns,
            |row| {
                let many = if row.number("pipeline") == Some(1.0) { "" } else { " x64" };
                format!("{} {} B{many}", row.case(), text(row, "message_bytes"))
            },
            &[("p50", "p50_ns"), ("p99", "p99_ns")],
        ),
        "kv" => crate::kv::picture(report),
        "kv-disk-quorum" => crate::kv::durable_picture(report),
        "comeback" => bars(
            report,
            "From the kill of a member to an answer at its port",
            &ns,
            |row| format!("{}, {}", text(row, "fabric"), row.case()),
            &[("median", "silence_p50_ns"), ("longest", "silence_max_ns")],
        ),
        "replicate" => bars(
            report,
            "Writes to a replicated program",
            &Axis::log("commands per s"),
            |row| {
                let (fabric, order) = (text(row, "fabric"), text(row, "order"));
                format!("{}, {fabric}, {order}, {}", row.case(), text(row, "server"))
            },
            &[
                ("replicated", "per_s"),
                ("three copies, fan-out", "floor_copies_per_s"),
                ("alone", "peer_per_s"),
            ],
        ),
        "replicate-kills" => bars(
            report,
            "The longest silence of a survivor's client, when the leader is killed",
            &ns,
            |row| {
                let (fabric, order) = (text(row, "fabric"), text(row, "order"));
                format!("{}, {fabric}, {order}", text(row, "program"))
            },
            &[("median", "silence_p50_ns"), ("longest", "silence_max_ns")],
        ),
        "restart" => bars(
            report,
            "From the start of a killed cluster to an answer of every member",
            &ns,
            |row| format!("{}, {}", text(row, "fabric"), row.case()),
            &[
                ("median", "restart_ns"),
                ("longest", "restart_max_ns"),
                ("reading the files", "floor_read_ns"),
            ],
        ),
        "multicast" => bars(
            report,
            "Ordered multicast in a group",
            &Axis::linear("messages delivered at each member per s"),
            |row| row.case().to_owned(),
            &[("delivered", "per_s")],
        ),
        "multicast-schedules" => bars(
            report,
            "Schedules that relay messages in blocks, by calculation",
            &Axis::linear("the message's time on one link, of the time until all have it"),
            |row| row.case().to_owned(),
            &[("of one link", "of_floor")],
        ),
        "versions-storage" | "versions-stability" | "versions-shards" | "versions-arguments" => {
            versions(report)
        }
        "snapshot" => bars(
            report,
            "SETs while snapshots are taken",
            &Axis::linear("commands per s"),
            |row| format!("{}, {}", text(row, "fabric"), row.case()),
            &[("with snapshots", "per_s"), ("without", "peer_per_s")],
        ),
        _ => bars(
            report,
            "Processor time of an idle cluster",
            &Axis::linear("percent of one core"),
            |row| text(row, "fabric"),
            &[("cpu", "cpu_percent")],
        ),
    }
}

/// Ours first, then each rival, in groups by batch.
fn core(report: &Report) -> Result<String, FigureError> {
    let mut names: Vec<String> = Vec::new();
    let mut series = vec![("gregale".to_owned(), Vec::new())];
    for row in &report.rows {
        if !names.iter().any(|name| name == row.case()) {
            names.push(row.case().to_owned());
            series[0].1.push(row.number("per_s").unwrap_or(f64::NAN));
        }
        let peer = text(row, "peer");
        if let Some(per_s) = row.number("peer_per_s") {
            match series.iter_mut().find(|(name, _)| *name == peer) {
                Some((_, heights)) => heights.push(per_s),
                None => series.push((peer, vec![per_s])),
            }
        }
    }
    let title = "Three replicas in one thread, 32 B values";
    figure::bars(title, &Axis::log("entries per s"), &names, &series)
}

/// A part of the benchmark of versions.
fn versions(report: &Report) -> Result<String, FigureError> {
    let of = |title, y, fields| bars(report, title, &y, |row| row.case().to_owned(), fields);
    let ns = Axis::log("time (ns)");
    match report.bench.as_str() {
        "versions-storage" => of(
            "Updates of a replicated object, by where their versions are kept",
            Axis::log("bytes per s, of all senders"),
            &[("updates", "bytes_per_s"), ("a copy, or an append", "floor_bytes_per_s")],
        ),
        "versions-arguments" => of(
            "Calls with typed arguments, and messages of as many bytes",
            Axis::log("per s"),
            &[("typed", "per_s"), ("bytes", "peer_per_s")],
        ),
        "versions-shards" => of(
            "Queries of one member of each shard at once",
            ns,
            &[("p50", "p50_ns"), ("p99", "p99_ns")],
        ),
        _ => of(
            "From an update to its outcome and its final time, and queries as of a time",
            ns,
            &[("p50", "p50_ns"), ("p99", "p99_ns"), ("final, p50", "stable_p50_ns")],
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::report;

    #[test]
    fn every_report_has_its_figure() {
        let times = |row: Row| row.with("p50_ns", 480.0).with("p99_ns", 900.0).with("p999_ns", 2e4);
        let rates = |row: Row| row.with("per_s", 1e6).with("peer_per_s", 5e5);
        // A single line needs no name.
        let load = |protocol: &str| {
            let row = Row::new("x").with("protocol", protocol).with("fabric", "shm");
            row.with("destinations", 2u64).with("per_s", 1e5).with("p95_ns", 3e5)
        };
        let loads = vec![load("primcast"), load("whitebox")];
        let svg = of(&report("amcast", 1, loads)).expect("drawn");
        assert!(svg.contains("primcast, shm") && svg.contains("whitebox, shm"));
        let cases = [
            ("core", rates(Row::new("batch of 1").with("peer", "omnipaxos")), "omnipaxos"),
            ("decide", times(Row::new("decide").with("value_bytes", 64u64)), "64 B"),
            ("fabric", times(Row::new("cas").with("message_bytes", 8u64)), "cas 8 B"),
            ("kv", rates(Row::new("SET -P 1").with("peer", "redis")), "redis"),
            ("kv-disk-quorum", rates(Row::new("SET, 64 clients").with("peer", "etcd")), "etcd"),
            ("multicast", rates(Row::new("shm, 3 of 3 send")), "3 of 3 send"),
            ("multicast-schedules", Row::new("chain").with("of_floor", 0.5), "chain"),
            ("replicate", rates(Row::new("redis, 4 clients")), "fan-out"),
            ("replicate-kills", Row::new("x").with("silence_p50_ns", 3e7), "median"),
            ("restart", Row::new("cold").with("restart_ns", 3e9), "cold"),
            ("snapshot", rates(Row::new("SET -P 1")), "with snapshots"),
            ("versions-storage", Row::new("x").with("bytes_per_s", 2e8), "an append"),
            ("versions-stability", times(Row::new("as of now")), "as of now"),
            ("versions-shards", times(Row::new("6 shards")), "6 shards"),
            ("versions-arguments", rates(Row::new("as a list")), "typed"),
            ("idle", Row::new("idle").with("fabric", "shm").with("cpu_percent", 1.5), "shm"),
        ];
        for (bench, row, expected) in cases {
            let svg = of(&report(bench, 1, vec![row])).expect("drawn");
            assert!(svg.contains(expected), "{bench}: {expected} is missing");
        }
    }

    #[test]
    fn each_row_has_bars_of_its_own_and_its_name_says_what_it_is_of() {
        let comeback = |durability: &str| {
            let row = Row::new("leader").with("fabric", "shm").with("durability", durability);
            row.with("kills", 20u64).with("silence_p50_ns", 3e7)
        };
        let rows = vec![comeback("memory-quorum"), comeback("disk-quorum")];
        let svg = of(&report("comeback", 1, rows)).expect("drawn");
        for name in ["shm, leader, memory-quorum", "shm, leader, disk-quorum"] {
            assert!(svg.contains(name), "{name}");
        }
        let slow = |n: u64, percent: u64| {
            let row = Row::new("slow").with("members", 8u64).with("bytes", 1u64).with("slow", n);
            row.with("efficiency_percent", percent)
        };
        let group = |row: &Row| row.case().to_owned();
        let expected = [
            "slow, slow 1, efficiency percent 50",
            "slow, slow 8",
            "slow, slow 1, efficiency percent 10",
        ];
        assert_eq!(names(&[slow(1, 50), slow(8, 10), slow(1, 10)], group), expected);
    }

    #[test]
    fn rows_that_nothing_tells_apart_are_refused() {
        let row = |cpu: f64| Row::new("idle").with("fabric", "shm").with("cpu_percent", cpu);
        let error = of(&report("idle", 1, vec![row(1.0), row(2.0)])).expect_err("two of shm");
        assert_eq!(
            error.to_string(),
            "no figure: two rows are both shm, and one would hide the other"
        );
    }
}
