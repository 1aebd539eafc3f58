//! Large groups under seeds.

use sim::group::{self, Kind};
use sim::{Config, Mark};

#[test]
fn groups_of_more_members_than_a_word_has_bits_change_views() {
    let config = Config { members: Some(70), ..Config::default() };
    let report = group::sweep(Kind::Memory, &config, 1..3, |_| true);
    let first = report.findings.first().map(|one| (one.seed, one.violation.to_string()));
    assert_eq!(first, None);
    // Processes have died, and others have come to their seats.
    for mark in [Mark::GroupSurvived, Mark::Restarted] {
        assert!(report.coverage.count(mark) > 0, "{mark:?} was not met");
    }
}
