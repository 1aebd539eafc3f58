//! The connections of a simulated program, and the turns of its loop (`program`).

use super::values::Words;
use std::collections::VecDeque;

/// The most connections of one turn of a loop.
pub(super) const TURN_MAX: usize = 3;
/// The most bytes that a loop reads of a connection in one turn.
pub(super) const TURN_BYTES: usize = 40;

/// Stands in a turn for a connection that was taken away.
pub(super) const TAKEN_AWAY: u64 = u64::MAX;

/// A loop of a program.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The legs that are ready, and those of the present turn.
    pub(super) queue: VecDeque<u64>,
    pub(super) turn: VecDeque<u64>,
    pub(super) is_held: bool,
    /// The number of legs that were taken away, and of which the program has not seen that.
    pub(super) n_taken_away: u64,
    /// The times that it will still sleep on when it could do something, since it has just begun.
    pub(super) n_dozes: u64,
    /// It has had a connection.
    pub(super) is_begun: bool,
}

/// A connection, as the program has it.
#[derive(Debug, Default)]
pub(super) struct Leg {
    /// What was sent to the program, and what it has read of that.
    pub(super) input: VecDeque<u8>,
    pub(super) read: Vec<u8>,
    /// The input has ended, and whether the program has seen that.
    pub(super) has_ended: bool,
    pub(super) has_seen_end: bool,
    /// It is not closed when it has ended.
    pub(super) holds_on: bool,
    /// The replies that the program has not sent, and those that were not fetched.
    pub(super) replies: VecDeque<u8>,
    pub(super) output: VecDeque<u8>,
    /// All replies, sent or not.
    pub(super) n_reply_bytes: usize,
    pub(super) is_closed: bool,
    /// The commands of a transaction.
    pub(super) queue: Option<Vec<Words>>,
    /// The watched keys, with their versions.
    pub(super) watched: Vec<(Vec<u8>, u64)>,
    pub(super) wants_room: bool,
}

impl Leg {
    /// Whether there is nothing to do for it.
    pub(super) fn is_at_rest(&self) -> bool {
        !self.is_to_be_read() && self.replies.is_empty()
    }

    /// Whether there is input, or its end.
    pub(super) fn is_to_be_read(&self) -> bool {
        !self.input.is_empty() || self.has_ended && !self.is_closed && !self.holds_on
    }

    /// Sees that the input has ended, once all of it is read, and closes the connection behind the
    /// last reply. True the first time.
    pub(super) fn see_end(&mut self) -> bool {
        if !self.has_ended || self.holds_on {
            return false;
        }
        self.is_closed |= self.replies.is_empty();
        !std::mem::replace(&mut self.has_seen_end, true)
    }
}

/// Whether a program holds on to a connection that has asked for this: every fourth one of a
/// client, once it has appended to its list.
pub(super) fn holds_on(words: &Words) -> bool {
    let is_to_list = words[0] == b"APPEND" && words[1].starts_with(b"list:");
    is_to_list && holds_on_to(&words[1])
}

/// Whether a program may hold on to the connection of this list.
pub(super) fn holds_on_to(list: &[u8]) -> bool {
    let number = list.rsplit(|byte| *byte == b':').next();
    let number = number.and_then(|number| std::str::from_utf8(number).ok());
    number.and_then(|number| number.parse::<u64>().ok()).is_some_and(|n| n % 4 == 3)
}
