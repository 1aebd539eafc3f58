//! Mu in bad weather, and the bugs that the sweep must find in it.

use sim::subjects::MU;
use sim::{Config, Mark, sweep};

#[test]
fn sound_mu_survives_a_sweep_that_reaches_the_interesting_cases() {
    let report = sweep(&MU, &Config::default(), 0..100, |_| true);
    for finding in &report.findings {
        println!("seed {}: {}", finding.seed, finding.violation);
    }
    assert!(report.findings.is_empty());
    // A permission takes the part of a CAS that fences; followers forward reads. And no memory is
    // shared.
    let rare = [
        Mark::FailedCas,
        Mark::FailedCasOfLeader,
        Mark::CaughtUpByRead,
        Mark::FollowerRead,
        Mark::OthersBetween,
    ];
    let is_due = |mark: &Mark| {
        let needs_more = mark.needs_disk() || mark.needs_operator() || mark.needs_long();
        !needs_more && !rare.contains(mark)
    };
    let missing: Vec<Mark> = report.coverage.missing().filter(is_due).collect();
    assert!(missing.is_empty(), "never reached: {missing:?}");
}

/// The bugs that a short sweep finds; `gregale sim --protocol mu --mutants` hunts all of them for
/// longer.
#[test]
fn a_short_sweep_finds_most_planted_bugs() {
    let caught: Vec<&str> = MU
        .mutants()
        .iter()
        .filter(|mutant| mutant.hunt(&Config::default(), 0, 120).is_some())
        .map(|mutant| mutant.name)
        .collect();
    for name in ["IGNORE_MAJORITY", "IGNORE_FOUND_VALUE", "READ_WITHOUT_CHECK"] {
        assert!(caught.contains(&name), "{name} survived; caught: {caught:?}");
    }
}
