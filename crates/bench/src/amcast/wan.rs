//! Atomic multicast over a wide area, in virtual time: the thesis's table 4.1 and figures 4.3 to
//! 4.5. The simulator runs the protocols, so this machine's speed does not matter, and a seed gives
//! the same numbers everywhere.

use crate::run::{Effort, report as report_of};
use proto::amcast::linear::Rule;
use proto::registry::MulticastProtocol;
use report::figure::{Axis, FigureError, Series, lines};
use report::{DISTRIBUTION, Latency, Progress, Report, Row, Value, median_rows};
use sim::amcast::wan::{
    CLOCK_ERROR_NS, GROUPS, MEMBERS, Pace, Scenario, Seen, Setting as Case, measure,
};

/// The messages under way for each client.
const OUTSTANDING: [usize; 4] = [1, 4, 16, 64];
/// The messages a second of all clients together, in an open loop.
const RATES: [f64; 3] = [100.0, 400.0, 1600.0];
const SECOND_NS: u64 = 1_000_000_000;

/// A protocol with its options.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Contender {
    name: String,
    protocol: MulticastProtocol,
    options: Options,
}

/// Options of a protocol that takes rules and lets messages overtake each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Options {
    /// The name that they add to the protocol's.
    name: &'static str,
    rule: Rule,
    hybrid: bool,
    /// Whether no two messages conflict.
    commutes: bool,
}

const PLAIN: Options = Options { name: "", rule: Rule::Plain, hybrid: false, commutes: false };

const fn under(name: &'static str, rule: Rule) -> Options {
    Options { name, rule, hybrid: true, ..PLAIN }
}

const OPTIONS: [Options; 6] = [
    PLAIN,
    Options { name: "-commuting", commutes: true, ..PLAIN },
    under("-hybrid", Rule::Plain),
    under("-hop", Rule::Hop),
    under("-all-groups", Rule::AllGroups),
    under("-commit-wait", Rule::CommitWait),
];

/// Every protocol that is measured, under each option that it takes.
fn contenders() -> Vec<Contender> {
    let of = |protocol: MulticastProtocol| {
        let can = protocol.abilities();
        let takes = move |options: &Options| {
            *options == PLAIN || (if options.commutes { can.commutes } else { can.takes_rules })
        };
        OPTIONS.into_iter().filter(takes).map(move |options| {
            let name = format!("{}{}", protocol.name(), options.name);
            Contender { name, protocol, options }
        })
    };
    super::protocols().into_iter().flat_map(of).collect()
}

/// The settings of a measurement.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The scenario.
    pub scenario: Scenario,
    /// The numbers of groups of each message.
    pub destinations: Vec<usize>,
    /// Whether to measure also at fixed rates.
    pub open: bool,
}

/// The report: a row for each load of each protocol. Runs differ by their seeds.
pub fn report(setting: &Setting, effort: &Effort, is_quick: bool) -> Report {
    let outstanding = if is_quick { &OUTSTANDING[..2] } else { &OUTSTANDING[..] };
    let mut paces: Vec<Pace> =
        outstanding.iter().map(|outstanding| Pace::Closed { outstanding: *outstanding }).collect();
    if setting.open {
        let rates = if is_quick { &RATES[..1] } else { &RATES[..] };
        paces.extend(rates.iter().map(|per_s| Pace::Open { per_s: *per_s }));
    }
    let contenders = contenders();
    let n_cases = setting.destinations.len() * contenders.len() * paces.len();
    let mut progress = Progress::new("amcast-wan", u64::from(effort.runs) * n_cases as u64);
    let mut n_done = 0;
    let mut runs = Vec::new();
    for run in 0..effort.runs {
        let mut rows = Vec::new();
        for &destinations in &setting.destinations {
            for contender in &contenders {
                for &pace in &paces {
                    progress.set(n_done, "");
                    n_done += 1;
                    let case = Case {
                        scenario: setting.scenario,
                        protocol: contender.protocol,
                        rule: contender.options.rule,
                        hybrid: contender.options.hybrid,
                        commutes: contender.options.commutes,
                        destinations,
                        pace,
                        warm_up_ns: SECOND_NS / 2,
                        span_ns: if is_quick { SECOND_NS / 4 } else { SECOND_NS },
                        seed: u64::from(run),
                    };
                    rows.push(row(contender, &case, &measure(&case)));
                }
            }
        }
        runs.push(rows);
    }
    let name = format!("amcast-wan-{}", setting.scenario.name());
    report_of(&name, effort.runs, median_rows(&runs))
}

fn row(contender: &Contender, case: &Case, seen: &Seen) -> Row {
    let mut latency = Latency::new();
    seen.latency_ns.iter().for_each(|ns| latency.record_ns(*ns));
    let load = match case.pace {
        Pace::Closed { outstanding } => format!("closed x{outstanding}"),
        Pace::Open { per_s } => format!("open {per_s}/s"),
    };
    let row = Row::new(format!("{} to {}, {load}", contender.name, case.destinations))
        .with("protocol", contender.name.as_str())
        .with("scenario", case.scenario.name())
        .with("destinations", case.destinations)
        .with("groups", GROUPS)
        .with("members", MEMBERS)
        .with("clients", GROUPS * MEMBERS)
        .with("clock_error_ns", CLOCK_ERROR_NS);
    let row = match case.pace {
        Pace::Closed { outstanding } => row.with("pipeline", outstanding),
        Pace::Open { per_s } => row.with("offered_per_s", per_s),
    };
    let row = row.with("virtual_per_s", seen.completed as f64 * 1e9 / case.span_ns as f64);
    let row = latency.fields(latency.field(row, "p95_ns", 95.0));
    SHARES.fold(row, |row, share| latency.field(row, &distribution_of(share), f64::from(2 * share)))
}

/// The points of a distribution: every fiftieth of all messages.
const SHARES: std::ops::RangeInclusive<u32> = 1..=50;

/// The name of the time that this many fiftieths of the messages did not exceed.
fn distribution_of(share: u32) -> String {
    format!("{DISTRIBUTION}p{}_ns", 2 * share)
}

/// The distribution of latencies, like figure 4.5: the share of messages that were delivered within
/// a time, for each protocol with four messages under way for each client. The messages to two
/// groups are shown if they were measured.
///
/// # Errors
/// [`FigureError`].
pub fn distribution(report: &Report) -> Result<String, FigureError> {
    let loads = || report.rows.iter().filter(|row| row.number("pipeline") == Some(4.0));
    let of = |row: &Row| row.number("destinations");
    let has_two = loads().any(|row| of(row) == Some(2.0));
    let shown = if has_two { Some(2.0) } else { loads().find_map(of) };
    let mut series: Vec<Series> = Vec::new();
    for row in loads().filter(|row| of(row) == shown) {
        let Some(Value::Text(name)) = row.get("protocol") else { continue };
        let points = SHARES.filter_map(|share| {
            let ns = row.number(&distribution_of(share))?;
            Some((ns / 1e6, f64::from(2 * share)))
        });
        series.push(Series { name: name.clone(), points: points.collect() });
    }
    lines(
        &format!("Wide area, {}: to {} of eight groups", regions(report), shown.unwrap_or(0.0)),
        &Axis::linear("latency of delivery (ms)"),
        &Axis::linear("messages (%)"),
        &series,
    )
}

fn regions(report: &Report) -> &'static str {
    match report.bench.as_str() {
        "amcast-wan-colocated" => "three regions, primaries in one",
        _ => "eight regions, a group in each",
    }
}

/// Throughput against latency, like figures 4.3 and 4.4: the messages to two groups if they were
/// measured. (Throughput is what the clients asked for, in virtual time.)
///
/// # Errors
/// [`FigureError`].
pub fn picture(report: &Report) -> Result<String, FigureError> {
    let of = |row: &Row| row.number("destinations");
    let loads = || report.rows.iter().filter(|row| row.number("pipeline").is_some());
    let has_two = loads().any(|row| of(row) == Some(2.0));
    let shown = if has_two { Some(2.0) } else { loads().find_map(of) };
    let mut series: Vec<Series> = Vec::new();
    for row in loads().filter(|row| of(row) == shown) {
        let Some(Value::Text(name)) = row.get("protocol") else { continue };
        let number = |name: &str| row.number(name).unwrap_or(f64::NAN);
        let point = (number("virtual_per_s"), number("p95_ns") / 1e6);
        match series.iter_mut().find(|one| one.name == *name) {
            Some(one) => one.points.push(point),
            None => series.push(Series { name: name.clone(), points: vec![point] }),
        }
    }
    let groups = shown.unwrap_or(0.0);
    lines(
        &format!("Wide area, {}: messages to {groups} of eight groups", regions(report)),
        &Axis::log("messages per virtual second"),
        &Axis::linear("p95 latency (ms)"),
        &series,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_measured_of_a_protocol_that_takes_them() {
        let contenders = contenders();
        for one in contenders.iter().filter(|one| one.options != PLAIN) {
            let can = one.protocol.abilities();
            assert!(if one.options.commutes { can.commutes } else { can.takes_rules }, "{one:?}");
        }
        let names: Vec<&str> = contenders.iter().map(|one| one.name.as_str()).collect();
        let ours = names.iter().take_while(|name| name.starts_with(names[0])).count();
        assert_eq!(ours, OPTIONS.len(), "what is for use comes first: {names:?}");
    }
}
