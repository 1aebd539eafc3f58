//! The judge against a twin that knows no trick: every order of every subset, executed by the plain
//! model.

mod common;

use base::Rng;
use check::{End, History, Limits, Verdict, judge, model};
use common::{ALL, GET_SET, Shape};
use proptest::prelude::*;
use std::collections::BTreeMap;

type State = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

fn brute_force(history: &History) -> bool {
    let left: Vec<usize> = (0..history.ops.len())
        .filter(|n| !matches!(history.ops[*n].end, End::Failed { .. }))
        .collect();
    fits(history, &left, &State::new())
}

fn fits(history: &History, left: &[usize], state: &State) -> bool {
    let ops = &history.ops;
    if left.iter().all(|n| ops[*n].end == End::Unknown) {
        return true;
    }
    // The next operation must have been called before every answer that is still to come.
    let first_answer = left.iter().filter_map(|n| ops[*n].complete_ns()).min().unwrap_or(u64::MAX);
    left.iter().filter(|n| ops[**n].invoke_ns <= first_answer).any(|n| {
        let mut state = state.clone();
        let explained = ops[*n].commands.iter().enumerate().all(|(at, command)| {
            let value = state.entry(command.key.clone()).or_default();
            let reply = model::apply(&command.action, value);
            match &ops[*n].end {
                End::Answered { replies, .. } => replies[at] == reply,
                End::Failed { .. } | End::Unknown => true,
            }
        });
        let rest: Vec<usize> = left.iter().copied().filter(|m| m != n).collect();
        explained && fits(history, &rest, &state)
    })
}

fn shape() -> impl Strategy<Value = Shape> {
    let actions = prop_oneof![Just(ALL), Just(GET_SET), 1..=ALL];
    let unknown = prop_oneof![Just(0), Just(200), Just(500)];
    let txn = prop_oneof![Just(0), Just(300)];
    (1..=8usize, 1..=6u64, 1..=3u64, 0..=3u64, unknown, txn, actions).prop_map(
        |(ops, clients, keys, values, unknown_permille, txn_permille, actions)| Shape {
            ops,
            clients,
            keys,
            values,
            unknown_permille,
            failed_permille: 50,
            txn_permille,
            actions,
        },
    )
}

/// The verdict, if the judge and the twin agree; and whether an explanation holds (I7).
fn agree(history: &History) -> bool {
    let verdict = judge(history, Limits::default()).expect("possible");
    let expected = brute_force(history);
    match &verdict {
        Verdict::Linearizable(_) => assert!(expected, "invented an order for {history:#?}"),
        Verdict::GaveUp(gave_up) => panic!("a small history: {gave_up}"),
        Verdict::Violation(violation) => {
            assert!(!expected, "{violation}\nbut there is an order: {history:#?}");
            assert!(violation.finished, "a small history: {violation}");
            let until = violation.op.complete_ns().expect("only answers are violations");
            let cut = |but| cut(history, &violation.keys, until, but);
            assert!(brute_force(&cut(Some(violation.index))), "I7 {violation}");
            assert!(!brute_force(&cut(None)), "I7 {violation}");
        }
    }
    expected
}

/// What was known at `until` on `keys`; without the answer of `but`, and of what came with it and
/// after it in order of answers.
fn cut(history: &History, keys: &[Vec<u8>], until: u64, but: Option<usize>) -> History {
    let rank = |n: usize| (history.ops[n].complete_ns(), history.ops[n].invoke_ns, n);
    let mut known = History::new();
    for (n, op) in history.ops.iter().enumerate() {
        if op.invoke_ns > until || !keys.contains(&op.commands[0].key) {
            continue;
        }
        let mut op = op.clone();
        let is_later = op.complete_ns().is_none_or(|at| at > until);
        let is_cut = but.is_some_and(|but| rank(n) >= rank(but));
        if (is_later || is_cut) && !matches!(op.end, End::Failed { .. }) {
            op.end = End::Unknown;
        }
        known.push(op);
    }
    known
}

fn cases() -> ProptestConfig {
    ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn i4_the_judge_says_what_every_order_says(
        shape in shape(), seed in any::<u64>(), spoilt in 0..4usize,
    ) {
        let mut rng = Rng::new(seed);
        let mut history = common::right(&mut rng, &shape);
        (0..spoilt).for_each(|_| common::spoil(&mut rng, &mut history));
        prop_assume!(history.ops.iter().all(|op| op.validate().is_ok()));
        let is_right = agree(&history);
        prop_assert!(is_right || spoilt > 0, "a right history was called wrong: {history:#?}");
    }
}

/// The property above would hold vacuously if no spoilt history were wrong.
#[test]
fn the_made_up_histories_are_of_both_kinds() {
    let mut rng = Rng::new(7);
    let (mut right, mut wrong) = (0, 0);
    for _ in 0..400 {
        let shape = Shape {
            ops: 7,
            clients: 4,
            keys: 2,
            values: 3,
            unknown_permille: 150,
            failed_permille: 30,
            txn_permille: 150,
            actions: ALL,
        };
        let mut history = common::right(&mut rng, &shape);
        (0..2).for_each(|_| common::spoil(&mut rng, &mut history));
        if history.ops.iter().any(|op| op.validate().is_err()) {
            continue;
        }
        if agree(&history) { right += 1 } else { wrong += 1 }
    }
    assert!(right > 50 && wrong > 50, "{right} right, {wrong} wrong");
}
