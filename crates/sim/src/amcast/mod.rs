//! Atomic multicast in a world that breaks what may break (paper 004, chapters 2, 4 and 5).
//!
//! - [`run`], [`sweep`]: seeds of a protocol under crashes, false suspicions, pauses, partitions
//!   and senders that die half way.
//! - `world::lives`: members that die for ever, and others that take their seats.
//! - `world::recovery`: disks, power cuts, and processes that come back.
//! - `aims`: faults and messages that are aimed at bugs which chance rarely meets.
//! - [`steps`]: communication steps, counted exactly.
//! - [`wan`]: latencies under load over a wide area.
//! - [`script`]: schedules set by hand.
//! - [`subjects`]: what there is to run.
//! - [`mutants`]: planted bugs that the sweep must find.
//! - `checks`: the properties, one file each.

mod aims;
mod bytes;
mod changes;
mod checks;
mod counts;
pub mod history;
mod mutants;
mod plan;
mod process;
mod questions;
mod schedules;
pub mod script;
pub mod steps;
mod subjects;
mod told;
mod trace;
pub mod wan;
mod world;

pub use checks::{Promised, Property, Violation, judge, judge_realtime};
pub use counts::Counts;
pub use history::History;
pub use mutants::{Mutant, mutants};
pub use subjects::{Subject, subjects};

use crate::runner::caught;
use proto::amcast::bugs::Bug;
use proto::amcast::linear::Rule;
use proto::registry::{MulticastProtocol, MulticastSpec, MulticastVisitor};
use trace::Trace;

/// The settings that a seed does not decide.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The rule for the order across groups.
    pub rule: Rule,
    /// The number of groups; `None`: the seed decides, two to four.
    pub groups: Option<usize>,
    /// The number of members of each; `None`: the seed decides, one, three or five.
    pub members: Option<usize>,
    /// Whether there are no faults, only weather.
    pub calm: bool,
    /// Whether primaries change often among many messages to several groups, for bugs of that kind.
    pub restless: bool,
    /// Whether to judge real time although the rule does not promise it.
    pub judge_realtime: bool,
    /// Whether messages touch some of a few keys, and those that do not conflict may overtake
    /// (4.4.3).
    pub commutes: bool,
    /// Whether all processes are asked, at intervals, for a snapshot at some timestamp (4.4.2).
    pub snapshots: bool,
    /// Whether processes lose power, also all at once, and come back from their disks.
    pub recovers: bool,
    /// Whether groups change their members: a process that dies has lost its memory, others take
    /// its seat, and an operator removes and adds members.
    pub changes_members: bool,
    /// Whether faults and messages are aimed (`aims`). Messages go along chains of groups while one
    /// group's clock is far ahead; as many members fail as may. With `recovers`, a process loses
    /// power just after a message has left it and while its next record is under way; another comes
    /// back while it is behind, and its group's primary changes twice.
    pub aimed: bool,
    /// Whether, with `recovers`, processes send messages before their disk has the record: a bug.
    pub hasty: bool,
    /// The planted bug of the machines.
    pub bug: Option<Bug>,
    /// Whether to keep every step as text.
    pub trace: bool,
}

impl Config {
    /// The promises by which a run is judged.
    pub fn promised(&self) -> Promised {
        Promised {
            genuine: matches!(self.rule, Rule::Plain | Rule::Hop),
            realtime: self.rule != Rule::Plain || self.judge_realtime,
        }
    }
}

/// The result of one seed.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The first property that did not hold.
    pub violation: Option<Violation>,
    /// The virtual time that passed.
    pub virtual_ns: u64,
    /// The cases that were reached.
    pub counts: Counts,
    /// Every step, if the text is kept.
    pub trace: String,
    /// The history.
    pub history: History,
}

/// A seed that broke a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The seed, which replays it.
    pub seed: u64,
    /// The violation.
    pub violation: Violation,
}

/// The result of a sweep.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The number of seeds that were run.
    pub n_seeds: u64,
    /// The seeds that broke a property.
    pub findings: Vec<Finding>,
    /// The virtual time that passed, in all.
    pub virtual_ns: u64,
    /// The cases that were reached, in all.
    pub counts: Counts,
}

impl Report {
    /// The joined results of several sweeps, in the order of their seeds.
    pub fn joined(parts: impl IntoIterator<Item = Report>) -> Report {
        let mut whole = Report::default();
        for part in parts {
            whole.n_seeds += part.n_seeds;
            whole.findings.extend(part.findings);
            whole.virtual_ns += part.virtual_ns;
            whole.counts.add(&part.counts);
        }
        whole.findings.sort_by_key(|finding| finding.seed);
        whole
    }
}

/// Runs one seed. A panic of the machine is a finding.
pub fn run(protocol: MulticastProtocol, config: &Config, seed: u64) -> Outcome {
    struct Run<'a>(&'a Config, u64, Trace);
    impl MulticastVisitor for Run<'_> {
        type Output = Outcome;

        fn visit<S: MulticastSpec>(self) -> Outcome {
            let Run(config, seed, trace) = self;
            plan::run(&process::protocol::<S>(config.bug), config, seed, trace)
        }
    }
    // A run that panics has its trace too, for the steps that led to the panic.
    let trace = Trace::new(config.trace);
    let run = caught(|| protocol.visit(Run(config, seed, trace.clone())));
    let outcome = run.unwrap_or_else(|detail| Outcome {
        violation: Some(Violation { property: Property::Panic, detail }),
        ..Outcome::default()
    });
    Outcome { trace: trace.into_text(), ..outcome }
}

/// Runs every seed; `progress` is called as each ends, and stops the sweep by returning false.
pub fn sweep(
    protocol: MulticastProtocol,
    config: &Config,
    seeds: impl IntoIterator<Item = u64>,
    mut progress: impl FnMut(&Report) -> bool,
) -> Report {
    let mut report = Report::default();
    for seed in seeds {
        let outcome = run(protocol, config, seed);
        report.n_seeds += 1;
        report.virtual_ns += outcome.virtual_ns;
        report.counts.add(&outcome.counts);
        if let Some(violation) = outcome.violation {
            report.findings.push(Finding { seed, violation });
        }
        if !progress(&report) {
            break;
        }
    }
    report
}
