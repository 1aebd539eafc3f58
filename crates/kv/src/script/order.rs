//! The keys of a table in an order that all replicas share.
//!
//! Lua's own order depends on the table's history, and on addresses once a table or function was a
//! key of it. So keys are sorted: numbers, then strings, then booleans. A table with other keys
//! cannot be walked.

use mlua::{IntoLua, Lua, Result, Table, Value};

use super::values::number;

/// The error for a table with a key that has an address.
pub(super) const NO_ORDER: &str =
    "a table with keys other than numbers, strings and booleans has no order that replicas share";

/// The cost of looking at a key and sorting it, beside its length.
const KEY_STEPS: u64 = 50;

/// The bytes of a key that cost a step.
const KEY_BYTES_PER_STEP: u64 = 16;

/// A key that has a place in the order.
#[derive(Debug)]
pub(super) enum Key {
    Number(f64),
    /// The text. No reference to it is held: what references cost Lua depends on how many there are
    /// at once, and so on where in Lua's own order a key with an address stands. The text is made
    /// again, which costs nothing, since Lua keeps equal texts once.
    Text(Vec<u8>),
    Boolean(bool),
}

impl Key {
    /// `None` for a key that has no place in the order.
    fn of(key: &Value) -> Option<Key> {
        match key {
            Value::String(text) => Some(Key::Text(text.as_bytes().to_vec())),
            Value::Boolean(value) => Some(Key::Boolean(*value)),
            other => number(other).map(Key::Number),
        }
    }

    /// The cost of looking at this key and sorting it.
    fn steps(&self) -> u64 {
        let bytes = if let Key::Text(text) = self { text.len() as u64 } else { 0 };
        KEY_STEPS + bytes / KEY_BYTES_PER_STEP
    }
}

impl IntoLua for Key {
    fn into_lua(self, lua: &Lua) -> Result<Value> {
        match self {
            Key::Number(number) => Ok(Value::Number(number)),
            Key::Text(text) => Ok(Value::String(lua.create_string(text)?)),
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
            (Key::Text(a), Key::Text(b)) => a.cmp(b),
            (Key::Boolean(a), Key::Boolean(b)) => a.cmp(b),
            _ => class(self).cmp(&class(other)),
        }
    }
}

/// The cost of looking at all keys, and what was found: `None` if one has no place in the order.
/// All are looked at then, too, so that the cost does not depend on where that key stands.
pub(super) struct Found<T> {
    pub(super) steps: u64,
    pub(super) found: Option<T>,
}

/// Hands each key to `take`.
fn look<T>(table: &Table, mut found: T, mut take: impl FnMut(&mut T, Key)) -> Result<Found<T>> {
    let (mut steps, mut has_order) = (0, true);
    for pair in table.pairs::<Value, Value>() {
        match Key::of(&pair?.0) {
            Some(key) => {
                steps += key.steps();
                take(&mut found, key);
            }
            None => {
                steps += KEY_STEPS;
                has_order = false;
            }
        }
    }
    Ok(Found { steps, found: has_order.then_some(found) })
}

/// All keys, sorted.
pub(super) fn sorted_keys(table: &Table) -> Result<Found<Vec<Key>>> {
    let mut keys = look(table, Vec::new(), Vec::push)?;
    keys.found.iter_mut().for_each(|keys| keys.sort());
    Ok(keys)
}

/// The first key after `last`, or the first key.
pub(super) fn next_key(table: &Table, last: &Value) -> Result<Found<Option<Key>>> {
    let last = match last {
        Value::Nil => None,
        last => match Key::of(last) {
            Some(last) => Some(last),
            None => return Ok(Found { steps: KEY_STEPS, found: None }),
        },
    };
    look(table, None, |best: &mut Option<Key>, key| {
        if last.as_ref().is_none_or(|last| key > *last)
            && best.as_ref().is_none_or(|least| key < *least)
        {
            *best = Some(key);
        }
    })
}
