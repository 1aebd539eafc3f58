//! Reads that go through the log, behind the earlier writes of their client.
//!
//! A read must show the writes before it on its connection, and those are not decided yet. Waiting
//! for them would cost each such read a decision, and on disk a sync. So the read follows them into
//! the log. Every replica executes it there, at its place in the order: it shows what is decided
//! and nothing else, whichever member leads by then. If its leader dies it is proposed again like a
//! write, and the state machine gives the same answer as the first time. It needs no check of a
//! majority's promises, since its decision shows more than they do: it was put into the order after
//! it had come, hence behind everything that was answered before.
//!
//! - R1 only cheap reads go this way: every member executes each, and remembers its reply for a
//!   while. By [`is_cheap`].
//! - R2 the replies to such reads that may come at once have at most about as many bytes as may
//!   wait for a client ([`OUTPUT_BYTES_MAX`]), judged by the lengths of the last ones, or are one
//!   reply. By [`LoggedReplies::has_room`]. The other reads wait for the writes before them, as
//!   they would without a log.

use super::{OUTPUT_BYTES_MAX, PIPELINE_DEPTH_MAX};

/// R1: whether a read costs little, and its reply depends on nothing but the replicated state.
pub(super) fn is_cheap(name: &str) -> bool {
    matches!(
        name,
        "get" | "mget" | "strlen" | "exists" | "getrange" | "substr" | "type" | "ttl" | "pttl"
    )
}

/// The estimate before any reply.
const FIRST_BYTES: usize = 16 << 10;
const LEAST_BYTES: usize = OUTPUT_BYTES_MAX / PIPELINE_DEPTH_MAX;

/// The recent lengths of replies to such reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoggedReplies {
    /// The longest length; each shorter reply reduces it by an eighth.
    bytes: usize,
}

impl Default for LoggedReplies {
    fn default() -> LoggedReplies {
        LoggedReplies { bytes: FIRST_BYTES }
    }
}

impl LoggedReplies {
    /// Notes a reply of `n_bytes` bytes.
    pub(super) fn saw(&mut self, n_bytes: usize) {
        self.bytes = n_bytes.max(self.bytes - self.bytes / 8).max(LEAST_BYTES);
    }

    /// Whether another read may go through the log while `n` of them have no answer (R2).
    pub(super) const fn has_room(&self, n: usize) -> bool {
        n == 0 || n < OUTPUT_BYTES_MAX / self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(replies: &LoggedReplies) -> usize {
        (0..=PIPELINE_DEPTH_MAX).take_while(|n| replies.has_room(*n)).count()
    }

    #[test]
    fn r2_long_replies_leave_room_for_few_and_short_ones_for_all() {
        let mut replies = LoggedReplies::default();
        assert_eq!(room(&replies), 64);
        (0..32).for_each(|_| replies.saw(70));
        assert_eq!(room(&replies), PIPELINE_DEPTH_MAX);
        replies.saw(512 << 10);
        assert_eq!(room(&replies), 2);
        replies.saw(16 << 20);
        assert_eq!(room(&replies), 1);
    }
}
