//! C3, C8: the memory that a client can occupy in a connection.

use std::collections::VecDeque;

use base::{Instant, Slot};
use kv::connection::{
    Config, OUTPUT_BYTES_MAX, PIPELINE_DEPTH_MAX, QUEUED_BYTES_MAX, Request,
    UNREAD_INPUT_BYTES_MAX, WATCHED_BYTES_MAX,
};
use kv::entry::COMMAND_BYTES_MAX;
use kv::resp::INPUT_BYTES_MAX;
use kv::store::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

use crate::driver::{Driver, drain, encode};

#[test]
fn c3_a_pipeline_is_taken_up_to_its_depth_and_continued_as_it_is_answered() {
    let mut connection = Driver::new(Config::default()).connect();
    connection.feed(&b"INCR n\r\n".repeat(PIPELINE_DEPTH_MAX + 10), Instant::ZERO);
    let mut ids = Vec::new();
    while let Some(Request::Write { id, .. }) = connection.next_request() {
        ids.push(id);
    }
    assert_eq!(ids.len(), PIPELINE_DEPTH_MAX);
    assert!(!connection.wants_input());
    // An answer out of order frees no place; one at the front does.
    connection.executed(ids[1], Slot(1), b":2\r\n");
    assert!(connection.next_request().is_none());
    connection.executed(ids[0], Slot(0), b":1\r\n");
    assert!(connection.wants_input());
    assert!(connection.next_request().is_some());
    assert!(connection.next_request().is_some());
    assert!(connection.next_request().is_none());
}

#[test]
fn c3_an_answer_without_a_store_is_bounded_as_any_other() {
    let mut driver = Driver::new(Config::default());
    let mut connection = driver.connect();
    // Each name alone takes six kilobytes.
    let names = [&[&b"COMMAND"[..], b"DOCS"][..], &[&b"cluster"[..]; 5000]].concat();
    let answer = driver.call(&mut connection, &names);
    let answer = String::from_utf8_lossy(&answer[..answer.len().min(100)]).into_owned();
    assert!(answer.starts_with("-ERR the reply would be longer"), "{answer}");
    assert_eq!(driver.call(&mut connection, &[b"PING"]), b"+PONG\r\n");
}

#[test]
fn c8_a_client_that_writes_before_it_reads_is_served() {
    let mut driver = Driver::new(Config::default());
    let mut connection = driver.connect();
    let value = vec![b'x'; 100_000];
    driver.call(&mut connection, &[b"SET", b"k", &value]);
    connection.feed(&b"GET k\r\n".repeat(100), Instant::ZERO);
    while let Some(asked) = driver.ask(&mut connection) {
        driver.answer(&mut connection, &asked);
    }
    let held = connection.output().len();
    assert!((OUTPUT_BYTES_MAX..OUTPUT_BYTES_MAX + 2 * value.len()).contains(&held), "{held}");
    // The client may write its whole pipeline first: the input is taken, and not executed.
    let more = b"ECHO 1234567890\r\n".repeat(5000);
    let mut n_echoes = 0;
    while connection.wants_input() {
        connection.feed(&more, Instant::ZERO);
        n_echoes += 5000;
        assert!(driver.ask(&mut connection).is_none());
        assert!(n_echoes * 17 < UNREAD_INPUT_BYTES_MAX + more.len());
    }
    assert!(n_echoes * 17 > UNREAD_INPUT_BYTES_MAX - more.len());
    let mut read = 0;
    loop {
        match driver.ask(&mut connection) {
            Some(asked) => driver.answer(&mut connection, &asked),
            None if connection.output().is_empty() => break,
            None => read += drain(&mut connection).len(),
        }
    }
    assert!(connection.wants_input());
    let (get, echo) = (value.len() + b"$100000\r\n\r\n".len(), b"$10\r\n1234567890\r\n".len());
    assert_eq!(read, 100 * get + n_echoes * echo, "and nothing is lost");
}

#[test]
fn c9_reads_of_a_client_that_does_not_read_are_put_off_and_asked_for_again() {
    let mut driver = Driver::new(Config::default());
    let mut connection = driver.connect();
    let value = vec![b'x'; 100_000];
    driver.call(&mut connection, &[b"SET", b"k", &value]);
    // All of them are asked for before any is answered.
    let n = 500;
    connection.feed(&b"GET k\r\n".repeat(n), Instant::ZERO);
    connection.feed(b"PING\r\n", Instant::ZERO);
    let mut asked: VecDeque<_> = std::iter::from_fn(|| driver.ask(&mut connection)).collect();
    assert_eq!(asked.len(), n);
    let (mut read, mut n_put_off, mut n_bytes_max, mut is_first) = (Vec::new(), 0, 0, true);
    loop {
        // In an order in which the first comes last, and then as they are asked for again (C14).
        while let Some(next) = if is_first { asked.pop_back() } else { asked.pop_front() } {
            let crate::driver::Asked::Read(id, _) = &next else { panic!("{next:?}") };
            if connection.takes_answer(*id) {
                driver.answer(&mut connection, &next);
            } else {
                assert!(connection.put_off(*id));
                n_put_off += 1;
            }
        }
        is_first = false;
        n_bytes_max = n_bytes_max.max(connection.output().len());
        read.append(&mut drain(&mut connection));
        asked.extend(std::iter::from_fn(|| driver.ask(&mut connection)));
        if asked.is_empty() {
            break;
        }
    }
    read.append(&mut drain(&mut connection));
    assert!(n_put_off >= n - 2 * OUTPUT_BYTES_MAX / value.len());
    assert!(n_put_off < 2 * n, "few are asked for in vain: {n_put_off}");
    assert!(n_bytes_max < OUTPUT_BYTES_MAX + 2 * value.len(), "{n_bytes_max}");
    let reply = value.len() + b"$100000\r\n\r\n".len();
    assert_eq!(read.len(), n * reply + b"+PONG\r\n".len());
    assert!(read.ends_with(b"x\r\n+PONG\r\n") && !connection.is_busy());
}

#[test]
fn c10_writes_with_long_answers_are_not_asked_for_beyond_the_output() {
    let mut driver = Driver::new(Config::default());
    let mut connection = driver.connect();
    let value = vec![b'x'; VALUE_BYTES_MAX];
    driver.call(&mut connection, &[b"SET", b"k", &value]);
    connection.feed(&b"GETEX k\r\n".repeat(100), Instant::ZERO);
    let (mut n, mut n_bytes_max) = (0, 0);
    loop {
        let asked: Vec<_> = std::iter::from_fn(|| driver.ask(&mut connection)).collect();
        asked.iter().for_each(|asked| driver.answer(&mut connection, asked));
        n += asked.len();
        n_bytes_max = n_bytes_max.max(connection.output().len());
        if drain(&mut connection).is_empty() {
            break;
        }
    }
    assert_eq!(n, 100);
    assert!(n_bytes_max < OUTPUT_BYTES_MAX + 2 * VALUE_BYTES_MAX, "{n_bytes_max}");
}

#[test]
fn c3_input_is_bounded() {
    let mut connection = Driver::new(Config::default()).connect();
    // A write without an answer delays a read of many keys behind it, and all further input.
    connection.feed(b"SET k 1\r\nKEYS k\r\n", Instant::ZERO);
    assert!(connection.next_request().is_some());
    let mut fed = 0;
    while connection.wants_input() {
        connection.feed(&[b'\n'; 60_000], Instant::ZERO);
        assert!(connection.next_request().is_none());
        fed += 60_000;
        assert!(fed < INPUT_BYTES_MAX + 70_000);
    }
}

#[test]
fn c3_a_request_over_the_limit_is_refused_and_spoils_a_transaction() {
    let mut driver = Driver::new(Config::default());
    let mut connection = driver.connect();
    let long = vec![b'x'; COMMAND_BYTES_MAX];
    driver.call(&mut connection, &[b"MULTI"]);
    let refused = driver.call(&mut connection, &[b"SET", b"k", &long]);
    assert!(refused.starts_with(b"-ERR request is longer than"));
    let aborted = driver.call(&mut connection, &[b"EXEC"]);
    assert!(aborted.starts_with(b"-EXECABORT "));
    let value = vec![b'x'; VALUE_BYTES_MAX + 1];
    let refused = driver.call(&mut connection, &[b"SET", b"k", &value]);
    assert!(refused.starts_with(b"-ERR string exceeds maximum allowed size"));
    let refused = driver.call(&mut connection, &[b"GET", &value[..KEY_BYTES_MAX + 1]]);
    assert!(refused.starts_with(b"-ERR key is longer than"));
}

#[test]
fn c3_a_transaction_is_bounded_and_takes_the_largest_value() {
    let mut driver = Driver::new(Config::default());
    let mut connection = driver.connect();
    let (key, value) = (vec![b'k'; KEY_BYTES_MAX], vec![b'v'; VALUE_BYTES_MAX]);
    driver.call(&mut connection, &[b"WATCH", &key]);
    driver.call(&mut connection, &[b"MULTI"]);
    assert_eq!(driver.call(&mut connection, &[b"SET", &key, &value]), b"+QUEUED\r\n");
    connection.feed(&encode(&[b"EXEC"]), Instant::ZERO);
    let exec = driver.ask(&mut connection).unwrap();
    let crate::driver::Asked::Write(_, command) = &exec else { panic!("{exec:?}") };
    assert!(command.len() <= COMMAND_BYTES_MAX);
    driver.answer(&mut connection, &exec);
    assert_eq!(drain(&mut connection), b"*1\r\n+OK\r\n");
    // One more does not fit.
    driver.call(&mut connection, &[b"MULTI"]);
    driver.call(&mut connection, &[b"SET", &key, &value]);
    let refused = driver.call(&mut connection, &[b"SET", &key, &value]);
    let expected = format!("-ERR the transaction is longer than {QUEUED_BYTES_MAX} bytes");
    assert!(refused.starts_with(expected.as_bytes()));
    assert!(driver.call(&mut connection, &[b"EXEC"]).starts_with(b"-EXECABORT "));
}

#[test]
fn c3_c5_watching_too_much_aborts_the_transaction() {
    let mut driver = Driver::new(Config::default());
    let mut connection = driver.connect();
    let n = WATCHED_BYTES_MAX / KEY_BYTES_MAX;
    for number in 0..n {
        let mut key = vec![b'k'; KEY_BYTES_MAX];
        key[0] = number as u8;
        let reply = driver.call(&mut connection, &[b"WATCH", &key]);
        let fits = number + 1 < n;
        assert_eq!(reply == b"+OK\r\n", fits, "{number}");
    }
    driver.call(&mut connection, &[b"MULTI"]);
    driver.call(&mut connection, &[b"SET", b"k", b"v"]);
    assert_eq!(driver.call(&mut connection, &[b"EXEC"]), b"*-1\r\n");
    // Nor does a key that is too long to exist.
    let long = vec![b'k'; KEY_BYTES_MAX + 1];
    let refused = driver.call(&mut connection, &[b"WATCH", &long]);
    assert!(refused.starts_with(b"-ERR key is longer than"));
    driver.call(&mut connection, &[b"MULTI"]);
    assert_eq!(driver.call(&mut connection, &[b"EXEC"]), b"*-1\r\n");
    driver.call(&mut connection, &[b"MULTI"]);
    assert_eq!(driver.call(&mut connection, &[b"EXEC"]), b"*0\r\n");
}

#[test]
fn what_a_client_sent_before_it_hung_up_is_executed() {
    let mut driver = Driver::new(Config::default());
    let mut connection = driver.connect();
    connection.feed(b"INCR n\r\nGET n\r\nINCR n\r\nINCR", Instant::ZERO);
    connection.end_of_input();
    assert!(!connection.wants_input());
    while let Some(asked) = driver.ask(&mut connection) {
        assert!(!connection.is_finished());
        driver.answer(&mut connection, &asked);
    }
    assert!(!connection.is_finished(), "its replies are not sent");
    assert_eq!(drain(&mut connection), b":1\r\n$1\r\n1\r\n:2\r\n");
    assert!(connection.is_finished());
}

#[test]
fn what_a_browser_sends_for_a_web_page_executes_nothing() {
    for request in ["GET / HTTP/1.1\r\nHost: x", "POST / HTTP/1.1\r\nhost: x"] {
        let mut driver = Driver::new(Config::default());
        let mut connection = driver.connect();
        connection.feed(request.as_bytes(), Instant::ZERO);
        connection.feed(b"\r\n\r\nSET k 1\r\n", Instant::ZERO);
        assert!(driver.ask(&mut connection).is_none(), "{request}");
        drain(&mut connection);
        assert!(connection.is_finished(), "{request}");
    }
}
