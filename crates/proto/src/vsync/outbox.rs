//! The own messages, from the application's hand to their delivery: in one order, whatever views
//! come and go.
//!
//! - V7 *Sent again, in order, once.* What the trim of a view cut off stands before everything that
//!   waits, in the order in which it was sent. What was delivered is gone from here. By
//!   construction: `delivered` takes from the front, `end_view` puts back what is left.

use super::bugs::Bug;
use crate::planted::Planting;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Own messages that are not delivered yet.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Messages that have not been sent in this view.
    waiting: VecDeque<Vec<u8>>,
    /// Messages that have been sent in this view, and nulls (`None`).
    under_way: VecDeque<Option<Vec<u8>>>,
    /// The number of own messages and nulls of this view that have been delivered.
    n_delivered: u64,
}

impl Outbox {
    pub(super) fn n_waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The number of messages and nulls that were sent in this view.
    pub(super) fn n_sent(&self) -> u64 {
        self.n_delivered + self.under_way.len() as u64
    }

    /// Takes a message of the application.
    pub(super) fn put(&mut self, message: &[u8]) {
        self.waiting.push_back(message.to_vec());
    }

    /// The next message to send, from now on under way.
    pub(super) fn send_next(&mut self) -> Option<&[u8]> {
        let message = self.waiting.pop_front()?;
        self.under_way.push_back(Some(message));
        self.under_way.back()?.as_deref()
    }

    /// Notes that a null was sent.
    pub(super) fn send_null(&mut self) {
        self.under_way.push_back(None);
    }

    /// The message or null of this view with this index, if it is not delivered yet.
    pub(super) fn sent(&self, index: u64) -> Option<Option<&[u8]>> {
        let at = index.checked_sub(self.n_delivered)?;
        self.under_way.get(at as usize).map(Option::as_deref)
    }

    /// The first of this view that is not delivered: its index is the number of those that are.
    pub(super) fn delivered(&mut self) -> Option<Vec<u8>> {
        self.n_delivered += 1;
        self.under_way.pop_front().expect("V7: what is delivered was sent, and not delivered yet")
    }

    /// The number of own messages and nulls of this view that have been delivered.
    pub(super) const fn n_delivered(&self) -> u64 {
        self.n_delivered
    }

    /// Ends the view: what was not delivered in it waits again (V7).
    pub(super) fn end_view(&mut self, planted: impl Planting<Bug>) {
        self.n_delivered = 0;
        let cut_off = core::mem::take(&mut self.under_way).into_iter().flatten();
        if planted.has(Bug::NotSentAgain) {
            return;
        }
        if planted.has(Bug::SentAgainLast) {
            return self.waiting.extend(cut_off);
        }
        let behind = core::mem::take(&mut self.waiting);
        self.waiting = cut_off.chain(behind).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planted::Sound;

    #[test]
    fn v7_what_was_cut_off_is_sent_again_before_what_waits() {
        let mut outbox = Outbox::default();
        for message in [b"a", b"b", b"c", b"d"] {
            outbox.put(message);
        }
        assert_eq!(outbox.send_next(), Some(&b"a"[..]));
        outbox.send_null();
        assert_eq!(outbox.send_next(), Some(&b"b"[..]));
        assert_eq!(outbox.send_next(), Some(&b"c"[..]));
        assert_eq!(outbox.delivered(), Some(b"a".to_vec()));
        assert_eq!((outbox.sent(0), outbox.sent(1)), (None, Some(None)));
        assert_eq!((outbox.sent(2), outbox.n_sent()), (Some(Some(&b"b"[..])), 4));
        outbox.end_view(Sound);
        assert_eq!((outbox.n_sent(), outbox.n_waiting()), (0, 3));
        for message in [b"b", b"c", b"d"] {
            assert_eq!(outbox.send_next(), Some(&message[..]), "no null is sent again");
        }
    }
}
