//! The shapes of the paper's measurements on clusters (paper 000, figures 12 to 15, 19, 20a and
//! 21): groups of simulated members, on hosts and a network with costs ([`sim::group::shapes`]).
//!
//! Beside each figure stands what the paper's text says, where it says a number: our copy has no
//! figures. Nothing is measured on this machine, so a row is the same in every run. Behind them
//! stand rows of larger groups, about changes of views (`views`).

mod views;

use crate::run;
use report::{Progress, Report, Row};
use sim::costs::Rates;
use sim::group::shapes::{Experiment, Shards, Shown};

/// The lengths of the paper's small and large messages, and one of which a network carries so many
/// that loops are what is slow.
const SMALL: usize = 10 << 10;
const LARGE: usize = 1 << 20;
const TINY: usize = 104;

/// What a report is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parts {
    /// Everything.
    All,
    /// Changes of views in groups of so many members, from two to one below the number of seats; of
    /// the usual sizes if the list is empty.
    Views(Vec<usize>),
}

/// A row before it is known.
struct Case {
    row: Row,
    experiment: Experiment,
}

/// An experiment in which all members send.
fn whole(n_members: usize, message_bytes: usize, is_quick: bool) -> Experiment {
    let is_large = message_bytes == LARGE;
    // Enough that beginning and end count little; large groups have more under way anyway.
    let n_in_all = if is_large { 64 } else { 1600 } / if is_quick { 8 } else { 1 };
    Experiment {
        rates: Rates::FRACTUS,
        n_members,
        n_senders: n_members,
        message_bytes,
        n_messages: (n_in_all / n_members as u64).max(2),
        window: if is_large { 4 } else { 32 },
        slow: (0, 100),
        shards: Shards::Whole,
        changes: false,
    }
}

fn case(name: &str, experiment: Experiment) -> Case {
    let row = Row::new(name)
        .with("network", experiment.rates.name)
        .with("members", experiment.n_members)
        .with("senders", experiment.n_senders)
        .with("bytes", experiment.message_bytes);
    Case { row, experiment }
}

impl Case {
    fn with(mut self, name: &str, value: impl Into<report::Value>) -> Case {
        self.row.set(name, value);
        self
    }

    /// The same beside what the paper's text says, if it says a number.
    fn beside(self, name: &str, paper: Option<f64>) -> Case {
        match paper {
            Some(paper) => self.with(name, paper),
            None => self,
        }
    }
}

/// Figures 12 and 13: one group, all its members or some of them send.
fn senders(cases: &mut Vec<Case>, is_quick: bool) {
    for message_bytes in [SMALL, LARGE] {
        for n_members in [2, 4, 8, 16] {
            let all = whole(n_members, message_bytes, is_quick);
            let mut some = vec![1, n_members / 2, n_members];
            some.dedup();
            for n_senders in some {
                let n_messages = all.n_messages * n_members as u64 / n_senders as u64;
                // "2 replicas at 16GB/s and 16 replicas at 10GB/s" (1).
                let paper = match (message_bytes, n_members, n_senders == n_members) {
                    (LARGE, 2, true) => Some(16.0),
                    (LARGE, 16, true) => Some(10.0),
                    _ => None,
                };
                let case = case("senders", Experiment { n_senders, n_messages, ..all.clone() });
                cases.push(case.beside("paper_gb_per_s", paper));
            }
        }
    }
    for n_members in [2, 8] {
        let over_tcp = Experiment { rates: Rates::TCP, ..whole(n_members, LARGE, is_quick) };
        cases.push(case("tcp", over_tcp));
    }
}

/// Figure 14: larger groups.
fn members(cases: &mut Vec<Case>, is_quick: bool) {
    for (n_members, paper) in [(2, Some(5.0)), (8, None), (32, Some(2.5))] {
        let rates = Rates::STAMPEDE;
        let case = case("members", Experiment { rates, ..whole(n_members, LARGE, is_quick) });
        cases.push(case.beside("paper_gb_per_s", paper));
    }
}

/// Figure 15: shards of two and of three members.
fn shards(cases: &mut Vec<Case>, is_quick: bool) {
    for size in [2, 3] {
        for (name, shards) in
            [("disjoint", Shards::Disjoint(size)), ("overlapping", Shards::Overlapping(size))]
        {
            for n_members in [6, 12] {
                let n_messages = if is_quick { 3 } else { 6 };
                let whole = whole(n_members, LARGE, is_quick);
                let sharded = Experiment { shards, n_messages, ..whole };
                cases.push(case("shards", sharded).with("shards", name).with("of", size));
            }
        }
    }
}

/// Figure 19: members whose loops are slow.
fn slow(cases: &mut Vec<Case>, is_quick: bool) {
    let n_members = 8;
    let of_tiny = &[(0, 100), (1, 50), (4, 50), (8, 50), (1, 10), (8, 10)][..];
    let of_large = &[(0, 100), (1, 10), (8, 10), (1, 1)][..];
    for (message_bytes, slow) in [(TINY, of_tiny), (LARGE, of_large)] {
        for &(n_slow, percent) in slow {
            let experiment = whole(n_members, message_bytes, is_quick);
            let paper = match (message_bytes, percent) {
                (TINY, 50) => Some(70.0),
                (TINY, 10) => Some(15.0),
                (LARGE, 10) => Some(98.5),
                (LARGE, 1) => Some(90.0),
                _ => None,
            };
            let case = case("slow", Experiment { slow: (n_slow, percent), ..experiment })
                .with("slow", n_slow)
                .with("efficiency_percent", percent);
            cases.push(case.beside("paper_percent", paper));
        }
    }
}

/// Figures 20a and 21: a process joins, and a member leaves, under load.
fn changes(cases: &mut Vec<Case>, is_quick: bool) {
    for n_members in [4, 8] {
        let mut experiment = whole(n_members, LARGE, is_quick);
        experiment.n_senders -= 1;
        experiment.n_messages = if is_quick { 12 } else { 36 };
        cases.push(case("changes", Experiment { changes: true, ..experiment }));
    }
}

/// Writes what an experiment has shown into its row.
fn show(row: &mut Row, shown: &Shown) {
    row.set("gb_per_s", shown.gb_per_s);
    row.set("messages_per_s", shown.messages_per_s);
    row.set("virtual_ms", ms(shown.virtual_ns));
    for (name, change) in ["join", "leave"].iter().zip(&shown.changes) {
        row.set(&format!("{name}_wedged_ms"), ms(change.wedged_ns));
        row.set(&format!("{name}_installed_ms"), ms(change.installed_ns));
        row.set(&format!("{name}_delivered_ms"), ms(change.delivered_ns));
    }
    if !shown.changes.is_empty() {
        row.set("longest_silence_ms", ms(shown.longest_silence_ns));
        // "typically, less than 200ms" (1).
        row.set("paper_silence_ms", 200.0);
    }
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// The report: a row per experiment.
///
/// # Errors
/// What an experiment violated.
pub fn report(parts: &Parts, is_quick: bool) -> Result<Report, String> {
    let mut cases = Vec::new();
    for add in [senders, members, shards, slow, changes] {
        if *parts == Parts::All {
            add(&mut cases, is_quick);
        }
    }
    let mut progress = Progress::new("shapes", cases.len() as u64);
    let mut rows: Vec<Row> = Vec::new();
    for (done, Case { mut row, experiment }) in cases.into_iter().enumerate() {
        progress.set(done as u64, row.case());
        let shown = sim::group::shapes::run(&experiment)
            .map_err(|violation| format!("{experiment:?}: {violation}"))?;
        show(&mut row, &shown);
        if row.case() == "slow" {
            let percent = 100.0 * shown.gb_per_s / sound(&rows, &row).unwrap_or(shown.gb_per_s);
            row.set("percent", percent);
        }
        rows.push(row);
    }
    let sizes = match parts {
        Parts::Views(sizes) if !sizes.is_empty() => sizes,
        _ if is_quick => &[4, 16][..],
        _ => &[4, 16, 32, 64],
    };
    rows.extend(views::rows(sizes)?);
    Ok(run::report("shapes", 1, rows))
}

/// The throughput of the same group without a slow member.
fn sound(rows: &[Row], of: &Row) -> Option<f64> {
    let is_it = |row: &&Row| {
        row.case() == "slow"
            && row.number("efficiency_percent") == Some(100.0)
            && row.number("bytes") == of.number("bytes")
    };
    rows.iter().find(is_it)?.number("gb_per_s")
}
