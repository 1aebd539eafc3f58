//! Multi-Paxos in bad weather, and the bugs that the sweep must find in it.

use sim::subjects::MULTIPAXOS;
use sim::{Config, Mark, sweep};

#[test]
fn sound_multipaxos_survives_a_sweep_that_reaches_the_interesting_cases() {
    let report = sweep(&MULTIPAXOS, &Config::default(), 0..150, |_| true);
    for finding in &report.findings {
        println!("seed {}: {}", finding.seed, finding.violation);
    }
    assert!(report.findings.is_empty());
    let is_due = |mark: &Mark| MULTIPAXOS.can_reach(*mark, false);
    let missing: Vec<Mark> = report.coverage.missing().filter(is_due).collect();
    assert!(missing.is_empty(), "never reached: {missing:?}");
}

/// The bugs that a short sweep finds; `gregale sim --protocol multipaxos --mutants` hunts all of
/// them for longer.
#[test]
fn a_short_sweep_finds_most_planted_bugs() {
    let caught: Vec<&str> = MULTIPAXOS
        .mutants()
        .iter()
        .filter(|mutant| mutant.hunt(&Config::default(), 0, 120).is_some())
        .map(|mutant| mutant.name)
        .collect();
    println!("caught: {caught:?}");
    for name in ["COMMIT_AT_ONE", "PROMISE_OF_ONE", "READ_WITHOUT_CHECK"] {
        assert!(caught.contains(&name), "{name} survived; caught: {caught:?}");
    }
}
