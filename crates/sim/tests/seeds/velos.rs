//! Velos in bad weather, and named traps stepped by hand.

use crate::logs::{catches, clean, clean_and_covered};
use sim::script::{Operation, PATIENCE, Script};
use sim::subjects::subject;
use sim::{Config, Mark, Property, Provider, Shape, Subject};
use std::time::Duration;

const SHAPE: Shape = Shape { ring_slots: 16, value_bytes: 128 };

#[test]
fn sound_velos_survives_a_sweep_that_reaches_the_interesting_cases() {
    clean_and_covered(&subject("velos"), 0..120, &[]);
}

#[test]
fn narrow_words_fall_back_to_messages_and_stay_safe() {
    let report = clean(&subject("velos-narrow"), 0..40);
    assert!(report.coverage.count(Mark::MachineMessage) > 0);
}

/// Seven members, an answer each 200 us of virtual time: as many records as a storm has, and a
/// decision every two hundred of them.
#[test]
fn a_busy_run_is_no_storm() {
    clean(&subject("velos-narrow"), 40_001_405..40_001_406);
}

/// Memory is lost with its seat, and comes back as another incarnation.
#[test]
fn members_change_under_faults_and_every_kind_of_change_is_reached() {
    clean_and_covered(&subject("velos-members"), 0..60, &[]);
}

/// `gregale sim --protocol velos-members --mutants` hunts for longer.
#[test]
fn a_short_sweep_finds_every_planted_bug_of_a_change_of_members() {
    let survivors: Vec<&str> = subject("velos-members")
        .mutants()
        .iter()
        .filter(|mutant| mutant.name != "HEAD_ABOVE_APPLIED")
        .filter(|mutant| mutant.hunt(&Config::default(), 0, 120).is_none())
        .map(|mutant| mutant.name)
        .collect();
    assert!(survivors.is_empty(), "survived: {survivors:?}");
}

/// Seldom met: a newcomer is given a state by a member that has one on its way itself, and whose
/// machine has not applied a change that the state covers.
#[test]
fn a_state_head_above_what_is_applied_forks_the_members() {
    let mutants = subject("velos-members").mutants();
    let mutant = mutants.iter().find(|mutant| mutant.name == "HEAD_ABOVE_APPLIED").expect("listed");
    let found = mutant.hunt(&Config::default(), 60, 60).expect("it is caught");
    // Forked members accept and decide what earlier majorities contradict, which is seen first.
    let telling = [Property::Membership, Property::Safe, Property::Decided];
    let is_telling = telling.contains(&found.violation.property);
    assert!(is_telling, "{}", found.violation);
}

/// Others have recycled the slots that it lacks, and the member that it asks for a state has
/// nothing newer.
#[test]
fn a_member_that_lags_is_not_left_behind_by_states_that_bring_nothing_new() {
    for seed in [84, 92, 188, 40_000_208] {
        clean(&subject("velos-members"), seed..seed + 1);
    }
}

/// The bugs that a short sweep finds; `gregale sim --mutants` hunts all of them for longer.
#[test]
fn a_short_sweep_finds_most_planted_bugs() {
    let names = ["SKIP_PREPARE", "IGNORE_FOUND_VALUE", "READ_WITHOUT_CHECK", "SERVE_AS_LEARNER"];
    let n_caught = catches(&subject("velos"), 30, &names);
    assert!(n_caught >= 9, "only {n_caught}");
}

fn settled(provider: Provider) -> (Script, usize) {
    let mut script = Script::new(subject("velos"), 3, provider, SHAPE, 3);
    assert!(script.run_until(PATIENCE, |script| script.leaders().len() == 1), "nobody leads");
    let leader = script.leaders()[0];
    (script, leader)
}

fn write(script: &mut Script, client: usize, node: usize, value: u64) {
    script.ask(client, node, 0, Operation::Write(value));
    let answered = script.run_until(PATIENCE, |script| script.answer(client) == Some(value));
    assert!(answered, "no answer to the write of {value}");
}

#[test]
fn a_write_is_answered_and_every_member_reads_it() {
    for provider in [Provider::Shm, Provider::Tcp] {
        let (mut script, leader) = settled(provider);
        write(&mut script, 0, leader, 7);
        for node in 0..3 {
            script.ask(1, node, 0, Operation::Read);
            let seen = script.run_until(PATIENCE, |script| script.answer(1).is_some());
            assert!(seen && script.answer(1) == Some(7), "through r{node}");
        }
        script.check().expect("nothing is wrong");
    }
}

/// The trap of recycled slots: a deposed leader's CAS, held back on its wires until the ring has
/// turned over several times, must not succeed on the new use of its slot.
#[test]
fn delayed_cas_of_a_deposed_leader_fails_on_a_recycled_slot() {
    let (mut script, old) = settled(Provider::Shm);
    write(&mut script, 0, old, 1);
    let others: Vec<usize> = (0..3).filter(|node| *node != old).collect();
    for other in &others {
        script.hold(old, *other);
    }
    // The old leader proposes into its held wires; the others no longer receive anything from it.
    script.ask(1, old, 0, Operation::Write(666));
    let deposed = script
        .run_until(PATIENCE, |script| others.iter().any(|other| script.leaders().contains(other)));
    assert!(deposed, "nobody took over");
    let new = others.iter().copied().find(|other| script.leaders().contains(other));
    let new = new.expect("just seen");
    // Several turns of a ring of 16 slots.
    for value in 10..90 {
        write(&mut script, 2, new, value);
    }
    for other in &others {
        script.release(old, *other);
    }
    script.run_for(Duration::from_millis(500));
    script.ask(0, new, 0, Operation::Read);
    let seen = script.run_until(PATIENCE, |script| script.answer(0).is_some());
    assert!(seen);
    script.check().expect("agreement, order and linearizability hold");
}

/// A leader that was stopped for longer than any time-out acts on its old knowledge.
#[test]
fn a_leader_that_wakes_up_after_its_successor_served_answers_no_stale_read() {
    let (mut script, old) = settled(Provider::Shm);
    write(&mut script, 0, old, 1);
    script.pause(old);
    let taken = script.run_until(PATIENCE, |script| script.leaders().iter().any(|at| *at != old));
    assert!(taken, "nobody took over");
    let new = script.leaders().into_iter().find(|at| *at != old).expect("just seen");
    write(&mut script, 1, new, 2);
    script.ask(2, old, 0, Operation::Read);
    script.run_for(Duration::from_millis(1));
    script.resume(old);
    let seen = script.run_until(PATIENCE, |script| script.answer(2).is_some());
    assert!(seen && script.answer(2) == Some(2), "{:?}", script.answer(2));
    script.check().expect("nothing is wrong");
}

#[test]
fn a_restarted_member_serves_again_once_it_has_the_state() {
    let (mut script, leader) = settled(Provider::Shm);
    for value in 1..60 {
        write(&mut script, 0, leader, value);
    }
    let dead = (leader + 1) % 3;
    script.crash(dead);
    write(&mut script, 0, leader, 60);
    script.restart(dead);
    assert_eq!(script.status(dead).map(|status| status.role), Some(proto::Role::Learner));
    let back = script.run_until(PATIENCE, |script| {
        script.status(dead).is_some_and(|status| status.role == proto::Role::Follower)
            && script.applied(dead) == script.applied(leader)
    });
    assert!(back, "{:?}", script.status(dead));
    script.check().expect("nothing is wrong");
}

/// Memory-quorum does not survive the death of all processes: no member may serve as if it did.
#[test]
fn when_every_state_is_lost_nobody_serves() {
    let (mut script, leader) = settled(Provider::Shm);
    for value in 1..60 {
        write(&mut script, 0, leader, value);
    }
    for node in 0..3 {
        script.crash(node);
    }
    for node in 0..3 {
        script.restart(node);
    }
    script.ask(1, leader, 0, Operation::Read);
    script.run_for(Duration::from_secs(3));
    assert_eq!(script.answer(1), None, "an answer from nothing");
    for node in 0..3 {
        assert_eq!(script.status(node).map(|status| status.role), Some(proto::Role::Learner));
    }
    script.check().expect("to refuse is not a violation");
}

/// Runs of a virtual day: idle hours, and wall clocks that are set, drift and are corrected.
#[test]
fn state_time_that_jumps_or_stands_still_is_caught_in_runs_of_a_day() {
    let config = Config { is_long: true, ..Config::default() };
    let survivors: Vec<&str> = subject("velos")
        .long_mutants()
        .iter()
        .filter(|mutant| {
            let found = mutant.hunt(&config, 0, 40);
            found.is_none_or(|found| found.violation.property != Property::StateTime)
        })
        .map(|mutant| mutant.name)
        .collect();
    assert!(survivors.is_empty(), "survived: {survivors:?}");
}

/// A member lags more than a ring; the leader has given it its state, and dies before it has
/// reported that this is all. The third has applied a little less, and gives nothing. No member can
/// lead before the first has applied what it has executed.
#[test]
fn a_state_that_its_giver_has_not_ended_is_enough_when_nobody_left_has_more() {
    for seed in [470_827_382_313, 88_511_744_129_487] {
        let outcome = sim::replay(&subject("velos"), &Config::default(), seed);
        assert_eq!(outcome.violation, None, "{seed}");
    }
    // The giver is back, without its state: all three run.
    let outcome = sim::replay(&subject("velos-narrow"), &Config::default(), 77_512_896_732_851);
    assert_eq!(outcome.violation, None);
}

/// The number of 100 writes that a leader answers while all others are stopped.
fn alone(subject: Subject) -> (Script, usize, u64) {
    let shape = Shape { ring_slots: 16, value_bytes: 128 };
    let mut script = Script::new(subject, 3, Provider::Shm, shape, 2);
    assert!(script.run_until(PATIENCE, |script| script.leaders().len() == 1));
    let leader = script.leaders()[0];
    (0..3).filter(|node| *node != leader).for_each(|node| script.pause(node));
    let mut n_answered = 0;
    for value in 1..=100 {
        script.ask(0, leader, 0, Operation::Write(value));
        let answered = |script: &Script| script.answer(0) == Some(value);
        if !script.run_until(Duration::from_millis(2), answered) {
            break;
        }
        n_answered += 1;
    }
    (script, leader, n_answered)
}

/// Memory answers for the stopped members, but slots that they have not applied are not recycled
/// (I3).
#[test]
fn a_leader_alone_goes_on_for_one_ring_and_no_further() {
    let (script, _, n_answered) = alone(subject("velos"));
    assert!((4..=16).contains(&n_answered), "{n_answered} writes in a ring of 16");
    script.check().expect("nothing is wrong");
}

#[test]
fn recycling_early_loses_what_only_the_leader_had_applied() {
    let (mut script, leader, n_answered) = alone(subject("velos").planted("RECYCLE_EARLY"));
    assert_eq!(n_answered, 100, "the bug lets it go on");
    script.crash(leader);
    (0..3).filter(|node| *node != leader).for_each(|node| script.resume(node));
    script.ask(1, (leader + 1) % 3, 0, Operation::Read);
    script.run_for(Duration::from_secs(2));
    assert_eq!(script.answer(1), None, "nobody has the state any more");
}
