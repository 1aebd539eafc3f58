//! The keyspace under a protocol that keeps each key by itself: a register for each, and what
//! commands do to one.
//!
//! Such a protocol reads and writes whole values; no command sees two keys at one moment, and none
//! can decide by a value what it writes. What a command does to a value is done by [`Store`], which
//! is lent that one value, so replies are those of the ordinary door.
//!
//! - R1 a register only changes by `put_register`, to what the machine says is the newest. By
//!   construction: nothing else touches `registers`.
//! - R2 what a register cannot do is refused before anything of it is begun, with the cause and
//!   with the protocols that can. By [`plan`]; test `r2_what_a_register_cannot_do_is_refused`.
//! - R3 commands do to a value what they do to that of a key of a store. By construction; test
//!   `r3_replies_are_those_of_a_store`.
//!
//! A register's value is empty, for a key that is not there, or a byte and the key's value. Deleted
//! keys keep their registers: another member may still hold what they held before.

mod plan;
#[cfg(test)]
mod tests;

use crate::command::{CommandSpec, resolve};
use crate::door::{Holding, Holds, Serves, of_each};
use crate::entry::Command;
use crate::reply::Reply;
use crate::store::{DATABASES, DbKey, ENTRY_BYTES, Expiry, Store};
use crate::text;
use engine::keyed::{Plan, Registers};
use proto::keyed::{KeyedCounts, Tag};
use std::collections::BTreeMap;
use std::ops::Bound;

pub use plan::{KEYS_MAX, plan};

/// What a value begins with.
const IS_THERE: u8 = 1;

/// The registers of one member. See the module's text.
#[derive(Debug)]
pub struct Keys {
    registers: BTreeMap<Vec<u8>, (Tag, Vec<u8>)>,
    /// The longest value of a register.
    value_bytes_max: usize,
    /// Above this writes are refused; zero for no limit.
    memory_bytes_max: u64,
    used_bytes: u64,
    changes: u64,
    /// Keys that are there, of each database.
    n_keys: [u64; DATABASES],
    /// Of the machine.
    counts: KeyedCounts,
    /// Where commands are executed: empty between two.
    store: Store,
}

/// What a request is about: a command, its arguments and which of them are keys.
struct Asked<'a> {
    spec: &'static CommandSpec,
    command: Command<'a>,
}

impl Keys {
    /// None. `value_bytes_max` is the protocol's, `memory_bytes_max` this member's limit (zero:
    /// none).
    pub fn new(value_bytes_max: usize, memory_bytes_max: u64) -> Keys {
        Keys {
            registers: BTreeMap::new(),
            value_bytes_max,
            memory_bytes_max,
            used_bytes: 0,
            changes: 0,
            n_keys: [0; DATABASES],
            counts: KeyedCounts::default(),
            store: Store::new(0),
        }
    }

    fn account(&mut self, key: &[u8], before: Option<&[u8]>, after: &[u8]) {
        let there = |value: Option<&[u8]>| u64::from(value.is_some_and(|value| !value.is_empty()));
        let bytes = |value: &[u8]| (key.len() + value.len()) as u64 + ENTRY_BYTES;
        self.used_bytes += bytes(after);
        self.used_bytes -= before.map_or(0, bytes);
        if let Some(n) = key.first().and_then(|db| self.n_keys.get_mut(usize::from(*db))) {
            *n += there(Some(after));
            *n -= there(before);
        }
        self.changes += 1;
    }
}

/// The command of a request that was planned.
fn asked(request: &[u8]) -> Option<Asked<'_>> {
    let command = Command::decode(request).ok()?;
    let Command::Plain { args, .. } = &command else { return None };
    let spec = resolve(args, &mut Reply::default())?;
    Some(Asked { spec, command })
}

impl Registers for Keys {
    fn register(&self, key: &[u8]) -> Option<(Tag, &[u8])> {
        self.registers.get(key).map(|(tag, value)| (*tag, value.as_slice()))
    }

    fn put_register(&mut self, key: &[u8], tag: Tag, value: &[u8]) {
        let before = self.registers.insert(key.to_vec(), (tag, value.to_vec()));
        self.account(key, before.as_ref().map(|(_, value)| value.as_slice()), value);
    }

    fn next_register(&self, after: Option<&[u8]>) -> Option<(&[u8], Tag, &[u8])> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let (key, (tag, value)) =
            self.registers.range::<[u8], _>((from, Bound::Unbounded)).next()?;
        Some((key, *tag, value))
    }

    fn plan(&mut self, request: &[u8]) -> Result<Plan, Vec<u8>> {
        let is_over = self.memory_bytes_max != 0 && self.used_bytes > self.memory_bytes_max;
        plan(request, self.value_bytes_max - 1, is_over)
    }

    fn perform(
        &mut self,
        request: &[u8],
        at: usize,
        value: &[u8],
        new: &mut Vec<u8>,
        reply: &mut Vec<u8>,
    ) -> bool {
        let Some(Asked { spec, command: Command::Plain { db, protocol, args } }) = asked(request)
        else {
            return false;
        };
        let piece = plan::piece(spec, &args, at);
        let key = DbKey { db, key: piece[1] };
        if let Some((_, value)) = value.split_first() {
            self.store.put(key, value, Expiry::Clear);
        }
        let mut answer = Reply::new(protocol);
        answer.bounded(text::ANSWER_TOO_LONG, |answer| {
            self.store.execute(db, spec, &piece, 0, answer);
        });
        reply.extend_from_slice(answer.as_bytes());
        let after = self.store.remove(key);
        debug_assert!(self.store.is_empty(), "one key is lent");
        if !spec.is_write() || (after.is_none() && value.is_empty()) {
            return false;
        }
        if let Some(after) = after {
            new.push(IS_THERE);
            new.extend_from_slice(&after.value);
        }
        true
    }

    fn note(&mut self, counts: KeyedCounts) {
        self.counts = counts;
    }

    fn join(&mut self, request: &[u8], parts: &[Vec<u8>], reply: &mut Vec<u8>) {
        let Some(Asked { spec, command: Command::Plain { protocol, .. } }) = asked(request) else {
            return;
        };
        let mut whole = Reply::new(protocol);
        whole.bounded(text::ANSWER_TOO_LONG, |whole| plan::join(spec, parts, whole));
        reply.extend_from_slice(whole.as_bytes());
    }
}

impl Holds for Keys {
    fn holding(&self) -> Holding {
        Holding {
            keys: self.n_keys.iter().sum(),
            memory_bytes: self.used_bytes,
            databases: of_each(|db| (self.n_keys[usize::from(db.number())], 0)),
            changes: self.changes,
        }
    }

    fn describe(&self) -> String {
        let KeyedCounts { write_backs, merges, keys_merged, outdated, resent } = self.counts;
        format!(
            "gregale_registers:{}\r\ngregale_write_backs:{write_backs}\r\n\
             gregale_merges:{merges}\r\ngregale_keys_merged:{keys_merged}\r\n\
             gregale_messages_outdated:{outdated}\r\ngregale_requests_resent:{resent}\r\n",
            self.registers.len()
        )
    }
}

impl Serves for Keys {}
