//! Durable in bad weather, on bad disks, and named traps stepped by hand.

use proto::durable::variant::Sound;
use sim::durable::{Durable, mutants};
use sim::{Config, Mark, sweep};

#[test]
fn sound_durable_survives_a_sweep_that_reaches_the_interesting_cases() {
    let n: u64 = std::env::var("SEEDS").map_or(100, |n| n.parse().unwrap());
    let report = sweep::<Durable<Sound>>(&Config::default(), 0..n, |_| true);
    for finding in &report.findings {
        println!("seed {}: {}", finding.seed, finding.violation);
    }
    println!("{} asked, {} answered", report.n_asked, report.n_answered);
    let missing: Vec<Mark> = report.coverage.missing().collect();
    println!("{missing:?}");
    assert!(report.findings.is_empty());
}

#[test]
fn trace() {
    let Ok(seed) = std::env::var("SEED") else { return };
    let outcome = sim::replay::<Durable<Sound>>(&Config::default(), seed.parse().unwrap());
    std::fs::write("/tmp/durable-trace.txt", &outcome.trace).unwrap();
    println!("{:?}", outcome.violation);
}

#[test]
fn hunts() {
    let n: u64 = std::env::var("HUNT").map_or(100, |n| n.parse().unwrap());
    for mutant in mutants() {
        match mutant.hunt(&Config::default(), 0, n) {
            Some(found) => println!("{:<22} {:>5} {}", mutant.name, found.seed, &found.violation.to_string().chars().take(130).collect::<String>()),
            None => println!("{:<22} SURVIVED", mutant.name),
        }
    }
}
