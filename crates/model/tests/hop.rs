//! The rule `hop` under attack: chains through three and four groups, a change of primary in the
//! middle of the chain, and senders whose message reaches one group and not the other.
//!
//! A parcel that is late may be late for ever: that is a sender that died half way, or a process
//! that died after it spoke to some. Of the channels that are listed any so many are late by any
//! time, on all others everything arrives at once.

use model::amcast::{Bounds, Call, End, Groups, Late};
use model::{Violation, explore};
use proto::amcast::bugs::Bug;
use proto::amcast::linear::Rule;
use proto::amcast::primcast::Machine;

/// The chain through `n` groups: c1 to {0, 1}, c2 to {1, 2}, ..., a to the last one, and b to
/// {0} after a was delivered.
fn chain(sizes: &'static [usize], suspicions: &'static [(usize, usize, usize)]) -> Bounds {
    const THREE: &[Call] = &[
        Call { dest: &[0, 1], after: None },
        Call { dest: &[1, 2], after: None },
        Call { dest: &[2], after: None },
        Call { dest: &[0], after: Some(2) },
    ];
    const FOUR: &[Call] = &[
        Call { dest: &[0, 1], after: None },
        Call { dest: &[1, 2], after: None },
        Call { dest: &[2, 3], after: None },
        Call { dest: &[3], after: None },
        Call { dest: &[0], after: Some(3) },
    ];
    Bounds {
        sizes,
        rule: Rule::Hop,
        judges_realtime: true,
        prelude: &[],
        calls: if sizes.len() == 3 { THREE } else { FOUR },
        suspicions,
        late: Late::Everywhere,
        clocks: None,
    }
}

/// From each sender to each of its destinations.
fn from_senders(bounds: &Bounds) -> Vec<(End, End)> {
    let of = |(at, call): (usize, &Call)| {
        let to = move |group: &usize| (End::Sender(at), End::Group(*group));
        call.dest.iter().map(to).collect::<Vec<_>>()
    };
    bounds.calls.iter().enumerate().flat_map(of).collect()
}

/// From each group to each other, neighbours in the chain.
fn between_groups(n_groups: usize) -> Vec<(End, End)> {
    let pair = |group| {
        let (one, two) = (End::Group(group), End::Group(group + 1));
        [(one, two), (two, one)]
    };
    (0..n_groups - 1).flat_map(pair).collect()
}

/// Out of and inside a group of three.
fn around(group: usize) -> Vec<(End, End)> {
    let members = [0, 1, 2].map(|member| End::Process(group, member));
    let of = |member: End| {
        let inside = members.into_iter().filter(move |other| *other != member);
        let outside = [End::Group(group - 1), End::Group(group + 1)];
        inside.chain(outside).map(move |to| (member, to))
    };
    members.into_iter().flat_map(of).collect()
}

/// Walks a world for each choice of `n_late` channels; the first violation ends it.
fn walk(
    bug: Option<Bug>,
    bounds: &Bounds,
    channels: &[(End, End)],
    n_late: u32,
) -> Option<Violation> {
    let (mut n_states, mut n_worlds) = (0, 0);
    let choices = (0..1_u64 << channels.len()).filter(|choice| choice.count_ones() == n_late);
    for choice in choices {
        let late = (0..channels.len()).filter(|at| choice >> at & 1 == 1);
        let late = Late::Only(late.map(|at| channels[at]).collect());
        let world = Groups::<Machine<Option<Bug>>>::new(Bounds { late, ..bounds.clone() }, bug);
        let explored = explore(world, u64::MAX);
        n_states += explored.n_states;
        n_worlds += 1;
        if explored.violation.is_some() {
            return explored.violation;
        }
        assert!(explored.is_complete);
    }
    println!("{:?}, {n_late} late: {n_worlds} worlds, {n_states} states", bounds.sizes);
    None
}

#[test]
fn g2_one_late_channel_and_a_new_primary_in_the_middle_of_the_chain_do_not_break_hop() {
    let bounds = chain(&[1, 3, 1], &[(1, 1, 1)]);
    let channels = [from_senders(&bounds), around(1)].concat();
    assert_eq!(walk(None, &bounds, &channels, 1), None);
}

#[test]
#[ignore = "153 worlds, 700 thousand states: half a minute in release"]
fn g2_two_late_channels_and_a_new_primary_in_the_middle_of_the_chain_do_not_break_hop() {
    let bounds = chain(&[1, 3, 1], &[(1, 1, 1)]);
    let channels = [from_senders(&bounds), around(1)].concat();
    assert_eq!(walk(None, &bounds, &channels, 2), None);
}

#[test]
fn g2_a_chain_through_four_groups_breaks_hop_with_one_level_too_few() {
    let bounds = chain(&[1, 1, 1, 1], &[]);
    let channels = [from_senders(&bounds), between_groups(4)].concat();
    let violation =
        (1..=4).find_map(|n_late| walk(Some(Bug::HopLevelsMissing), &bounds, &channels, n_late));
    let violation = violation.expect("the bug is found");
    assert!(violation.property.starts_with("G2"), "{violation:#?}");
}

#[test]
#[ignore = "364 worlds: half a minute in release"]
fn g2_three_late_channels_in_a_chain_through_four_groups_do_not_break_hop() {
    let bounds = chain(&[1, 1, 1, 1], &[]);
    let channels = [from_senders(&bounds), between_groups(4)].concat();
    assert_eq!(walk(None, &bounds, &channels, 3), None);
}
