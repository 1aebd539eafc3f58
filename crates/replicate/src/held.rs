//! Held answers: what the own copy has sent waits here until a majority's copies are known to have
//! sent the same (`--program-output strict`; Falcon, paper 003, section 5, sends it before that).
//!
//! At each point (`verdict`, V8) the own copy takes the hash of all that it has sent since the
//! point before. What it has sent to own clients up to there, and the ends of connections by the
//! program, are one *interval*.
//!
//! - O1 the answers of an interval leave when the hash that is agreed on at its point is the one
//!   that the own copy has taken there. Both are said of the same connections, bytes and ends.
//! - O2 of one connection bytes leave in their order, and its end behind them: intervals leave in
//!   the order of their points, each up to a place of the connection's bytes.
//! - O3 an interval never leaves if another hash is agreed on, if none can be, if its point is
//!   forgotten, or if none is agreed on within [`HELD_WITHIN`] after the own copy has come to it.
//!   Then each client that it is for is closed, its connection is aborted, and the fate of what it
//!   has asked for is unknown to it. What is held from that client, and what its program sends
//!   later, is dropped at once: its connection may have to wait for room in the desk.
//! - O4 a client is not read while [`HELD_BYTES_MAX`] bytes or more are held from it, nor is any
//!   while [`ALL_HELD_BYTES_MAX`] are held from all. One is closed for which more waits than
//!   for any client may (`clients`, C2).
//! - O6 what was sent without an entry (a time that the program waited for has come) is given a
//!   point: when it has waited for one for [`COMPARED_AFTER`], and the copy was fed all that was
//!   executed, the member says an entry that does nothing else
//!   ([`Entry::Compare`](crate::entry::Entry)). The other copies have that long to send the same.
//! - O5 what a copy says of its own (`hash`, H3) is not compared, and leaves with its interval: it
//!   is a part of that as all else is, and no part of the hash.

use crate::bugs::Bug;
use crate::hash::Taken;
use crate::verdict::{Judge, Outcome, Output};
use base::Instant;
use core::time::Duration;
use proto::planted::Planting;
use std::collections::{BTreeMap, VecDeque};

/// See O3.
pub const HELD_WITHIN: Duration = Duration::from_secs(5);
/// See O6.
pub const COMPARED_AFTER: Duration = Duration::from_millis(500);
/// See O4.
pub const HELD_BYTES_MAX: usize = 1 << 20;
/// See O4.
pub const ALL_HELD_BYTES_MAX: u64 = 64 << 20;

/// The answers of an interval to one client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// The bytes of the connection up to their end.
    pub(crate) end: u64,
    /// The program has ended the connection behind them.
    pub(crate) is_last: bool,
}

/// What becomes of the answers of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// They leave (O1).
    Leaves,
    /// They never do (O3).
    Refused,
}

/// An interval whose hash was taken.
#[derive(Debug)]
struct Interval {
    taken: Taken,
    /// The time at which the own copy came to its point.
    since: Instant,
    /// By the numbers of the clients.
    parts: BTreeMap<u64, Part>,
}

/// The figures of held answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldFigures {
    /// The bytes that are held now.
    pub bytes: u64,
    /// The intervals with answers of own clients that have left.
    pub left: u64,
    /// Those that never will.
    pub refused: u64,
}

/// The held answers of the module's text.
#[derive(Debug)]
pub(crate) struct Held<B> {
    planted: B,
    output: Output,
    /// What was sent since the last point.
    fresh: BTreeMap<u64, Part>,
    /// The time since when some of that waits for a point.
    fresh_since: Option<Instant>,
    waiting: VecDeque<Interval>,
    figures: HeldFigures,
}

impl<B: Planting<Bug>> Held<B> {
    /// None yet.
    pub(crate) fn new(output: Output, planted: B) -> Held<B> {
        let figures = HeldFigures::default();
        let (fresh, waiting) = (BTreeMap::new(), VecDeque::new());
        Held { planted, output, fresh, fresh_since: None, waiting, figures }
    }

    /// Whether answers are held.
    pub(crate) fn is_on(&self) -> bool {
        self.output == Output::Strict
    }

    /// The figures.
    pub(crate) fn figures(&self) -> HeldFigures {
        self.figures
    }

    /// Whether so much is held that no client is read (O4).
    pub(crate) fn is_full(&self) -> bool {
        self.figures.bytes >= ALL_HELD_BYTES_MAX && !self.planted.has(Bug::HeldUnbounded)
    }

    /// The bytes that are held from one client that is not read (O4).
    pub(crate) fn bytes_max(&self) -> usize {
        if self.planted.has(Bug::HeldUnbounded) { usize::MAX } else { HELD_BYTES_MAX }
    }

    /// The program has sent `n_bytes` to a client, up to `end` of its bytes.
    pub(crate) fn push(&mut self, number: u64, n_bytes: usize, end: u64) {
        self.figures.bytes += n_bytes as u64;
        self.fresh.entry(number).or_default().end = end;
    }

    /// The program has ended the connection, behind `end` of its bytes.
    pub(crate) fn end(&mut self, number: u64, end: u64) {
        self.fresh.insert(number, Part { end, is_last: true });
    }

    /// So many bytes are held no longer: they have left, or their client has.
    pub(crate) fn forget(&mut self, n_bytes: u64) {
        self.figures.bytes -= n_bytes;
    }

    /// The copy is at a point, and has taken this hash of what it has sent before.
    pub(crate) fn pass_point(&mut self, taken: Taken, now: Instant) {
        let parts = std::mem::take(&mut self.fresh);
        self.fresh_since = None;
        if !parts.is_empty() {
            // (O5: what the hash leaves out is among them.)
            self.waiting.push_back(Interval { taken, since: now, parts });
        }
    }

    /// The answers whose fate is known now, in the order of their intervals, and not those of one
    /// that comes later.
    pub(crate) fn next(
        &mut self,
        judge: &Judge<B>,
        now: Instant,
    ) -> Option<(Fate, BTreeMap<u64, Part>)> {
        let first = self.waiting.front()?;
        let is_late = now >= first.since.plus(HELD_WITHIN);
        let outcome = judge.outcome(first.taken.at);
        let fate = match outcome {
            _ if self.planted.has(Bug::AnswerBeforeVerdict) => Fate::Leaves,
            Outcome::Agreed(value) if value == first.taken.value => Fate::Leaves, // O1
            Outcome::Agreed(_) if self.planted.has(Bug::AnyHashReleases) => Fate::Leaves,
            Outcome::Split if self.planted.has(Bug::SplitReleases) => Fate::Leaves,
            Outcome::Agreed(_) | Outcome::Split | Outcome::Forgotten => Fate::Refused,
            Outcome::Open if is_late && !self.planted.has(Bug::HeldForEver) => Fate::Refused,
            Outcome::Open => return None,
        };
        match fate {
            Fate::Leaves => self.figures.left += 1,
            Fate::Refused => self.figures.refused += 1,
        }
        self.waiting.pop_front().map(|interval| (fate, interval.parts))
    }

    /// Notes the time, for what was sent since the last point.
    pub(crate) fn look(&mut self, now: Instant) {
        if !self.fresh.is_empty() {
            self.fresh_since.get_or_insert(now);
        }
    }

    fn compares_at(&self) -> Option<Instant> {
        let at = self.fresh_since?.plus(COMPARED_AFTER);
        (self.is_on() && !self.planted.has(Bug::LateUncompared)).then_some(at)
    }

    /// Whether what was sent since the last point is to be compared, if no entry comes (O6).
    pub(crate) fn wants_point(&self, now: Instant) -> bool {
        self.compares_at().is_some_and(|at| now >= at)
    }

    /// The time at which the oldest interval is refused, or a point is wanted: what is not wanted
    /// yet.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        let refused = self.waiting.front().map(|first| first.since.plus(HELD_WITHIN));
        let compared = self.compares_at().filter(|at| *at > now);
        refused.into_iter().chain(compared).min()
    }
}
