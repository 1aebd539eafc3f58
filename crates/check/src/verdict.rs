//! The verdict on a history, its budget, and the evidence.
//!
//! - I1 A history is called linearizable only after the order that was found has been replayed with
//!   the plain [`model`], against every answer and against real time.
//! - I7 A violation names an operation such that everything answered before it can be explained and
//!   nothing that was known at its answer explains it, so a reader of the explanation need not look
//!   at anything later.

use crate::compile::{by_answer, compile};
use crate::explain;
use crate::history::{End, Flaw, History, Op, quoted, quoted_or_nil};
use crate::model;
use crate::partition::{Part, matters, split};
use crate::search::{Ahead, Budget, Found, search};
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;

/// How much a judgement may cost. Counted, not timed: the same history and limits give the same
/// verdict on any machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Attempts to place an operation of one part of the history: about a microsecond each. Easy
    /// histories need about one an operation.
    pub steps: u64,
    /// Memory for one part of the history (one key, or keys tied by transactions).
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { steps: 30_000_000, bytes: 1 << 30 }
    }
}

/// What the judge says.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// Some order explains every answer.
    Linearizable(Evidence),
    /// None does.
    Violation(Box<Violation>),
    /// Not known within the limits. Nothing was found wrong, nothing was shown right.
    GaveUp(GaveUp),
}

impl Verdict {
    /// Whether an order was found.
    pub fn is_linearizable(&self) -> bool {
        matches!(self, Verdict::Linearizable(_))
    }

    /// Whether the verdict is a violation.
    pub fn is_violation(&self) -> bool {
        matches!(self, Verdict::Violation(_))
    }
}

/// An order that explains a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Operations that had to be explained.
    pub answered: usize,
    /// Operations whose outcome was unknown.
    pub unknown: usize,
    /// Independent parts (keys, or sets of keys tied by transactions).
    pub parts: usize,
    /// What the search cost, of [`Limits::steps`].
    pub steps: u64,
    /// For each part, indices into the history in an order that explains it. Unknown operations
    /// that stand in none are supposed never to have taken effect.
    pub orders: Vec<Vec<usize>>,
}

/// Why no order explains a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// I7: the operation whose answer fits in no order of what was known by then.
    pub op: Op,
    /// Its index in the history.
    pub index: usize,
    /// Whether the limits sufficed to find the first such operation and what it could have seen. If
    /// not, the verdict stands all the same, but an earlier operation may explain it better.
    pub finished: bool,
    /// The keys that had to be judged together with it.
    pub keys: Vec<Vec<u8>>,
    /// What these keys could hold at the time, in some order of everything else; a few of them.
    /// Empty if everything else can be explained only if the operation did take effect, but with
    /// another answer than the one it got.
    pub possible: Vec<Vec<Option<Vec<u8>>>>,
    /// Operations that were in flight together with it, or whose outcome was unknown.
    pub concurrent: Vec<Op>,
    /// The last ones that ended before its call.
    pub before: Vec<Op>,
    /// Where the value comes from that it saw and could not see, if it saw one.
    pub origin: Vec<Origin>,
}

/// The operations that could have made a value that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Where it was seen.
    pub key: Vec<u8>,
    /// The value.
    pub value: Option<Vec<u8>>,
    /// Operations that were called before it was seen and may have made it.
    pub makers: Vec<Op>,
}

/// A search that was too costly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GaveUp {
    /// The keys of the part that was given up.
    pub keys: Vec<Vec<u8>>,
    /// Operations in that part.
    pub ops: usize,
    /// Which limit was reached.
    pub limit: Limit,
    /// Parts that were found right before.
    pub parts_right: usize,
}

/// A limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// [`Limits::steps`].
    Steps(u64),
    /// [`Limits::bytes`].
    Bytes(u64),
}

/// A history that cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("operation {index} of the history cannot have happened: {flaw}")]
pub struct JudgeError {
    /// Index into the history.
    pub index: usize,
    /// What is wrong with it.
    pub flaw: Flaw,
}

/// Says whether `history` is linearizable: whether each operation can be given an instant between
/// its call and its answer such that executing them in that order, on a service that starts empty,
/// gives every answer.
///
/// # Errors
/// [`JudgeError`] if an operation is no possible record.
pub fn judge(history: &History, limits: Limits) -> Result<Verdict, JudgeError> {
    for (index, op) in history.ops.iter().enumerate() {
        op.validate().map_err(|flaw| JudgeError { index, flaw })?;
    }
    let parts = split(history);
    let mut n_steps = 0;
    let mut orders = Vec::with_capacity(parts.len());
    let mut gave_up = None;
    for part in &parts {
        let answered = by_answer(history, part);
        // One hard part takes nothing from the others.
        let mut budget = Budget { steps: limits.steps, bytes: limits.bytes };
        let found = search(compile(history, part, &answered, true), Ahead::Look, &mut budget);
        n_steps += limits.steps - budget.steps;
        match found {
            Found::Order(order) => {
                replay(history, part, &answered, &order);
                orders.push(order);
            }
            Found::Nothing(stuck) => {
                let violation = explain::violation(history, part, &answered, stuck, limits);
                return Ok(Verdict::Violation(Box::new(violation)));
            }
            // Later parts may still show a violation, which would say more.
            Found::OutOfSteps => {
                gave_up.get_or_insert((part, Limit::Steps(limits.steps)));
            }
            Found::OutOfBytes => {
                gave_up.get_or_insert((part, Limit::Bytes(limits.bytes)));
            }
        }
    }
    if let Some((part, limit)) = gave_up {
        let (keys, ops, parts_right) = (part.keys.clone(), part.ops.len(), orders.len());
        return Ok(Verdict::GaveUp(GaveUp { keys, ops, limit, parts_right }));
    }
    let count = |wanted: fn(&End) -> bool| {
        history.ops.iter().filter(|op| matters(op) && wanted(&op.end)).count()
    };
    Ok(Verdict::Linearizable(Evidence {
        answered: count(|end| matches!(end, End::Answered { .. })),
        unknown: count(|end| matches!(end, End::Unknown)),
        parts: parts.len(),
        steps: n_steps,
        orders,
    }))
}

/// I1: holds `order` against the plain model.
///
/// # Panics
/// If it explains nothing: the search is wrong, and no verdict of it may be believed.
fn replay(history: &History, part: &Part, answered: &[usize], order: &[usize]) {
    let mut values: BTreeMap<&[u8], Option<Vec<u8>>> = BTreeMap::new();
    let mut placed: Vec<usize> = order.to_vec();
    placed.sort_unstable();
    assert!(placed.windows(2).all(|two| two[0] < two[1]), "I1: placed twice");
    assert!(placed.iter().all(|n| part.ops.binary_search(n).is_ok()), "I1: a foreign operation");
    assert!(answered.iter().all(|n| placed.binary_search(n).is_ok()), "I1: one was left out");
    let mut latest_call = 0;
    for &n in order {
        let op = &history.ops[n];
        latest_call = latest_call.max(op.invoke_ns);
        let in_time = op.complete_ns().is_none_or(|complete_ns| latest_call <= complete_ns);
        assert!(in_time, "I1: {op} is placed after a call at {latest_call} ns");
        for (at, command) in op.commands.iter().enumerate() {
            let reply = model::apply(&command.action, values.entry(&command.key).or_default());
            if let End::Answered { replies, .. } = &op.end {
                assert_eq!(reply, replies[at], "I1: {op} is not explained");
            }
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Linearizable(evidence) => fmt::Display::fmt(evidence, f),
            Verdict::Violation(violation) => fmt::Display::fmt(violation, f),
            Verdict::GaveUp(gave_up) => fmt::Display::fmt(gave_up, f),
        }
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "linearizable: {} answered and {} unknown operations in {} independent parts ({} steps)",
            self.answered, self.unknown, self.parts, self.steps
        )
    }
}

impl fmt::Display for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gave up: {} operations on {} need more than ", self.ops, names(&self.keys))?;
        match self.limit {
            Limit::Steps(steps) => write!(f, "{steps} steps")?,
            Limit::Bytes(bytes) => write!(f, "{} MiB", bytes >> 20)?,
        }
        write!(
            f,
            " ({} parts were found right); nothing is known about the rest: raise the limit, or \
             record fewer clients on one key, distinct values, or a shorter run",
            self.parts_right
        )
    }
}

fn names(keys: &[Vec<u8>]) -> String {
    const SHOWN: usize = 8;
    let mut text: Vec<String> = keys.iter().take(SHOWN).map(|key| quoted(key)).collect();
    if keys.len() > SHOWN {
        text.push(format!("{} more", keys.len() - SHOWN));
    }
    format!("{} {}", if keys.len() == 1 { "key" } else { "keys" }, text.join(", "))
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "not linearizable: on {}, no order explains", names(&self.keys))?;
        writeln!(f, "    {}", self.op)?;
        if !self.finished {
            writeln!(f, "(the limits ended the search for the first such operation: raise them)")?;
        } else if self.possible.is_empty() {
            writeln!(f, "what was answered before it needs its effect, but with another answer")?;
        } else {
            writeln!(
                f,
                "what was answered before it can be explained; at that point there could be"
            )?;
        }
        for state in &self.possible {
            let cells: Vec<String> = self
                .keys
                .iter()
                .zip(state)
                .map(|(key, value)| {
                    format!("{} = {}", quoted(key), quoted_or_nil(value.as_deref()))
                })
                .collect();
            writeln!(f, "    {}", cells.join(", "))?;
        }
        for Origin { key, value, makers } in &self.origin {
            let (key, value) = (quoted(key), quoted_or_nil(value.as_deref()));
            if makers.is_empty() {
                writeln!(f, "{key} = {value}, which it saw, was made by no operation before")?;
            } else {
                writeln!(f, "{key} = {value}, which it saw, may have been made by")?;
                makers.iter().try_for_each(|op| writeln!(f, "    {op}"))?;
            }
        }
        if !self.concurrent.is_empty() {
            writeln!(f, "in flight together with it, or of unknown outcome:")?;
            self.concurrent.iter().try_for_each(|op| writeln!(f, "    {op}"))?;
        }
        if !self.before.is_empty() {
            writeln!(f, "the last that ended before its call:")?;
            self.before.iter().try_for_each(|op| writeln!(f, "    {op}"))?;
        }
        Ok(())
    }
}
