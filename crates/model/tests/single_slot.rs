//! Single-slot Velos is explored whole, and each bug planted in it is found.
//!
//! Bounds: three acceptors; two proposers with up to two proposals each, or three with one each.

use model::single::{Bounds, Slot};
use model::{Explored, explore};
use proto::velos::single::{Sound, Variant};
use std::panic::catch_unwind;

const fn bounds(proposals: &'static [u8], liveness: bool) -> Bounds {
    Bounds { acceptors: 3, proposals, liveness }
}

fn walk<V: Variant>(bounds: &Bounds) -> Explored {
    let explored = explore(Slot::<V>::new(bounds), u64::MAX);
    let name = V::NAME;
    println!("{name} {bounds:?}: {} states, {} steps", explored.n_states, explored.n_steps);
    explored
}

#[test]
fn g4_a_lone_proposer_decides_from_every_state() {
    let explored = walk::<Sound>(&bounds(&[2, 1], true));
    assert!(explored.is_complete, "{:#?}", explored.violation);
}

#[test]
#[ignore = "8.5 million states: two minutes: cargo xtask test --long"]
fn g1_g2_g3_two_proposers_that_propose_twice() {
    let explored = walk::<Sound>(&bounds(&[2, 2], false));
    assert!(explored.is_complete, "{:#?}", explored.violation);
}

#[test]
fn g1_g2_g3_three_proposers_that_propose_once() {
    let explored = walk::<Sound>(&bounds(&[1, 1, 1], false));
    assert!(explored.is_complete, "{:#?}", explored.violation);
}

/// A bug: what the walk says of it, be it the machine's own assertion.
fn caught<V: Variant>(bounds: Bounds) -> Option<String> {
    match catch_unwind(move || walk::<V>(&bounds)) {
        Ok(explored) => explored.violation.map(|violation| violation.property),
        Err(panic) => panic.downcast_ref::<String>().cloned().or(Some("a panic".into())),
    }
}

macro_rules! bug {
    ($(#[$attribute:meta])* $test:ident, $name:ident, $flag:ident, $bounds:expr) => {
        $(#[$attribute])*
        #[test]
        fn $test() {
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
            enum $name {}
            impl Variant for $name {
                const NAME: &'static str = stringify!($flag);
                const $flag: bool = true;
            }
            let property = caught::<$name>($bounds).expect("the walk must find this bug");
            println!("{property}");
        }
    };
}

bug!(the_printed_test_is_found, PrintedTest, PRINTED_TEST, bounds(&[1, 1], true));
bug!(adopting_before_the_prepares_return_is_found, AdoptEarly, ADOPT_EARLY, bounds(&[1, 2], false));
bug!(ignoring_a_found_value_is_found, IgnoreFound, IGNORE_FOUND_VALUE, bounds(&[2, 1], false));
bug!(
    #[ignore = "needs two proposals each, minutes: cargo xtask test --long"]
    adopting_the_lowest_is_found,
    AdoptLowest,
    ADOPT_LOWEST,
    bounds(&[2, 2], false)
);
bug!(ignoring_the_majority_is_found, IgnoreMajority, IGNORE_MAJORITY, bounds(&[1, 1], false));
bug!(counting_failed_cas_is_found, CountFailed, COUNT_FAILED, bounds(&[1, 1], false));

/// The errata's fear, made precise: predictions beside confirmed words do no harm, in these bounds.
#[test]
fn predictions_after_a_majority_has_confirmed_do_no_harm() {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    enum Harmless {}
    impl Variant for Harmless {
        const NAME: &'static str = "ADOPT_FROM_PREDICTIONS";
        const ADOPT_FROM_PREDICTIONS: bool = true;
    }
    let explored = walk::<Harmless>(&bounds(&[2, 1], false));
    assert!(explored.is_complete, "{:#?}", explored.violation);
}
