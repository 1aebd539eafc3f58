//! Spare followers: those without whose disks there is still a majority.
//!
//! A majority of three is the leader's disk and one more. The third member's loop, thread and sync
//! would only delay the others where they share processors and disks, so it is not woken for each
//! entry. On shared memory it is written to and continues to sleep. Where posting wakes a peer
//! (`peer_works`) the leader holds back what it would post: entries for spare followers, and, for
//! all followers, commit points that no entry carries. (A client that proposed through a follower
//! hears from the leader, so no client waits for the follower to apply.)
//!
//! - I14 Nothing is held back for longer than [`HELD_MAX`], nor more than an eighth of a ring or
//!   [`HELD_WORDS_MAX`]; nothing at all is held back once something has been undecided for
//!   [`LATE_AFTER`], since the follower that was relied on may be gone, nor when a client waits for
//!   every disk, nor at the beginning of a term, nor in a change of members. Simulated
//!   (`HOLD_BACK`), tested (`i14_what_is_held_back_is_sent_when`).
//!
//! Safety does not depend on this: a member does not acknowledge what it was not sent.

use super::leader::Term;
use super::*;
use base::majority;

/// The time that something may be undecided before the spare followers are used too: several times
/// the duration of a disk's sync.
const LATE_AFTER: Duration = Duration::from_millis(1);
/// The longest time until all followers are asked to help again: each time without a decision
/// doubles it, since the disks of both may be full for hours.
const LATE_AFTER_MAX: Duration = Duration::from_millis(800);
/// The longest time for which something is held back.
const HELD_MAX: Duration = Duration::from_millis(5);
/// The most words of records that are held back.
const HELD_WORDS_MAX: u64 = 8192;

/// The rules and counts of what a leader holds back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Restraint {
    /// The time since when something has been undecided, and nothing decided.
    undecided_since: Option<Instant>,
    /// The time after that at which it is late.
    late_after: Duration,
    /// The prefix below which spare followers are sent everything.
    released: Prefix,
    /// The commit point below which followers are told without an entry.
    released_commit: Prefix,
    /// The time since when something has been held back.
    held_since: Option<Instant>,
    /// The words of records that were appended since the last release.
    n_words: u64,
}

impl Restraint {
    /// A restraint that holds nothing back below `released`.
    pub(super) fn new(released: Prefix) -> Restraint {
        Restraint {
            undecided_since: None,
            late_after: LATE_AFTER,
            released,
            released_commit: Prefix::ZERO,
            held_since: None,
            n_words: 0,
        }
    }

    pub(super) fn on_progress(&mut self, now: Instant) {
        self.undecided_since = Some(now);
        self.late_after = LATE_AFTER;
    }

    pub(super) fn hold(&mut self, now: Instant) {
        self.held_since.get_or_insert(now);
    }

    pub(super) fn holds_commit(&self, told: Prefix) -> bool {
        told >= self.released_commit
    }

    fn release(&mut self, end: Prefix, committed: Prefix) {
        (self.released, self.released_commit) = (end, committed);
        (self.held_since, self.n_words) = (None, 0);
    }

    /// Whether something has been undecided for long; the next answer of yes takes twice as long.
    fn is_late(&mut self, now: Instant, is_undecided: bool) -> bool {
        if !is_undecided {
            self.undecided_since = None;
            self.late_after = LATE_AFTER;
            return false;
        }
        let due = self.undecided_since.is_none_or(|since| since.plus(self.late_after) <= now);
        let is_late = due && self.undecided_since.replace(now).is_some();
        if is_late {
            self.late_after = (self.late_after * 2).min(LATE_AFTER_MAX);
        }
        is_late
    }

    /// Whether something was late, and nothing has been decided since.
    fn was_late(&self) -> bool {
        self.late_after > LATE_AFTER
    }

    fn is_overdue(&self, now: Instant) -> bool {
        self.held_since.is_some_and(|since| since.plus(HELD_MAX) <= now)
    }
}

impl Term {
    /// Whether this leader and those that acknowledged most make a majority of the voters without
    /// `rank`; among equals the first ones are taken.
    pub(super) fn is_spare(&self, me: Rank, rank: Rank, voters: MemberSet) -> bool {
        let rate = |of: Rank| (self.durable_at(of), core::cmp::Reverse(of));
        let ahead = voters.iter().filter(|other| *other != me && rate(*other) > rate(rank));
        voters.contains(rank) && voters.contains(me) && ahead.count() + 1 >= majority(voters.len())
    }
}

impl<P: Planting<Bug>> Durable<P> {
    /// The prefix up to which `rank` is sent the log now.
    pub(super) fn sent_to(&self, term: &Term, rank: Rank) -> Prefix {
        let voters = self.log.members().map_or(MemberSet::EMPTY, |(_, members)| members.voters);
        let holds_late = self.planted.has(Bug::HoldBack);
        let holds = self.limits.peer_works && (holds_late || !term.restraint.was_late());
        let is_held = holds && term.is_spare(self.me, rank, voters);
        if is_held { self.log.end().min(term.restraint.released) } else { self.log.end() }
    }

    /// Counts an appended entry, whose record has `n_words` words.
    pub(super) fn count_appended(&mut self, n_words: u64) {
        let most = HELD_WORDS_MAX.min(self.places.ring_words() / 8);
        let Office::Leader(term) = &mut self.office else { return };
        term.restraint.n_words += n_words;
        if term.restraint.n_words > most {
            self.release();
        }
    }

    /// Releases everything that exists now.
    pub(super) fn release(&mut self) {
        let (end, committed) = (self.log.end(), self.progress.committed);
        let Office::Leader(term) = &mut self.office else { return };
        let end = if self.planted.has(Bug::HoldBack) { term.restraint.released } else { end };
        term.restraint.release(end, committed);
    }

    /// Releases what is below `prefix`, since a client waits until every disk holds it.
    pub(super) fn release_below<H: Host>(&mut self, prefix: Prefix, host: &mut H) {
        if let Office::Leader(term) = &self.office
            && term.restraint.released < prefix
        {
            self.release();
            self.feed_all(host);
        }
    }

    /// The time at which everything held back is sent.
    pub(super) fn released_at(&self) -> Option<Instant> {
        let Office::Leader(term) = &self.office else { return None };
        let late_at =
            term.restraint.undecided_since.map(|since| since.plus(term.restraint.late_after));
        let overdue_at = term.restraint.held_since.map(|since| since.plus(HELD_MAX));
        late_at.into_iter().chain(overdue_at).min()
    }

    /// Ends every turn. T9 is the fabric's; that a sleeper looks at its ring is this module's.
    pub(super) fn wake<H: Host>(&mut self, host: &mut H) {
        self.mind_spares(host);
        if !self.limits.peer_works {
            let to_wake = core::mem::take(&mut self.to_wake);
            to_wake.iter().for_each(|rank| host.wake(rank));
        }
    }

    /// Sends what was held back for long, and wakes all members behind if something is undecided
    /// for long.
    fn mind_spares<H: Host>(&mut self, host: &mut H) {
        let end = self.log.end();
        let (now, is_undecided) = (self.now, self.progress.committed < end);
        let Office::Leader(term) = &mut self.office else { return };
        let is_late = term.restraint.is_late(now, is_undecided);
        if is_late {
            let is_behind = |rank: &Rank| term.durable_at(*rank) < end;
            self.to_wake = self.to_wake.union(term.peers.iter().filter(is_behind).collect());
        }
        if is_late || term.restraint.is_overdue(now) {
            self.release();
            self.feed_all(host);
        }
    }
}
