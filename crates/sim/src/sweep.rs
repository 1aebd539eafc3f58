//! Many seeds, and the bugs that they must find.

use crate::coverage::Coverage;
use crate::runner::Runner;
use crate::{Config, Outcome, Subject, Violation};
use std::cell::Cell;
use std::sync::Once;

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
    /// The interesting cases that were reached, with their counts.
    pub coverage: Coverage,
    /// Runs whose history the judge of linearizability did not finish within its budget.
    pub n_unjudged: u64,
    /// The client operations that were asked.
    pub n_asked: u64,
    /// The client operations that were answered.
    pub n_answered: u64,
}

impl Report {
    /// The joined results of several sweeps, in the order of their seeds.
    pub fn joined(parts: impl IntoIterator<Item = Report>) -> Report {
        let mut whole = Report::default();
        for part in parts {
            whole.n_seeds += part.n_seeds;
            whole.findings.extend(part.findings);
            whole.virtual_ns += part.virtual_ns;
            whole.coverage.add(&part.coverage);
            whole.n_unjudged += part.n_unjudged;
            whole.n_asked += part.n_asked;
            whole.n_answered += part.n_answered;
        }
        whole.findings.sort_by_key(|finding| finding.seed);
        whole
    }

    fn add(&mut self, seed: u64, outcome: Outcome) {
        self.n_seeds += 1;
        self.virtual_ns += outcome.virtual_ns;
        self.coverage.add(&outcome.coverage);
        self.n_unjudged += u64::from(!outcome.is_judged);
        self.n_asked += outcome.n_asked as u64;
        self.n_answered += outcome.n_answered as u64;
        if let Some(violation) = outcome.violation {
            self.findings.push(Finding { seed, violation });
        }
    }
}

/// Runs every seed; `progress` is called as each ends, and stops the sweep by returning false. (The
/// caller measures wall time: the world has none.)
pub fn sweep(
    subject: &Subject,
    config: &Config,
    seeds: impl IntoIterator<Item = u64>,
    progress: impl FnMut(&Report) -> bool,
) -> Report {
    sweep_runner(&Runner::World(*subject), config, seeds, progress)
}

/// The same, for a subject that is known only at run time.
pub(crate) fn sweep_runner(
    runner: &Runner,
    config: &Config,
    seeds: impl IntoIterator<Item = u64>,
    mut progress: impl FnMut(&Report) -> bool,
) -> Report {
    let mut report = Report::default();
    for seed in seeds {
        report.add(seed, runner.run_caught(config, seed));
        if !progress(&report) {
            break;
        }
    }
    report
}

/// One seed with its trace.
pub fn replay(subject: &Subject, config: &Config, seed: u64) -> Outcome {
    replay_runner(&Runner::World(*subject), config, seed)
}

/// The same, for a subject that is known only at run time.
pub(crate) fn replay_runner(runner: &Runner, config: &Config, seed: u64) -> Outcome {
    runner.run_caught(&Config { trace: true, ..config.clone() }, seed)
}

/// A subject with a planted bug.
#[derive(Clone, Copy)]
pub struct Mutant {
    /// The bug's name.
    pub name: &'static str,
    pub(crate) broken: Runner,
    pub(crate) sound: Runner,
}

impl Mutant {
    /// Runs up to `n_seeds` seeds from `first`, until one finds the bug: it breaks a property with
    /// the bug, and none without it.
    pub fn hunt(&self, config: &Config, first: u64, n_seeds: u64) -> Option<Finding> {
        quietly(|| {
            (first..first + n_seeds).find_map(|seed| {
                let violation = self.broken.run_caught(config, seed).violation?;
                // A seed that breaks a property without the bug too shows nothing about the bug.
                let is_sound = self.sound.run_caught(config, seed).violation.is_none();
                is_sound.then_some(Finding { seed, violation })
            })
        })
    }
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `act` without the output of this thread's panics: a mutant is expected to panic.
pub(crate) fn quietly<T>(act: impl FnOnce() -> T) -> T {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                loud(info);
            }
        }));
    });
    let before = QUIET.replace(true);
    let result = act();
    QUIET.set(before);
    result
}
