//! Atomic multicast where messages that do not conflict may overtake each other (paper 004, 4.4.3).

use crate::common::clean;
use proto::amcast::linear::Rule;
use proto::registry::MulticastProtocol as Protocol;
use sim::amcast::steps::{Bench, measure};
use sim::amcast::{Config, mutants};

/// Messages that conflict keep their order everywhere; others are seen in two orders, or nothing
/// was gained.
#[test]
fn p14_what_commutes_is_seen_in_different_orders_and_what_conflicts_never() {
    let config = Config { commutes: true, ..Config::default() };
    let counts = clean(&config, 60);
    assert!(counts.commuted > 30, "only {} pairs in different orders", counts.commuted);
    assert!(counts.crashes_of_primaries > 0 && counts.states > 0, "{counts:?}");
    assert_eq!(clean(&Config::default(), 20).commuted, 0, "one order where nothing commutes");
}

#[test]
fn p15_marks_and_states_survive_restless_groups() {
    for members in [3, 5] {
        let config = Config {
            commutes: true,
            members: Some(members),
            groups: Some(2),
            restless: true,
            ..Config::default()
        };
        clean(&config, 15);
    }
}

/// 4.4.3: no convoy among messages that commute. Each takes the three steps that it takes alone,
/// whatever else is under way.
#[test]
fn what_commutes_with_all_others_takes_three_steps_among_them() {
    for groups in 2..=4 {
        let bench = Bench::new(Rule::Plain, groups, 3, 40);
        let (alike, apart) = (measure(Protocol::Primcast, &bench), {
            measure(Protocol::Primcast, &Bench { commutes: true, ..bench })
        });
        assert!(alike.failure_free > 4.5, "{alike:?}");
        assert_eq!((apart.collision_free, apart.failure_free), (3.0, 3.0), "{groups} groups");
    }
}

/// The rest is hunted by `gregale sim --protocol primcast --mutants`.
#[test]
fn a_short_sweep_finds_most_planted_bugs_of_commuting_messages() {
    let names = ["IGNORE_CONFLICTS", "CONFLICTS_WITH_NEAREST", "READS_NEVER_WAIT"];
    for mutant in mutants().iter().filter(|mutant| names.contains(&mutant.name)) {
        assert!(mutant.hunt(0, 300).is_some(), "{} survived", mutant.name);
    }
}
