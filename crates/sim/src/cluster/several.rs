//! Commands of several keys at once.
//!
//! - V1 of a keyspace in partitions, which execute such a command piece by piece: what it writes is
//!   there whole or not at all, and what it reads is of one moment. By construction: it is one
//!   operation of the history that is judged, with a part for each key.
//! - V2 where each key is kept by itself, a command may do its parts at different moments, and each
//!   may have happened if the end is unknown; if it was refused, none has. By construction: each
//!   part is an operation of the history, and [`settle`] ends all of them alike.
//! - V3 what is drawn here changes nothing that is drawn elsewhere. By a generator of its own.
//!
//! Registers delete without looking (docs/protocols/abd.md): two deletions may both count a key. So
//! V2 judges a deletion as the write of a value that means none, by [`Several::make_blind`].

use super::kinds::Protocol;
use super::record::Record;
use super::resp::{Value, may_pass};
use base::Rng;
use check::{Action, CallId, Command, End, History, Op, Reply};

/// The keys: more than a run has partitions, so that most commands concern several.
const N_KEYS: u64 = 6;
/// The value that means none.
const NONE: &[u8] = b"(none)";

/// What there is to be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// Nothing.
    Silent,
    /// To partitions (V1).
    AtOnce,
    /// To registers (V2).
    Apart,
}

/// The requests of all clients.
#[derive(Debug)]
pub(super) struct Several {
    rng: Rng,
    manner: Manner,
    n_values: u64,
}

/// A request: its words, and what it does to each key.
#[derive(Debug)]
pub(super) struct Act {
    pub(super) words: Vec<Vec<u8>>,
    pub(super) commands: Vec<Command>,
    pub(super) is_read: bool,
    /// Whether it does so to each key by itself (V2).
    pub(super) is_apart: bool,
}

fn key(n: u64) -> Vec<u8> {
    format!("several:{n}").into_bytes()
}

fn is_one(key: &[u8]) -> bool {
    key.starts_with(b"several:")
}

impl Several {
    /// V3.
    pub(super) fn draw(seed: u64, of: Protocol) -> Several {
        let mut rng = Rng::new(seed ^ 0x0073_6576_6572_616c);
        let manner = match of {
            Protocol::Partitions(_) => Manner::AtOnce,
            Protocol::Keyed(_) => Manner::Apart,
            Protocol::Log(_) | Protocol::Program(_) => Manner::Silent,
        };
        let is_on = manner != Manner::Silent && rng.chance(3, 4);
        Several { manner: if is_on { manner } else { Manner::Silent }, rng, n_values: 0 }
    }

    /// Every key, if any is used.
    pub(super) fn keys(&self) -> impl Iterator<Item = Vec<u8>> {
        (0..if self.manner == Manner::Silent { 0 } else { N_KEYS }).map(key)
    }

    /// The next requests, if there are some: at once, one behind the other.
    pub(super) fn think(&mut self) -> Vec<Act> {
        if self.manner == Manner::Silent || !self.rng.chance(1, 3) {
            return Vec::new();
        }
        let n = if self.manner == Manner::Apart { self.rng.range(1, 3) } else { 1 };
        (0..n).map(|_| self.act()).collect()
    }

    fn act(&mut self) -> Act {
        let first = self.rng.below(N_KEYS);
        let n = self.rng.range(2, 3);
        let keys = (0..n).map(|at| key((first + at) % N_KEYS));
        let is_apart = self.manner == Manner::Apart;
        if self.rng.chance(1, 2) {
            let (keys, word): (Vec<_>, _) = if is_apart && self.rng.chance(1, 2) {
                (keys.collect(), [&b"DEL"[..], b"UNLINK"][self.rng.below(2) as usize])
            } else {
                (keys.collect(), &b"MGET"[..])
            };
            let is_read = word == b"MGET";
            let action = if is_read { Action::Get } else { Action::Delete };
            let words = [word.to_vec()].into_iter().chain(keys.iter().cloned()).collect();
            let command = |key| Command::new(key, action.clone());
            let commands = keys.into_iter().map(command).collect();
            return Act { words, commands, is_read, is_apart };
        }
        let mut words = vec![b"MSET".to_vec()];
        let mut commands = Vec::new();
        // (Registers refuse an MSET of two keys.)
        for key in keys.take(if is_apart { 1 } else { usize::MAX }) {
            self.n_values += 1;
            let value = self.n_values.to_string().into_bytes();
            words.extend([key.clone(), value.clone()]);
            commands.push(Command::new(key, Action::Set(value)));
        }
        Act { words, commands, is_read: false, is_apart }
    }

    /// V2: lets deletions in the history be writes, and what was not there be what they wrote.
    pub(super) fn make_blind(&self, history: &mut History) {
        if self.manner != Manner::Apart {
            return;
        }
        for op in history.ops.iter_mut().filter(|op| is_one(&op.commands[0].key)) {
            let Op { commands, end, .. } = op;
            let is_deletion = commands[0].action == Action::Delete;
            if is_deletion {
                commands[0].action = Action::Set(NONE.to_vec());
            }
            let End::Answered { replies, .. } = end else { continue };
            match &mut replies[0] {
                reply if is_deletion => *reply = Reply::Ok,
                Reply::Value(value) => drop(value.get_or_insert_with(|| NONE.to_vec())),
                _ => {}
            }
        }
        let first = |key| {
            Op::answered(u64::MAX, 0, 0, Command::new(key, Action::Set(NONE.to_vec())), Reply::Ok)
        };
        history.ops.splice(0..0, self.keys().map(first));
    }
}

/// V2, and so I23: takes the answer to a request whose parts are operations of their own. False if
/// it was refused, or its end is unknown.
///
/// # Errors
/// An answer to something else.
pub(super) fn settle(
    calls: &[CallId],
    value: Value,
    now: u64,
    recorder: &mut Record,
) -> Result<bool, String> {
    let n = calls.len();
    let replies = match value {
        Value::Error(why) if why.starts_with("UNKNOWN ") => return Ok(false),
        Value::Error(why) if may_pass(&why) => {
            calls.iter().for_each(|call| recorder.failed(*call, now));
            return Ok(false);
        }
        // How many keys were there is not judged: see above.
        Value::Number(was) if (0..=n as i64).contains(&was) => vec![Reply::Done(true); n],
        Value::Text(word) if word == "OK" && n == 1 => vec![Reply::Ok],
        Value::List(Some(list)) if list.len() == n => {
            list.into_iter().map(Reply::try_from).collect::<Result<_, _>>()?
        }
        value => return Err(format!("{value:?} is no answer about {n} keys")),
    };
    let ends = calls.iter().zip(replies);
    ends.for_each(|(call, reply)| recorder.answered(*call, now, vec![reply]));
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::linearizable::{Judged, check_history};

    /// Two keys are set, and deleted by one request that is answered so; then they are read.
    fn judged(answer: Value, seen: [Option<&[u8]>; 2]) -> Result<Judged, String> {
        let several = Several { rng: Rng::new(1), manner: Manner::Apart, n_values: 0 };
        let mut recorder = Record::default();
        let mut all = |at: u64, actions: [Action; 2], answer: Value| {
            let commands = (0..2).map(key).zip(actions).map(|(key, act)| Command::new(key, act));
            let calls: Vec<CallId> =
                commands.map(|command| recorder.call(1, at, vec![command])).collect();
            settle(&calls, answer, at + 1, &mut recorder)
        };
        let read = |value: Option<&[u8]>| Value::Bytes(value.map(<[u8]>::to_vec));
        let get = || [Action::Get, Action::Get];
        all(5, get(), Value::List(Some(vec![read(None), read(None)])))?;
        // (Each write has an answer of its own.)
        let set = |value: &[u8]| Action::Set(value.to_vec());
        all(10, [set(b"1"), set(b"2")], Value::Error("UNKNOWN the outcome".to_owned()))?;
        all(20, get(), Value::List(Some(vec![read(Some(b"1")), read(Some(b"2"))])))?;
        all(30, [Action::Delete, Action::Delete], answer)?;
        all(40, get(), Value::List(Some(seen.into_iter().map(read).collect())))?;
        let mut history = recorder.finish();
        several.make_blind(&mut history);
        check_history(&history)
    }

    #[test]
    fn v2_a_refused_deletion_that_has_done_a_part_is_noticed() {
        let (one, two) = (Some(&b"1"[..]), Some(&b"2"[..]));
        let error = |why: &str| Value::Error(why.to_owned());
        for seen in [[one, two], [None, two], [one, None], [None, None]] {
            let is_whole = seen == [one, two];
            assert_eq!(judged(error("TRYAGAIN later"), seen).is_ok(), is_whole, "{seen:?}");
            assert!(judged(error("UNKNOWN the outcome"), seen).is_ok(), "{seen:?}");
            // (The count may be wrong.)
            assert_eq!(judged(Value::Number(1), seen).is_ok(), seen == [None, None], "{seen:?}");
        }
        assert!(judged(Value::Number(3), [None, None]).is_err());
    }
}
