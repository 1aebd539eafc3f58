//! The own messages, from the application's hand to their delivery: in one order, whatever views
//! come and go.
//!
//! - V7 *Sent again, in order, once.* What the trim of a view cut off stands before everything that
//!   waits, in the order in which it was sent. What was delivered is gone from here. By
//!   construction: `delivered` takes from the front, `end_view` puts back what is left.

use super::bugs::Bug;
use super::payload::Payload;
use super::slots::Header;
use crate::planted::Planting;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Own messages that are not delivered yet.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Messages that have not been sent in this view.
    waiting: VecDeque<Payload>,
    /// Messages and nulls that have been sent in this view.
    under_way: VecDeque<Sent>,
    /// The number of bytes of all that was sent in this view.
    n_bytes: u64,
    /// The number of own messages before the first that waits, in all views.
    n_before: u64,
    /// The number of own messages and nulls of this view that have been delivered.
    n_delivered: u64,
}

/// A message that was sent, or a null.
#[derive(Debug)]
struct Sent {
    message: Option<Payload>,
    header: Header,
    /// The number of bytes of the view's before it.
    bytes_before: u64,
}

/// The bytes of a slot's header, and of what a fabric adds to it.
const OVERHEAD_BYTES: u64 = 32;

impl Outbox {
    pub(super) fn n_waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The number of messages and nulls that were sent in this view.
    pub(super) fn n_sent(&self) -> u64 {
        self.n_delivered + self.under_way.len() as u64
    }

    /// Takes a message of the application.
    pub(super) fn put(&mut self, message: Payload) {
        self.waiting.push_back(message);
    }

    /// Notes that the next message was sent; false if none waits.
    pub(super) fn send_next(&mut self) -> bool {
        let Some(next) = self.waiting.pop_front() else { return false };
        self.note_sent(Some(next));
        true
    }

    /// Notes that a null was sent.
    pub(super) fn send_null(&mut self) {
        self.note_sent(None);
    }

    fn note_sent(&mut self, message: Option<Payload>) {
        let (mut header, bytes_before) = (Header::Null, self.n_bytes);
        self.n_bytes += OVERHEAD_BYTES;
        if let Some(message) = &message {
            self.n_before += 1;
            header = Header::Message { number: self.n_before, n_bytes: message.len() as u32 };
            self.n_bytes += message.len() as u64;
        }
        self.under_way.push_back(Sent { message, header, bytes_before });
    }

    /// The number of bytes of what was sent in this view, from message `index` on.
    pub(super) fn bytes_since(&self, index: u64) -> u64 {
        let at = index.saturating_sub(self.n_delivered);
        let sent = self.under_way.get(at as usize);
        sent.map_or(0, |sent| self.n_bytes - sent.bytes_before)
    }

    /// The message or null of this view with this index, if it is not delivered yet.
    pub(super) fn sent(&self, index: u64) -> Option<(Header, Option<&Payload>)> {
        let at = index.checked_sub(self.n_delivered)?;
        self.under_way.get(at as usize).map(|sent| (sent.header, sent.message.as_ref()))
    }

    /// The first of this view that is not delivered: its index is the number of those that are.
    pub(super) fn delivered(&mut self) -> Option<Payload> {
        self.n_delivered += 1;
        let first = self.under_way.pop_front();
        first.expect("V7: what is delivered was sent, and not delivered yet").message
    }

    /// The number of own messages and nulls of this view that have been delivered.
    pub(super) const fn n_delivered(&self) -> u64 {
        self.n_delivered
    }

    /// Ends this process's time in a shard: drops what was not delivered. Returns how much that is.
    pub(super) fn drop_all(&mut self) -> usize {
        let under_way = core::mem::take(&mut self.under_way);
        let n_cut_off = under_way.into_iter().filter(|sent| sent.message.is_some()).count();
        (self.n_delivered, self.n_bytes) = (0, 0);
        n_cut_off + core::mem::take(&mut self.waiting).len()
    }

    /// Ends the view: what was not delivered in it waits again (V7).
    pub(super) fn end_view(&mut self, planted: impl Planting<Bug>) {
        (self.n_delivered, self.n_bytes) = (0, 0);
        let cut_off = core::mem::take(&mut self.under_way);
        let cut_off: Vec<Payload> = cut_off.into_iter().filter_map(|sent| sent.message).collect();
        self.n_before -= cut_off.len() as u64;
        if planted.has(Bug::NotSentAgain) {
            return;
        }
        if planted.has(Bug::SentAgainLast) {
            return self.waiting.extend(cut_off);
        }
        let behind = core::mem::take(&mut self.waiting);
        self.waiting = cut_off.into_iter().chain(behind).collect();
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
            outbox.put(message.as_slice().into());
        }
        assert!(outbox.send_next());
        outbox.send_null();
        assert!(outbox.send_next() && outbox.send_next());
        let each = OVERHEAD_BYTES + 1;
        assert_eq!(
            (outbox.bytes_since(0), outbox.bytes_since(2)),
            (3 * each + OVERHEAD_BYTES, 2 * each)
        );
        assert_eq!(outbox.delivered().as_deref(), Some(&b"a"[..]));
        let number = |number| Header::Message { number, n_bytes: 1 };
        assert_eq!((outbox.sent(0), outbox.sent(1)), (None, Some((Header::Null, None))));
        assert_eq!((outbox.bytes_since(3), outbox.bytes_since(4)), (each, 0));
        let b = Payload::from(&b"b"[..]);
        assert_eq!((outbox.sent(2), outbox.n_sent()), (Some((number(2), Some(&b))), 4));
        outbox.end_view(Sound);
        assert_eq!((outbox.n_sent(), outbox.n_waiting()), (0, 3));
        for (index, message) in [b"b", b"c", b"d"].into_iter().enumerate() {
            assert!(outbox.send_next(), "no null is sent again");
            let message = Payload::from(&message[..]);
            let index = index as u64;
            assert_eq!(outbox.sent(index), Some((number(2 + index), Some(&message))));
        }
        assert!(!outbox.send_next());
    }
}
