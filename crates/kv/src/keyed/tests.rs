//! Commands on registers.

use super::*;
use crate::command::{Args, lookup};
use crate::entry::command::{put_database, put_plain, put_versions};
use crate::reply::Protocol;
use crate::store::Db;
use base::Incarnation;

const VALUE_BYTES_MAX: usize = 100;

fn request(db: Db, words: &[&str]) -> Vec<u8> {
    let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let mut bytes = Vec::new();
    put_database(db, &mut bytes);
    put_plain(&args, Protocol::Resp2, &mut bytes);
    bytes
}

fn keys() -> Keys {
    Keys::new(VALUE_BYTES_MAX + 1, 0)
}

/// What a member that is alone does with a request.
fn run_in(keys: &mut Keys, db: Db, text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let request = request(db, &words);
    let whole = match keys.plan(&request) {
        Err(reply) => reply,
        Ok(Plan { keys: of, is_write }) => {
            let mut parts = Vec::new();
            for (at, key) in of.iter().enumerate() {
                let held = keys.register(key).map(|(tag, value)| (tag, value.to_vec()));
                let (tag, value) = held.unwrap_or((Tag::NONE, Vec::new()));
                let (mut new, mut part) = (Vec::new(), Vec::new());
                if keys.perform(&request, at, &value, &mut new, &mut part) {
                    assert!(is_write, "{text}");
                    let tag = Tag { counter: tag.counter + 1, rank: 0, run: Incarnation(1) };
                    keys.put_register(key, tag, &new);
                }
                parts.push(part);
            }
            let mut reply = Vec::new();
            keys.join(&request, &parts, &mut reply);
            reply
        }
    };
    String::from_utf8(whole).unwrap()
}

fn run(keys: &mut Keys, text: &str) -> String {
    run_in(keys, Db::ZERO, text)
}

#[test]
fn r3_replies_are_those_of_a_store() {
    let (mut keys, mut store) = (keys(), Store::new(0));
    for text in [
        "get a",
        "set a hello",
        "get a",
        "strlen a",
        "strlen b",
        "getrange a 1 3",
        "substr a 0 -2",
        "getrange b 0 -1",
        "bitcount a",
        "getbit a 1",
        "type a",
        "type b",
        "ttl a",
        "pttl b",
        "set b 5",
        "mget a b c a",
        "exists a b c a",
        "touch a c",
        "del c",
        "del a c a",
        "get a",
        "unlink b",
        "exists a b",
        "mset a 7",
        "mget a",
        "set a",
        "getrange a x y",
    ] {
        let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
        let mut expected = Reply::default();
        if let Some(spec) = resolve(&words, &mut expected) {
            store.execute(Db::ZERO, spec, &words, 0, &mut expected);
        }
        let expected = String::from_utf8(expected.take()).unwrap();
        assert_eq!(run(&mut keys, text), expected, "{text}");
        assert_eq!(keys.holding().keys, store.len() as u64, "{text}");
    }
}

#[test]
fn r2_what_a_register_cannot_do_is_refused() {
    let mut keys = keys();
    run(&mut keys, "set a 1");
    for (text, code, cause) in [
        ("mset a 1 b 2", "-CROSSSLOT", "one key"),
        ("rename a b", "-CROSSSLOT", "one key"),
        ("copy a b", "-CROSSSLOT", "one key"),
        ("bitop and d a b", "-CROSSSLOT", "one key"),
        ("lcs a b", "-CROSSSLOT", "one key"),
        ("msetnx a 1 b 2", "-CROSSSLOT", "one key"),
        ("set a 2 nx", "-ERR", "cannot decide"),
        ("set a 2 XX", "-ERR", "cannot decide"),
        ("set a 2 get", "-ERR", "cannot decide"),
        ("set a 2 nx ex 5", "-ERR", "cannot decide"),
        ("setnx a 2", "-ERR", "cannot decide"),
        ("incr a", "-ERR", "cannot decide"),
        ("incrbyfloat a 1", "-ERR", "cannot decide"),
        ("append a x", "-ERR", "cannot decide"),
        ("getset a x", "-ERR", "cannot decide"),
        ("getdel a", "-ERR", "cannot decide"),
        ("setrange a 1 x", "-ERR", "cannot decide"),
        ("setbit a 1 1", "-ERR", "cannot decide"),
        ("set a 2 ex 5", "-ERR", "expiry"),
        ("set a 2 keepttl", "-ERR", "expiry"),
        ("setex a 5 x", "-ERR", "expiry"),
        ("expire a 5", "-ERR", "expiry"),
        ("persist a", "-ERR", "expiry"),
        ("getex a", "-ERR", "expiry"),
        ("eval return 0", "-ERR", "scripts"),
        ("dbsize", "-ERR", "no two of them"),
        ("keys *", "-ERR", "no two of them"),
        ("scan 0", "-ERR", "no two of them"),
        ("flushall", "-ERR", "no two of them"),
        ("publish c m", "-ERR", "does not have this command"),
    ] {
        let reply = run(&mut keys, text);
        assert!(reply.starts_with(code) && reply.contains(cause), "{text}: {reply}");
        assert!(reply.contains("velos, mu, durable"), "{text}: {reply}");
    }
    assert_eq!(run(&mut keys, "get a"), "$1\r\n1\r\n", "nothing of that changed it");
}

/// Every write that the store knows is either known here, or refused.
#[test]
fn r2_no_write_that_reads_is_let_in() {
    let mut keys = keys();
    let writes = crate::command::all().filter(|spec| spec.is_for_store() && spec.is_write());
    let mut let_in: Vec<&str> = Vec::new();
    for spec in writes {
        let words: Vec<&str> = spec.name.split('|').chain(["1"; 6]).collect();
        let is_let_in = (1..=words.len()).any(|n| {
            let args: Args<'_> = words[..n].iter().map(|word| word.as_bytes()).collect();
            resolve(&args, &mut Reply::default()).is_some()
                && keys.plan(&request(Db::ZERO, &words[..n])).is_ok()
        });
        if is_let_in {
            let_in.push(spec.name);
        }
    }
    let_in.sort_unstable();
    assert_eq!(let_in, ["del", "mset", "set", "unlink"]);
    assert!(lookup(b"append").is_some_and(CommandSpec::is_write));
}

#[test]
fn what_is_no_plain_command_is_refused() {
    let mut keys = keys();
    let mut watch = Vec::new();
    put_versions(&[b"a"], &mut watch);
    for (request, cause) in [
        (watch.as_slice(), "no transactions"),
        (&[crate::backup::REQUEST][..], "no backups"),
        (&[crate::partition::SNAPSHOT_REQUEST][..], "no two of them"),
    ] {
        let reply = String::from_utf8(keys.plan(request).unwrap_err()).unwrap();
        assert!(reply.contains(cause), "{reply}");
    }
}

#[test]
fn values_and_keys_have_limits() {
    let mut keys = keys();
    let fits = format!("set a {}", "x".repeat(VALUE_BYTES_MAX));
    assert_eq!(run(&mut keys, &fits), "+OK\r\n");
    assert!(run(&mut keys, &format!("{fits}x")).contains("at most 100 bytes"));
    let many = |n: usize| format!("mget {}", vec!["k"; n].join(" "));
    assert!(run(&mut keys, &many(KEYS_MAX)).starts_with("*128\r\n"));
    assert!(run(&mut keys, &many(KEYS_MAX + 1)).contains("at most 128 keys"));
    let mut limited = Keys::new(VALUE_BYTES_MAX + 1, 1);
    assert_eq!(run(&mut limited, "set a 1"), "+OK\r\n");
    assert!(run(&mut limited, "set b 1").starts_with("-OOM"));
    assert_eq!(run(&mut limited, "del a"), ":1\r\n", "what frees memory is done");
}

#[test]
fn databases_are_apart_and_deleted_keys_keep_their_registers() {
    let mut keys = keys();
    let one = Db::new(1).unwrap();
    run(&mut keys, "set a 1");
    assert_eq!(run_in(&mut keys, one, "get a"), "$-1\r\n");
    run_in(&mut keys, one, "set a 2");
    assert_eq!(run(&mut keys, "get a"), "$1\r\n1\r\n");
    assert_eq!(keys.holding().databases[..2], [(1, 0), (1, 0)]);
    run(&mut keys, "del a");
    assert_eq!((keys.holding().keys, keys.registers.len()), (1, 2));
    assert!(keys.describe().contains("gregale_registers:2"));
    let walk: Vec<&[u8]> =
        std::iter::successors(keys.next_register(None), |(key, ..)| keys.next_register(Some(key)))
            .map(|(key, ..)| key)
            .collect();
    assert_eq!(walk, [&b"\0a"[..], b"\x01a"]);
}
