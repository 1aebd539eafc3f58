//! Velos as it ships is explored in small worlds, and bugs planted in it are found.
//!
//! Bounds: three members with a ring of eight slots, each bound beside its walk. A walk prints how
//! many states it has seen.

use model::log::{Bounds, Cluster};
use model::{Explored, explore};
use proto::planted::Bugs;
use proto::velos::Spec;
use proto::velos::bugs::Bug;

const NOTHING: Bounds = Bounds {
    prelude: 0,
    terms: [0; 3],
    values: [0; 3],
    reads: [0; 3],
    returns: [0; 3],
    breaks: [0; 3],
    late: &[],
    lazy: &[],
};

/// Two members lead, in whatever order, and each proposes a value.
const RIVALS: Bounds = Bounds { terms: [1, 1, 0], values: [1, 1, 0], ..NOTHING };
/// A leader that proposes is deposed by another member, and is read at any time.
const DEPOSED: Bounds = Bounds {
    prelude: 1,
    terms: [0, 1, 0],
    values: [0, 1, 0],
    reads: [1, 0, 0],
    late: &[(0, 1), (0, 2)],
    lazy: &[0],
    ..NOTHING
};
/// The successor of a leader that has proposed is read.
const SUCCEEDED: Bounds = Bounds {
    prelude: 1,
    terms: [0, 1, 0],
    values: [1, 0, 0],
    reads: [0, 1, 0],
    late: &[(0, 2), (1, 2)],
    ..NOTHING
};
/// A follower is read, and looks at its memory late.
const FOLLOWER: Bounds = Bounds {
    prelude: 1,
    values: [1, 0, 0],
    reads: [0, 0, 1],
    late: &[(0, 2), (2, 0)],
    lazy: &[2],
    ..NOTHING
};
/// The successor dies at any time, and comes back without the state.
const RETURNS: Bounds = Bounds {
    prelude: 1,
    terms: [0, 1, 0],
    values: [1, 0, 0],
    returns: [0, 1, 0],
    late: &[(0, 1), (1, 2)],
    ..NOTHING
};
/// A leader's link breaks at any time, and is there again.
const BREAKS: Bounds = Bounds {
    terms: [1, 0, 0],
    values: [1, 0, 0],
    breaks: [1, 0, 0],
    late: &[(0, 1), (0, 2)],
    ..NOTHING
};

const fn late(bounds: Bounds, late: &'static [(usize, usize)]) -> Bounds {
    Bounds { late, ..bounds }
}

fn walk(name: &str, world: Cluster<Spec>) -> Explored {
    let explored = explore(world, u64::MAX);
    println!("{name}: {} states, {} steps", explored.n_states, explored.n_steps);
    explored
}

/// Walks all of a sound world.
fn holds(name: &str, bounds: &Bounds) {
    let explored = walk(name, Cluster::new(bounds, None));
    assert!(explored.is_complete, "{name}: {:#?}", explored.violation);
}

#[test]
fn g1_g2_g3_two_members_that_lead_and_propose() {
    holds("rivals, acceptor 2 late to both", &late(RIVALS, &[(0, 2), (1, 2)]));
}

#[test]
#[ignore = "1.3 million states: cargo xtask test --long"]
fn g1_g2_g3_two_members_over_any_two_late_ways() {
    const PAIRS: [&[(usize, usize)]; 5] = [
        &[(0, 1), (0, 2)],
        &[(0, 1), (1, 0)],
        &[(0, 1), (1, 2)],
        &[(0, 2), (1, 0)],
        &[(1, 0), (1, 2)],
    ];
    for pair in PAIRS {
        holds(&format!("rivals, {pair:?} late"), &late(RIVALS, pair));
    }
}

#[test]
fn g1_g2_g3_a_member_that_dies_and_comes_back_without_the_state() {
    holds("returns", &RETURNS);
}

#[test]
fn g1_g2_g3_a_link_that_breaks() {
    holds("breaks", &BREAKS);
}

#[test]
fn g4_a_lone_member_decides_from_every_state() {
    let bounds = Bounds { values: [1, 0, 0], ..late(RIVALS, &[(0, 1), (1, 0)]) };
    let explored = walk("lone members", Cluster::new(&bounds, None).with_liveness());
    assert!(explored.is_complete, "{:#?}", explored.violation);
}

#[test]
fn g5_reads_see_all_that_was_answered() {
    holds("reads of a deposed leader", &DEPOSED);
    holds("reads of a successor", &SUCCEEDED);
    holds("reads of a follower", &FOLLOWER);
}

/// What breaks each rule, with the world in which the walk finds it.
const FOUND: &[(Bug, Bounds)] = &[
    (Bug::SkipPrepare, late(RIVALS, &[(0, 1), (1, 2)])),
    (Bug::IgnoreMajority, late(RIVALS, &[(0, 1), (1, 2)])),
    (Bug::PromiseOfOne, late(RIVALS, &[(0, 1), (1, 0)])),
    (Bug::AdoptFromPredictions, late(RIVALS, &[(0, 1), (1, 0)])),
    (Bug::IgnoreFoundValue, late(RIVALS, &[(0, 1), (1, 0)])),
    (Bug::CountFailedAccepts, late(RIVALS, &[(0, 1), (1, 2)])),
    (Bug::ApplyBareIndex, late(RIVALS, &[(0, 1), (1, 2)])),
    (Bug::ReadWithoutCheck, DEPOSED),
    (Bug::ReadChecksOne, FOLLOWER),
    (Bug::RepostUnanswered, RETURNS),
];

#[test]
fn planted_bugs_are_found() {
    for (bug, bounds) in FOUND {
        let explored = walk(bug.name(), Cluster::new(bounds, Some(*bug)));
        let violation = explored.violation.unwrap_or_else(|| panic!("{} is not found", bug.name()));
        println!("  {} after {} steps", violation.property, violation.path.len());
    }
}
