//! Tests of behaviour that the oracle cannot check: limits of our own, time, seeds, cursors.

use std::collections::BTreeSet;

use super::*;
use crate::command::resolve;
use crate::reply::STEPS_MAX;
use crate::store::EXPIRY_BATCH_MAX;

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

/// How many of a thousand executions of a command are answered by no error, if a transaction has so
/// many steps left; the others must say that the steps are spent.
fn n_answered(store: &mut Store, steps_left: usize, words: &[&[u8]]) -> usize {
    let mut reply = Reply::default();
    assert!(reply.take_steps(STEPS_MAX - steps_left));
    let mut n = 0;
    for _ in 0..1000 {
        reply.clear();
        let spec = resolve(words, &mut reply).expect("a command");
        store.execute(Db::ZERO, spec, words, 0, &mut reply);
        if reply.as_bytes().starts_with(b"-") {
            assert_eq!(reply.as_bytes(), format!("-{}\r\n", steps::SPENT).as_bytes());
            return n;
        }
        n += 1;
    }
    n
}

#[test]
fn what_commands_look_at_and_copy_takes_steps() {
    const LONG: usize = 256 << 10;
    let mut store = Store::new(0);
    let value = vec![0; LONG];
    run(&mut store, &[b"SET", b"k", &value]);
    run(&mut store, &[b"SET", b"number", &[b'1'; 4900]]);
    let mut check = |line: &str, price: usize| {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        assert_eq!(n_answered(&mut store, 5 * price - 1, &words), 5, "{line}");
    };
    check("BITCOUNT k", LONG / 8);
    check("BITCOUNT k 0 65535", LONG / 32);
    check("BITPOS k 1", LONG / 8);
    check("DUMP k", LONG / 2);
    check("COPY k other REPLACE", LONG / 16);
    check("INCRBYFLOAT number 1", 4901 * 4901 / 256 + 4900 * 4900 / 256);
    check("SCRIPT LOAD return(1)", steps::SCRIPT_STEPS + 9 * 4);
}

#[test]
fn a_script_pays_for_its_interpreter() {
    let mut store = Store::new(0);
    let mut reply = Reply::default();
    let words: [&[u8]; 3] = [b"EVAL", b"return(1)", b"0"];
    let spec = resolve(&words, &mut reply).expect("a command");
    for _ in 0..1000 {
        // A thousand of them are an ordinary transaction.
        store.execute(Db::ZERO, spec, &words, 0, &mut reply);
        if reply.steps_left() < STEPS_MAX / 2 {
            break;
        }
    }
    let n = reply.as_bytes().len() / b":1\r\n".len();
    assert!((500..STEPS_MAX / 2 / steps::SCRIPT_STEPS).contains(&n), "{n}");
    assert!(reply.take_steps(reply.steps_left()));
    reply.clear();
    store.execute(Db::ZERO, spec, &words, 0, &mut reply);
    assert_eq!(reply.as_bytes(), format!("-{}\r\n", steps::SPENT).as_bytes());
}

/// Each call had a budget of its own and was charged afterwards, so that a script could take twice
/// its steps.
#[test]
fn a_call_of_a_script_has_what_the_script_has_left() {
    let mut store = Store::new(0);
    run(&mut store, &[b"MSET", b"a", &[b'x'; 2000], b"b", &[b'y'; 2000]]);
    let mut answer = |left: usize| {
        let mut reply = Reply::default();
        assert!(reply.take_steps(STEPS_MAX - left));
        let text = "local it = redis.pcall('LCS', 'a', 'b', 'LEN')
                    return type(it) == 'table' and it.err or it";
        let words: [&[u8]; 3] = [b"EVAL", text.as_bytes(), b"0"];
        let spec = resolve(&words, &mut reply).expect("a command");
        store.execute(Db::ZERO, spec, &words, 0, &mut reply);
        String::from_utf8_lossy(reply.as_bytes()).into_owned()
    };
    assert_eq!(answer(6 << 20), ":0\r\n");
    let refused = answer(2 << 20);
    assert!(refused.contains("ERR LCS and those before it"), "it is not made: {refused}");
}

#[test]
fn zeros_that_fill_a_value_up_take_steps() {
    let mut store = Store::new(0);
    for line in ["SETRANGE k 262143 x", "SETBIT k 2097144 1", "BITFIELD k SET u8 #262143 1"] {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let price = (256 << 10) / 16;
        store.remove(b"k");
        assert_eq!(n_answered(&mut store, 1, &words), 1000, "{line}: it grows once");
        for (left, n) in [(price, 0), (price + 1, 1)] {
            let mut reply = Reply::default();
            assert!(reply.take_steps(STEPS_MAX - left));
            let mut grows = |reply: &mut Reply| {
                store.remove(b"k");
                let spec = resolve(&words, reply).expect("a command");
                store.execute(Db::ZERO, spec, &words, 0, reply);
            };
            grows(&mut reply);
            reply.clear();
            grows(&mut reply);
            assert_eq!(usize::from(!reply.as_bytes().starts_with(b"-")), n, "{line}");
            assert_eq!(store.live(b"k").is_some(), n == 1, "I2");
        }
    }
}

#[test]
fn a_move_pays_for_the_copy_of_its_value() {
    let mut store = Store::new(0);
    let value = vec![0; 256 << 10];
    for line in ["RENAME k j", "RENAMENX k j", "MOVE k 1"] {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut reply = Reply::default();
        assert!(reply.take_steps(STEPS_MAX - (256 << 10) / 16));
        for is_first in [true, false] {
            store.clear();
            run(&mut store, &[b"SET", b"k", &value]);
            reply.clear();
            let spec = resolve(&words, &mut reply).expect("a command");
            store.execute(Db::ZERO, spec, &words, 0, &mut reply);
            assert_eq!(reply.as_bytes().starts_with(b"-"), !is_first, "{line}");
            assert_eq!(store.live(b"k").is_none(), is_first, "I2");
        }
    }
}

/// One KEYS took 16 ms for each of a thousand long keys, at every member.
#[test]
fn comparisons_of_long_keys_take_steps_and_end_with_them() {
    let mut store = Store::new(0);
    let pattern = format!("*{}b", "a".repeat(1000));
    for at in 0..200 {
        let key = format!("{at:03}{}", "a".repeat(4000));
        run(&mut store, &[b"SET", key.as_bytes(), b"v"]);
    }
    let spent = format!("-{}\r\n", steps::SPENT);
    assert_eq!(line(&mut store, &format!("KEYS {pattern}")), spent, "600 M comparisons");
    assert_eq!(line(&mut store, &format!("SCAN 0 COUNT 200 MATCH {pattern}")), spent);
    assert!(line(&mut store, &format!("SCAN 0 COUNT 10 MATCH {pattern}")).starts_with("*2"));
    assert_eq!(line(&mut store, "KEYS 0*b"), "*0\r\n");
    // Short keys are paid for by their visit.
    let mut store = Store::new(0);
    for at in 0..100 {
        line(&mut store, &format!("SET some:key:of:an:ordinary:length:{at} v"));
    }
    let words: [&[u8]; 2] = [b"KEYS", b"*length*9"];
    assert_eq!(n_answered(&mut store, 10 * 400, &words), 10);
}

/// One key that was live behind a million that had expired made each SCAN walk all of them, and pay
/// for one.
#[test]
fn keys_that_have_expired_are_paid_for_as_others_are() {
    let mut store = Store::new(0);
    for at in 0..3000 {
        line(&mut store, &format!("SET k{at} v PXAT 10"));
    }
    line(&mut store, "SET live v");
    store.advance_time(10);
    assert_eq!(store.len(), 3001 - EXPIRY_BATCH_MAX);
    let (mut cursor, mut found, mut n) = ("0".to_owned(), 0, 0);
    while n == 0 || cursor != "0" {
        let answer = line(&mut store, &format!("SCAN {cursor} COUNT 100"));
        found += usize::from(answer.contains("live"));
        cursor = answer.split("\r\n").nth(2).expect("a cursor").to_owned();
        n += 1;
    }
    assert_eq!((found, n), (1, 30), "a SCAN visits as many keys as it is told");
    let scan: [&[u8]; 4] = [b"SCAN", b"0", b"COUNT", b"100"];
    assert_eq!(n_answered(&mut store, 5 * 400, &scan), 5);
    // It ends at its next cursor with the steps.
    let all: [&[u8]; 4] = [b"SCAN", b"0", b"COUNT", b"10000"];
    let mut reply = Reply::default();
    assert!(reply.take_steps(STEPS_MAX - 100 * 4));
    let spec = resolve(&all, &mut reply).expect("a command");
    store.execute(Db::ZERO, spec, &all, 0, &mut reply);
    assert!(!reply.as_bytes().starts_with(b"*2\r\n$1\r\n0\r\n"), "{:?}", reply.as_bytes());
    assert_eq!(reply.steps_left(), 0);
    // The only live key is found, and the walk to it is paid for.
    let mut price = |seed: u64| {
        let mut reply = Reply::default();
        let spec = resolve(&[b"RANDOMKEY"], &mut reply).expect("a command");
        store.execute(Db::ZERO, spec, &[b"RANDOMKEY"], seed, &mut reply);
        assert_eq!(reply.as_bytes(), b"$4\r\nlive\r\n");
        STEPS_MAX - reply.steps_left()
    };
    let (most, of_first) = ((0..32).map(&mut price).max(), price(0));
    assert_eq!(most, Some(4 * store.len()), "each key is visited once at most");
    assert_eq!(n_answered(&mut store, 5 * of_first - 1, &[b"RANDOMKEY"]), 5);
}
