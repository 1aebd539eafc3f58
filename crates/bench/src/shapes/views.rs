//! What a change of views costs in groups of simulated members ([`sim::group::rack`]).
//!
//! All but the time of the leader's processor is the same in every run.

use super::ms;
use crate::clock;
use report::{Progress, Row};
use sim::costs::Rates;
use sim::group::rack::{Cause, Experiment, Shown, run};

/// The members that multicast under load, and the time between two messages of one.
const N_SENDERS: usize = 4;
const SAY_EVERY_NS: u64 = 500_000;

/// A row for each of these numbers of members, with and without load, for a crash and a join.
///
/// # Errors
/// What an experiment violated.
pub(super) fn rows(sizes: &[usize]) -> Result<Vec<Row>, String> {
    let mut experiments = Vec::new();
    for cause in [Cause::Crash, Cause::Join] {
        for say_every_ns in [0, SAY_EVERY_NS] {
            for &n_members in sizes {
                let n_senders = N_SENDERS.min(n_members - 1);
                let rates = Rates::FRACTUS;
                experiments.push(Experiment { rates, n_members, n_senders, say_every_ns, cause });
            }
        }
    }
    let mut progress = Progress::new("view changes", experiments.len() as u64);
    let mut rows = Vec::new();
    for (done, experiment) in experiments.iter().enumerate() {
        let name = match (experiment.cause, experiment.say_every_ns > 0) {
            (Cause::Crash, false) => "crash",
            (Cause::Crash, true) => "crash under load",
            (Cause::Join, false) => "join",
            (Cause::Join, true) => "join under load",
        };
        let mut row = Row::new(name)
            .with("network", experiment.rates.name)
            .with("members", experiment.n_members);
        progress.set(done as u64, row.case());
        let shown = run(experiment, &mut clock::cpu_ns)
            .map_err(|violation| format!("{experiment:?}: {violation}"))?;
        show(&mut row, experiment.n_members, &shown);
        rows.push(row);
    }
    Ok(rows)
}

fn show(row: &mut Row, n_members: usize, shown: &Shown) {
    row.set("noticed_ms", ms(shown.noticed_ns));
    row.set("first_installed_ms", ms(shown.first_installed_ns));
    row.set("installed_ms", ms(shown.installed_ns));
    row.set("delivered_ms", ms(shown.delivered_ns));
    row.set("writes", shown.n_posted);
    row.set("writes_of_a_member", shown.n_posted / n_members as u64);
    row.set("writes_of_one_most", shown.n_posted_most);
    row.set("wire_mb", shown.wire_bytes as f64 / 1e6);
    row.set("wire_kb_of_a_member", shown.wire_bytes as f64 / 1e3 / n_members as f64);
    row.set("wire_kb_of_one_most", shown.wire_bytes_most as f64 / 1e3);
    row.set("leader_turns", shown.n_turns);
    row.set("leader_cpu_ms", ms(shown.leader_ns));
    row.set("row_bytes", shown.row_bytes);
    row.set("region_kb", shown.region_bytes as f64 / 1e3);
}
