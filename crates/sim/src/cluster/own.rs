//! Keys that one connection alone uses, in half of the runs: writes and reads of them are sent one
//! behind the other, without waiting for answers, and lie in any database.
//!
//! The judge of linearizability sees such requests overlap. A connection is promised more: it sees
//! its own order (C2 of the door, I1 of the engine's outbox, E2 of keyed members).
//!
//! - W1 a read shows what the last write before it left, or a write whose end is unknown and which
//!   may take effect at any time. By [`Own::settle`]: answers come in the order of the requests.
//! - W2 what is drawn here changes nothing that is drawn elsewhere. By [`Owns::draw`], with a
//!   generator of its own.

use super::resp::{self, Value, may_pass};
use base::Rng;

/// The most requests at a time.
const BATCH_MAX: u64 = 8;
/// The databases of the store.
const DATABASES: u64 = 16;

/// The requests of all clients about their own keys.
#[derive(Debug)]
pub(super) struct Owns {
    rng: Rng,
    is_on: bool,
    n_values: u64,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Set(Vec<u8>),
    Get,
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
}

impl Owns {
    /// W2. `can_be`: whether clients of such a cluster have keys of their own.
    pub(super) fn draw(seed: u64, can_be: bool) -> Owns {
        let mut rng = Rng::new(seed ^ 0x6f77_6e73);
        Owns { is_on: can_be && rng.chance(1, 2), rng, n_values: 0 }
    }

    /// The database of a new connection.
    pub(super) fn database(&mut self) -> u64 {
        if self.is_on && self.rng.chance(1, 2) { self.rng.below(DATABASES) } else { 0 }
    }

    /// The next requests, all sent at once; often none.
    pub(super) fn think(&mut self) -> Vec<Act> {
        if !self.is_on || !self.rng.chance(1, 4) {
            return Vec::new();
        }
        let n = self.rng.range(2, BATCH_MAX);
        (0..n).map(|_| self.act()).collect()
    }

    fn act(&mut self) -> Act {
        if self.rng.chance(1, 2) {
            return Act::Get;
        }
        self.n_values += 1;
        Act::Set(self.n_values.to_string().into_bytes())
    }
}

impl Own {
    /// That of a new connection.
    pub(super) fn new(key: Vec<u8>, database: u64) -> Own {
        Own { key, database, last: None, late: Vec::new() }
    }

    /// Appends the bytes of a request. True if it is between two SELECTs, which are answered too.
    pub(super) fn put(&self, act: &Act, out: &mut Vec<u8>) -> bool {
        let selects = self.database != 0;
        if selects {
            resp::request(&[b"SELECT", self.database.to_string().as_bytes()], out);
        }
        match act {
            Act::Set(value) => resp::request(&[b"SET", &self.key, value], out),
            Act::Get => resp::request(&[b"GET", &self.key], out),
        }
        if selects {
            resp::request(&[b"SELECT", b"0"], out);
        }
        selects
    }

    /// W1, and so I14. False if the request was refused, or its end is unknown.
    ///
    /// # Errors
    /// What a client of this connection may not see.
    pub(super) fn settle(&mut self, act: Act, value: Value) -> Result<bool, String> {
        match (act, value) {
            (Act::Set(value), Value::Text(word)) if word == "OK" => self.last = Some(value),
            (Act::Set(value), Value::Error(why)) if may_pass(&why) => {
                if why.starts_with("UNKNOWN ") {
                    self.late.push(value);
                }
                return Ok(false);
            }
            (Act::Get, Value::Error(why)) if may_pass(&why) => return Ok(false),
            (Act::Get, Value::Bytes(seen)) => {
                let is_late = |seen| self.late.contains(seen);
                if seen != self.last && !seen.as_ref().is_some_and(is_late) {
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
    fn a_key_of_another_database_is_between_two_selects() {
        let mut out = Vec::new();
        assert!(Own::new(b"k".to_vec(), 3).put(&Act::Get, &mut out));
        assert!(out.starts_with(b"*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n"));
        assert!(out.ends_with(b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n"));
    }
}
