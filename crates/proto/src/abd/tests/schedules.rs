//! Schedules that the random world meets too rarely, one for a planted mistake each: the machine as
//! it ships stands each of them, and with the mistake it does not.

use super::super::wire::Body;
use super::stage::Stage;
use super::*;

/// Makes tests: a schedule ends well without a mistake, and with it an effect is seen that must not
/// be, or one is not that must.
macro_rules! shows {
    ($($name:ident: $schedule:ident, $bug:ident;)*) => {
        /// The mistakes that a schedule is made for.
        pub(super) const SHOWN: &[Bug] = &[$(Bug::$bug),*];

        $(
            #[test]
            fn $name() {
                assert_eq!($schedule(Sound), Ok(()));
                let why = $schedule(Planted(Bug::$bug)).expect_err("the mistake is seen");
                assert!(why.contains("a read saw"), "{}: {why}", Bug::$bug.name());
            }
        )*
    };
}

shows! {
    a4_replies_of_runs_that_are_over_do_not_count: acknowledged_by_a_run_that_is_over, OldRunsCount;
    a3_a_giver_has_noted_the_newcomer: acknowledged_by_a_run_that_is_over, GivesUnnoted;
    a5_a_merge_needs_a_majority: given_by_too_few, MergeOfOne;
    a5_a_merge_takes_the_newest: given_the_older_version_first, MergeKeepsFirst;
    a5_what_two_runs_give_is_not_one_state: given_by_a_run_that_is_over, MixedStates;
    a5_a_request_for_a_piece_is_to_one_run: asked_of_a_run_that_is_over, FetchOutlivesGiver;
    a4_a_reply_is_to_one_run: acknowledged_to_another_run, RepliesOutliveRuns;
    a6_a_write_is_above_all_that_was_heard: written_by_one_that_missed_all, CounterFromOwn;
    a8_what_others_may_hold_is_not_undone: undone_and_seen, UnknownCalledUndone;
}

/// The coordinator of the write that must not be lost.
const C: usize = 0;
/// A member that acknowledges it and then loses its memory.
const P: usize = 1;
/// The only one in the quorum of the write and in that of the merge of `P`.
const Q: usize = 2;
const D: usize = 3;
const E: usize = 4;

/// `C` writes, and has the acknowledgement of `P` alone; all other stores are on their way.
fn written_at_two<M: Planting<Bug>>(stage: &mut Stage<M>, key: &[u8]) -> u64 {
    let write = stage.write(C, key);
    stage.pass_queries(C, &[P, Q]);
    stage.pass_stores(C, &[P]);
    assert_eq!(stage.ended(write), None);
    write
}

/// A6, the same run of `Q` in both: it gives its state to the newcomer `P` before it has the write,
/// and acknowledges it later.
fn acknowledged_by_a_run_that_is_over<M: Planting<Bug>>(planted: M) -> Result<(), String> {
    let mut stage = Stage::new(5, planted);
    let write = written_at_two(&mut stage, KEY);
    stage.begin_again(P);
    stage.pass_states(P, &[Q, D, E]);
    assert!(stage.counts(P));
    stage.pass_stores(C, &[Q]);
    stage.conclude(write, P, &[P, D, E])
}

/// A newcomer is given the states of those alone that miss the write.
fn given_by_too_few<M: Planting<Bug>>(planted: M) -> Result<(), String> {
    let mut stage = Stage::new(5, planted);
    let write = written_at_two(&mut stage, KEY);
    stage.pass_stores(C, &[Q]);
    stage.begin_again(P);
    stage.pass_states(P, &[D, E]);
    stage.conclude(write, P, &[P, D, E])
}

/// A newcomer is given an older version first, and the newest one last.
fn given_the_older_version_first<M: Planting<Bug>>(planted: M) -> Result<(), String> {
    let mut stage = Stage::new(3, planted);
    stage.write(C, KEY);
    stage.heal();
    let write = stage.write(C, KEY);
    stage.pass_among(&[C, P]);
    stage.begin_again(P);
    stage.pass_states(P, &[2]);
    stage.pass_states(P, &[C]);
    assert!(stage.counts(P));
    stage.conclude(write, P, &[P, 2])
}

/// A6, an earlier run of `Q` in the merge: it gives its state and ends; its next run acknowledges.
fn given_by_a_run_that_is_over<M: Planting<Bug>>(planted: M) -> Result<(), String> {
    let mut stage = Stage::new(5, planted);
    let write = written_at_two(&mut stage, KEY);
    stage.begin_again(P);
    stage.pass_states(P, &[Q]);
    stage.lose_from(P);
    stage.begin_again(Q);
    stage.pass_states(Q, &[C, D, E]);
    assert!(stage.counts(Q));
    stage.pass_stores(C, &[Q]);
    assert_eq!(stage.ended(write), Some(&Ended::Written));
    stage.poll_after(P, 50);
    stage.pass_states(P, &[D, E]);
    stage.conclude(write, P, &[P, D, E])
}

/// As before, and a request for the second piece of the first run's state reaches the next run,
/// whose pieces end elsewhere.
fn asked_of_a_run_that_is_over<M: Planting<Bug>>(planted: M) -> Result<(), String> {
    let mut stage = Stage::new(5, planted);
    stage.members.iter_mut().for_each(|(_, process)| process.value_bytes = 40 << 10);
    for key in [b"x", b"y"] {
        stage.write(C, key);
        stage.heal();
    }
    stage.write(C, b"a");
    stage.pass_among(&[C, D, E]);
    stage.members[C].1.value_bytes = 0;
    let write = written_at_two(&mut stage, KEY);
    stage.begin_again(P);
    // The first piece is x; the next request says "behind x", and is late.
    stage.pass(|from, to, body| match body {
        Body::Fetch { piece, .. } => (from, to, *piece) == (P, Q, 0),
        Body::Piece { .. } => (from, to) == (Q, P),
        _ => false,
    });
    stage.begin_again(Q);
    stage.pass_states(Q, &[C, D, E]);
    assert!(stage.counts(Q));
    stage.pass_stores(C, &[Q]);
    assert_eq!(stage.ended(write), Some(&Ended::Written));
    // The first piece of the next run is a; the key of the write is behind it, and before x.
    stage.pass_states(P, &[D, E]);
    stage.poll_after(P, 50);
    stage.pass(|from, to, body| match body {
        Body::Fetch { piece, .. } => (from, to, *piece) == (P, Q, 0),
        Body::Piece { .. } => (from, to) == (Q, P),
        _ => false,
    });
    stage.pass(|from, to, body| match body {
        Body::Fetch { after, .. } => (from, to) == (P, Q) && *after == Some(b"x"),
        Body::Piece { .. } => (from, to) == (Q, P),
        _ => false,
    });
    stage.conclude(write, P, &[P, D, E])
}

/// An acknowledgement of the first operation of a run is late, and reaches the next run in its own
/// first operation.
fn acknowledged_to_another_run<M: Planting<Bug>>(planted: M) -> Result<(), String> {
    let mut stage = Stage::new(3, planted);
    stage.write(C, KEY);
    stage.pass_queries(C, &[1, 2]);
    stage.pass(|from, _, body| from == C && matches!(body, Body::Store { .. }));
    stage.begin_again(C);
    stage.pass_states(C, &[1, 2]);
    let write = stage.write(C, KEY);
    stage.pass_queries(C, &[1]);
    stage.pass(|_, to, body| to == C && matches!(body, Body::Stored { .. }));
    stage.conclude(write, 1, &[1, 2])
}

/// A member writes that has missed all that was written before.
fn written_by_one_that_missed_all<M: Planting<Bug>>(planted: M) -> Result<(), String> {
    let mut stage = Stage::new(3, planted);
    for _ in 0..2 {
        stage.write(2, KEY);
        stage.pass_among(&[1, 2]);
    }
    let write = stage.write(C, KEY);
    stage.pass_among(&[C, 1]);
    assert_eq!(stage.ended(write), Some(&Ended::Written));
    stage.conclude(write, 2, &[1, 2])
}

/// A write reaches one other replica and meets its deadline; a read sees it later.
fn undone_and_seen<M: Planting<Bug>>(planted: M) -> Result<(), String> {
    let mut stage = Stage::new(3, planted);
    let write = stage.submit(C, Op::Write { key: KEY }, 30).expect("it serves");
    stage.pass_queries(C, &[1]);
    stage.pass(|from, to, body| (from, to) == (C, 1) && matches!(body, Body::Store { .. }));
    stage.poll_after(C, 30);
    let ended = stage.ended(write).cloned();
    let seen = stage.read(1, KEY, &[1, 2]);
    assert_eq!(seen, Some(value_of(write, 0)));
    match ended {
        Some(Ended::Unknown) => Ok(()),
        other => Err(alloc::format!("{other:?}, and a read saw it")),
    }
}
