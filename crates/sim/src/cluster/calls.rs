//! Clients with sessions, in a third of the runs: each call has a number, and is sent again, over
//! whichever connection to whichever member, until it has an answer.
//!
//! - S1 a call is one operation of the history, from its first sending to its answer: one that is
//!   executed twice is seen by the judge of linearizability, or of the clients' lists.
//! - S2 a session that is resumed has executed what was answered, and at most the open call
//!   besides. By [`Caller::resumed`].
//! - S3 no session is lost (a run is shorter than a session may be idle), no name is given twice,
//!   and no call is refused for its number. By [`Caller::opened`] and [`Caller::called`].
//! - S4 what is drawn here changes nothing that is drawn elsewhere. By [`Calls::draw`], with a
//!   generator of its own.

use super::resp::{self, Value, may_pass};
use base::Rng;
use check::{Action, CallId, Command, Recorder, Reply};
use std::collections::BTreeSet;

/// The requests of all clients in sessions.
#[derive(Debug)]
pub(super) struct Calls {
    rng: Rng,
    is_on: bool,
    n_keys: u64,
    /// The names of sessions that members have given.
    issued: BTreeSet<u64>,
}

/// A request in a session, or about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Say {
    Open,
    Resume,
    /// Sends the open call, perhaps once more.
    Call,
    /// Notes the answers that are known.
    Acknowledge,
}

/// An answer that must come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Opened,
    Resumed,
    Called,
}

/// A call without an answer.
#[derive(Debug)]
struct Call {
    words: Vec<Vec<Vec<u8>>>,
    commands: Vec<Command>,
    is_transaction: bool,
    recorded: Option<CallId>,
    n_sent: u32,
}

/// One client's session.
#[derive(Debug, Default)]
pub(super) struct Caller {
    id: Option<u64>,
    /// Whether the present connection speaks in it.
    is_bound: bool,
    n_answered: u64,
    open: Option<Call>,
    n_appended: u64,
    /// The calls that were answered after they had been sent more than once.
    pub(super) n_repeated: u32,
}

/// The list to which a client appends by calls.
fn list(client: u64) -> Vec<u8> {
    format!("called:{client}").into_bytes()
}

impl Calls {
    /// S4. `can_be`: whether clients of such a cluster can have sessions.
    pub(super) fn draw(seed: u64, can_be: bool, n_keys: u64) -> Calls {
        let mut rng = Rng::new(seed ^ 0x6361_6c6c_7321);
        let is_on = can_be && rng.chance(1, 3);
        Calls { rng, is_on, n_keys, issued: BTreeSet::new() }
    }

    /// The lists that so many clients append to.
    pub(super) fn lists(&self, n_clients: usize) -> impl Iterator<Item = Vec<u8>> + use<> {
        let n_clients = if self.is_on { n_clients as u64 } else { 0 };
        (0..n_clients).step_by(2).map(list)
    }

    /// The next requests of every other client, when it waits for no answer.
    pub(super) fn think(&mut self, client: u64, caller: &mut Caller) -> Vec<Say> {
        if !self.is_on || !client.is_multiple_of(2) {
            return Vec::new();
        }
        let mut says = Vec::new();
        if caller.id.is_none() {
            return vec![Say::Open];
        }
        if !caller.is_bound {
            says.push(Say::Resume);
        }
        if caller.open.is_none() && self.rng.chance(1, 3) {
            caller.open = Some(self.call(client, caller));
        }
        if caller.open.is_some() {
            says.push(Say::Call);
        } else if self.rng.chance(1, 6) {
            says.push(Say::Acknowledge);
        }
        says
    }

    fn call(&mut self, client: u64, caller: &mut Caller) -> Call {
        let amount = 1 + self.rng.below(9) as i64;
        let (is_transaction, parts) = match self.rng.below(4) {
            0 => {
                caller.n_appended += 1;
                let token = format!("{:05},", caller.n_appended).into_bytes();
                let words = vec![b"APPEND".to_vec(), list(client), token.clone()];
                (false, vec![(words, Command::new(list(client), Action::Append(token)))])
            }
            1 => {
                let key = format!("counter:{}", self.rng.below(self.n_keys));
                (false, vec![add(&key, amount)])
            }
            _ => (true, vec![add("account:a", amount), add("account:b", -amount)]),
        };
        let (words, commands) = parts.into_iter().unzip();
        Call { words, commands, is_transaction, recorded: None, n_sent: 0 }
    }
}

fn add(key: &str, amount: i64) -> (Vec<Vec<u8>>, Command) {
    let words = ["INCRBY", key, &amount.to_string()].map(|word| word.as_bytes().to_vec());
    (words.into(), Command::new(key, Action::Incr(amount)))
}

impl Caller {
    /// The connection has ended.
    pub(super) fn disconnect(&mut self) {
        self.is_bound = false;
    }

    /// Appends the bytes of a request. Returns how many words it is answered with first, and what
    /// then.
    pub(super) fn put(
        &mut self,
        say: &Say,
        (client, now): (u64, u64),
        recorder: &mut Recorder,
        out: &mut Vec<u8>,
    ) -> (usize, Option<Due>) {
        let id = self.id.unwrap_or_default().to_string();
        match say {
            Say::Open => {
                resp::request(&[b"GREGALE.SESSION"], out);
                (0, Some(Due::Opened))
            }
            Say::Resume => {
                self.is_bound = true;
                resp::request(&[b"GREGALE.SESSION", id.as_bytes()], out);
                (0, Some(Due::Resumed))
            }
            Say::Acknowledge => {
                resp::request(&[b"GREGALE.ACK", self.n_answered.to_string().as_bytes()], out);
                (1, None)
            }
            Say::Call => {
                let number = (self.n_answered + 1).to_string();
                let Some(call) = &mut self.open else { return (0, None) };
                call.n_sent += 1;
                let commands = &call.commands;
                call.recorded.get_or_insert_with(|| recorder.call(client, now, commands.clone()));
                let head: [&[u8]; 2] = [b"GREGALE.CALL", number.as_bytes()];
                if !call.is_transaction {
                    let words = call.words.iter().flatten().map(Vec::as_slice);
                    let words: Vec<&[u8]> = head.into_iter().chain(words).collect();
                    resp::request(&words, out);
                    return (0, Some(Due::Called));
                }
                resp::request(&[b"MULTI"], out);
                for words in &call.words {
                    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                    resp::request(&words, out);
                }
                resp::request(&[head[0], head[1], b"EXEC"], out);
                (1 + call.words.len(), Some(Due::Called))
            }
        }
    }

    /// Takes an answer, and judges it (I15). False if the request was refused, or its end is
    /// unknown.
    ///
    /// # Errors
    /// An answer that no door may give.
    pub(super) fn settle(
        &mut self,
        due: Due,
        value: Value,
        now: u64,
        (calls, recorder): (&mut Calls, &mut Recorder),
    ) -> Result<bool, String> {
        match (due, value) {
            (_, Value::Error(why)) if may_pass(&why) => Ok(false),
            (_, Value::Error(why)) => Err(format!("{due:?} is answered with {why}")),
            (Due::Opened, value) => self.opened(standing(&value)?, calls),
            (Due::Resumed, value) => self.resumed(standing(&value)?),
            (Due::Called, value) => self.called(value, now, recorder),
        }
    }

    /// S3
    fn opened(&mut self, (id, executed): (u64, u64), calls: &mut Calls) -> Result<bool, String> {
        if executed != 0 || !calls.issued.insert(id) {
            return Err(format!("session {id}, which was opened, has executed {executed} calls"));
        }
        (self.id, self.is_bound) = (Some(id), true);
        Ok(true)
    }

    /// S2
    fn resumed(&mut self, (id, executed): (u64, u64)) -> Result<bool, String> {
        let is_open = self.open.as_ref().is_some_and(|call| call.n_sent > 0);
        let most = self.n_answered + u64::from(is_open);
        if Some(id) != self.id || !(self.n_answered..=most).contains(&executed) {
            let (own, n) = (self.id, self.n_answered);
            return Err(format!(
                "session {id}, resumed as {own:?}, has executed {executed} calls, and {n} are \
                 answered"
            ));
        }
        Ok(true)
    }

    fn called(&mut self, value: Value, now: u64, recorder: &mut Recorder) -> Result<bool, String> {
        let Some(call) = self.open.take() else { return Err("no call is open".to_owned()) };
        let replies = match value {
            Value::List(Some(list)) if call.is_transaction => list,
            value if !call.is_transaction => vec![value],
            value => return Err(format!("{value:?} is no answer to a transaction")),
        };
        let replies = replies.into_iter().map(Reply::try_from).collect::<Result<_, _>>()?;
        if let Some(recorded) = call.recorded {
            recorder.answered(recorded, now, replies);
        }
        self.n_answered += 1;
        self.n_repeated += u32::from(call.n_sent > 1);
        Ok(true)
    }
}

/// What a session's name and its last executed call are, of an answer to GREGALE.SESSION.
fn standing(value: &Value) -> Result<(u64, u64), String> {
    if let Value::List(Some(list)) = value
        && let [Value::Number(id), Value::Number(executed), Value::Number(_)] = list[..]
        && let (Ok(id), Ok(executed)) = (u64::try_from(id), u64::try_from(executed))
    {
        return Ok((id, executed));
    }
    Err(format!("{value:?} is no standing of a session"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stands(id: i64, executed: i64) -> Value {
        Value::List(Some([id, executed, 9].map(Value::Number).into()))
    }

    /// A client whose session is 7, with an open call that was sent, and what it heard.
    fn speaking() -> (Calls, Caller, Recorder) {
        let mut calls = Calls { is_on: true, ..Calls::draw(1, true, 2) };
        let (mut caller, mut recorder) = (Caller::default(), Recorder::new());
        assert_eq!(calls.think(0, &mut caller), [Say::Open]);
        let opened = caller.settle(Due::Opened, stands(7, 0), 1, (&mut calls, &mut recorder));
        assert_eq!(opened, Ok(true));
        caller.open = Some(calls.call(0, &mut caller));
        caller.put(&Say::Call, (0, 2), &mut recorder, &mut Vec::new());
        (calls, caller, recorder)
    }

    #[test]
    fn s2_a_session_that_forgot_a_call_or_executed_another_is_noticed() {
        let (mut calls, mut caller, mut recorder) = speaking();
        let mut hear =
            |of: &mut Caller, due, value| of.settle(due, value, 3, (&mut calls, &mut recorder));
        assert_eq!(hear(&mut caller, Due::Resumed, stands(7, 0)), Ok(true));
        assert_eq!(hear(&mut caller, Due::Resumed, stands(7, 1)), Ok(true), "the open one");
        assert!(hear(&mut caller, Due::Resumed, stands(7, 2)).is_err());
        assert!(hear(&mut caller, Due::Resumed, stands(8, 0)).is_err());
        (caller.open, caller.n_answered) = (None, 1);
        assert!(hear(&mut caller, Due::Resumed, stands(7, 0)).is_err(), "it was answered");
    }

    #[test]
    fn s3_a_lost_session_and_a_name_given_twice_are_noticed() {
        let (mut calls, mut caller, mut recorder) = speaking();
        let mut hear = |due, value| caller.settle(due, value, 3, (&mut calls, &mut recorder));
        let error = |why: &str| Value::Error(why.to_owned());
        assert_eq!(hear(Due::Called, error("UNKNOWN the outcome")), Ok(false), "it is sent again");
        assert!(hear(Due::Called, error("NOSESSION there is no such session")).is_err());
        assert!(hear(Due::Called, error("GAP not executed")).is_err());
        assert!(hear(Due::Opened, stands(7, 0)).is_err());
    }

    #[test]
    fn s1_a_call_is_one_operation_however_often_it_is_sent() {
        let (mut calls, mut caller, mut recorder) = speaking();
        caller.disconnect();
        assert_eq!(calls.think(0, &mut caller), [Say::Resume, Say::Call]);
        let mut out = Vec::new();
        let (n_words, due) = caller.put(&Say::Call, (0, 5), &mut recorder, &mut out);
        let call = caller.open.as_ref().expect("it is open");
        assert_eq!((due, n_words > 0), (Some(Due::Called), call.is_transaction));
        let n = call.commands.len();
        let list = Value::List(Some(vec![Value::Number(1); n]));
        let reply = if call.is_transaction { list } else { Value::Number(1) };
        let called = caller.settle(Due::Called, reply, 6, (&mut calls, &mut recorder));
        assert_eq!((called, caller.n_repeated, caller.n_answered), (Ok(true), 1, 1));
        assert_eq!(recorder.finish().ops.len(), 1);
    }
}
