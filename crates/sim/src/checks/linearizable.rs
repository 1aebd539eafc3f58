//! Linearizability: the clients' history is possible one operation at a time, each between its
//! question and its answer. The `check` crate judges it, without any knowledge of logs.
//!
//! Why no false alarm: an operation without an answer may have taken effect at any later time, or
//! never, and is recorded so. A register is nothing until it is first changed; the clients never
//! set it to 0, so 0 stands for that.

use crate::history::Operation;
use crate::kv::Ask;
use check::{Action, Command, History, Limits, Op, Reply, Verdict};

/// Counted, so that a verdict replays. Most runs need far less. Of clusters on disks, where many
/// operations overlap, some one in twenty needs more; more steps would take minutes for such a run.
const LIMITS: Limits = Limits { steps: 3_000_000, bytes: 1 << 28 };

/// Whether the judge came to a verdict within its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    Whole,
    GaveUp,
}

/// Checks a whole history.
pub(crate) fn check(operations: &[Operation]) -> Result<Judged, String> {
    check_history(&operations.iter().map(op).collect())
}

/// The same, for a `History`.
pub(crate) fn check_history(history: &History) -> Result<Judged, String> {
    match check::judge(history, LIMITS) {
        Ok(Verdict::Linearizable(_)) => Ok(Judged::Whole),
        Ok(Verdict::Violation(violation)) => Err(violation.to_string()),
        // A sweep bounds how many there are. (Machines have the real-time check, too.)
        Ok(Verdict::GaveUp(_)) => Ok(Judged::GaveUp),
        Err(flaw) => Err(format!("the simulator recorded nonsense: {flaw}")),
    }
}

fn op(operation: &Operation) -> Op {
    let key = vec![b'a' + operation.key];
    let client = u64::from(operation.client);
    let command = Command::new(key, action(operation.ask));
    match (operation.answered_at, operation.answer) {
        (Some(at), Some(answer)) => {
            Op::answered(client, operation.asked_at, at, command, reply(operation.ask, answer))
        }
        _ => Op::unknown(client, operation.asked_at, command),
    }
}

fn value(value: u64) -> Option<Vec<u8>> {
    (value != 0).then(|| value.to_string().into_bytes())
}

fn action(ask: Ask) -> Action {
    match ask {
        Ask::Read => Action::Get,
        Ask::Write(new) => Action::Set(new.to_string().into_bytes()),
        Ask::Add(amount) => Action::Incr(amount as i64),
        Ask::Cas { expected, desired } => {
            Action::Cas { expect: value(expected), value: desired.to_string().into_bytes() }
        }
    }
}

fn reply(ask: Ask, answer: u64) -> Reply {
    match ask {
        Ask::Read => Reply::Value(value(answer)),
        Ask::Write(_) => Reply::Ok,
        Ask::Add(_) => Reply::Number(answer as i64),
        Ask::Cas { .. } => Reply::Done(answer == 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(ask: Ask, asked_at: u64, answer: Option<u64>) -> Operation {
        let answered_at = answer.map(|_| asked_at + 5);
        Operation { client: 0, key: 0, ask, asked_at, answered_at, answer, place: None }
    }

    #[test]
    fn the_judge_sees_lost_updates_and_double_ones() {
        let add = |at, answer| operation(Ask::Add(1), at, answer);
        let read = |at, answer| operation(Ask::Read, at, Some(answer));
        assert!(check(&[read(0, 0), add(10, Some(1)), read(20, 1)]).is_ok());
        assert!(check(&[add(10, Some(1)), read(20, 0)]).is_err(), "lost");
        assert!(check(&[add(10, Some(1)), read(20, 2)]).is_err(), "twice");
        assert!(check(&[add(10, None), read(20, 0), read(30, 1)]).is_ok(), "unknown, took effect");
        assert!(check(&[add(10, None), read(20, 1), read(30, 0)]).is_err(), "and undone");
        let cas = operation(Ask::Cas { expected: 0, desired: 7 }, 40, Some(1));
        assert!(check(&[cas, read(50, 7)]).is_ok());
        assert!(check(&[cas, operation(Ask::Write(9), 50, Some(9)), read(60, 7)]).is_err());
    }
}
