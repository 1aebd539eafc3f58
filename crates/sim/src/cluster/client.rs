//! A client of a simulated cluster: it sends bytes to one member, reads the replies, and records
//! what it saw.
//!
//! - C1 an operation that a client records as answered has its reply; one that it records as failed
//!   has a reply that it was not and will not be executed; everything else is unknown. By
//!   [`Client::settle`].
//! - C2 the answered appends to the list of one connection are there in the order in which they
//!   were sent; nothing is there twice. By [`check_lists`].
//! - C3 only a client that watches a key may be told that its transaction was not executed. By
//!   [`Client::settle`].
//! - C4 a client that says that it sends nothing more is answered all that it has asked for, and
//!   its connection is closed then, not before. By [`super::clients`].

use super::calls::{Caller, Due, Say};
use super::expiry::Act;
use super::leases::Leases;
use super::own::{self, Own};
use super::record::Record;
use super::resp::{self, Value, may_pass};
use super::scripts::{Script, Scripts};
use super::several;
use super::talk::{Ask, Last, Talk};
use super::times;
use super::wipes::Wipes;
use base::Rng;
use check::{Action, CallId, Command, End, History, Op, Reply};
use kv::door::PipeId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The bytes of an item that a client appends to its list.
const TOKEN_BYTES: usize = 6;

/// A client's connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    pub(super) node: usize,
    /// The life of the member's process.
    pub(super) life: u32,
    pub(super) pipe: PipeId,
}

/// A reply that must come.
#[derive(Debug)]
enum Expected {
    /// A reply without content: of WATCH, MULTI, and of queued commands.
    Word,
    /// The value on which the client's next request depends.
    Look,
    /// The end of an operation.
    End(CallId, Last),
    /// The end of an operation on each key by itself.
    Apart(Vec<CallId>),
    /// The end of an operation on a key that expires.
    Lease(usize),
    /// The end of an operation on the connection's own key.
    Own(own::Act),
    /// An answer in a session.
    Called(Due),
    /// A time.
    Time(times::Act),
    /// A number of members.
    Waited,
    /// The name of a script.
    Loaded(Script),
}

/// What became of a client's operations.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// The transactions that were executed, and the watched keys that had changed.
    pub(super) n_transactions: u32,
    pub(super) n_touched: u32,
    /// The operations answered in the liveness phase.
    pub(super) n_live: u32,
    /// The operations that ended without an answer, since all is well.
    pub(super) n_refused: u32,
}

/// What a client watches.
#[derive(Debug, Default)]
pub(super) struct Guard {
    /// The value of a watched key, once it was read.
    seen: Option<Option<Vec<u8>>>,
    /// The key of a WATCH whose transaction has not begun.
    pub(super) key: Option<Vec<u8>>,
    /// The same, of a key that expires, and the number of the read behind the WATCH.
    lease: Option<(u64, usize)>,
    /// Whether a WATCH was sent after the last EXEC (C3).
    is_on: bool,
    /// Whether a transaction has begun, and waits for its end.
    pub(super) is_open: bool,
}

impl Guard {
    /// The guard is used up. True if there was one.
    fn drop(&mut self) -> bool {
        self.lease = None;
        std::mem::take(&mut self.is_on)
    }
}

/// Whether a client will send more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Input {
    #[default]
    Open,
    /// What it has asked for is its last.
    Ends,
    /// The member has been told so.
    Ended,
}

/// The client of the module's text.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) id: u64,
    pub(super) connection: Option<Connection>,
    /// The number of connections that it has had.
    pub(super) n_connections: u64,
    expected: VecDeque<Expected>,
    heard: Vec<u8>,
    pub(super) guard: Guard,
    pub(super) input: Input,
    pub(super) own: Own,
    pub(super) caller: Caller,
    /// The time since when it waits for the oldest reply.
    pub(super) waits_since: u64,
    /// The time of its next look.
    pub(super) wakes_at: u64,
    /// The time until which it thinks.
    pub(super) asks_at: u64,
    /// The time before which it reads nothing.
    pub(super) reads_at: u64,
    /// The bytes of requests that have not left.
    pub(super) unsent: Vec<u8>,
    pub(super) counts: Counts,
    /// The number of items that it has appended to its list.
    n_appended: u64,
    /// The number of items that it still appends without waiting for answers.
    pub(super) burst_left: u32,
    /// The member that it has just left, and to which it returns.
    pub(super) returns_to: Option<usize>,
    /// How often it may still leave like this.
    pub(super) leaves_again: u64,
}

impl Client {
    pub(super) fn new(id: u64) -> Client {
        Client {
            id,
            connection: None,
            n_connections: 0,
            expected: VecDeque::new(),
            heard: Vec::new(),
            guard: Guard::default(),
            input: Input::Open,
            own: Own::default(),
            caller: Caller::default(),
            waits_since: 0,
            wakes_at: 0,
            asks_at: 0,
            reads_at: 0,
            unsent: Vec::new(),
            counts: Counts::default(),
            n_appended: 0,
            burst_left: 0,
            returns_to: None,
            leaves_again: 0,
        }
    }

    pub(super) fn n_waiting(&self) -> usize {
        self.expected.len()
    }

    /// The key of the list of its present connection.
    pub(super) fn list(&self) -> Vec<u8> {
        format!("list:{}:{}", self.id, self.n_connections).into_bytes()
    }

    /// Takes a new connection, whose own key is in that database.
    pub(super) fn connect(&mut self, connection: Connection, database: u64) {
        self.connection = Some(connection);
        self.n_connections += 1;
        self.n_appended = 0;
        let own = format!("own:{}:{}", self.id, self.n_connections);
        self.own = Own::new(own.into_bytes(), database);
    }

    /// Ends the connection: requests without an answer never get one.
    pub(super) fn disconnect(&mut self) {
        self.connection = None;
        self.expected.clear();
        self.heard.clear();
        self.unsent.clear();
        (self.guard, self.burst_left, self.input) = (Guard::default(), 0, Input::Open);
        self.caller.disconnect();
    }

    /// The bytes of `ask`, which is recorded.
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
                self.guard.key = Some(key);
                self.guard.is_on = true;
            }
            Ask::Do { words, commands, last } => {
                let is_transaction =
                    matches!(last, Last::List | Last::Compared | Last::Beside | Last::Wiped);
                if last == Last::Wiped {
                    self.unwatch(&mut bytes);
                }
                let is_bare = last == Last::List && !self.guard.is_on;
                let last = if is_bare { Last::Unguarded } else { last };
                if is_transaction {
                    self.guard.drop();
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
            Ask::Apart(several::Act { words, commands, .. }) => {
                let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                resp::request(&words, &mut bytes);
                let call = |command| talk.recorder.call(self.id, now, vec![command]);
                self.expected.push_back(Expected::Apart(commands.into_iter().map(call).collect()));
            }
            Ask::Lease(key, act) => {
                if matches!(act, Act::Keep { .. } | Act::Seek { in_transaction: true, .. }) {
                    self.unwatch(&mut bytes);
                }
                let node = self.connection.map(|connection| connection.node);
                let looked = self.guard.lease.filter(|_| matches!(act, Act::Exec { .. }));
                let number = talk.leases.begin(key, act, now, node);
                let n_words = Leases::put(key, act, &mut bytes);
                self.expected.extend((0..n_words).map(|_| Expected::Word));
                self.expected.push_back(Expected::Lease(number));
                if let Some((_, looked)) = looked {
                    talk.leases.guard(looked, number);
                    self.guard.drop();
                }
                if matches!(act, Act::Watch) {
                    self.guard.lease = Some((key, number));
                    self.guard.is_on = true;
                }
            }
            Ask::Own(act) => {
                if act.is_transaction() {
                    self.unwatch(&mut bytes);
                }
                if act == own::Act::Flush {
                    talk.owns.flushes(self.id);
                }
                let (n_before, n_behind) = self.own.put(&act, &mut bytes);
                self.expected.extend((0..n_before).map(|_| Expected::Word));
                self.expected.push_back(Expected::Own(act));
                self.expected.extend((0..n_behind).map(|_| Expected::Word));
            }
            Ask::Say(say) => {
                if matches!(say, Say::Call | Say::Repeat(_)) {
                    // It may be a transaction, which is judged as one without watched keys.
                    self.unwatch(&mut bytes);
                }
                let of = (self.id, now);
                let with = (&mut talk.calls, &mut talk.recorder);
                let (n_words, due) = self.caller.put(&say, of, with, &mut bytes);
                self.expected.extend((0..n_words).map(|_| Expected::Word));
                self.expected.extend(due.map(Expected::Called));
            }
            Ask::Time(act) => {
                self.unwatch(&mut bytes);
                self.burst_left = 0;
                self.guard.is_open = act == times::Act::Begin;
                let n_words = act.put(&mut bytes);
                self.expected.extend((0..n_words).map(|_| Expected::Word));
                self.expected.extend(act.is_answered().then_some(Expected::Time(act)));
            }
            Ask::Load(script) => {
                resp::request(&Scripts::load(script), &mut bytes);
                self.expected.push_back(Expected::Loaded(script));
            }
            Ask::Wait(words) => {
                resp::request(&words.each_ref().map(String::as_bytes), &mut bytes);
                self.expected.push_back(Expected::Waited);
            }
        }
        bytes
    }

    /// Forgets the watched keys, where there are some.
    fn unwatch(&mut self, bytes: &mut Vec<u8>) {
        if self.guard.drop() {
            resp::request(&[b"UNWATCH"], bytes);
            self.expected.push_back(Expected::Word);
        }
    }

    /// Whether it sends nothing more from now on: it waits for answers, and none of them decides
    /// what it asks next (C4).
    pub(super) fn ends_input(&mut self, rng: &mut Rng) -> bool {
        let is_last = self.n_waiting() > 0 && !self.guard.is_on && rng.chance(1, 32);
        if is_last {
            (self.input, self.burst_left) = (Input::Ends, 0);
        }
        is_last
    }

    /// C4: what its member, which lives and has closed the connection, has not answered.
    pub(super) fn cut_short(&self) -> Option<String> {
        let n = Some(self.n_waiting()).filter(|n| *n > 0 && self.input == Input::Ended)?;
        Some(format!("client {} sends nothing more, and {n} answers never came", self.id))
    }

    /// The next item for its list.
    pub(super) fn next_token(&mut self) -> Vec<u8> {
        self.n_appended += 1;
        format!("{:05},", self.n_appended).into_bytes()
    }

    /// The value of a watched key, once.
    pub(super) fn take_seen(&mut self) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        let seen = self.guard.seen.take()?;
        Some((self.guard.key.take()?, seen))
    }

    /// The key that expires and is watched.
    pub(super) fn lease(&self) -> Option<u64> {
        self.guard.lease.map(|(key, _)| key)
    }

    /// Takes bytes that have come.
    ///
    /// # Errors
    /// A reply that no door may give (I3).
    pub(super) fn hear(&mut self, bytes: &[u8], now: u64, talk: &mut Talk) -> Result<(), String> {
        self.heard.extend_from_slice(bytes);
        let mut at = 0;
        while let Some((value, n_bytes)) = resp::reply(&self.heard[at..])? {
            at += n_bytes;
            self.waits_since = now;
            let expected = self.expected.pop_front();
            let expected = expected.ok_or_else(|| format!("{value:?}, and nothing was asked"))?;
            match expected {
                Expected::Lease(number) => self.settle_lease(number, value, now, talk)?,
                Expected::Own(act) => {
                    let is_unknown =
                        matches!(&value, Value::Error(why) if why.starts_with("UNKNOWN "));
                    if act == own::Act::Flush && !is_unknown {
                        talk.owns.has_flushed(self.id);
                    }
                    let is_done = self.own.settle(act, value)?;
                    self.counts.n_refused += u32::from(!is_done);
                }
                Expected::Called(due) => {
                    talk.calls.reign = talk.leases.reign();
                    let with = (&mut talk.calls, &mut talk.recorder);
                    let is_done = self.caller.settle(due, value, now, with)?;
                    self.counts.n_refused += u32::from(!is_done);
                }
                Expected::Apart(calls) => {
                    let is_done = several::settle(&calls, value, now, &mut talk.recorder)?;
                    self.counts.n_refused += u32::from(!is_done);
                }
                Expected::Loaded(script) => {
                    let is_done = talk.scripts.loaded(script, value)?;
                    self.counts.n_refused += u32::from(!is_done);
                }
                Expected::Time(act) => {
                    let is_done = act.settle(value)?;
                    self.counts.n_refused += u32::from(!is_done);
                }
                Expected::Waited if matches!(value, Value::Number(_)) => {}
                _ => self.settle(expected, value, now, &mut talk.recorder)?,
            }
        }
        self.heard.drain(..at);
        Ok(())
    }

    /// As [`Client::settle`], for a key that expires.
    fn settle_lease(
        &mut self,
        number: usize,
        value: Value,
        now: u64,
        talk: &mut Talk,
    ) -> Result<(), String> {
        match value {
            Value::Error(why) if may_pass(&why) => {
                self.counts.n_refused += 1;
                if !why.starts_with("UNKNOWN ") {
                    talk.leases.refused(number);
                }
                Ok(())
            }
            Value::Error(why) => Err(format!("client {} was told: {why}", self.id)),
            value => talk.leases.answered(number, value, now),
        }
    }

    /// C1.
    fn settle(
        &mut self,
        expected: Expected,
        value: Value,
        now: u64,
        recorder: &mut Record,
    ) -> Result<(), String> {
        match (expected, value) {
            (Expected::Word, Value::Text(_)) => Ok(()),
            // EXEC returns the result.
            (Expected::Word, Value::Error(why)) if may_pass(&why) => Ok(()),
            (Expected::Look, Value::Bytes(value)) => {
                self.guard.seen = Some(value);
                Ok(())
            }
            (Expected::Look, Value::Error(why)) if may_pass(&why) => {
                self.guard.key = None;
                self.counts.n_refused += 1;
                Ok(())
            }
            (Expected::End(call, _), Value::Error(why)) => {
                // An aborted transaction, or a request that no member took, had no effect.
                let word = why.split(' ').next().unwrap_or_default();
                self.counts.n_refused += u32::from(word != "EXECABORT");
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
                    // A watched key has changed: the transaction had no effect.
                    (Last::List, Value::List(None)) => None,
                    (Last::List | Last::Unguarded, Value::List(Some(list))) => {
                        self.counts.n_transactions += 1;
                        Some(list.into_iter().map(Reply::try_from).collect::<Result<_, _>>()?)
                    }
                    (Last::Compared | Last::Beside, Value::List(None)) => {
                        self.counts.n_touched += 1;
                        None
                    }
                    (Last::Compared | Last::Beside, Value::List(Some(list)))
                        if list == [Value::Text("OK".to_owned())] =>
                    {
                        let set = (last == Last::Beside).then_some(Reply::Ok);
                        Some([Reply::Done(true)].into_iter().chain(set).collect())
                    }
                    (Last::Same(n), Value::Text(word)) if word == "OK" => Some(vec![Reply::Ok; n]),
                    (Last::Wiped, Value::List(Some(list))) => Some(Wipes::replies(list)?),
                    (Last::Each, Value::List(Some(list))) => {
                        Some(list.into_iter().map(Reply::try_from).collect::<Result<_, _>>()?)
                    }
                    (Last::Flag, Value::Number(n)) => Some(vec![Reply::Done(n == 1)]),
                    (Last::One, value) => Some(vec![Reply::try_from(value)?]),
                    (_, value) => return Err(format!("{value:?} is no answer to that")),
                };
                match replies {
                    Some(replies) => {
                        recorder.answered(call, now, replies);
                        self.counts.n_live += 1;
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

/// C2, for the lists that a history's reads show.
pub(super) fn check_lists(history: &History) -> Result<(), String> {
    let mut answered: BTreeMap<&[u8], BTreeSet<&[u8]>> = BTreeMap::new();
    let ended = |op: &'_ Op| matches!(op.end, End::Answered { .. });
    for op in history.ops.iter().filter(|op| ended(op)) {
        if let [Command { key, action: Action::Append(token) }] = &op.commands[..] {
            answered.entry(key).or_default().insert(token);
        }
    }
    for op in &history.ops {
        if let ([Command { key, action: Action::Get }], End::Answered { replies, .. }) =
            (&op.commands[..], &op.end)
            && let [Reply::Value(Some(list))] = &replies[..]
            && let Some(answered) = answered.get(&key[..])
        {
            check_list(key, list, answered)?;
        }
    }
    Ok(())
}

/// Drops appends that have no answer and are in no list in the end. Lists only grow, and each is
/// read when all else is over: an item that is not there then took no effect before. (The judge
/// would try each such operation at every place.)
pub(super) fn forget_what_never_came(history: &mut History) {
    let mut last: BTreeMap<Vec<u8>, (u64, Vec<u8>)> = BTreeMap::new();
    for op in &history.ops {
        if let ([Command { key, action: Action::Get }], End::Answered { replies, .. }) =
            (&op.commands[..], &op.end)
            && let [Reply::Value(Some(list))] = &replies[..]
            && last.get(key).is_none_or(|(at, _)| *at <= op.invoke_ns)
        {
            last.insert(key.clone(), (op.invoke_ns, list.clone()));
        }
    }
    history.ops.retain(|op| match (&op.commands[..], &op.end) {
        ([Command { key, action: Action::Append(token) }], End::Unknown) => last
            .get(key)
            .is_none_or(|(_, list)| list.chunks(TOKEN_BYTES).any(|there| there == token)),
        _ => true,
    });
}

fn check_list(key: &[u8], list: &[u8], answered: &BTreeSet<&[u8]>) -> Result<(), String> {
    let (mut seen, mut last) = (BTreeSet::new(), &[][..]);
    let (key, text) = (String::from_utf8_lossy(key), String::from_utf8_lossy);
    for token in list.chunks(TOKEN_BYTES) {
        if !seen.insert(token) {
            return Err(format!("{key} has {} twice", text(token)));
        }
        // (An operation that ended as unknown may take effect at any later time.)
        if answered.contains(token) {
            if token < last {
                let (token, last) = (text(token), text(last));
                return Err(format!("{key} has {token} behind {last}, which was sent later"));
            }
            last = token;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c2_a_list_that_is_out_of_order_or_has_something_twice_is_noticed() {
        let answered: BTreeSet<&[u8]> = [&b"00001,"[..], b"00002,", b"00007,"].into();
        let check = |list: &[u8]| check_list(b"l", list, &answered);
        assert_eq!(check(b""), Ok(()));
        assert_eq!(check(b"00001,00002,00007,"), Ok(()));
        assert!(check(b"00002,00001,").is_err());
        assert!(check(b"00001,00001,").is_err());
        assert_eq!(check(b"00001,00007,00005,"), Ok(()), "nobody knows what became of the fifth");
        assert!(check(b"00005,00007,00005,").is_err());
    }

    #[test]
    fn c2_reads_of_a_history_show_it() {
        let append = |at, token: &[u8]| {
            let command = Command::new("l", Action::Append(token.to_vec()));
            Op::answered(1, at, at + 1, command, Reply::Number(0))
        };
        let read = |list: &[u8]| {
            let command = Command::new("l", Action::Get);
            Op::answered(1, 9, 10, command, Reply::Value(Some(list.to_vec())))
        };
        let history = |list| [append(1, b"00001,"), append(2, b"00002,"), read(list)];
        assert_eq!(check_lists(&history(b"00001,00002,").into_iter().collect()), Ok(()));
        assert!(check_lists(&history(b"00002,00001,").into_iter().collect()).is_err());
    }
}
