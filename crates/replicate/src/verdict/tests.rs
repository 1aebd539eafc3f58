//! Tests of a judge.

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
    for (rank, run, value) in [(Rank::at(0), RUN, 7), (Rank::at(1), RUN, 7), (member, later, 9)] {
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

/// Passes a point at which these members, of three, have these hashes.
fn pass(judge: &mut Judge<Sound>, run: Incarnation, hashes: &[(usize, u64)]) {
    while !judge.step() {}
    let at = judge.position();
    for (member, value) in hashes {
        judge.take(Rank::at(*member), run, at, *value);
    }
}

fn in_doubt(judge: &Judge<Sound>, run: Incarnation) -> Vec<usize> {
    let is_in_doubt = |member: &usize| judge.is_in_doubt(Rank::at(*member), run);
    (0..3).filter(is_in_doubt).collect()
}

#[test]
fn v10_two_that_differ_are_in_doubt_until_the_third_tells() {
    let mut judge = Judge::new(3, 10, Sound);
    pass(&mut judge, RUN, &[(0, 7), (1, 7)]);
    assert_eq!(in_doubt(&judge, RUN), []);
    pass(&mut judge, RUN, &[(0, 7), (1, 8)]);
    pass(&mut judge, RUN, &[(0, 7), (1, 7)]);
    assert_eq!(in_doubt(&judge, RUN), [0, 1], "they answer alike again");
    assert_eq!(in_doubt(&judge, Incarnation(2)), [], "later processes have said nothing");
    judge.take(Rank::at(2), RUN, 20, 7);
    assert_eq!((in_doubt(&judge, RUN), differing(&judge)), (vec![], vec![1]));
}

#[test]
fn v10_those_of_a_split_are_in_doubt_until_they_begin_again() {
    let mut judge = told(3, Sound, &[(0, 7), (1, 8), (2, 9)]);
    for _ in 0..2 * POINTS_MAX {
        pass(&mut judge, RUN, &[(0, 7), (1, 7), (2, 7)]);
    }
    assert_eq!(in_doubt(&judge, RUN), [0, 1, 2]);
    judge.begun(Rank::at(1));
    assert_eq!(in_doubt(&judge, RUN), [0, 2]);
}

#[test]
fn v10_a_hash_that_is_missing_may_be_another_one() {
    let mut judge = told(3, Sound, &[(0, 7), (1, 7)]);
    pass(&mut judge, RUN, &[(0, 7)]);
    assert_eq!(in_doubt(&judge, RUN), [], "the newest is always missing");
    pass(&mut judge, RUN, &[(0, 7), (1, 7)]);
    assert_eq!(in_doubt(&judge, RUN), [1]);
    judge.take(Rank::at(1), RUN, 20, 7);
    assert_eq!(in_doubt(&judge, RUN), []);
}

#[test]
fn v5_a_point_that_is_forgotten_while_hashes_differ_is_a_split() {
    let mut judge = told(3, Sound, &[(0, 7), (1, 8)]);
    for _ in 0..POINTS_MAX {
        pass(&mut judge, RUN, &[(0, 7), (1, 7), (2, 7)]);
    }
    let Counts { split, late, .. } = judge.counts();
    assert_eq!((split, late, judge.split_at()), (1, 0, 10));
    assert_eq!(in_doubt(&judge, RUN), [0, 1]);
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
    // The first point is over: no later hash counts there.
    let mut judge = told(5, Sound, &[(0, 7), (2, 8), (1, 7), (3, 7), (4, 7)]);
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
