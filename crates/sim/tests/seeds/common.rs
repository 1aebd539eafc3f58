//! Sweeps of atomic multicast that must find nothing.

use proto::registry::MulticastProtocol as Protocol;
use sim::amcast::{Config, Counts, sweep};

/// What the first `n_seeds` seeds reached, without a violation.
pub(crate) fn clean(config: &Config, n_seeds: u64) -> Counts {
    let report = sweep(Protocol::Primcast, config, 0..n_seeds, |_| true);
    for finding in report.findings.iter().take(5) {
        println!("{config:?}: seed {}: {}", finding.seed, finding.violation);
    }
    assert!(report.findings.is_empty(), "{} seeds failed", report.findings.len());
    report.counts
}
