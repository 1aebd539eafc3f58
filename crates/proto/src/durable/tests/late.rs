//! Late answers count only for what they answer, not for what began since.

use super::*;

/// I8.
fn elected_by_a_vote_for_an_earlier_candidacy<P: Planting<Bug>>(planted: P) -> bool {
    let mut group = Group::new(planted, 3);
    group.isolate(0);
    group.lead(0);
    group.run(5);
    let earlier = group.status(0).ballot;
    for _ in 0..1000 {
        group.run(1);
        let status = group.status(0);
        if status.role == Role::Candidate && status.ballot > earlier {
            break;
        }
    }
    assert!(group.status(0).ballot > earlier, "it never tried again");
    group.run(5);
    group.vote(0, (Rank::at(1), Incarnation::FIRST), earlier, Incarnation::FIRST);
    group.holds_office(0)
}

#[test]
fn a_vote_for_another_ballot_does_not_count() {
    assert!(!elected_by_a_vote_for_an_earlier_candidacy(Sound));
    assert!(elected_by_a_vote_for_an_earlier_candidacy(Planted(Bug::VoteOfAnyBallot)));
}

/// I11. The READs of the second check are lost; those of the first are answered after it began.
fn answers_of_a_check_serve_a_later_one<P: Planting<Bug>>(planted: P) -> bool {
    let mut group = Group::led(planted, 3, 0);
    group.begin_read(0, 1);
    group.cut_writes(0, 1);
    group.cut_writes(0, 2);
    group.begin_read(0, 2);
    group.run(2);
    assert!(group.is_answered(0, 1), "its own answers are there");
    group.is_answered(0, 2)
}

#[test]
fn the_answer_to_a_read_serves_no_check_that_began_later() {
    assert!(!answers_of_a_check_serve_a_later_one(Sound));
    assert!(answers_of_a_check_serve_a_later_one(Planted(Bug::AnyAnswerServes)));
}

/// I2.
fn is_durable_after_the_sync_that_was_under_way<P: Planting<Bug>>(planted: P) -> bool {
    let mut disk = TestDisk::default();
    let mut log = log_of(&mut disk, 1);
    log.flush(&mut disk);
    log.promise(Ballot(77), &mut disk);
    log.synced(planted, Flush(1), &mut disk);
    log.promise_is_durable()
}

#[test]
fn a_sync_covers_no_promise_that_was_made_during_it() {
    assert!(!is_durable_after_the_sync_that_was_under_way(Sound));
    assert!(is_durable_after_the_sync_that_was_under_way(Planted(Bug::PromiseDuringSync)));
}

/// I11. The READ of the earlier term's check completes after the later term's began.
#[test]
fn a_promise_that_was_read_in_an_earlier_term_answers_no_read_of_a_later_one() {
    let mut group = Group::led(Sound, 3, 0);
    (1..=3).for_each(|ticket| assert!(group.read(0, ticket)));
    let earlier = group.status(0).ballot;
    group.follow(0);
    group.lead(0);
    group.run(30);
    assert!(group.status(0).role == Role::Leader && group.status(0).ballot > earlier);
    group.isolate(0);
    group.begin_read(0, 9);
    let words = Published { promised: earlier, by: Incarnation::FIRST }.encode();
    let (token, outcome) = (base::Token(3), base::Outcome::Read(&words));
    group.event(0, Event::Completed { from: Rank::at(1), token, outcome });
    assert!(!group.is_answered(0, 9), "a later ballot may have been promised since");
}
