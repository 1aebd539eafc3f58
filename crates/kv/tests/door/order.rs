//! C1 and C2: whatever the owner's pace, a client gets the replies that it would have got at once.

use base::{Instant, Rng, Slot};
use kv::connection::{Config, Connection, Request, RequestId};
use kv::text;
use proptest::prelude::*;

use crate::driver::{Driver, drain, encode};

/// A pipeline of what clients send.
fn pipeline(seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let mut input = Vec::new();
    for _ in 0..rng.below(60) {
        let key = format!("k{}", rng.below(3)).into_bytes();
        let key = &key[..];
        let number = rng.below(5).to_string().into_bytes();
        let number = &number[..];
        let request: Vec<&[u8]> = match rng.below(25) {
            0..=2 => vec![b"INCR", key],
            3..=5 => vec![b"GET", key],
            6 => vec![b"PING"],
            7 => vec![b"MULTI"],
            8 => vec![b"EXEC"],
            9 => vec![b"WATCH", key],
            10 => vec![b"nosuch"],
            11 => vec![b"DEL", key],
            12 => vec![b"HELLO", if rng.chance(1, 2) { b"2" } else { b"3" }],
            13 => vec![b"CLIENT", b"REPLY", if rng.chance(1, 2) { b"SKIP" } else { b"ON" }],
            14 => vec![b"WAIT", b"0", b"1"],
            15 => vec![b"MGET", b"k0", b"k1", b"k2"],
            16 => vec![b"GREGALE.SESSION"],
            17 => vec![b"GREGALE.CALL", number, b"INCR", key],
            18 => vec![b"GREGALE.CALL", number, b"GET", key],
            19 => vec![b"GREGALE.CALL", number, b"EXEC"],
            20 => vec![b"GREGALE.ACK", number],
            21..=23 => vec![b"SELECT", number],
            _ => vec![b"UNWATCH"],
        };
        input.extend_from_slice(&encode(&request));
    }
    input
}

proptest! {
    #[test]
    fn c1_replies_leave_in_order_at_any_pace(seed: u64, pace: u64) {
        let input = pipeline(seed);
        let mut at_once = Driver::new(Config::default());
        let mut connection = at_once.connect();
        let expected = at_once.feed(&mut connection, &input);
        let mut late = Driver::new(Config::default());
        let mut connection = late.connect();
        let found = late.feed_late(&mut connection, &input, &mut Rng::new(pace));
        prop_assert_eq!(
            String::from_utf8_lossy(&found),
            String::from_utf8_lossy(&expected)
        );
        prop_assert!(!connection.is_busy());
        // (The reads that went through the log, and so the members' sessions, depend on the pace.)
        let keys = b"MGET k0 k1 k2\r\n";
        let (mut one, mut other) = (late.connect(), at_once.connect());
        prop_assert_eq!(late.feed(&mut one, keys), at_once.feed(&mut other, keys));
    }
}

fn connection() -> Connection {
    Driver::new(Config::default()).connect()
}

fn write(connection: &mut Connection) -> Option<RequestId> {
    match connection.next_request()? {
        Request::Write { id, .. } => Some(id),
        other => panic!("{other:?}"),
    }
}

fn read(connection: &mut Connection) -> Option<RequestId> {
    match connection.next_request()? {
        Request::Read { id, .. } => Some(id),
        other => panic!("{other:?}"),
    }
}

#[test]
fn c2_a_connection_sees_its_own_order() {
    let mut connection = connection();
    connection
        .feed(b"SET k 1\r\nSET k 2\r\nKEYS k\r\nKEYS l\r\nSET k 3\r\nKEYS k\r\n", Instant::ZERO);
    let (first, second) = (write(&mut connection).unwrap(), write(&mut connection).unwrap());
    assert!(read(&mut connection).is_none(), "the reads wait for the writes");
    assert!(connection.executed(first, Slot(0), b"+OK\r\n"));
    assert!(read(&mut connection).is_none());
    assert!(connection.executed(second, Slot(1), b"+OK\r\n"));
    let (first, second) = (read(&mut connection).unwrap(), read(&mut connection).unwrap());
    assert!(write(&mut connection).is_none(), "the write waits for the reads");
    // The second read is answered first; its reply stays behind the first's.
    assert!(connection.answer(second, b"$-1\r\n"));
    assert_eq!(drain(&mut connection), b"+OK\r\n+OK\r\n");
    assert!(connection.answer(first, b"$1\r\n2\r\n"));
    assert_eq!(drain(&mut connection), b"$1\r\n2\r\n$-1\r\n");
    let third = write(&mut connection).unwrap();
    assert!(connection.fail(third, text::UNKNOWN_OUTCOME));
    assert!(drain(&mut connection).starts_with(b"-UNKNOWN "));
    assert!(read(&mut connection).is_some());
}

/// The trap: each pair of a write and a read in one pipeline took a decision of its own, on disk a
/// sync.
#[test]
fn c2_reads_behind_writes_follow_them_through_the_log() {
    let mut connection = connection();
    connection.feed(&b"SET k 1\r\nGET k\r\n".repeat(40), Instant::ZERO);
    let ids: Vec<_> = std::iter::from_fn(|| write(&mut connection)).collect();
    assert_eq!(ids.len(), 80, "nothing waits for an answer");
    for (slot, id) in ids.iter().enumerate() {
        let reply = if slot % 2 == 0 { &b"+OK\r\n"[..] } else { b"$1\r\n1\r\n" };
        assert!(connection.executed(*id, Slot(slot as u64), reply));
    }
    assert_eq!(drain(&mut connection), b"+OK\r\n$1\r\n1\r\n".repeat(40));
    // Without a write before it a read costs no entry of the log, and later requests wait for it.
    connection.feed(b"GET k\r\nSET k 2\r\nGET k\r\n", Instant::ZERO);
    let first = read(&mut connection).unwrap();
    assert!(write(&mut connection).is_none());
    connection.answer(first, b"$1\r\n1\r\n");
    assert!(write(&mut connection).is_some() && write(&mut connection).is_some());
}

#[test]
fn c2_a_read_in_the_log_whose_outcome_is_unknown_had_no_effect() {
    let mut connection = connection();
    connection.feed(b"SET k 1\r\nGET k\r\n", Instant::ZERO);
    let (set, get) = (write(&mut connection).unwrap(), write(&mut connection).unwrap());
    assert!(connection.unknown(set) && connection.unknown(get));
    let heard = drain(&mut connection);
    let heard = std::str::from_utf8(&heard).unwrap();
    assert!(heard.starts_with("-UNKNOWN ") && heard.contains("\r\n-TRYAGAIN "), "{heard}");
}

#[test]
fn c2_wait_covers_the_writes_before_it_and_holds_up_what_follows() {
    let mut connection = connection();
    connection.feed(b"SET k 1\r\nWAIT 2 100\r\nPING\r\n", Instant::ZERO);
    let id = write(&mut connection).unwrap();
    assert!(connection.next_request().is_none());
    connection.executed(id, Slot(41), b"+OK\r\n");
    let Some(Request::Wait { id, members, timeout, after }) = connection.next_request() else {
        panic!("WAIT");
    };
    assert_eq!((members, timeout.unwrap().as_millis(), after.0), (2, 100, 42));
    assert!(connection.next_request().is_none());
    assert_eq!(drain(&mut connection), b"+OK\r\n", "PING is not answered yet");
    connection.answer_integer(id, 1);
    assert!(connection.next_request().is_none());
    assert_eq!(drain(&mut connection), b":1\r\n+PONG\r\n");
}

#[test]
fn c4_an_answer_to_what_is_not_waiting_is_ignored() {
    let mut connection = connection();
    connection.feed(b"PING\r\nGET k\r\nGET l\r\n", Instant::ZERO);
    let (first, second) = (read(&mut connection).unwrap(), read(&mut connection).unwrap());
    assert!(connection.answer(second, b"$1\r\n2\r\n"));
    assert!(!connection.answer(second, b"$1\r\n3\r\n"), "answered twice");
    assert!(connection.answer(first, b"$1\r\n1\r\n"));
    for id in [first, second, RequestId(0), RequestId(u64::MAX)] {
        assert!(!connection.answer(id, b"+OK\r\n"));
        assert!(!connection.fail(id, text::TRY_AGAIN));
        assert_eq!(connection.read_command(id), None);
    }
    assert_eq!(drain(&mut connection), b"+PONG\r\n$1\r\n1\r\n$1\r\n2\r\n");
}

#[test]
fn c5_a_watch_that_failed_aborts_the_transaction() {
    let mut connection = connection();
    connection.feed(b"WATCH k\r\nMULTI\r\nSET k 1\r\nEXEC\r\nMULTI\r\nEXEC\r\n", Instant::ZERO);
    let id = read(&mut connection).unwrap();
    assert!(connection.next_request().is_none(), "EXEC waits for the versions");
    connection.fail(id, text::TRY_AGAIN);
    let id = write(&mut connection).expect("the second EXEC");
    connection.executed(id, Slot(0), b"*0\r\n");
    let output = drain(&mut connection);
    let tail = b"+OK\r\n+QUEUED\r\n*-1\r\n+OK\r\n*0\r\n";
    assert!(output.starts_with(b"-TRYAGAIN ") && output.ends_with(tail));
}

/// Found by seed 11 of `velos-cluster`: a WATCH that a newer state answers does not guard what an
/// older state has shown.
#[test]
fn c5_what_is_read_behind_a_watch_is_read_after_it() {
    let mut connection = connection();
    connection.feed(b"GET a\r\nWATCH k\r\nGET k\r\nPING\r\n", Instant::ZERO);
    let before = read(&mut connection).unwrap();
    let watch = read(&mut connection).expect("nothing before a WATCH holds it up");
    assert!(connection.next_request().is_none(), "the second GET waits");
    connection.answer(before, b"$-1\r\n");
    assert!(connection.next_request().is_none(), "it waits for the WATCH");
    connection.answer(watch, b"*1\r\n:77\r\n");
    let behind = read(&mut connection).expect("its turn has come");
    assert!(connection.next_request().is_none(), "PING asks for nothing");
    connection.answer(behind, b"$1\r\n1\r\n");
    assert_eq!(drain(&mut connection), b"$-1\r\n+OK\r\n$1\r\n1\r\n+PONG\r\n");
}

#[test]
fn c5_the_versions_of_a_forgotten_watch_guard_nothing() {
    let mut driver = Driver::new(Config::default());
    let mut connection = driver.connect();
    connection.feed(b"WATCH k\r\nUNWATCH\r\nMULTI\r\nPING\r\nEXEC\r\n", Instant::ZERO);
    let id = read(&mut connection).unwrap();
    assert!(connection.next_request().is_none());
    connection.answer(id, b"*1\r\n:77\r\n");
    let exec = driver.ask(&mut connection).unwrap();
    driver.answer(&mut connection, &exec);
    assert_eq!(drain(&mut connection), b"+OK\r\n+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n");
}

#[test]
fn an_owner_that_gives_up_says_which_outcomes_are_unknown() {
    let mut connection = connection();
    connection.feed(b"SET k 1\r\nINCR k\r\n", Instant::ZERO);
    write(&mut connection).unwrap();
    write(&mut connection).unwrap();
    connection.fail_all();
    let output = String::from_utf8(drain(&mut connection)).unwrap();
    assert_eq!(output.matches("-UNKNOWN ").count(), 2);
    connection.feed(b"GET k\r\n", Instant::ZERO);
    read(&mut connection).unwrap();
    connection.fail_all();
    assert!(drain(&mut connection).starts_with(b"-TRYAGAIN "));
    assert!(!connection.is_busy());
}

proptest! {
    #[test]
    fn any_bytes_are_answered_or_end_the_conversation(
        seed: u64,
        noise in prop::collection::vec((any::<u16>(), any::<u8>()), 0..8),
        pace: u64,
    ) {
        let mut input = pipeline(seed);
        for (at, byte) in noise {
            if !input.is_empty() {
                let at = at as usize % input.len();
                input[at] = byte;
            }
        }
        let mut at_once = Driver::new(Config::default());
        let mut connection = at_once.connect();
        let expected = at_once.feed(&mut connection, &input);
        // The same bytes come back, however the input is cut and whatever the pace.
        let mut late = Driver::new(Config::default());
        let mut other = late.connect();
        let found = late.feed_late(&mut other, &input, &mut Rng::new(pace));
        prop_assert_eq!(found, expected);
        prop_assert_eq!(other.is_finished(), connection.is_finished());
    }
}

/// Every request behind it waits for the transaction, and so does a watcher's decision.
#[test]
fn c11_a_select_in_a_transaction_counts_once_it_is_executed() {
    let mut driver = Driver::new(Config::default());
    let mut connection = driver.connect();
    let lines: [&[&[u8]]; 6] = [
        &[b"MULTI"],
        &[b"SELECT", b"7"],
        &[b"SET", b"k", b"7"],
        &[b"EXEC"],
        &[b"GET", b"k"],
        &[b"PING"],
    ];
    let bytes: Vec<u8> = lines.iter().flat_map(|line| encode(line)).collect();
    connection.feed(&bytes, Instant::ZERO);
    let exec = driver.ask(&mut connection).expect("the transaction");
    assert!(driver.ask(&mut connection).is_none(), "nothing overtakes it");
    driver.answer(&mut connection, &exec);
    let get = driver.ask(&mut connection).expect("the read");
    driver.answer(&mut connection, &get);
    assert!(driver.ask(&mut connection).is_none());
    let heard = String::from_utf8(drain(&mut connection)).unwrap();
    assert!(heard.ends_with("*2\r\n+OK\r\n+OK\r\n$1\r\n7\r\n+PONG\r\n"), "{heard}");
    // After an unknown outcome the client's database is unknown.
    let mut connection = driver.connect();
    connection.feed(&bytes, Instant::ZERO);
    let Some(Request::Write { id, .. }) = connection.next_request() else { panic!("a write") };
    assert!(connection.fail(id, text::UNKNOWN_OUTCOME));
    assert!(connection.next_request().is_none());
    let heard = String::from_utf8(drain(&mut connection)).unwrap();
    assert!(heard.contains("-UNKNOWN") && !heard.contains("PONG"), "{heard}");
    assert!(connection.is_finished());
}

/// A read behind writes goes through the log; there too it reads its own database.
#[test]
fn c11_a_select_between_writes_and_reads_of_a_pipeline_sends_each_to_its_database() {
    let mut driver = Driver::new(Config::default());
    let mut connection = driver.connect();
    let lines: [&[&[u8]]; 9] = [
        &[b"SET", b"k", b"zero"],
        &[b"SELECT", b"3"],
        &[b"GET", b"k"],
        &[b"SET", b"k", b"three"],
        &[b"GET", b"k"],
        &[b"SELECT", b"0"],
        &[b"GET", b"k"],
        &[b"SELECT", b"3"],
        &[b"MGET", b"k", b"l"],
    ];
    let bytes: Vec<u8> = lines.iter().flat_map(|line| encode(line)).collect();
    connection.feed(&bytes, Instant::ZERO);
    let asked: Vec<_> = std::iter::from_fn(|| driver.ask(&mut connection)).collect();
    assert_eq!(asked.len(), 6, "the reads follow the writes into the log: nothing waits");
    asked.iter().for_each(|one| driver.answer(&mut connection, one));
    let heard = String::from_utf8(drain(&mut connection)).unwrap();
    let expected = "+OK\r\n+OK\r\n$-1\r\n+OK\r\n$5\r\nthree\r\n+OK\r\n$4\r\nzero\r\n+OK\r\n\
                    *2\r\n$5\r\nthree\r\n$-1\r\n";
    assert_eq!(heard, expected);
}

/// C9: a read that was put off is asked for again in the database to which it was sent.
#[test]
fn c11_a_read_that_is_put_off_keeps_its_database() {
    let mut driver = Driver::new(Config::default());
    let mut connection = driver.connect();
    let set: [&[&[u8]]; 3] = [&[b"SELECT", b"3"], &[b"SET", b"k", b"three"], &[b"SELECT", b"0"]];
    let set: Vec<u8> = set.iter().flat_map(|line| encode(line)).collect();
    driver.feed(&mut connection, &set);
    let lines: [&[&[u8]]; 3] = [&[b"SELECT", b"3"], &[b"GET", b"k"], &[b"SELECT", b"0"]];
    let bytes: Vec<u8> = lines.iter().flat_map(|line| encode(line)).collect();
    connection.feed(&bytes, Instant::ZERO);
    let id = read(&mut connection).unwrap();
    assert!(connection.next_request().is_none(), "SELECT 0 is answered here");
    assert!(connection.put_off(id));
    let again = driver.ask(&mut connection).expect("the read again");
    driver.answer(&mut connection, &again);
    assert_eq!(drain(&mut connection), b"+OK\r\n$5\r\nthree\r\n+OK\r\n");
}

#[test]
fn c12_a_pause_of_writes_holds_those_and_a_pause_of_all_everything() {
    let mut driver = Driver::new(Config::default());
    let (mut one, mut other) = (driver.connect(), driver.connect());
    let ok = b"+OK\r\n";
    assert_eq!(driver.call(&mut one, &[b"CLIENT", b"PAUSE", b"1000", b"WRITE"]), ok);
    assert_eq!(driver.feed(&mut other, b"GET k\r\nSET k 1\r\nGET k\r\n"), b"$-1\r\n");
    let reads = b"MULTI\r\nGET k\r\nEXEC\r\n";
    assert!(driver.feed(&mut one, reads).ends_with(b"+QUEUED\r\n*1\r\n$-1\r\n"));
    let writes = driver.feed(&mut one, b"MULTI\r\nSET k 2\r\nEXEC\r\n");
    assert_eq!(writes, b"+OK\r\n+QUEUED\r\n", "EXEC waits");
    // Its time is over.
    let pauses = driver.config.pauses.clone();
    let at = |ms| Instant::ZERO.plus(std::time::Duration::from_millis(ms));
    assert!(
        !pauses.has_ended(at(999)) && pauses.has_ended(at(1000)) && !pauses.has_ended(at(1000))
    );
    assert_eq!(driver.feed(&mut other, b""), b"+OK\r\n$1\r\n1\r\n");
    assert_eq!(driver.feed(&mut one, b""), b"*1\r\n+OK\r\n");
    // A later pause that is shorter or smaller changes nothing.
    driver.call(&mut other, &[b"CLIENT", b"PAUSE", b"50"]);
    driver.feed(&mut other, b"PING\r\n");
    assert_eq!(driver.feed(&mut one, b"PING\r\nCLIENT UNPAUSE\r\n"), b"", "as in Redis");
    assert!(!pauses.has_ended(at(49)) && pauses.has_ended(at(50)));
    assert_eq!(driver.feed(&mut one, b""), b"+PONG\r\n+OK\r\n");
    driver.call(&mut one, &[b"CLIENT", b"PAUSE", b"9223372036854775807", b"WRITE"]);
    assert_eq!(driver.feed(&mut one, b"CLIENT PAUSE 1 WRITE\r\nSET k 3\r\n"), ok);
    assert!(!pauses.has_ended(at(1_000_000)));
    assert_eq!(driver.call(&mut other, &[b"CLIENT", b"UNPAUSE"]), b"+PONG\r\n+OK\r\n");
    assert!(pauses.has_ended(at(1)), "the owner asks the others again");
    assert_eq!(driver.feed(&mut one, b""), ok);
}
