//! What clients asked of a key-value service, when, and what they learnt.
//!
//! An operation is one command, or several that the service promised to execute as one (MULTI and
//! EXEC). Its end is one of three, and the difference is the whole point:
//!
//! - *answered*: it took effect at one instant between its call and its answer;
//! - *failed*: it surely took no effect, at no time (refused before anything was proposed);
//! - *unknown*: it may take effect at any time from its call on, or never. So ends an operation
//!   whose connection broke, whose deadline passed, or that was in flight when the recording ended.
//!
//! Calling an unknown operation failed hides lost writes as well as it invents them; a recorder
//! that is not sure says unknown.

use std::fmt;
use thiserror::Error;

/// What is done to one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Reads the value. Answered with [`Reply::Value`].
    Get,
    /// Replaces the value. Answered with [`Reply::Ok`].
    Set(Vec<u8>),
    /// Replaces the value and returns the one before. Answered with [`Reply::Value`].
    #[doc(alias = "getset")]
    Swap(Vec<u8>),
    /// Replaces the value if it is the expected one (`None`: the key must have no value). Answered
    /// with [`Reply::Done`].
    #[doc(alias = "setnx")]
    Cas {
        /// What must be there.
        expect: Option<Vec<u8>>,
        /// What is there afterwards.
        value: Vec<u8>,
    },
    /// Adds to the value's end; no value counts as an empty one. Answered with [`Reply::Number`],
    /// the new length in bytes.
    Append(Vec<u8>),
    /// Adds to the decimal number that the value is; no value counts as 0. Answered with
    /// [`Reply::Number`], the new number, or [`Reply::Refused`].
    Incr(i64),
    /// Removes the value. Answered with [`Reply::Done`]: whether there was one.
    Delete,
}

/// One action on one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Command {
    /// Which key.
    pub key: Vec<u8>,
    /// What is done to it.
    pub action: Action,
}

impl Command {
    /// `action` on `key`.
    pub fn new(key: impl Into<Vec<u8>>, action: Action) -> Command {
        Command { key: key.into(), action }
    }
}

/// What the service answered to one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Done.
    Ok,
    /// The value, or its absence.
    Value(Option<Vec<u8>>),
    /// Whether it was done.
    Done(bool),
    /// The new number or length.
    Number(i64),
    /// The command does not apply to the value (not a number, or out of range); nothing changed.
    Refused,
}

/// How an operation ended, as far as its client knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The service answered.
    Answered {
        /// When the client had the whole answer.
        at_ns: u64,
        /// One reply a command.
        replies: Vec<Reply>,
    },
    /// It surely took no effect.
    Failed {
        /// When the client knew.
        at_ns: u64,
    },
    /// It may take effect at any time, or never.
    Unknown,
}

/// One operation as its client saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// Whose. A client may have several operations in flight.
    pub client: u64,
    /// When the client called, before the first byte left. Any clock that all clients share.
    pub invoke_ns: u64,
    /// Executed as one; never empty.
    pub commands: Vec<Command>,
    /// How it ended.
    pub end: End,
}

impl Op {
    /// One command with its reply.
    pub fn answered(client: u64, invoke_ns: u64, at_ns: u64, command: Command, reply: Reply) -> Op {
        let end = End::Answered { at_ns, replies: vec![reply] };
        Op { client, invoke_ns, commands: vec![command], end }
    }

    /// One command of unknown outcome.
    pub fn unknown(client: u64, invoke_ns: u64, command: Command) -> Op {
        Op { client, invoke_ns, commands: vec![command], end: End::Unknown }
    }

    /// When it ended, or `None` if it may still take effect.
    pub fn complete_ns(&self) -> Option<u64> {
        match self.end {
            End::Answered { at_ns, .. } | End::Failed { at_ns } => Some(at_ns),
            End::Unknown => None,
        }
    }

    /// What no recorder may write down.
    ///
    /// # Errors
    /// The first [`Flaw`] of this operation.
    pub fn validate(&self) -> Result<(), Flaw> {
        if self.commands.is_empty() {
            return Err(Flaw::Empty);
        }
        if let Some(complete_ns) = self.complete_ns()
            && complete_ns < self.invoke_ns
        {
            return Err(Flaw::Backwards { invoke_ns: self.invoke_ns, complete_ns });
        }
        let End::Answered { replies, .. } = &self.end else { return Ok(()) };
        if replies.len() != self.commands.len() {
            return Err(Flaw::Count { commands: self.commands.len(), replies: replies.len() });
        }
        for (command, reply) in self.commands.iter().zip(replies) {
            let fits = matches!(
                (&command.action, reply),
                (Action::Get | Action::Swap(_), Reply::Value(_))
                    | (Action::Set(_), Reply::Ok)
                    | (Action::Cas { .. } | Action::Delete, Reply::Done(_))
                    | (Action::Append(_), Reply::Number(_))
                    | (Action::Incr(_), Reply::Number(_) | Reply::Refused)
            );
            if !fits {
                let (action, reply) = (command.to_string(), reply.to_string());
                return Err(Flaw::Reply { action, reply });
            }
        }
        Ok(())
    }
}

/// What makes an operation no possible record. The recorder is wrong, not the service.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Flaw {
    /// It commands nothing.
    #[error("an operation needs at least one command")]
    Empty,
    /// It ended before it began.
    #[error(
        "completed at {complete_ns} ns, before its call at {invoke_ns} ns: use one monotonic clock for all clients"
    )]
    Backwards {
        /// Its call.
        invoke_ns: u64,
        /// Its end.
        complete_ns: u64,
    },
    /// Too few or too many replies.
    #[error("{commands} commands with {replies} replies: record one reply a command")]
    Count {
        /// How many commands.
        commands: usize,
        /// How many replies.
        replies: usize,
    },
    /// A reply that this command never has.
    #[error("`{action}` is never answered with {reply}")]
    Reply {
        /// The command.
        action: String,
        /// The reply.
        reply: String,
    },
}

/// What all clients of one run saw. The order of its operations means nothing; their times do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The operations.
    pub ops: Vec<Op>,
}

impl History {
    /// Nothing yet.
    pub fn new() -> History {
        History::default()
    }

    /// Adds an operation.
    pub fn push(&mut self, op: Op) {
        self.ops.push(op);
    }
}

impl FromIterator<Op> for History {
    fn from_iter<I: IntoIterator<Item = Op>>(ops: I) -> History {
        History { ops: ops.into_iter().collect() }
    }
}

/// Names an operation that a [`Recorder`] has seen begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(usize);

/// Takes a history down as it happens; what never ends is unknown, as it should be.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    history: History,
}

impl Recorder {
    /// Nothing recorded.
    pub fn new() -> Recorder {
        Recorder::default()
    }

    /// A client is about to send `commands`.
    pub fn call(&mut self, client: u64, invoke_ns: u64, commands: Vec<Command>) -> CallId {
        self.history.push(Op { client, invoke_ns, commands, end: End::Unknown });
        CallId(self.history.ops.len() - 1)
    }

    /// The answer is there. An operation that has ended already keeps its first end: the first
    /// answer is what the client acted on.
    pub fn answered(&mut self, call: CallId, at_ns: u64, replies: Vec<Reply>) {
        self.end(call, End::Answered { at_ns, replies });
    }

    /// The operation surely took no effect.
    pub fn failed(&mut self, call: CallId, at_ns: u64) {
        self.end(call, End::Failed { at_ns });
    }

    fn end(&mut self, call: CallId, end: End) {
        let op = &mut self.history.ops[call.0];
        if op.end == End::Unknown {
            op.end = end;
        }
    }

    /// What was recorded so far.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// What was recorded.
    pub fn finish(self) -> History {
        self.history
    }
}

/// A value or a key for people: quoted, escaped, cut when it is long.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    const SHOWN: usize = 48;
    let head = &bytes[..bytes.len().min(SHOWN)];
    let text = format!("\"{}\"", head.escape_ascii());
    if bytes.len() > SHOWN { format!("{text}... ({} bytes)", bytes.len()) } else { text }
}

pub(crate) fn quoted_or_nil(value: Option<&[u8]>) -> String {
    value.map_or_else(|| "nil".to_owned(), quoted)
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = quoted(&self.key);
        match &self.action {
            Action::Get => write!(f, "get {key}"),
            Action::Set(value) => write!(f, "set {key} {}", quoted(value)),
            Action::Swap(value) => write!(f, "swap {key} {}", quoted(value)),
            Action::Cas { expect, value } => {
                let expect = quoted_or_nil(expect.as_deref());
                write!(f, "cas {key} from {expect} to {}", quoted(value))
            }
            Action::Append(value) => write!(f, "append {key} {}", quoted(value)),
            Action::Incr(by) => write!(f, "incr {key} by {by}"),
            Action::Delete => write!(f, "delete {key}"),
        }
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Ok => f.write_str("ok"),
            Reply::Value(value) => f.write_str(&quoted_or_nil(value.as_deref())),
            Reply::Done(done) => write!(f, "{done}"),
            Reply::Number(number) => write!(f, "{number}"),
            Reply::Refused => f.write_str("refused"),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {:<3} ", self.client)?;
        for (n, command) in self.commands.iter().enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            write!(f, "{comma}{command}")?;
            if let End::Answered { replies, .. } = &self.end {
                write!(f, " -> {}", replies.get(n).map_or_else(String::new, Reply::to_string))?;
            }
        }
        match self.end {
            End::Answered { at_ns, .. } => write!(f, "  [{}, {at_ns}] ns", self.invoke_ns),
            End::Failed { at_ns } => write!(f, " -> failed  [{}, {at_ns}] ns", self.invoke_ns),
            End::Unknown => write!(f, " -> unknown  [{}, ...) ns", self.invoke_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(value: &str) -> Command {
        Command::new("k", Action::Set(value.into()))
    }

    #[test]
    fn what_never_ends_is_unknown() {
        let mut recorder = Recorder::new();
        let first = recorder.call(1, 10, vec![set("a")]);
        recorder.call(1, 20, vec![set("b")]);
        recorder.answered(first, 15, vec![Reply::Ok]);
        let history = recorder.finish();
        assert_eq!(history.ops[0].complete_ns(), Some(15));
        assert_eq!(history.ops[1].end, End::Unknown);
    }

    #[test]
    fn a_second_end_does_not_replace_the_first() {
        let mut recorder = Recorder::new();
        let call = recorder.call(1, 10, vec![set("a")]);
        recorder.answered(call, 15, vec![Reply::Ok]);
        recorder.failed(call, 16);
        assert_eq!(recorder.history().ops[0].complete_ns(), Some(15));
    }

    #[test]
    fn a_reply_of_the_wrong_kind_is_a_flaw_of_the_recorder() {
        let op = Op::answered(1, 0, 1, Command::new("k", Action::Get), Reply::Number(3));
        assert!(matches!(op.validate(), Err(Flaw::Reply { .. })));
        let mut op = Op::answered(1, 5, 1, set("a"), Reply::Ok);
        assert_eq!(op.validate(), Err(Flaw::Backwards { invoke_ns: 5, complete_ns: 1 }));
        op.commands.clear();
        assert_eq!(op.validate(), Err(Flaw::Empty));
        let mut op = Op::answered(1, 5, 6, set("a"), Reply::Ok);
        op.commands.push(set("b"));
        assert_eq!(op.validate(), Err(Flaw::Count { commands: 2, replies: 1 }));
    }
}
