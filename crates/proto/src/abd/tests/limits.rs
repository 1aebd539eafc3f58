//! Long states, full queues, deadlines, and the end of faults.

use super::super::wire::Body;
use super::stage::Stage;
use super::*;

/// Registers of a member.
fn registers<P: Planting<Bug>>(stage: &Stage<P>, at: usize) -> BTreeMap<Vec<u8>, (Tag, Vec<u8>)> {
    stage.members[at].1.registers.clone()
}

/// Three members with sixteen keys, which are several pieces of a state.
fn with_keys() -> Stage<Sound> {
    let mut stage = Stage::new(3, Sound);
    stage.members.iter_mut().for_each(|(_, process)| process.value_bytes = 10_000);
    (0..16_u8).for_each(|key| {
        stage.write(0, &[key]);
    });
    stage.heal();
    stage
}

#[test]
fn a_merge_of_several_pieces_brings_every_key() {
    let mut stage = with_keys();
    stage.begin_again(1);
    let mut n_pieces = 0;
    // A piece at a time: keys before and behind the place that was reached change meanwhile.
    while !stage.counts(1) {
        stage.pass(|from, _, body| from == 1 && matches!(body, Body::Fetch { .. }));
        for key in [0_u8, 15, 20 + n_pieces as u8] {
            stage.write(0, &[key]);
        }
        stage.pass_among(&[0, 2]);
        let mut of = stage.pieces_to(1);
        n_pieces += of.len();
        of.drain(..).for_each(|message| stage.deliver(message));
        assert!(n_pieces < 100, "it does not end");
    }
    assert!(n_pieces > 6, "{n_pieces} pieces of two givers");
    assert_eq!(stage.members[1].0.counts().merges, 1);
    assert!(stage.members[1].0.counts().keys_merged >= 32);
    stage.heal();
    assert_eq!(registers(&stage, 1), registers(&stage, 2));
    assert!(registers(&stage, 1).len() > 16);
}

#[test]
fn a_merge_with_lost_and_doubled_pieces_takes_each_once() {
    let mut stage = with_keys();
    let before = registers(&stage, 0);
    stage.begin_again(1);
    for round in 0..60 {
        stage.pass(|from, _, body| from == 1 && matches!(body, Body::Fetch { .. }));
        for (at, message) in stage.pieces_to(1).into_iter().enumerate() {
            // One of three is lost, and one comes again after all that it brings about.
            if (at + round) % 3 != 0 {
                stage.deliver(message.clone());
            }
            if (at + round) % 3 == 1 {
                stage.deliver(message);
            }
        }
        stage.poll_after(1, 40);
    }
    assert!(stage.counts(1));
    assert_eq!(registers(&stage, 1), before);
    assert_eq!(stage.members[1].0.counts().keys_merged, 32);
}

#[test]
fn what_found_no_room_is_sent_soon() {
    let mut stage = Stage::new(3, Sound);
    stage.poll_after(0, 0);
    stage.members[0].1.is_full = true;
    let write = stage.write(0, KEY);
    let due = stage.members[0].0.deadline();
    assert!(due.since(stage.now()) <= CROWDED_PAUSE, "the query is due again");
    // Still full: again soon, however often.
    (0..20).for_each(|_| stage.poll_after(0, 1));
    assert!(stage.members[0].0.deadline().since(stage.now()) <= CROWDED_PAUSE);
    stage.members[0].1.is_full = false;
    stage.poll_after(0, 1);
    stage.pass_queries(0, &[1, 2]);
    stage.pass_stores(0, &[1, 2]);
    assert_eq!(stage.ended(write), Some(&Ended::Written));
}

#[test]
fn a_replica_that_cannot_reply_is_asked_again() {
    let mut stage = Stage::new(3, Sound);
    let write = stage.write(0, KEY);
    (1..3).for_each(|at| stage.members[at].1.is_full = true);
    stage.pass_among(&[0, 1, 2]);
    assert_eq!(stage.ended(write), None);
    (1..3).for_each(|at| stage.members[at].1.is_full = false);
    stage.heal();
    assert_eq!(stage.ended(write), Some(&Ended::Written));
    // So is one that has no room for a request for a state, or for a piece of it.
    stage.members[2].1.is_full = true;
    stage.begin_again(1);
    stage.pass_among(&[0, 1, 2]);
    assert!(!stage.counts(1));
    stage.members[2].1.is_full = false;
    stage.heal();
    assert!(stage.counts(1));
}

#[test]
fn no_more_operations_are_begun_than_there_is_room_for() {
    let mut stage = Stage::new(3, Sound);
    let first = stage.write(0, KEY);
    for _ in 1..OPERATIONS_MAX {
        stage.write(0, KEY);
    }
    let read = Op::Read { key: KEY };
    assert_eq!(stage.submit(0, read, 1000), Err(Refused::Full));
    assert_eq!(stage.members[0].0.operations.len(), OPERATIONS_MAX);
    stage.pass_among(&[0, 1]);
    assert_eq!(stage.ended(first), Some(&Ended::Written));
    assert!(stage.submit(0, read, 1000).is_ok());
    stage.begin_again(1);
    assert_eq!(stage.submit(1, read, 1000), Err(Refused::Merging));
}

#[test]
fn k1_an_operation_ends_at_its_deadline_as_far_as_it_has_come() {
    let mut stage = Stage::new(3, Sound);
    stage.write(0, b"other");
    stage.pass_among(&[0, 1]);
    let begin = |stage: &mut Stage<Sound>, op| stage.submit(0, op, 70).expect("it serves");
    // In its query; in its store; a read that writes back.
    let queries = begin(&mut stage, Op::Write { key: b"queries" });
    let stores = begin(&mut stage, Op::Write { key: b"stores" });
    stage.pass(|from, to, body| match body {
        Body::Query { key, .. } => *key == b"stores" && (from, to) == (0, 1),
        Body::Value { .. } => (from, to) == (1, 0),
        _ => false,
    });
    let reads = begin(&mut stage, Op::Read { key: b"stores" });
    stage.pass(|from, to, body| match body {
        Body::Query { number, .. } => *number == 4 && (from, to) == (0, 1),
        Body::Value { .. } => (from, to) == (1, 0),
        _ => false,
    });
    assert_eq!(stage.members[0].0.counts().write_backs, 1, "its own replica is ahead");
    stage.poll_after(0, 69);
    assert_eq!(stage.members[0].0.operations.len(), 3);
    stage.poll_after(0, 1);
    assert_eq!(stage.ended(queries), Some(&Ended::NotDone));
    assert_eq!(stage.ended(stores), Some(&Ended::Unknown));
    assert_eq!(stage.ended(reads), Some(&Ended::NotDone));
    // What arrives late ends nothing again (the stage asserts it), and what was not done never is.
    stage.heal();
    let all = [0, 1, 2];
    assert_eq!(stage.read(2, b"queries", &all), Some(Vec::new()));
    assert_eq!(stage.read(2, b"stores", &all), Some(value_of(stores, 0)));
}

#[test]
fn when_faults_stop_all_serve_and_all_ends() {
    for seed in 0..60 {
        let n = [3, 5, 2][seed as usize % 3];
        let mut world = World::new(n, seed, Sound);
        for _ in 0..1000 {
            world.step().unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        }
        world.settle(seed);
        assert!(world.members.iter().all(|(machine, _)| machine.status().counts), "seed {seed}");
        assert!(world.members.iter().all(|(machine, _)| machine.operations.is_empty()));
        // Each member can write, and in the time of a few round trips.
        let done = world.n_done;
        world.open.clear();
        world.load = 200;
        (0..n).for_each(|at| world.begin(at));
        assert_eq!(world.open.len(), n);
        world.settle(seed);
        assert_eq!(world.n_done, done + n, "seed {seed}");
    }
}

/// Lets members beat and hear each other for so long.
fn beat_for(stage: &mut Stage<Sound>, set: &[usize], millis: u64) {
    for _ in 0..millis / 50 {
        stage.poll_after(set[0], 50);
        set.iter().for_each(|at| stage.poll_after(*at, 0));
        stage.pass_among(set);
    }
}

fn are_lost(stage: &Stage<Sound>) -> Vec<bool> {
    stage.members.iter().map(|(machine, _)| machine.status().is_lost).collect()
}

#[test]
fn a_state_that_too_few_have_is_said_to_be_lost_and_nobody_begins_empty() {
    let mut stage = Stage::new(3, Sound);
    stage.write(0, KEY);
    stage.heal();
    stage.begin_again(1);
    stage.begin_again(2);
    beat_for(&mut stage, &[0, 1, 2], 500);
    assert_eq!(are_lost(&stage), [false; 3], "too early to say");
    beat_for(&mut stage, &[0, 1, 2], 1200);
    assert_eq!(are_lost(&stage), [true; 3]);
    beat_for(&mut stage, &[0, 1, 2], 60_000);
    assert!(!stage.counts(1) && !stage.counts(2));
    let heard = stage.members[1].0.status();
    assert_eq!((heard.heard.len(), heard.counting.len()), (3, 1));
}

#[test]
fn a_state_is_not_lost_while_enough_may_have_it() {
    let mut stage = Stage::new(3, Sound);
    stage.heal();
    // Alone: the other two may have it.
    stage.begin_again(1);
    beat_for(&mut stage, &[1], 3000);
    assert_eq!(are_lost(&stage), [false; 3]);
    // With one that has it, and one that is not heard: the same.
    beat_for(&mut stage, &[0, 1], 3000);
    assert_eq!(are_lost(&stage), [false; 3]);
    beat_for(&mut stage, &[0, 1, 2], 300);
    assert!(stage.counts(1));
    // Of five, two may lose it at once, and not three.
    let mut stage = Stage::new(5, Sound);
    stage.heal();
    (1..3).for_each(|at| stage.begin_again(at));
    beat_for(&mut stage, &[0, 1, 2, 3, 4], 3000);
    assert!(stage.counts(1) && stage.counts(2));
    (1..4).for_each(|at| stage.begin_again(at));
    beat_for(&mut stage, &[0, 1, 2, 3, 4], 3000);
    assert_eq!(are_lost(&stage), [true; 5]);
}

/// Of two writes with the same number the later tag is one member's alone. Without a write-back a
/// later read would not find what this one has ended with.
#[test]
fn a2_holders_of_another_write_with_the_same_number_do_not_count() {
    let mut stage = Stage::new(5, Sound);
    let late = stage.write(4, b"key");
    stage.pass_queries(4, &[1, 3]);
    stage.lose_from(4); // its stores, but for its own
    let early = stage.write(0, b"key");
    stage.pass_among(&[0, 1, 2]);
    assert_eq!(stage.ended(early), Some(&Ended::Written));
    let tags = [1, 4].map(|at| stage.members[at].1.registers[&KEY.to_vec()].0);
    assert!(tags[0] < tags[1] && tags[0].counter == tags[1].counter);
    let read = stage.submit(4, Op::Read { key: b"key" }, 60_000).unwrap();
    stage.pass_queries(4, &[1, 2]);
    assert_eq!(stage.ended(read), None, "one member holds that");
    stage.pass_stores(4, &[1, 2]);
    assert_eq!(stage.ended(read), Some(&Ended::Value(value_of(late, 0))));
    assert_eq!(stage.read(3, b"key", &[1, 2, 3]), Some(value_of(late, 0)));
}
