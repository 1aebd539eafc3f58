//! Which operations must be judged together.
//!
//! Linearizability is local: a history is linearizable if its part on each object is (Herlihy and
//! Wing, 1990, theorem 1). An object here is a set of keys that transactions tie together, and a
//! single key where none does. Parts come smallest first, so that one hard part does not use the
//! budget that the easy ones need.

use crate::{Action, End, History, Op};
use std::collections::BTreeMap;

/// One object and its operations.
pub(crate) struct Part {
    /// The keys, in order.
    pub(crate) keys: Vec<Vec<u8>>,
    /// Indices into the history, ascending. Operations without any effect on the verdict are left
    /// out: failed ones, and unknown ones that only read.
    pub(crate) ops: Vec<usize>,
}

pub(crate) fn matters(op: &Op) -> bool {
    match op.end {
        End::Answered { .. } => true,
        End::Failed { .. } => false,
        End::Unknown => op.commands.iter().any(|command| command.action != Action::Get),
    }
}

pub(crate) fn split(history: &History) -> Vec<Part> {
    let mut ids: BTreeMap<&[u8], usize> = BTreeMap::new();
    let mut parent: Vec<usize> = Vec::new();
    let relevant = || history.ops.iter().enumerate().filter(|(_, op)| matters(op));
    for (_, op) in relevant() {
        let mut first = None;
        for command in &op.commands {
            let id = *ids.entry(&command.key).or_insert_with(|| {
                parent.push(parent.len());
                parent.len() - 1
            });
            let root = root(&mut parent, id);
            let first = *first.get_or_insert(root);
            let joined = self::root(&mut parent, first);
            parent[root] = joined;
        }
    }
    let mut parts: BTreeMap<usize, Part> = BTreeMap::new();
    for (key, id) in &ids {
        let root = root(&mut parent, *id);
        let part = parts.entry(root).or_insert_with(|| Part { keys: vec![], ops: vec![] });
        part.keys.push(key.to_vec());
    }
    for (n, op) in relevant() {
        let Some(command) = op.commands.first() else { continue };
        let root = root(&mut parent, ids[command.key.as_slice()]);
        if let Some(part) = parts.get_mut(&root) {
            part.ops.push(n);
        }
    }
    let mut parts: Vec<Part> = parts.into_values().collect();
    parts.sort_by(|a, b| (a.ops.len(), &a.keys).cmp(&(b.ops.len(), &b.keys)));
    parts
}

fn root(parent: &mut [usize], mut id: usize) -> usize {
    while parent[id] != id {
        parent[id] = parent[parent[id]];
        id = parent[id];
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Command, Reply};

    #[test]
    fn a_transaction_ties_its_keys_together() {
        let get = |key: &str| Command::new(key, Action::Get);
        let mut ops: Vec<Op> = ["a", "b", "c", "d"]
            .iter()
            .map(|key| Op::answered(1, 0, 1, get(key), Reply::Value(None)))
            .collect();
        let replies = vec![Reply::Value(None), Reply::Value(None)];
        let end = End::Answered { at_ns: 9, replies };
        ops.push(Op { client: 2, invoke_ns: 3, commands: vec![get("d"), get("b")], end });
        ops.push(Op::unknown(3, 0, get("e")));
        let parts = split(&ops.into_iter().collect());
        let seen: Vec<(usize, Vec<u8>)> =
            parts.iter().map(|part| (part.ops.len(), part.keys.concat())).collect();
        assert_eq!(seen, [(1, b"a".to_vec()), (1, b"c".to_vec()), (3, b"bd".to_vec())]);
    }
}
