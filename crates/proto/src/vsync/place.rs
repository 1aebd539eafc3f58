//! Places of a landing area, and what a process holds of one (`landing`).

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use base::verb::Area;
use base::{At, Rank};
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use once_cell::race::OnceBox;
use zerocopy::IntoBytes;

/// The words that are loaded at a time: 4 KiB.
pub(super) const CHUNK_WORDS: usize = 512;

/// The bits of a word of a slot that say which place it is.
const PLACE_BITS: u32 = 16;

/// The places of an area.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    at: At,
    n_seats: u32,
    pub(super) n_places: u32,
    /// The words of a place.
    pub(super) stride: u32,
}

impl Plan {
    /// The plan of an area that begins at `at`.
    pub(super) fn new(at: At, n_seats: usize, n_places: u32, message_bytes: u32) -> Plan {
        assert!(n_places < 1 << PLACE_BITS && (n_places == 0 || message_bytes >= 8));
        Plan { at, n_seats: n_seats as u32, n_places, stride: message_bytes.div_ceil(8) }
    }

    /// The words of an area.
    pub(super) const fn n_words(&self) -> u32 {
        self.n_places * (1 + self.n_seats + self.stride)
    }

    pub(super) const fn use_of(&self, place: u32) -> At {
        self.at.plus(place)
    }

    pub(super) fn released_by(&self, seat: Rank, place: u32) -> At {
        self.at.plus((1 + seat.index() as u32) * self.n_places + place)
    }

    pub(super) const fn words_of(&self, place: u32) -> At {
        self.at.plus((1 + self.n_seats) * self.n_places + place * self.stride)
    }
}

/// A use of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) place: u32,
    pub(super) number: u64,
}

impl Use {
    /// The word of a slot that names it.
    pub(super) const fn word(self) -> u64 {
        self.number << PLACE_BITS | self.place as u64
    }

    pub(super) const fn of(word: u64) -> Use {
        Use { place: word as u32 & ((1 << PLACE_BITS) - 1), number: word >> PLACE_BITS }
    }
}

/// A process's hold of a use of a place.
pub(super) struct Hold {
    pub(super) area: Arc<dyn Area>,
    pub(super) plan: Plan,
    pub(super) held: Use,
    reader: Rank,
    pub(super) n_bytes: usize,
    /// The message, once it was asked for as a whole.
    copy: OnceBox<Vec<u64>>,
    is_released: AtomicBool,
}

impl Hold {
    /// The length of the message, in bytes.
    pub(super) const fn len(&self) -> usize {
        self.n_bytes
    }

    /// Whether this process has a copy.
    pub(super) fn is_copied(&self) -> bool {
        self.copy.get().is_some()
    }

    /// V18
    fn is_there(&self) -> bool {
        self.area.load(self.plan.use_of(self.held.place)) == self.held.number
    }

    fn load(&self, offset: usize, words: &mut [u64]) {
        self.area.load_into(self.plan.words_of(self.held.place).plus(offset as u32), words);
    }

    /// The words, of which this process has a copy from now on. `None` if the place has another
    /// message.
    pub(super) fn words(&self) -> Option<&[u64]> {
        if self.copy.get().is_none() {
            let load = |offset: u32, to: &mut [u64]| self.load(offset as usize, to);
            let copy = loaded(self.n_bytes.div_ceil(8), load);
            if self.is_there() {
                // (If another thread was first, its copy is the same.)
                let _first = self.copy.set(Box::new(copy));
            }
        }
        let copy = self.copy.get()?;
        self.release();
        Some(copy)
    }

    /// Hands the bytes to `take`, some at a time, without a copy of the whole.
    pub(super) fn read(&self, mut take: impl FnMut(&[u8])) {
        let (mut chunk, mut offset) = ([0; CHUNK_WORDS], 0);
        while 8 * offset < self.n_bytes {
            let n = CHUNK_WORDS.min(self.n_bytes.div_ceil(8) - offset);
            self.read_words(offset, &mut chunk[..n]);
            let n_bytes = (8 * n).min(self.n_bytes - 8 * offset);
            take(&chunk.as_bytes()[..n_bytes]);
            offset += n;
        }
    }

    /// The bytes at the beginning, as many as there are and `to` has room for: their number.
    pub(super) fn head(&self, to: &mut [u8]) -> usize {
        let n_bytes = to.len().min(self.n_bytes).min(8 * CHUNK_WORDS);
        let mut chunk = [0; CHUNK_WORDS];
        let words = &mut chunk[..n_bytes.div_ceil(8)];
        self.read_words(0, words);
        to[..n_bytes].copy_from_slice(&words.as_bytes()[..n_bytes]);
        n_bytes
    }

    fn read_words(&self, offset: usize, words: &mut [u64]) {
        self.load(offset, words);
        if !self.is_there() {
            // Another thread has copied it in between.
            let copy = self.copy.get().expect("V18: a message is there while it is held");
            words.copy_from_slice(&copy[offset..offset + words.len()]);
        }
    }

    fn release(&self) {
        // Once: later, the word may be that of the next use.
        if !self.is_released.swap(true, Relaxed) {
            self.area.store(self.plan.released_by(self.reader, self.held.place), self.held.number);
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.release();
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:?}", self.n_bytes, self.held)
    }
}

/// `n_words` that `load` fills, from an offset on: a few at a time, so that what is long goes
/// through memory once.
pub(super) fn loaded(n_words: usize, mut load: impl FnMut(u32, &mut [u64])) -> Vec<u64> {
    if n_words <= CHUNK_WORDS {
        let mut words = vec![0; n_words];
        load(0, &mut words);
        return words;
    }
    let (mut words, mut chunk) = (Vec::with_capacity(n_words), [0; CHUNK_WORDS]);
    while words.len() < n_words {
        let chunk = &mut chunk[..CHUNK_WORDS.min(n_words - words.len())];
        load(words.len() as u32, chunk);
        words.extend_from_slice(chunk);
    }
    words
}

/// A hold of a use.
pub(super) fn hold(
    area: Arc<dyn Area>,
    plan: Plan,
    held: Use,
    reader: Rank,
    n_bytes: usize,
) -> Hold {
    let (copy, is_released) = (OnceBox::new(), AtomicBool::new(false));
    Hold { area, plan, held, reader, n_bytes, copy, is_released }
}
