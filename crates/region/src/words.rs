//! A stretch of words that any process may change at any time. Orderings: see the crate's page.
#![allow(unsafe_code)]

use crate::bulk;
use crate::memory::Memory;
use rustix::thread::futex;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};

/// A view of words, counted from its own start. Cheap to clone; keeps the memory alive.
///
/// W1: `n_words` words from `base` on are 8-aligned and inside the memory that it holds
/// (established by `Words::new`, the only constructor).
#[derive(Clone, Debug)]
pub struct Words {
    base: NonNull<u64>,
    n_words: u32,
    /// The memory (W1): never read, but the words at `base` live as long as this does.
    _memory: Arc<Memory>,
}

// SAFETY: a `Words` is a shared reference to atomics, with the `Arc` that keeps them alive.
unsafe impl Send for Words {}
// SAFETY: as above: every access through `&Words` is atomic.
unsafe impl Sync for Words {}

#[cold]
#[inline(never)]
#[track_caller]
fn out_of_bounds(at: u32, len: usize, n_words: u32) -> ! {
    panic!("I2: words {at}+{len} of a view of {n_words}")
}

impl Words {
    /// A view of the `n_words` from byte `start` on.
    pub(crate) fn new(memory: &Arc<Memory>, start: usize, n_words: u32) -> Words {
        assert!(start.is_multiple_of(8), "W1: {start} is no word's place");
        let end = start + n_words as usize * 8;
        assert!(end <= memory.n_bytes(), "W1: {end} is behind {} bytes", memory.n_bytes());
        // SAFETY: `start` is inside the memory, or one past its end if there are no words.
        let base = unsafe { memory.base().add(start) };
        Words { base: base.cast(), n_words, _memory: Arc::clone(memory) }
    }

    /// The number of words.
    pub fn n_words(&self) -> u32 {
        self.n_words
    }

    /// # Safety
    /// `at` is below `n_words`.
    #[inline]
    unsafe fn word_unchecked(&self, at: usize) -> &AtomicU64 {
        // SAFETY: by W1 and the caller's promise this stays inside the memory.
        let place = unsafe { self.base.add(at) };
        // SAFETY: W1 gives alignment and life for as long as `self`. Words are only ever touched
        // here, atomically and 8 bytes wide (I1): no mixed-size or non-atomic conflict.
        unsafe { AtomicU64::from_ptr(place.as_ptr()) }
    }

    #[inline]
    #[track_caller]
    fn word(&self, at: u32) -> &AtomicU64 {
        if at >= self.n_words {
            out_of_bounds(at, 1, self.n_words);
        }
        // SAFETY: just checked.
        unsafe { self.word_unchecked(at as usize) }
    }

    /// The address of a word, or of the end.
    #[inline]
    fn place_of(&self, at: u32) -> *mut u64 {
        self.base.as_ptr().wrapping_add(at as usize)
    }

    #[inline]
    #[track_caller]
    fn check_range(&self, at: u32, len: usize) {
        if len > self.n_words as usize || at as usize > self.n_words as usize - len {
            out_of_bounds(at, len, self.n_words);
        }
    }

    /// One word (acquire).
    #[inline]
    #[track_caller]
    pub fn load(&self, at: u32) -> u64 {
        self.word(at).load(Acquire)
    }

    /// Sets a word (release).
    #[inline]
    #[track_caller]
    pub fn store(&self, at: u32, word: u64) {
        self.word(at).store(word, Release);
    }

    /// Copies words out: each is whole, but they may be of different ages.
    #[inline]
    #[track_caller]
    pub fn load_into(&self, at: u32, words: &mut [u64]) {
        self.check_range(at, words.len());
        // SAFETY: by `check_range` they are inside the memory (W1), which is touched atomically
        // alone (I1); `words` are the caller's.
        unsafe { bulk::load(self.place_of(at), words.as_mut_ptr(), words.len()) };
        fence(Acquire);
    }

    /// Copies words in, behind everything that this thread did before.
    #[inline]
    #[track_caller]
    pub fn write_words(&self, at: u32, words: &[u64]) {
        self.check_range(at, words.len());
        fence(Release); // each word below publishes what came before this call: pairs with `load`
        // SAFETY: as in `load_into`.
        unsafe { bulk::store(self.place_of(at), words.as_ptr().cast(), words.len()) };
    }

    /// Copies bytes in, behind everything that this thread did before. The rest of the last word is
    /// zero.
    #[inline]
    #[track_caller]
    pub fn write_bytes(&self, at: u32, bytes: &[u8]) {
        let (whole, rest) = bytes.as_chunks::<8>();
        self.check_range(at, bytes.len().div_ceil(8));
        fence(Release); // as in `write_words`
        // SAFETY: as in `load_into`.
        unsafe { bulk::store(self.place_of(at), bytes.as_ptr(), whole.len()) };
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.word(at + whole.len() as u32).store(u64::from_ne_bytes(last), Relaxed);
        }
    }

    /// Sets a word to `desired` if it is `expected`; returns the word before in any case.
    #[inline]
    #[track_caller]
    pub fn cas(&self, at: u32, expected: u64, desired: u64) -> u64 {
        match self.word(at).compare_exchange(expected, desired, AcqRel, Acquire) {
            Ok(before) | Err(before) => before,
        }
    }

    /// Adds to a word, wrapping; returns the word before.
    #[inline]
    #[track_caller]
    pub fn fetch_add(&self, at: u32, add: u64) -> u64 {
        self.word(at).fetch_add(add, AcqRel)
    }

    /// Wakes the threads, of any process, that sleep on the lower half of a word (a futex).
    #[track_caller]
    pub fn wake(&self, at: u32) {
        let half = self.word(at).as_ptr().cast();
        // SAFETY: it lies in a word, which lives as long as `self`. The kernel alone looks at it.
        let half = unsafe { AtomicU32::from_ptr(half) };
        // It fails for addresses that are not mapped.
        let _woken = futex::wake(half, futex::Flags::empty(), u32::MAX >> 1);
    }

    /// Sets a word; returns the word before.
    #[inline]
    #[track_caller]
    pub fn swap(&self, at: u32, word: u64) -> u64 {
        self.word(at).swap(word, AcqRel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(n_words: u32) -> Words {
        Words::new(&Arc::new(Memory::heap(n_words as usize * 8)), 0, n_words)
    }

    #[test]
    fn words_hold_what_was_put_in() {
        let words = words(8);
        words.write_words(1, &[1, 2, 3]);
        let mut copy = [0; 4];
        words.load_into(0, &mut copy);
        assert_eq!(copy, [0, 1, 2, 3]);
        assert_eq!(words.cas(1, 9, 5), 1);
        assert_eq!(words.cas(1, 1, 5), 1);
        assert_eq!((words.load(1), words.fetch_add(1, 2), words.swap(1, 0)), (5, 5, 7));
        words.write_words(8, &[]);
        words.load_into(8, &mut []);
    }

    #[test]
    fn bytes_fill_whole_words() {
        let words = words(8);
        words.write_words(0, &[u64::MAX; 8]);
        words.write_bytes(1, b"eight and more");
        words.write_bytes(4, b"");
        let mut copy = [0; 5];
        words.load_into(0, &mut copy);
        let of = |bytes: &[u8; 8]| u64::from_ne_bytes(*bytes);
        let expected = [u64::MAX, of(b"eight an"), of(b"d more\0\0"), u64::MAX, u64::MAX];
        assert_eq!(copy, expected);
    }

    #[test]
    fn bytes_of_all_lengths_are_read_as_they_were_written() {
        let bytes: Vec<u8> = (0..700).map(|at| (at * 31 % 251) as u8).collect();
        for n in (0..200).chain([699, 700]) {
            let words = words(90);
            words.write_bytes(1, &bytes[..n]);
            let mut copy = vec![0; n.div_ceil(8)];
            words.load_into(1, &mut copy);
            let mut read: Vec<u8> = copy.iter().flat_map(|word| word.to_ne_bytes()).collect();
            assert!(read.split_off(n).iter().all(|byte| *byte == 0), "{n}");
            assert_eq!(read, bytes[..n]);
            assert_eq!((words.load(0), words.load(1 + n.div_ceil(8) as u32)), (0, 0));
        }
    }

    #[test]
    #[should_panic(expected = "I2")]
    fn i2_bytes_across_the_end_panic() {
        words(8).write_bytes(7, b"nine byte");
    }

    #[test]
    #[should_panic(expected = "I2")]
    fn i2_a_load_outside_panics() {
        words(8).load(8);
    }

    #[test]
    #[should_panic(expected = "I2")]
    fn i2_a_write_across_the_end_panics() {
        words(8).write_words(7, &[1, 2]);
    }

    #[test]
    #[should_panic(expected = "I2")]
    fn i2_a_read_that_would_wrap_panics() {
        words(8).load_into(u32::MAX, &mut [0; 2]);
    }

    /// Message passing: with Relaxed instead of Release (or Acquire) this is a data race on the
    /// payload's age. On x86 it cannot fail; under Miri, or on ARM, it can.
    #[test]
    fn a_guard_publishes_its_payload() {
        guarded::<4>(20_000);
        // Copied 16 bytes at a time.
        guarded::<100>(2_000);
    }

    fn guarded<const N: usize>(rounds: u64) {
        let words = words(N as u32 + 1);
        let rounds = if cfg!(miri) { 50 } else { rounds };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=rounds {
                    words.write_words(0, &[round; N]);
                    words.write_words(N as u32, &[round]);
                }
            });
            let mut seen = 0;
            while seen < rounds {
                let guard = words.load(N as u32);
                assert!(guard >= seen, "T1, T2: a guard never goes back");
                let mut payload = [0; N];
                words.load_into(0, &mut payload);
                assert!(payload.iter().all(|word| *word >= guard), "T5: {guard} {payload:?}");
                seen = guard;
                std::hint::spin_loop();
            }
        });
    }
}
