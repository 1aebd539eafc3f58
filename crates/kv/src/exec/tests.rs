//! Tests of behaviour that the oracle cannot check: limits of our own, time, seeds, cursors.

use std::collections::BTreeSet;

use super::*;
use crate::command::resolve;

fn run(store: &mut Store, args: &[&[u8]]) -> String {
    run_seeded(store, 0, args)
}

fn run_seeded(store: &mut Store, seed: u64, args: &[&[u8]]) -> String {
    let mut reply = Reply::default();
    let spec = resolve(args, &mut reply).expect("a command");
    store.execute(Db::ZERO, spec, args, seed, &mut reply);
    String::from_utf8_lossy(reply.as_bytes()).into_owned()
}

fn line(store: &mut Store, line: &str) -> String {
    let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    run(store, &args)
}

#[test]
fn time_is_state_time() {
    let mut store = Store::new(0);
    store.advance_time(1_000_000);
    assert_eq!(line(&mut store, "SET k v PX 500"), "+OK\r\n");
    assert_eq!(line(&mut store, "PTTL k"), ":500\r\n");
    assert_eq!(line(&mut store, "PEXPIRETIME k"), ":1000500\r\n");
    store.advance_time(1_000_499);
    assert_eq!(line(&mut store, "PTTL k"), ":1\r\n");
    assert_eq!(line(&mut store, "EXISTS k"), ":1\r\n");
    store.advance_time(1_000_500);
    assert_eq!(line(&mut store, "PTTL k"), ":-2\r\n");
    assert_eq!(line(&mut store, "GET k"), "$-1\r\n");
    assert_eq!(line(&mut store, "DBSIZE"), ":0\r\n");
    assert_eq!(line(&mut store, "SET k v KEEPTTL"), "+OK\r\n");
    assert_eq!(line(&mut store, "TTL k"), ":-1\r\n");
    // To the nearest second, as Redis rounds.
    line(&mut store, "PEXPIRE k 1499");
    assert_eq!(line(&mut store, "TTL k"), ":1\r\n");
    line(&mut store, "PEXPIRE k 1500");
    assert_eq!(line(&mut store, "TTL k"), ":2\r\n");
}

#[test]
fn i2_our_limits_are_errors_that_change_nothing() {
    let mut store = Store::new(0);
    let long_key = vec![b'k'; KEY_BYTES_MAX + 1];
    let long_value = vec![b'v'; VALUE_BYTES_MAX + 1];
    let (key, value) = (&long_key[..KEY_BYTES_MAX], &long_value[..VALUE_BYTES_MAX]);
    let key_error = "-ERR key is longer than 16384 bytes (gregale's limit)\r\n";
    let value_error =
        "-ERR string exceeds maximum allowed size (gregale's limit: 524288 bytes)\r\n";
    assert_eq!(run(&mut store, &[b"SET", &long_key, b"v"]), key_error);
    assert_eq!(run(&mut store, &[b"GET", &long_key]), key_error);
    assert_eq!(run(&mut store, &[b"MSET", b"a", b"b", &long_key, b"v"]), key_error);
    assert_eq!(run(&mut store, &[b"RENAME", b"a", &long_key]), key_error);
    assert_eq!(run(&mut store, &[b"SET", b"k", &long_value]), value_error);
    assert_eq!(run(&mut store, &[b"MSET", b"a", b"b", b"k", &long_value]), value_error);
    assert!(store.is_empty(), "I2");
    assert_eq!(run(&mut store, &[b"SET", key, value]), "+OK\r\n");
    assert_eq!(run(&mut store, &[b"APPEND", key, b"x"]), value_error);
    assert_eq!(run(&mut store, &[b"SETRANGE", key, b"524288", b"x"]), value_error);
    assert_eq!(run(&mut store, &[b"SETRANGE", b"new", b"9223372036854775807", b"x"]), value_error);
    assert_eq!(run(&mut store, &[b"SETRANGE", key, b"524287", b"x"]), ":524288\r\n");
    assert_eq!(store.len(), 1, "I2");
    let too_many = vec![&b"DEL"[..]; ARGS_MAX + 1];
    assert!(run(&mut store, &too_many).starts_with("-ERR more than 65536 arguments"));
}

#[test]
fn lcs_of_long_values_is_refused() {
    let mut store = Store::new(0);
    let side = LCS_CELLS_MAX.isqrt();
    run(&mut store, &[b"SET", b"fits", &vec![b'a'; side - 1]]);
    run(&mut store, &[b"SET", b"long", &vec![b'a'; side]]);
    assert_eq!(line(&mut store, "LCS fits fits LEN"), format!(":{}\r\n", side - 1));
    assert!(line(&mut store, "LCS long long LEN").starts_with("-ERR LCS of values of 2048"));
}

/// Each member executed it, and ended, again whenever it started on its log.
#[test]
fn an_exponent_that_no_number_has_is_refused() {
    let mut store = Store::new(0);
    let refused = "-ERR value is not a valid float\r\n";
    for text in ["0x.1p-9999999999999999999", "0.1e-9999999999999999999"] {
        assert_eq!(line(&mut store, &format!("INCRBYFLOAT k {text}")), refused);
        assert_eq!(line(&mut store, &format!("SET k {text}")), "+OK\r\n");
        assert_eq!(line(&mut store, "INCRBYFLOAT k 1"), refused);
    }
}

#[test]
fn randomkey_is_a_function_of_the_seed_and_reaches_every_key() {
    let mut store = Store::new(0);
    assert_eq!(line(&mut store, "RANDOMKEY"), "$-1\r\n");
    for number in 0..40 {
        line(&mut store, &format!("SET {number} v"));
    }
    let picks: Vec<String> =
        (0..2_000).map(|seed| run_seeded(&mut store, seed, &[b"RANDOMKEY"])).collect();
    assert_eq!(picks.iter().collect::<BTreeSet<_>>().len(), 40);
    // The choice is not uniform, but no key is picked more than a few times as often as it should
    // be.
    for key in &picks {
        assert!(picks.iter().filter(|pick| *pick == key).count() < 250, "{key}");
    }
    let again: Vec<String> =
        (0..2_000).map(|seed| run_seeded(&mut store, seed, &[b"RANDOMKEY"])).collect();
    assert_eq!(picks, again);
    // With one live key, every seed finds it, wherever the walk begins.
    let mut store = Store::new(0);
    line(&mut store, "SET only v");
    for seed in 0..50 {
        assert_eq!(run_seeded(&mut store, seed, &[b"RANDOMKEY"]), "$4\r\nonly\r\n");
    }
}

/// One step of a scan: the keys, and the next cursor.
fn scan(store: &mut Store, cursor: &str, count: usize) -> (String, Vec<String>) {
    let reply = line(store, &format!("SCAN {cursor} COUNT {count}"));
    let lines: Vec<&str> = reply.split("\r\n").collect();
    assert_eq!(lines[0], "*2");
    let keys = lines[4..].iter().skip(1).step_by(2).map(|key| (*key).to_owned()).collect();
    (lines[2].to_owned(), keys)
}

#[test]
fn a_key_that_is_there_all_the_time_is_scanned_whatever_happens_around_it() {
    let mut store = Store::new(0);
    for number in 0..300 {
        line(&mut store, &format!("SET stays:{number} v"));
        line(&mut store, &format!("SET goes:{number} v"));
    }
    let (mut cursor, mut found, mut steps) = ("0".to_owned(), Vec::new(), 0);
    loop {
        let (next, keys) = scan(&mut store, &cursor, 7);
        assert!(keys.len() == 7 || next == "0", "COUNT is exact but for the last");
        found.extend(keys);
        // The table grows and shrinks meanwhile, and the scan continues at another replica.
        for number in steps * 5..steps * 5 + 5 {
            line(&mut store, &format!("DEL goes:{number}"));
            line(&mut store, &format!("MSET new:{number} v newer:{number} v newest:{number} v"));
        }
        let mut other = Store::restore(0, store.counters()).unwrap();
        store.entries().for_each(|entry| other.restore_entry(entry).unwrap());
        store = other;
        steps += 1;
        if next == "0" {
            break;
        }
        assert!(next.parse::<u64>().unwrap() < 1 << 48, "clients keep cursors in doubles");
        cursor = next;
    }
    let set: BTreeSet<&String> = found.iter().collect();
    assert_eq!(set.len(), found.len(), "and never twice, since positions do not move");
    assert!((0..300).all(|number| set.contains(&format!("stays:{number}"))));
    assert_eq!(scan(&mut store, &(1u64 << 48).to_string(), 10), ("0".into(), vec![]));
    assert_eq!(scan(&mut store, &u64::MAX.to_string(), 10), ("0".into(), vec![]));
}

#[test]
#[should_panic(expected = "set is not a read of the store")]
fn a_write_is_no_query() {
    let spec = crate::command::lookup(b"set").unwrap();
    Store::new(0).query(Db::ZERO, spec, &[b"SET", b"k", b"v"], 0, &mut Reply::default());
}
