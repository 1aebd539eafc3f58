//! The difference of two machines, in words, for tests and the simulator.
//!
//! - F1 two machines without a difference give equal snapshots. By the comparison of their digests,
//!   which comes first; what follows only looks for words.

use super::Saver;
use crate::machine::Machine;
use crate::store::{Db, EntryRef};
use std::collections::BTreeMap;

/// The most bytes of a value that are shown.
const SHOWN_BYTES: usize = 40;

/// The first part in which `one` and `other` differ. It reads both as a whole.
pub fn difference(one: &Machine, other: &Machine) -> Option<String> {
    if one.digest() == other.digest() {
        return None;
    }
    let of_entries = Db::all().find_map(|db| of_database(one, other, db));
    Some(of_entries.or_else(|| of_counters(one, other)).unwrap_or_else(|| of_rest(one, other)))
}

fn of_database(one: &Machine, other: &Machine, db: Db) -> Option<String> {
    let entries = |machine: &'_ Machine| -> BTreeMap<Vec<u8>, String> {
        let entries = machine.store().entries_of(db);
        entries.map(|entry| (entry.key.to_vec(), shown(&entry))).collect()
    };
    let (ours, theirs) = (entries(one), entries(other));
    let key = ours.keys().chain(theirs.keys()).find(|key| ours.get(*key) != theirs.get(*key))?;
    let say = |of: &BTreeMap<Vec<u8>, String>| of.get(key).map_or("absent", |text| text).to_owned();
    let name = String::from_utf8_lossy(key);
    Some(format!("key {name:?} of database {}: {} / {}", db.number(), say(&ours), say(&theirs)))
}

fn shown(entry: &EntryRef<'_>) -> String {
    let EntryRef { value, expire_at_ms, version, .. } = entry;
    let begin = String::from_utf8_lossy(&value[..value.len().min(SHOWN_BYTES)]);
    let sum = super::check_of(value, 0);
    format!(
        "{begin:?} ({} bytes, {sum:x}), expires {expire_at_ms:?}, version {version}",
        value.len()
    )
}

fn of_counters(one: &Machine, other: &Machine) -> Option<String> {
    let counters = |machine: &Machine| {
        let counters = machine.store().counters();
        (machine.prefix(), counters.now_ms, counters.changes)
    };
    let (ours, theirs) = (counters(one), counters(other));
    let names = "prefix, state time and count of changes";
    (ours != theirs).then(|| format!("{names}: {ours:?} / {theirs:?}"))
}

fn of_rest(one: &Machine, other: &Machine) -> String {
    let parts = |machine| Saver::around_entries(machine).into_iter().flatten();
    let differs = parts(one).zip(parts(other)).find(|(ours, theirs)| ours != theirs);
    match differs {
        Some(((kind, ours), (_, theirs))) => {
            let at = ours.iter().zip(&theirs).position(|(a, b)| a != b);
            let (n, m) = (ours.len(), theirs.len());
            format!("part {kind:?} of the snapshot, from byte {at:?} on, of {n} / {m} bytes")
        }
        None => "a part of the snapshot is there once".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{restore, save};

    #[test]
    fn f1_a_key_that_lost_its_expiry_is_named() {
        let mut machine = Machine::new(0);
        machine.store.put(b"lease", b"7", crate::store::Expiry::At(5_000));
        let mut bytes = Vec::new();
        save(&machine, &mut bytes);
        let mut other = restore(&bytes, 0).expect("a whole snapshot");
        assert_eq!(difference(&machine, &other), None);
        other.store.forget_expiries();
        other.store().check();
        let text = difference(&machine, &other).expect("one has an expiry");
        assert!(text.contains("lease") && text.contains("Some(5000)"), "{text}");
    }

    #[test]
    fn f1_what_is_no_key_is_named_too() {
        let (mut machine, other) = (Machine::new(0), Machine::new(0));
        machine.store.advance_time(9);
        let text = difference(&machine, &other).expect("their times differ");
        assert!(text.contains("state time"), "{text}");
    }
}
