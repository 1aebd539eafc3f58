//! The view that the copies here have come to, and the waits for what happens in it.
//!
//! - W1 *No news is missed.* News is counted under the view's lock. A wait that looks under that
//!   lock is not between its look and its wait when news comes; one that looks outside of it looks
//!   again if the count has changed. Tested by `w1_news_between_a_look_and_the_wait_is_not_missed`.

use crate::deadline::deadline;
use crate::event::View;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// See the module's text.
#[derive(Debug)]
pub(super) struct Current {
    view: Mutex<View>,
    /// The number of news (W1).
    n_news: AtomicU64,
    news: Condvar,
}

impl Current {
    pub(super) fn new(view: View) -> Current {
        Current { view: Mutex::new(view), n_news: AtomicU64::new(0), news: Condvar::new() }
    }

    pub(super) fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the threads that wait for the view, or for what the process has besides.
    pub(super) fn announce(&self) {
        let view = self.view();
        self.n_news.fetch_add(1, Ordering::SeqCst);
        drop(view);
        self.news.notify_all();
    }

    /// Waits until `holds` of the view, or of what the process has besides; `None` after the
    /// timeout. It looks under the view's lock, so it must not ask for the view itself.
    pub(super) fn wait(
        &self,
        holds: impl Fn(&View) -> bool,
        timeout: Duration,
    ) -> Option<MutexGuard<'_, View>> {
        let waited = self.news.wait_timeout_while(self.view(), timeout, |view| !holds(view));
        let (view, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        (!waited.timed_out()).then_some(view)
    }

    /// The same with a look that may ask for anything.
    pub(super) fn wait_outside(
        &self,
        holds: impl Fn(&View) -> bool,
        timeout: Duration,
    ) -> Option<View> {
        let by = deadline(timeout);
        let mut guard = self.view();
        loop {
            let (view, seen) = (guard.clone(), self.n_news.load(Ordering::SeqCst));
            drop(guard);
            if holds(&view) {
                return Some(view);
            }
            let left = by.saturating_duration_since(Instant::now());
            let is_old = |_: &mut View| self.n_news.load(Ordering::SeqCst) == seen;
            let waited = self.news.wait_timeout_while(self.view(), left, is_old);
            let (next, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            if waited.timed_out() {
                return None;
            }
            guard = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn current() -> Current {
        let (members, joined, left, failed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let shards = Vec::new();
        Current::new(View { number: 7, members, joined, left, failed, tolerates: 0, shards })
    }

    #[test]
    fn a_look_outside_of_the_lock_may_ask_for_the_view() {
        let current = current();
        let is_free = |_: &View| current.view.try_lock().is_ok_and(|view| view.number == 7);
        assert_eq!(current.wait_outside(is_free, PATIENCE).map(|view| view.number), Some(7));
        assert_eq!(current.wait_outside(|view| view.number == 8, Duration::ZERO), None);
    }

    #[test]
    fn w1_news_between_a_look_and_the_wait_is_not_missed() {
        let (current, n_looks) = (current(), Cell::new(0));
        let view = current.wait_outside(
            |view| {
                n_looks.set(n_looks.get() + 1);
                if view.number == 7 {
                    current.view().number = 8;
                    current.announce();
                }
                view.number == 8
            },
            PATIENCE,
        );
        assert_eq!((view.map(|view| view.number), n_looks.get()), (Some(8), 2));
    }
}
