//! The client against members that follow a script: what it sends again, and what it concludes.

use super::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

const PATIENCE: Duration = Duration::from_secs(30);

/// What the scripted member answers to the requests of one connection, in order; it hangs up at the
/// end. Gives what was asked.
fn member(listener: &TcpListener, replies: &[&str]) -> Vec<String> {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut asked = Vec::new();
    for reply in replies {
        asked.push(request(&mut stream));
        stream.write_all(reply.as_bytes()).unwrap();
    }
    asked
}

fn request(stream: &mut TcpStream) -> String {
    let mut line = || {
        let (mut line, mut byte) = (Vec::new(), [0]);
        while !line.ends_with(b"\r\n") {
            stream.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        String::from_utf8(line).unwrap().trim_end().to_owned()
    };
    let n: usize = line().strip_prefix('*').unwrap().parse().unwrap();
    let words: Vec<String> = (0..n)
        .map(|_| {
            line();
            line()
        })
        .collect();
    words.join(" ")
}

/// A member whose connections follow these scripts, one after the other.
fn scripted(scripts: &'static [&'static [&'static str]]) -> (Client, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let served = std::thread::spawn(move || {
        scripts.iter().flat_map(|replies| member(&listener, replies)).collect()
    });
    (Client::new(Options::new([address]).deadline(PATIENCE)), served)
}

const SESSION: &str = "*3\r\n:77\r\n:0\r\n:3600000\r\n";
const WRITES: &str = "*1\r\n*4\r\n$4\r\nincr\r\n:2\r\n*2\r\n+write\r\n+fast\r\n:1\r\n";
const READS: &str = "*1\r\n*4\r\n$3\r\nget\r\n:2\r\n*1\r\n+readonly\r\n:1\r\n";
const OK: &str = "+OK\r\n";

#[test]
fn a_lost_reply_is_asked_for_again_with_the_same_number() {
    let (mut client, served) = scripted(&[
        // The call is taken, and the member dies.
        &[SESSION, WRITES, OK, ""],
        &[SESSION, OK, "-UNKNOWN the outcome\r\n"],
        &[SESSION, OK, ":8\r\n", OK, ":9\r\n"],
    ]);
    assert_eq!(client.call(&["INCR", "k"]), Ok(Value::Integer(8)));
    assert_eq!(client.call(&["INCR", "k"]), Ok(Value::Integer(9)));
    let asked = served.join().unwrap();
    let calls: Vec<&String> = asked.iter().filter(|line| line.contains(".CALL")).collect();
    let one = "GREGALE.CALL 1 INCR k";
    assert_eq!(calls, [one, one, one, "GREGALE.CALL 2 INCR k"], "K1");
    assert!(asked.contains(&"GREGALE.SESSION 77".to_owned()), "{asked:?}");
    assert_eq!(asked[asked.len() - 2], "GREGALE.ACK 1");
    assert_eq!(client.retries(), 2);
}

#[test]
fn a_read_uses_no_number_up() {
    let (mut client, served) =
        scripted(&[&[SESSION, READS, OK, "$1\r\n5\r\n", WRITES, OK, ":6\r\n"]]);
    assert_eq!(client.call(&["GET", "k"]), Ok(Value::Bulk(b"5".to_vec())));
    assert_eq!(client.call(&["INCR", "k"]), Ok(Value::Integer(6)));
    let asked = served.join().unwrap();
    assert!(asked.contains(&"GREGALE.CALL 1 GET k".to_owned()), "{asked:?}");
    assert!(asked.contains(&"GREGALE.CALL 1 INCR k".to_owned()), "{asked:?}");
}

#[test]
fn an_expired_session_is_replaced_only_if_nothing_was_sent() {
    const GONE: &str = "-NOSESSION there is none\r\n";
    let (mut client, served) = scripted(&[
        &[SESSION, WRITES, OK, GONE],
        // Nothing can have happened: another session, and the call.
        &["*3\r\n:78\r\n:0\r\n:1\r\n", OK, ":1\r\n", OK, ""],
        // This time it may have been executed.
        &[GONE],
    ]);
    assert_eq!(client.call(&["INCR", "k"]), Ok(Value::Integer(1)));
    let error = client.call(&["INCR", "k"]).unwrap_err();
    assert!(!error.is_outcome_known(), "K2: {error}");
    assert_eq!(client.session(), None, "K1");
    served.join().unwrap();
}

#[test]
fn what_is_refused_uses_no_number_up_and_what_is_answered_does() {
    let (mut client, served) = scripted(&[
        &[SESSION, "*1\r\n*-1\r\n", OK, "-NOTCALLED the number is not used up: ERR unknown\r\n"],
        &[SESSION, WRITES, OK, "-ERR value is not an integer\r\n", OK, ":1\r\n"],
    ]);
    let error = client.call(&["NOSUCH"]).unwrap_err();
    assert!(matches!(error, Error::NotExecuted(_)), "{error}");
    let error = client.call(&["INCR", "k"]).unwrap_err();
    assert_eq!(error, Error::Answered("ERR value is not an integer".into()));
    assert_eq!(client.call(&["INCR", "k"]), Ok(Value::Integer(1)));
    let asked = served.join().unwrap();
    assert_eq!(asked.last().unwrap(), "GREGALE.CALL 2 INCR k");
}

#[test]
fn a_transaction_is_one_call() {
    const QUEUED: &str = "+QUEUED\r\n";
    let (mut client, served) =
        scripted(&[&[SESSION, OK, OK, QUEUED, QUEUED, "*2\r\n:1\r\n-ERR no\r\n"]]);
    let both: [&[&str]; 2] = [&["INCR", "k"], &["INCR", "text"]];
    let expected = vec![Value::Integer(1), Value::Error("ERR no".into())];
    assert_eq!(client.transaction(&both), Ok(Value::Array(expected)));
    let asked = served.join().unwrap();
    let last = ["MULTI", "INCR k", "INCR text", "GREGALE.CALL 1 EXEC"];
    assert_eq!(asked[asked.len() - 4..], last);
}

/// A transaction holds commands of the store: one that ends it sooner, or is about the connection,
/// would let the client take what was executed for refused.
#[test]
fn what_ends_a_transaction_is_not_sent_in_one() {
    let (mut client, served) = scripted(&[]);
    for word in [
        "MULTI",
        "exec",
        "DISCARD",
        "WATCH",
        "UNWATCH",
        "RESET",
        "Quit",
        "POST",
        "Host:",
        "GREGALE.CALL",
        "gregale.session",
    ] {
        let refused = client.transaction(&[&["INCR", "x"], &[word, "x"]]);
        let Err(Error::NotExecuted(why)) = refused else { panic!("{word}: {refused:?}") };
        assert_eq!(why, "a transaction has no command about the connection or its transactions");
    }
    assert_eq!(served.join().unwrap(), [""; 0], "nothing was sent");
}

#[test]
fn without_a_cluster_nothing_was_executed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let mut client = Client::new(Options::new([address]));
    let error = client.call_within(&["INCR", "k"], Duration::from_millis(30)).unwrap_err();
    assert!(matches!(error, Error::NotExecuted(_)), "{error}");
    let long = "x".repeat(CALL_BYTES_MAX);
    assert!(matches!(client.call(&["SET", "k", &long]), Err(Error::NotExecuted(_))));
    assert!(matches!(client.call::<&str>(&[]), Err(Error::NotExecuted(_))));
}

const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";

/// Every later call went over the connection that was not let in, and was refused.
#[test]
fn a_member_that_refuses_the_password_is_left() {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let addresses = listeners.each_ref().map(|of| of.local_addr().unwrap().to_string());
    let [one, other] = listeners;
    let served = std::thread::spawn(move || {
        member(&one, &[WRONG]);
        member(&other, &[OK, SESSION, WRITES, OK, ":1\r\n"])
    });
    let options = Options::new(addresses).password("new").deadline(PATIENCE);
    assert_eq!(Client::new(options).call(&["INCR", "k"]), Ok(Value::Integer(1)));
    assert_eq!(served.join().unwrap()[0], "AUTH new");
}

#[test]
fn a_password_that_no_member_takes_is_tried_again_by_the_next_call() {
    let (client, served) = scripted(&[&[WRONG], &[OK, SESSION, WRITES, OK, ":1\r\n"]]);
    let mut client = Client::new(client.options.password("new"));
    let refused = client.call(&["INCR", "k"]);
    assert!(matches!(refused, Err(Error::NotExecuted(_))), "{refused:?}");
    assert_eq!(client.call(&["INCR", "k"]), Ok(Value::Integer(1)));
    assert_eq!(client.retries(), 0, "over the connection that was not let in");
    served.join().unwrap();
}

#[test]
fn a_deadline_may_be_never() {
    let (client, served) = scripted(&[&[SESSION, WRITES, OK, ":1\r\n", OK]]);
    let options = client.options.deadline(Duration::MAX).attempt(Duration::MAX);
    let mut client = Client::new(options);
    assert_eq!(client.call(&["INCR", "k"]), Ok(Value::Integer(1)));
    assert!(client.close());
    served.join().unwrap();
}

#[test]
fn a_member_that_never_answers_leaves_the_outcome_unknown() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let served = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        for reply in [SESSION, WRITES, OK] {
            request(&mut stream);
            stream.write_all(reply.as_bytes()).unwrap();
        }
        request(&mut stream);
        (stream, listener)
    });
    let mut client = Client::new(Options::new([address]));
    let error = client.call_within(&["INCR", "k"], Duration::from_millis(200));
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Unknown(_)), "{error}");
    assert_eq!(client.session(), None, "K1");
    drop(served.join().unwrap());
}

/// The facts of EVAL, which goes through the log and is no write.
const EVAL: &str = "*1\r\n*10\r\n$4\r\neval\r\n:-3\r\n*1\r\n+noscript\r\n:0\r\n:0\r\n:0\r\n*0\r\n\
     *1\r\n$16\r\ngregale:numbered\r\n*0\r\n*0\r\n";
/// Those of SCRIPT, with two of its subcommands: LOAD goes through the log, EXISTS reads.
const SCRIPT: &str = "*1\r\n*10\r\n$6\r\nscript\r\n:-2\r\n*0\r\n:0\r\n:0\r\n:0\r\n*0\r\n*0\r\n*0\r\n*2\r\n\
     *10\r\n$11\r\nscript|load\r\n:3\r\n*1\r\n+noscript\r\n:0\r\n:0\r\n:0\r\n*0\r\n\
     *1\r\n$16\r\ngregale:numbered\r\n*0\r\n*0\r\n\
     *10\r\n$13\r\nscript|exists\r\n:-3\r\n*1\r\n+noscript\r\n:0\r\n:0\r\n:0\r\n*0\r\n\
     *0\r\n*0\r\n*0\r\n";

fn calls_of(asked: &[String]) -> Vec<&str> {
    asked.iter().filter_map(|line| line.strip_prefix("GREGALE.CALL ")).collect()
}

#[test]
fn k1_what_goes_through_the_log_uses_a_number_up_though_it_is_no_write() {
    let (mut client, served) = scripted(&[&[
        SESSION,
        EVAL,
        OK,
        ":1\r\n",
        WRITES,
        OK,
        ":1\r\n",
        SCRIPT,
        OK,
        "*1\r\n:0\r\n",
        OK,
        OK,
        OK,
        ":2\r\n",
    ]]);
    client.call(&["EVAL", "return 1", "0"]).unwrap();
    client.call(&["INCR", "k"]).unwrap();
    client.call(&["SCRIPT", "EXISTS", "abc"]).unwrap();
    client.call(&["script", "load", "return 1"]).unwrap();
    client.call(&["INCR", "k"]).unwrap();
    let asked = served.join().unwrap();
    let calls = [
        "1 EVAL return 1 0",
        "2 INCR k",
        "3 SCRIPT EXISTS abc",
        "3 script load return 1",
        "4 INCR k",
    ];
    assert_eq!(calls_of(&asked), calls);
}

#[test]
fn a_database_is_not_chosen_by_a_call() {
    let (mut client, _served) = scripted(&[]);
    let select: &[&str] = &["select", "3"];
    let refused = client.transaction(&[select, &["SET", "k", "v"]]);
    assert!(matches!(refused, Err(Error::NotExecuted(_))), "{refused:?}");
    assert!(matches!(client.call(select), Err(Error::NotExecuted(_))));
}
