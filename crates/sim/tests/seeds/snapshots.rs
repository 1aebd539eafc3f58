//! Snapshots at a timestamp, of all groups, under faults (paper 004, section 4.4.2). Long sweeps of
//! them, under every order, and their planted bugs are part of `cargo xtask sim`.

use crate::common::clean;
use proto::amcast::linear::Rule;
use proto::amcast::{Cut, Timestamp, primcast};
use sim::amcast::script::{Script, pid};
use sim::amcast::{Config, mutants};

#[test]
fn p16_a_snapshot_is_exactly_what_is_up_to_it() {
    for (rule, commutes) in [(Rule::Plain, false), (Rule::Plain, true), (Rule::Hop, false)] {
        let config = Config { rule, commutes, snapshots: true, ..Config::default() };
        let counts = clean(&config, 40);
        assert!(counts.snapshots > 300, "{counts:?}");
        assert!(counts.snapshots_refused > 0, "some came too late: {counts:?}");
    }
    let restless = Config { snapshots: true, restless: true, ..Config::default() };
    assert!(clean(&restless, 15).new_primaries > 0);
}

/// A group without messages has clocks that stand still: two steps within it are enough.
#[test]
fn an_idle_group_raises_its_clocks_for_a_snapshot() {
    let mut script = Script::<primcast::Spec>::new(&[3, 3], Rule::Plain);
    (1..=9).for_each(|number| script.multicast(number, &[0]));
    script.pass(20);
    assert_eq!(script.safe_ts(pid(1, 2)), Some(Timestamp::ZERO));
    script.cut(Timestamp(9));
    script.pass(0);
    for rank in 0..3 {
        assert_eq!(script.cuts(pid(0, rank)), [(Timestamp(9), Cut::Exact)], "it is there already");
    }
    script.pass(2);
    for rank in 0..3 {
        assert_eq!(script.cuts(pid(1, rank)), [(Timestamp(9), Cut::Exact)]);
    }
    script.multicast(10, &[0, 1]);
    script.pass(10);
    assert_eq!((script.order(pid(1, 0)), script.judge()), (vec![10], Ok(())));
}

#[test]
fn a_short_sweep_finds_most_planted_bugs_of_snapshots() {
    for mutant in mutants() {
        if ["SAFE_TS_PENDING", "CUT_OVERTAKEN"].contains(&mutant.name) {
            assert!(mutant.hunt(0, 300).is_some(), "{} survived", mutant.name);
        }
    }
}
