//! A small blocking client of a gregale cluster: each call is executed exactly once.
//!
//! A client opens a session (see `docs/sessions.md`), numbers its calls, and sends a call again,
//! with the same number and at another member, until it has the reply or the deadline has passed.
//! The cluster executes a number once, whatever died meanwhile.
//!
//! - K1 a number is used for one call only. After a call whose outcome is not known, the session is
//!   given up: its number may still be on its way. By `Client::give_up`.
//! - K2 [`Error::NotExecuted`] is said only if no attempt can have been, or can yet be, executed.
//!   By `Effort::in_doubt`, which any attempt sets that was sent and not answered.
//! - K3 every call ends by its deadline, give or take one attempt to look up a name. By
//!   construction: every wait on a socket gets what is left of it.
//!
//! ```no_run
//! use gregale_client::{Client, Options};
//!
//! let mut client = Client::new(Options::new(["127.0.0.1:7000", "127.0.0.1:7001"]));
//! let n = client.call(&["INCR", "visits"])?.as_integer();
//! # Ok::<(), gregale_client::Error>(())
//! ```
#![forbid(unsafe_code)]

mod error;
mod value;
mod wire;

pub use error::Error;
pub use value::Value;

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use wire::{Wire, put_request};

/// The longest call; the server's limit for a request, less what a session adds.
pub const CALL_BYTES_MAX: usize = 600 << 10;

/// A time that no call outlives, for a deadline that is never.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The moment that is this far away.
fn after(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time).unwrap_or_else(|| now + NEVER)
}

/// Between two attempts, at most.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// How to reach a cluster, and for how long to try.
#[derive(Clone, Debug)]
pub struct Options {
    addresses: Vec<String>,
    password: Option<String>,
    deadline: Duration,
    attempt: Duration,
}

impl Options {
    /// The members' addresses, `host:port`; any of them will do, more are better.
    ///
    /// # Panics
    /// Without an address.
    pub fn new<A: Into<String>>(addresses: impl IntoIterator<Item = A>) -> Options {
        let addresses: Vec<String> = addresses.into_iter().map(Into::into).collect();
        assert!(!addresses.is_empty(), "a client needs an address");
        Options {
            addresses,
            password: None,
            deadline: Duration::from_secs(30),
            attempt: Duration::from_secs(3),
        }
    }

    /// The cluster's password.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Options {
        self.password = Some(password.into());
        self
    }

    /// How long a call may take with all its attempts; 30 seconds if not set. `Duration::MAX` is
    /// without an end.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Options {
        self.deadline = deadline;
        self
    }

    /// How long one member may take before another is asked; 3 seconds if not set.
    #[must_use]
    pub fn attempt(mut self, attempt: Duration) -> Options {
        self.attempt = attempt;
        self
    }
}

/// See the crate's text.
#[derive(Debug)]
pub struct Client {
    options: Options,
    /// Which address is next.
    next: usize,
    wire: Option<Wire>,
    session: Option<Session>,
    /// Whether a command uses a number up, by its name in upper case, `NAME|SUBCOMMAND` of one that
    /// has subcommands; `None` for such a name alone.
    numbered: HashMap<Vec<u8>, Option<bool>>,
    n_retries: u64,
}

#[derive(Clone, Copy, Debug)]
struct Session {
    id: i64,
    /// The last number that was used.
    used: u64,
    /// The connection speaks for it.
    is_announced: bool,
}

/// One call, over all its attempts.
struct Effort {
    until: Instant,
    /// An attempt was sent and not answered: it may be executed, now or later (K2).
    in_doubt: bool,
    /// The number of members that have refused the password.
    n_refused: usize,
    /// Why the last attempt failed.
    why: String,
    pause: Duration,
}

/// What an attempt came to.
enum Attempt {
    /// The call is over.
    Over(Result<Value, Error>),
    /// It is not, and this attempt changed nothing: why.
    Nothing(String),
    /// The same, because this member refuses the password. Another may take it: it is changed at
    /// one member after the other.
    Refused(String),
    /// It may have been executed: why.
    Doubt(String),
}

/// What is sent for a call.
enum Content<'a, A> {
    One(&'a [A]),
    All(&'a [&'a [A]]),
}

impl Client {
    /// A client that has not connected yet: the first call does.
    pub fn new(options: Options) -> Client {
        let numbered = HashMap::new();
        Client { options, next: 0, wire: None, session: None, numbered, n_retries: 0 }
    }

    /// Executes one command exactly once, within the deadline of the options.
    ///
    /// # Errors
    /// Says whether the outcome is known.
    pub fn call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Result<Value, Error> {
        self.call_within(args, self.options.deadline)
    }

    /// Executes one command exactly once, within `deadline`.
    ///
    /// # Errors
    /// Says whether the outcome is known.
    pub fn call_within<A: AsRef<[u8]>>(
        &mut self,
        args: &[A],
        deadline: Duration,
    ) -> Result<Value, Error> {
        self.perform(&Content::One(args), deadline)
    }

    /// Executes several commands exactly once, at one point of the order. The reply is an array;
    /// as in Redis, an error of one command ([`Value::Error`]) does not undo the others.
    ///
    /// # Errors
    /// Says whether the outcome is known.
    pub fn transaction<A: AsRef<[u8]>>(&mut self, commands: &[&[A]]) -> Result<Value, Error> {
        self.perform(&Content::All(commands), self.options.deadline)
    }

    /// Ends the session, so that the cluster need not keep it until it expires. True if the cluster
    /// has confirmed that.
    pub fn close(mut self) -> bool {
        let until = after(self.options.attempt);
        let ended = self.session.is_some_and(|session| self.end(session.id, until).is_ok());
        self.session = None;
        ended
    }

    /// The name of the session, if one is open.
    pub fn session(&self) -> Option<i64> {
        self.session.map(|session| session.id)
    }

    /// How many attempts had to be repeated so far.
    pub fn retries(&self) -> u64 {
        self.n_retries
    }

    fn perform<A: AsRef<[u8]>>(
        &mut self,
        content: &Content<'_, A>,
        deadline: Duration,
    ) -> Result<Value, Error> {
        if let Some(refusal) = refusal(content) {
            return Err(Error::NotExecuted(refusal.into()));
        }
        let mut effort = Effort {
            until: after(deadline),
            in_doubt: false,
            n_refused: 0,
            why: "the deadline had passed before".into(),
            pause: Duration::from_millis(1),
        };
        loop {
            if Instant::now() >= effort.until {
                return self.too_late(effort);
            }
            match self.attempt(content, &effort) {
                Attempt::Over(result) => {
                    if matches!(result, Err(Error::Unknown(_))) {
                        self.give_up();
                    }
                    return result;
                }
                Attempt::Nothing(why) => effort.why = why,
                Attempt::Refused(why) => {
                    effort.n_refused += 1;
                    if effort.n_refused >= self.options.addresses.len() {
                        return self.all_refuse(why, &effort);
                    }
                    effort.why = why;
                }
                Attempt::Doubt(why) => {
                    effort.why = why;
                    effort.in_doubt = true;
                }
            }
            self.lose_connection();
            self.n_retries += 1;
            let left = effort.until.saturating_duration_since(Instant::now());
            std::thread::sleep(effort.pause.min(left));
            effort.pause = (effort.pause * 2).min(PAUSE_MAX);
        }
    }

    fn too_late(&mut self, effort: Effort) -> Result<Value, Error> {
        if effort.in_doubt {
            self.give_up();
            return Err(Error::Unknown(format!("no reply by the deadline; {}", effort.why)));
        }
        Err(Error::NotExecuted(format!("not by the deadline; {}", effort.why)))
    }

    /// Each member refuses the password. The next call begins with another connection.
    fn all_refuse(&mut self, why: String, effort: &Effort) -> Result<Value, Error> {
        if effort.in_doubt {
            self.give_up();
            return Err(Error::Unknown(why));
        }
        self.lose_connection();
        Err(Error::NotExecuted(why))
    }

    /// The number of the last call may yet be executed, so no other call may have it (K1): the next
    /// one opens another session. Ending this one here would have to wait; it expires by itself.
    fn give_up(&mut self) {
        self.session = None;
        self.lose_connection();
    }

    fn lose_connection(&mut self) {
        if self.wire.take().is_some() {
            self.next += 1;
        }
        if let Some(session) = &mut self.session {
            session.is_announced = false;
        }
    }

    fn attempt<A: AsRef<[u8]>>(&mut self, content: &Content<'_, A>, effort: &Effort) -> Attempt {
        let until = effort.until.min(after(self.options.attempt));
        match self.prepare(content, until) {
            Ok(Ok(is_numbered)) => self.send_call(content, is_numbered, effort, until),
            Ok(Err(text)) => self.refused_before(text, effort),
            Err(error) => {
                self.next += usize::from(self.wire.is_none());
                Attempt::Nothing(error.to_string())
            }
        }
    }

    /// Connected, known to the member, with a session, and knowing whether the call is numbered.
    /// Nothing of the call has been sent. The inner error is the member's.
    fn prepare<A: AsRef<[u8]>>(
        &mut self,
        content: &Content<'_, A>,
        until: Instant,
    ) -> io::Result<Result<bool, String>> {
        if self.wire.is_none() {
            let addresses = &self.options.addresses;
            let (round, at) = (self.next / addresses.len(), self.next % addresses.len());
            self.wire = Some(Wire::connect(&addresses[at], round, until)?);
            if let Some(password) = self.options.password.clone()
                && let Value::Error(text) = self.ask(&["AUTH", &password], until)?
            {
                return Ok(Err(text));
            }
        }
        if !self.session.is_some_and(|session| session.is_announced)
            && let Some(text) = self.announce(until)?
        {
            return Ok(Err(text));
        }
        match content {
            Content::One(args) => self.is_numbered(args, until).map(Ok),
            Content::All(_) => Ok(Ok(true)),
        }
    }

    /// Opens the session, or resumes it on a new connection. Gives the member's error.
    fn announce(&mut self, until: Instant) -> io::Result<Option<String>> {
        let answer = match self.session {
            None => self.ask(&["GREGALE.SESSION"], until)?,
            Some(session) => self.ask(&["GREGALE.SESSION", &session.id.to_string()], until)?,
        };
        let id = match answer {
            Value::Error(text) => return Ok(Some(text)),
            Value::Array(values) => values.first().and_then(Value::as_integer),
            _ => None,
        };
        let Some(id) = id else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no session in the answer"));
        };
        let used = self.session.map_or(0, |session| session.used);
        self.session = Some(Session { id, used, is_announced: true });
        Ok(None)
    }

    /// Whether a command uses a number up, as the server itself sees it.
    fn is_numbered<A: AsRef<[u8]>>(&mut self, args: &[A], until: Instant) -> io::Result<bool> {
        let name = args[0].as_ref().to_ascii_uppercase();
        if !self.numbered.contains_key(&name) {
            let answer = self.ask(&[&b"COMMAND"[..], b"INFO", &name], until)?;
            let Value::Array(commands) = &answer else {
                let text = "no facts in the answer";
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            };
            let facts = commands.first().and_then(array);
            let subcommands = facts.and_then(|facts| array(facts.get(9)?)).unwrap_or_default();
            for facts in subcommands.iter().filter_map(array) {
                let of = facts.first().and_then(Value::as_bytes).unwrap_or_default();
                self.numbered.insert(of.to_ascii_uppercase(), Some(uses_number(facts)));
            }
            // The server refuses what it does not know, and uses no number up.
            let is_numbered = facts.is_none_or(uses_number);
            let by_itself = subcommands.is_empty().then_some(is_numbered);
            self.numbered.insert(name.clone(), by_itself);
        }
        let is_numbered = self.numbered[&name].or_else(|| {
            let of = [&name, &b"|"[..], &args.get(1)?.as_ref().to_ascii_uppercase()].concat();
            *self.numbered.get(&of)?
        });
        Ok(is_numbered.unwrap_or(true))
    }

    /// A member answered an error before the call was sent.
    fn refused_before(&mut self, text: String, effort: &Effort) -> Attempt {
        match code(&text) {
            "NOAUTH" | "WRONGPASS" => Attempt::Refused(text),
            "MAXSESSIONS" => Attempt::Over(Err(Error::NotExecuted(text))),
            "NOSESSION" => self.session_is_gone(text, effort),
            _ => Attempt::Nothing(text),
        }
    }

    fn session_is_gone(&mut self, text: String, effort: &Effort) -> Attempt {
        self.session = None;
        if effort.in_doubt {
            Attempt::Over(Err(Error::Unknown(text)))
        } else {
            // Nothing of this call was ever sent: it may start again in another session.
            Attempt::Nothing(text)
        }
    }

    fn send_call<A: AsRef<[u8]>>(
        &mut self,
        content: &Content<'_, A>,
        is_numbered: bool,
        effort: &Effort,
        until: Instant,
    ) -> Attempt {
        let session = self.session.expect("announced");
        let number = (session.used + 1).to_string();
        let call = [&b"GREGALE.CALL"[..], number.as_bytes()];
        // The reply of each call before has been received, or its session given up.
        let mut bytes = Vec::new();
        put_request(&["GREGALE.ACK", &session.used.to_string()], &mut bytes);
        let n_before = match content {
            Content::One(args) => {
                let args = call.into_iter().chain(args.iter().map(AsRef::as_ref));
                put_request(&args.collect::<Vec<_>>(), &mut bytes);
                1
            }
            Content::All(commands) => {
                put_request(&["MULTI"], &mut bytes);
                commands.iter().for_each(|args| put_request(args, &mut bytes));
                put_request(&[call[0], call[1], b"EXEC"], &mut bytes);
                commands.len() + 2
            }
        };
        let in_vain = |error: &dyn std::fmt::Display| match is_numbered {
            true => Attempt::Doubt(error.to_string()),
            false => Attempt::Nothing(error.to_string()),
        };
        let wire = self.wire.as_mut().expect("connected");
        if let Err(error) = wire.send(&bytes, until) {
            return in_vain(&error);
        }
        let mut refused = None;
        for _ in 0..n_before {
            match wire.receive(until) {
                Ok(Value::Error(text)) => refused = refused.or(Some(text)),
                Ok(_) => {}
                Err(error) => return in_vain(&error),
            }
        }
        match wire.receive(until) {
            Ok(Value::Error(text)) => self.answered_error(text, refused, is_numbered, effort),
            Ok(value) => {
                self.use_up(is_numbered);
                Attempt::Over(Ok(value))
            }
            Err(error) => in_vain(&error),
        }
    }

    fn use_up(&mut self, is_numbered: bool) {
        if let Some(session) = &mut self.session {
            session.used += u64::from(is_numbered);
        }
    }

    /// What an error in place of the reply means (docs/sessions.md lists the codes).
    fn answered_error(
        &mut self,
        text: String,
        refused: Option<String>,
        is_numbered: bool,
        effort: &Effort,
    ) -> Attempt {
        match code(&text) {
            "UNKNOWN" => Attempt::Doubt(text),
            "TRYAGAIN" | "LOADING" => Attempt::Nothing(text),
            "NOSESSION" => self.session_is_gone(text, effort),
            // The member that executed it has answered an attempt whose reply was lost.
            "TOOLONG" | "ACKED" => {
                self.use_up(is_numbered);
                Attempt::Over(Err(Error::ReplyLost(text)))
            }
            // The cluster has forgotten calls that it had executed: its memory was lost, or it was
            // restored from a backup. The number may be used by an attempt that is on its way.
            "GAP" => {
                self.session = None;
                let error = if effort.in_doubt { Error::Unknown } else { Error::NotExecuted };
                Attempt::Over(Err(error(text)))
            }
            "NOTCALLED" | "EXECABORT" | "WINDOW" | "NOAUTH" => {
                // An open MULTI, if there is one, ends with the connection.
                self.lose_connection();
                let text = refused.unwrap_or(text);
                let error = if effort.in_doubt { Error::Unknown } else { Error::NotExecuted };
                Attempt::Over(Err(error(text)))
            }
            _ if text.starts_with("ERR data lost") => Attempt::Nothing(text),
            _ => {
                self.use_up(is_numbered);
                Attempt::Over(Err(Error::Answered(text)))
            }
        }
    }

    fn end(&mut self, id: i64, until: Instant) -> io::Result<()> {
        if !self.session.is_some_and(|session| session.id == id && session.is_announced) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        match self.ask(&["GREGALE.SESSION", "END"], until)? {
            Value::Simple(_) => Ok(()),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// One request, one reply.
    fn ask<A: AsRef<[u8]>>(&mut self, args: &[A], until: Instant) -> io::Result<Value> {
        let wire = self.wire.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let mut bytes = Vec::new();
        put_request(args, &mut bytes);
        wire.send(&bytes, until)?;
        wire.receive(until)
    }
}

/// Why a call is not even sent.
fn refusal<A: AsRef<[u8]>>(content: &Content<'_, A>) -> Option<&'static str> {
    let one = |args: &&[A]| args.iter().map(|arg| arg.as_ref().len() + 16).sum::<usize>();
    let (is_empty, bytes) = match content {
        Content::One(args) => (args.is_empty(), one(args)),
        Content::All(commands) => {
            let is_empty = commands.is_empty() || commands.iter().any(|args| args.is_empty());
            (is_empty, commands.iter().map(one).sum())
        }
    };
    if is_empty {
        return Some("a command has at least a name");
    }
    // It would stay chosen until the connection is lost.
    let selects = |args: &&[A]| args[0].as_ref().eq_ignore_ascii_case(b"SELECT");
    let is_select = match content {
        Content::One(args) => selects(args),
        Content::All(commands) => commands.iter().any(selects),
    };
    if is_select {
        return Some("SELECT is about a connection, and calls are made on several");
    }
    if let Content::All(commands) = content
        && commands.iter().any(|args| breaks_transaction(args[0].as_ref()))
    {
        return Some("a transaction has no command about the connection or its transactions");
    }
    (bytes > CALL_BYTES_MAX).then_some("longer than a call may be; use several")
}

/// Whether a command of this name cannot be queued in a transaction, or would end it before its
/// EXEC: what it did then would be taken for refused.
fn breaks_transaction(name: &[u8]) -> bool {
    // The last two are those of HTTP, at which a server hangs up.
    let names = ["MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH", "RESET", "QUIT", "POST", "HOST:"];
    let own = b"GREGALE.";
    names.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
        || name.get(..own.len()).is_some_and(|start| start.eq_ignore_ascii_case(own))
}

fn array(value: &Value) -> Option<&[Value]> {
    if let Value::Array(values) = value { Some(values) } else { None }
}

/// Whether these facts of a command are those of one that uses a number up (docs/sessions.md).
fn uses_number(facts: &[Value]) -> bool {
    let has = |at: usize, word: &[u8]| {
        let words = facts.get(at).and_then(array)?;
        Some(words.iter().any(|one| one.as_bytes() == Some(word)))
    };
    has(2, b"write").unwrap_or(true) || has(7, b"gregale:numbered").unwrap_or(false)
}

/// The first word of an error.
fn code(text: &str) -> &str {
    text.split(' ').next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
