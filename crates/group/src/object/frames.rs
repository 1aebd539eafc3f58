//! What a client outside of a group and a member say to each other over a connection.
//!
//! ```text
//! member -> client   nonce (32)
//! client -> member   hello: proof | the client's nonce, the group, the subgroup, the methods
//! member -> client   welcome: proof | number of shards,  or a refusal, or: elsewhere
//! client -> member   request                  one at a time
//! member -> client   reply,  or: elsewhere
//! ```
//! Each but the first is a frame: its length in four bytes, and postcard.

use super::pending::{CallError, Reply};
use crate::error::Refused;
use crate::ground::LETTER_BYTES_MAX;
use crate::time::Time;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::net::TcpStream;

/// The longest frame: a call as long as a message may be.
const FRAME_BYTES_MAX: usize = crate::options::MESSAGE_BYTES_MAX as usize + LETTER_BYTES_MAX;

/// The longest arguments, or result, of which a frame has room beside its head.
pub(super) const BODY_BYTES_MAX: usize = FRAME_BYTES_MAX - 64;

/// A number that is used once.
pub(super) type Nonce = [u8; 32];

/// What a client is, and what it wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) nonce: Nonce,
    pub(super) group: String,
    pub(super) subgroup: String,
    /// The methods of the object, which both programs have to have.
    pub(super) methods: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Welcome {
    Served {
        proof: Nonce,
        n_shards: u64,
    },
    /// What the client says is not what this member has to hear: no other one welcomes it either.
    Refused(String),
    /// This member serves no further client, or none at all: another one may.
    Elsewhere(String),
}

/// The way in which a method is to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Way {
    /// At its place in the order.
    Ordered,
    /// By the copy of the member that is asked, or of one of the shard.
    Copy,
    /// As of a time.
    AsOf(Time),
    /// A p2p call of the member on this seat.
    At(u64),
    /// No method: the seats of the members of the shard are asked for.
    Seats,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) way: Way,
    /// The shard; without one that of the member.
    pub(super) shard: Option<u16>,
    pub(super) method: u16,
    /// The latest time that the client knows of.
    pub(super) after: Time,
    pub(super) arguments: Vec<u8>,
}

/// The reason why a client has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RemoteError {
    /// The call is not executed by any member.
    #[error("not executed: {0}")]
    NotExecuted(String),
    /// The members may have executed the call, or do so yet, or never.
    #[error("it is unknown whether the call was executed: {0}")]
    Unknown(String),
    /// The query was not answered. It changes nothing: ask again.
    #[error("not answered: {0}")]
    NotAnswered(String),
    /// The client's program and the members' have other methods, or types, of one name.
    #[error("the members and this program read each other's bytes otherwise")]
    Undecodable,
    /// The call was executed, and there is no result.
    #[error("{0}")]
    Executed(String),
    /// The call was executed, or the query answered, and this process cannot read the result
    /// ([`CallError::ResultUnreadable`]).
    #[error("{}", CallError::ResultUnreadable)]
    ResultUnreadable,
}

impl RemoteError {
    /// The result of a call that changes something, or of a query, is too long for a frame.
    fn too_long(n_bytes: usize, changes: bool) -> RemoteError {
        let long = format!(
            "its result has {n_bytes} bytes, and a client is told at most {BODY_BYTES_MAX}: ask \
             for a part of it"
        );
        if changes {
            RemoteError::Executed(format!("executed, but {long}"))
        } else {
            RemoteError::NotAnswered(long)
        }
    }

    /// What the member that was asked knows, of a call that changes something or a query.
    pub(super) fn of(error: &CallError, changes: bool) -> RemoteError {
        let text = error.to_string();
        match error {
            CallError::Undecodable => RemoteError::Undecodable,
            CallError::ResultUnreadable => RemoteError::ResultUnreadable,
            CallError::ResultTooLong if changes => RemoteError::Executed(text),
            _ if !changes => RemoteError::NotAnswered(text),
            CallError::Unknown(_) | CallError::Late(_) | CallError::Lost(_) => {
                RemoteError::Unknown(text)
            }
            _ => RemoteError::NotExecuted(text),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Answer {
    Result(Vec<u8>, Time),
    Failed(RemoteError),
    /// This member has not executed the request, and executes none any longer: another one may.
    Elsewhere(String),
}

impl Answer {
    pub(super) fn of(outcome: Result<Reply, CallError>, changes: bool) -> Answer {
        match outcome {
            Ok(Reply { bytes, .. }) if bytes.len() > BODY_BYTES_MAX => {
                Answer::Failed(RemoteError::too_long(bytes.len(), changes))
            }
            Ok(Reply { bytes, time }) => Answer::Result(bytes, time),
            Err(error) if is_gone(&error, changes) => Answer::Elsewhere(error.to_string()),
            Err(error) => Answer::Failed(RemoteError::of(&error, changes)),
        }
    }
}

/// Whether the member that was asked has executed nothing, since it leaves its group or has left.
fn is_gone(error: &CallError, changes: bool) -> bool {
    match error {
        CallError::NotExecuted(Refused::Leaving | Refused::Ended(_)) => true,
        CallError::Unknown(_) => !changes,
        _ => false,
    }
}

/// Writes a frame; an error if it is too long.
pub(super) fn write(mut to: &TcpStream, frame: &impl Serialize) -> io::Result<()> {
    let body = postcard::to_allocvec(frame).map_err(io::Error::other)?;
    if body.len() > FRAME_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a frame that is too long"));
    }
    let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
    bytes.extend(body);
    to.write_all(&bytes)
}

/// Reads a frame; an error if none comes, or one that is too long or something else.
pub(super) fn read<T: DeserializeOwned>(mut from: impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let n_bytes = u32::from_le_bytes(length) as usize;
    if n_bytes > FRAME_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame that is too long"));
    }
    // (The room is taken as bytes come, and not as a stranger says.)
    let mut bytes = Vec::new();
    from.take(n_bytes as u64).read_to_end(&mut bytes)?;
    if bytes.len() < n_bytes {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    postcard::from_bytes(&bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// A nonce.
pub(super) fn nonce() -> io::Result<Nonce> {
    let mut nonce = Nonce::default();
    std::fs::File::open("/dev/urandom")?.read_exact(&mut nonce)?;
    Ok(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a client is told of a call that changes something, or of a query, with such a result.
    fn told(n_bytes: usize, changes: bool) -> Answer {
        let reply = Reply { bytes: vec![7; n_bytes], time: Time::from_nanos(u64::MAX) };
        Answer::of(Ok(reply), changes)
    }

    #[test]
    fn a_result_that_no_frame_has_room_for_is_said_to_be_too_long() {
        let longest = told(BODY_BYTES_MAX, true);
        let frame = postcard::to_allocvec(&longest).expect("bytes");
        assert!(frame.len() <= FRAME_BYTES_MAX, "{}", frame.len());
        assert!(matches!(longest, Answer::Result(..)));
        let of = |changes| told(BODY_BYTES_MAX + 1, changes);
        assert!(matches!(of(true), Answer::Failed(RemoteError::Executed(_))), "{:?}", of(true));
        assert!(matches!(of(false), Answer::Failed(RemoteError::NotAnswered(_))));
    }
}
