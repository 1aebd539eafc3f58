//! What the judge of calls notices.

use super::*;

fn stands(id: i64, executed: i64) -> Value {
    Value::List(Some([id, executed, 9].map(Value::Number).into()))
}

/// A client whose session is 7, with an open call that was sent, and what it heard.
fn speaking() -> (Calls, Caller, Record) {
    let mut calls = Calls { is_on: true, ..Calls::draw(1, true, 2) };
    let (mut caller, mut recorder) = (Caller::default(), Record::default());
    assert_eq!(calls.think(0, &mut caller), [Say::Open]);
    let opened = caller.settle(Due::Opened, stands(7, 0), 1, (&mut calls, &mut recorder));
    assert_eq!(opened, Ok(true));
    caller.open = Some(calls.call(0, &mut caller));
    caller.put(&Say::Call, (0, 2), (&mut calls, &mut recorder), &mut Vec::new());
    (calls, caller, recorder)
}

#[test]
fn s2_a_session_that_forgot_a_call_or_executed_another_is_noticed() {
    let (mut calls, mut caller, mut recorder) = speaking();
    let mut hear =
        |of: &mut Caller, due, value| of.settle(due, value, 3, (&mut calls, &mut recorder));
    assert_eq!(hear(&mut caller, Due::Resumed, stands(7, 0)), Ok(true));
    assert_eq!(hear(&mut caller, Due::Resumed, stands(7, 1)), Ok(true), "the open one");
    assert!(hear(&mut caller, Due::Resumed, stands(7, 2)).is_err());
    assert!(hear(&mut caller, Due::Resumed, stands(8, 0)).is_err());
    (caller.open, caller.n_answered) = (None, 1);
    assert!(hear(&mut caller, Due::Resumed, stands(7, 0)).is_err(), "it was answered");
}

#[test]
fn s3_a_lost_session_and_a_name_given_twice_are_noticed() {
    let (mut calls, mut caller, mut recorder) = speaking();
    let mut hear = |due, value| caller.settle(due, value, 3, (&mut calls, &mut recorder));
    let error = |why: &str| Value::Error(why.to_owned());
    assert_eq!(hear(Due::Called(1), error("UNKNOWN the outcome")), Ok(false), "it is sent again");
    assert!(hear(Due::Called(1), error("NOSESSION there is no such session")).is_err());
    assert!(hear(Due::Called(1), error("GAP not executed")).is_err());
    assert!(hear(Due::Opened, stands(7, 0)).is_err());
}

#[test]
fn s1_a_call_is_one_operation_however_often_it_is_sent() {
    let (mut calls, mut caller, mut recorder) = speaking();
    caller.disconnect();
    assert_eq!(calls.think(0, &mut caller)[..2], [Say::Resume, Say::Call]);
    let mut out = Vec::new();
    let of = (&mut calls, &mut recorder);
    let (n_words, due) = caller.put(&Say::Call, (0, 5), of, &mut out);
    let call = caller.open.as_ref().expect("it is open");
    assert_eq!((due, n_words > 0), (Some(Due::Called(1)), call.request.is_transaction));
    let n = call.commands.len();
    let list = Value::List(Some(vec![Value::Number(1); n]));
    let reply = if call.request.is_transaction { list } else { Value::Number(1) };
    let called = caller.settle(Due::Called(1), reply, 6, (&mut calls, &mut recorder));
    assert_eq!((called, caller.n_repeated, caller.n_answered), (Ok(true), 1, 1));
    assert_eq!(recorder.finish().ops.len(), 1);
}

#[test]
fn s4_another_answer_to_a_repeated_call_is_noticed() {
    let (mut calls, mut caller, mut recorder) = speaking();
    let is_transaction = caller.open.as_ref().is_some_and(|call| call.request.is_transaction);
    let reply = |n| match is_transaction {
        true => Value::List(Some(vec![Value::Number(n); 2])),
        false => Value::Number(n),
    };
    let mut other = Caller::default();
    let repeat = Say::Repeat(7);
    let of = (&mut calls, &mut recorder);
    let (_, due) = other.put(&repeat, (1, 3), of, &mut Vec::new());
    assert_eq!(due, Some(Due::Repeated(7, 1)));
    let mut hear =
        |of: &mut Caller, due, value| of.settle(due, value, 4, (&mut calls, &mut recorder));
    assert_eq!(hear(&mut other, Due::Repeated(7, 1), reply(1)), Ok(true));
    let acked = || Value::Error("ACKED it was executed".to_owned());
    assert!(hear(&mut other, Due::Repeated(7, 1), acked()).is_err(), "nobody acknowledged it");
    assert!(hear(&mut caller, Due::Called(1), reply(2)).is_err());
    assert_eq!(hear(&mut caller, Due::Called(1), reply(1)), Ok(true));
    assert_eq!(hear(&mut caller, Due::Called(1), reply(1)), Ok(true), "it was sent twice");
}

#[test]
fn s5_a_call_that_leaves_a_gap_and_is_executed_is_noticed() {
    let (mut calls, mut caller, mut recorder) = speaking();
    caller.open = None;
    let of = (&mut calls, &mut recorder);
    let (_, due) = caller.put(&Say::Gap, (0, 3), of, &mut Vec::new());
    let due = due.expect("it is answered");
    let mut hear = |value| caller.settle(due, value, 4, (&mut calls, &mut recorder));
    assert!(hear(Value::Number(1)).is_err());
    assert_eq!(hear(Value::Error("GAP not executed".to_owned())), Ok(true));
    assert_eq!(hear(Value::Error("UNKNOWN the outcome".to_owned())), Ok(false));
    assert_eq!(caller.id, None, "its number may yet be used");
}

#[test]
fn s5_a_read_that_leaves_a_gap_and_is_answered_is_noticed() {
    let (mut calls, mut caller, mut recorder) = speaking();
    caller.open = None;
    let mut out = Vec::new();
    let (_, due) = caller.put(&Say::ReadGap, (0, 3), (&mut calls, &mut recorder), &mut out);
    assert_eq!(
        (due, &out[..28]),
        (Some(Due::ReadGapped), &b"*4\r\n$12\r\nGREGALE.CALL\r\n$1\r\n2"[..])
    );
    let mut hear = |value| caller.settle(Due::ReadGapped, value, 4, (&mut calls, &mut recorder));
    assert!(hear(Value::Bytes(None)).is_err());
    assert_eq!(hear(Value::Error("GAP not executed".to_owned())), Ok(true));
    assert_eq!(hear(Value::Error("TRYAGAIN".to_owned() + " later")), Ok(false));
}
