//! The layout of a region.
//!
//! ```text
//! byte      size          what                                       written by
//! 0         4096          header page (see `header`)                 owner
//! 4096      64            beacon line                                owner and peers
//! 4160      64 x 33       watch slots, one a watcher (see `robust`)  owner, watcher w
//! 6272      1920          zero, so that the rings start on a page
//! 8192      R = (128 + ring bytes) x seats: message rings, one a sender
//!   +0      64              tail line: words ever put in             sender s
//!   +64     64              head line: words ever taken out          owner
//!   +128    ring bytes      a power of two; frames of whole words    sender s
//! 8192 + R  8 x n_words   protocol words; `At(0)` is the first       the protocol
//! ```
//!
//! Beacon line: word 0 is the sleep flag (1: the owner sleeps; the peer that swaps it to 0 rings
//! its bell), word 1 counts arrivals (a peer adds one when it has mapped this region). Both are
//! changed by atomic read-modify-write, since several parties may write them: every other word has
//! one writer.
//!
//! A region without rings (`ring_words` 0, R = 0) is for providers that carry messages by other
//! means.

use base::FABRIC_SEATS_MAX;

/// The most parties that can watch one owner: the process of every seat, and the owner's sentinel.
pub const WATCHERS: usize = FABRIC_SEATS_MAX + 1;

/// The sentinel's watcher number: a seat's process watches by the seat's number, from 0.
pub const SENTINEL: usize = FABRIC_SEATS_MAX;

/// The size of the header page.
pub const HEADER_BYTES: usize = 4096;

pub(crate) const LINE_BYTES: usize = 64;
pub(crate) const LINE_WORDS: u32 = (LINE_BYTES / 8) as u32;

pub(crate) const BEACON_BYTE: usize = HEADER_BYTES;
pub(crate) const WATCH_BYTE: usize = BEACON_BYTE + LINE_BYTES;
pub(crate) const WATCH_BYTES: usize = LINE_BYTES;
pub(crate) const RINGS_BYTE: usize = 2 * HEADER_BYTES;

/// Words of the beacon line, counted from its start.
pub mod beacon {
    /// 1 while the owner sleeps.
    pub const SLEEPING: u32 = 0;
    /// The number of times that a peer mapped this region.
    pub const ARRIVALS: u32 = 1;
}

/// Words of a ring's control lines and data, counted from the ring's start.
pub mod ring {
    use super::LINE_WORDS;
    /// The number of words ever put in; only the sender writes it.
    pub const TAIL: u32 = 0;
    /// The number of words ever taken out; only the receiver writes it.
    pub const HEAD: u32 = LINE_WORDS;
    /// The first word of the ring itself.
    pub const FRAMES: u32 = 2 * LINE_WORDS;
}

const _: () = assert!(WATCH_BYTE + WATCHERS * WATCH_BYTES <= RINGS_BYTE);
const _: () = assert!(RINGS_BYTE.is_multiple_of(4096), "rings start on a page");
const _: () = assert!(beacon::ARRIVALS < LINE_WORDS, "the beacon is one cache line");
const _: () = assert!(ring::FRAMES == 16 && ring::HEAD == 8, "writers share no cache line");

/// The sizes with which a region is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The number of seats, whose processes send to the owner and watch it: 1 to
    /// [`FABRIC_SEATS_MAX`].
    pub n_seats: usize,
    /// The number of words of the protocol.
    pub n_words: u32,
    /// The number of words of each message ring: a power of two, or 0 for a region without rings.
    pub ring_words: u32,
}

/// The largest ring: its size in bytes still fits easily into 32 bits.
pub const RING_WORDS_MAX: u32 = 1 << 24;

impl Shape {
    /// Whether these sizes are possible.
    pub const fn is_valid(self) -> bool {
        let has_ring = self.ring_words.is_power_of_two() && self.ring_words <= RING_WORDS_MAX;
        let has_seats = self.n_seats > 0 && self.n_seats <= FABRIC_SEATS_MAX;
        has_seats && (self.ring_words == 0 || has_ring)
    }

    /// The numbers of the parties that can watch the owner.
    pub(crate) fn watchers(self) -> impl DoubleEndedIterator<Item = usize> {
        (0..self.n_seats).chain([SENTINEL])
    }

    pub(crate) const fn ring_stride_bytes(self) -> usize {
        if self.ring_words == 0 { 0 } else { 2 * LINE_BYTES + self.ring_words as usize * 8 }
    }

    pub(crate) const fn ring_byte(self, sender: usize) -> usize {
        RINGS_BYTE + sender * self.ring_stride_bytes()
    }

    pub(crate) const fn protocol_byte(self) -> usize {
        RINGS_BYTE + self.n_seats * self.ring_stride_bytes()
    }

    /// The size of the file.
    pub const fn total_bytes(self) -> usize {
        self.protocol_byte() + self.n_words as usize * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_as_it_was_published() {
        assert_eq!((HEADER_BYTES, BEACON_BYTE, WATCH_BYTE, RINGS_BYTE), (4096, 4096, 4160, 8192));
        assert_eq!((WATCHERS, SENTINEL, WATCH_BYTES), (33, 32, 64));
        let shape = Shape { n_seats: 7, n_words: 1000, ring_words: 1 << 16 };
        assert_eq!(shape.ring_byte(0), 8192);
        assert_eq!(shape.ring_byte(1), 8192 + 128 + 524_288);
        assert_eq!(shape.protocol_byte(), 8192 + 7 * (128 + 524_288));
        assert_eq!(shape.total_bytes(), 3_679_104 + 8000);
        assert!(shape.watchers().eq([0, 1, 2, 3, 4, 5, 6, 32]));
        let bare = Shape { n_seats: 32, n_words: 3, ring_words: 0 };
        assert_eq!((bare.protocol_byte(), bare.total_bytes()), (8192, 8216));
    }

    #[test]
    fn seats_are_bounded_and_a_ring_is_a_power_of_two_or_nothing() {
        let seats = |n_seats| Shape { n_seats, n_words: 1, ring_words: 0 };
        assert!(seats(1).is_valid() && seats(FABRIC_SEATS_MAX).is_valid());
        assert!(!seats(0).is_valid() && !seats(FABRIC_SEATS_MAX + 1).is_valid());
        let shape = |ring_words| Shape { n_seats: 3, n_words: 1, ring_words };
        assert!(shape(0).is_valid() && shape(1).is_valid() && shape(RING_WORDS_MAX).is_valid());
        assert!(!shape(3).is_valid() && !shape(RING_WORDS_MAX * 2).is_valid());
    }
}
