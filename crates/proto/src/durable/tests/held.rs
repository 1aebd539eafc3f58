//! What is on every disk (I13).

use super::*;

variants! {
    HoldByMajority: HOLD_BY_MAJORITY,
}

/// I13. (What is held, what is decided) while one disk stands still, and after it goes on.
fn held_while_one_disk_stands_still<V: Variant>() -> [(Prefix, Prefix); 2] {
    let mut group = Group::<V>::led(3, 0);
    let before = group.status(0).committed;
    group.hold_disk(2);
    group.propose(0, b"x");
    group.run(20);
    let seen = |group: &Group<V>| {
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
    assert_eq!(held_while_one_disk_stands_still::<Sound>(), [(none, one), (one, one)]);
    assert_eq!(held_while_one_disk_stands_still::<HoldByMajority>()[0], (one, one));
}

#[test]
fn an_undecided_removal_excuses_nobody() {
    let mut group = Group::<Sound>::led(3, 0);
    group.power_cut(2);
    group.propose(0, b"x");
    group.run(20);
    let held = group.member(0).held_by_all();
    assert!(held < group.status(0).committed, "r2 lacks it");
    // On the leader's disk alone: another leader may yet undo it.
    group.cut_writes(0, 1);
    group.change(0, Change::Remove(Rank::at(2))).expect("nothing else is under way");
    group.run(20);
    assert_eq!(group.member(0).held_by_all(), held);
}

#[test]
fn a_removal_that_is_decided_frees_what_waited() {
    let mut group = Group::<Sound>::led(3, 0);
    group.power_cut(2);
    group.propose(0, b"x");
    group.run(20);
    group.change(0, Change::Remove(Rank::at(2))).expect("nothing else is under way");
    group.run(20);
    assert_eq!(group.member(0).held_by_all(), group.status(0).committed);
}
