//! A history as lines of JSON, one operation a line, in any order.
//!
//! ```text
//! {"history":"gregale","version":1}
//! {"client":1,"invoke_ns":100,"complete_ns":180,"op":"set","key":"a","value":"x","result":"ok"}
//! {"client":2,"invoke_ns":120,"complete_ns":190,"op":"get","key":"a","result":{"value":null}}
//! {"client":3,"invoke_ns":130,"op":"incr","key":"n","by":1}
//! {"client":3,"invoke_ns":230,"complete_ns":240,"op":"incr","key":"n","by":1,"result":"failed"}
//! {"client":1,"invoke_ns":300,"complete_ns":390,"op":"txn","commands":[{"op":"get","key":"a"},
//!  {"op":"delete","key":"b"}],"result":{"all":[{"value":"x"},{"done":false}]}}
//! ```
//! (The last is one line.)
//!
//! | `op` | other fields | `result` |
//! | --- | --- | --- |
//! | `get` | | `{"value":V}` |
//! | `set` | `value` | `"ok"` |
//! | `swap` | `value` | `{"value":V}`, the value before |
//! | `cas` | `expect` (V), `value` | `{"done":B}` |
//! | `append` | `value` | `{"number":N}`, the new length |
//! | `incr` | `by` | `{"number":N}`, the new number, or `"refused"` |
//! | `delete` | | `{"done":B}` |
//! | `txn` | `commands` | `{"all":[...]}` |
//!
//! A key or value is a string, or `{"hex":"00ff"}` if it is no UTF-8; V is one, or null for the
//! absence of a value. Without `complete_ns` and `result` the outcome is unknown; the result
//! `"failed"` says that it surely took no effect. Times are nanoseconds of any clock that all
//! clients share; an operation that is called in the nanosecond in which another one ends is in
//! flight together with it, so a recorder whose clock is coarse, and that knows which was first,
//! gives them different times. A header line may stand anywhere, so files can be concatenated. A
//! field that this table does not name is an error: a misspelt `complete_ns` must not turn into an
//! unknown outcome.

use crate::{Action, Command, End, Flaw, History, Op, Reply};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};
use thiserror::Error;

/// The version of the format that is written, and the only one that is read.
pub const VERSION: u32 = 1;

/// Why a file is no history.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The file could not be read.
    #[error("cannot read the history: {0}")]
    Io(#[from] io::Error),
    /// A line is no operation.
    #[error("line {line} is not an operation: {why}")]
    Syntax {
        /// Which line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// A line is an operation that cannot have been.
    #[error("line {line} cannot have happened: {flaw}")]
    Flaw {
        /// Which line, from 1.
        line: usize,
        /// What is wrong.
        flaw: Flaw,
    },
    /// A newer program wrote it.
    #[error(
        "line {line}: format version {found}, but this program reads {VERSION}: use the program that recorded it"
    )]
    Version {
        /// Which line, from 1.
        line: usize,
        /// The version found.
        found: u32,
    },
    /// Nothing was recorded: an empty file proves nothing, so it is not judged.
    #[error("the history has no operation: nothing was recorded, or this is the wrong file")]
    Empty,
}

/// Writes the header and then every operation.
///
/// # Errors
/// As `out` says.
pub fn write(history: &History, mut out: impl Write) -> io::Result<()> {
    write_header(&mut out)?;
    history.ops.iter().try_for_each(|op| write_op(op, &mut out))
}

/// Writes the header line: for recorders that write operations as they end.
///
/// # Errors
/// As `out` says.
pub fn write_header(mut out: impl Write) -> io::Result<()> {
    writeln!(out, "{{\"history\":\"gregale\",\"version\":{VERSION}}}")
}

/// Writes one operation as one line.
///
/// # Errors
/// As `out` says.
pub fn write_op(op: &Op, mut out: impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut out, &Line::from_op(op))?;
    out.write_all(b"\n")
}

/// Reads a history and validates every operation.
///
/// # Errors
/// [`ReadError`] names the line and the cause.
pub fn read(input: impl BufRead) -> Result<History, ReadError> {
    let mut history = History::new();
    for (n, text) in input.lines().enumerate() {
        let (line, text) = (n + 1, text?);
        if text.trim().is_empty() {
            continue;
        }
        if text.starts_with("{\"history\"") {
            let header: Header = parse(&text, line)?;
            if header.history != "gregale" {
                let why = format!("a history of {:?}, not of \"gregale\"", header.history);
                return Err(ReadError::Syntax { line, why });
            }
            if header.version != VERSION {
                return Err(ReadError::Version { line, found: header.version });
            }
            continue;
        }
        let op = parse::<Line>(&text, line)?
            .into_op()
            .map_err(|why| ReadError::Syntax { line, why: why.to_owned() })?;
        op.validate().map_err(|flaw| ReadError::Flaw { line, flaw })?;
        history.push(op);
    }
    if history.ops.is_empty() { Err(ReadError::Empty) } else { Ok(history) }
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str, line: usize) -> Result<T, ReadError> {
    serde_json::from_str(text).map_err(|e| ReadError::Syntax { line, why: e.to_string() })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    history: String,
    version: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Text {
    Plain(String),
    Hex(Hex),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hex {
    hex: String,
}

impl Text {
    fn of(bytes: &[u8]) -> Text {
        match std::str::from_utf8(bytes) {
            Ok(text) => Text::Plain(text.to_owned()),
            Err(_) => {
                Text::Hex(Hex { hex: bytes.iter().map(|byte| format!("{byte:02x}")).collect() })
            }
        }
    }

    fn bytes(self) -> Result<Vec<u8>, &'static str> {
        let hex = match self {
            Text::Plain(text) => return Ok(text.into_bytes()),
            Text::Hex(Hex { hex }) => hex,
        };
        let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
        if !rest.is_empty() || !hex.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err("`hex` needs an even number of hexadecimal digits");
        }
        let digit = |at: u8| (at as char).to_digit(16).unwrap_or(0) as u8;
        Ok(pairs.iter().map(|[high, low]| digit(*high) << 4 | digit(*low)).collect())
    }
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Name {
    Get,
    Set,
    Swap,
    Cas,
    Append,
    Incr,
    Delete,
    Txn,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Answer {
    Ok,
    Refused,
    Failed,
    Value(Option<Text>),
    Done(bool),
    Number(i64),
    All(Vec<Answer>),
}

impl Answer {
    fn of(reply: &Reply) -> Answer {
        match reply {
            Reply::Ok => Answer::Ok,
            Reply::Value(value) => Answer::Value(value.as_deref().map(Text::of)),
            Reply::Done(done) => Answer::Done(*done),
            Reply::Number(number) => Answer::Number(*number),
            Reply::Refused => Answer::Refused,
        }
    }

    fn reply(self) -> Result<Reply, &'static str> {
        Ok(match self {
            Answer::Ok => Reply::Ok,
            Answer::Refused => Reply::Refused,
            Answer::Value(value) => Reply::Value(value.map(Text::bytes).transpose()?),
            Answer::Done(done) => Reply::Done(done),
            Answer::Number(number) => Reply::Number(number),
            Answer::Failed => return Err("\"failed\" is the result of a whole operation"),
            Answer::All(_) => return Err("`all` is the result of a `txn`"),
        })
    }
}

/// Tells an absent field from one that is null: `expect` may be null and must not be forgotten.
fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Option<Text>>, D::Error> {
    Option::<Text>::deserialize(from).map(Some)
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    client: u64,
    invoke_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    complete_ns: Option<u64>,
    op: Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    expect: Option<Option<Text>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    commands: Option<Vec<Part>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Answer>,
}

/// One command of a transaction.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    op: Name,
    key: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    expect: Option<Option<Text>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<i64>,
}

impl Part {
    fn of(command: &Command) -> Part {
        let part = |op| Part {
            op,
            key: Some(Text::of(&command.key)),
            expect: None,
            value: None,
            by: None,
        };
        let with = |op, value: &[u8]| Part { value: Some(Text::of(value)), ..part(op) };
        match &command.action {
            Action::Get => part(Name::Get),
            Action::Delete => part(Name::Delete),
            Action::Set(value) => with(Name::Set, value),
            Action::Swap(value) => with(Name::Swap, value),
            Action::Append(value) => with(Name::Append, value),
            Action::Incr(by) => Part { by: Some(*by), ..part(Name::Incr) },
            Action::Cas { expect, value } => {
                let expect = Some(expect.as_deref().map(Text::of));
                Part { expect, ..with(Name::Cas, value) }
            }
        }
    }

    fn command(self) -> Result<Command, &'static str> {
        let key = self.key.ok_or("`key` is missing")?.bytes()?;
        let value = self.value.map(Text::bytes).transpose()?;
        let wants_value = matches!(self.op, Name::Set | Name::Swap | Name::Cas | Name::Append);
        if value.is_some() != wants_value {
            return Err("`value` belongs to set, swap, cas and append, and only there");
        }
        if self.by.is_some() != (self.op == Name::Incr) {
            return Err("`by` belongs to incr, and only there");
        }
        if self.expect.is_some() != (self.op == Name::Cas) {
            return Err("`expect` belongs to cas, and only there");
        }
        let value = value.unwrap_or_default();
        let action = match self.op {
            Name::Get => Action::Get,
            Name::Delete => Action::Delete,
            Name::Set => Action::Set(value),
            Name::Swap => Action::Swap(value),
            Name::Append => Action::Append(value),
            Name::Incr => Action::Incr(self.by.unwrap_or_default()),
            Name::Cas => {
                let expect = self.expect.flatten().map(Text::bytes).transpose()?;
                Action::Cas { expect, value }
            }
            Name::Txn => return Err("a `txn` cannot contain a `txn`"),
        };
        Ok(Command { key, action })
    }
}

impl Line {
    fn from_op(op: &Op) -> Line {
        let result = match &op.end {
            End::Unknown => None,
            End::Failed { .. } => Some(Answer::Failed),
            End::Answered { replies, .. } => match replies.as_slice() {
                [reply] => Some(Answer::of(reply)),
                replies => Some(Answer::All(replies.iter().map(Answer::of).collect())),
            },
        };
        let bare = |op_name| Line {
            client: op.client,
            invoke_ns: op.invoke_ns,
            complete_ns: op.complete_ns(),
            op: op_name,
            key: None,
            expect: None,
            value: None,
            by: None,
            commands: None,
            result,
        };
        match op.commands.as_slice() {
            [command] => {
                let Part { op, key, expect, value, by } = Part::of(command);
                Line { key, expect, value, by, ..bare(op) }
            }
            commands => {
                let commands = Some(commands.iter().map(Part::of).collect());
                Line { commands, ..bare(Name::Txn) }
            }
        }
    }

    fn into_op(self) -> Result<Op, &'static str> {
        let Line { client, invoke_ns, complete_ns, op, key, expect, value, by, commands, result } =
            self;
        let commands = if op == Name::Txn {
            if key.is_some() || expect.is_some() || value.is_some() || by.is_some() {
                return Err("a `txn` has `commands`, and they have keys and values");
            }
            let parts = commands.ok_or("`commands` is missing")?;
            parts.into_iter().map(Part::command).collect::<Result<_, _>>()?
        } else {
            if commands.is_some() {
                return Err("`commands` belongs to txn, and only there");
            }
            vec![Part { op, key, expect, value, by }.command()?]
        };
        let end = match (complete_ns, result) {
            (None, None) => End::Unknown,
            (Some(at_ns), Some(Answer::Failed)) => End::Failed { at_ns },
            (Some(at_ns), Some(Answer::All(all))) => {
                let replies = all.into_iter().map(Answer::reply).collect::<Result<_, _>>()?;
                End::Answered { at_ns, replies }
            }
            (Some(at_ns), Some(answer)) => End::Answered { at_ns, replies: vec![answer.reply()?] },
            (Some(_), None) | (None, Some(_)) => {
                return Err("`complete_ns` and `result` come together, or not at all");
            }
        };
        Ok(Op { client, invoke_ns, commands, end })
    }
}
