//! The oracle: a real redis-server, and a store that must give the same answers.
//!
//! Redis is Debian's 7.0. Replies are compared byte by byte, except where Redis itself promises
//! less: the order of KEYS, the position of a SCAN cursor, the time that passes between two calls.

mod random;
mod redis;
mod requests;
mod twin;
mod value;

use kv::resp::{Parse, Parser};
use kv::{Protocol, Store, command};

use redis::Server;
use twin::{Compare, Twin};
use value::Value;

/// Command lines as redis-cli takes them; `@word` before one selects the comparison.
const LINES: &str = concat!(include_str!("lines.txt"), include_str!("scripts.txt"));

#[test]
fn every_command_line_is_answered_as_redis_does() {
    let server = Server::start();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let mut twin = Twin::new(&server, protocol);
        let mut parser = Parser::default();
        let mut checked = 0;
        for line in LINES.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (compare, line) = match line.split_once(' ') {
                Some(("@sorted", rest)) => (Compare::Sorted, rest),
                Some(("@shape", rest)) => (Compare::Shape, rest),
                Some(("@ms", rest)) => (Compare::Within(2000), rest),
                Some(("@s", rest)) => (Compare::Within(2), rest),
                _ => (Compare::Bytes, line),
            };
            let line = format!("{line}\n");
            let Ok(Parse::Request(request)) = parser.parse(line.as_bytes()) else {
                panic!("not a command line: {line}");
            };
            twin.check(&request.args(), compare);
            checked += 1;
        }
        assert!(checked > 400, "the table has been cut short: {checked}");
        twin.check_content();
    }
}

/// The tip that Redis does not give (docs/sessions.md).
const NUMBERED: &str = "gregale:numbered";

/// The commands that are not in Redis's table, at least not outside of its sentinels.
const OURS: [&str; 2] = ["quit", "sentinel"];

#[test]
fn every_command_is_described_as_redis_describes_it() {
    let server = Server::start();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let mut twin = Twin::new(&server, protocol);
        for spec in command::all()
            .filter(|spec| !OURS.contains(&spec.name) && !spec.name.starts_with("gregale."))
        {
            let name = spec.name.as_bytes();
            // The order of subcommands depends on Redis's seed.
            let compare =
                if spec.subcommands.is_empty() { Compare::Bytes } else { Compare::Sorted };
            let request: &[&[u8]] = &[b"COMMAND", b"INFO", name];
            let (ours, theirs) = (twin.ours(request), twin.client.call(request));
            let facts = Value::parse(&ours).without(NUMBERED);
            // (Those of which we tell more are compared by their values.)
            match compare {
                Compare::Bytes if facts == Value::parse(&ours) => assert_eq!(ours, theirs),
                Compare::Bytes => assert_eq!(facts, Value::parse(&theirs), "{}", spec.name),
                _ => assert_eq!(facts.sorted(), Value::parse(&theirs).sorted(), "{}", spec.name),
            }
            let request: &[&[u8]] = &[b"COMMAND", b"DOCS", name];
            let (ours, theirs) = (twin.ours(request), twin.client.call(request));
            let (ours, theirs) = (Value::parse(&ours), Value::parse(&theirs));
            for field in ["summary", "since", "group"] {
                assert_eq!(field_of(&ours, field), field_of(&theirs, field), "{}", spec.name);
            }
        }
    }
}

/// A field of the description of the only command in a reply of COMMAND DOCS.
fn field_of(docs: &Value, field: &str) -> Value {
    let Value::Many(_, commands) = docs else { panic!("{docs:?}") };
    let Value::Many(_, fields) = &commands[1] else { panic!("{docs:?}") };
    let mut pairs = fields.chunks_exact(2);
    pairs.find(|pair| pair[0] == Value::Bulk(field.into())).expect("the field is there")[1].clone()
}

#[test]
fn over_the_memory_limit_writes_are_refused_as_redis_refuses_them() {
    let server = Server::start();
    let mut twin = Twin::new(&server, Protocol::Resp2);
    for (name, args) in [("k", "v"), ("n", "5")] {
        twin.check(&[b"SET", name.as_bytes(), args.as_bytes()], Compare::Bytes);
    }
    // The value is above its own size at once, as one byte is above Redis's.
    let mut limited = Store::restore(1, twin.store.counters()).unwrap();
    for entry in twin.store.entries() {
        limited.restore_entry(entry).unwrap();
    }
    twin.store = limited;
    twin.client.call(&[b"CONFIG", b"SET", b"maxmemory", b"1"]);
    let lines: [&[&[u8]]; 10] = [
        &[b"SET", b"k", b"v"],
        &[b"APPEND", b"k", b"v"],
        &[b"INCR", b"n"],
        &[b"MSET", b"a", b"b"],
        &[b"COPY", b"k", b"l"],
        &[b"GET", b"k"],
        &[b"GETEX", b"k"],
        &[b"RENAME", b"k", b"l"],
        &[b"EXPIRE", b"l", b"100"],
        &[b"DEL", b"l"],
    ];
    for line in lines {
        twin.check(line, Compare::Bytes);
    }
}

#[test]
fn a_scan_returns_what_redis_holds() {
    let server = Server::start();
    let mut twin = Twin::new(&server, Protocol::Resp2);
    for number in 0..500 {
        let key = format!("key:{number}");
        twin.check(&[b"SET", key.as_bytes(), b"v"], Compare::Bytes);
    }
    let scan = |call: &mut dyn FnMut(&[&[u8]]) -> Vec<u8>| {
        let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
        loop {
            let request: [&[u8]; 6] =
                [b"SCAN", cursor.as_bytes(), b"MATCH", b"*[1-5]", b"COUNT", b"7"];
            let Value::Many(_, parts) = Value::parse(&call(&request)) else { panic!("no array") };
            let [Value::Bulk(next), Value::Many(_, keys)] = &parts[..] else { panic!("{parts:?}") };
            found.extend(keys.clone());
            if next == "0" {
                found.sort();
                return found;
            }
            cursor = next.clone();
        }
    };
    let ours = scan(&mut |args| twin.ours(args));
    let mut theirs = scan(&mut |args| twin.client.call(args));
    // Redis may return a key twice.
    theirs.dedup();
    assert_eq!(ours, theirs);
    assert_eq!(ours.len(), 250);
}

/// Each restores what the other has dumped: short and long values, values that Redis compresses,
/// and numbers.
#[test]
fn payloads_go_to_and_from_redis() {
    let server = Server::start();
    let mut twin = Twin::new(&server, Protocol::Resp2);
    let mut rng = base::Rng::new(5);
    for round in 0..400u64 {
        let value: Vec<u8> = match round % 4 {
            0 => (0..rng.below(40)).map(|_| rng.next_u64() as u8).collect(),
            // Well compressible values, with references that overlap their output.
            1 => (0..rng.below(20_000)).map(|at| b'a' + (at / 97 % 3) as u8).collect(),
            2 => (0..rng.below(500)).map(|_| b'a' + rng.below(4) as u8).collect(),
            _ => (rng.next_u64() as i64 >> rng.below(64)).to_string().into_bytes(),
        };
        twin.check(&[b"SET", b"k", &value], Compare::Bytes);
        let Some(theirs) = bulk_of(&twin.client.call(&[b"DUMP", b"k"])) else {
            panic!("a payload")
        };
        let Some(ours) = bulk_of(&twin.ours(&[b"DUMP", b"k"])) else { panic!("a payload") };
        for payload in [theirs, ours] {
            let restore: [&[u8]; 5] = [b"RESTORE", b"k", b"0", &payload, b"REPLACE"];
            twin.check(&restore, Compare::Bytes);
            twin.check(&[b"GET", b"k"], Compare::Bytes);
            let mut damaged = payload.clone();
            let at = rng.below(damaged.len() as u64) as usize;
            damaged[at] ^= 1;
            twin.check(&[b"RESTORE", b"k", b"0", &damaged, b"REPLACE"], Compare::Bytes);
        }
        let at = (4_000_000_000_000u64 + round).to_string();
        let dumped = twin.client.call(&[b"DUMP", b"k"]);
        let Some(payload) = bulk_of(&dumped) else { panic!("a payload") };
        let until: [&[u8]; 6] = [b"RESTORE", b"k", at.as_bytes(), &payload, b"REPLACE", b"ABSTTL"];
        twin.check(&until, Compare::Bytes);
        twin.check(&[b"PEXPIRETIME", b"k"], Compare::Bytes);
    }
}

/// The bytes of a reply that is one string.
fn bulk_of(reply: &[u8]) -> Option<Vec<u8>> {
    let end = reply.windows(2).position(|pair| pair == b"\r\n")?;
    reply.starts_with(b"$").then(|| reply[end + 2..reply.len() - 2].to_vec())
}
