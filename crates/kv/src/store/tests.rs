//! Tests of the store, by its invariants.

use super::*;
use base::Rng;

fn store() -> Store {
    let mut store = Store::new(0);
    store.advance_time(1_000);
    store
}

#[test]
fn i1_what_is_due_is_invisible_before_it_is_removed() {
    let mut store = store();
    let many = 3 * EXPIRY_BATCH_MAX;
    for number in 0..many {
        store.put(number.to_string().as_bytes(), b"v", Expiry::At(2_000));
    }
    assert!(store.would_expire(b"7", 2_000));
    assert!(!store.would_expire(b"7", 1_999));
    assert!(!store.would_expire(b"absent", 2_000));
    assert!(store.any_would_expire(Db::ZERO, 2_000));
    assert!(!store.any_would_expire(Db::ZERO, 1_999));
    store.advance_time(2_000);
    assert_eq!(store.len(), many - EXPIRY_BATCH_MAX, "one batch is removed");
    for number in 0..many {
        assert!(store.live(number.to_string().as_bytes()).is_none());
    }
    assert_eq!(store.walk_live(Db::ZERO, 0).count(), 0);
    assert!(!store.would_expire(b"7", 3_000), "it is gone already");
    assert!(!store.any_would_expire(Db::ZERO, 3_000));
    store.check();
    // State time advances, but never by stamps that are not later.
    store.advance_time(1_500);
    assert_eq!(store.now_ms(), 2_000);
    store.advance_time(2_001);
    assert!(store.is_empty());
    assert_eq!((store.used_bytes(), store.expiring()), (0, 0));
}

#[test]
fn i1_writers_find_no_due_key() {
    let mut store = store();
    // More keys have expired than one batch removes, so that some stay.
    let keys: Vec<Vec<u8>> =
        (0..4 * EXPIRY_BATCH_MAX).map(|n| n.to_string().into_bytes()).collect();
    for key in &keys {
        store.put(key, b"old", Expiry::At(2_000));
    }
    store.advance_time(2_000);
    let due: Vec<&Vec<u8>> = keys
        .iter()
        .filter(|key| store.databases[0].table.find(position_of(key), key).is_some())
        .collect();
    assert!(due.len() >= 3);
    assert!(store.remove(due[0]).is_none());
    store.change(due[1], |value| value.extend_from_slice(b"new"));
    assert_eq!(store.value(due[1]), Some(&b"new"[..]));
    store.put(due[2], b"new", Expiry::Keep);
    let entry = store.live(due[2]).unwrap();
    assert_eq!(entry.expire_at, NEVER, "the expiry of what is gone is not kept");
    store.check();
}

#[test]
fn i2_versions_change() {
    let mut store = store();
    let key = b"k";
    let mut seen = vec![store.version(key)];
    let mut changed = |store: &Store, what: &str| {
        let version = store.version(key);
        assert!(!seen.contains(&version), "I2: {what}");
        seen.push(version);
    };
    store.put(key, b"v", Expiry::Clear);
    changed(&store, "created");
    store.put(key, b"v", Expiry::Clear);
    changed(&store, "written again");
    store.change(key, |value| value.push(b'x'));
    changed(&store, "changed in place");
    store.set_expiry(key, 5_000);
    changed(&store, "expiry set");
    store.set_expiry(key, NEVER);
    changed(&store, "expiry cleared");
    store.remove(key);
    changed(&store, "deleted");
    store.put(key, b"v", Expiry::Clear);
    store.remove(key);
    changed(&store, "created and deleted: absent as before, yet not untouched");
    store.put(key, b"v", Expiry::At(2_000));
    changed(&store, "created anew");
    store.advance_time(2_000);
    changed(&store, "expired");
    store.put(key, b"v", Expiry::Clear);
    changed(&store, "created after expiry");
    store.put(key, b"v", Expiry::At(1));
    changed(&store, "deleted by an expiry in the past");
    store.put(key, b"v", Expiry::Clear);
    changed(&store, "created once more");
    store.clear();
    changed(&store, "cleared");
    store.put(key, b"v", Expiry::Clear);
    store.clear_database(Db::ZERO);
    changed(&store, "created, and its database cleared: absent as before, yet not untouched");
}

#[test]
fn i2_a_due_key_that_waits_for_its_removal_has_another_version() {
    let mut store = store();
    for number in 0..2 * EXPIRY_BATCH_MAX {
        store.put(number.to_string().as_bytes(), b"v", Expiry::At(2_000));
    }
    let versions: Vec<u64> = (0..2 * EXPIRY_BATCH_MAX)
        .map(|number| store.version(number.to_string().as_bytes()))
        .collect();
    store.advance_time(2_000);
    for (number, before) in versions.into_iter().enumerate() {
        assert_ne!(store.version(number.to_string().as_bytes()), before, "I2");
    }
}

#[test]
fn i2_what_is_not_touched_keeps_its_version() {
    let mut store = store();
    store.put(b"a", b"1", Expiry::Clear);
    let (present, absent) = (store.version(b"a"), store.version(b"nobody"));
    store.put(b"b", b"1", Expiry::Clear);
    store.change(b"b", |value| value.push(b'2'));
    assert_ne!(
        deletion_bucket(Db::ZERO, position_of(b"b")),
        deletion_bucket(Db::ZERO, position_of(b"nobody"))
    );
    store.remove(b"b");
    assert_eq!((store.version(b"a"), store.version(b"nobody")), (present, absent));
    // Nothing was deleted, so no watcher is disturbed.
    store.remove(b"nobody");
    Store::clear(&mut Store::new(0));
    assert_eq!(store.version(b"nobody"), absent);
}

/// One step of a random history.
fn step(store: &mut Store, rng: &mut Rng) {
    let key = rng.below(200).to_string().into_bytes();
    let key = of(if rng.chance(1, 4) { 3 } else { 0 }, &key);
    let value = vec![b'v'; rng.below(40) as usize];
    let expiry = match rng.below(3) {
        0 => Expiry::Clear,
        1 => Expiry::Keep,
        _ => Expiry::At(store.now_ms() + rng.below(50)),
    };
    match rng.below(20) {
        0..10 => store.put(key, &value, expiry),
        10..13 => drop(store.remove(key)),
        13..15 => store.change(key, |old| old.extend_from_slice(&value)),
        15..17 if store.live(key).is_some() => {
            let never = rng.chance(1, 2);
            let at = store.now_ms() + rng.below(30);
            store.set_expiry(key, if never { NEVER } else { at });
        }
        17 if rng.chance(1, 50) => store.clear(),
        17 if rng.chance(1, 20) => store.clear_database(key.db),
        17 if rng.chance(1, 10) => store.swap_databases(key.db, of(5, b"").db),
        _ => store.advance_time(store.now_ms() + rng.below(10)),
    }
}

/// A key with its value, expiry and version.
type Owned = (Vec<u8>, Vec<u8>, Option<u64>, u64, Db);

fn content(store: &Store) -> Vec<Owned> {
    let owned =
        |e: EntryRef<'_>| (e.key.to_vec(), e.value.to_vec(), e.expire_at_ms, e.version, e.db);
    store.entries().map(owned).collect()
}

#[test]
fn i3_the_index_and_the_bytes_agree_with_the_entries() {
    for seed in 0..10 {
        let (mut store, mut rng) = (store(), Rng::new(seed));
        for count in 0..3_000 {
            step(&mut store, &mut rng);
            if count % 100 == 0 {
                store.check();
            }
        }
        store.check();
        for (key, .., db) in content(&store) {
            store.remove(DbKey { db, key: &key });
        }
        assert_eq!((store.used_bytes(), store.expiring()), (0, 0), "I3");
    }
}

#[test]
fn a_restored_store_goes_on_as_the_original_would() {
    for seed in 0..10 {
        let (mut store, mut rng) = (store(), Rng::new(seed));
        (0..2_000).for_each(|_| step(&mut store, &mut rng));
        let mut twin = Store::restore(0, store.counters()).unwrap();
        // The state travels in two parts, as in a snapshot.
        let half: Vec<_> = store.entries().take(store.len() / 2).collect();
        half.iter().for_each(|entry| twin.restore_entry(*entry).unwrap());
        let rest = match half.last() {
            Some(last) => {
                let after = store.entries_after(DbKey { db: last.db, key: last.key });
                let others = store.entries().filter(|entry| entry.db > last.db);
                after.chain(others).collect::<Vec<_>>()
            }
            None => store.entries().collect(),
        };
        rest.iter().for_each(|entry| twin.restore_entry(*entry).unwrap());
        let mut rng_twin = rng.clone();
        for _ in 0..1_000 {
            step(&mut store, &mut rng);
            step(&mut twin, &mut rng_twin);
        }
        assert_eq!(content(&store), content(&twin));
        assert_eq!(store.counters().deletions, twin.counters().deletions);
        assert_eq!(store.counters().changes, twin.counters().changes);
        assert_eq!(store.used_bytes(), twin.used_bytes());
        twin.check();
    }
}

#[test]
fn what_cannot_be_a_store_is_not_restored() {
    let mut source = store();
    source.put(b"k", b"v", Expiry::Clear);
    let counters = source.counters();
    let short = Counters { deletions: &counters.deletions[1..], ..counters };
    let found = DELETION_BUCKETS - 1;
    assert_eq!(Store::restore(0, short).unwrap_err(), RestoreError::Deletions { found });
    let mut store = Store::restore(0, counters).unwrap();
    let entry = source.entries().next().unwrap();
    store.restore_entry(entry).unwrap();
    assert_eq!(store.restore_entry(entry), Err(RestoreError::Duplicate));
    let newer = EntryRef { key: b"l", version: entry.version + 1, ..entry };
    assert_eq!(store.restore_entry(newer), Err(RestoreError::Impossible));
    let long = vec![0; KEY_BYTES_MAX + 1];
    let (key, value) = (long.len(), 1);
    let long = EntryRef { key: &long, ..entry };
    assert_eq!(store.restore_entry(long), Err(RestoreError::TooLong { key, value }));
    assert_eq!(store.len(), 1);
    store.check();
}

/// Adds a key at a position of the test's choice, since no keys are known that collide in 64 bits.
fn add_at(store: &mut Store, position: u64, key: &str, expire_at: u64) {
    store.changes += 1;
    let (key, version) = (Key::from_slice(key.as_bytes()), store.changes);
    store.add(Db::ZERO, Entry { position, key, value: vec![], expire_at, version });
}

#[test]
fn i3_keys_of_one_position_expire_one_by_one_and_together() {
    let mut store = store();
    for (key, expire_at) in [("a", 2_000), ("b", 2_000), ("c", 3_000), ("d", NEVER)] {
        add_at(&mut store, 7, key, expire_at);
    }
    store.check();
    // One of two entries that share an element of the index is deleted before its time.
    store.discard(7, b"a".into());
    store.check();
    add_at(&mut store, 7, "e", 2_000);
    store.advance_time(2_000);
    store.check();
    let left = |store: &Store| content(store).into_iter().map(|(key, ..)| key).collect::<Vec<_>>();
    assert_eq!(left(&store), [b"c", b"d"]);
    store.advance_time(3_000);
    store.check();
    assert_eq!(left(&store), [b"d"]);
}

#[test]
fn keys_that_a_cursor_cannot_tell_apart_are_scanned_together() {
    let mut store = store();
    for number in 0..5u64 {
        add_at(&mut store, (1 << 40) + number, &number.to_string(), NEVER);
    }
    add_at(&mut store, 1 << 50, "last", NEVER);
    let args: [&[u8]; 4] = [b"SCAN", b"0", b"COUNT", b"2"];
    let mut reply = crate::Reply::default();
    store.execute(Db::ZERO, crate::lookup(b"SCAN").unwrap(), &args, 0, &mut reply);
    let next = ((1u64 << 50) >> 16).to_string();
    let mut expected = format!("*2\r\n${}\r\n{next}\r\n*5\r\n", next.len());
    (0..5).for_each(|number| expected += &format!("$1\r\n{number}\r\n"));
    assert_eq!(String::from_utf8_lossy(reply.as_bytes()), expected);
}

fn of(db: i64, key: &[u8]) -> DbKey<'_> {
    DbKey { db: Db::new(db).unwrap(), key }
}

#[test]
fn i5_databases_are_apart() {
    let mut store = store();
    let [one, two] = [1, 2].map(|db| Db::new(db).unwrap());
    store.put(of(1, b"k"), b"1", Expiry::At(2_000));
    store.put(of(2, b"k"), b"2", Expiry::Clear);
    assert!(store.live(of(0, b"k")).is_none() && store.len_of(Db::ZERO) == 0);
    let (first, second) = (store.version(of(1, b"k")), store.version(of(2, b"k")));
    store.change(of(2, b"k"), |value| value.push(b'x'));
    assert_eq!(store.version(of(1, b"k")), first);
    assert_ne!(store.version(of(2, b"k")), second);
    assert!(store.any_would_expire(one, 3_000) && !store.any_would_expire(two, 3_000));
    assert_eq!(store.next_expiry_ms(), Some(2_000));
    // Watchers see that another key has taken the place of theirs, and nothing where no key is.
    let watched = [0, 1, 2].map(|db| store.version(of(db, b"k")));
    let absent = [1, 2].map(|db| store.version(of(db, b"absent")));
    store.swap_databases(one, two);
    store.check();
    assert_eq!(store.value(of(1, b"k")), Some(&b"2x"[..]));
    assert_eq!(store.version(of(0, b"k")), watched[0]);
    for db in [1, 2] {
        assert_ne!(watched[db as usize], store.version(of(db, b"k")), "I2");
    }
    assert_eq!([1, 2].map(|db| store.version(of(db, b"absent"))), absent);
    store.advance_time(2_000);
    assert_eq!((store.len_of(one), store.len_of(two)), (1, 0), "each expires in its own");
    store.put(of(2, b"l"), b"", Expiry::Clear);
    store.clear_database(one);
    assert_eq!((store.len_of(one), store.len_of(two), store.len()), (0, 1, 1));
    store.check();
    store.clear_database(two);
    assert_eq!(store.used_bytes(), 0);
    store.check();
}
