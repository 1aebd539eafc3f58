//! Requests from bytes: RESP arrays and inline commands, as Redis reads them.
//!
//! The parser owns no input. The connection passes the bytes that have arrived; the parser returns
//! the ranges of the arguments in them, so only a consumer that keeps an argument copies it.
//!
//! - I1 the sequence of requests and errors depends on the bytes alone, not on how they were cut
//!   into reads. Property test `i1_cutting_changes_nothing`, and the fuzz target.
//! - I2 arguments lie inside the bytes that the request consumed. Asserted where they are handed
//!   out, by slicing.
//! - I3 the input that a connection has to keep is bounded: a request over [`REQUEST_BYTES_MAX`] or
//!   [`ARGS_MAX`] is skipped as it arrives, and answered with an error when it ends, so that the
//!   connection survives. A line without an end closes the connection at [`LINE_BYTES_MAX`].
//!   Asserted after every step: `retained <= INPUT_BYTES_MAX`.

mod inline;
mod parser;

pub use parser::{Parse, Parser, Request};

use crate::store::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

pub use crate::exec::ARGS_MAX;

/// Redis's limit for a line: an inline command, or the head of an array or string.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// The longest request, in bytes on the wire.
pub const REQUEST_BYTES_MAX: usize = 640 << 10;

/// Redis's limit for the announced length of one argument; above it the connection is closed.
pub const BULK_BYTES_MAX: i64 = 512 << 20;

/// The most bytes that a connection must keep of an incomplete request: a request, and a line that
/// may turn out to be one byte too long.
pub const INPUT_BYTES_MAX: usize = REQUEST_BYTES_MAX + LINE_BYTES_MAX + 2;

/// The largest array that Redis reads from a client that has not authenticated yet.
pub const ARGS_MAX_UNAUTHENTICATED: i64 = 10;

/// The longest argument that Redis reads from a client that has not authenticated yet.
pub const BULK_BYTES_MAX_UNAUTHENTICATED: i64 = 16 << 10;

const _: () = assert!(VALUE_BYTES_MAX + 2 * KEY_BYTES_MAX < REQUEST_BYTES_MAX);
const _: () = assert!(INPUT_BYTES_MAX < u32::MAX as usize, "arguments are located in 32 bits");

/// Bytes that are not a request. Redis answers the error and closes the connection, since it cannot
/// know where the next request begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProtocolError {
    /// An inline command without an end.
    #[error("too big inline request")]
    InlineTooLong,
    /// An inline command with a quote that does not close, or closes inside a word.
    #[error("unbalanced quotes in request")]
    UnbalancedQuotes,
    /// The head of an array without an end.
    #[error("too big mbulk count string")]
    ArrayHeadTooLong,
    /// The head of an array is not a number, or too large.
    #[error("invalid multibulk length")]
    ArrayLength,
    /// The head of an argument without an end.
    #[error("too big bulk count string")]
    BulkHeadTooLong,
    /// The length of an argument is not a number, negative or too large.
    #[error("invalid bulk length")]
    BulkLength,
    /// An array longer than an unauthenticated client needs.
    #[error("unauthenticated multibulk length")]
    UnauthenticatedArrayLength,
    /// An argument longer than an unauthenticated client needs.
    #[error("unauthenticated bulk length")]
    UnauthenticatedBulkLength,
    /// Another byte where an argument must begin.
    #[error("expected '$', got '{}'", char::from(*.0))]
    NotABulk(u8),
}

impl ProtocolError {
    /// The error reply, in Redis's words; the connection is closed after it.
    pub fn reply(&self) -> Vec<u8> {
        let mut text = b"ERR Protocol error: ".to_vec();
        match *self {
            // The byte is returned as it came, which no Rust string could do; Redis's own text ends
            // where the byte is a NUL.
            ProtocolError::NotABulk(byte) => {
                text.extend_from_slice(b"expected '$', got '");
                if byte != 0 {
                    text.extend_from_slice(&[byte, b'\'']);
                }
            }
            _ => text.extend_from_slice(self.to_string().as_bytes()),
        }
        text
    }
}

/// The error reply to a request that was skipped because of its length (I3).
pub fn too_long() -> String {
    format!(
        "ERR request is longer than {REQUEST_BYTES_MAX} bytes or {ARGS_MAX} arguments (gregale's \
         limit for one command; use several)"
    )
}

#[cfg(test)]
mod tests;
