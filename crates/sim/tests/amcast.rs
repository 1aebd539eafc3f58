//! Atomic multicast in bad weather, exact step counts, and named schedules set by hand.

use proto::amcast::Multicast;
use proto::amcast::linear::Rule;
use proto::amcast::primcast::Machine;
use proto::amcast::skeen::Skeen;
use proto::amcast::variant::{Printed, Sound};
use sim::amcast::script::{Script, pid};
use sim::amcast::steps::{Bench, Steps, measure};
use sim::amcast::{Config, mutants, run, sweep, Report};
use std::fmt::Debug;

type Primcast = Machine<Sound>;

fn clean<M: Multicast>(config: &Config, seeds: std::ops::Range<u64>) -> Report
where
    M::Wire: Debug + PartialEq,
{
    let report = sweep::<M>(config, seeds, |_| true);
    for finding in report.findings.iter().take(5) {
        println!("{config:?}: seed {}: {}", finding.seed, finding.violation);
    }
    assert!(report.findings.is_empty(), "{} seeds failed", report.findings.len());
    report
}

#[test]
#[ignore]
fn dev_sweep() {
    let n: u64 = std::env::var("N").map_or(300, |n| n.parse().unwrap());
    let t = std::time::Instant::now();
    for rule in [Rule::Plain, Rule::Hop, Rule::AllGroups, Rule::CommitWait] {
        let config = Config { rule, ..Config::default() };
        let report = sweep::<Primcast>(&config, 0..n, |_| true);
        println!(
            "primcast {rule:?} {} findings {:?} {:?}",
            report.findings.len(),
            report.counts,
            t.elapsed()
        );
        for finding in report.findings.iter().take(4) {
            println!("   seed {}: {}", finding.seed, finding.violation);
        }
        if rule == Rule::Plain {
            let report = sweep::<proto::amcast::fastcast::Fastcast>(&config, 0..n, |_| true);
            println!("fastcast {} findings {:?} {:?}", report.findings.len(), report.counts, t.elapsed());
            for finding in report.findings.iter().take(4) {
                println!("   seed {}: {}", finding.seed, finding.violation);
            }
            let report = sweep::<proto::amcast::whitebox::Whitebox>(&config, 0..n, |_| true);
            println!("whitebox {} findings {:?} {:?}", report.findings.len(), report.counts, t.elapsed());
            for finding in report.findings.iter().take(4) {
                println!("   seed {}: {}", finding.seed, finding.violation);
            }
        }
        let report = sweep::<Skeen>(&config, 0..n, |_| true);
        println!("skeen {rule:?} {} findings {:?}", report.findings.len(), t.elapsed());
        for finding in report.findings.iter().take(4) {
            println!("   seed {}: {}", finding.seed, finding.violation);
        }
    }
}

#[test]
#[ignore]
fn dev_seed() {
    let seed: u64 = std::env::var("SEED").unwrap().parse().unwrap();
    let rule = match std::env::var("RULE").as_deref() {
        Ok("hop") => Rule::Hop,
        Ok("all") => Rule::AllGroups,
        Ok("wait") => Rule::CommitWait,
        _ => Rule::Plain,
    };
    let config = Config { rule, trace: true, ..Config::default() };
    let out = run::<Primcast>(&config, seed);
    println!("{}", out.trace);
    println!("{:?}", out.violation);
}

#[test]
#[ignore]
fn dev_steps() {
    for groups in 2..5 {
        let b = Bench { rule: Rule::Plain, groups, members: 3, schedules: 300 };
        println!("whitebox {groups}: {:?}", measure::<proto::amcast::whitebox::Whitebox>(&b));
        println!("fastcast {groups}: {:?}", measure::<proto::amcast::fastcast::Fastcast>(&b));
    }
    for rule in [Rule::Plain, Rule::Hop, Rule::AllGroups, Rule::CommitWait] {
        for groups in 2..5 {
            let s = measure::<Primcast>(&Bench { rule, groups, members: 3, schedules: 300 });
            println!("primcast {rule:?} {groups}: {s:?}");
            let s = measure::<Skeen>(&Bench { rule, groups, members: 1, schedules: 300 });
            println!("skeen {rule:?} {groups}: {s:?}");
        }
    }
}

#[test]
#[ignore]
fn dev_mutants() {
    let n: u64 = std::env::var("N").map_or(300, |n| n.parse().unwrap());
    for m in mutants() {
        let t = std::time::Instant::now();
        println!(
            "{:<28} {:?} {:?}",
            m.name,
            m.hunt(0, n)
                .map(|f| (f.seed, f.violation.to_string().chars().take(150).collect::<String>())),
            t.elapsed()
        );
    }
}
