//! The shortest story behind a violation.
//!
//! Linearizability is prefix-closed: there is a first answer with which the history can no longer
//! be explained. It is found by judging prefixes (in which later answers are not yet known),
//! starting at the operation where the search of the whole got stuck, which usually is the one.

use crate::compile::{Make, by_answer, compile};
use crate::partition::Part;
use crate::search::{Ahead, Budget, Found, Stuck, search};
use crate::verdict::{Limits, Origin, Violation};
use crate::{History, Op};

/// More lines than this explain nothing.
const CONCURRENT_SHOWN: usize = 24;
const BEFORE_SHOWN: usize = 4;
const MAKERS_SHOWN: usize = 4;

/// I7. `stuck` is what the search of the whole part said.
pub(crate) fn violation(
    history: &History,
    part: &Part,
    answered: &[usize],
    stuck: Stuck,
    limits: Limits,
) -> Violation {
    debug_assert_eq!(answered, by_answer(history, part));
    let mut budget = Budget { steps: limits.steps, bytes: limits.bytes };
    let mut attempt = |last: usize| {
        search(compile(history, part, &answered[..=last], false), Ahead::Look, &mut budget)
    };
    // Every prefix that ends before `right` can be explained: a search came as far as that. The
    // prefix that ends with `wrong` cannot.
    let (mut right, mut wrong) = (stuck.at, answered.len() - 1);
    let mut finished = true;
    let mut stride = 0;
    let mut seen_wrong = false;
    while !seen_wrong || right < wrong {
        // Forward in growing strides until one is wrong, then by halves.
        let at = if seen_wrong { right.midpoint(wrong) } else { (right + stride).min(wrong) };
        match attempt(at) {
            Found::Order(_) => {
                assert!(at < wrong, "I7: a history is explained with and without its future");
                right = at + 1;
                stride = 2 * stride + 1;
            }
            Found::Nothing(stuck) => {
                right = right.max(stuck.at);
                wrong = at;
                seen_wrong = true;
            }
            Found::OutOfSteps | Found::OutOfBytes => {
                finished = false;
                break;
            }
        }
    }
    let whole = compile(history, part, &answered[..=wrong], false);
    let possible = match search(whole, Ahead::Ignore, &mut budget) {
        Found::Nothing(stuck) if stuck.at == wrong => stuck.states,
        Found::Nothing(_) => vec![],
        Found::OutOfSteps | Found::OutOfBytes => {
            finished = false;
            vec![]
        }
        Found::Order(_) => panic!("I4: looking ahead cut off an order that explains everything"),
    };
    tell(history, part, &answered[..=wrong], possible, finished)
}

fn tell(
    history: &History,
    part: &Part,
    answered: &[usize],
    possible: Vec<Vec<Option<Vec<u8>>>>,
    finished: bool,
) -> Violation {
    let index = answered[answered.len() - 1];
    let op = &history.ops[index];
    let until = op.complete_ns().unwrap_or(u64::MAX);
    let others = || part.ops.iter().filter(|n| **n != index).map(|n| &history.ops[*n]);
    let known = || others().filter(|other| other.invoke_ns <= until);
    let ended_before = |other: &Op| other.complete_ns().is_some_and(|at| at < op.invoke_ns);

    let mut concurrent: Vec<Op> = known().filter(|other| !ended_before(other)).cloned().collect();
    concurrent.sort_by_key(|other| other.invoke_ns);
    let surplus = concurrent.len().saturating_sub(CONCURRENT_SHOWN);
    concurrent.drain(..surplus);
    let mut before: Vec<Op> = known().filter(|other| ended_before(other)).cloned().collect();
    before.sort_by_key(Op::complete_ns);
    let surplus = before.len().saturating_sub(BEFORE_SHOWN);
    before.drain(..surplus);

    let compiled = compile(history, part, answered, false);
    let unit = &compiled.done[compiled.done.len() - 1];
    let units = || compiled.done.iter().chain(&compiled.maybe);
    let origin = unit
        .needs
        .iter()
        .map(|(key, value)| {
            let made = [(*key, Make::Value(*value)), (*key, Make::Anything)];
            let mut makers: Vec<Op> = units()
                .filter(|other| other.source != index)
                .filter(|other| other.makes.iter().any(|make| made.contains(make)))
                .map(|other| history.ops[other.source].clone())
                .collect();
            makers.sort_by_key(|other| other.invoke_ns);
            let surplus = makers.len().saturating_sub(MAKERS_SHOWN);
            makers.drain(..surplus);
            let value = compiled.values.get(*value).map(<[u8]>::to_vec);
            Origin { key: part.keys[*key as usize].clone(), value, makers }
        })
        .filter(|origin| origin.value.is_some())
        .collect();
    let (op, keys) = (op.clone(), part.keys.clone());
    Violation { op, index, finished, keys, possible, concurrent, before, origin }
}
