//! Keys that one connection alone uses, in half of the runs: writes and reads of them are sent one
//! behind the other, without waiting for answers, and lie in any database.
//!
//! The judge of linearizability sees such requests overlap. A connection is promised more: it sees
//! its own order (C2 of the door, I1 of the engine's outbox, E2 of keyed members).
//!
//! - W1 a read shows what the last write before it left, or a write whose end is unknown and which
//!   may take effect at any time. By [`Own::settle`]: answers come in the order of the requests.
//! - W2 of a log, a client may have a database for itself: it is emptied by that client alone, in
//!   the connection's order (W1). A flush of unknown end may come at any time, so later connections
//!   use another database. By [`Owns::database`].
//! - W3 a database that is selected within a transaction is selected behind it: a read there sees
//!   the transaction's write. One whose watched key has changed selects nothing: a read behind it
//!   finds the database that was selected before. By [`Own::settle`].
//! - W4 a request that is over a limit of the store is refused, and so is the transaction in which
//!   it stands: nothing of it has an effect (W1). By [`Own::settle`].
//! - W6 of partitions, a write is not overtaken by a later one of its connection that shares a
//!   partition with it, whatever stands between the two: the key is written together with another
//!   one, then a third key, then the key alone, and a read shows the last write (W1).
//! - W7 a transaction that is discarded has no effect, and what was watched for it does not keep
//!   the next one from its effect (W1). By [`Own::settle`].
//! - W5 what is drawn here changes nothing that is drawn elsewhere. By [`Owns::draw`], with a
//!   generator of its own.

use super::kinds::Protocol;
use super::resp::{self, Value, may_pass};
use super::wipes::Wipes;
use base::Rng;
use kv::store::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// The most requests at a time.
const BATCH_MAX: u64 = 8;
/// The databases of the store.
const DATABASES: u64 = 16;
/// Those that clients share; the others are for one client each (W2).
const SHARED: u64 = 10;

/// The requests of all clients about their own keys.
#[derive(Debug)]
pub(super) struct Owns {
    rng: Rng,
    is_on: bool,
    /// Whether clients flush, and select within transactions.
    has_all: bool,
    /// Whether keys are in partitions (W6).
    has_partitions: bool,
    n_values: u64,
    /// The flushes of each client's own database whose end is not known (W2).
    n_flushing: [u32; (DATABASES - SHARED) as usize],
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Set(Vec<u8>),
    /// The same, together with another key.
    Both(Vec<u8>),
    /// Writes a third key.
    Beside(Vec<u8>),
    Get,
    /// Empties the database.
    Flush,
    /// Selects the database and writes, in a transaction.
    Bundle(Vec<u8>),
    /// Reads behind that one.
    GetBehind,
    /// Watches the key in the database of all, changes it, and selects and writes in a transaction,
    /// which is not executed.
    Spoil {
        value: Vec<u8>,
        late: Vec<u8>,
    },
    /// Reads behind that one.
    GetSpoiled,
    /// Watches the key, changes it, writes in a transaction that is discarded, and writes in
    /// another one (W7).
    Discard {
        /// The change.
        value: Vec<u8>,
        /// What is discarded.
        never: Vec<u8>,
        /// What stays.
        last: Vec<u8>,
    },
    /// Begins a transaction that will be refused (W4).
    Multi,
    /// Writes in it.
    Queued(Vec<u8>),
    /// A write of a key or a value over the limit, there or alone.
    Over(Limit),
    /// Ends it.
    Exec,
}

impl Act {
    /// Whether it is one, or begins one: what is watched ends by that.
    pub(super) fn is_transaction(&self) -> bool {
        let is_whole = matches!(self, Act::Bundle(_) | Act::Spoil { .. } | Act::Discard { .. });
        is_whole || *self == Act::Multi
    }
}

/// The limit that a request is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    Key,
    Value,
}

/// The key of one connection, and what its client knows of it.
#[derive(Debug, Default)]
pub(super) struct Own {
    key: Vec<u8>,
    database: u64,
    /// What the last answered write left.
    last: Option<Vec<u8>>,
    /// What writes of unknown end may leave at any time.
    late: Vec<Vec<u8>>,
    /// What was written to the database of all beside its own.
    spoils: Vec<Vec<u8>>,
    /// Whether a flush may come at any time.
    may_be_flushed: bool,
    /// Whether the last transaction was not executed, or perhaps not, so that it is not known which
    /// database is selected.
    is_lost: bool,
}

impl Owns {
    /// W5.
    pub(super) fn draw(seed: u64, of: Protocol, wipes: &Wipes) -> Owns {
        let mut rng = Rng::new(seed ^ 0x6f77_6e73);
        let is_on = !of.replicates_program() && rng.chance(1, 2) && !wipes.is_on;
        let (has_all, has_partitions) = (of.has_leases(), of.replicas().is_some());
        Owns { is_on, has_all, has_partitions, rng, n_values: 0, n_flushing: [0; 6] }
    }

    /// The database of a new connection.
    pub(super) fn database(&mut self, client: u64) -> u64 {
        let is_other = self.is_on && self.rng.chance(1, 2);
        let database = if is_other { self.rng.below(DATABASES) } else { 0 };
        if database < SHARED || !self.has_all {
            return database;
        }
        // W2
        let its = self.n_flushing.get(client as usize).filter(|n| **n == 0);
        its.map_or(0, |_| SHARED + client)
    }

    /// The next requests about this key, all sent at once; often none.
    pub(super) fn think(&mut self, own: &Own) -> Vec<Act> {
        if !self.is_on || !self.rng.chance(1, 4) {
            return Vec::new();
        }
        let n = self.rng.range(2, BATCH_MAX);
        (0..n).flat_map(|_| self.act(own)).collect()
    }

    fn act(&mut self, own: &Own) -> Vec<Act> {
        if self.rng.chance(1, 2) {
            return vec![Act::Get];
        }
        self.n_values += 1;
        let value = self.n_values.to_string().into_bytes();
        if self.has_partitions && self.rng.chance(1, 4) {
            self.n_values += 1;
            let last = self.n_values.to_string().into_bytes();
            return vec![Act::Both(value.clone()), Act::Beside(value), Act::Set(last), Act::Get];
        }
        if self.has_all && self.rng.chance(1, 8) {
            let is_private = own.database >= SHARED;
            if own.database != 0 && !is_private && self.rng.chance(1, 2) {
                self.n_values += 1;
                let late = self.n_values.to_string().into_bytes();
                return vec![Act::Spoil { value, late }, Act::GetSpoiled];
            }
            return if is_private {
                vec![Act::Flush]
            } else {
                vec![Act::Bundle(value), Act::GetBehind]
            };
        }
        if self.has_all && self.rng.chance(1, 16) {
            let [never, last] = [1, 2].map(|n| (self.n_values + n).to_string().into_bytes());
            self.n_values += 2;
            return vec![Act::Discard { value, never, last }, Act::Get];
        }
        if self.has_all && self.rng.chance(1, 8) {
            // (Values over the limit are half a megabyte, so there are few.)
            let limit = if self.rng.chance(1, 16) { Limit::Value } else { Limit::Key };
            if self.rng.chance(1, 4) {
                return vec![Act::Over(limit)];
            }
            let mut acts = vec![Act::Multi, Act::Queued(value), Act::Over(limit), Act::Exec];
            if self.rng.chance(1, 2) {
                acts.swap(1, 2);
            }
            return acts;
        }
        vec![Act::Set(value)]
    }

    /// Notes that a client begins to empty its database.
    pub(super) fn flushes(&mut self, client: u64) {
        self.n_flushing[client as usize] += 1;
    }

    /// Notes that this was done, or surely not.
    pub(super) fn has_flushed(&mut self, client: u64) {
        self.n_flushing[client as usize] -= 1;
    }
}

impl Own {
    /// That of a new connection.
    pub(super) fn new(key: Vec<u8>, database: u64) -> Own {
        Own { key, database, ..Own::default() }
    }

    /// Appends the bytes of a request. Returns how many words it is answered with before its own
    /// answer, and how many behind it.
    pub(super) fn put(&self, act: &Act, out: &mut Vec<u8>) -> (usize, usize) {
        let mut say = |words: &[&[u8]]| resp::request(words, out);
        let database = self.database.to_string();
        let select: [&[u8]; 2] = [b"SELECT", database.as_bytes()];
        // The read behind a transaction finds its database selected (W3).
        let is_behind = matches!(act, Act::GetBehind | Act::GetSpoiled);
        let is_bundle = matches!(act, Act::Bundle(_) | Act::Spoil { .. });
        let selects = self.database != 0 && !is_bundle && !is_behind;
        if selects {
            say(&select);
        }
        let [second, third] = [&b":2"[..], b":3"].map(|end| [&self.key[..], end].concat());
        match act {
            Act::Set(value) => say(&[b"SET", &self.key, value]),
            Act::Both(value) => say(&[b"MSET", &self.key, value, &second, value]),
            Act::Beside(value) => say(&[b"SET", &third, value]),
            Act::Get | Act::GetBehind | Act::GetSpoiled => say(&[b"GET", &self.key]),
            Act::Flush => say(&[b"FLUSHDB"]),
            Act::Multi => say(&[b"MULTI"]),
            Act::Queued(value) => say(&[b"SET", &self.key, value]),
            Act::Over(Limit::Key) => say(&[b"SET", &vec![b'k'; KEY_BYTES_MAX + 1], b"1"]),
            Act::Over(Limit::Value) => say(&[b"SET", &self.key, &vec![b'v'; VALUE_BYTES_MAX + 1]]),
            Act::Exec => say(&[b"EXEC"]),
            Act::Discard { value, never, last } => {
                say(&[b"WATCH", &self.key]);
                say(&[b"SET", &self.key, value]);
                say(&[b"MULTI"]);
                say(&[b"SET", &self.key, never]);
                say(&[b"DISCARD"]);
                say(&[b"MULTI"]);
                say(&[b"SET", &self.key, last]);
                say(&[b"EXEC"]);
            }
            Act::Bundle(value) => {
                say(&[b"MULTI"]);
                say(&select);
                say(&[b"SET", &self.key, value]);
                say(&[b"GET", &self.key]);
                say(&[b"EXEC"]);
                return (4, 0);
            }
            Act::Spoil { value, late } => {
                say(&[b"WATCH", &self.key]);
                say(&[b"SET", &self.key, value]);
                say(&[b"MULTI"]);
                say(&select);
                say(&[b"SET", &self.key, late]);
                say(&[b"EXEC"]);
                return (5, 0);
            }
        }
        if selects || is_behind {
            say(&[b"SELECT", b"0"]);
        }
        let n_before = if matches!(act, Act::Discard { .. }) { 7 } else { 0 };
        (n_before + usize::from(selects), usize::from(selects || is_behind))
    }

    /// W1, W3, and so I14. False if the request was refused, or its end is unknown.
    ///
    /// # Errors
    /// What a client of this connection may not see.
    pub(super) fn settle(&mut self, act: Act, value: Value) -> Result<bool, String> {
        if let (
            Act::Set(written)
            | Act::Both(written)
            | Act::Bundle(written)
            | Act::Spoil { late: written, .. }
            | Act::Discard { last: written, .. },
            Value::Error(why),
        ) = (&act, &value)
            && why.starts_with("UNKNOWN ")
        {
            self.late.push(written.clone());
        }
        if let Act::Discard { value, .. } = &act {
            // (It may be of unknown end.)
            self.late.push(value.clone());
        }
        if let Act::Spoil { value, .. } = &act {
            self.spoils.push(value.clone());
        }
        match (&act, &value) {
            (Act::Bundle(_) | Act::Spoil { .. }, Value::Error(_)) => self.is_lost = true,
            (Act::Bundle(_), _) => self.is_lost = false,
            // (It is executed where the write before it was refused.)
            (Act::Spoil { .. }, Value::List(list)) => self.is_lost = list.is_some(),
            (Act::Flush, Value::Error(why)) => self.may_be_flushed |= why.starts_with("UNKNOWN "),
            _ => {}
        }
        let is_ok = |value: &Value| matches!(value, Value::Text(word) if word == "OK");
        match (act, value) {
            // W4, and so I22
            (Act::Exec, Value::Error(why)) if why.starts_with("EXECABORT ") => {}
            (Act::Exec, value) => return Err(format!("{value:?} behind a request over a limit")),
            (Act::Over(_), Value::Error(why)) if is_over(&why) => {}
            (Act::Multi, answer) if is_ok(&answer) => {}
            (Act::Queued(_), Value::Text(word)) if word == "QUEUED" => {}
            (_, Value::Error(why)) if may_pass(&why) => return Ok(false),
            (Act::Set(value) | Act::Both(value), answer) if is_ok(&answer) => {
                self.last = Some(value);
            }
            (Act::Beside(_), answer) if is_ok(&answer) => {}
            (Act::Flush, answer) if is_ok(&answer) => self.last = None,
            (Act::Bundle(value), Value::List(Some(list)))
                if matches!(&list[..], [selected, set, Value::Bytes(Some(seen))]
                    if is_ok(selected) && is_ok(set) && *seen == value) =>
            {
                self.last = Some(value);
            }
            (Act::Discard { last, .. }, Value::List(Some(list)))
                if list.len() == 1 && is_ok(&list[0]) =>
            {
                self.last = Some(last);
            }
            (Act::Spoil { .. }, Value::List(None)) => {}
            (Act::Spoil { late, .. }, Value::List(Some(list)))
                if list.len() == 2 && list.iter().all(is_ok) =>
            {
                self.last = Some(late);
            }
            (Act::GetBehind | Act::GetSpoiled, Value::Bytes(_)) if self.is_lost => {}
            (Act::GetSpoiled, Value::Bytes(seen)) => {
                if seen.as_ref().is_some_and(|seen| !self.spoils.contains(seen)) {
                    return Err(self.wrong(seen));
                }
            }
            (Act::Get | Act::GetBehind, Value::Bytes(seen)) => {
                let may_be_late = match &seen {
                    Some(seen) => self.late.contains(seen),
                    None => self.may_be_flushed,
                };
                if seen != self.last && !may_be_late {
                    return Err(self.wrong(seen));
                }
            }
            (act, value) => return Err(format!("{value:?} is no answer to {act:?}")),
        }
        Ok(true)
    }

    fn wrong(&self, seen: Option<Vec<u8>>) -> String {
        let shown = |value: Option<Vec<u8>>| {
            value.map_or("nothing".to_owned(), |value| String::from_utf8_lossy(&value).into_owned())
        };
        let (key, seen) = (String::from_utf8_lossy(&self.key), shown(seen));
        format!("{key} shows {seen} behind this connection's write of {}", shown(self.last.clone()))
    }
}

/// Whether this error names a limit of keys or values.
fn is_over(why: &str) -> bool {
    ["ERR key is longer", "ERR string exceeds"].iter().any(|word| why.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(value: &str) -> Act {
        Act::Set(value.as_bytes().to_vec())
    }

    fn shown(value: Option<&str>) -> Value {
        Value::Bytes(value.map(|value| value.as_bytes().to_vec()))
    }

    #[test]
    fn w1_a_read_that_misses_the_write_before_it_is_noticed() {
        let mut own = Own::new(b"own".to_vec(), 0);
        let ok = || Value::Text("OK".to_owned());
        assert_eq!(own.settle(Act::Get, shown(None)), Ok(true));
        assert_eq!(own.settle(set("1"), ok()), Ok(true));
        assert!(own.settle(Act::Get, shown(None)).is_err());
        assert_eq!(own.settle(set("2"), ok()), Ok(true));
        assert!(own.settle(Act::Get, shown(Some("1"))).is_err());
        let unknown = Value::Error("UNKNOWN the outcome".to_owned());
        assert_eq!(own.settle(set("3"), unknown), Ok(false));
        assert_eq!(own.settle(Act::Get, shown(Some("3"))), Ok(true), "it came");
        assert_eq!(own.settle(Act::Get, shown(Some("2"))), Ok(true), "it has not come yet");
        let refused = Value::Error("TRYAGAIN no leader".to_owned());
        assert_eq!(own.settle(set("4"), refused), Ok(false));
        assert!(own.settle(Act::Get, shown(Some("4"))).is_err(), "it was refused");
    }

    #[test]
    fn w6_a_write_that_was_overtaken_by_a_later_one_is_noticed() {
        let mut own = Own::new(b"own".to_vec(), 0);
        let ok = || Value::Text("OK".to_owned());
        for act in [Act::Both(b"1".to_vec()), Act::Beside(b"1".to_vec()), set("2")] {
            assert_eq!(own.settle(act, ok()), Ok(true));
        }
        assert!(own.settle(Act::Get, shown(Some("1"))).is_err());
        assert_eq!(own.settle(Act::Get, shown(Some("2"))), Ok(true));
        let mut out = Vec::new();
        own.put(&Act::Both(b"1".to_vec()), &mut out);
        assert!(out.starts_with(b"*5\r\n$4\r\nMSET\r\n$3\r\nown\r\n"));
    }

    #[test]
    fn w2_what_a_flush_leaves_is_noticed() {
        let mut own = Own::new(b"own".to_vec(), 12);
        let ok = || Value::Text("OK".to_owned());
        assert_eq!(own.settle(set("1"), ok()), Ok(true));
        assert_eq!(own.settle(Act::Flush, ok()), Ok(true));
        assert!(own.settle(Act::Get, shown(Some("1"))).is_err());
        assert_eq!(own.settle(set("2"), ok()), Ok(true));
        assert!(own.settle(Act::Get, shown(None)).is_err(), "it came before");
        let unknown = Value::Error("UNKNOWN the outcome".to_owned());
        assert_eq!(own.settle(Act::Flush, unknown), Ok(false));
        assert_eq!(own.settle(Act::Get, shown(None)), Ok(true), "it may have come");
        assert_eq!(own.settle(Act::Get, shown(Some("2"))), Ok(true), "or not yet");
    }

    #[test]
    fn w3_a_read_in_another_database_than_the_transaction_selected_is_noticed() {
        let mut own = Own::new(b"own".to_vec(), 3);
        let ok = || Value::Text("OK".to_owned());
        let bundle = || Act::Bundle(b"1".to_vec());
        let list = |seen| Value::List(Some(vec![ok(), ok(), shown(seen)]));
        assert!(own.settle(bundle(), list(None)).is_err());
        assert_eq!(own.settle(bundle(), list(Some("1"))), Ok(true));
        assert!(own.settle(Act::GetBehind, shown(None)).is_err());
        let unknown = Value::Error("UNKNOWN the outcome".to_owned());
        assert_eq!(own.settle(Act::Bundle(b"2".to_vec()), unknown), Ok(false));
        assert_eq!(own.settle(Act::GetBehind, shown(None)), Ok(true), "nobody knows where");
        assert_eq!(own.settle(Act::Get, shown(Some("2"))), Ok(true), "it came");
    }

    #[test]
    fn w3_a_read_in_the_database_that_a_transaction_would_have_selected_is_noticed() {
        let mut own = Own::new(b"own".to_vec(), 3);
        let ok = || Value::Text("OK".to_owned());
        let spoil = || Act::Spoil { value: b"2".to_vec(), late: b"3".to_vec() };
        assert_eq!(own.settle(set("1"), ok()), Ok(true));
        assert_eq!(own.settle(spoil(), Value::List(None)), Ok(true));
        assert_eq!(own.settle(Act::GetSpoiled, shown(Some("2"))), Ok(true));
        assert!(own.settle(Act::GetSpoiled, shown(Some("1"))).is_err());
        assert_eq!(own.settle(Act::Get, shown(Some("1"))), Ok(true));
        let executed = Value::List(Some(vec![ok(), ok()]));
        assert_eq!(own.settle(spoil(), executed), Ok(true), "the write before it was refused");
        assert_eq!(own.settle(Act::Get, shown(Some("3"))), Ok(true));
    }

    #[test]
    fn w4_an_effect_of_a_refused_transaction_is_noticed() {
        let mut own = Own::new(b"own".to_vec(), 0);
        let error = |why: &str| Value::Error(why.to_owned());
        let (ok, queued) = (Value::Text("OK".to_owned()), Value::Text("QUEUED".to_owned()));
        assert_eq!(own.settle(Act::Multi, ok.clone()), Ok(true));
        assert_eq!(own.settle(Act::Queued(b"1".to_vec()), queued), Ok(true));
        let over = || Act::Over(Limit::Key);
        assert_eq!(own.settle(over(), error("ERR key is longer than 9 bytes")), Ok(true));
        assert!(own.settle(over(), ok.clone()).is_err(), "it was taken");
        assert!(own.settle(Act::Exec, Value::List(Some(vec![ok]))).is_err(), "it was executed");
        assert!(own.settle(Act::Exec, error("UNKNOWN the outcome")).is_err(), "it was sent");
        assert_eq!(own.settle(Act::Exec, error("EXECABORT discarded")), Ok(true));
        assert!(own.settle(Act::Get, shown(Some("1"))).is_err(), "it had an effect");
        assert_eq!(own.settle(Act::Get, shown(None)), Ok(true));
    }

    #[test]
    fn w7_an_effect_of_a_discarded_transaction_is_noticed() {
        let mut own = Own::new(b"own".to_vec(), 0);
        let bytes = |text: &str| text.as_bytes().to_vec();
        let act = || Act::Discard { value: bytes("1"), never: bytes("2"), last: bytes("3") };
        assert!(own.settle(act(), Value::List(None)).is_err(), "a key was watched still");
        let ok = Value::Text("OK".to_owned());
        let both = Value::List(Some(vec![ok.clone(), ok.clone()]));
        assert!(own.settle(act(), both).is_err(), "both transactions are one");
        assert_eq!(own.settle(act(), Value::List(Some(vec![ok]))), Ok(true));
        assert!(own.settle(Act::Get, shown(Some("2"))).is_err(), "it was executed");
        assert_eq!(own.settle(Act::Get, shown(Some("3"))), Ok(true));
    }

    #[test]
    fn a_key_of_another_database_is_between_two_selects() {
        let mut out = Vec::new();
        assert_eq!(Own::new(b"k".to_vec(), 3).put(&Act::Get, &mut out), (1, 1));
        assert!(out.starts_with(b"*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n"));
        assert!(out.ends_with(b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n"));
    }
}
