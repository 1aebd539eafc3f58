//! A client of a simulated cluster: it sends bytes to one member, reads what comes back, and takes
//! down what it saw.
//!
//! - C1 what a client calls answered, it was sent; what it calls failed, it was told that it has
//!   not been and will not be executed; everything else is unknown. By [`Client::settle`].
//! - C2 what a client appends to the list of one connection is there in the order in which it was
//!   sent, each at most once, whatever became of the rest. By [`check_list`], on the lists as they
//!   are in the end.

use super::resp::{self, Value};
use super::talk::{Ask, Last, Talk};
use check::{CallId, Recorder, Reply};
use kv::door::PipeId;
use std::collections::VecDeque;

/// Where a client is connected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    pub(super) node: usize,
    /// The life of the member's process.
    pub(super) life: u32,
    pub(super) pipe: PipeId,
}

/// A reply that has to come.
#[derive(Debug)]
enum Expected {
    /// One that says nothing: of WATCH, MULTI, and of what is queued.
    Word,
    /// What the client decides by.
    Look,
    /// The end of an operation.
    End(CallId, Last),
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) id: u64,
    pub(super) connection: Option<Connection>,
    /// How many connections it has had.
    pub(super) n_connections: u64,
    expected: VecDeque<Expected>,
    heard: Vec<u8>,
    /// What a watched key holds, once it was read.
    seen: Option<Option<Vec<u8>>>,
    /// A WATCH has begun, and its transaction has not.
    pub(super) watches: Option<Vec<u8>>,
    /// Since when it waits for the oldest reply.
    pub(super) waits_since: u64,
    /// When it looks again.
    pub(super) wakes_at: u64,
    /// It thinks until then.
    pub(super) asks_at: u64,
    /// Operations answered in the liveness phase.
    pub(super) n_live: u32,
    /// The last list that it has appended to.
    n_appended: u64,
}

impl Client {
    pub(super) fn new(id: u64) -> Client {
        Client {
            id,
            connection: None,
            n_connections: 0,
            expected: VecDeque::new(),
            heard: Vec::new(),
            seen: None,
            watches: None,
            waits_since: 0,
            wakes_at: 0,
            asks_at: 0,
            n_live: 0,
            n_appended: 0,
        }
    }

    pub(super) fn n_waiting(&self) -> usize {
        self.expected.len()
    }

    /// The key of the list that it appends to by its present connection.
    pub(super) fn list(&self) -> Vec<u8> {
        format!("list:{}:{}", self.id, self.n_connections).into_bytes()
    }

    /// It has a connection, a new one.
    pub(super) fn connect(&mut self, connection: Connection) {
        self.connection = Some(connection);
        self.n_connections += 1;
        self.n_appended = 0;
    }

    /// The connection is no more: what has no answer never gets one.
    pub(super) fn disconnect(&mut self) {
        self.connection = None;
        self.expected.clear();
        self.heard.clear();
        (self.seen, self.watches) = (None, None);
    }

    /// The bytes of `ask`, which is taken down.
    pub(super) fn send(&mut self, ask: Ask, now: u64, talk: &mut Talk) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.expected.is_empty() {
            self.waits_since = now;
        }
        match ask {
            Ask::Watch(key) => {
                resp::request(&[b"WATCH", &key], &mut bytes);
                resp::request(&[b"GET", &key], &mut bytes);
                self.expected.extend([Expected::Word, Expected::Look]);
                self.watches = Some(key);
            }
            Ask::Do { words, commands, last } => {
                let is_transaction = matches!(last, Last::List | Last::Compared);
                if is_transaction {
                    resp::request(&[b"MULTI"], &mut bytes);
                    self.expected.push_back(Expected::Word);
                }
                for words in &words {
                    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                    resp::request(&words, &mut bytes);
                    if is_transaction {
                        self.expected.push_back(Expected::Word);
                    }
                }
                if is_transaction {
                    resp::request(&[b"EXEC"], &mut bytes);
                }
                let call = talk.recorder.call(self.id, now, commands);
                self.expected.push_back(Expected::End(call, last));
            }
        }
        bytes
    }

    /// The next thing that it appends to its list.
    pub(super) fn next_token(&mut self) -> Vec<u8> {
        self.n_appended += 1;
        format!("{:05},", self.n_appended).into_bytes()
    }

    /// What a watched key was found to hold, once.
    pub(super) fn take_seen(&mut self) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        let seen = self.seen.take()?;
        Some((self.watches.take()?, seen))
    }

    /// Bytes have come.
    ///
    /// # Errors
    /// What no door may say.
    pub(super) fn hear(
        &mut self,
        bytes: &[u8],
        now: u64,
        recorder: &mut Recorder,
    ) -> Result<(), String> {
        self.heard.extend_from_slice(bytes);
        let mut at = 0;
        while let Some((value, n_bytes)) = resp::reply(&self.heard[at..])? {
            at += n_bytes;
            self.waits_since = now;
            let expected = self.expected.pop_front();
            let expected = expected.ok_or_else(|| format!("{value:?}, and nothing was asked"))?;
            self.settle(expected, value, now, recorder)?;
        }
        self.heard.drain(..at);
        Ok(())
    }

    /// C1.
    fn settle(
        &mut self,
        expected: Expected,
        value: Value,
        now: u64,
        recorder: &mut Recorder,
    ) -> Result<(), String> {
        match (expected, value) {
            (Expected::Word, Value::Text(_)) => Ok(()),
            // EXEC says what became of it.
            (Expected::Word, Value::Error(_)) => Ok(()),
            (Expected::Look, Value::Bytes(value)) => {
                self.seen = Some(value);
                Ok(())
            }
            (Expected::Look, Value::Error(_)) => {
                self.watches = None;
                Ok(())
            }
            (Expected::End(call, _), Value::Error(why)) => {
                // A transaction that was given up, or what no member took, had no effect.
                let word = why.split(' ').next().unwrap_or_default();
                match word {
                    "UNKNOWN" => Ok(()),
                    "TRYAGAIN" | "LOADING" | "EXECABORT" => {
                        recorder.failed(call, now);
                        Ok(())
                    }
                    _ => Err(format!("client {} was told: {why}", self.id)),
                }
            }
            (Expected::End(call, last), value) => {
                let replies = match (last, value) {
                    // A key that was watched has changed: nothing was done.
                    (Last::List, Value::List(None)) => None,
                    (Last::List, Value::List(Some(list))) => {
                        Some(list.into_iter().map(Reply::try_from).collect::<Result<_, _>>()?)
                    }
                    (Last::Compared, Value::List(None)) => None,
                    (Last::Compared, Value::List(Some(_))) => Some(vec![Reply::Done(true)]),
                    (Last::Flag, Value::Number(n)) => Some(vec![Reply::Done(n == 1)]),
                    (Last::One, value) => Some(vec![Reply::try_from(value)?]),
                    (_, value) => return Err(format!("{value:?} is no answer to that")),
                };
                match replies {
                    Some(replies) => {
                        recorder.answered(call, now, replies);
                        self.n_live += 1;
                    }
                    None => recorder.failed(call, now),
                }
                Ok(())
            }
            (expected, value) => Err(format!("{value:?} came for {expected:?}")),
        }
    }
}

impl TryFrom<Value> for Reply {
    type Error = String;

    fn try_from(value: Value) -> Result<Reply, String> {
        match value {
            Value::Text(word) if word == "OK" => Ok(Reply::Ok),
            Value::Number(number) => Ok(Reply::Number(number)),
            Value::Bytes(value) => Ok(Reply::Value(value)),
            other => Err(format!("{other:?} is no reply to a command")),
        }
    }
}

/// C2, of a list as it is in the end.
pub(super) fn check_list(key: &[u8], list: &[u8]) -> Result<(), String> {
    let tokens = std::str::from_utf8(list).unwrap_or_default().split_terminator(',');
    let numbers: Vec<u64> = tokens.map(|token| token.parse().unwrap_or(u64::MAX)).collect();
    match numbers.windows(2).find(|two| two[0] >= two[1]) {
        None => Ok(()),
        Some(two) => Err(format!(
            "{} has {} behind {}, and was appended to in order",
            String::from_utf8_lossy(key),
            two[1],
            two[0]
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c2_a_list_that_is_out_of_order_or_has_something_twice_is_noticed() {
        assert_eq!(check_list(b"l", b""), Ok(()));
        assert_eq!(check_list(b"l", b"00001,00002,00007,"), Ok(()));
        assert!(check_list(b"l", b"00002,00001,").is_err());
        assert!(check_list(b"l", b"00001,00001,").is_err());
    }
}
