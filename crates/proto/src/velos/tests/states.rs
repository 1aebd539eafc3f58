//! Transfers of states.

use super::super::slot::SOURCE_PATIENCE;
use super::*;
use crate::members::Change;

/// Makes leader 1 decide a value whose news reach member 2 by rumour only.
fn read_from_others<P: Planting<Bug>>(planted: P) -> (Group<P>, Ballot) {
    let mut group = Group::new(planted);
    group.hold(1, 2);
    group.lead(1);
    group.settle(&[0, 1]);
    group.propose(1, b"unheard").expect("leads");
    group.settle(&[0, 1]);
    let ballot = group.machines[1].status().ballot;
    for _ in 0..200 {
        group.now = group.now.plus(Duration::from_millis(1));
        for me in EVERYBODY {
            group.step(me);
        }
    }
    assert_eq!(group.values(2), [b"unheard"]);
    assert_eq!(group.machines[2].counters.applied_from_fetch, 1, "it was read elsewhere");
    assert_eq!(group.machines[2].news.ballot(), Ballot::NONE, "and no leader was heard of");
    (group, ballot)
}

#[test]
fn i14_ballots_learned_by_reading_are_no_later_incarnations_ballots() {
    let (group, ballot) = read_from_others(Sound);
    let head = group.machines[2].state_head(Prefix(1)).expect("it knows the members");
    assert!(head.ballot >= ballot, "{:?} goes with a state that {ballot:?} decided", head.ballot);
    // A new incarnation on the seat of member 1 continues from that state.
    let mut group = group;
    let incarnation = Incarnation(2);
    let start = Start::Join { incarnation };
    group.world.memory[1].fill(0);
    let mut view = View { world: &mut group.world, me: 1 };
    let mut joined = Machine::<_>::new(&config(1, start), At(0), &SHAPE, Sound, &mut view);
    joined.install(Prefix(1), Some(head), group.now, &mut view);
    assert!(
        Ballot::above(joined.candidacy.highest(), Rank::at(1)) > ballot,
        "M4: a ballot of its own"
    );
}

#[test]
fn i14_without_them_a_new_incarnation_uses_its_predecessors_ballot() {
    let (group, ballot) = read_from_others(Planted(Bug::ForgetReadBallots));
    let head = group.machines[2].state_head(Prefix(1)).expect("it knows the members");
    assert_eq!(Ballot::above(head.ballot, Rank::at(1)), ballot);
}

#[test]
fn i15_a_state_head_says_nothing_of_what_is_not_applied() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    group.hold(0, 2);
    let mut view = View { world: &mut group.world, me: 0 };
    let change = Change::Remove(Rank::at(1));
    group.machines[0].change(change, group.now, &mut view).expect("nothing is pending");
    group.settle(&[0, 1]);
    let (there, here) = (group.machines[0].applied, group.machines[2].applied);
    assert!(there > here);
    let head = group.machines[0].state_head(there).expect("it has applied that");
    assert!(head.members_at > Prefix::ZERO, "others take part after it");
    assert_eq!(group.machines[2].state_head(there), None, "member 2 does not know who");
    assert!(group.machines[2].state_head(here).is_some());
}

#[test]
fn i15_a_state_that_is_not_ahead_takes_the_members_away_from_nobody() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    group.propose(0, b"one").expect("leads");
    group.settle(&EVERYBODY);
    // Transfers that began when both members lagged end now.
    for me in [0, 2] {
        let applied = group.machines[me].applied;
        let mut view = View { world: &mut group.world, me };
        group.machines[me].install(applied, None, group.now, &mut view);
        assert!(group.machines[me].can_lead() && group.machines[me].configuration().is_some());
    }
    assert!(group.leads(0));
    group.propose(0, b"two").expect("still leads");
    group.settle(&EVERYBODY);
    assert_eq!(group.values(2), [&b"one"[..], b"two"]);
}

/// The number of times that member 2 has asked for a state.
fn asked<P: Planting<Bug>>(group: &Group<P>) -> usize {
    let is_asked = |note: &&Note| matches!(note, Note::NeedState(_));
    group.world.notes[2].iter().filter(is_asked).count()
}

/// Tells member 2, which the leader 0 does not reach, that so many slots are decided.
fn tell_decided(group: &mut Group<Sound>, n_decided: u64) {
    let fact = group.machines[0].places.fact(Rank::at(0)).0 as usize;
    group.world.memory[2][fact] = group.machines[0].news.of(0).ballot.0;
    group.world.memory[2][fact + 1] = n_decided;
}

/// Members 0 and 1 have recycled slots, of which member 2 knows the first few.
fn left_behind<P: Planting<Bug>>(planted: P, n_known: u8) -> Group<P> {
    let mut group = Group::new(planted);
    group.lead(0);
    group.settle(&EVERYBODY);
    for n in 0..60u8 {
        if n == n_known {
            group.hold(0, 2);
            group.hold(1, 2);
        }
        group.propose(0, &[n]).expect("room");
        group.settle(if n < n_known { &EVERYBODY } else { &[0, 1] });
    }
    group
}

/// Steps member 2 until it has asked for a state several times.
fn ask_on(group: &mut Group<Sound>) {
    for n in 1..5 {
        let until = group.now.plus(Duration::from_secs(1));
        while asked(group) < n {
            assert!(group.now < until, "asked {} times, and not again", asked(group));
            group.now = group.now.plus(Duration::from_millis(1));
            group.step(2);
        }
    }
}

/// The member that was asked for a state may lag as well.
#[test]
fn a_state_is_asked_for_until_there_is_one_that_helps() {
    let mut group = left_behind(Sound, 0);
    tell_decided(&mut group, 60);
    ask_on(&mut group);
}

/// With the processes died the claims that would free its places.
#[test]
fn i3_a_candidate_without_a_free_place_asks_for_a_state() {
    for is_told_first in [true, false] {
        let mut group = left_behind(Sound, 20);
        assert!(u64::from(SHAPE.ring_slots) < group.machines[2].applied.0);
        (0..2).for_each(|peer| group.event(2, Event::ProcessFailed(Rank::at(peer))));
        if is_told_first {
            tell_decided(&mut group, 60);
        }
        group.lead(2);
        group.step(2);
        tell_decided(&mut group, 60);
        ask_on(&mut group);
    }
}

/// Whether member 2 would lead, after it has stood for election with less than a majority has
/// applied, and when it has got a state.
fn would_lead<P: Planting<Bug>>(planted: P) -> [bool; 2] {
    let mut group = left_behind(planted, 20);
    group.release(0, 2);
    group.release(1, 2);
    group.lead(2);
    group.settle(&[2]);
    assert!(group.machines[2].term.is_none(), "its term has ended");
    assert!(group.machines[2].applied < Prefix(60) && asked(&group) > 0);
    let before = group.machines[2].can_lead();
    let mut view = View { world: &mut group.world, me: 2 };
    group.machines[2].install(Prefix(60), Some(head()), group.now, &mut view);
    [before, group.machines[2].can_lead()]
}

/// The trap: all trust it, since it has the lowest rank; one that could lead at once trusts it too,
/// and what it lacks may come from no member.
#[test]
fn i8_who_is_behind_a_majority_is_not_trusted_until_it_has_applied_more() {
    assert_eq!(would_lead(Sound), [false, true]);
    assert_eq!(would_lead(Planted(Bug::StandsBehind)), [true, true]);
}

/// Two of three have recycled the slots that it misses. The third could not make up for them.
#[test]
fn a_state_is_asked_for_although_a_member_is_silent() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    for n in 0..60u8 {
        group.propose(0, &[n]).expect("room");
        group.settle(&[0, 1]);
    }
    group.hold(2, 1);
    let until = group.now.plus(Duration::from_secs(1));
    while asked(&group) == 0 {
        assert!(group.now < until, "nothing is asked for");
        group.now = group.now.plus(Duration::from_millis(1));
        group.step(2);
    }
}

#[test]
fn a_lagging_follower_catches_up_by_read_and_by_state_when_the_slots_are_gone() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    group.hold(0, 2);
    for n in 0..8u8 {
        group.propose(0, &[n]).expect("room");
        group.settle(&[0, 1]);
    }
    // The news comes without the accepts: the words have to be read elsewhere.
    tell_decided(&mut group, 8);
    group.settle(&[2]);
    assert_eq!(group.values(2).len(), 8);
    assert_eq!(group.machines[2].counters.applied_from_fetch, 8);
    for n in 8..60u8 {
        group.propose(0, &[n]).expect("room");
        group.settle(&[0, 1]);
    }
    tell_decided(&mut group, 60);
    group.settle(&[2]);
    assert!(asked(&group) > 0);
    let mut view = View { world: &mut group.world, me: 2 };
    group.machines[2].install(Prefix(60), Some(head()), group.now, &mut view);
    group.release(0, 2);
    group.propose(0, b"after").expect("room");
    group.settle(&EVERYBODY);
    assert_eq!(group.values(2).last(), Some(&&b"after"[..]));
}

#[test]
fn a_lagging_follower_does_not_wait_for_a_silent_witness() {
    let mut group = left_behind(Sound, 0);
    tell_decided(&mut group, 60);
    group.hold(2, 1);
    group.settle(&[2]);
    assert_eq!(asked(&group), 0, "r0 has used the slots again, and r1 may answer that it has not");
    group.now = group.now.plus(SOURCE_PATIENCE);
    group.settle(&[2]);
    assert!(asked(&group) > 0, "r0 has a state, and r1 is silent");
}
