//! Clients with sessions, in a third of the runs: each call has a number, and is sent again, over
//! whichever connection to whichever member, until it has an answer.
//!
//! - S1 a call is one operation of the history, from its first sending to its answer: one that is
//!   executed twice is seen by the judge of linearizability, or of the clients' lists.
//! - S2 a session that is resumed has executed what was answered, and at most the open call
//!   besides. By [`Caller::resumed`].
//! - S3 no session is lost (a run is shorter than a session may be idle; one of a day is judged by
//!   [`super::idle`]), no name is given twice,
//!   and no call is refused for its number. By [`Caller::opened`] and [`Caller::called`].
//! - S4 whichever connections send a call, and however often, all hear the same of it: clients
//!   without a session repeat the calls of others, in their sessions. By [`Calls::hear`].
//! - S5 a call whose number leaves a gap is not executed, and a read with such a number is not
//!   answered; a read behind all calls sees what they have done. By [`Caller::settle`], and of what
//!   it sees by the judge of linearizability.
//! - S6 what is drawn here changes nothing that is drawn elsewhere. By [`Calls::draw`], with a
//!   generator of its own.

use super::idle::{Idle, Reign};
use super::record::Record;
use super::resp::{self, Value, may_pass};
use base::Rng;
use check::{Action, CallId, Command, Reply};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The requests of all clients in sessions.
#[derive(Debug)]
pub(super) struct Calls {
    rng: Rng,
    is_on: bool,
    /// Whether sessions may expire: the run is a day.
    may_expire: bool,
    n_keys: u64,
    /// The present reign, in a run of a day.
    pub(super) reign: Reign,
    /// The sessions that clients found expired.
    pub(super) n_expired: u32,
    /// The sessions to which members have given a name.
    issued: BTreeMap<u64, Shown>,
}

/// What all clients know of a session.
#[derive(Debug, Default)]
struct Shown {
    /// Its last call that was sent: the number, and the requests.
    call: Option<(u64, Rc<Request>)>,
    /// The last call that a client was told the result of.
    heard: Option<(u64, Value)>,
    /// The last call that a client has acknowledged.
    acknowledged: u64,
    /// Whether its client has ended it, or is about to.
    has_ended: bool,
    idle: Idle,
}

/// A call, as it is sent.
#[derive(Debug)]
struct Request {
    words: Vec<Vec<Vec<u8>>>,
    is_transaction: bool,
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
    /// Ends the session.
    End,
    /// Sends a call above the number that is next.
    Gap,
    /// Reads its list behind all calls.
    Read,
    /// Reads it above the number that is next.
    ReadGap,
    /// Enters another client's session.
    Enter(u64),
    /// Notes there that all calls below this one were answered.
    AcknowledgeFor(u64, u64),
    /// Sends its last call there once more.
    Repeat(u64),
}

/// An answer that must come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Opened,
    Resumed,
    /// To the call of this number.
    Called(u64),
    Ended,
    Gapped(CallId),
    Read(CallId),
    ReadGapped,
    /// The standing of this session.
    Entered(u64),
    /// To the call of this number in this session.
    Repeated(u64, u64),
}

/// A call without an answer.
#[derive(Debug)]
struct Call {
    request: Rc<Request>,
    commands: Vec<Command>,
    recorded: Option<CallId>,
    n_sent: u32,
}

/// When a client has last asked something in one session, and when any client did before that.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    at: u64,
    before: u64,
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
    /// Whether a call that leaves a gap has no answer: it may be executed when its turn comes.
    leaves_gap: bool,
    /// By session: a client speaks in those of others, too.
    asked: BTreeMap<u64, Asked>,
    /// The calls that were answered after they had been sent more than once.
    pub(super) n_repeated: u32,
    /// The answers to other clients' calls.
    pub(super) n_echoes: u32,
}

/// The list to which a client appends by calls.
fn list(client: u64) -> Vec<u8> {
    format!("called:{client}").into_bytes()
}

impl Calls {
    /// S6. `can_be`: whether clients of such a cluster can have sessions.
    pub(super) fn draw(seed: u64, can_be: bool, n_keys: u64) -> Calls {
        let mut rng = Rng::new(seed ^ 0x6361_6c6c_7321);
        let is_on = can_be && rng.chance(1, 3);
        Calls {
            rng,
            is_on,
            may_expire: false,
            n_keys,
            reign: Reign::default(),
            n_expired: 0,
            issued: BTreeMap::new(),
        }
    }

    /// In a run of a day every other client has a session, and sessions expire.
    pub(super) fn stretch(&mut self) {
        (self.is_on, self.may_expire) = (true, true);
    }

    /// S3: a session is said not to be there.
    fn is_gone(&mut self, id: u64, now: u64) -> Result<(), String> {
        if self.shown(id).has_ended {
            return Ok(());
        }
        if !self.may_expire {
            return Err(format!("session {id} is lost"));
        }
        self.n_expired += 1;
        let reign = self.reign;
        self.shown(id).idle.is_gone(now, reign)
    }

    /// S3: a request in a session is answered as one in a session that is there.
    fn is_there(&mut self, id: u64, asked: Asked, now: u64) -> Result<(), String> {
        let reign = self.reign;
        let times = (asked.before, asked.at, now);
        let judged = self.shown(id).idle.is_there(times, reign);
        if self.may_expire { judged } else { Ok(()) }
    }

    /// The lists that so many clients append to.
    pub(super) fn lists(&self, n_clients: usize) -> impl Iterator<Item = Vec<u8>> + use<> {
        let n_clients = if self.is_on { n_clients as u64 } else { 0 };
        (0..n_clients).step_by(2).map(list)
    }

    /// The next requests of a client that waits for no answer: every other one has a session.
    pub(super) fn think(&mut self, client: u64, caller: &mut Caller) -> Vec<Say> {
        if !self.is_on {
            return Vec::new();
        }
        if !client.is_multiple_of(2) {
            return self.repeat();
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
            let n = if self.rng.chance(1, 4) { 2 } else { 1 };
            says.extend((0..n).map(|_| Say::Call));
            return says;
        }
        if !says.is_empty() {
            return says; // what its standing is decides what comes next
        }
        says.extend(match self.rng.below(24) {
            0..4 => Some(Say::Acknowledge),
            4 => Some(Say::End),
            5 => Some(Say::Gap),
            6 => Some(Say::Read),
            7 => Some(Say::ReadGap),
            _ => None,
        });
        says
    }

    /// S4: the requests of a client that repeats the last call of another one, in its session.
    fn repeat(&mut self) -> Vec<Say> {
        if self.issued.is_empty() || !self.rng.chance(1, 4) {
            return Vec::new();
        }
        let n = self.rng.below(self.issued.len().min(4) as u64) as usize;
        let Some((id, shown)) = self.issued.iter().nth_back(n) else { return Vec::new() };
        let (id, Some((number, _))) = (*id, &shown.call) else { return Vec::new() };
        let mut says = vec![Say::Enter(id)];
        if self.rng.chance(1, 4) {
            says.push(Say::AcknowledgeFor(id, number - 1));
        }
        says.push(Say::Repeat(id));
        says
    }

    fn shown(&mut self, id: u64) -> &mut Shown {
        self.issued.get_mut(&id).expect("its name was given")
    }

    /// S4: a client was told this of a call.
    fn hear(&mut self, id: u64, number: u64, value: &Value) -> Result<(), String> {
        let heard = &mut self.shown(id).heard;
        match heard {
            Some((last, first)) if *last == number && first != value => Err(format!(
                "call {number} of session {id} is answered with {value:?}, and was \
                             with {first:?}"
            )),
            Some((last, _)) if *last >= number => Ok(()),
            _ => {
                *heard = Some((number, value.clone()));
                Ok(())
            }
        }
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
        let request = Rc::new(Request { words, is_transaction });
        Call { request, commands, recorded: None, n_sent: 0 }
    }
}

impl Request {
    /// Appends its bytes. Returns how many words it is answered with first.
    fn put(&self, number: u64, out: &mut Vec<u8>) -> usize {
        let number = number.to_string();
        let head: [&[u8]; 2] = [b"GREGALE.CALL", number.as_bytes()];
        if !self.is_transaction {
            let words = self.words.iter().flatten().map(Vec::as_slice);
            let words: Vec<&[u8]> = head.into_iter().chain(words).collect();
            resp::request(&words, out);
            return 0;
        }
        resp::request(&[b"MULTI"], out);
        for words in &self.words {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            resp::request(&words, out);
        }
        resp::request(&[head[0], head[1], b"EXEC"], out);
        1 + self.words.len()
    }
}

/// Appends a read of the client's list with this number.
fn get(client: u64, number: u64, out: &mut Vec<u8>) {
    resp::request(&[b"GREGALE.CALL", number.to_string().as_bytes(), b"GET", &list(client)], out);
}

fn add(key: &str, amount: i64) -> (Vec<Vec<u8>>, Command) {
    let words = ["INCRBY", key, &amount.to_string()].map(|word| word.as_bytes().to_vec());
    (words.into(), Command::new(key, Action::Incr(amount)))
}

impl Caller {
    /// The connection has ended.
    pub(super) fn disconnect(&mut self) {
        self.is_bound = false;
        if self.leaves_gap {
            self.leave();
        }
    }

    /// Its last question in the session with this name.
    fn asked_in(&self, id: u64) -> Asked {
        self.asked.get(&id).copied().unwrap_or_default()
    }

    /// Gives the session up.
    fn leave(&mut self) {
        (self.id, self.is_bound, self.n_answered, self.leaves_gap) = (None, false, 0, false);
    }

    /// Appends the bytes of a request. Returns how many words it is answered with first, and what
    /// then.
    pub(super) fn put(
        &mut self,
        say: &Say,
        (client, now): (u64, u64),
        (calls, recorder): (&mut Calls, &mut Record),
        out: &mut Vec<u8>,
    ) -> (usize, Option<Due>) {
        let enter = |id: u64, out: &mut Vec<u8>| {
            resp::request(&[b"GREGALE.SESSION", id.to_string().as_bytes()], out);
        };
        let acknowledge = |number: u64, out: &mut Vec<u8>| {
            resp::request(&[b"GREGALE.ACK", number.to_string().as_bytes()], out);
        };
        let id = self.id.unwrap_or_default();
        let of = match say {
            Say::Enter(id) | Say::AcknowledgeFor(id, _) | Say::Repeat(id) => *id,
            _ => id,
        };
        // A read does not prolong a session.
        let reads = matches!(say, Say::Read | Say::ReadGap);
        if let Some(shown) = calls.issued.get_mut(&of).filter(|_| !reads) {
            let asked = self.asked.entry(of).or_default();
            if asked.at != now {
                *asked = Asked { at: now, before: shown.idle.last_at() };
                shown.idle.ask(now);
            }
        }
        match say {
            Say::Open => {
                resp::request(&[b"GREGALE.SESSION"], out);
                (0, Some(Due::Opened))
            }
            Say::Resume => {
                self.is_bound = true;
                enter(id, out);
                (0, Some(Due::Resumed))
            }
            Say::Acknowledge => {
                calls.shown(id).acknowledged = self.n_answered;
                acknowledge(self.n_answered, out);
                (1, None)
            }
            Say::End => {
                calls.shown(id).has_ended = true;
                self.leave();
                resp::request(&[b"GREGALE.SESSION", b"END"], out);
                (0, Some(Due::Ended))
            }
            Say::Gap => {
                self.leaves_gap = true;
                let (words, command) = add("counter:0", 1);
                let recorded = recorder.call(client, now, vec![command]);
                let request = Request { words: vec![words], is_transaction: false };
                request.put(self.n_answered + 2, out);
                (0, Some(Due::Gapped(recorded)))
            }
            Say::Read => {
                let command = Command::new(list(client), Action::Get);
                let recorded = recorder.call(client, now, vec![command]);
                get(client, self.n_answered + 1, out);
                (0, Some(Due::Read(recorded)))
            }
            Say::ReadGap => {
                get(client, self.n_answered + 2, out);
                (0, Some(Due::ReadGapped))
            }
            Say::Call => {
                let number = self.n_answered + 1;
                let Some(call) = &mut self.open else { return (0, None) };
                call.n_sent += 1;
                calls.shown(id).call = Some((number, Rc::clone(&call.request)));
                let commands = &call.commands;
                call.recorded.get_or_insert_with(|| recorder.call(client, now, commands.clone()));
                (call.request.put(number, out), Some(Due::Called(number)))
            }
            Say::Enter(id) => {
                enter(*id, out);
                (0, Some(Due::Entered(*id)))
            }
            Say::AcknowledgeFor(id, number) => {
                let shown = calls.shown(*id);
                shown.acknowledged = shown.acknowledged.max(*number);
                acknowledge(*number, out);
                (1, None)
            }
            Say::Repeat(id) => {
                let Some((number, request)) = &calls.shown(*id).call else { return (0, None) };
                (request.put(*number, out), Some(Due::Repeated(*id, *number)))
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
        (calls, recorder): (&mut Calls, &mut Record),
    ) -> Result<bool, String> {
        match (due, value) {
            (due, Value::Error(why)) if why.starts_with("NOSESSION ") => {
                if let Due::Gapped(recorded) = due {
                    recorder.failed(recorded, now);
                }
                let other = match due {
                    Due::Entered(id) | Due::Repeated(id, _) => Some(id),
                    _ => None,
                };
                let Some(id) = other.or(self.id) else { return Ok(true) };
                if other.is_none() {
                    (self.open, self.n_answered) = (None, 0);
                    self.leave();
                }
                calls.is_gone(id, now).map(|()| true)
            }
            (Due::Gapped(recorded), value) => self.gapped(recorded, &value, now, recorder),
            (_, Value::Error(why)) if may_pass(&why) => Ok(false),
            // S5
            (Due::ReadGapped, Value::Error(why)) if why.starts_with("GAP ") => Ok(true),
            (Due::Repeated(id, number), Value::Error(why))
                if why.starts_with("ACKED ") && number <= calls.shown(id).acknowledged =>
            {
                Ok(true)
            }
            (_, Value::Error(why)) => Err(format!("{due:?} is answered with {why}")),
            (Due::Opened, value) => self.opened(standing(&value)?, now, calls),
            (Due::Resumed, value) => {
                self.resumed(standing(&value)?)?;
                let id = self.id.unwrap_or_default();
                calls.is_there(id, self.asked_in(id), now).map(|()| true)
            }
            (Due::Called(number), value) => {
                let Some(id) = self.id else { return Err("no session is open".to_owned()) };
                calls.is_there(id, self.asked_in(id), now)?;
                calls.hear(id, number, &value)?;
                // It may have been sent twice over this connection.
                let is_open = number > self.n_answered;
                if is_open { self.called(value, now, recorder) } else { Ok(true) }
            }
            (Due::Ended, Value::Text(word)) if word == "OK" => Ok(true),
            (Due::Read(recorded), value) => {
                recorder.answered(recorded, now, vec![Reply::try_from(value)?]);
                Ok(true)
            }
            (Due::Entered(id), value) => {
                let (entered, _) = standing(&value)?;
                let is_it = entered == id;
                if is_it { Ok(true) } else { Err(format!("session {id} is entered as {entered}")) }
            }
            (Due::Repeated(id, number), value) => {
                self.n_echoes += 1;
                calls.is_there(id, self.asked_in(id), now)?;
                calls.hear(id, number, &value).map(|()| true)
            }
            (due, value) => Err(format!("{due:?} is answered with {value:?}")),
        }
    }

    /// S5
    fn gapped(
        &mut self,
        recorded: CallId,
        value: &Value,
        now: u64,
        recorder: &mut Record,
    ) -> Result<bool, String> {
        let Value::Error(why) = value else {
            return Err(format!("a call that leaves a gap is answered with {value:?}"));
        };
        self.leaves_gap = false;
        match why.split(' ').next().unwrap_or_default() {
            "GAP" | "TRYAGAIN" | "LOADING" => recorder.failed(recorded, now),
            // Perhaps it is executed when its turn comes, so its number is not used.
            "UNKNOWN" => self.leave(),
            _ => return Err(format!("a call that leaves a gap is answered with {why}")),
        }
        Ok(why.starts_with("GAP "))
    }

    /// S3
    fn opened(
        &mut self,
        (id, executed): (u64, u64),
        now: u64,
        calls: &mut Calls,
    ) -> Result<bool, String> {
        let mut shown = Shown::default();
        shown.idle.ask(now);
        if executed != 0 || calls.issued.insert(id, shown).is_some() {
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

    fn called(&mut self, value: Value, now: u64, recorder: &mut Record) -> Result<bool, String> {
        let Some(call) = self.open.take() else { return Err("no call is open".to_owned()) };
        let replies = match value {
            Value::List(Some(list)) if call.request.is_transaction => list,
            value if !call.request.is_transaction => vec![value],
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
mod tests;
