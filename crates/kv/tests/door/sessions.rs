//! Client sessions, as a conversation.

use kv::connection::Config;

use crate::driver::{Asked, Driver, drain, encode};

/// The lines that a connection sends, and the replies; `*` stands for any rest of a line.
fn conversation(lines: &[(&str, &str)]) {
    let mut driver = Driver::new(Config::default());
    let mut connection = driver.connect();
    for (say, hear) in lines {
        let args: Vec<&[u8]> = say.split(' ').map(str::as_bytes).collect();
        let found = driver.call(&mut connection, &args).escape_ascii().to_string();
        let is_good = match hear.strip_suffix('*') {
            Some(start) => found.starts_with(start),
            None => found == *hear,
        };
        assert!(is_good, "{say}: {found}, where {hear} was expected");
    }
}

#[test]
fn a_call_is_answered_again_and_a_gap_is_refused() {
    conversation(&[
        ("GREGALE.CALL 1 INCR k", "-NOTCALLED *"),
        ("GREGALE.ACK 1", "-ERR this connection has no session*"),
        ("GREGALE.SESSION END", "-ERR this connection has no session*"),
        ("GREGALE.SESSION", "*3*"),
        ("GREGALE.CALL 1 INCR k", r":1\r\n"),
        ("GREGALE.CALL 1 INCR k", r":1\r\n"),
        ("GREGALE.CALL 3 INCR k", "-GAP *"),
        ("GREGALE.CALL 2 GET k", r"$1\r\n1\r\n"),
        ("GREGALE.CALL 3 GET k", "-GAP *"),
        ("GREGALE.CALL 2 INCR k", r":2\r\n"),
        ("GREGALE.ACK 1", r"+OK\r\n"),
        ("GREGALE.CALL 2 INCR k", r":2\r\n"),
        ("GREGALE.CALL 1 INCR k", "-ACKED *"),
        ("GREGALE.CALL 3 INCRBY k x", r"-ERR value is not an integer or out of range\r\n"),
        ("GREGALE.CALL 4 INCR k", r":3\r\n"),
        ("GREGALE.SESSION END", r"+OK\r\n"),
        ("GREGALE.CALL 5 INCR k", "-NOTCALLED *"),
        ("GREGALE.SESSION 7", "-NOSESSION *"),
        ("GREGALE.CALL 1 INCR k", "-NOSESSION *"),
        ("GET k", r"$1\r\n3\r\n"),
    ]);
}

#[test]
fn what_is_refused_by_the_connection_uses_no_number_up() {
    conversation(&[
        ("GREGALE.SESSION", "*3*"),
        ("GREGALE.SESSION x", "-ERR *"),
        ("GREGALE.SESSION 1 2", r"-ERR syntax error\r\n"),
        ("GREGALE.CALL 0 INCR k", "-NOTCALLED *"),
        ("GREGALE.CALL x INCR k", "-NOTCALLED *"),
        ("GREGALE.CALL 1", "-NOTCALLED the number is not used up: ERR wrong number*"),
        ("GREGALE.CALL", "-NOTCALLED the number is not used up: ERR wrong number*"),
        ("GREGALE.CALL 1 NOSUCH", "-NOTCALLED the number is not used up: ERR unknown command*"),
        ("GREGALE.CALL 1 INCR", "-NOTCALLED the number is not used up: ERR wrong number*"),
        ("GREGALE.CALL 1 PING", "-NOTCALLED *"),
        ("GREGALE.CALL 1 CLIENT ID", "-NOTCALLED *"),
        ("GREGALE.CALL 1 GREGALE.SESSION", "-NOTCALLED *"),
        ("GREGALE.CALL 1 EXEC", "-NOTCALLED the number is not used up: EXEC without MULTI*"),
        ("GREGALE.CALL 1 INCR k", r":1\r\n"),
        ("RESET", r"+RESET\r\n"),
        ("GREGALE.CALL 2 INCR k", "-NOTCALLED *"),
    ]);
}

/// It would take the error for the command's own, and the next number for used up.
#[test]
fn a_call_that_is_not_looked_at_uses_no_number_up() {
    conversation(&[
        ("GREGALE.SESSION", "*3*"),
        ("SUBSCRIBE c", "*3*"),
        ("GREGALE.CALL 1 INCR k", "-NOTCALLED the number is not used up: ERR Can*"),
        ("UNSUBSCRIBE c", "*3*"),
        ("GREGALE.CALL 1 INCR k", r":1\r\n"),
    ]);
    let mut driver = Driver::new(Config::default());
    let mut connection = driver.connect();
    let long = vec![b'x'; kv::resp::REQUEST_BYTES_MAX + 1];
    let mut heard = |args: &[&[u8]]| {
        let reply = driver.call(&mut connection, args);
        String::from_utf8_lossy(&reply).into_owned()
    };
    let plain = heard(&[b"SET", b"k", &long]);
    assert!(plain.starts_with("-ERR request is longer than "), "{plain}");
    heard(&[b"GREGALE.SESSION"]);
    let call = heard(&[b"GREGALE.CALL", b"1", b"SET", b"k", &long]);
    assert!(
        call.starts_with("-NOTCALLED the number is not used up: ERR request is long"),
        "{call}"
    );
    assert_eq!(heard(&[b"GREGALE.CALL", b"1", b"INCR", b"k"]), ":1\r\n");
}

#[test]
fn exec_is_one_call() {
    conversation(&[
        ("GREGALE.SESSION", "*3*"),
        ("MULTI", r"+OK\r\n"),
        ("INCR k", r"+QUEUED\r\n"),
        ("INCR k", r"+QUEUED\r\n"),
        ("GREGALE.CALL 1 EXEC", r"*2\r\n:1\r\n:2\r\n"),
        ("MULTI", r"+OK\r\n"),
        ("INCR k", r"+QUEUED\r\n"),
        ("GREGALE.CALL 1 EXEC", r"*2\r\n:1\r\n:2\r\n"),
        ("MULTI", r"+OK\r\n"),
        (
            "GREGALE.CALL 2 INCR k",
            "-NOTCALLED the number is not used up: ERR Command not allowed inside a transaction*",
        ),
        ("GREGALE.CALL 2 EXEC", "-EXECABORT *"),
        ("WATCH k", r"+OK\r\n"),
        ("SET k 9", r"+OK\r\n"),
        ("MULTI", r"+OK\r\n"),
        ("INCR k", r"+QUEUED\r\n"),
        ("GREGALE.CALL 2 EXEC", r"*-1\r\n"),
        // That is its reply now, whichever command is sent with the number.
        ("MULTI", r"+OK\r\n"),
        ("GREGALE.CALL 2 EXEC", r"*-1\r\n"),
        ("GREGALE.CALL 3 INCR k", r":10\r\n"),
        // A plain EXEC is not a call of the session.
        ("MULTI", r"+OK\r\n"),
        ("INCR k", r"+QUEUED\r\n"),
        ("EXEC", r"*1\r\n:11\r\n"),
        ("GREGALE.CALL 4 INCR k", r":12\r\n"),
    ]);
}

/// The database after a transaction that is not executed now, and was, is not known here.
#[test]
fn a_select_in_an_exec_whose_reply_is_not_kept_ends_the_connection() {
    let mut driver = Driver::new(Config::default());
    let mut writer = driver.connect();
    driver.call(&mut writer, &[b"SET", b"big", &[b'x'; 20_000]]);
    let exec: [&[&[u8]]; 4] =
        [&[b"MULTI"], &[b"GET", b"big"], &[b"SELECT", b"3"], &[b"GREGALE.CALL", b"1", b"EXEC"]];
    let acknowledge: [&[&[u8]]; 1] = [&[b"GREGALE.ACK", b"1"]];
    for (between, code) in [(&[][..], "-TOOLONG "), (&acknowledge, "-ACKED ")] {
        let mut connection = driver.connect();
        let mut say = |commands: &[&[&[u8]]]| {
            let replies = commands.iter().map(|args| driver.call(&mut connection, args));
            replies.last().unwrap_or_default()
        };
        say(&[&[b"GREGALE.SESSION"]]);
        assert!(say(&exec).starts_with(b"*2\r\n"));
        say(between);
        say(&[&[b"SELECT", b"0"]]);
        let again = say(&exec);
        assert!(again.starts_with(code.as_bytes()), "{}", again.escape_ascii());
        assert!(connection.is_finished(), "{code}");
    }
}

#[test]
fn c7_calls_wait_for_the_session_that_is_being_opened() {
    let mut driver = Driver::new(Config::default());
    let mut connection = driver.connect();
    let pipeline =
        [encode(&[b"GREGALE.SESSION"]), encode(&[b"GREGALE.CALL", b"1", b"INCR", b"k"])].concat();
    connection.feed(&pipeline, base::Instant::ZERO);
    let opening = driver.ask(&mut connection).expect("the session");
    assert!(driver.ask(&mut connection).is_none(), "C7");
    driver.answer(&mut connection, &opening);
    let call = driver.ask(&mut connection).expect("the call");
    assert!(matches!(call, Asked::Write(..)));
    driver.answer(&mut connection, &call);
    assert!(drain(&mut connection).ends_with(b":1\r\n"));
    // A session that cannot be opened takes no calls.
    connection.feed(&pipeline, base::Instant::ZERO);
    driver.ask(&mut connection).expect("the session");
    connection.fail_all();
    while driver.ask(&mut connection).is_some() {}
    let heard = drain(&mut connection);
    let heard = String::from_utf8_lossy(&heard);
    assert!(heard.starts_with("-UNKNOWN") && heard.contains("\n-NOTCALLED"), "{heard}");
}

#[test]
fn another_connection_goes_on_with_a_session() {
    let mut driver = Driver::new(Config::default());
    let (mut one, mut other) = (driver.connect(), driver.connect());
    driver.call(&mut one, &[b"GREGALE.SESSION"]);
    driver.call(&mut one, &[b"GREGALE.CALL", b"1", b"INCR", b"k"]);
    let id = driver.machine.client_sessions().issued().0.to_string();
    let standing = driver.call(&mut other, &[b"GREGALE.SESSION", id.as_bytes()]);
    assert_eq!(standing, format!("*3\r\n:{id}\r\n:1\r\n:3600000\r\n").as_bytes());
    let again = driver.call(&mut other, &[b"GREGALE.CALL", b"1", b"INCR", b"k"]);
    assert_eq!(again, b":1\r\n");
    let next = driver.call(&mut other, &[b"GREGALE.CALL", b"2", b"INCR", b"k"]);
    assert_eq!(next, b":2\r\n");
}
