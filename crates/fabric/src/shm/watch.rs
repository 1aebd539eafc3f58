//! The thread that learns of a peer's death from the kernel, and its alarm to the poll loop.
//!
//! The thread only wakes the loop, which looks for itself (`Link::notice_end`). There is one thread
//! for all peers, and none in a process that leads. When a leader is killed its threads end one
//! after the other on the processors of the members that must learn of its death, some 30 us each;
//! and for a leader the end of a follower is not urgent, since memory outlives its process.

use super::bell::Bell;
use base::{FABRIC_SEATS_MAX, Incarnation};
use region::robust::{Nudge, Seen, Watch, wait_any};
use region::schedule::Pace;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The time after which the watching thread looks at everything again.
const LOOK_UP: Duration = Duration::from_secs(1);

/// The alarm that makes the poll loop look at its links.
#[derive(Debug)]
pub(super) struct Alarm {
    count: AtomicU64,
    hurries: AtomicU64,
    bell: Bell,
    pace: Pace,
}

impl Alarm {
    pub(super) fn new(bell: Bell, pace: Pace) -> Alarm {
        Alarm { count: AtomicU64::new(0), hurries: AtomicU64::new(0), bell, pace }
    }

    #[inline]
    pub(super) fn count(&self) -> u64 {
        self.count.load(Acquire) // pairs with `raise`: what was seen comes before the count
    }

    /// The number of times that the loop was hurried, which the loop is to end itself.
    #[inline]
    pub(super) fn hurries(&self) -> u64 {
        self.hurries.load(Relaxed)
    }

    fn raise(&self) {
        self.count.fetch_add(1, Release);
        self.bell.ring(); // after the count, so that a sleeper that wakes by it finds it
        // The loop may be on its way already; if it has to queue for a processor, it need not for
        // long.
        if self.pace.hurry() {
            self.hurries.fetch_add(1, Relaxed);
        }
    }
}

/// The watch over the lives of all peers, unless it rests.
#[derive(Debug)]
pub(super) struct Lookout {
    alarm: Arc<Alarm>,
    rests: bool,
    /// The part that the thread shares, if there is a thread.
    shared: Option<Arc<Shared>>,
    /// The lives that the thread was last told to watch.
    watched: Lives,
}

/// The mapped region of each peer, by rank, and the life that its owner has announced.
pub(super) type Lives = [Option<(Incarnation, u64)>; FABRIC_SEATS_MAX];

#[derive(Debug, Default)]
struct Shared {
    /// The watches from now on.
    next: Mutex<Option<Vec<Watch>>>,
    unwanted: AtomicBool,
    nudge: Nudge,
}

impl Lookout {
    pub(super) fn new(alarm: Arc<Alarm>) -> Lookout {
        Lookout { alarm, rests: false, shared: None, watched: [None; FABRIC_SEATS_MAX] }
    }

    /// Whether a death will be learned as soon as it should; false if no thread is available now.
    pub(super) fn is_kept(&mut self) -> bool {
        if !self.rests && self.shared.is_none() {
            self.shared = self.start();
        }
        self.rests || self.shared.is_some()
    }

    /// Watches these lives, and no others, from now on.
    pub(super) fn keep(&mut self, lives: Lives, watches: impl Iterator<Item = Watch>) {
        if let Some(shared) = self.shared.as_ref().filter(|_| lives != self.watched) {
            self.watched = lives;
            *shared.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(watches.collect());
            shared.nudge.nudge();
        }
    }

    /// Rests from now on, or ends the rest: then [`Lookout::keep`] must be called again.
    pub(super) fn rest(&mut self, rests: bool) {
        self.rests = rests;
        if rests {
            self.stop();
        }
    }

    fn start(&self) -> Option<Arc<Shared>> {
        let shared = Arc::new(Shared::default());
        let (ours, alarm) = (Arc::clone(&shared), Arc::clone(&self.alarm));
        let thread = std::thread::Builder::new()
            .name("watch".into())
            .stack_size(64 << 10)
            .spawn(move || watch(&ours, &alarm));
        thread.ok().map(|_| shared)
    }

    fn stop(&mut self) {
        if let Some(shared) = self.shared.take() {
            shared.unwanted.store(true, Relaxed); // the nudge publishes it
            shared.nudge.nudge();
            self.watched = [None; FABRIC_SEATS_MAX];
        }
    }
}

impl Drop for Lookout {
    /// Does not wait for the thread, which ends at once and until then only keeps some mappings.
    fn drop(&mut self) {
        self.stop();
    }
}

fn watch(shared: &Shared, alarm: &Alarm) {
    Pace::of_this_thread().hurry();
    let mut watches = Vec::new();
    loop {
        let counted = shared.nudge.count();
        if shared.unwanted.load(Relaxed) {
            return;
        }
        if let Some(next) = shared.next.lock().unwrap_or_else(PoisonError::into_inner).take() {
            watches = next;
        }
        let mut ended = false;
        for watch in &mut watches {
            ended |= matches!(watch.look(), Seen::Ended(_));
        }
        if ended {
            alarm.raise();
        }
        wait_any(&mut watches, &shared.nudge, counted, LOOK_UP);
    }
}
