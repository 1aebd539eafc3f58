//! What is accepted, told and applied.

use super::super::*;
use super::group::{Action, Group, SHAPE};
use crate::planted::Planted;
use crate::value::Region;
use alloc::vec;

#[test]
fn what_is_proposed_is_delivered_everywhere_and_a_leaders_death_loses_nothing() {
    for n in [1, 2, 3, 5] {
        let mut group = Group::led(None, n, 0);
        for round in 0..60_u8 {
            group.propose(0, &[round; 9]);
            group.run(1);
        }
        group.run(5);
        for member in 0..n {
            assert_eq!(group.world.delivered[member].len(), 60, "{n} members, {member}");
        }
        if n < 3 {
            continue;
        }
        group.propose(0, b"open");
        group.turn(1);
        group.kill(0);
        let _slot = group.act(1, Action::Lead);
        group.run(5);
        group.propose(1, b"after");
        group.run(5);
        for member in 1..n {
            let last = &group.world.delivered[member][60..];
            assert_eq!(last, [b"open".to_vec(), b"after".to_vec()], "{n} members, {member}");
        }
    }
}

/// Both are told to lead, and the first is not told to follow.
#[test]
fn a_leader_that_is_deposed_lets_the_other_one_lead_for_a_while() {
    let mut group = Group::led(None, 3, 0);
    let _slot = group.act(1, Action::Lead);
    group.run(4);
    assert_eq!((group.status(0).role, group.status(1).role), (Role::Follower, Role::Leader));
}

#[test]
fn a_full_ring_refuses_until_a_majority_has_applied() {
    let mut group = Group::led(None, 3, 0);
    group.hold(&[(1, 0), (2, 0)]);
    for _ in 0..SHAPE.ring_slots {
        group.propose(0, b"x");
    }
    assert_eq!(group.act(0, Action::Propose(b"y")), Err(Refused::Full));
    group.run(3);
    assert_eq!(group.act(0, Action::Propose(b"y")), Err(Refused::Full));
    group.release_all();
    group.run(3);
    group.propose(0, b"y");
}

/// What the next life holds for a slot that was accepted in ballot 1 and 2, if its owner died after
/// so many stores of the second acceptance.
fn accepted_after(stores: usize, planted: impl Planting<Bug>) -> (Option<Ballot>, Vec<u8>) {
    let places = Places::new(At(0), &SHAPE);
    let words = vec![0; places.end().0 as usize];
    let mut region = Region { words, stores_left: usize::MAX, ..Region::default() };
    let mut acceptor = Acceptor::load(places, planted, &region);
    let slot = Slot(3);
    acceptor.promise(Ballot(1), planted, &mut region);
    acceptor.accept((slot, Ballot(1)), b"first", planted, &mut region);
    acceptor.promise(Ballot(2), planted, &mut region);
    region.stores_left = stores;
    acceptor.accept((slot, Ballot(2)), b"second", planted, &mut region);
    let mut next = Acceptor::load(places, planted, &region);
    (next.accepted(slot), next.value(slot, &region).unwrap_or_default().to_vec())
}

/// How many stores an acceptance makes: the label, one word of payload, the name.
const STORES: usize = crate::value::HEADER_WORDS + 2;

#[test]
fn a2_an_acceptor_that_dies_while_it_accepts_has_what_it_acknowledged() {
    for stores in 0..STORES {
        let before = (Some(Ballot(1)), b"first".to_vec());
        assert_eq!(accepted_after(stores, Sound), before, "{stores}");
    }
    assert_eq!(accepted_after(STORES, Sound), (Some(Ballot(2)), b"second".to_vec()));
}

#[test]
#[should_panic(expected = "A2")]
fn a2_what_is_written_over_what_was_accepted_is_lost_halfway() {
    (0..STORES).for_each(|stores| {
        accepted_after(stores, Planted(Bug::AcceptInPlace));
    });
}

/// A candidate's link breaks among the values that come before a promise.
fn lose_a_part(bug: Option<Bug>) -> Vec<Vec<u8>> {
    let mut group = Group::led(bug, 3, 0);
    group.hold(&[(0, 2), (2, 0)]);
    group.propose(0, b"first");
    group.propose(0, b"second");
    group.run(3);
    assert_eq!(group.world.delivered[0].len(), 2, "decided by 0 and 1");
    group.kill(0);
    group.hold(&[(1, 2)]);
    let _slot = group.act(2, Action::Lead);
    group.turn(1);
    // Two values, the promise and an acknowledgement are on their way; what breaks takes the first.
    assert_eq!(group.under_way(1, 2), 4);
    group.lose_first(1, 2);
    group.release_all();
    (0..3).for_each(|to| group.lose(0, to));
    group.run(50);
    group.world.delivered[2].clone()
}

#[test]
fn p3_a_promise_of_which_a_part_was_lost_does_not_count() {
    let both = [b"first".to_vec(), b"second".to_vec()];
    assert_eq!(lose_a_part(None), both);
    assert_ne!(lose_a_part(Some(Bug::CountPartialPromise)), both);
}

/// A candidate that lags asks acceptors whose rings have gone on.
fn lead_from_behind(bug: Option<Bug>) -> (bool, bool) {
    let mut group = Group::led(bug, 3, 0);
    group.hold(&[(0, 2), (2, 0)]);
    for round in 0..40_u8 {
        group.propose(0, &[round]);
        group.run(2);
    }
    group.kill(0);
    (0..3).for_each(|to| group.lose(0, to));
    (0..3).for_each(|from| group.lose(from, 0));
    let _slot = group.act(2, Action::Lead);
    group.release_all();
    group.run(30);
    let asks = group.world.notes[2].iter().any(|note| matches!(note, Note::NeedState(_)));
    (asks, group.status(2).role == Role::Leader)
}

#[test]
fn p3_a_candidate_asks_for_a_state_where_acceptors_hold_no_more() {
    assert_eq!(lead_from_behind(None), (true, false));
    // It would serve the empty state.
    assert_eq!(lead_from_behind(Some(Bug::IgnoreFloor)), (false, true));
}

/// A leader overruns its own ring while nothing is decided.
#[test]
fn a3_nothing_takes_the_place_of_what_is_open() {
    let accept = |bug: Option<Bug>| {
        let mut group = Group::led(bug, 3, 0);
        group.hold(&[(0, 1), (0, 2)]);
        (0..=SHAPE.ring_slots).all(|_| group.act(0, Action::Propose(b"x")).is_ok())
    };
    assert!(!accept(None));
    assert!(accept(Some(Bug::OverrunRing)));
}

/// How often a member that lacks what its earlier life had asks for a state, when the others give
/// it what it has already.
#[test]
fn a_state_that_brings_nothing_is_not_asked_for_again_at_once() {
    let mut group = Group::led(None, 3, 0);
    group.propose(0, b"x");
    group.run(3);
    group.kill(2);
    group.start(2, Start::Reattach);
    let mut n_given = 0;
    for _ in 0..250 {
        group.clocks[2] = group.clocks[2].plus(Duration::from_millis(1));
        let _slot = group.act(2, Action::Poll);
        let is_asked = |note: &&Note| matches!(note, Note::NeedState(_));
        if group.world.notes[2].iter().filter(is_asked).count() > n_given {
            n_given += 1;
            let _slot = group.act(2, Action::Install(Prefix::ZERO));
        }
    }
    assert_eq!(group.status(2).role, Role::Learner);
    assert_eq!(n_given, 3, "at once, and each tenth of a second");
    let _slot = group.act(2, Action::Install(Prefix(1)));
    assert_eq!(group.status(2).role, Role::Follower);
}

#[test]
fn a_process_that_has_lost_its_state_does_not_hold_what_its_predecessor_had() {
    let mut group = Group::led(None, 3, 0);
    let prefix = group.propose(0, b"x").prefix_through();
    group.run(3);
    assert_eq!(group.holders(0, prefix), MemberSet::all(3));
    group.kill(2);
    group.start(2, Start::Reattach);
    let _slot = group.act(0, Action::Event(Event::LinkUp(Rank::at(2))));
    group.run(3);
    assert_eq!(group.status(2).role, Role::Learner);
    assert_eq!(group.holders(0, prefix), MemberSet::all(2));
    let _slot = group.act(2, Action::Install(prefix));
    group.run(2);
    assert_eq!(group.holders(0, prefix), MemberSet::all(3));
}

/// Its region has the promise and what was accepted.
#[test]
fn a_member_without_its_state_promises_and_accepts_as_before() {
    let mut group = Group::led(None, 3, 0);
    group.propose(0, b"x");
    group.run(3);
    group.kill(2);
    group.start(2, Start::Reattach);
    let _slot = group.act(0, Action::Event(Event::LinkUp(Rank::at(2))));
    group.kill(1);
    group.run(3);
    group.propose(0, b"y");
    group.run(3);
    assert_eq!(group.world.delivered[0], [b"x", b"y"]);
    assert_eq!((group.status(2).role, group.status(2).applied), (Role::Learner, Prefix::ZERO));
}
