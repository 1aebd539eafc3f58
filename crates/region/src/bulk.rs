//! Copies of long runs of words between memory that others use and memory that they do not.
//!
//! A compiler stores atomic words one by one, at half the speed at which a processor copies. On
//! x86-64 long runs are copied 16 bytes at a time here.
//!
//! - B1 *No word is torn.* A wide copy loads or stores 16 bytes at once, 16-aligned in the shared
//!   memory. Each aligned word of such an access is whole on every x86-64 processor (Intel's
//!   manual, volume 3, "Guaranteed Atomic Operations": 8 aligned bytes in general, with AVX all
//!   16). So a copy does what relaxed accesses of its words would do, in some order. The
//!   compiler does not look inside it, so no plain access of the language meets a word that another
//!   process writes.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

const WORD_BYTES: usize = 8;

/// The words that one turn of a wide copy copies.
const TURN_WORDS: usize = 8;

/// The least number of words for which a wide copy is begun. 0 words are never wide elsewhere.
const WIDE_WORDS_MIN: usize =
    if cfg!(all(target_arch = "x86_64", not(miri))) { 2 * TURN_WORDS } else { usize::MAX };

/// The words of a run of `n_words` at `shared` that a wide copy copies: from a 16-aligned one on,
/// a multiple of [`TURN_WORDS`].
#[inline]
fn wide_part(shared: *const u64, n_words: usize) -> Range<usize> {
    if n_words < WIDE_WORDS_MIN {
        return 0..0;
    }
    let begin = usize::from(!shared.addr().is_multiple_of(2 * WORD_BYTES));
    begin..begin + (n_words - begin) / TURN_WORDS * TURN_WORDS
}

/// Sets `n_words` from `to` on to the bytes at `from`.
///
/// # Safety
/// `to` is 8-aligned, and as many words from it on are memory that lives meanwhile, and that all
/// touch as this module or [`AtomicU64`] does. As many bytes from `from` on, at any address, may be
/// read, and nothing writes there meanwhile.
#[inline]
pub(crate) unsafe fn store(to: *mut u64, from: *const u8, n_words: usize) {
    let wide = wide_part(to, n_words);
    for at in (0..wide.start).chain(wide.end..n_words) {
        let place = from.wrapping_add(at * WORD_BYTES).cast::<u64>();
        // SAFETY: the caller's promise; an unaligned read needs no alignment.
        let word = unsafe { place.read_unaligned() };
        // SAFETY: the caller's promise.
        unsafe { AtomicU64::from_ptr(to.wrapping_add(at)) }.store(word, Relaxed);
    }
    if !wide.is_empty() {
        let from = from.wrapping_add(wide.start * WORD_BYTES);
        // SAFETY: the caller's promise; `wide_part` gives what `copy_wide` wants.
        unsafe { copy_wide(to.wrapping_add(wide.start).cast(), from, wide.len()) };
    }
}

/// Copies `n_words` from `from` on to `to`.
///
/// # Safety
/// As for [`store`], with the sides changed: `from` is the shared memory, and `to` is 8-aligned
/// memory that this thread alone uses.
#[inline]
pub(crate) unsafe fn load(from: *mut u64, to: *mut u64, n_words: usize) {
    let wide = wide_part(from, n_words);
    for at in (0..wide.start).chain(wide.end..n_words) {
        // SAFETY: the caller's promise.
        let word = unsafe { AtomicU64::from_ptr(from.wrapping_add(at)) }.load(Relaxed);
        // SAFETY: the caller's promise.
        unsafe { to.wrapping_add(at).write(word) };
    }
    if !wide.is_empty() {
        let (to, from) = (to.wrapping_add(wide.start), from.wrapping_add(wide.start));
        // SAFETY: the caller's promise; `wide_part` gives what `copy_wide` wants.
        unsafe { copy_wide(to.cast(), from.cast(), wide.len()) };
    }
}

/// Copies `n_words`, a multiple of [`TURN_WORDS`] and not 0, 16 bytes at a time (B1).
///
/// # Safety
/// As many words may be read at `from` and written at `to`, and they do not overlap. The shared
/// side is 16-aligned.
#[inline]
unsafe fn copy_wide(to: *mut u8, from: *const u8, n_words: usize) {
    debug_assert!(n_words > 0 && n_words.is_multiple_of(TURN_WORDS));
    // SAFETY: each turn reads and writes 64 bytes that the caller has promised, `n_words / 8` turns
    // in all. The code uses no stack.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        std::arch::asm!(
            "2:",
            "movups {a}, [{from}]",
            "movups {b}, [{from} + 16]",
            "movups {c}, [{from} + 32]",
            "movups {d}, [{from} + 48]",
            "movups [{to}], {a}",
            "movups [{to} + 16], {b}",
            "movups [{to} + 32], {c}",
            "movups [{to} + 48], {d}",
            "add {from}, 64",
            "add {to}, 64",
            "sub {left}, 8",
            "jne 2b",
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            left = inout(reg) n_words => _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack),
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    unreachable!("{n_words} words from {from:?} to {to:?}: no part is wide here")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of all short lengths and some long ones, from each alignment of both sides.
    #[test]
    fn b1_runs_of_all_lengths_and_alignments_are_copied_and_nothing_beside_them() {
        let bytes: Vec<u8> = (0..8 * 200).map(|at| (at * 31 % 251) as u8 + 1).collect();
        for n_words in (0..40).chain([63, 64, 65, 100, 127, 128, 129]) {
            for (skipped, offset) in (0..3).flat_map(|skipped| (0..9).map(move |at| (skipped, at)))
            {
                let mut shared = vec![0_u64; n_words + 6];
                let run_at = shared.as_mut_ptr().wrapping_add(skipped);
                // SAFETY: `skipped` words, the run and three more are in `shared`, and `bytes` are
                // longer than all runs and offsets.
                unsafe { store(run_at, bytes[offset..].as_ptr(), n_words) };
                let mut back = vec![7_u64; n_words + 2];
                // SAFETY: as above, and `back` has a word more on either side.
                unsafe { load(run_at, back[1..].as_mut_ptr(), n_words) };
                let word = |at: usize| {
                    let from = offset + 8 * at;
                    u64::from_ne_bytes(bytes[from..from + 8].try_into().expect("8 bytes"))
                };
                let run: Vec<u64> = (0..n_words).map(word).collect();
                assert_eq!(shared[skipped..skipped + n_words], run, "{n_words} at {skipped}");
                assert!(shared[..skipped].iter().all(|word| *word == 0));
                assert!(shared[skipped + n_words..].iter().all(|word| *word == 0));
                assert_eq!(back[1..=n_words], run, "{n_words} from {skipped}");
                assert_eq!((back[0], back[n_words + 1]), (7, 7));
            }
        }
    }

    /// A writer that fills the run with one number after the other, and a reader.
    #[test]
    fn b1_a_word_is_never_torn() {
        let shared: Vec<AtomicU64> = (0..128).map(|_| AtomicU64::new(0)).collect();
        let run = || shared[1..].as_ptr().cast_mut().cast::<u64>();
        let rounds: u64 = if cfg!(miri) { 30 } else { 30_000 };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=rounds {
                    let words = vec![round << 32 | round; 127];
                    // SAFETY: there are as many words from the second one of `shared` on, which
                    // lives as long as the scope.
                    unsafe { store(run(), words.as_ptr().cast(), 127) };
                }
            });
            let mut newest = 0;
            while newest < rounds {
                let mut words = [0; 127];
                // SAFETY: as above.
                unsafe { load(run(), words.as_mut_ptr(), 127) };
                for word in words {
                    assert_eq!(word >> 32, word & u64::from(u32::MAX), "torn");
                    newest = newest.max(word >> 32);
                }
            }
        });
    }
}
