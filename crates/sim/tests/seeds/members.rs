//! Groups of atomic multicast that change their members.

use proto::amcast::linear::Rule;
use proto::registry::MulticastProtocol as Protocol;
use sim::amcast::{Config, Counts, mutants, sweep};

fn clean(config: &Config, n_seeds: u64) -> Counts {
    let report = sweep(Protocol::Primcast, config, 0..n_seeds, |_| true);
    for finding in report.findings.iter().take(5) {
        println!("{config:?}: seed {}: {}", finding.seed, finding.violation);
    }
    assert!(report.findings.is_empty(), "{} seeds failed", report.findings.len());
    report.counts
}

#[test]
fn groups_change_their_members_amid_all_faults_under_every_rule() {
    let config = Config { changes_members: true, snapshots: true, ..Config::default() };
    let counts = clean(&config, 120);
    for (what, n) in [
        ("crashes", counts.crashes),
        ("newcomers on dead processes' seats", counts.changes.newcomers),
        ("primaries that died and were replaced", counts.changes.primaries_replaced),
        ("removals", counts.changes.removals),
        ("removals of processes that live", counts.changes.removals_of_living),
        ("additions", counts.changes.additions),
        ("changes while messages were under way", counts.changes.amid_messages),
        ("processes that learnt that they were out", counts.changes.parted),
        ("states for members that lacked one", counts.states),
        ("two primaries at once", counts.two_primaries),
    ] {
        assert!(n > 0, "never reached: {what}");
    }
    for rule in [Rule::Hop, Rule::AllGroups, Rule::CommitWait] {
        clean(&Config { rule, ..config.clone() }, 50);
    }
    for members in [3, 5] {
        let restless =
            Config { members: Some(members), groups: Some(2), restless: true, ..config.clone() };
        clean(&restless, 30);
    }
}

/// The rules that no seed has met broken have tests of their own, in the protocol.
#[test]
fn a_sweep_finds_whoever_counts_an_earlier_lifes_words() {
    let mutants = mutants();
    let of_members: Vec<_> = mutants.iter().filter(|mutant| mutant.is_of_members()).collect();
    assert_eq!(of_members.len(), 2);
    for mutant in of_members {
        assert!(mutant.hunt(0, 600).is_some(), "{} survived", mutant.name);
    }
}
