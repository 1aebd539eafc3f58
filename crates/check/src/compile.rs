//! A part of a history, put into the form that the search works on: values are numbers, and each
//! operation knows what it needs and what it makes.
//!
//! - I5 A completed operation with `observer` leaves every state in which its answer is right as it
//!   was. By construction: `keeps_state` lists the answers of which that is true.
//! - I6 `needs` and `makes` err on the safe side: a need is listed only if the answer is right in
//!   no other state of the key, and whatever an operation may leave behind is listed, or
//!   `Anything`.

use crate::model;
use crate::partition::Part;
use crate::{Action, End, History, Reply};
use foldhash::fast::FixedState;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::rc::Rc;

/// A value by number; only ever looked up, never iterated.
pub(crate) type ValueId = u32;

/// A key (by number) with a value.
pub(crate) type Cell = (u32, ValueId);

/// The absence of a value.
pub(crate) const NIL: ValueId = 0;

/// Every value that was met, numbered in order of appearance.
pub(crate) struct Values {
    known: Vec<Option<Rc<[u8]>>>,
    ids: HashMap<Rc<[u8]>, ValueId, FixedState>,
    bytes: u64,
}

impl Values {
    fn new() -> Values {
        Values { known: vec![None], ids: HashMap::with_hasher(FixedState::default()), bytes: 0 }
    }

    pub(crate) fn number_of(&mut self, value: &[u8]) -> ValueId {
        if let Some(id) = self.ids.get(value) {
            return *id;
        }
        let id = self.known.len() as ValueId;
        let shared: Rc<[u8]> = value.into();
        self.known.push(Some(shared.clone()));
        self.ids.insert(shared, id);
        self.bytes += value.len() as u64 + 80;
        id
    }

    fn number_of_decimal(&mut self, number: i64) -> ValueId {
        self.number_of(itoa::Buffer::new().format(number).as_bytes())
    }

    fn of(&mut self, value: Option<&[u8]>) -> ValueId {
        value.map_or(NIL, |value| self.number_of(value))
    }

    pub(crate) fn get(&self, id: ValueId) -> Option<&[u8]> {
        self.known[id as usize].as_deref()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[derive(Debug)]
enum Do {
    Get,
    Set(ValueId),
    Swap(ValueId),
    Cas { expect: ValueId, value: ValueId },
    Append(Vec<u8>),
    Incr(i64),
    Delete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Saw {
    Ok,
    Value(ValueId),
    Done(bool),
    Number(i64),
    Refused,
}

#[derive(Debug)]
struct Step {
    key: u32,
    act: Do,
    /// The answer that was seen; `None` if it was not seen, and any fits.
    saw: Option<Saw>,
}

/// What an operation may leave in a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Make {
    /// This value.
    Value(ValueId),
    /// Something that depends on what was there.
    Anything,
}

/// Most operations are one command, on one key.
type Few<T> = SmallVec<[T; 1]>;

/// One operation.
#[derive(Debug)]
pub(crate) struct Unit {
    /// Its index in the history.
    pub(crate) source: usize,
    pub(crate) invoke_ns: u64,
    /// When it was answered; meaningless for one that was not.
    pub(crate) complete_ns: u64,
    /// I5.
    pub(crate) observer: bool,
    /// I6: (key, the only value with which the answer is right).
    pub(crate) needs: Few<Cell>,
    /// I6: (key, what it may leave there).
    pub(crate) makes: Few<(u32, Make)>,
    steps: Few<Step>,
}

impl Unit {
    /// Executes it on `state` (one value a key). False: its answer would have been another one, and
    /// `state` is spoilt.
    pub(crate) fn run(&self, state: &mut [ValueId], values: &mut Values) -> bool {
        self.steps.iter().all(|step| {
            let saw = step.act.run(&mut state[step.key as usize], values);
            step.saw.is_none_or(|expected| expected == saw)
        })
    }
}

impl Do {
    fn run(&self, value: &mut ValueId, values: &mut Values) -> Saw {
        match self {
            Do::Get => Saw::Value(*value),
            Do::Set(new) => {
                *value = *new;
                Saw::Ok
            }
            Do::Swap(new) => Saw::Value(std::mem::replace(value, *new)),
            Do::Cas { expect, value: new } => {
                let equal = value == expect;
                if equal {
                    *value = *new;
                }
                Saw::Done(equal)
            }
            Do::Append(tail) => {
                let mut whole = values.get(*value).unwrap_or_default().to_vec();
                whole.extend_from_slice(tail);
                *value = values.number_of(&whole);
                Saw::Number(whole.len() as i64)
            }
            Do::Incr(by) => {
                let sum = model::number(values.get(*value)).and_then(|n| n.checked_add(*by));
                match sum {
                    Some(sum) => {
                        *value = values.number_of_decimal(sum);
                        Saw::Number(sum)
                    }
                    None => Saw::Refused,
                }
            }
            Do::Delete => Saw::Done(std::mem::replace(value, NIL) != NIL),
        }
    }

    /// Whether, whenever the answer is `saw`, the value is the same before and after.
    fn keeps_state(&self, saw: Saw) -> bool {
        match (self, saw) {
            (Do::Get, _) | (_, Saw::Refused) => true,
            (Do::Cas { .. } | Do::Delete, Saw::Done(done)) => !done,
            (Do::Set(_) | Do::Swap(_) | Do::Append(_) | Do::Incr(_), _) => false,
            (Do::Cas { .. } | Do::Delete, _) => false,
        }
    }
}

/// A part, ready for the search.
pub(crate) struct Compiled {
    pub(crate) keys: usize,
    pub(crate) values: Values,
    /// Answered operations, by time of answer.
    pub(crate) done: Vec<Unit>,
    /// Operations that may take effect or not, by time of call.
    pub(crate) maybe: Vec<Unit>,
    /// For each of `maybe`, the one before it that does the same: they are interchangeable but that
    /// the earlier one was called earlier, so the earlier one goes first without loss.
    pub(crate) twin_before: Vec<Option<u32>>,
}

/// The order of answers, with ties broken so that it is total.
pub(crate) fn by_answer(history: &History, part: &Part) -> Vec<usize> {
    let mut done: Vec<(u64, u64, usize)> = part
        .ops
        .iter()
        .filter_map(|&n| {
            let op = &history.ops[n];
            Some((op.complete_ns()?, op.invoke_ns, n))
        })
        .collect();
    done.sort_unstable();
    done.into_iter().map(|(_, _, n)| n).collect()
}

/// What was known when the last of `answered` (a prefix of [`by_answer`]) was answered, or at the
/// end if that is all of them: later answers are not, and later calls have not been made.
pub(crate) fn compile(history: &History, part: &Part, answered: &[usize], all: bool) -> Compiled {
    let mut values = Values::new();
    let until = match answered.last() {
        Some(&last) if !all => history.ops[last].complete_ns().unwrap_or(u64::MAX),
        _ => u64::MAX,
    };
    let unit = |n: usize, known: bool, values: &mut Values| {
        let op = &history.ops[n];
        let replies = match &op.end {
            End::Answered { replies, .. } if known => Some(replies),
            _ => None,
        };
        let steps: Few<Step> = op
            .commands
            .iter()
            .enumerate()
            .map(|(at, command)| {
                let key = part.keys.binary_search(&command.key);
                Step {
                    key: key.unwrap_or_else(|_| panic!("a part has the keys of its operations"))
                        as u32,
                    act: action(&command.action, values),
                    saw: replies.map(|replies| reply(&replies[at], values)),
                }
            })
            .collect();
        let complete_ns = op.complete_ns().unwrap_or(u64::MAX);
        let observer = steps.iter().all(|step| {
            step.saw.is_some_and(|saw| step.act.keeps_state(saw)) || matches!(step.act, Do::Get)
        });
        let (needs, makes) = needs_and_makes(&steps, values);
        let (source, invoke_ns) = (n, op.invoke_ns);
        Unit { source, invoke_ns, complete_ns, observer, needs, makes, steps }
    };
    let done: Vec<Unit> = answered.iter().map(|&n| unit(n, true, &mut values)).collect();

    let mut is_answered = answered.to_vec();
    is_answered.sort_unstable();
    let mut open: Vec<(u64, usize)> = part
        .ops
        .iter()
        .filter(|n| is_answered.binary_search(n).is_err())
        .map(|&n| (history.ops[n].invoke_ns, n))
        .filter(|(invoke_ns, _)| *invoke_ns <= until)
        .collect();
    open.sort_unstable();
    let mut maybe: Vec<Unit> = Vec::new();
    let mut twin_before = Vec::new();
    let mut last_of = HashMap::with_hasher(FixedState::default());
    for (_, n) in open {
        let unit = unit(n, false, &mut values);
        if unit.observer {
            continue;
        }
        let before = last_of.insert(&history.ops[n].commands, maybe.len() as u32);
        twin_before.push(before);
        maybe.push(unit);
    }
    Compiled { keys: part.keys.len(), values, done, maybe, twin_before }
}

fn action(action: &Action, values: &mut Values) -> Do {
    match action {
        Action::Get => Do::Get,
        Action::Set(value) => Do::Set(values.number_of(value)),
        Action::Swap(value) => Do::Swap(values.number_of(value)),
        Action::Cas { expect, value } => {
            Do::Cas { expect: values.of(expect.as_deref()), value: values.number_of(value) }
        }
        Action::Append(tail) => Do::Append(tail.clone()),
        Action::Incr(by) => Do::Incr(*by),
        Action::Delete => Do::Delete,
    }
}

fn reply(reply: &Reply, values: &mut Values) -> Saw {
    match reply {
        Reply::Ok => Saw::Ok,
        Reply::Value(value) => Saw::Value(values.of(value.as_deref())),
        Reply::Done(done) => Saw::Done(*done),
        Reply::Number(number) => Saw::Number(*number),
        Reply::Refused => Saw::Refused,
    }
}

/// I6, by following each key through the steps.
fn needs_and_makes(steps: &[Step], values: &mut Values) -> (Few<Cell>, Few<(u32, Make)>) {
    let (mut needs, mut makes) = (Few::new(), Few::new());
    let mut keys: Few<u32> = steps.iter().map(|step| step.key).collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        // What the key holds at this point, once an answer or an assignment tells; and whether it
        // is still what it was before the operation.
        let mut holds: Option<ValueId> = None;
        let mut untouched = true;
        let mut uncertain = false;
        for step in steps.iter().filter(|step| step.key == key) {
            let (before, after) = step.pins(values);
            if let (true, None, Some(value)) = (untouched, holds, before) {
                needs.push((key, value));
                holds = before;
            }
            let kept = match step.saw {
                Some(saw) => step.act.keeps_state(saw),
                None => matches!(step.act, Do::Get),
            };
            if !kept {
                untouched = false;
                holds = after;
                // Without an answer, a cas may also not have done anything.
                uncertain |= step.saw.is_none() && matches!(step.act, Do::Cas { .. });
            }
        }
        match holds {
            _ if untouched => {}
            Some(value) if !uncertain || steps.len() == 1 => makes.push((key, Make::Value(value))),
            _ => makes.push((key, Make::Anything)),
        }
    }
    (needs, makes)
}

impl Step {
    /// The values before and after, where the answer or the action pins them.
    fn pins(&self, values: &mut Values) -> (Option<ValueId>, Option<ValueId>) {
        match (&self.act, self.saw) {
            (Do::Get, Some(Saw::Value(value))) => (Some(value), Some(value)),
            (Do::Set(new), _) => (None, Some(*new)),
            (Do::Swap(new), Some(Saw::Value(old))) => (Some(old), Some(*new)),
            (Do::Swap(new), _) => (None, Some(*new)),
            (Do::Cas { expect, value }, Some(Saw::Done(true))) => (Some(*expect), Some(*value)),
            (Do::Cas { value, .. }, None) => (None, Some(*value)),
            (Do::Delete, Some(Saw::Done(false))) => (Some(NIL), Some(NIL)),
            (Do::Delete, _) => (None, Some(NIL)),
            (Do::Incr(by), Some(Saw::Number(sum))) => {
                let after = Some(values.number_of_decimal(sum));
                // Before it, 0 and no value are two states with one answer.
                let before = sum.checked_sub(*by).filter(|before| *before != 0);
                (before.map(|before| values.number_of_decimal(before)), after)
            }
            _ => (None, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Command, Op};

    fn compiled(ops: Vec<Op>) -> Compiled {
        let history: History = ops.into_iter().collect();
        let part = crate::partition::split(&history).remove(0);
        let answered = by_answer(&history, &part);
        compile(&history, &part, &answered, true)
    }

    fn only(action: Action, reply: Reply) -> (Unit, Values) {
        let op = Op::answered(1, 0, 1, Command::new("k", action), reply);
        let mut compiled = compiled(vec![op]);
        (compiled.done.remove(0), compiled.values)
    }

    #[test]
    fn i5_only_answers_that_change_nothing_make_an_observer() {
        let cas = || Action::Cas { expect: None, value: b"x".to_vec() };
        assert!(only(Action::Get, Reply::Value(None)).0.observer);
        assert!(only(cas(), Reply::Done(false)).0.observer);
        assert!(only(Action::Delete, Reply::Done(false)).0.observer);
        assert!(only(Action::Incr(1), Reply::Refused).0.observer);
        assert!(!only(cas(), Reply::Done(true)).0.observer);
        assert!(!only(Action::Delete, Reply::Done(true)).0.observer);
        assert!(!only(Action::Set(b"x".to_vec()), Reply::Ok).0.observer);
        assert!(!only(Action::Append(vec![]), Reply::Number(0)).0.observer);
    }

    #[test]
    fn i6_an_increment_from_zero_needs_no_certain_value() {
        let (unit, _) = only(Action::Incr(5), Reply::Number(5));
        assert!(unit.needs.is_empty());
        let (unit, values) = only(Action::Incr(5), Reply::Number(7));
        assert_eq!(values.get(unit.needs[0].1), Some(b"2".as_slice()));
        let Make::Value(made) = unit.makes[0].1 else { panic!("known: {unit:?}") };
        assert_eq!(values.get(made), Some(b"7".as_slice()));
    }

    #[test]
    fn i6_what_a_transaction_overwrites_itself_is_not_needed() {
        let commands = vec![
            Command::new("k", Action::Set(b"x".to_vec())),
            Command::new("k", Action::Get),
            Command::new("k", Action::Append(b"y".to_vec())),
        ];
        let replies = vec![Reply::Ok, Reply::Value(Some(b"x".to_vec())), Reply::Number(2)];
        let end = End::Answered { at_ns: 1, replies };
        let compiled = compiled(vec![Op { client: 1, invoke_ns: 0, commands, end }]);
        assert!(compiled.done[0].needs.is_empty());
        assert_eq!(compiled.done[0].makes.as_slice(), [(0, Make::Anything)]);
    }

    #[test]
    fn twins_are_chained_in_order_of_their_calls() {
        let incr = |at| Op::unknown(at, at, Command::new("k", Action::Incr(1)));
        let set = Op::unknown(9, 2, Command::new("k", Action::Set(b"x".to_vec())));
        let compiled = compiled(vec![incr(5), set, incr(1), incr(3)]);
        assert_eq!(compiled.twin_before, [None, None, Some(0), Some(2)]);
    }
}
