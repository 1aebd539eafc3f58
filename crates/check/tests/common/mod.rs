//! Made-up histories: right by construction, and then perhaps spoilt.
#![allow(dead_code, reason = "each test program uses a part")]

use base::Rng;
use check::{Action, Command, End, History, Op, Reply, model};
use std::collections::BTreeMap;

/// What to make up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) ops: usize,
    pub(crate) clients: u64,
    pub(crate) keys: u64,
    /// Values are drawn from this many; 0: every value is new.
    pub(crate) values: u64,
    /// Of a thousand operations, how many have no answer.
    pub(crate) unknown_permille: u64,
    pub(crate) failed_permille: u64,
    /// Of a thousand, how many have two or three commands.
    pub(crate) txn_permille: u64,
    /// Which actions, a bit each, in the order of `Action`.
    pub(crate) actions: u8,
}

pub(crate) const GET_SET: u8 = 0b11;
pub(crate) const ALL: u8 = 0x7f;
pub(crate) const GET_INCR_DELETE: u8 = 0b110_0001;

fn action(rng: &mut Rng, shape: &Shape, fresh: &mut u64) -> Action {
    let mut value = |rng: &mut Rng| {
        *fresh += 1;
        let n = if shape.values == 0 { *fresh } else { rng.below(shape.values) };
        n.to_string().into_bytes()
    };
    loop {
        let kind = rng.below(7);
        if shape.actions & (1 << kind) == 0 {
            continue;
        }
        return match kind {
            0 => Action::Get,
            1 => Action::Set(value(rng)),
            2 => Action::Swap(value(rng)),
            3 => {
                let expect = rng.chance(2, 3).then(|| value(rng));
                Action::Cas { expect, value: value(rng) }
            }
            4 => Action::Append(value(rng)),
            5 => Action::Incr(rng.below(3) as i64 - 1),
            _ => Action::Delete,
        };
    }
}

/// A history that is linearizable because each operation was executed at one instant of its span.
pub(crate) fn right(rng: &mut Rng, shape: &Shape) -> History {
    let mut free = vec![0u64; shape.clients as usize];
    let mut fresh = 0;
    // (instant, invoke, complete, client, commands)
    let mut plan = Vec::new();
    for _ in 0..shape.ops {
        let client = rng.below(shape.clients) as usize;
        let invoke = free[client] + 1 + rng.below(20);
        let instant = invoke + rng.below(40);
        let complete = instant + rng.below(40);
        free[client] = complete;
        let commands = if rng.below(1000) < shape.txn_permille { 2 + rng.below(2) } else { 1 };
        let commands: Vec<Command> = (0..commands)
            .map(|_| {
                let key = format!("k{}", rng.below(shape.keys));
                Command::new(key, action(rng, shape, &mut fresh))
            })
            .collect();
        plan.push((instant, invoke, complete, client as u64, commands));
    }
    plan.sort_by_key(|(instant, ..)| *instant);
    let mut state: BTreeMap<Vec<u8>, Option<Vec<u8>>> = BTreeMap::new();
    let mut history = History::new();
    for (_, invoke_ns, at_ns, client, commands) in plan {
        let fate = rng.below(1000);
        let end = if fate < shape.failed_permille {
            End::Failed { at_ns }
        } else {
            let is_unknown = fate < shape.failed_permille + shape.unknown_permille;
            let takes_effect = !is_unknown || rng.chance(1, 2);
            let execute = |command: &Command| {
                model::apply(&command.action, state.entry(command.key.clone()).or_default())
            };
            let replies =
                if takes_effect { commands.iter().map(execute).collect() } else { vec![] };
            if is_unknown { End::Unknown } else { End::Answered { at_ns, replies } }
        };
        history.push(Op { client, invoke_ns, commands, end });
    }
    history
}

/// Changes one answer, span or outcome; the result may be wrong, or happen to be right.
pub(crate) fn spoil(rng: &mut Rng, history: &mut History) {
    let n = history.ops.len() as u64;
    let (a, b) = (rng.below(n) as usize, rng.below(n) as usize);
    match rng.below(5) {
        0 => {
            let end = history.ops[b].end.clone();
            if let (End::Answered { replies: to, .. }, End::Answered { replies: from, .. }) =
                (&mut history.ops[a].end, end)
                && to.len() == from.len()
                && std::mem::discriminant(&to[0]) == std::mem::discriminant(&from[0])
            {
                *to = from;
            }
        }
        1 => {
            if let End::Answered { replies, .. } = &mut history.ops[a].end {
                for reply in replies {
                    match reply {
                        Reply::Number(number) => *number += 1,
                        Reply::Done(done) => *done = !*done,
                        Reply::Value(value) => *value = None,
                        Reply::Ok | Reply::Refused => {}
                    }
                }
            }
        }
        2 => {
            let op = &mut history.ops[a];
            if let End::Answered { at_ns, .. } = &mut op.end {
                *at_ns = op.invoke_ns;
            }
        }
        3 => {
            let op = &mut history.ops[a];
            if let Some(at_ns) = op.complete_ns() {
                op.end = End::Failed { at_ns };
            }
        }
        _ => {
            let shift = rng.below(120);
            let op = &mut history.ops[a];
            op.invoke_ns += shift;
            if let End::Answered { at_ns, .. } | End::Failed { at_ns } = &mut op.end {
                *at_ns += shift;
            }
        }
    }
}
