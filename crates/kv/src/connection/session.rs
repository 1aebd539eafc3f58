//! GREGALE.SESSION, GREGALE.CALL, GREGALE.ACK: the connection's end of a client session.
//!
//! The session itself is in the log. This module holds the session to which the connection is
//! bound, and what its client has acknowledged, which travels with the next call and costs no entry
//! of its own.
//!
//! A call that is refused here, before it reaches the log, uses no number up. The client must be
//! able to recognise that, so each such error begins with NOTCALLED (or EXECABORT, as EXEC's own
//! do, or NOAUTH). A request that is too long is not looked at, so it counts as a call on a
//! connection that has a session.

use super::door::{Door, kind_of};
use super::held::Kind;
use crate::client_sessions::{CallNumber, SessionId};
use crate::command::{Args, CommandSpec, resolve};
use crate::entry::SessionCommand;
use crate::entry::command::{put_database, put_plain};
use crate::exec::{SYNTAX, admit, parse_integer};
use crate::partition::SNAPSHOT_REQUEST;

/// The session to which a connection is bound.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Speaking {
    /// The session's id; `None` before GREGALE.SESSION.
    id: Option<SessionId>,
    /// The last call whose reply the client knows.
    acknowledged: u64,
    /// The session and the number of the call that is the held EXEC.
    pub(super) exec: Option<(SessionId, CallNumber)>,
}

const NO_SESSION_HERE: &str = "this connection has no session; send GREGALE.SESSION first";

impl Speaking {
    /// Whether the connection has a session.
    pub(super) fn has_session(&self) -> bool {
        self.id.is_some()
    }

    fn begin(&mut self, id: SessionId) {
        *self = Speaking { id: Some(id), ..Speaking::default() };
    }

    /// Handles the answer to GREGALE.SESSION.
    pub(super) fn opened(&mut self, reply: &[u8]) {
        let text = std::str::from_utf8(reply).unwrap_or_default();
        let mut lines = text.split("\r\n");
        // An error opens nothing: calls are refused until another GREGALE.SESSION succeeds.
        if let (Some("*3"), Some(id)) = (lines.next(), lines.next())
            && let Some(Ok(id)) = id.strip_prefix(':').map(str::parse)
        {
            self.begin(SessionId(id));
        }
    }

    /// Appends the beginning of a call's bytes.
    pub(super) fn put_call(&self, id: SessionId, number: CallNumber, out: &mut Vec<u8>) {
        let acknowledged = CallNumber(self.acknowledged);
        SessionCommand::Call { id, number, acknowledged, command: &[] }.put(out);
    }
}

impl Door {
    /// GREGALE.SNAPSHOT command [argument ...]: a read, at one timestamp of all its partitions.
    pub(super) fn snapshot(&mut self, args: &[&[u8]]) {
        let args: Args<'_> = args.into();
        let Some(spec) = resolve(&args, &mut self.reply) else { return };
        if !spec.is_for_store() || spec.is_write() {
            self.reply.error("ERR only a command that reads keys can be read at a snapshot");
        } else if let Err(refusal) = admit(spec, &args) {
            self.reply.error(refusal);
        } else {
            self.held.command.clear();
            self.held.command.push(SNAPSHOT_REQUEST);
            put_database(self.db, &mut self.held.command);
            put_plain(&args, self.protocol, &mut self.held.command);
            self.held.hold(Kind::Read);
        }
    }

    /// Refuses the request; the session's number is not used up.
    pub(super) fn not_called(&mut self, why: impl AsRef<[u8]>) {
        let mut text = b"NOTCALLED the number is not used up: ".to_vec();
        text.extend_from_slice(why.as_ref());
        self.reply.clear();
        self.reply.error(text);
    }

    /// Says of a call that was refused in the words that other requests hear, too, that its number
    /// is not used up.
    pub(super) fn mark_refusal(&mut self) {
        if self.reply.as_bytes().starts_with(b"-ERR ") {
            let reply = self.reply.take();
            self.not_called(reply[1..].strip_suffix(b"\r\n").unwrap_or(&reply[1..]));
        }
    }

    /// GREGALE.SESSION [id | END]
    pub(super) fn session(&mut self, args: &[&[u8]]) {
        self.held.command.clear();
        match args {
            [_] => {
                SessionCommand::Open.put(&mut self.held.command);
                self.speaking = Speaking::default();
                self.held.hold(Kind::Open);
            }
            [_, word] if word.eq_ignore_ascii_case(b"end") => {
                let Some(id) = self.speaking.id else {
                    self.reply.error_fmt(format_args!("ERR {NO_SESSION_HERE}"));
                    return;
                };
                SessionCommand::End(id).put(&mut self.held.command);
                self.speaking = Speaking::default();
                self.held.hold(Kind::Write);
            }
            [_, id] => match parse_integer(id).map(u64::try_from) {
                Some(Ok(id)) => {
                    // The log decides for each call whether the session exists.
                    SessionCommand::Resume(SessionId(id)).put(&mut self.held.command);
                    self.speaking.begin(SessionId(id));
                    self.held.hold(Kind::Write);
                }
                _ => self.reply.error("ERR a session's id is a number that GREGALE.SESSION gave"),
            },
            _ => self.reply.error(SYNTAX),
        }
    }

    /// GREGALE.ACK number
    pub(super) fn acknowledge(&mut self, args: &[&[u8]]) {
        match (self.speaking.id, parse_integer(args[1]).map(u64::try_from)) {
            (None, _) => self.reply.error_fmt(format_args!("ERR {NO_SESSION_HERE}")),
            (_, Some(Ok(number))) => {
                self.speaking.acknowledged = self.speaking.acknowledged.max(number);
                self.reply.ok();
            }
            _ => self.reply.error("ERR the number of a call is an integer, from 0"),
        }
    }

    /// GREGALE.CALL number command [argument ...]
    pub(super) fn call(&mut self, args: &[&[u8]]) {
        let Some(id) = self.speaking.id else {
            self.not_called(NO_SESSION_HERE);
            return;
        };
        let number = match parse_integer(args[1]).map(u64::try_from) {
            Some(Ok(number)) if number > 0 => CallNumber(number),
            _ => {
                self.not_called("the number of a call is an integer, from 1");
                return;
            }
        };
        let args = &args[2..];
        // `mark_refusal` completes what is answered here.
        let Some(spec) = resolve(args, &mut self.reply) else { return };
        self.call_resolved(id, number, spec, args);
    }

    fn call_resolved(
        &mut self,
        id: SessionId,
        number: CallNumber,
        spec: &'static CommandSpec,
        args: &[&[u8]],
    ) {
        if spec.name == "exec" {
            if self.transaction.is_none() {
                self.not_called("EXEC without MULTI");
                return;
            }
            self.exec();
            self.speaking.exec = self.held.kind().map(|_| (id, number));
        } else if !spec.is_for_store() {
            let name = spec.name.replace('|', " ").to_ascii_uppercase();
            self.not_called(format!("{name} is about the connection; send it by itself"));
        } else if let Err(refusal) = admit(spec, args) {
            self.not_called(refusal);
        } else {
            self.held.command.clear();
            if spec.is_write() {
                self.speaking.put_call(id, number, &mut self.held.command);
            } else {
                SessionCommand::Read { id, number, command: &[] }.put(&mut self.held.command);
            }
            put_database(self.db, &mut self.held.command);
            put_plain(args, self.protocol, &mut self.held.command);
            self.held.hold(kind_of(spec, args));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_acknowledged_belongs_to_one_session() {
        let mut speaking = Speaking::default();
        speaking.opened(b"*3\r\n:7\r\n:0\r\n:0\r\n");
        assert_eq!(speaking.id, Some(SessionId(7)));
        speaking.acknowledged = 5;
        speaking.begin(SessionId(8));
        assert_eq!((speaking.id, speaking.acknowledged), (Some(SessionId(8)), 0));
    }
}
