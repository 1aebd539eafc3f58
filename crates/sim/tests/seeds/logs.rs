//! Sweeps of protocols that replicate a log.

use sim::{Config, Mark, Report, Subject, sweep};
use std::ops::Range;

/// What these seeds reached, without a violation.
pub(crate) fn clean(subject: &Subject, seeds: Range<u64>) -> Report {
    let report = sweep(subject, &Config::default(), seeds, |_| true);
    for finding in &report.findings {
        println!("{}: seed {}: {}", subject.name, finding.seed, finding.violation);
    }
    assert!(report.findings.is_empty());
    report
}

/// Asserts that these seeds, clean, reach every case that the subject can, but for `rare` ones.
pub(crate) fn clean_and_covered(subject: &Subject, seeds: Range<u64>, rare: &[Mark]) {
    let report = clean(subject, seeds);
    let is_due = |mark: &Mark| subject.can_reach(*mark, false) && !rare.contains(mark);
    let missing: Vec<Mark> = report.coverage.missing().filter(is_due).collect();
    assert!(missing.is_empty(), "never reached: {missing:?}");
}

/// Asserts that so many seeds find the planted bugs `names`. Returns how many they find in all.
pub(crate) fn catches(subject: &Subject, n_seeds: u64, names: &[&str]) -> usize {
    let caught: Vec<&str> = subject
        .mutants()
        .iter()
        .filter(|mutant| mutant.hunt(&Config::default(), 0, n_seeds).is_some())
        .map(|mutant| mutant.name)
        .collect();
    for name in names {
        assert!(caught.contains(name), "{name} survived; caught: {caught:?}");
    }
    caught.len()
}
