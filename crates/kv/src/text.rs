//! Error texts for failures that the cluster causes, rather than the client's command.
//!
//! Each text states the fate of the command: executed, surely not executed, or unknown. Clients act
//! on the first word, so it is Redis's own where Redis has one.

/// The deadline passed, or the leader died, before the outcome was known.
pub const UNKNOWN_OUTCOME: &str = "UNKNOWN the outcome of this write is not known: it was executed, or not, or will be; read \
     before you write again";

/// A retry of a command so old that its record is gone.
pub const UNKNOWN_TOO_OLD: &str = "UNKNOWN this write is too old to be remembered: it was executed, or not; read before you \
     write again";

/// A retry of a command that was executed, but whose reply is no longer kept.
pub const UNKNOWN_REPLY: &str =
    "UNKNOWN this write was executed, but its reply was too long to be kept; do not send it again";

/// A read whose reply is longer than [`crate::reply::ANSWER_BYTES_MAX`].
pub const ANSWER_TOO_LONG: &str = "ERR the reply would be longer than 16777216 bytes (gregale's limit): ask for less at a time, as \
     by SCAN in place of KEYS";

/// A command of a process that has since been restarted.
pub const UNKNOWN_PAST_LIFE: &str = "UNKNOWN the replica that took this write has been restarted: it was executed, or not; read \
     before you write again";

/// A read that no member could answer in time.
pub const TRY_AGAIN: &str =
    "TRYAGAIN no replica could answer in time; nothing was changed, send the command again";

/// A write that no member took.
pub const NOT_LEADER: &str =
    "TRYAGAIN no leader took this write; it was not executed and will not be, send it again";

/// A replica that has yet to receive the state.
pub const LOADING: &str =
    "LOADING this replica is receiving the state from another; use another member or try again";

/// The state is gone.
pub const DATA_LOST: &str = "ERR data lost: no live member holds the state, and memory-quorum \
    does not survive the death of all; unless a member is only paused, start the cluster again";

/// Bytes in the log that are not a command.
pub const MALFORMED: &str = "ERR a replica has put a malformed command into the log (a bug)";

/// A call in a session that does not exist.
pub const NO_SESSION: &str = "NOSESSION there is no such session: it expired, was ended, or never was; this call was not \
     executed now, nor will be, but whether earlier attempts at it were is not known";

/// A call whose reply the client has acknowledged.
pub const ACKNOWLEDGED: &str =
    "ACKED this call was executed and its reply acknowledged; it was not executed again";

/// A call that was executed, but whose reply was not kept.
pub const REPLY_TOO_LONG: &str = "TOOLONG this call was executed once, but its reply was longer than a session keeps; it was \
     not executed again";

/// The first reply of a call whose reply is too long to be kept.
pub const EXECUTED_TOO_LONG: &str = "TOOLONG this call was executed now, but its reply would be longer than 16777216 bytes \
     (gregale's limit)";

/// A call of a client that has not acknowledged enough replies.
pub const WINDOW_FULL: &str = "WINDOW not executed: the session holds too many replies, or too many bytes of them; \
     GREGALE.ACK what you have received and call again";

/// A session beyond the most that a cluster may have.
pub const TOO_MANY_SESSIONS: &str = "MAXSESSIONS not executed: the cluster has as many client sessions as it may, and \
     calls were made in each; end some with GREGALE.SESSION END, or wait for idle ones to expire";

/// A client beyond the most that a member accepts.
pub const TOO_MANY_CLIENTS: &str = "ERR max number of clients reached";

/// A transaction that would need more memory than allowed.
pub const OUT_OF_MEMORY_IN_EXEC: &str = "EXECABORT Transaction discarded because of: OOM command not allowed when used memory > \
     'maxmemory'.";

/// Redis's error for a command that is refused because the store is over its memory limit.
pub const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";

#[cfg(test)]
mod tests {
    #[test]
    fn every_text_is_one_line_that_begins_with_a_code() {
        use super::*;
        for text in [
            UNKNOWN_OUTCOME,
            UNKNOWN_TOO_OLD,
            UNKNOWN_REPLY,
            UNKNOWN_PAST_LIFE,
            TRY_AGAIN,
            NOT_LEADER,
            LOADING,
            MALFORMED,
            NO_SESSION,
            ACKNOWLEDGED,
            REPLY_TOO_LONG,
            WINDOW_FULL,
            TOO_MANY_SESSIONS,
            TOO_MANY_CLIENTS,
            OUT_OF_MEMORY,
            OUT_OF_MEMORY_IN_EXEC,
            ANSWER_TOO_LONG,
            EXECUTED_TOO_LONG,
        ] {
            let code = text.split(' ').next().unwrap();
            assert!(code.bytes().all(|byte| byte.is_ascii_uppercase()), "{text}");
            assert!(!text.contains(['\r', '\n']) && !text.contains("  "), "{text}");
        }
    }
}
