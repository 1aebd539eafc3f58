//! Planted bugs that a sweep meets too rarely: each is shown by the scenario that a sound machine
//! passes.

use super::*;

/// The ballots of a member's first term and of its first after a restart, at their beginning.
fn ballots_around_a_restart<V: Variant>() -> (Ballot, Ballot) {
    let mut group = Group::<V>::new();
    // It dies before its first verb arrives anywhere: only its own note tells of the ballot.
    group.hold_all(0);
    group.lead(0);
    let before = group.machines[0].status().ballot;
    let mut view = View { world: &mut group.world, me: 0 };
    group.machines[0] = Machine::new(&config(0, Start::Reattach), At(0), &SHAPE, &mut view);
    group.machines[0].install(Prefix(0), None, group.now, &mut view);
    group.lead(0);
    (before, group.machines[0].status().ballot)
}

#[test]
fn i2_a_ballot_is_noted_before_the_first_verb_that_uses_it() {
    let (before, after) = ballots_around_a_restart::<Sound>();
    assert!(after > before, "{after:?} was used by an earlier life");
}

/// The check above is one. (A sweep hardly ever meets it: the own words remember the ballot too.)
#[test]
fn i2_without_the_note_a_later_life_would_use_the_ballot_again() {
    enum Forgetful {}

    impl Variant for Forgetful {
        const NAME: &'static str = "FORGET_PROMISE";
        const FORGET_PROMISE: bool = true;
    }

    let (before, after) = ballots_around_a_restart::<Forgetful>();
    assert_eq!(after, before);
}

/// The check of the same name in `tests` is one: with the bug planted, the sleeper leads.
#[test]
fn i8_without_the_survey_the_sleeper_would_lead() {
    enum Trusting {}

    impl Variant for Trusting {
        const NAME: &'static str = "SKIP_SURVEY";
        const PACKING: Packing = Narrow::PACKING;
        const SKIP_SURVEY: bool = true;
    }

    let misled = (1..=9u64).any(|rings| {
        let mut group = Group::<Trusting>::new();
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
