//! Durable groups under seeds.

use sim::group::{self, Kind};
use sim::{Config, Mark};

/// The number of seeds; more by `GREGALE_SEEDS`.
fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("GREGALE_FIRST").unwrap_or(0);
    first..first + number("GREGALE_SEEDS").unwrap_or(40)
}

#[test]
fn durable_groups_come_back_with_all_that_they_delivered() {
    let report = group::sweep(Kind::Durable, &Config::default(), seeds(), |_| true);
    let first = report.findings.first().map(|one| (one.seed, one.violation.to_string()));
    assert_eq!(first, None, "of {} findings", report.findings.len());
    for mark in [Mark::DurableSurvived, Mark::GroupWentDark, Mark::LogReplayed] {
        assert!(report.coverage.count(mark) > 0, "{mark:?} was not met");
    }
}
