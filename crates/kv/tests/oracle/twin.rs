//! A store beside a real server: both get every command, and their replies are compared.

use std::time::{SystemTime, UNIX_EPOCH};

use kv::store::Db;
use kv::{Protocol, Reply, Store, command, resolve};

use crate::redis::{Client, Server};
use crate::value::Value;

/// The allowed difference between two replies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Compare {
    /// The same bytes.
    Bytes,
    /// The same values in some order.
    Sorted,
    /// The same kinds.
    Shape,
    /// Integers whose difference is at most this.
    Within(i64),
}

pub(crate) struct Twin {
    pub(crate) client: Client,
    pub(crate) store: Store,
    pub(crate) db: Db,
    reply: Reply,
}

impl Twin {
    pub(crate) fn new(server: &Server, protocol: Protocol) -> Twin {
        let mut client = server.connect();
        if protocol == Protocol::Resp3 {
            client.call(&[b"HELLO", b"3"]);
        }
        client.call(&[b"FLUSHALL"]);
        Twin { client, store: Store::new(0), db: Db::ZERO, reply: Reply::new(protocol) }
    }

    /// Runs the command on the store.
    pub(crate) fn ours(&mut self, args: &[&[u8]]) -> Vec<u8> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
        self.store.advance_time(now);
        self.reply.clear();
        if let Some(spec) = resolve(args, &mut self.reply) {
            if spec.name == "select" {
                self.select(args);
            } else if spec.is_for_store() {
                self.store.execute(self.db, spec, args, now, &mut self.reply);
            } else if spec.name.starts_with("command") {
                command::command(spec, args, &mut self.reply);
            } else {
                panic!("{} is the connection's, not the store's", spec.name);
            }
        }
        self.reply.as_bytes().to_vec()
    }

    /// Executes a command of the connection.
    fn select(&mut self, args: &[&[u8]]) {
        let number = std::str::from_utf8(args[1]).ok().and_then(|text| text.parse().ok());
        match number.and_then(Db::new) {
            Some(db) => {
                self.db = db;
                self.reply.ok();
            }
            None => self.reply.error("ERR DB index is out of range"),
        }
    }

    /// Runs the command on both.
    pub(crate) fn check(&mut self, args: &[&[u8]], compare: Compare) {
        let theirs = self.client.call(args);
        let ours = self.ours(args);
        let same = match compare {
            Compare::Bytes => ours == theirs,
            Compare::Sorted => Value::parse(&ours).sorted() == Value::parse(&theirs).sorted(),
            Compare::Shape => Value::parse(&ours).shape() == Value::parse(&theirs).shape(),
            Compare::Within(most) => {
                match (Value::parse(&ours).integer(), Value::parse(&theirs).integer()) {
                    (Some(a), Some(b)) => (a - b).abs() <= most,
                    _ => ours == theirs,
                }
            }
        };
        assert!(
            same,
            "{}\n redis: {}\n  ours: {}",
            args.iter().map(|arg| arg.escape_ascii().to_string()).collect::<Vec<_>>().join(" "),
            theirs.escape_ascii(),
            ours.escape_ascii(),
        );
    }

    /// Compares all keys, values and expiries. DBSIZE is not compared: Redis counts expired keys.
    pub(crate) fn check_content(&mut self) {
        self.store.check();
        let before = self.db;
        for db in Db::all() {
            self.check(&[b"SELECT", db.to_string().as_bytes()], Compare::Bytes);
            self.check(&[b"KEYS", b"*"], Compare::Sorted);
            let entries = self.store.entries_of(db);
            let keys: Vec<Vec<u8>> = entries.map(|entry| entry.key.to_vec()).collect();
            for key in keys {
                self.check(&[b"GET", &key], Compare::Bytes);
                self.check(&[b"PEXPIRETIME", &key], Compare::Within(2000));
            }
        }
        self.check(&[b"SELECT", before.to_string().as_bytes()], Compare::Bytes);
    }
}
