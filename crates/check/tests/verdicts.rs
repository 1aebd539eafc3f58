//! Histories whose verdict can be checked by eye, and histories that are large or hard.

mod common;

use base::Rng;
use check::{Action, Command, End, History, Limits, Op, Reply, Verdict, Violation, judge};
use common::{ALL, GET_SET, Shape};

fn verdict(ops: Vec<Op>) -> Verdict {
    judge(&ops.into_iter().collect(), Limits::default()).expect("possible")
}

fn violation(ops: Vec<Op>) -> Violation {
    match verdict(ops) {
        Verdict::Violation(violation) => *violation,
        other => panic!("should not be explained: {other}"),
    }
}

fn set(client: u64, span: [u64; 2], value: &str) -> Op {
    Op::answered(client, span[0], span[1], Command::new("k", Action::Set(value.into())), Reply::Ok)
}

fn get(client: u64, span: [u64; 2], value: Option<&str>) -> Op {
    let reply = Reply::Value(value.map(Into::into));
    Op::answered(client, span[0], span[1], Command::new("k", Action::Get), reply)
}

fn incr(client: u64, span: [u64; 2], sum: i64) -> Op {
    let command = Command::new("k", Action::Incr(1));
    Op::answered(client, span[0], span[1], command, Reply::Number(sum))
}

fn unknown_set(client: u64, invoke_ns: u64, value: &str) -> Op {
    Op::unknown(client, invoke_ns, Command::new("k", Action::Set(value.into())))
}

#[test]
fn a_read_during_a_write_may_see_either_value() {
    for seen in [None, Some("a")] {
        assert!(verdict(vec![set(1, [0, 100], "a"), get(2, [50, 60], seen)]).is_linearizable());
    }
}

#[test]
fn a_stale_read_is_caught() {
    let found =
        violation(vec![set(1, [0, 10], "a"), set(1, [20, 30], "b"), get(2, [40, 50], Some("a"))]);
    assert_eq!((found.index, found.finished), (2, true));
    assert_eq!(found.possible, [vec![Some(b"b".to_vec())]]);
    assert_eq!(found.origin[0].makers, [set(1, [0, 10], "a")]);
}

#[test]
fn a_lost_update_is_caught() {
    let found = violation(vec![incr(1, [0, 10], 1), incr(2, [20, 30], 1)]);
    assert_eq!(found.op, incr(2, [20, 30], 1));
    let gone = vec![set(1, [0, 10], "a"), get(2, [20, 30], None)];
    assert_eq!(violation(gone).index, 1);
}

#[test]
fn an_increment_that_was_applied_twice_is_caught() {
    let found = violation(vec![incr(1, [0, 10], 1), get(2, [20, 30], Some("2"))]);
    assert_eq!(found.index, 1);
    let found = violation(vec![incr(1, [0, 10], 1), incr(1, [20, 30], 3)]);
    assert_eq!(found.index, 1);
}

#[test]
fn a_value_that_nobody_wrote_is_caught() {
    let found = violation(vec![set(1, [0, 10], "a"), get(2, [5, 30], Some("b"))]);
    assert_eq!(found.index, 1);
    assert!(found.origin[0].makers.is_empty());
    assert!(found.to_string().contains("was made by no operation before"), "{found}");
}

#[test]
fn reads_of_two_clients_may_not_go_back_in_time() {
    // The write is in flight all the while, so either value would do for each read alone.
    let found = violation(vec![
        set(1, [0, 5], "a"),
        set(1, [10, 100], "b"),
        get(2, [20, 30], Some("b")),
        get(3, [40, 50], Some("a")),
    ]);
    assert_eq!(found.index, 3);
    assert_eq!(found.concurrent, [set(1, [10, 100], "b")]);
}

#[test]
fn a_value_from_the_future_is_caught() {
    let found = violation(vec![get(2, [0, 10], Some("a")), set(1, [20, 30], "a")]);
    assert_eq!(found.index, 0);
}

#[test]
fn a_failed_operation_must_leave_no_trace() {
    let mut write = set(1, [0, 10], "a");
    write.end = End::Failed { at_ns: 10 };
    assert!(verdict(vec![write.clone(), get(2, [20, 30], None)]).is_linearizable());
    assert_eq!(violation(vec![write, get(2, [20, 30], Some("a"))]).index, 1);
}

#[test]
fn an_unknown_operation_may_take_effect_late_or_never_but_not_twice() {
    let late = |reads: [Option<&str>; 3]| {
        let mut ops = vec![unknown_set(1, 0, "a"), set(2, [10, 20], "b")];
        for (n, value) in reads.into_iter().enumerate() {
            let at = 100 * (n as u64 + 1);
            ops.push(get(3, [at, at + 10], value));
        }
        verdict(ops)
    };
    assert!(late([Some("b"), Some("b"), Some("b")]).is_linearizable(), "never");
    assert!(late([Some("b"), Some("b"), Some("a")]).is_linearizable(), "late");
    assert!(late([Some("b"), Some("a"), Some("a")]).is_linearizable(), "earlier");
    assert!(late([Some("a"), Some("b"), Some("a")]).is_violation(), "twice");
    assert!(late([Some("b"), Some("a"), Some("b")]).is_violation(), "and gone again");
}

#[test]
fn an_unknown_operation_takes_no_effect_before_its_call() {
    assert!(verdict(vec![get(2, [0, 10], Some("a")), unknown_set(1, 11, "a")]).is_violation());
    // At the same nanosecond the order is unknown.
    assert!(verdict(vec![get(2, [0, 10], Some("a")), unknown_set(1, 10, "a")]).is_linearizable());
}

#[test]
fn transactions_are_judged_across_their_keys() {
    let set2 = |client, span: [u64; 2], value: &str| Op {
        client,
        invoke_ns: span[0],
        commands: ["x", "y"].map(|key| Command::new(key, Action::Set(value.into()))).to_vec(),
        end: End::Answered { at_ns: span[1], replies: vec![Reply::Ok; 2] },
    };
    let get2 = |span: [u64; 2], x: &str, y: &str| Op {
        client: 9,
        invoke_ns: span[0],
        commands: ["x", "y"].map(|key| Command::new(key, Action::Get)).to_vec(),
        end: End::Answered {
            at_ns: span[1],
            replies: [x, y].map(|value| Reply::Value(Some(value.into()))).to_vec(),
        },
    };
    let writes = [set2(1, [0, 100], "1"), set2(2, [0, 100], "2")];
    let with = |read: Op| verdict(writes.iter().cloned().chain([read]).collect());
    assert!(with(get2([200, 210], "1", "1")).is_linearizable());
    assert!(with(get2([200, 210], "2", "2")).is_linearizable());
    // Each key alone could be explained: that is why keys of a transaction are judged together.
    assert!(with(get2([200, 210], "1", "2")).is_violation());
}

#[test]
fn a_flawed_record_is_an_error_and_no_verdict() {
    let op = Op::answered(1, 0, 1, Command::new("k", Action::Get), Reply::Ok);
    let error = judge(&[get(1, [0, 1], None), op].into_iter().collect(), Limits::default());
    assert_eq!(error.expect_err("flawed").index, 1);
}

#[test]
fn an_explanation_ends_with_the_first_answer_that_does_not_fit() {
    // The damage is done early; thousands of later operations must not hide it.
    let mut rng = Rng::new(3);
    let shape = Shape {
        ops: 4000,
        clients: 10,
        keys: 1,
        values: 0,
        unknown_permille: 0,
        failed_permille: 0,
        txn_permille: 0,
        actions: GET_SET,
    };
    let mut history = common::right(&mut rng, &shape);
    let is_read = |op: &Op| matches!(op.commands[0].action, Action::Get);
    let target = (500..).find(|n| is_read(&history.ops[*n])).expect("half of them read");
    if let End::Answered { replies, .. } = &mut history.ops[target].end {
        replies[0] = Reply::Value(Some(b"1".to_vec()));
    }
    let Verdict::Violation(found) = judge(&history, Limits::default()).expect("possible") else {
        panic!("a value of long ago was seen again");
    };
    assert_eq!((found.index, found.finished), (target, true), "{found}");
    assert!(!found.possible.is_empty() && found.before.len() == 4, "{found}");
}

/// Large histories cost about a step an operation: the reductions work, and nothing here is
/// exponential in the number of clients or of unknown outcomes.
#[test]
fn a_hundred_thousand_operations_cost_few_steps_each() {
    let base = Shape {
        ops: 100_000,
        clients: 50,
        keys: 20,
        values: 0,
        unknown_permille: 0,
        failed_permille: 0,
        txn_permille: 0,
        actions: GET_SET,
    };
    let shapes = [
        ("fifty clients, twenty keys", base),
        ("fifty clients, one key", Shape { keys: 1, ..base }),
        ("every command, few values", Shape { values: 50, actions: ALL, ..base }),
        ("two in a thousand unknown", Shape { unknown_permille: 2, actions: ALL, ..base }),
        (
            "transactions on eight keys",
            Shape { ops: 20_000, clients: 10, keys: 8, txn_permille: 100, ..base },
        ),
    ];
    for (name, shape) in shapes {
        let history = common::right(&mut Rng::new(11), &shape);
        let verdict = judge(&history, Limits::default()).expect("possible");
        let Verdict::Linearizable(evidence) = verdict else { panic!("{name}: {verdict}") };
        println!("{name}: {evidence}");
        assert!(evidence.steps < 20 * shape.ops as u64, "{name}: {evidence}");
    }
}

/// Blind writes of equal effect on the answers: the number of orders is exponential, and whether
/// one of them fits is a hard question. The judge must say that it does not know.
fn hard() -> History {
    // Forty appends are in flight at once, whose lengths were not seen, and then a read follows
    // that no order explains, since its last byte was never written.
    let mut ops: Vec<Op> = (0..40)
        .map(|n| Op::unknown(n, 0, Command::new("k", Action::Append(vec![b'a' + n as u8 % 20]))))
        .collect();
    ops.push(get(99, [10, 20], Some("abcdefghijklmnopqrst!")));
    ops.into_iter().collect()
}

#[test]
fn a_search_beyond_its_limits_gives_up_and_says_so() {
    let limits = Limits { steps: 20_000, ..Limits::default() };
    let verdict = judge(&hard(), limits).expect("possible");
    assert!(matches!(verdict, Verdict::GaveUp(_)), "{verdict}");
    assert!(verdict.to_string().contains("20000 steps"), "{verdict}");
    let limits = Limits { bytes: 1 << 20, ..Limits::default() };
    let verdict = judge(&hard(), limits).expect("possible");
    assert!(matches!(verdict, Verdict::GaveUp(_)), "{verdict}");
    assert!(verdict.to_string().contains("1 MiB"), "{verdict}");
}

#[test]
fn a_hard_part_does_not_hide_a_violation_in_an_easy_one() {
    let mut history = hard();
    history.push(Op::answered(
        1,
        0,
        1,
        Command::new("other", Action::Get),
        Reply::Value(Some(b"x".to_vec())),
    ));
    let limits = Limits { steps: 20_000, ..Limits::default() };
    assert!(judge(&history, limits).expect("possible").is_violation());
}

#[test]
fn a_hard_part_does_not_hide_a_violation_in_a_longer_one() {
    let mut history = hard();
    let of_other = |at: u64, action, reply| {
        Op::answered(1, 100 * at, 100 * at + 10, Command::new("other", action), reply)
    };
    let n_hard = history.ops.len() as u64;
    for at in 0..n_hard {
        history.push(of_other(at, Action::Set(b"x".to_vec()), Reply::Ok));
    }
    history.push(of_other(n_hard, Action::Get, Reply::Value(Some(b"y".to_vec()))));
    let limits = Limits { steps: 20_000, ..Limits::default() };
    assert!(judge(&history, limits).expect("possible").is_violation());
}

#[test]
fn i2_the_same_history_is_judged_the_same_twice() {
    let shape = Shape {
        ops: 300,
        clients: 8,
        keys: 3,
        values: 4,
        unknown_permille: 10,
        failed_permille: 0,
        txn_permille: 20,
        actions: ALL,
    };
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut history = common::right(&mut rng, &shape);
        common::spoil(&mut rng, &mut history);
        if history.ops.iter().all(|op| op.validate().is_ok()) {
            let [one, two] = [0, 1].map(|_| judge(&history, Limits::default()).expect("possible"));
            assert_eq!(format!("{one:?}"), format!("{two:?}"));
        }
    }
}

#[test]
fn a_violation_is_explained_in_words() {
    let found = violation(vec![
        set(1, [0, 10], "a"),
        set(2, [12, 40], "b"),
        set(1, [20, 30], "c"),
        get(3, [50, 60], Some("a")),
    ]);
    let expected = "\
not linearizable: on key \"k\", no order explains
    client 3   get \"k\" -> \"a\"  [50, 60] ns
what was answered before it can be explained; at that point there could be
    \"k\" = \"b\"
    \"k\" = \"c\"
\"k\" = \"a\", which it saw, may have been made by
    client 1   set \"k\" \"a\" -> ok  [0, 10] ns
the last that ended before its call:
    client 1   set \"k\" \"a\" -> ok  [0, 10] ns
    client 1   set \"k\" \"c\" -> ok  [20, 30] ns
    client 2   set \"k\" \"b\" -> ok  [12, 40] ns
";
    assert_eq!(found.to_string(), expected);
}
