//! Who is not needed: the followers without whose disks a majority can be had.
//!
//! A majority of three is the leader's disk and one more. The third member's loop, thread and sync
//! would only hold up the others where they share processors and disks, so nobody wakes it for
//! each entry. On shared memory it is written to and sleeps on. Where posting wakes a peer
//! (`peer_works`) the leader holds back what it would post: entries for those that are not needed,
//! and commit points that have no entry to ride on for everybody. (Whoever proposed through a
//! follower hears from the leader, so nobody waits for the follower to apply.)
//!
//! - I14 Nothing is held back for longer than [`HELD_MAX`], nor more than an eighth of a ring or
//!   [`HELD_WORDS_MAX`]; nothing at all is once something has been undecided for [`LATE_AFTER`],
//!   since whoever was relied on may be gone, nor when somebody waits for every disk, nor at the
//!   beginning of a term, nor in a change of members. Simulated (`HOLD_BACK`), tested
//!   (`i14_what_is_held_back_is_sent_when`).
//!
//! Safety rests on none of this: what a member was not sent it does not acknowledge.

use super::leader::Term;
use super::*;
use base::majority;

/// How long something may be undecided before all who could help are asked, needed or not: several
/// times what a disk takes to sync.
const LATE_AFTER: Duration = Duration::from_millis(1);
/// How long at most something is held back.
const HELD_MAX: Duration = Duration::from_millis(5);
/// How many words of records at most are held back.
const HELD_WORDS_MAX: u64 = 8192;

/// What a leader holds back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Restraint {
    /// Something has been undecided since then, and nothing decided.
    undecided_since: Option<Instant>,
    /// Whoever is not needed is sent what is below.
    released: Prefix,
    /// Commit points below this are told though no entry carries them.
    released_commit: Prefix,
    /// Something has been held back since then.
    held_since: Option<Instant>,
    /// Words of records that were appended since the last release.
    n_words: u64,
}

impl Restraint {
    /// Holds nothing back below `released`.
    pub(super) fn new(released: Prefix) -> Restraint {
        Restraint {
            undecided_since: None,
            released,
            released_commit: Prefix::ZERO,
            held_since: None,
            n_words: 0,
        }
    }

    pub(super) fn on_progress(&mut self, now: Instant) {
        self.undecided_since = Some(now);
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

    /// Whether something is undecided for long; asked again it takes as long once more.
    fn is_late(&mut self, now: Instant, is_undecided: bool) -> bool {
        if !is_undecided {
            self.undecided_since = None;
            return false;
        }
        let due = self.undecided_since.is_none_or(|since| since.plus(LATE_AFTER) <= now);
        due && self.undecided_since.replace(now).is_some()
    }

    fn is_overdue(&self, now: Instant) -> bool {
        self.held_since.is_some_and(|since| since.plus(HELD_MAX) <= now)
    }
}

impl Term {
    /// Whether a majority of the voters can be had without `rank`, from this leader and those that
    /// acknowledged most, of whom the first are taken if some are equal.
    pub(super) fn is_spare(&self, me: Rank, rank: Rank, voters: MemberSet) -> bool {
        let rate = |of: Rank| (self.durable_at(of), core::cmp::Reverse(of));
        let ahead = voters.iter().filter(|other| *other != me && rate(*other) > rate(rank));
        voters.contains(rank) && voters.contains(me) && ahead.count() + 1 >= majority(voters.len())
    }
}

impl<P: Planting<Bug>> Durable<P> {
    /// Up to where `rank` is sent the log now.
    pub(super) fn sent_to(&self, term: &Term, rank: Rank) -> Prefix {
        let voters = self.log.members().map_or(MemberSet::EMPTY, |(_, members)| members.voters);
        let is_held = self.peer_works && term.is_spare(self.me, rank, voters);
        if is_held { self.log.end().min(term.restraint.released) } else { self.log.end() }
    }

    /// An entry whose record has so many words was appended.
    pub(super) fn count_appended(&mut self, n_words: u64) {
        let most = HELD_WORDS_MAX.min(self.places.ring_words() / 8);
        let Office::Leader(term) = &mut self.office else { return };
        term.restraint.n_words += n_words;
        if term.restraint.n_words > most {
            self.release();
        }
    }

    /// Holds nothing back of what there is now.
    pub(super) fn release(&mut self) {
        let (end, committed) = (self.log.end(), self.committed);
        let Office::Leader(term) = &mut self.office else { return };
        let end = if self.planted.has(Bug::HoldBack) { term.restraint.released } else { end };
        term.restraint.release(end, committed);
    }

    /// Somebody waits until every disk holds what is below `prefix`.
    pub(super) fn release_below<H: Host>(&mut self, prefix: Prefix, host: &mut H) {
        if let Office::Leader(term) = &self.office
            && term.restraint.released < prefix
        {
            self.release();
            self.feed_all(host);
        }
    }

    /// When what is held back is sent all the same.
    pub(super) fn released_at(&self) -> Option<Instant> {
        let Office::Leader(term) = &self.office else { return None };
        let late_at = term.restraint.undecided_since.map(|since| since.plus(LATE_AFTER));
        let overdue_at = term.restraint.held_since.map(|since| since.plus(HELD_MAX));
        late_at.into_iter().chain(overdue_at).min()
    }

    /// What ends every turn. T9 is the fabric's; that a sleeper looks at its ring is ours.
    pub(super) fn wake<H: Host>(&mut self, host: &mut H) {
        self.mind_spares(host);
        if !self.peer_works {
            let to_wake = core::mem::take(&mut self.to_wake);
            to_wake.iter().for_each(|rank| host.wake(rank));
        }
    }

    /// Sends what was held back for long, and asks everybody for what is undecided for long.
    fn mind_spares<H: Host>(&mut self, host: &mut H) {
        let end = self.log.end();
        let (now, is_undecided) = (self.now, self.committed < end);
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
