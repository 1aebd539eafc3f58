//! Seeds and planted bugs, on several threads.
//!
//! A run depends on its seed alone, so it does not matter which thread runs it: the
//! report is the same for any number of them (tested), and only the time differs.

use super::SimArgs;
use console::{Failure, Outcome};
use report::Progress;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Instant;

/// The most threads: more than processors are of no use, and some thousands cannot be started.
const JOBS_MAX: NonZeroUsize = NonZeroUsize::new(256).expect("not zero");

/// The number of threads, if the caller does not set it.
pub(super) fn jobs(asked: Option<NonZeroUsize>) -> NonZeroUsize {
    let jobs = asked.or_else(|| thread::available_parallelism().ok());
    jobs.unwrap_or(NonZeroUsize::MIN).min(JOBS_MAX)
}

/// The most seeds that fit into a time: more than any machine does in a day.
const SEEDS_IN_TIME: u64 = 1 << 40;

/// The most seeds that are run.
pub(super) fn how_many(args: &SimArgs) -> u64 {
    args.seconds.map_or(args.seeds, |_| SEEDS_IN_TIME)
}

/// Whether the requested time has passed.
pub(super) fn is_over(args: &SimArgs, began: Instant) -> bool {
    args.seconds.is_some_and(|seconds| began.elapsed().as_secs() >= seconds)
}

/// The range of `n` seeds from `first` on.
///
/// # Errors
/// `n` is zero, or the range exceeds the numbers.
pub(super) fn seeds(first: u64, n: u64) -> Outcome<Range<u64>> {
    match first.checked_add(n) {
        Some(end) if n > 0 => Ok(first..end),
        Some(_) => Err(Failure::new("no seeds to run: --seeds takes 1 or more")),
        None => Err(Failure::new(format_args!(
            "there are no {n} seeds from {first} on: the last is {}; give --first a smaller one",
            u64::MAX - 1
        ))),
    }
}

/// Work that several threads take from, one piece after another.
#[derive(Debug)]
pub(super) struct Pool {
    next: AtomicU64,
    end: u64,
    progress: Mutex<(u64, Progress)>,
}

impl Pool {
    /// Pieces with these numbers.
    fn of(numbers: Range<u64>, label: &str) -> Pool {
        let n = numbers.end.saturating_sub(numbers.start);
        let progress = Mutex::new((0, Progress::new(label, n)));
        Pool { next: AtomicU64::new(numbers.start), end: numbers.end, progress }
    }

    /// The numbers that are left, for one thread: each number goes to one thread.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        let take = || self.next.fetch_update(Relaxed, Relaxed, |n| (n < self.end).then(|| n + 1));
        std::iter::from_fn(move || take().ok())
    }

    /// Notes that one more piece is done.
    pub(super) fn tell(&self, note: &str) {
        let mut progress = self.progress.lock().unwrap_or_else(|broken| broken.into_inner());
        progress.0 += 1;
        let done = progress.0;
        progress.1.set(done, note);
    }
}

/// The result of each of `jobs` threads for its share of `numbers`.
pub(super) fn share<T: Send>(
    jobs: NonZeroUsize,
    numbers: Range<u64>,
    label: &str,
    work: impl Fn(&Pool) -> T + Sync,
) -> Vec<T> {
    let pool = Pool::of(numbers, label);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs.get()).map(|_| scope.spawn(|| work(&pool))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// One result for each of `items`, in their order.
pub(super) fn each<I: Sync, T: Send>(
    jobs: NonZeroUsize,
    items: &[I],
    label: &str,
    act: impl Fn(&I) -> (T, &str) + Sync,
) -> Vec<T> {
    let parts = share(jobs, 0..items.len() as u64, label, |pool| {
        let one = |number: u64| {
            let (result, note) = act(&items[number as usize]);
            pool.tell(note);
            (number, result)
        };
        pool.numbers().map(one).collect::<Vec<_>>()
    });
    let mut results: Vec<_> = parts.into_iter().flatten().collect();
    results.sort_unstable_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_done_once_and_results_keep_their_order() {
        for jobs in [1, 2, 7] {
            let jobs = NonZeroUsize::new(jobs).unwrap();
            let items: Vec<u32> = (0..100).collect();
            let squares = each(jobs, &items, "squares", |n| (n * n, ""));
            assert_eq!(squares, items.iter().map(|n| n * n).collect::<Vec<_>>());
            let mut taken: Vec<u64> =
                share(jobs, 5..50, "n", |pool| pool.numbers().collect::<Vec<_>>()).concat();
            taken.sort_unstable();
            assert_eq!(taken, (5..50).collect::<Vec<_>>());
        }
    }

    #[test]
    fn seeds_that_are_not_there_are_refused() {
        assert_eq!(seeds(3, 2).unwrap(), 3..5);
        assert!(seeds(0, 0).unwrap_err().to_string().contains("--seeds"));
        assert!(seeds(u64::MAX, 3).unwrap_err().to_string().contains("--first"));
        assert_eq!(jobs(NonZeroUsize::new(100_000)), JOBS_MAX);
    }

    #[test]
    fn a_report_is_the_same_on_any_number_of_threads() {
        let config = ::sim::Config::default();
        let sweep = |jobs| {
            let parts = share(NonZeroUsize::new(jobs).unwrap(), 0..4, "seeds", |pool| {
                ::sim::sweep(&::sim::subjects()[0], &config, pool.numbers(), |_| true)
            });
            format!("{:?}", ::sim::Report::joined(parts))
        };
        assert_eq!(sweep(1), sweep(3));
    }
}
