//! What became of a call that has no reply.

/// Why a call has no reply, and what is known of its outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It was executed, and this error is its reply: `ERR value is not an integer`, say.
    #[error("{0}")]
    Answered(String),
    /// It was executed once, but its reply is lost: it was longer than a session keeps.
    #[error("executed, but its reply was not kept: {0}")]
    ReplyLost(String),
    /// It was not executed, and will not be.
    #[error("not executed: {0}")]
    NotExecuted(String),
    /// It was executed once, or not at all. Read before you call again.
    #[error("executed or not: {0}")]
    Unknown(String),
}

impl Error {
    /// Whether the error says what became of the call.
    pub fn is_outcome_known(&self) -> bool {
        !matches!(self, Error::Unknown(_))
    }
}
