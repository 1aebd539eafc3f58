//! Planted bugs that a sweep meets too rarely: a scenario shows each, and a sound machine passes
//! it.

use super::*;

/// The ballots of a member's first term and of its first after a restart, at their beginning.
fn ballots_around_a_restart<P: Planting<Bug>>(planted: P) -> (Ballot, Ballot) {
    let mut group = Group::new(planted);
    // It dies before its first verb arrives at any member: only its own note has the ballot.
    group.hold_all(0);
    group.lead(0);
    let before = group.machines[0].status().ballot;
    let mut view = View { world: &mut group.world, me: 0 };
    group.machines[0] =
        Machine::new(&config(0, Start::Reattach), At(0), &SHAPE, planted, &mut view);
    group.machines[0].install(Prefix(0), Some(head()), group.now, &mut view);
    group.lead(0);
    (before, group.machines[0].status().ballot)
}

#[test]
fn i2_a_ballot_is_noted_before_the_first_verb_that_uses_it() {
    let (before, after) = ballots_around_a_restart(Sound);
    assert!(after > before, "{after:?} was used by an earlier life");
}

/// Shows that the check above can fail. (A sweep hardly ever meets this bug: the own words have the
/// ballot too.)
#[test]
fn i2_without_the_note_a_later_life_would_use_the_ballot_again() {
    let (before, after) = ballots_around_a_restart(Planted(Bug::ForgetPromise));
    assert_eq!(after, before);
}

/// Shows that the check of the same name in `tests` can fail: with the bug, the sleeper leads.
#[test]
fn i8_without_the_survey_the_sleeper_would_lead() {
    let misled = (1..=9u64).any(|rings| {
        let mut group = Group::<_, Narrow>::made(Planted(Bug::SkipSurvey));
        group.lead(0);
        group.settle(&EVERYBODY);
        group.hold(0, 2);
        for n in 0..rings * 16 + 3 {
            group.propose(0, &[n as u8]).expect("room");
            group.settle(&[0, 1]);
        }
        group.lead(2);
        group.settle(&[2]);
        group.leads(2)
    });
    assert!(misled);
}

/// Member 2 takes over with the help of member 1 alone. It reads the value that member 1 returned
/// for the first of `missed` slots only when the old leader's value for the next use of that place
/// has arrived there too. Returns the value that member 0 delivered for that slot, and that of
/// member 2.
fn values_around_a_next_use<P: Planting<Bug>>(
    planted: P,
    missed: u8,
) -> (Vec<u8>, Option<Vec<u8>>) {
    let mut group = Group::new(planted);
    group.lead(0);
    group.settle(&EVERYBODY);
    for n in 0..20 {
        group.propose(0, &[n]).expect("room");
        group.settle(&EVERYBODY);
    }
    let first = group.machines[2].applied.next_slot();
    group.hold(0, 2);
    group.hold(1, 2);
    group.hold(2, 0);
    for n in 0..missed {
        group.propose(0, &[100 + n]).expect("room");
        group.settle(&[0, 1]);
    }
    group.hold(0, 1);
    while group.propose(0, b"of a later slot").is_ok() {}
    group.lead(2);
    let area_words = group.machines[0].places.area_words as usize;
    let is_of_value =
        |verb: &Verb| matches!(verb, Verb::Read { n_words, .. } if *n_words == area_words);
    for _ in 0..100 {
        group.hold(2, 1);
        group.now = group.now.plus(Duration::from_micros(100));
        group.step(2);
        if group.world.links[2][1].iter().any(is_of_value) {
            group.release(0, 1);
        }
        group.release(2, 1);
    }
    let at = first.0 as usize;
    (group.world.delivered[0][at].clone(), group.world.delivered[2].get(at).cloned())
}

#[test]
fn i5_a_value_that_a_word_refers_to_outlives_the_next_use_of_its_place() {
    let agree = |(was, is): (Vec<u8>, Option<Vec<u8>>)| is.is_none_or(|is| is == was);
    for missed in 8..=14 {
        assert!(agree(values_around_a_next_use(Sound, missed)), "{missed} missed");
    }
    let taken_over = (8..=14).filter(|missed| values_around_a_next_use(Sound, *missed).1.is_some());
    assert!(taken_over.count() > 0, "the case that is to be shown");
    // The value is gone: member 2 finds one of a later use, and knows that it is behind.
    let is_lost = |missed| {
        let (_, sound) = values_around_a_next_use(Sound, missed);
        let (_, is) = values_around_a_next_use(Planted(Bug::WriteLiveArea), missed);
        sound.is_some() && is != sound
    };
    assert!((8..=14).any(is_lost));
}

/// Member 2 misses one slot, whose place member 0 uses again. A given number of the verbs for that
/// have arrived at member 1 when member 2 takes over with the help of member 1 alone. Returns the
/// value that member 0 delivered for the slot, and member 2's.
fn values_between_two_verbs<P: Planting<Bug>>(
    planted: P,
    n_arrived: usize,
) -> (Vec<u8>, Option<Vec<u8>>) {
    let mut group = Group::new(planted);
    group.lead(0);
    group.settle(&EVERYBODY);
    for n in 0..20 {
        group.propose(0, &[n]).expect("room");
        group.settle(&EVERYBODY);
    }
    let missed = group.machines[2].applied.next_slot();
    for (from, to) in [(0, 2), (1, 2), (2, 0)] {
        group.hold(from, to);
    }
    let ring = u64::from(SHAPE.ring_slots);
    while group.machines[0].term.as_ref().is_some_and(|term| term.next.0 < missed.0 + ring) {
        group.propose(0, b"decided by 0 and 1").expect("room");
        group.settle(&[0, 1]);
    }
    group.hold(0, 1);
    group.propose(0, b"of the next use").expect("room");
    group.world.let_through(0, 1, n_arrived);
    group.lead(2);
    group.settle(&[2]);
    let at = missed.0 as usize;
    (group.world.delivered[0][at].clone(), group.world.delivered[2].get(at).cloned())
}

/// A process stops, or others read its memory, between any two verbs of one call: they still decide
/// no other value for a decided slot.
#[test]
fn i8_a_horizon_is_shown_before_the_cas_that_uses_a_place_again() {
    let agree = |(was, is): (Vec<u8>, Option<Vec<u8>>)| is.is_none_or(|is| is == was);
    for n_arrived in 0..8 {
        let values = values_between_two_verbs(Sound, n_arrived);
        assert!(agree(values.clone()), "after {n_arrived} verbs: {values:?}");
    }
    let (was, is) = values_between_two_verbs(Planted(Bug::HorizonAfterCas), 0);
    assert_eq!(is, Some(was), "it can take over while nothing has arrived");
    assert!((0..8).any(|n_arrived| !agree(values_between_two_verbs(
        Planted(Bug::HorizonAfterCas),
        n_arrived
    ))));
}
