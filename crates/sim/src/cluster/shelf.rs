//! The snapshots on a simulated member's disk, and the one that is being written.
//!
//! - F1 two are kept, so that a damaged one is not the only one, as the program keeps them.
//! - F2 one that failed is begun again after a pause, since what was logged before it counts again.
//!   By [`Shelf::pause`].

use base::{Instant, Prefix, Rng};
use core::time::Duration;
use proto::members::StateHead;

/// The pause of F2.
const RETRY: Duration = Duration::from_millis(20);

/// A state on a disk.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) prefix: Prefix,
    pub(super) head: Option<StateHead>,
    pub(super) bytes: Vec<u8>,
}

/// A state on its way there.
#[derive(Debug)]
struct Writing {
    snapshot: Snapshot,
    is_whole: bool,
    is_given_up: bool,
    /// The time at which it is durable, if it is whole.
    until: Instant,
}

/// The snapshots of the module's text.
#[derive(Debug)]
pub(super) struct Shelf {
    /// The newest durable snapshot that is whole.
    pub(super) newest: Option<Snapshot>,
    /// The one before it.
    older: Option<Snapshot>,
    writing: Option<Writing>,
    /// The prefix that the newest one covered, if it is damaged and none was written since that
    /// covers as much.
    lost: Option<Prefix>,
    /// Whether the next one fails.
    pub(super) fails_next: bool,
    retry_at: Option<Instant>,
    /// The bytes of entries after which a snapshot is due.
    log_bytes: u64,
    pub(super) logged_bytes: u64,
    /// The bytes of entries before the snapshot under way.
    covered_bytes: u64,
    /// The time in which a snapshot becomes durable.
    writing_takes: Duration,
    pub(super) n_written: u64,
    pub(super) n_failed: u64,
}

impl Shelf {
    pub(super) fn new(log_bytes: u64, writing_takes: Duration) -> Shelf {
        Shelf {
            newest: None,
            older: None,
            writing: None,
            lost: None,
            fails_next: false,
            retry_at: None,
            log_bytes,
            logged_bytes: 0,
            covered_bytes: 0,
            writing_takes,
            n_written: 0,
            n_failed: 0,
        }
    }

    /// The end of what the newest whole one covers.
    pub(super) fn covered(&self) -> Prefix {
        self.newest.as_ref().map_or(Prefix::ZERO, |one| one.prefix)
    }

    /// Starts a process on it.
    pub(super) fn revive(&mut self) {
        (self.logged_bytes, self.covered_bytes) = (0, 0);
        self.retry_at = None;
    }

    /// Kills its process. True if that leaves a snapshot of which it has not heard.
    pub(super) fn lose_process(&mut self, rng: &mut Rng) -> bool {
        (self.n_written, self.n_failed) = (0, 0);
        let ends = |one: &Writing| one.is_whole && !one.is_given_up;
        let Some(writing) = self.writing.take().filter(ends) else { return false };
        let is_named = !self.fails_next && rng.chance(1, 2);
        if is_named {
            self.put(writing.snapshot);
        }
        is_named
    }

    /// Loses what is being written.
    pub(super) fn lose_writing(&mut self) {
        self.writing = None;
    }

    /// F1
    fn put(&mut self, snapshot: Snapshot) {
        self.lost = self.lost.filter(|lost| snapshot.prefix < *lost);
        self.older = self.newest.replace(snapshot);
    }

    /// Flips a bit of the newest. False if it has none, or that is damaged already.
    pub(super) fn rot(&mut self) -> bool {
        let newest = self.newest.take_if(|_| self.lost.is_none());
        let Some(newest) = newest else { return false };
        self.lost = Some(newest.prefix);
        self.newest = self.older.take();
        true
    }

    /// Whether the newest one is damaged, and what it covered is missing.
    pub(super) fn is_spoiled(&self) -> bool {
        self.lost.is_some()
    }

    // ---- writing ----

    pub(super) fn wants_snapshot(&self) -> bool {
        self.writing.is_none() && self.logged_bytes >= self.log_bytes
    }

    pub(super) fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// How long none is begun, after one that failed (F2).
    pub(super) fn pause(&self, now: Instant) -> Option<Duration> {
        self.retry_at.map(|at| at.since(now))
    }

    /// Begins to write one. False if none is begun now.
    pub(super) fn begin(&mut self, snapshot: Snapshot, now: Instant) -> bool {
        assert!(self.writing.is_none(), "one at a time");
        if self.pause(now).is_some_and(|pause| !pause.is_zero()) {
            return false;
        }
        self.covered_bytes = std::mem::take(&mut self.logged_bytes);
        let until = now.plus(self.writing_takes);
        self.writing = Some(Writing { snapshot, is_whole: false, is_given_up: false, until });
        true
    }

    pub(super) fn wants_piece(&self) -> bool {
        self.writing.as_ref().is_some_and(|writing| !writing.is_whole && !writing.is_given_up)
    }

    pub(super) fn piece(&mut self, bytes: &[u8], is_last: bool) {
        let Some(writing) = &mut self.writing else { return };
        writing.snapshot.bytes.extend_from_slice(bytes);
        writing.is_whole = is_last;
    }

    pub(super) fn give_up(&mut self) {
        if let Some(writing) = &mut self.writing {
            writing.is_given_up = !writing.is_whole;
        }
    }

    /// The prefix of one that has become durable. One for which there is no room fails.
    pub(super) fn ended(&mut self, now: Instant, is_full: bool) -> Option<Prefix> {
        let ends = |one: &mut Writing| one.is_given_up || one.is_whole && one.until <= now;
        let Writing { snapshot, is_given_up, .. } = self.writing.take_if(ends)?;
        let covered_bytes = std::mem::take(&mut self.covered_bytes);
        if is_given_up {
            self.logged_bytes += covered_bytes;
            return None;
        }
        if std::mem::take(&mut self.fails_next) || is_full {
            self.logged_bytes += covered_bytes;
            self.n_failed += 1;
            self.retry_at = Some(now.plus(RETRY));
            return None;
        }
        self.retry_at = None;
        self.n_written += 1;
        let prefix = snapshot.prefix;
        self.put(snapshot);
        Some(prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(prefix: u64) -> Snapshot {
        Snapshot { prefix: Prefix(prefix), head: None, bytes: Vec::new() }
    }

    fn write(shelf: &mut Shelf, prefix: u64, now: Instant) {
        assert!(shelf.begin(of(prefix), now));
        shelf.piece(b"state", true);
    }

    #[test]
    fn f1_a_damaged_one_leaves_the_one_before_it() {
        let mut shelf = Shelf::new(1, Duration::ZERO);
        assert!(!shelf.rot(), "nothing is there");
        for prefix in [3, 5] {
            write(&mut shelf, prefix, Instant(1));
            assert_eq!(shelf.ended(Instant(1), false), Some(Prefix(prefix)));
        }
        assert!(shelf.rot() && !shelf.rot());
        assert_eq!((shelf.covered(), shelf.is_spoiled()), (Prefix(3), true));
        for (prefix, is_spoiled) in [(4, true), (7, false)] {
            write(&mut shelf, prefix, Instant(1));
            assert_eq!(shelf.ended(Instant(1), false), Some(Prefix(prefix)));
            assert_eq!(shelf.is_spoiled(), is_spoiled, "after {prefix}");
        }
    }

    #[test]
    fn f2_one_that_failed_is_begun_again_after_a_pause() {
        let mut shelf = Shelf::new(1, Duration::ZERO);
        shelf.logged_bytes = 5;
        write(&mut shelf, 3, Instant(1));
        assert_eq!((shelf.ended(Instant(1), true), shelf.n_failed), (None, 1));
        assert!(shelf.wants_snapshot());
        assert!(!shelf.begin(of(4), Instant(2)));
        write(&mut shelf, 4, Instant(1).plus(RETRY));
        assert_eq!(shelf.ended(Instant(1).plus(RETRY), false), Some(Prefix(4)));
        assert!(!shelf.wants_snapshot());
    }

    #[test]
    fn one_that_has_its_name_may_outlive_the_process_that_has_not_heard_of_it() {
        let left = |seed| {
            let mut shelf = Shelf::new(1, Duration::from_secs(1));
            write(&mut shelf, 3, Instant(1));
            (shelf.lose_process(&mut Rng::new(seed)), shelf.covered())
        };
        let both: Vec<_> = (0..16).map(left).collect();
        assert!(both.contains(&(true, Prefix(3))) && both.contains(&(false, Prefix::ZERO)));
    }
}
