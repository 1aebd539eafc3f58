//! Real-time order across groups, in every order of events of small worlds.
//!
//! - Three groups of one process each, with the four messages of the chain that breaks algorithm 4:
//!   everything may be late everywhere.
//! - Two groups of three, group 1's clock ahead; A goes to both groups, B to group 0 after A was
//!   delivered anywhere; Ω names another leader in group 0 at any moment. What may be late is said
//!   by each world; on its other links everything arrives at once.
//!
//! The larger worlds are ignored here; `cargo xtask test --long` walks them.

use model::amcast::{Bounds, Call, Clocks, End, Groups, Late};
use model::{Explored, explore};
use proto::amcast::Multicast;
use proto::amcast::bugs::Bug;
use proto::amcast::linear::Rule;
use proto::amcast::{primcast, skeen};
use std::fmt::Debug;

/// One machine for all planted bugs and for none, so that it is compiled once.
type Primcast = primcast::Machine<Option<Bug>>;
type Skeen = skeen::Skeen<Option<Bug>>;

fn walk<M: Multicast<Planted = Option<Bug>> + Clone + Debug>(
    bounds: &Bounds,
    bug: Option<Bug>,
) -> Explored
where
    M::Wire: Debug,
{
    let explored = explore(Groups::<M>::new(bounds.clone(), bug), u64::MAX);
    let Explored { n_states, n_steps, is_complete, .. } = &explored;
    let Bounds { sizes, rule, late, .. } = bounds;
    println!("{sizes:?} {rule:?} {late:?}: {n_states} states, {n_steps} steps, {is_complete}");
    explored
}

/// Walks a world whole.
fn holds<M: Multicast<Planted = Option<Bug>> + Clone + Debug>(bounds: &Bounds)
where
    M::Wire: Debug,
{
    let explored = walk::<M>(bounds, None);
    assert!(explored.is_complete, "{bounds:?}: {:#?}", explored.violation);
}

/// Walks a world until the planted bug breaks this property.
fn breaks<M: Multicast<Planted = Option<Bug>> + Clone + Debug>(
    bug: Bug,
    bounds: &Bounds,
    property: &str,
) where
    M::Wire: Debug,
{
    let violation = walk::<M>(bounds, Some(bug)).violation.expect("the bug is found");
    assert!(violation.property.starts_with(property), "{violation:#?}");
}

/// c1 to {0, 1}, c2 to {1, 2}, a to {2}, and b to {0} after a was delivered.
const CHAIN: Bounds = Bounds {
    sizes: &[1, 1, 1],
    rule: Rule::Plain,
    judges_realtime: true,
    prelude: &[],
    calls: &[
        Call { dest: &[0, 1], after: None },
        Call { dest: &[1, 2], after: None },
        Call { dest: &[2], after: None },
        Call { dest: &[0], after: Some(2) },
    ],
    suspicions: &[],
    late: Late::Everywhere,
    clocks: None,
};

#[test]
fn g2_the_chain_breaks_algorithm_4_as_printed() {
    breaks::<Skeen>(Bug::Algorithm4, &CHAIN, "G2");
}

#[test]
fn g1_to_g4_no_order_of_events_in_the_chain_breaks_hop() {
    let bounds = Bounds { rule: Rule::Hop, ..CHAIN };
    holds::<Skeen>(&bounds);
    holds::<Primcast>(&bounds);
}

#[test]
#[ignore = "eight million states: half a minute in release"]
fn g1_to_g4_no_order_of_events_in_the_chain_breaks_all_groups() {
    holds::<Primcast>(&Bounds { rule: Rule::AllGroups, ..CHAIN });
}

/// Clocks that are off by as much as is attested, in three ways, and time that passes while
/// messages travel.
const SKEWS: [&[i32]; 3] = [&[-1, 1, 0], &[1, -1, 1], &[-1, 1, -1]];

fn waiting(skews: &'static [i32]) -> Bounds {
    let clocks = Clocks { moments: &[10, 11, 12, 13, 100], skews, error: 1 };
    Bounds { rule: Rule::CommitWait, clocks: Some(clocks), ..CHAIN }
}

#[test]
fn g2_commit_wait_breaks_in_the_chain_without_the_error_of_the_clocks() {
    breaks::<Primcast>(Bug::WaitWithoutError, &waiting(SKEWS[0]), "G2");
}

#[test]
#[ignore = "three million states: ten seconds in release"]
fn g1_to_g4_no_order_of_events_and_moments_in_the_chain_breaks_commit_wait() {
    SKEWS.into_iter().for_each(|skews| holds::<Primcast>(&waiting(skews)));
}

/// Everything that comes into group 0, leaves it, or travels inside it: what decides there, and
/// what others believe of it.
fn channels() -> Vec<(End, End)> {
    let members = [0, 1, 2].map(|member| End::Process(0, member));
    let of = |member: End| {
        let inside = members.into_iter().filter(move |other| *other != member);
        let outside = [(End::Group(1), member), (member, End::Group(1))];
        outside.into_iter().chain(inside.map(move |other| (member, other)))
    };
    members.into_iter().flat_map(of).collect()
}

/// Two groups of three with a change of primary; these channels are late.
fn two_groups(rule: Rule, late: Vec<(End, End)>) -> Bounds {
    Bounds {
        sizes: &[3, 3],
        rule,
        // Real time is what plain PrimCast does not promise.
        judges_realtime: rule != Rule::Plain,
        prelude: &[&[1], &[1], &[1]],
        calls: &[Call { dest: &[0, 1], after: None }, Call { dest: &[0], after: Some(0) }],
        suspicions: &[(0, 1, 1)],
        late: Late::Only(late),
        clocks: None,
    }
}

/// The worlds of two groups of three in which so many channels are late: each choice of them.
fn worlds(rule: Rule, n_late: u32) -> impl Iterator<Item = Bounds> {
    let channels = channels();
    let choices = (0..1_u32 << channels.len()).filter(move |choice| choice.count_ones() == n_late);
    choices.map(move |choice| {
        let late = (0..channels.len()).filter(|at| choice >> at & 1 == 1);
        two_groups(rule, late.map(|at| channels[at]).collect())
    })
}

fn no_choice_breaks(rule: Rule, n_late: u32) {
    let mut n_states = 0;
    for bounds in worlds(rule, n_late) {
        let explored = explore(Groups::<Primcast>::new(bounds.clone(), None), u64::MAX);
        assert!(explored.is_complete, "{bounds:?}: {:#?}", explored.violation);
        n_states += explored.n_states;
    }
    println!("{rule:?}, {n_late} channels late: {n_states} states");
}

#[test]
fn g1_to_g4_one_late_channel_and_a_new_primary_break_no_rule() {
    for rule in [Rule::Plain, Rule::Hop, Rule::AllGroups] {
        no_choice_breaks(rule, 1);
    }
}

/// Some world in which two channels are late breaks this property.
fn two_late_channels_break(bug: Option<Bug>, rule: Rule, property: &str) {
    let breaks = |bounds| {
        let bounds = Bounds { judges_realtime: property == "G2", ..bounds };
        explore(Groups::<Primcast>::new(bounds, bug), u64::MAX).violation
    };
    let violation = worlds(rule, 2).find_map(breaks).expect("the bug is found");
    assert!(violation.property.starts_with(property), "{violation:#?}");
}

#[test]
fn g2_past_of_a_group_of_three_needs_its_primary_and_every_destination() {
    two_late_channels_break(Some(Bug::PastWithoutPrimary), Rule::AllGroups, "G2");
    // Under `hop` the primary's list, which has to reach as far, stands in for its clause.
    two_late_channels_break(Some(Bug::SkipOneDestination), Rule::Hop, "G2");
    two_late_channels_break(None, Rule::Plain, "G2");
}

#[test]
fn planted_bugs_of_a_change_of_primary_are_found() {
    two_late_channels_break(Some(Bug::LocalQuorumMinusOne), Rule::Plain, "G4");
    two_late_channels_break(Some(Bug::MixEpochs), Rule::Plain, "G4");
    two_late_channels_break(Some(Bug::ShortestState), Rule::Plain, "G4");
    // The machine notices this one by itself.
    two_late_channels_break(Some(Bug::OwnClockOnly), Rule::Plain, "P1");
}

/// Only the old primary knows group 1's clock; its successor continues from its own clock.
fn only_the_primary_is_ahead(rule: Rule) -> Bounds {
    let [zero, one, two] = [0, 1, 2].map(|member| End::Process(0, member));
    let late = vec![(End::Group(1), one), (End::Group(1), two), (zero, one)];
    two_groups(rule, late)
}

#[test]
fn g2_past_of_a_group_of_three_needs_a_quorum() {
    for rule in [Rule::AllGroups, Rule::Hop] {
        breaks::<Primcast>(Bug::PastWithoutQuorum, &only_the_primary_is_ahead(rule), "G2");
        breaks::<Primcast>(Bug::PastQuorumMinusOne, &only_the_primary_is_ahead(rule), "G2");
        holds::<Primcast>(&only_the_primary_is_ahead(rule));
    }
}

#[test]
#[ignore = "220 worlds, three million states: half a minute in release"]
fn g1_to_g4_three_late_channels_and_a_new_primary_do_not_break_plain_primcast() {
    no_choice_breaks(Rule::Plain, 3);
}

#[test]
#[ignore = "220 worlds: a minute in release"]
fn g1_to_g4_three_late_channels_and_a_new_primary_do_not_break_hop() {
    no_choice_breaks(Rule::Hop, 3);
}

#[test]
#[ignore = "220 worlds: a minute in release"]
fn g1_to_g4_three_late_channels_and_a_new_primary_do_not_break_all_groups() {
    no_choice_breaks(Rule::AllGroups, 3);
}
