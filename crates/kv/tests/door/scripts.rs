//! Conversations, and redis-server's part in them.

use std::collections::BTreeMap;

use kv::connection::{Config, Connection};

use crate::driver::Driver;
use crate::redis::{Client, Server};

/// The lines of a script: the speaker, and the command. A line of `--` begins a new conversation.
const SAME_AS_REDIS: &str = include_str!("scripts.txt");

/// A script for a server with the password `secret`.
const WITH_A_PASSWORD: &str = "
a PING
a GET k
a nosuch
a GET
a HELLO
a HELLO 3
a HELLO 3 AUTH default wrong
a HELLO 3 AUTH other secret
a HELLO 3 AUTH default
a AUTH
a AUTH wrong
a AUTH default wrong
a AUTH other secret
a AUTH a b c
a MULTI
a EXEC
a AUTH secret
a SET k v
a RESET
a GET k
a AUTH default secret
a GET k
a AUTH wrong
a GET k
--
a RESET
a HELLO 2 AUTH default secret SETNAME me
a CLIENT GETNAME
a PING
";

fn words(line: &str) -> Vec<Vec<u8>> {
    let mut parser = kv::resp::Parser::default();
    let line = format!("{line}\n");
    let Ok(kv::resp::Parse::Request(request)) = parser.parse(line.as_bytes()) else {
        panic!("not a command line: {line}");
    };
    request.args().iter().map(|arg| arg.to_vec()).collect()
}

fn compare(scripts: &str, server: &Server, config: &Config) -> usize {
    let mut checked = 0;
    for script in scripts.split("--\n") {
        let mut driver = Driver::new(config.clone());
        let mut speakers: BTreeMap<&str, (Connection, Client)> = BTreeMap::new();
        let mut said = Vec::new();
        for line in script.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (who, command) = line.split_once(' ').unwrap();
            let (ours, theirs) =
                speakers.entry(who).or_insert_with(|| (driver.connect(), server.connect()));
            let args = words(command);
            let args: Vec<&[u8]> = args.iter().map(|arg| &arg[..]).collect();
            let found = without_id(&driver.call(ours, &args));
            let expected = without_id(&theirs.call(&args));
            said.push(line);
            assert!(
                found == expected,
                "{}\n redis: {}\n  ours: {}",
                said.join("\n"),
                expected.escape_ascii(),
                found.escape_ascii(),
            );
            checked += 1;
        }
        let (mut cleaner, flush) = (server.connect(), [&b"FLUSHALL"[..]]);
        if let Some(password) = &config.requirepass {
            cleaner.call(&[b"AUTH", password.as_bytes()]);
        }
        assert_eq!(cleaner.call(&flush), b"+OK\r\n");
    }
    checked
}

/// HELLO answers the number of the connection, which is Redis's or ours.
fn without_id(reply: &[u8]) -> Vec<u8> {
    const FIELD: &[u8] = b"$2\r\nid\r\n:";
    let (mut rest, mut kept) = (reply, Vec::new());
    while let Some(at) = rest.windows(FIELD.len()).position(|bytes| bytes == FIELD) {
        let (head, tail) = rest.split_at(at + FIELD.len());
        kept.extend_from_slice(head);
        rest = &tail[tail.iter().take_while(|byte| byte.is_ascii_digit()).count()..];
    }
    kept.extend_from_slice(rest);
    kept
}

#[test]
fn conversations_go_as_with_redis() {
    let server = Server::start();
    let checked = compare(SAME_AS_REDIS, &server, &Config::default());
    assert!(checked > 150, "the scripts have been cut short: {checked}");
}

#[test]
fn c6_a_password_is_asked_for_as_redis_does() {
    let server = Server::start();
    server.connect().call(&[b"CONFIG", b"SET", b"requirepass", b"secret"]);
    let config = Config { requirepass: Some("secret".to_owned()), ..Config::default() };
    let checked = compare(WITH_A_PASSWORD, &server, &config);
    assert!(checked > 25, "{checked}");
}

#[test]
fn what_is_sent_at_once_is_answered_as_redis_does() {
    let server = Server::start();
    let inputs: &[&[u8]] = &[
        b"SET k 1\r\nINCR k\r\nGET k\r\nGET k\r\nINCR k\r\nGET k\r\n",
        b"MULTI\r\nSET k 1\r\nGET k\r\nEXEC\r\nGET k\r\n",
        b"WATCH k\r\nMULTI\r\nSET k 2\r\nEXEC\r\nGET k\r\n",
        b"WATCH k\r\nSET k 3\r\nMULTI\r\nSET k 4\r\nEXEC\r\nGET k\r\n",
        b"WATCH k\r\nSET k 3\r\nUNWATCH\r\nMULTI\r\nSET k 4\r\nEXEC\r\nGET k\r\n",
        b"CLIENT REPLY OFF\r\nSET k 5\r\nGET k\r\nnosuch\r\nCLIENT REPLY ON\r\nGET k\r\n",
        b"CLIENT REPLY SKIP\r\nSET k 6\r\nGET k\r\n",
        b"CLIENT REPLY SKIP\r\nCLIENT REPLY SKIP\r\nGET k\r\nGET k\r\n",
        b"CLIENT REPLY OFF\r\nCLIENT REPLY SKIP\r\nGET k\r\nCLIENT REPLY ON\r\nPING\r\n",
        b"CLIENT REPLY SKIP\r\nCLIENT REPLY ON\r\nPING\r\n",
        b"CLIENT REPLY OFF\r\nRESET\r\nPING\r\n",
        b"CLIENT REPLY maybe\r\nPING\r\n",
        b"CLIENT REPLY OFF\r\nSUBSCRIBE a b\r\nPING\r\nUNSUBSCRIBE a b\r\nGET k\r\n",
        b"HELLO 3\r\nCLIENT REPLY OFF\r\nPSUBSCRIBE a*\r\nGET k\r\nCLIENT REPLY ON\r\n",
        b"CLIENT REPLY SKIP\r\nSUBSCRIBE a\r\nPING\r\n",
        b"PING\r\nQUIT\r\nPING\r\n",
        b"QUIT now please\r\nPING\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\n\r\nSET k 9\r\n",
        b"MULTI\r\nSET k 7\r\nQUIT\r\nEXEC\r\n",
        b"GET k\r\n*1\r\nx\r\nPING\r\n",
        b"SET k 1\r\n*1\r\n$x\r\nGET k\r\n",
        b"MULTI\r\nSET k 8\r\nRESET\r\nGET k\r\n",
        b"HELLO 3\r\nGET nosuchkey\r\nHELLO 2\r\nGET nosuchkey\r\n",
    ];
    for input in inputs {
        let mut driver = Driver::new(Config::default());
        let mut connection = driver.connect();
        let mut cleaner = server.connect();
        cleaner.call(&[b"FLUSHALL"]);
        let ours = without_id(&driver.feed(&mut connection, input));
        let theirs = without_id(&server.connect().raw(input));
        assert!(
            ours == theirs,
            "{}\n redis: {}\n  ours: {}",
            input.escape_ascii(),
            theirs.escape_ascii(),
            ours.escape_ascii(),
        );
        connection.end_of_input();
        assert!(connection.next_request().is_none());
        assert!(connection.is_finished());
    }
}

#[test]
fn client_info_has_the_fields_of_redis() {
    let server = Server::start();
    let mut driver = Driver::new(Config::default());
    let mut connection = driver.connect();
    let mut theirs = server.connect();
    let fields = |reply: &[u8]| -> Vec<String> {
        let text = String::from_utf8_lossy(reply).into_owned();
        let line = text.split("\r\n").nth(1).unwrap();
        line.trim_end().split(' ').map(|field| field.split('=').next().unwrap().into()).collect()
    };
    for command in [[&b"CLIENT"[..], b"INFO"], [b"CLIENT", b"LIST"]] {
        let (ours, theirs) = (driver.call(&mut connection, &command), theirs.call(&command));
        assert_eq!(fields(&ours), fields(&theirs));
    }
}

#[test]
fn what_differs_from_redis_is_said_clearly() {
    let mut driver = Driver::new(Config { memory_bytes_max: 5000, ..Config::default() });
    let mut connection = driver.connect();
    for (line, expected) in [
        ("CLUSTER SLOTS", "-ERR This instance has cluster support disabled\r\n"),
        ("SCRIPT DEBUG yes", "-ERR gregale has no debugger of scripts\r\n"),
        ("CLIENT TRACKING on", "-ERR gregale does not track what clients have read\r\n"),
        ("CONFIG GET maxmemory", "*2\r\n$9\r\nmaxmemory\r\n$4\r\n5000\r\n"),
        ("CONFIG GET *pass*", "*0\r\n"),
        ("CONFIG RESETSTAT", "+OK\r\n"),
        (
            "CONFIG SET maxmemory 7",
            "-ERR CONFIG SET failed (possibly related to argument 'maxmemory') - can't set \
             immutable config\r\n",
        ),
        ("MULTI", "+OK\r\n"),
        ("HELLO 3", "-ERR Command not allowed inside a transaction\r\n"),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n"),
        ("INFO", "$11\r\n# gregale\r\n\r\n"),
        ("WAIT 1 10", ":0\r\n"),
        ("WAIT x 10", "-ERR value is not an integer or out of range\r\n"),
        ("WAIT 1 x", "-ERR timeout is not an integer or out of range\r\n"),
        ("WAIT 1 -1", "-ERR timeout is negative\r\n"),
    ] {
        let args = words(line);
        let args: Vec<&[u8]> = args.iter().map(|arg| &arg[..]).collect();
        let found = driver.call(&mut connection, &args);
        assert_eq!(String::from_utf8_lossy(&found), expected, "{line}");
    }
}
