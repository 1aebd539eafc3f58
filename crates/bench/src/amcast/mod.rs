//! Atomic multicast under load: throughput against latency, like figure 4.2 of the thesis.
//!
//! There are eight groups of three members. Each of three processes hosts one member of every group
//! on one poll loop, and a client beside each member; the first primaries are spread over the
//! processes. [`wan`] is a wide area, in virtual time. [`load`] has the clients, [`worker`] a
//! process, [`crew`] its parent's side.

pub mod crew;
pub mod load;
pub mod wan;
pub mod worker;

use crate::group::{Error, Launcher};
use crate::run::{Effort, report as report_of};
use crate::worker::order::FabricKind;
use crew::{Shape, measure};
use load::{Pace, Plan};
use proto::registry::MulticastProtocol;
use report::figure::{Axis, FigureError, Series, lines};
use report::{Latency, Progress, Report, Row, Value, median_rows};
use worker::{Contender, Took};

/// The thesis's deployment.
pub const SHAPE: Shape = Shape { groups: 8, members: 3 };
/// The messages under way for each client.
const OUTSTANDING: [usize; 5] = [1, 4, 16, 64, 256];
/// The shares of a closed loop's peak rate that the open loop uses.
const SHARES: [f64; 3] = [0.25, 0.5, 0.75];
/// The bytes of a payload.
const MESSAGE_BYTES: usize = 64;

/// The settings of a measurement.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The providers.
    pub fabrics: Vec<FabricKind>,
    /// The protocols, in turn.
    pub contenders: Vec<Contender>,
    /// The numbers of groups of each message.
    pub destinations: Vec<usize>,
    /// Whether to measure also at fixed rates.
    pub open: bool,
}

/// The protocols that are measured: those that survive crashes, and first those for use.
fn protocols() -> Vec<MulticastProtocol> {
    let all = MulticastProtocol::ALL.iter().copied();
    let mut measured: Vec<_> = all.filter(|one| one.abilities().survives_crashes).collect();
    measured.sort_by_key(|one| one.abilities().for_comparison);
    measured
}

/// A curve: a protocol, over a fabric, with a number of destinations.
#[derive(Clone, Copy, Debug)]
struct Curve {
    fabric: FabricKind,
    destinations: usize,
    contender: Contender,
}

/// The report: a row for each load, and one for the peak of each protocol.
///
/// # Errors
/// [`Error`].
pub fn report(launcher: &Launcher, setting: &Setting, effort: &Effort) -> Result<Report, Error> {
    let mut curves = Vec::new();
    for &fabric in &setting.fabrics {
        for &destinations in &setting.destinations {
            for &contender in &setting.contenders {
                curves.push(Curve { fabric, destinations, contender });
            }
        }
    }
    let n_loads = OUTSTANDING.len() + if setting.open { SHARES.len() } else { 0 };
    let n_cases = u64::from(effort.runs) * (curves.len() * n_loads) as u64;
    let mut progress = Progress::new("amcast", n_cases);
    let mut runs = Vec::new();
    let mut n_done = 0;
    for _ in 0..effort.runs {
        // The contenders' loads alternate, so that a disturbance affects them alike.
        let mut rows: Vec<Vec<Row>> = vec![Vec::new(); curves.len()];
        for at in 0..n_loads {
            for (curve, rows) in curves.iter().zip(&mut rows) {
                progress.set(n_done, "");
                let pace = pace(at, rows);
                rows.push(one(launcher, curve, pace, effort)?);
                n_done += 1;
            }
        }
        runs.push(rows.concat());
    }
    let mut rows = median_rows(&runs);
    let most = most(&rows, setting);
    rows.extend(most);
    Ok(report_of("amcast", effort.runs, rows))
}

/// The load of a point. The closed loops come first: the open ones take their rates from them.
fn pace(at: usize, rows: &[Row]) -> Pace {
    match OUTSTANDING.get(at) {
        Some(outstanding) => Pace::Closed { outstanding: *outstanding },
        None => {
            let most = rows.iter().filter_map(|row| row.number("per_s")).fold(0.0, f64::max);
            let per_node = most * SHARES[at - OUTSTANDING.len()] / SHAPE.members as f64;
            Pace::Open { per_s: per_node }
        }
    }
}

fn one(launcher: &Launcher, curve: &Curve, pace: Pace, effort: &Effort) -> Result<Row, Error> {
    let plan = Plan {
        destinations: curve.destinations,
        message_bytes: MESSAGE_BYTES,
        pace,
        warm_up: effort.span / 4,
        span: effort.span,
    };
    let tooks = measure(launcher, curve.contender, curve.fabric, SHAPE, &plan)?;
    Ok(row(curve, pace, &tooks))
}

fn row(curve: &Curve, pace: Pace, tooks: &[Took]) -> Row {
    let mut latency = Latency::new();
    for (ns, n) in tooks.iter().flat_map(|took| &took.latency) {
        latency.record_many_ns(*ns, *n);
    }
    let sum = |of: fn(&Took) -> u64| tooks.iter().map(of).sum::<u64>() as f64;
    let span_s = sum(|took| took.span_ns) / tooks.len().max(1) as f64 / 1e9;
    let completed = sum(|took| took.completed);
    let cores = sum(|took| took.cpu_ns) / 1e9 / span_s;
    let share = match pace {
        Pace::Closed { outstanding } => format!("closed x{outstanding}"),
        Pace::Open { .. } => "open".to_owned(),
    };
    let (name, n) = (curve.contender.name(), curve.destinations);
    let row = Row::new(format!("{name} to {n}, {share}"))
        .with("protocol", name)
        .with("fabric", curve.fabric.name())
        .with("destinations", n)
        .with("groups", SHAPE.groups)
        .with("members", SHAPE.members)
        .with("processes", SHAPE.members)
        .with("clients", SHAPE.groups * SHAPE.members)
        .with("message_bytes", MESSAGE_BYTES);
    let row = match pace {
        Pace::Closed { outstanding } => row.with("pipeline", outstanding),
        Pace::Open { per_s } => row.with("offered_per_s", per_s * SHAPE.members as f64),
    };
    let row = row
        .with("per_s", completed / span_s)
        .with("per_core_per_s", completed / span_s / cores)
        .with("deliveries_per_s", sum(|took| took.delivered) / span_s)
        .with("cpu_percent", cores * 100.0)
        .with("frames_per_message", sum(|took| took.frames) / completed.max(1.0))
        .with("wire_bytes_per_message", sum(|took| took.frame_bytes) / completed.max(1.0))
        .with("steps_per_message", sum(|took| took.parcels) / completed.max(1.0));
    latency.fields(latency.field(row, "p95_ns", 95.0))
}

/// The peak of each contender in a closed loop; the first beside the best of the others.
fn most(rows: &[Row], setting: &Setting) -> Vec<Row> {
    let mut summary = Vec::new();
    for fabric in &setting.fabrics {
        for destinations in &setting.destinations {
            let best = |contender: &Contender| {
                let of_it = rows.iter().filter(|row| {
                    let is_its = |name: &str, value: &str| {
                        matches!(row.get(name), Some(Value::Text(text)) if text == value)
                    };
                    is_its("protocol", contender.name())
                        && is_its("fabric", fabric.name())
                        && row.number("destinations") == Some(*destinations as f64)
                        && row.number("pipeline").is_some()
                });
                let per_s = |row: &&Row| row.number("per_s").unwrap_or(0.0);
                of_it.max_by(|a, b| per_s(a).total_cmp(&per_s(b))).cloned()
            };
            let Some((first, others)) = setting.contenders.split_first() else { continue };
            let Some(first) = best(first) else { continue };
            for other in others {
                let Some(peer) = best(other) else { continue };
                let number = |row: &Row, name: &str| row.number(name).unwrap_or(f64::NAN);
                let (ours, theirs) = (number(&first, "per_s"), number(&peer, "per_s"));
                let mut row = Row::new(format!("most to {destinations}, beside {}", other.name()));
                for name in ["protocol", "fabric", "destinations", "groups", "members"] {
                    if let Some(value) = first.get(name) {
                        row.set(name, value.clone());
                    }
                }
                summary.push(
                    row.with("per_s", ours)
                        .with("per_core_per_s", number(&first, "per_core_per_s"))
                        .with("peer", other.name())
                        .with("peer_per_s", theirs)
                        .with("peer_per_core_per_s", number(&peer, "per_core_per_s"))
                        .with("ratio", ours / theirs),
                );
            }
        }
    }
    summary
}

/// Throughput against latency: the messages to two groups if they were measured, as in the thesis.
///
/// # Errors
/// [`FigureError`].
pub fn picture(report: &Report) -> Result<String, FigureError> {
    let of = |row: &Row| row.number("destinations");
    let loads = || report.rows.iter().filter(|row| row.number("p95_ns").is_some());
    let has_two = loads().any(|row| of(row) == Some(2.0));
    let shown = if has_two { Some(2.0) } else { loads().find_map(of) };
    let mut series: Vec<Series> = Vec::new();
    for row in loads().filter(|row| of(row) == shown) {
        let text = |name: &str| match row.get(name) {
            Some(Value::Text(text)) => text.as_str(),
            _ => "",
        };
        let open = if row.number("offered_per_s").is_some() { ", open loop" } else { "" };
        let name = format!("{}, {}{open}", text("protocol"), text("fabric"));
        let number = |name: &str| row.number(name).unwrap_or(f64::NAN);
        let point = (number("per_s") / 1e3, number("p95_ns") / 1e6);
        match series.iter_mut().find(|one| one.name == name) {
            Some(one) => one.points.push(point),
            None => series.push(Series { name, points: vec![point] }),
        }
    }
    let groups = match shown {
        Some(1.0) => "one group".to_owned(),
        n => format!("{} groups", n.unwrap_or(0.0)),
    };
    lines(
        &format!("Eight groups of three, every message to {groups}"),
        &Axis::linear("thousand messages per s"),
        &Axis::log("p95 latency (ms)"),
        &series,
    )
}
