//! The prefix on every disk (I13).

use super::*;

/// I13. The held and the decided prefix while one disk stands still, and after it resumes.
fn held_while_one_disk_stands_still<P: Planting<Bug>>(planted: P) -> [(Prefix, Prefix); 2] {
    let mut group = Group::led(planted, 3, 0);
    let before = group.status(0).committed;
    group.hold_disk(2);
    group.propose(0, b"x");
    group.run(20);
    let seen = |group: &Group<P>| {
        let since = |prefix: Prefix| Prefix(prefix.0.saturating_sub(before.0));
        (since(group.member(0).held_by_all()), since(group.status(0).committed))
    };
    let first = seen(&group);
    group.release_disk(2);
    group.run(20);
    [first, seen(&group)]
}

#[test]
fn what_a_majority_holds_not_all_hold() {
    let (none, one) = (Prefix(0), Prefix(1));
    assert_eq!(held_while_one_disk_stands_still(Sound), [(none, one), (one, one)]);
    assert_eq!(held_while_one_disk_stands_still(Planted(Bug::HoldByMajority))[0], (one, one));
}

#[test]
fn an_undecided_removal_excuses_nobody() {
    let mut group = Group::led(Sound, 3, 0);
    group.power_cut(2);
    group.propose(0, b"x");
    group.run(20);
    let held = group.member(0).held_by_all();
    assert!(held < group.status(0).committed, "r2 lacks it");
    // The change is on the leader's disk alone: another leader may yet undo it.
    group.cut_writes(0, 1);
    group.change(0, Change::Remove(Rank::at(2))).expect("nothing else is under way");
    group.run(20);
    assert_eq!(group.member(0).held_by_all(), held);
}

#[test]
fn a_removal_that_is_decided_frees_what_waited() {
    let mut group = Group::led(Sound, 3, 0);
    group.power_cut(2);
    group.propose(0, b"x");
    group.run(20);
    group.change(0, Change::Remove(Rank::at(2))).expect("nothing else is under way");
    group.run(20);
    assert_eq!(group.member(0).held_by_all(), group.status(0).committed);
}

/// I13. The held and the decided prefix when a member has come back whose log begins behind a
/// damaged state; and when it has got another state.
fn held_while_a_state_is_damaged<P: Planting<Bug>>(planted: P) -> [(Prefix, Prefix); 2] {
    let mut group = Group::led(planted, 3, 0);
    (0..4).for_each(|_| group.propose(0, b"x"));
    group.run(20);
    let covered = group.status(1).applied;
    group.snapshotted(1, covered);
    group.run(5);
    group.power_cut(1);
    group.recover(1);
    group.reconnect(0, 1);
    // It is the only other one: its acknowledgement does count for later entries.
    group.power_cut(2);
    group.change(0, Change::Remove(Rank::at(2))).expect("nothing else is under way");
    group.run(20);
    let seen = |group: &Group<P>| (group.member(0).held_by_all(), group.status(0).committed);
    let first = seen(&group);
    assert!(first.1 > covered, "nothing is decided without the state: {first:?}");
    assert_eq!(group.status(1).role, Role::Learner, "the test shows nothing");
    group.install(1, covered);
    group.run(20);
    [first, seen(&group)]
}

#[test]
fn a_disk_with_a_damaged_state_holds_nothing_until_it_has_another() {
    let [(held, _), (later, decided)] = held_while_a_state_is_damaged(Sound);
    assert_eq!((held, later), (Prefix::ZERO, decided));
    let [(held, decided), _] = held_while_a_state_is_damaged(Planted(Bug::HoldWithoutState));
    assert_eq!(held, decided, "the bug does not show");
}

/// I13. Whether more is held when a new disk has everything, whose seat another leader may yet give
/// back to the earlier disk.
fn a_successor_speaks_for_the_disk_before<P: Planting<Bug>>(planted: P) -> bool {
    let mut group = Group::led(planted, 3, 0);
    group.power_cut(2);
    group.propose(0, b"x");
    group.run(20);
    let before = group.member(0).held_by_all();
    assert!(before < group.status(0).committed, "r2 lacks it");
    group.cut_writes(0, 1);
    let second = Incarnation(2);
    group.change(0, Change::Replace(Rank::at(2), second)).expect("nothing else is under way");
    group.join(2, second);
    group.run(200);
    let durable = group.ack(0, 2).map(|ack| ack.durable);
    assert!(durable >= Some(group.status(0).committed), "the new disk has it: {durable:?}");
    group.member(0).held_by_all() > before
}

#[test]
fn a_new_disk_does_not_speak_for_the_one_that_it_replaces() {
    assert!(!a_successor_speaks_for_the_disk_before(Sound));
    assert!(a_successor_speaks_for_the_disk_before(Planted(Bug::HoldBySuccessor)));
}
