//! A message ring: bytes from one sender to one receiver, in the receiver's region.
//!
//! ```text
//! frame word 0     bytes of the message
//! frame word 1     the sender's life
//! frame word 2     the receiver's life, as the sender knows it
//! frame word 3..   the message, little endian, the last word filled up with zeroes
//! ```
//!
//! # Invariants
//! - Q1 `tail` has one writer, the sender; `head` one, the receiver; `head <= tail <= head +
//!   words`. Both count words and never wrap.
//! - Q2 a frame is complete before `tail` covers it (release), and read only after `tail` was
//!   (acquire): a sender that dies in the middle has sent nothing.
//! - Q3 a frame from a life of the sender that the receiver has not met yet stays in the ring; a
//!   frame for an earlier life of the receiver, or from an earlier life of the sender, is dropped.
//! - Q4 words that another process wrote are not trusted: an impossible frame is an error of the
//!   link.

use base::{Inbox, Rank};
use region::Words;
use region::layout::ring::{FRAMES, HEAD, TAIL};

/// The longest message.
pub const MESSAGE_BYTES_MAX: usize = 256 << 10;

const FRAME_HEADER_WORDS: u64 = 3;

const _: () = assert!(
    MESSAGE_BYTES_MAX / 8 + FRAME_HEADER_WORDS as usize <= super::RING_WORDS as usize,
    "every message fits into an empty ring"
);

const fn frame_words(n_bytes: u64) -> u64 {
    FRAME_HEADER_WORDS + n_bytes.div_ceil(8)
}

/// The sender's end.
#[derive(Debug)]
pub(super) struct Producer {
    ring: Words,
    mask: u64,
    /// The ring's tail. Only this end writes the shared word, so this copy is exact (Q1).
    tail: u64,
    /// The ring's head as last read: there is at least this much room.
    head: u64,
    /// A buffer for messages whose bytes are copied out as words.
    scratch: Vec<u64>,
}

impl Producer {
    pub(super) fn new(ring: Words) -> Producer {
        let mask = u64::from(ring.n_words() - FRAMES) - 1;
        let (tail, head) = (ring.load(TAIL), ring.load(HEAD));
        Producer { ring, mask, tail, head, scratch: Vec::new() }
    }

    /// Puts a message into the ring; false, with no effect, if there is no room.
    pub(super) fn send(&mut self, sender: u64, receiver: u64, message: &[u8]) -> bool {
        assert!(
            message.len() <= MESSAGE_BYTES_MAX,
            "a message of {} bytes: the longest is {MESSAGE_BYTES_MAX}",
            message.len()
        );
        let n_bytes = message.len() as u64;
        let words = frame_words(n_bytes);
        if !self.has_room(words) {
            self.head = self.ring.load(HEAD);
            if !self.has_room(words) {
                return false;
            }
        }
        self.scratch.clear();
        self.scratch.extend([n_bytes, sender, receiver]);
        let (whole, rest) = message.as_chunks::<8>();
        self.scratch.extend(whole.iter().map(|bytes| u64::from_le_bytes(*bytes)));
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.scratch.push(u64::from_le_bytes(last));
        }
        let start = self.tail & self.mask;
        let until_wrap = (self.mask + 1 - start).min(words) as usize;
        let (first, second) = self.scratch.split_at(until_wrap);
        self.ring.write_words(FRAMES + start as u32, first);
        self.ring.write_words(FRAMES, second);
        self.tail += words;
        self.ring.store(TAIL, self.tail); // Q2: release, pairs with the load in `next`
        true
    }

    fn has_room(&self, words: u64) -> bool {
        // An impossible `head` (Q4) makes no room.
        let used = self.tail.wrapping_sub(self.head);
        used <= self.mask + 1 && words <= self.mask + 1 - used
    }
}

/// The receiver's end.
#[derive(Debug)]
pub(super) struct Consumer {
    ring: Words,
    mask: u64,
    /// The ring's head. Only this end writes the shared word, so this copy is exact (Q1).
    head: u64,
    scratch: Vec<u64>,
}

/// The result of a look at the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// No frame.
    Empty,
    /// A message, now in the inbox.
    Message,
    /// A frame of an earlier life, dropped (Q3).
    Stale,
    /// A frame of a later life of the sender, left in the ring (Q3).
    Later,
    /// An impossible frame (Q4); everything in the ring was dropped.
    Garbled,
}

impl Consumer {
    pub(super) fn new(ring: Words) -> Consumer {
        let mask = u64::from(ring.n_words() - FRAMES) - 1;
        let head = ring.load(HEAD);
        Consumer { ring, mask, head, scratch: Vec::new() }
    }

    /// Whether the ring is empty.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.ring.load(TAIL) == self.head
    }

    /// Takes one message of `sender`'s life for `receiver`'s.
    pub(super) fn next(
        &mut self,
        from: Rank,
        sender: u64,
        receiver: u64,
        inbox: &mut Inbox,
    ) -> Received {
        let tail = self.ring.load(TAIL); // Q2: acquire, pairs with the store in `send`
        let filled = tail.wrapping_sub(self.head);
        if filled == 0 {
            return Received::Empty;
        }
        // Each word is loaded once, and checked after that.
        let n_bytes = self.word(self.head);
        let (sent_by, sent_to) =
            (self.word(self.head.wrapping_add(1)), self.word(self.head.wrapping_add(2)));
        let words = frame_words(n_bytes.min(MESSAGE_BYTES_MAX as u64));
        if filled > self.mask + 1 || n_bytes > MESSAGE_BYTES_MAX as u64 || words > filled {
            self.take(filled);
            return Received::Garbled;
        }
        if sent_by > sender {
            return Received::Later;
        }
        if sent_by < sender || sent_to != receiver {
            self.take(words);
            return Received::Stale;
        }
        let n_words = (words - FRAME_HEADER_WORDS) as usize;
        self.scratch.resize(n_words, 0);
        let start = self.head.wrapping_add(FRAME_HEADER_WORDS) & self.mask;
        let until_wrap = ((self.mask + 1 - start) as usize).min(n_words);
        let (first, second) = self.scratch.split_at_mut(until_wrap);
        self.ring.load_into(FRAMES + start as u32, first);
        self.ring.load_into(FRAMES, second);
        inbox.push_message(from, n_bytes as usize, |bytes| {
            for (to, word) in bytes.chunks_mut(8).zip(&self.scratch) {
                to.copy_from_slice(&word.to_le_bytes()[..to.len()]);
            }
        });
        self.take(words);
        Received::Message
    }

    fn word(&self, at: u64) -> u64 {
        self.ring.load(FRAMES + (at & self.mask) as u32)
    }

    fn take(&mut self, words: u64) {
        self.head = self.head.wrapping_add(words);
        self.ring.store(HEAD, self.head); // release: the copies were made before the room is given
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Incarnation, NodeId, Rng};
    use region::{Identity, Owner, Region, Shape};

    const FROM: Rank = Rank::at(1);

    fn ring_of(ring_words: u32) -> (Owner, Words) {
        let shape = Shape { n_seats: 3, n_words: 1, ring_words };
        let node = NodeId(1);
        let identity = Identity { cluster: 1, node, incarnation: None, layout: 1, rules: 0, shape };
        let owner = Region::heap(&identity, Incarnation(1));
        let ring = owner.ring(1);
        (owner, ring)
    }

    fn received(consumer: &mut Consumer) -> Result<Vec<u8>, Received> {
        let mut inbox = Inbox::new();
        match consumer.next(FROM, 1, 1, &mut inbox) {
            Received::Message => match inbox.event(0) {
                base::Event::Message { from: FROM, bytes } => Ok(bytes.to_vec()),
                other => panic!("{other:?}"),
            },
            other => Err(other),
        }
    }

    #[test]
    fn messages_of_all_lengths_wrap_around_unharmed() {
        let (_owner, words) = ring_of(16);
        let (mut producer, mut consumer) = (Producer::new(words.clone()), Consumer::new(words));
        let mut rng = Rng::new(1);
        let mut queue = std::collections::VecDeque::new();
        for round in 0..5000_u64 {
            let message: Vec<u8> = (0..rng.below(105)).map(|i| (round + i) as u8).collect();
            if producer.send(1, 1, &message) {
                queue.push_back(message);
            } else {
                assert_eq!(received(&mut consumer), Ok(queue.pop_front().unwrap()));
            }
            if rng.chance(1, 3) {
                let expected = queue.pop_front().ok_or(Received::Empty);
                assert_eq!(received(&mut consumer), expected);
            }
        }
    }

    #[test]
    fn q1_a_full_ring_takes_nothing_and_an_empty_one_the_longest_message() {
        let (_owner, words) = ring_of(super::super::RING_WORDS);
        let (mut producer, mut consumer) = (Producer::new(words.clone()), Consumer::new(words));
        let longest = vec![7; MESSAGE_BYTES_MAX];
        assert!(producer.send(1, 1, &longest));
        assert!(!producer.send(1, 1, &longest));
        assert_eq!(received(&mut consumer), Ok(longest.clone()));
        assert!(producer.send(1, 1, &longest));
    }

    #[test]
    #[should_panic(expected = "the longest is 262144")]
    fn a_message_that_is_too_long_is_our_bug() {
        let (_owner, words) = ring_of(super::super::RING_WORDS);
        Producer::new(words).send(1, 1, &vec![0; MESSAGE_BYTES_MAX + 1]);
    }

    #[test]
    fn q2_a_frame_without_its_tail_was_not_sent() {
        let (_owner, words) = ring_of(16);
        words.write_words(FRAMES, &[3, 1, 1, 9]);
        assert_eq!(received(&mut Consumer::new(words)), Err(Received::Empty));
    }

    #[test]
    fn q3_nothing_crosses_a_restart() {
        let (_owner, words) = ring_of(64);
        let mut inbox = Inbox::new();
        let mut producer = Producer::new(words.clone());
        assert!(producer.send(1, 1, b"to the receiver's first life"));
        let mut second_life = Consumer::new(words.clone());
        assert_eq!(second_life.next(FROM, 1, 2, &mut inbox), Received::Stale);
        // The sender restarts: the remains of its last life are dropped, and the next life's
        // messages wait until the receiver has met it.
        assert!(producer.send(1, 2, b"by the sender's first life"));
        assert!(Producer::new(words).send(2, 2, b"hello"));
        let mut fresh = Consumer::new(second_life.ring.clone());
        assert_eq!(fresh.next(FROM, 1, 2, &mut inbox), Received::Message);
        assert_eq!(fresh.next(FROM, 1, 2, &mut inbox), Received::Later);
        assert_eq!(fresh.next(FROM, 1, 2, &mut inbox), Received::Later);
        assert_eq!(fresh.next(FROM, 2, 2, &mut inbox), Received::Message);
        assert_eq!(inbox.len(), 2);
    }

    #[test]
    fn q4_garbage_is_dropped_and_said() {
        for (tail, n_bytes) in [(17, 0), (u64::MAX, 0), (3, 1), (4, u64::MAX), (1, 0)] {
            let (_owner, words) = ring_of(16);
            words.store(FRAMES, n_bytes);
            words.write_words(FRAMES + 1, &[1, 1]);
            words.store(TAIL, tail);
            let mut consumer = Consumer::new(words.clone());
            assert_eq!(received(&mut consumer), Err(Received::Garbled), "{tail} {n_bytes}");
            assert_eq!(received(&mut consumer), Err(Received::Empty));
        }
        // A receiver that grants room which it does not have only stops the sender.
        let (_owner, words) = ring_of(16);
        words.store(HEAD, 5);
        assert!(!Producer::new(words).send(1, 1, b"x"));
    }
}
