//! The commands of client sessions as bytes.
//!
//! ```text
//! open   = 3
//! resume = 4 | session (8)
//! end    = 5 | session (8)
//! call   = 6 | session (8) | number (varint) | acknowledged (varint) | plain or transaction
//! read   = 7 | session (8) | number (varint) | plain; a read, never in the log
//! ```
//! The first byte is the command's kind, see [`command`](super::command); numbers of eight bytes
//! are little endian. Their replies are the same in RESP2 and RESP3; a call in a session has a
//! protocol of its own.

use super::varint::{put, take};
use crate::client_sessions::{CallNumber, SessionId};

pub(super) const OPEN: u8 = 3;
pub(super) const RESUME: u8 = 4;
pub(super) const END: u8 = 5;
pub(super) const CALL: u8 = 6;
pub(super) const READ: u8 = 7;

/// A command of a client session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionCommand<'a> {
    /// GREGALE.SESSION
    Open,
    /// GREGALE.SESSION id
    Resume(SessionId),
    /// GREGALE.SESSION END
    End(SessionId),
    /// GREGALE.CALL number command, for a command that may write.
    Call {
        /// The session.
        id: SessionId,
        /// The number of the call.
        number: CallNumber,
        /// The last call whose reply the client knows.
        acknowledged: CallNumber,
        /// A plain command or a transaction; not checked yet.
        command: &'a [u8],
    },
    /// GREGALE.CALL number command, for a command that reads.
    Read {
        /// The session.
        id: SessionId,
        /// The number that the client's next write will have.
        number: CallNumber,
        /// A plain command; not checked yet.
        command: &'a [u8],
    },
}

impl<'a> SessionCommand<'a> {
    /// Decodes the bytes after the kind; `None` if they are not a session's command.
    pub(super) fn decode(kind: u8, rest: &mut &'a [u8]) -> Option<SessionCommand<'a>> {
        if kind == OPEN {
            return Some(SessionCommand::Open);
        }
        let (id, tail) = rest.split_first_chunk()?;
        *rest = tail;
        let id = SessionId(u64::from_le_bytes(*id));
        Some(match kind {
            RESUME => SessionCommand::Resume(id),
            END => SessionCommand::End(id),
            CALL => {
                let number = CallNumber(take(rest)?);
                let acknowledged = CallNumber(take(rest)?);
                let command = std::mem::take(rest);
                SessionCommand::Call { id, number, acknowledged, command }
            }
            READ => {
                let number = CallNumber(take(rest)?);
                SessionCommand::Read { id, number, command: std::mem::take(rest) }
            }
            _ => return None,
        })
    }

    /// Appends the command. The called command of a call or read is to be appended next, if
    /// `command` does not hold it.
    pub fn put(&self, out: &mut Vec<u8>) {
        let (kind, id) = match *self {
            SessionCommand::Open => {
                out.push(OPEN);
                return;
            }
            SessionCommand::Resume(id) => (RESUME, id),
            SessionCommand::End(id) => (END, id),
            SessionCommand::Call { id, .. } => (CALL, id),
            SessionCommand::Read { id, .. } => (READ, id),
        };
        out.push(kind);
        out.extend_from_slice(&id.0.to_le_bytes());
        match *self {
            SessionCommand::Call { number, acknowledged, command, .. } => {
                put(number.0, out);
                put(acknowledged.0, out);
                out.extend_from_slice(command);
            }
            SessionCommand::Read { number, command, .. } => {
                put(number.0, out);
                out.extend_from_slice(command);
            }
            SessionCommand::Open | SessionCommand::Resume(_) | SessionCommand::End(_) => {}
        }
    }
}

/// The most bytes that a session adds to a command; [`COMMAND_BYTES_MAX`](super::COMMAND_BYTES_MAX)
/// has room for them.
pub const CALL_HEAD_BYTES_MAX: usize = 1 + 8 + 10 + 10;
