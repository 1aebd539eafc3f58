//! The threads that learn from the kernel of a peer's death, and how they tell the poll loop.

use super::bell::Bell;
use base::Rank;
use region::Region;
use region::robust::Seen;
use region::schedule::Pace;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

/// How long a watching thread blocks before it looks whether it is still wanted.
const LOOK_UP: Duration = Duration::from_secs(1);

/// What makes the poll loop look at its links: a count that every watch adds to.
#[derive(Debug)]
pub(super) struct Alarm {
    count: AtomicU64,
    bell: Bell,
    pace: Pace,
}

impl Alarm {
    pub(super) fn new(bell: Bell, pace: Pace) -> Alarm {
        Alarm { count: AtomicU64::new(0), bell, pace }
    }

    #[inline]
    pub(super) fn count(&self) -> u64 {
        self.count.load(Acquire) // pairs with `raise`: what was seen comes before the count
    }

    fn raise(&self) {
        self.pace.hurry(); // before the count: whoever sees it knows that there is a hurry to end
        self.count.fetch_add(1, Release);
        self.bell.ring(); // after the count, so that a sleeper that wakes by it finds it
    }
}

/// A thread that waits for the end of one peer's lives.
#[derive(Debug)]
pub(super) struct Watcher {
    shared: Arc<Shared>,
    thread: Thread,
}

#[derive(Debug, Default)]
struct Shared {
    /// Every life of the peer up to this one has ended.
    ended: AtomicU64,
    unwanted: AtomicBool,
    /// Of the watching thread, which lives as long as it is wanted.
    pace: OnceLock<Pace>,
}

impl Watcher {
    /// Starts to watch `region`'s owner; `None` if no thread is to be had now.
    pub(super) fn start(region: &Region, me: Rank, alarm: &Arc<Alarm>) -> Option<Watcher> {
        let shared = Arc::new(Shared::default());
        let mut watch = region.watch(me.index());
        let (ours, alarm) = (Arc::clone(&shared), Arc::clone(alarm));
        let thread = std::thread::Builder::new()
            .name("watch".into())
            .stack_size(64 << 10)
            .spawn(move || {
                ours.pace.get_or_init(Pace::of_this_thread).hurry();
                while !ours.unwanted.load(Relaxed) {
                    match watch.wait(LOOK_UP) {
                        Seen::Alive => {}
                        Seen::Ended(life) => {
                            ours.ended.store(life, Release); // pairs with `ended`
                            alarm.raise();
                        }
                        // `again` and `drop` end this early.
                        Seen::NobodyThere | Seen::Broken => std::thread::park_timeout(LOOK_UP),
                    }
                }
            })
            .ok()?;
        Some(Watcher { shared, thread: thread.thread().clone() })
    }

    /// Every life of the peer up to this one has ended.
    pub(super) fn ended(&self) -> u64 {
        self.shared.ended.load(Acquire)
    }

    /// Says whether this process leads: see [`region::schedule`].
    pub(super) fn lead(&self, leads: bool) {
        // One that has not begun yet is urgent for this reign; that costs a little latency.
        if let Some(pace) = self.shared.pace.get() {
            let _granted = if leads { pace.relax() } else { pace.hurry() };
        }
    }

    /// The peer is back: watch its new life at once.
    pub(super) fn again(&self) {
        self.thread.unpark();
    }
}

impl Drop for Watcher {
    /// Does not wait: a blocked thread notices within [`LOOK_UP`], and until then it only keeps its
    /// peer's mapping.
    fn drop(&mut self) {
        self.shared.unwanted.store(true, Relaxed);
        self.thread.unpark();
    }
}
