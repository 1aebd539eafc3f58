//! The turns of one epoch's proposals at a process that follows its primary.
//!
//! A log's length is the number of the epoch's proposals that it covers, and the longest log is the
//! newest (line 67). So each proposal has a turn, in the primary's order, and exactly one (P4):
//!
//! - A message that was delivered here and forgotten has its turn too. A state of another member
//!   may cover proposals that are still on their way here.
//! - A proposal that a primary repeats on request has had its turn. The timestamp tells: those of
//!   one epoch's proposals rise (P9), so what is not above the last one queued was queued before.

use crate::amcast::{MessageId, Timestamp};
use alloc::collections::VecDeque;

/// Proposals of one primary, in its order.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    waiting: VecDeque<(MessageId, Timestamp)>,
    /// The highest timestamp that ever had a place in the queue.
    upto: Timestamp,
}

impl Turns {
    /// The turns of an epoch whose log here has its proposals up to `upto`.
    pub(super) const fn begin_after(upto: Timestamp) -> Turns {
        Turns { waiting: VecDeque::new(), upto }
    }

    /// Queues a proposal. False if it had its turn, or has a place in the queue.
    pub(super) fn queue(&mut self, id: MessageId, ts: Timestamp) -> bool {
        let is_new = self.upto < ts;
        if is_new {
            self.upto = ts;
            self.waiting.push_back((id, ts));
        }
        is_new
    }

    /// The proposal whose turn it is.
    pub(super) fn first(&self) -> Option<(MessageId, Timestamp)> {
        self.waiting.front().copied()
    }

    /// Notes that the first proposal has had its turn.
    pub(super) fn pass(&mut self) {
        self.waiting.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p4_a_proposal_that_is_repeated_has_one_turn() {
        let id = |sequence| MessageId { sender: 1, sequence };
        let mut turns = Turns::begin_after(Timestamp(4));
        assert!(!turns.queue(id(0), Timestamp(4)), "the log began with it");
        assert!(turns.queue(id(1), Timestamp(5)) && turns.queue(id(2), Timestamp(9)));
        assert!(!turns.queue(id(1), Timestamp(5)) && !turns.queue(id(2), Timestamp(9)));
        assert_eq!(turns.first(), Some((id(1), Timestamp(5))));
        turns.pass();
        turns.pass();
        assert!(!turns.queue(id(2), Timestamp(9)), "it had its turn");
        assert_eq!(turns.first(), None);
    }
}
