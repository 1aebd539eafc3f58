//! The keys of a table in an order that all replicas share.
//!
//! Lua's own order depends on the table's history, and on addresses once a table or function was a
//! key of it. So keys are sorted: numbers, then strings, then booleans. A table with other keys
//! cannot be walked.

use mlua::{Error, Result, Table, Value};

use super::values::number;

/// The error for a table with a key that has an address.
pub(super) const NO_ORDER: &str =
    "a table with keys other than numbers, strings and booleans has no order that replicas share";

#[derive(Clone, Debug, PartialEq)]
enum Rank {
    Number(f64),
    Text(Vec<u8>),
    Boolean(bool),
}

impl Eq for Rank {}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Rank) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rank {
    fn cmp(&self, other: &Rank) -> std::cmp::Ordering {
        let class = |rank: &Rank| match rank {
            Rank::Number(_) => 0,
            Rank::Text(_) => 1,
            Rank::Boolean(_) => 2,
        };
        match (self, other) {
            (Rank::Number(a), Rank::Number(b)) => a.total_cmp(b),
            (Rank::Text(a), Rank::Text(b)) => a.cmp(b),
            (Rank::Boolean(a), Rank::Boolean(b)) => a.cmp(b),
            _ => class(self).cmp(&class(other)),
        }
    }
}

fn rank(key: &Value) -> Result<Rank> {
    match key {
        Value::String(text) => Ok(Rank::Text(text.as_bytes().to_vec())),
        Value::Boolean(value) => Ok(Rank::Boolean(*value)),
        // Zero has two signs and is one key.
        other => number(other)
            .map(|number| Rank::Number(number + 0.0))
            .ok_or_else(|| Error::RuntimeError(NO_ORDER.to_owned())),
    }
}

/// All keys, sorted.
pub(super) fn sorted_keys(table: &Table) -> Result<Vec<Value>> {
    let mut keys = Vec::new();
    for pair in table.pairs::<Value, Value>() {
        let (key, _) = pair?;
        keys.push((rank(&key)?, key));
    }
    keys.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(keys.into_iter().map(|(_, key)| key).collect())
}

/// The first key after `last`, or the first key; and the number of keys.
pub(super) fn next_key(table: &Table, last: &Value) -> Result<(Option<Value>, usize)> {
    let last = if last.is_nil() { None } else { Some(rank(last)?) };
    let mut best: Option<(Rank, Value)> = None;
    let mut n = 0;
    for pair in table.pairs::<Value, Value>() {
        let (key, _) = pair?;
        let rank = rank(&key)?;
        n += 1;
        if last.as_ref().is_none_or(|last| rank > *last)
            && best.as_ref().is_none_or(|(least, _)| rank < *least)
        {
            best = Some((rank, key));
        }
    }
    Ok((best.map(|(_, key)| key), n))
}
