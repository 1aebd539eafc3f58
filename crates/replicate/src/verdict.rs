//! Verdicts: which copies answer alike, by the hashes that their members have proposed (Falcon,
//! paper 003, section 5).
//!
//! - V1 verdicts are a function of the log, so all members come to the same ones. By construction:
//!   a judge is told the executed entries, and nothing else.
//! - V2 a hash is agreed on at a point if a majority of the members that are in has proposed it.
//!   Those that have proposed nothing count among them.
//! - V3 a member whose hash is not the agreed one *differs*: the process that proposed it ends, and
//!   the member's next one executes the transcript again. A later process does not differ by that.
//! - V4 if no hash can be agreed on, the copies are *split* at this point. The processes
//!   that have proposed a hash there are.
//! - V5 the newest [`Output::points_max`] points are kept. One that waits for hashes when it is no
//!   longer among them ends as *late*, or as a split if the hashes that it has differ; a member
//!   whose hash comes after that is compared at the next points again.
//! - V6 the first hash of a member at a point counts: another process of it may come to the same
//!   point again.
//! - V7 all seats are in at first. A member is out from the entry on that says that it was removed
//!   ([`Entry::Left`](crate::entry::Entry::Left)), and in again when a later process of it begins.
//!   What one that is out has proposed counts at no point that waits; what was agreed on stays.
//! - V8 under [`Output::Strict`] a point lies behind each value of the log that has entries of
//!   connections, and no others do: what one value has set going is compared at once. Where a value
//!   ends is the same at all members.
//! - V9 a point lies behind a halt ([`Entry::Halt`](crate::entry::Entry::Halt)), wherever that is.
//! - V10 a process is *in doubt* while another hash than its own is known at a point where none is
//!   agreed on, or its own is missing there and known further on; and from a split on until a later
//!   process begins. It may be the one that has answered wrongly, and answer as the others do now.

use crate::bugs::Bug;
use crate::table::Verdict;
use crate::words;
use base::{Incarnation, MAX_MEMBERS, MemberSet, Rank, majority};
use proto::planted::Planting;
use std::collections::BTreeMap;

/// The points that are kept, of those that lie far from each other (V5).
pub const POINTS_MAX: usize = 64;
/// The same, of those that lie behind each value: a copy may be some hundred milliseconds behind.
pub const STRICT_POINTS_MAX: usize = 4096;

/// When an answer of the own copy leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// At once; the copies are compared later.
    #[default]
    AtOnce,
    /// When a majority's hash that covers it is that of the own copy (`held`).
    Strict,
}

impl Output {
    /// See V5.
    pub const fn points_max(self) -> usize {
        match self {
            Output::AtOnce => POINTS_MAX,
            Output::Strict => STRICT_POINTS_MAX,
        }
    }
}

/// What is known of the hashes at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Not enough of them yet.
    Open,
    /// A majority has proposed this one (V2).
    Agreed(u64),
    /// None can be agreed on (V4).
    Split,
    /// Nothing any longer (V5).
    Forgotten,
}

/// What the hashes of a member's process have shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The process.
    pub run: Incarnation,
    /// The point.
    pub at: u64,
}

/// The numbers of points by their verdicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All members have the same hash.
    pub matched: u64,
    /// A minority differs.
    pub differed: u64,
    /// No hash has a majority.
    pub split: u64,
    /// Not all members had proposed their hash in time; a majority may have agreed.
    pub late: u64,
}

/// The newest point with an agreed hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreed {
    /// The point; 0 before the first.
    pub at: u64,
    /// The members that have proposed the agreed hash.
    pub members: MemberSet,
}

/// A point that waits for hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Point {
    hashes: [Option<(Incarnation, u64)>; MAX_MEMBERS],
    agreed: Option<u64>,
    /// Its verdict was counted: no hash is waited for.
    is_over: bool,
}

impl Point {
    /// Whether two hashes were proposed, and none is agreed on.
    fn is_disputed(&self) -> bool {
        let mut values = self.hashes.iter().flatten().map(|(_, value)| value);
        let first = values.next();
        self.agreed.is_none() && values.any(|value| Some(value) != first)
    }
}

/// The judge of the module's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judge<B> {
    planted: B,
    /// The members that are in (V7).
    members: MemberSet,
    output: Output,
    /// The entries from one point to the next; 0 for no points.
    every: u64,
    /// The number of entries of connections that were executed.
    position: u64,
    points: BTreeMap<u64, Point>,
    agreed: Agreed,
    differing: [Option<Mark>; MAX_MEMBERS],
    split: [Option<Mark>; MAX_MEMBERS],
    split_at: u64,
    counts: Counts,
}

impl<B: Planting<Bug>> Judge<B> {
    /// A judge of `members` seats, which has been told nothing.
    pub fn new(members: usize, every: u64, planted: B) -> Judge<B> {
        Judge {
            planted,
            members: MemberSet::all(members),
            output: Output::AtOnce,
            every,
            position: 0,
            points: BTreeMap::new(),
            agreed: Agreed::default(),
            differing: [None; MAX_MEMBERS],
            split: [None; MAX_MEMBERS],
            split_at: 0,
            counts: Counts::default(),
        }
    }

    /// The same, with points where answers that leave so take them (V8).
    pub fn of(self, output: Output) -> Judge<B> {
        assert!(output == Output::AtOnce || self.every > 0, "V8: answers wait for comparisons");
        Judge { output, ..self }
    }

    /// The number of entries of connections that were executed.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The entries from one point to the next; 0 for no points.
    pub fn every(&self) -> u64 {
        self.every
    }

    /// The position, up to the newest of every so many entries.
    pub fn marked(&self) -> u64 {
        self.position - self.position.checked_rem(self.every).unwrap_or(0)
    }

    /// The members that are in (V7).
    pub fn members(&self) -> MemberSet {
        self.members
    }

    /// The verdicts so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The newest point with an agreed hash.
    pub fn agreed(&self) -> Agreed {
        self.agreed
    }

    /// Whether this process has proposed the agreed hash at this point.
    pub(crate) fn has_agreed(&self, member: Rank, run: Incarnation, at: u64) -> bool {
        let agrees = |point: &Point| {
            point.agreed.is_some_and(|value| point.hashes[member.index()] == Some((run, value)))
        };
        self.points.get(&at).is_some_and(agrees)
    }

    /// The next point behind this one, as far as points are kept.
    pub(crate) fn point_behind(&self, at: u64) -> Option<u64> {
        self.points.range(at + 1..).next().map(|(at, _)| *at)
    }

    /// The newest point at which the copies were split; 0 if there was none.
    pub fn split_at(&self) -> u64 {
        self.split_at
    }

    /// The point at which this process differs (V3).
    pub fn differs(&self, member: Rank, run: Incarnation) -> Option<u64> {
        mark_of(&self.differing, member, run)
    }

    /// The point at which this process was one of copies without a majority (V4).
    pub fn is_split(&self, member: Rank, run: Incarnation) -> Option<u64> {
        mark_of(&self.split, member, run)
    }

    /// Whether this process is in doubt (V10).
    pub(crate) fn is_in_doubt(&self, member: Rank, run: Incarnation) -> bool {
        let (mut has_said, mut has_gap) = (false, false);
        let differs = |point: &Point| match point.hashes[member.index()] {
            Some((by, _)) if by == run => {
                has_said = true;
                has_gap || point.is_disputed()
            }
            Some(_) => false,
            None => {
                has_gap |= has_said && !point.is_over;
                false
            }
        };
        self.is_split(member, run).is_some() || self.points.values().any(differs)
    }

    /// Whether the hash of `member` at this point is waited for.
    pub fn is_wanted(&self, member: Rank, at: u64) -> bool {
        let waits = |point: &Point| !point.is_over && point.hashes[member.index()].is_none();
        self.points.get(&at).is_some_and(waits)
    }

    /// What is known of the hashes at a point that was executed.
    pub fn outcome(&self, at: u64) -> Outcome {
        match self.points.get(&at) {
            None => Outcome::Forgotten,
            Some(Point { agreed: Some(value), .. }) => Outcome::Agreed(*value),
            Some(Point { is_over: true, .. }) => Outcome::Split,
            Some(_) => Outcome::Open,
        }
    }

    /// The entries by which a majority's copies may be behind before clients wait (`pace`): half of
    /// what is kept, at the most. 0 if nothing is compared.
    pub fn ahead_max(&self) -> u64 {
        let n_points = self.output.points_max() as u64 / 2;
        match self.output {
            Output::AtOnce => self.every * n_points,
            Output::Strict => n_points,
        }
    }

    /// Another entry of a connection was executed. Returns whether a point lies behind it.
    pub fn step(&mut self) -> bool {
        self.position += 1;
        let is_far = self.every > 0 && self.position.is_multiple_of(self.every);
        let is_point = self.output == Output::AtOnce && is_far;
        if is_point {
            self.begin_point();
        }
        is_point
    }

    /// A halt was executed (V9).
    pub fn halt(&mut self) {
        self.position += 1;
        self.begin_point();
    }

    /// A value of the log was executed. Returns whether a point lies behind it (V8).
    pub fn end_value(&mut self) -> bool {
        let newest = self.points.last_key_value().map_or(0, |(at, _)| *at);
        let is_point = self.output == Output::Strict && self.position > newest;
        if is_point {
            self.begin_point();
        }
        is_point
    }

    fn begin_point(&mut self) {
        if self.points.len() == self.output.points_max()
            && let Some((at, oldest)) = self.points.pop_first().filter(|(_, point)| !point.is_over)
        {
            // V5
            if oldest.is_disputed() {
                self.split(at, &oldest);
            } else {
                self.counts.late += 1;
            }
        }
        self.points.insert(self.position, Point::default());
    }

    /// A later process of `member` has begun (V3).
    pub fn begun(&mut self, member: Rank) {
        self.differing[member.index()] = None;
        self.split[member.index()] = None;
        self.members.insert(member);
    }

    /// `member` was removed (V7).
    pub fn left(&mut self, member: Rank) {
        if self.planted.has(Bug::LeftCounts) {
            return;
        }
        self.members.remove(member);
        self.agreed.members.remove(member);
        for (at, mut point) in std::mem::take(&mut self.points) {
            if point.is_over {
                self.points.insert(at, point);
                continue;
            }
            point.hashes[member.index()] = None;
            self.look(at, point);
        }
    }

    /// Executes a member's hash.
    pub fn take(&mut self, member: Rank, run: Incarnation, at: u64, value: u64) -> Verdict {
        if !self.is_wanted(member, at) || !self.members.contains(member) {
            return Verdict::Over; // V5, V6, V7
        }
        let mut point = self.points.remove(&at).expect("it is wanted");
        point.hashes[member.index()] = Some((run, value));
        self.look(at, point);
        Verdict::Execute
    }

    /// Judges a point. It waits on if hashes are missing that matter.
    fn look(&mut self, at: u64, mut point: Point) {
        self.judge(at, &mut point);
        let n_missing = self.n_missing(&point);
        let is_split = point.agreed.is_none() && !self.can_agree(&point);
        point.is_over = is_split || n_missing == 0;
        if is_split {
            self.split(at, &point);
        } else if n_missing == 0 {
            let all = point.hashes.iter().flatten().all(|(_, one)| Some(*one) == point.agreed);
            let count = if all { &mut self.counts.matched } else { &mut self.counts.differed };
            *count += 1;
        }
        self.points.insert(at, point);
    }

    /// The number of members that are enough (V2).
    fn enough(&self) -> usize {
        if self.planted.has(Bug::TwoAreEnough) { 2 } else { majority(self.members.len()) }
    }

    fn n_missing(&self, point: &Point) -> usize {
        self.members.len() - point.hashes.iter().flatten().count()
    }

    fn n_alike(point: &Point, value: u64) -> usize {
        point.hashes.iter().flatten().filter(|(_, one)| *one == value).count()
    }

    fn can_agree(&self, point: &Point) -> bool {
        let values = point.hashes.iter().flatten().map(|(_, value)| *value);
        let most = values.map(|value| Self::n_alike(point, value)).max().unwrap_or(0);
        most + self.n_missing(point) >= self.enough()
    }

    /// V2, V3.
    fn judge(&mut self, at: u64, point: &mut Point) {
        if point.agreed.is_none() {
            let values = point.hashes.iter().flatten().map(|(_, value)| *value);
            point.agreed =
                values.into_iter().find(|value| Self::n_alike(point, *value) >= self.enough());
        }
        let Some(agreed) = point.agreed else { return };
        let mut members = MemberSet::EMPTY;
        for rank in self.members.iter() {
            match point.hashes[rank.index()] {
                Some((_, value)) if value == agreed => {
                    members.insert(rank);
                }
                Some((run, _)) => mark(&mut self.differing[rank.index()], Mark { run, at }),
                None => {}
            }
        }
        if at >= self.agreed.at {
            self.agreed = Agreed { at, members };
        }
    }

    /// V4.
    fn split(&mut self, at: u64, point: &Point) {
        self.counts.split += 1;
        self.split_at = self.split_at.max(at);
        for rank in self.members.iter() {
            if let Some((run, _)) = point.hashes[rank.index()] {
                mark(&mut self.split[rank.index()], Mark { run, at });
            }
        }
    }

    /// Appends what it knows.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let Counts { matched, differed, split, late } = self.counts;
        words::put(out, &[self.position, matched, differed, split, late, self.split_at]);
        words::put(out, &[self.agreed.at, u64::from(self.agreed.members.bits())]);
        words::put(out, &[u64::from(self.members.bits())]);
        for mark in self.differing.iter().chain(&self.split) {
            let mark = mark.unwrap_or(Mark { run: Incarnation(0), at: 0 });
            words::put(out, &[mark.run.0, mark.at]);
        }
        words::put(out, &[self.points.len() as u64]);
        for (at, point) in &self.points {
            let (is_agreed, agreed) = (point.agreed.is_some(), point.agreed.unwrap_or(0));
            let known = u64::from(is_agreed) | u64::from(point.is_over) << 1;
            words::put(out, &[*at, known, agreed]);
            for hash in point.hashes {
                let (run, value) = hash.unwrap_or((Incarnation(0), 0));
                words::put(out, &[u64::from(hash.is_some()), run.0, value]);
            }
        }
    }

    /// Reads that back, into one without knowledge.
    pub(crate) fn read(&mut self, rest: &mut &[u8]) -> Option<()> {
        let [position, matched, differed, split, late, split_at] = words::take_all(rest)?;
        (self.position, self.split_at) = (position, split_at);
        self.counts = Counts { matched, differed, split, late };
        let [at, bits] = words::take_all(rest)?;
        self.agreed = Agreed { at, members: MemberSet::from_bits(u8::try_from(bits).ok()?) };
        self.members = MemberSet::from_bits(u8::try_from(words::take(rest)?).ok()?);
        for mark in self.differing.iter_mut().chain(&mut self.split) {
            let [run, at] = words::take_all(rest)?;
            *mark = (at > 0).then_some(Mark { run: Incarnation(run), at });
        }
        for _ in 0..words::take(rest)? {
            let [at, known, agreed] = words::take_all(rest)?;
            let mut point = Point { is_over: known & 2 > 0, ..Point::default() };
            point.agreed = (known & 1 > 0).then_some(agreed);
            for hash in &mut point.hashes {
                let [is_there, run, value] = words::take_all(rest)?;
                *hash = (is_there > 0).then_some((Incarnation(run), value));
            }
            self.points.insert(at, point);
        }
        Some(())
    }
}

/// Sets a mark; the first one of the latest process stays.
fn mark(slot: &mut Option<Mark>, mark: Mark) {
    if slot.is_none_or(|there| there.run < mark.run) {
        *slot = Some(mark);
    }
}

fn mark_of(marks: &[Option<Mark>], member: Rank, run: Incarnation) -> Option<u64> {
    marks[member.index()].filter(|mark| mark.run == run).map(|mark| mark.at)
}

#[cfg(test)]
mod tests;
