//! What a program draws: a stream that all copies share, in place of the kernel's chance.
//!
//! - C1 each thread has a stream of its own, named by the threads and children that its ancestors
//!   have started before: not by ids, which differ between copies. So copies draw the same if each
//!   of their threads does the same, in whichever order the threads run.
//! - C2 without the seed one cannot tell what comes next from few values: the seed is made of
//!   the cluster's secret, by construction: the member hands it on. The stream is no cipher: from
//!   much of it the seed may be found.

use std::cell::Cell;

thread_local! {
    static STREAM: Cell<Stream> = const { Cell::new(Stream::NONE) };
}

/// The place of a thread in what is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    key: u64,
    n_drawn: u64,
    n_started: u64,
}

impl Stream {
    pub(crate) const NONE: Stream = Stream { key: 0, n_drawn: 0, n_started: 0 };

    /// The first thread's.
    pub(crate) const fn seeded(seed: u64) -> Stream {
        Stream { key: mixed(seed, 0), n_drawn: 0, n_started: 0 }
    }

    /// One of many that belong to no thread.
    pub(crate) const fn numbered(seed: u64, n: u64) -> Stream {
        Stream { key: mixed(mixed(!seed, 0), n), n_drawn: 0, n_started: 0 }
    }

    /// That of the next thread or child that this one starts.
    pub(crate) const fn start(&mut self) -> Stream {
        self.n_started += 1;
        Stream { key: mixed(!self.key, self.n_started), n_drawn: 0, n_started: 0 }
    }

    /// The next bytes.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            self.n_drawn += 1;
            let word = mixed(self.key, self.n_drawn).to_le_bytes();
            piece.copy_from_slice(&word[..piece.len()]);
        }
    }

    /// A number below `bound`, each as likely as the others.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        if bound < 2 {
            return 0;
        }
        // Numbers from here on would make low ones likelier.
        let whole = u32::MAX - (u32::MAX % bound + 1) % bound;
        loop {
            let mut bytes = [0; 4];
            self.fill(&mut bytes);
            let word = u32::from_le_bytes(bytes);
            if word <= whole {
                return word % bound;
            }
        }
    }
}

/// SplitMix64, twice: of a key, and of a number under it.
const fn mixed(key: u64, n: u64) -> u64 {
    finished(
        finished(key).wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)) ^ key.rotate_left(32),
    )
}

const fn finished(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// Works on this thread's stream, if the program's chance is not the kernel's.
pub(crate) fn with<T>(work: impl FnOnce(&mut Stream) -> T) -> Option<T> {
    let seed = crate::page::page()?.seed()?;
    STREAM
        .try_with(|of| {
            let mut stream = of.get();
            if stream == Stream::NONE {
                stream = Stream::seeded(seed);
            }
            let result = work(&mut stream);
            of.set(stream);
            result
        })
        .ok()
}

/// This thread draws from `stream` from now on.
pub(crate) fn adopt(stream: Stream) {
    let _ = STREAM.try_with(|of| of.set(stream));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(stream: &mut Stream, n: usize) -> Vec<u8> {
        let mut bytes = vec![0; n];
        stream.fill(&mut bytes);
        bytes
    }

    #[test]
    fn c1_threads_draw_the_same_in_whichever_order_they_run() {
        let [mut one, mut other] = [Stream::seeded(7); 2];
        let (mut first, mut second) = (one.start(), one.start());
        let of_one = [drawn(&mut first, 20), drawn(&mut second, 20), drawn(&mut one, 20)];
        let mut first = other.start();
        let own = drawn(&mut other, 20);
        let mut second = other.start();
        let others = drawn(&mut second, 20);
        assert_eq!([drawn(&mut first, 20), others, own], of_one);
        assert!(of_one[0] != of_one[1] && of_one[1] != of_one[2]);
        assert_ne!(drawn(&mut Stream::seeded(8), 20), drawn(&mut Stream::seeded(7), 20));
    }

    #[test]
    fn numbers_below_a_bound_are_all_met() {
        let mut stream = Stream::seeded(1);
        let mut met = [0; 7];
        (0..7000).for_each(|_| met[stream.below(7) as usize] += 1);
        assert!(met.iter().all(|n| (800..1200).contains(n)), "{met:?}");
        assert_eq!((stream.below(0), stream.below(1)), (0, 0));
        assert!((0..100).all(|_| stream.below(1 << 31 | 1) <= 1 << 31));
    }

    #[test]
    fn bits_are_drawn_evenly() {
        let bytes = drawn(&mut Stream::seeded(3), 80_000);
        let n: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
        assert!((318_000..322_000).contains(&n), "{n}");
    }
}
