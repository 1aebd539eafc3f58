//! The keys of a table in an order that all replicas share.
//!
//! Lua's own order depends on the table's history, and on addresses once a table or function was a
//! key of it. So keys are sorted: numbers, then strings, then booleans. A table with other keys
//! cannot be walked.

use mlua::{Error, IntoLua, Lua, LuaString, Result, Table, Value};

use super::values::number;

/// The error for a table with a key that has an address.
pub(super) const NO_ORDER: &str =
    "a table with keys other than numbers, strings and booleans has no order that replicas share";

/// The cost of looking at a key and sorting it, beside its length.
const KEY_STEPS: u64 = 50;

/// The bytes of a key that cost a step.
const KEY_BYTES_PER_STEP: u64 = 16;

/// The most keys to which references may be held: Lua has room for 8000 references in all.
pub(super) const REFERENCES_MAX: usize = 7000;

/// A key that has a place in the order.
#[derive(Debug)]
pub(super) enum Key {
    Number(f64),
    /// The text, and a reference to it. Without one the text is made again, which costs memory.
    Text(Vec<u8>, Option<LuaString>),
    Boolean(bool),
}

impl Key {
    fn of(key: Value, is_held: bool) -> Result<Key> {
        match key {
            Value::String(text) => {
                let bytes = text.as_bytes().to_vec();
                Ok(Key::Text(bytes, is_held.then_some(text)))
            }
            Value::Boolean(value) => Ok(Key::Boolean(value)),
            other => number(&other)
                .map(Key::Number)
                .ok_or_else(|| Error::RuntimeError(NO_ORDER.to_owned())),
        }
    }

    /// The cost of looking at this key and sorting it.
    fn steps(&self) -> u64 {
        let bytes = if let Key::Text(text, _) = self { text.len() as u64 } else { 0 };
        KEY_STEPS + bytes / KEY_BYTES_PER_STEP
    }
}

impl IntoLua for Key {
    fn into_lua(self, lua: &Lua) -> Result<Value> {
        match self {
            Key::Number(number) => Ok(Value::Number(number)),
            Key::Text(_, Some(held)) => Ok(Value::String(held)),
            Key::Text(text, None) => Ok(Value::String(lua.create_string(text)?)),
            Key::Boolean(value) => Ok(Value::Boolean(value)),
        }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> std::cmp::Ordering {
        let class = |key: &Key| match key {
            Key::Number(_) => 0,
            Key::Text(..) => 1,
            Key::Boolean(_) => 2,
        };
        match (self, other) {
            // Zero has two signs and is one key.
            (Key::Number(a), Key::Number(b)) => (a + 0.0).total_cmp(&(b + 0.0)),
            (Key::Text(a, _), Key::Text(b, _)) => a.cmp(b),
            (Key::Boolean(a), Key::Boolean(b)) => a.cmp(b),
            _ => class(self).cmp(&class(other)),
        }
    }
}

/// All keys, sorted; and what that costs. References are held to `held_max` of them.
pub(super) fn sorted_keys(table: &Table, held_max: usize) -> Result<(Vec<Key>, u64)> {
    let mut keys = Vec::new();
    let mut steps = 0;
    for pair in table.pairs::<Value, Value>() {
        let key = Key::of(pair?.0, keys.len() < held_max)?;
        steps += key.steps();
        keys.push(key);
    }
    keys.sort();
    Ok((keys, steps))
}

/// The first key after `last`, or the first key; and the cost of finding it.
pub(super) fn next_key(table: &Table, last: Value) -> Result<(Option<Key>, u64)> {
    let last = if last.is_nil() { None } else { Some(Key::of(last, false)?) };
    let mut best: Option<Key> = None;
    let mut steps = 0;
    for pair in table.pairs::<Value, Value>() {
        let key = Key::of(pair?.0, true)?;
        steps += key.steps();
        if last.as_ref().is_none_or(|last| key > *last)
            && best.as_ref().is_none_or(|least| key < *least)
        {
            best = Some(key);
        }
    }
    Ok((best, steps))
}
