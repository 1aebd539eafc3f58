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
//! - V5 at most [`POINTS_MAX`] points wait for hashes. The oldest one ends as *late*; a member
//!   whose hash comes after that is compared at the next points again.
//! - V6 the first hash of a member at a point counts: another process of it may come to the same
//!   point again.
//! - V7 all seats are in at first. A member is out from the entry on that says that it was removed
//!   ([`Entry::Left`](crate::entry::Entry::Left)), and in again when a later process of it begins.
//!   What one that is out has proposed counts at no point that waits; what was agreed on stays.

use crate::bugs::Bug;
use crate::table::Verdict;
use crate::words;
use base::{Incarnation, MAX_MEMBERS, MemberSet, Rank, majority};
use proto::planted::Planting;
use std::collections::BTreeMap;

/// See V5.
pub const POINTS_MAX: usize = 64;

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
}

/// The judge of the module's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judge<B> {
    planted: B,
    /// The members that are in (V7).
    members: MemberSet,
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

    /// The number of entries of connections that were executed.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The entries from one point to the next; 0 for no points.
    pub fn every(&self) -> u64 {
        self.every
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

    /// Whether the hash of `member` at this point is waited for.
    pub fn is_wanted(&self, member: Rank, at: u64) -> bool {
        self.points.get(&at).is_some_and(|point| point.hashes[member.index()].is_none())
    }

    /// Another entry of a connection was executed. Returns whether a point lies behind it.
    pub fn step(&mut self) -> bool {
        self.position += 1;
        let is_point = self.every > 0 && self.position.is_multiple_of(self.every);
        if is_point {
            if self.points.len() == POINTS_MAX {
                self.points.pop_first();
                self.counts.late += 1; // V5
            }
            self.points.insert(self.position, Point::default());
        }
        is_point
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
        if is_split {
            self.split(at, &point);
        } else if n_missing > 0 {
            self.points.insert(at, point);
        } else {
            let all = point.hashes.iter().flatten().all(|(_, one)| Some(*one) == point.agreed);
            let count = if all { &mut self.counts.matched } else { &mut self.counts.differed };
            *count += 1;
        }
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
            words::put(out, &[*at, u64::from(is_agreed), agreed]);
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
            let [at, is_agreed, agreed] = words::take_all(rest)?;
            let mut point = Point { agreed: (is_agreed > 0).then_some(agreed), ..Point::default() };
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
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proto::planted::{Planted, Sound};

    const RUN: Incarnation = Incarnation(1);

    fn judge<B: Planting<Bug>>(members: usize, planted: B) -> Judge<B> {
        let mut judge = Judge::new(members, 10, planted);
        assert_eq!((0..10).filter(|_| judge.step()).count(), 1);
        judge
    }

    fn told<B: Planting<Bug>>(members: usize, planted: B, hashes: &[(usize, u64)]) -> Judge<B> {
        let mut judge = judge(members, planted);
        for (member, value) in hashes {
            let verdict = judge.take(Rank::at(*member), RUN, 10, *value);
            assert_eq!(verdict, Verdict::Execute, "member {member}");
        }
        judge
    }

    fn differing<B: Planting<Bug>>(judge: &Judge<B>) -> Vec<usize> {
        let differs = |rank: &Rank| judge.differs(*rank, RUN).is_some();
        judge.members.iter().filter(differs).map(Rank::index).collect()
    }

    #[test]
    fn v2_all_alike_match_and_a_minority_differs() {
        let all = told(3, Sound, &[(0, 7), (2, 7), (1, 7)]);
        assert_eq!(all.counts(), Counts { matched: 1, ..Counts::default() });
        assert_eq!(all.agreed(), Agreed { at: 10, members: MemberSet::all(3) });
        let one = told(3, Sound, &[(0, 7), (2, 8), (1, 7)]);
        assert_eq!(one.counts(), Counts { differed: 1, ..Counts::default() });
        assert_eq!((differing(&one), one.agreed().members.len()), (vec![2], 2));
    }

    #[test]
    fn v2_a_majority_agrees_while_a_member_is_silent() {
        let judge = told(3, Sound, &[(0, 7), (2, 7)]);
        assert_eq!((judge.agreed().at, judge.counts()), (10, Counts::default()));
        assert!(judge.is_wanted(Rank::at(1), 10) && !judge.is_wanted(Rank::at(0), 10));
    }

    #[test]
    fn v2_two_of_five_are_not_enough() {
        let told_five = [(0, 7), (1, 7), (2, 8)];
        assert_eq!(differing(&told(5, Sound, &told_five)), Vec::<usize>::new());
        assert_eq!(told(5, Sound, &told_five).agreed().at, 0);
        let sound = told(5, Sound, &[(0, 7), (1, 7), (2, 8), (3, 8), (4, 8)]);
        assert_eq!(differing(&sound), [0, 1]);
        let planted = told(5, Planted(Bug::TwoAreEnough), &told_five);
        assert_eq!(differing(&planted), [2], "the mistake shows");
    }

    #[test]
    fn v3_a_later_process_does_not_differ() {
        let mut judge = told(3, Sound, &[(0, 7), (2, 8), (1, 7)]);
        let member = Rank::at(2);
        assert_eq!(judge.differs(member, Incarnation(2)), None);
        judge.begun(member);
        assert_eq!(judge.differs(member, RUN), None);
    }

    /// Hashes of an earlier process may be judged after a later one has begun.
    #[test]
    fn v3_what_an_earlier_process_proposed_does_not_hide_what_a_later_one_did() {
        let mut judge = told(3, Sound, &[(0, 7), (2, 8)]);
        let (member, later) = (Rank::at(2), Incarnation(2));
        judge.begun(member);
        judge.take(Rank::at(1), RUN, 10, 7);
        assert_eq!(judge.differs(member, RUN), Some(10));
        (0..10).for_each(|_| {
            judge.step();
        });
        for (rank, run, value) in [(Rank::at(0), RUN, 7), (Rank::at(1), RUN, 7), (member, later, 9)]
        {
            judge.take(rank, run, 20, value);
        }
        assert_eq!(judge.differs(member, later), Some(20));
    }

    #[test]
    fn v4_copies_without_a_majority_are_split() {
        let judge = told(3, Sound, &[(0, 7), (2, 8), (1, 9)]);
        assert_eq!((judge.counts().split, judge.split_at(), differing(&judge)), (1, 10, vec![]));
        assert_eq!(judge.is_split(Rank::at(1), RUN), Some(10));
        assert_eq!(judge.is_split(Rank::at(1), Incarnation(2)), None);
        let four = told(4, Sound, &[(0, 7), (1, 7), (2, 8), (3, 8)]);
        assert_eq!(four.counts().split, 1, "half of them are no majority");
        let early = told(5, Sound, &[(0, 7), (1, 7), (2, 8)]);
        assert_eq!(early.counts().split, 0, "it is not known yet");
    }

    #[test]
    fn v5_the_oldest_point_ends_as_late() {
        let mut judge = told(3, Sound, &[(0, 7), (2, 7)]);
        for _ in 0..10 * POINTS_MAX {
            judge.step();
        }
        assert_eq!(judge.counts(), Counts { late: 1, ..Counts::default() });
        assert_eq!(judge.take(Rank::at(1), RUN, 10, 8), Verdict::Over);
        assert_eq!(judge.take(Rank::at(1), RUN, 20, 8), Verdict::Execute);
    }

    #[test]
    fn v6_the_first_hash_of_a_member_counts_and_no_others_are_taken() {
        let mut judge = told(3, Sound, &[(0, 7)]);
        assert_eq!(judge.take(Rank::at(0), Incarnation(2), 10, 8), Verdict::Over);
        assert_eq!(judge.take(Rank::at(1), RUN, 11, 8), Verdict::Over, "that is no point");
        assert_eq!(judge.take(Rank::at(1), RUN, 20, 8), Verdict::Over, "nor reached");
        assert_eq!(judge.take(Rank::at(5), RUN, 10, 8), Verdict::Over, "nor a member");
    }

    #[test]
    fn v7_a_member_that_was_removed_is_not_waited_for_and_its_hash_does_not_count() {
        let left = |hashes: &[(usize, u64)]| {
            let mut judge = told(3, Sound, hashes);
            judge.left(Rank::at(1));
            judge
        };
        let one = left(&[(0, 7), (1, 7)]);
        assert_eq!(one.agreed().members, [Rank::at(0)].into_iter().collect(), "it was agreed on");
        assert_eq!(one.counts(), Counts::default(), "member 3 is waited for");
        let both = left(&[(0, 7), (2, 7)]);
        assert_eq!(both.counts(), Counts { matched: 1, ..Counts::default() });
        let split = left(&[(0, 7), (2, 8)]);
        assert_eq!((split.counts().split, split.split_at()), (1, 10), "one is no majority of two");
        let mut late = left(&[(0, 7)]);
        assert_eq!(late.take(Rank::at(1), RUN, 10, 7), Verdict::Over, "it is out");
        assert_eq!(late.agreed().at, 0, "one of two that are in has told");
        late.take(Rank::at(2), RUN, 10, 7);
        assert_eq!((late.agreed().at, late.counts().matched), (10, 1));
        late.begun(Rank::at(1));
        assert_eq!(late.members(), MemberSet::all(3), "it was added again");
        let mut planted = told(3, Planted(Bug::LeftCounts), &[(0, 7), (2, 7)]);
        planted.left(Rank::at(1));
        assert_eq!(planted.counts(), Counts::default(), "the mistake shows");
    }

    #[test]
    fn v7_hashes_of_five_count_among_the_three_that_are_left() {
        let mut judge = told(5, Sound, &[(0, 7), (1, 7), (2, 8), (4, 9)]);
        assert_eq!((judge.agreed().at, judge.counts().split), (0, 0));
        judge.left(Rank::at(3));
        assert_eq!(judge.counts().split, 1, "three of the four that are in do not agree");
        let mut judge = told(5, Sound, &[(0, 7), (1, 7), (2, 8)]);
        judge.left(Rank::at(3));
        assert_eq!(judge.agreed().at, 0, "two of four");
        judge.left(Rank::at(4));
        assert_eq!((judge.agreed().at, differing(&judge)), (10, vec![2]), "two of three");
        assert_eq!(judge.counts().differed, 1);
    }

    #[test]
    fn what_it_knows_is_moved() {
        let mut judge = told(5, Sound, &[(0, 7), (2, 8), (1, 7), (3, 7)]);
        (0..10).for_each(|_| {
            judge.step();
        });
        judge.take(Rank::at(4), RUN, 20, 3);
        judge.left(Rank::at(1));
        let mut bytes = Vec::new();
        judge.write(&mut bytes);
        let mut other = Judge::new(5, 10, Sound);
        let mut rest = &bytes[..];
        assert_eq!(other.read(&mut rest), Some(()));
        assert!(rest.is_empty());
        assert_eq!(other, judge);
        assert_eq!(Judge::new(5, 10, Sound).read(&mut &bytes[..bytes.len() - 1]), None);
    }

    proptest! {
        /// The verdict at a point does not depend on the order of the hashes.
        #[test]
        fn v1_any_order_of_hashes_has_the_same_verdict(
            values in prop::collection::vec(0u64..3, 1..=MAX_MEMBERS),
            order in prop::collection::vec(any::<prop::sample::Index>(), MAX_MEMBERS),
        ) {
            let members = values.len();
            let mut left: Vec<(usize, u64)> = values.iter().copied().enumerate().collect();
            let one = told_all(members, &left);
            let mut mixed = Vec::new();
            for index in order.into_iter().take(members) {
                mixed.push(left.remove(index.index(left.len())));
            }
            let other = told_all(members, &mixed);
            prop_assert_eq!(one.counts(), other.counts());
            prop_assert_eq!(differing(&one), differing(&other));
            let most = (0..3).map(|v| values.iter().filter(|one| **one == v).count()).max();
            let has_majority = most.unwrap() >= majority(members);
            prop_assert_eq!(one.counts().split, u64::from(!has_majority));
        }
    }

    /// Tells every hash, though a split may be known before the last one.
    fn told_all(members: usize, hashes: &[(usize, u64)]) -> Judge<Sound> {
        let mut judge = judge(members, Sound);
        for (member, value) in hashes {
            judge.take(Rank::at(*member), RUN, 10, *value);
        }
        judge
    }
}
