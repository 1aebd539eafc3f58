//! Reads that go through the log, behind the writes that their client has sent before them.
//!
//! A read must show the writes before it on its connection, and those are not decided yet. To wait
//! for them would cost each such read a decision, and on disk a sync. So the read follows them into
//! the log. There it is executed where it stands in the order, by everybody alike: it shows what is
//! decided and nothing else, whoever leads by then; if its leader dies it comes again like a write,
//! and the state machine answers what it answered the first time. It is checked by no majority's
//! promises, since that it is decided shows more than they do: it was put into the order after it
//! had come, so behind everything that was answered before.
//!
//! - R1 only what is cheap goes this way: every member executes it, and remembers its reply for a
//!   while. By [`is_cheap`].
//! - R2 the replies to such reads that may come at once are about as many bytes as may wait for a
//!   client ([`OUTPUT_BYTES_MAX`]), as far as the lengths of the last ones tell, or one reply. By
//!   [`LoggedReplies::has_room`]. The others wait for the writes before them, as they would
//!   without a log.

use super::{OUTPUT_BYTES_MAX, PIPELINE_DEPTH_MAX};

/// R1: whether a read costs little, and its reply depends on nothing but the replicated state.
pub(super) fn is_cheap(name: &str) -> bool {
    matches!(
        name,
        "get" | "mget" | "strlen" | "exists" | "getrange" | "substr" | "type" | "ttl" | "pttl"
    )
}

/// Before anything is known.
const FIRST_BYTES: usize = 16 << 10;
const LEAST_BYTES: usize = OUTPUT_BYTES_MAX / PIPELINE_DEPTH_MAX;

/// How long the replies to such reads were of late.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoggedReplies {
    /// The longest, of which an eighth is forgotten with each that is shorter.
    bytes: usize,
}

impl Default for LoggedReplies {
    fn default() -> LoggedReplies {
        LoggedReplies { bytes: FIRST_BYTES }
    }
}

impl LoggedReplies {
    /// A reply of so many bytes has come.
    pub(super) fn saw(&mut self, n_bytes: usize) {
        self.bytes = n_bytes.max(self.bytes - self.bytes / 8).max(LEAST_BYTES);
    }

    /// Whether another read may go through the log, with `n` of them without an answer (R2).
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
