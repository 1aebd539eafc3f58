//! The own messages, from the application's hand to their delivery: in one order, whatever views
//! come and go.
//!
//! - V7 *Sent again, in order, once.* What the trim of a view cut off stands before everything that
//!   waits, in the order in which it was sent. What was delivered is gone from here. By
//!   construction: `delivered` takes from the front, `end_view` puts back what is left.

use super::bugs::Bug;
use super::clock::Time;
use super::payload::Payload;
use super::slots::Header;
use crate::planted::Planting;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use base::Bulk;

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
    /// The number of messages that wait again.
    n_again: usize,
}

/// A message that was sent, or a null.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) message: Option<Payload>,
    pub(super) header: Header,
    /// The stamp of a message.
    pub(super) stamp: Time,
    /// The number of bytes of the view's before it.
    bytes_before: u64,
}

/// The bytes of a slot's header, and of what a fabric adds to it.
const OVERHEAD_BYTES: u64 = 40;

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

    /// Whether the next message that waits was sent in a view before.
    pub(super) const fn is_again(&self) -> bool {
        self.n_again > 0
    }

    /// Notes that the next message was sent, with the stamp that `stamp` gives; false if none
    /// waits.
    ///
    /// A message is carried as it is where `carries` says so, and otherwise becomes one that goes
    /// through rings.
    pub(super) fn send_next(
        &mut self,
        carries: impl FnOnce(&Bulk) -> bool,
        stamp: impl FnOnce() -> Time,
    ) -> bool {
        let Some(mut next) = self.waiting.pop_front() else { return false };
        if next.bulk().is_some_and(|bulk| !carries(bulk)) {
            next = Payload::from(&*next);
        }
        self.note_sent(Some(next), stamp());
        self.n_again = self.n_again.saturating_sub(1);
        true
    }

    /// Notes that a null was sent.
    pub(super) fn send_null(&mut self) {
        self.note_sent(None, Time::default());
    }

    fn note_sent(&mut self, message: Option<Payload>, stamp: Time) {
        let (mut header, bytes_before) = (Header::Null, self.n_bytes);
        self.n_bytes += OVERHEAD_BYTES;
        if let Some(message) = &message {
            self.n_before += 1;
            let (number, n_bytes) = (self.n_before, message.len() as u32);
            let is_landed = message.hold().is_some();
            header = match message.bulk() {
                Some(_) => Header::Packed { number, n_bytes },
                None if is_landed => Header::Landed { number, n_bytes },
                None => Header::Message { number, n_bytes },
            };
            self.n_bytes += if is_landed { 8 } else { u64::from(n_bytes) };
        }
        self.under_way.push_back(Sent { message, header, stamp, bytes_before });
    }

    /// The number of bytes of what was sent in this view, from message `index` on.
    pub(super) fn bytes_since(&self, index: u64) -> u64 {
        let at = index.saturating_sub(self.n_delivered);
        let sent = self.under_way.get(at as usize);
        sent.map_or(0, |sent| self.n_bytes - sent.bytes_before)
    }

    /// The message or null of this view with this index, if it is not delivered yet.
    pub(super) fn sent(&self, index: u64) -> Option<&Sent> {
        let at = index.checked_sub(self.n_delivered)?;
        self.under_way.get(at as usize)
    }

    /// The first of this view that is not delivered: its index is the number of those that are.
    pub(super) fn delivered(&mut self) -> Sent {
        self.n_delivered += 1;
        let first = self.under_way.pop_front();
        first.expect("V7: what is delivered was sent, and not delivered yet")
    }

    /// The number of own messages and nulls of this view that have been delivered.
    pub(super) const fn n_delivered(&self) -> u64 {
        self.n_delivered
    }

    /// Ends this process's time in a shard: drops what was not delivered, which `drops` is shown.
    /// Returns how much that is.
    pub(super) fn drop_all(
        &mut self,
        planted: impl Planting<Bug>,
        drops: impl FnMut(&Payload),
    ) -> usize {
        let under_way = core::mem::take(&mut self.under_way);
        under_way.iter().filter_map(|sent| sent.message.as_ref()).for_each(drops);
        let counts = |sent: &Sent| sent.message.is_some() || planted.has(Bug::UnsentCountsNulls);
        let n_cut_off = under_way.into_iter().filter(counts).count();
        (self.n_delivered, self.n_bytes, self.n_again) = (0, 0, 0);
        n_cut_off + core::mem::take(&mut self.waiting).len()
    }

    /// Ends the view: what was not delivered in it waits again (V7), as `again` makes it.
    pub(super) fn end_view(
        &mut self,
        planted: impl Planting<Bug>,
        again: impl FnMut(Payload) -> Payload,
    ) {
        (self.n_delivered, self.n_bytes) = (0, 0);
        let cut_off = core::mem::take(&mut self.under_way);
        let cut_off = cut_off.into_iter().filter_map(|sent| sent.message);
        let cut_off: Vec<Payload> = cut_off.map(again).collect();
        self.n_before -= cut_off.len() as u64;
        self.n_again += cut_off.len();
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

    fn send_next(outbox: &mut Outbox, stamp: impl FnOnce() -> Time) -> bool {
        outbox.send_next(|_| true, stamp)
    }

    #[test]
    fn v7_what_was_cut_off_is_sent_again_before_what_waits() {
        let mut outbox = Outbox::default();
        for message in [b"a", b"b", b"c", b"d"] {
            outbox.put(message.as_slice().into());
        }
        let mut n_stamps = 0;
        let mut stamp = || {
            n_stamps += 1;
            Time(n_stamps)
        };
        assert!(send_next(&mut outbox, &mut stamp));
        outbox.send_null();
        assert!(send_next(&mut outbox, &mut stamp) && send_next(&mut outbox, &mut stamp));
        let each = OVERHEAD_BYTES + 1;
        assert_eq!(
            (outbox.bytes_since(0), outbox.bytes_since(2)),
            (3 * each + OVERHEAD_BYTES, 2 * each)
        );
        assert_eq!(outbox.delivered().message.as_deref(), Some(&b"a"[..]));
        let number = |number| Header::Message { number, n_bytes: 1 };
        let parts = |sent: &Sent| (sent.header, sent.stamp, sent.message.clone());
        let sent = |outbox: &Outbox, index| outbox.sent(index).map(parts);
        assert_eq!(sent(&outbox, 0), None);
        assert_eq!(sent(&outbox, 1), Some((Header::Null, Time(0), None)));
        assert_eq!((outbox.bytes_since(3), outbox.bytes_since(4)), (each, 0));
        let b = Payload::from(&b"b"[..]);
        assert_eq!(sent(&outbox, 2), Some((number(2), Time(2), Some(b))));
        assert_eq!(outbox.n_sent(), 4);
        outbox.end_view(Sound, |message| message);
        assert_eq!((outbox.n_sent(), outbox.n_waiting()), (0, 3));
        for (index, message) in [b"b", b"c", b"d"].into_iter().enumerate() {
            assert_eq!(outbox.is_again(), index < 2, "the third one had not been sent");
            assert!(send_next(&mut outbox, &mut stamp), "no null is sent again");
            let message = Payload::from(&message[..]);
            let index = index as u64;
            let stamped = Time(4 + index);
            assert_eq!(sent(&outbox, index), Some((number(2 + index), stamped, Some(message))));
        }
        assert!(!send_next(&mut outbox, &mut stamp));
    }

    #[test]
    fn what_is_not_carried_goes_through_rings() {
        for carries in [false, true] {
            let mut outbox = Outbox::default();
            outbox.put(Payload::packed(Bulk::copied(b"abc")));
            assert!(outbox.send_next(|_| carries, Time::default));
            let (sent, n_bytes, number) = (outbox.sent(0).expect("it was sent"), 3, 1);
            let header = match carries {
                true => Header::Packed { number, n_bytes },
                false => Header::Message { number, n_bytes },
            };
            assert_eq!(sent.header, header);
            let message = sent.message.as_ref().expect("no null");
            assert_eq!((&**message, message.bulk().is_some()), (&b"abc"[..], carries));
            assert_eq!((message.words().is_none(), outbox.bytes_since(0)), (carries, 43));
        }
    }

    #[test]
    fn what_is_dropped_are_messages_and_no_nulls() {
        let dropped = |planted: Option<Bug>| {
            let mut outbox = Outbox::default();
            outbox.put(b"a".as_slice().into());
            outbox.put(b"b".as_slice().into());
            assert!(send_next(&mut outbox, Time::default));
            outbox.send_null();
            outbox.drop_all(planted, |_| {})
        };
        assert_eq!((dropped(None), dropped(Some(Bug::UnsentCountsNulls))), (2, 3));
    }
}
