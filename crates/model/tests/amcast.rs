//! Real-time order across groups, in every order of events of small worlds.
//!
//! Bounds: three groups of one, with the four messages of the chain that breaks algorithm 4.

use model::amcast::{Bounds, Call, Groups};
use model::{Explored, explore};
use proto::amcast::Multicast;
use proto::amcast::linear::Rule;
use proto::amcast::primcast::Machine;
use proto::amcast::skeen::Skeen;
use proto::amcast::variant::{Printed, Sound};
use std::fmt::Debug;

fn walk<M: Multicast + Clone + Debug>(bounds: &Bounds, n_states_max: u64) -> Explored
where
    M::Wire: Debug,
{
    let explored = explore(Groups::<M>::new(*bounds), n_states_max);
    let Explored { n_states, n_steps, is_complete, .. } = &explored;
    let (sizes, rule) = (bounds.sizes, bounds.rule);
    println!("{sizes:?} {rule:?}: {n_states} states, {n_steps} steps, complete: {is_complete}");
    explored
}

/// c1 to {0, 1}, c2 to {1, 2}, a to {2}, and b to {0} after a was delivered.
const CHAIN: Bounds = Bounds {
    sizes: &[1, 1, 1],
    rule: Rule::Plain,
    prelude: &[],
    calls: &[
        Call { dest: &[0, 1], after: None },
        Call { dest: &[1, 2], after: None },
        Call { dest: &[2], after: None },
        Call { dest: &[0], after: Some(2) },
    ],
    suspicions: &[],
};

#[test]
fn g2_the_chain_breaks_algorithm_4_as_printed() {
    let explored = walk::<Skeen<Printed>>(&CHAIN, u64::MAX);
    let violation = explored.violation.expect("the thesis's section 5.3.2 is wrong here");
    assert!(violation.property.starts_with("G2"), "{violation:#?}");
}

#[test]
fn g1_g2_g3_no_order_of_events_in_the_chain_breaks_hop() {
    let bounds = Bounds { rule: Rule::Hop, ..CHAIN };
    let skeen = walk::<Skeen<Sound>>(&bounds, u64::MAX);
    assert!(skeen.is_complete, "Skeen: {:#?}", skeen.violation);
    let primcast = walk::<Machine<Sound>>(&bounds, u64::MAX);
    assert!(primcast.is_complete, "PrimCast: {:#?}", primcast.violation);
}
