//! Leases, with clocks that a test sets.

use super::super::lease::{COUNTED, LEASE};
use super::super::*;
use super::group::{Action, Group};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A leader whose reads are answered by a lease, of members 0 and 1 alone.
fn leased(bug: Option<Bug>) -> Group {
    let mut group = Group::led(bug, 3, 0);
    group.hold(&[(0, 2), (2, 0)]);
    group.run(1);
    group.read(0, 1);
    assert!(!group.has_answered(0, 1), "the first is a check");
    group.turn(1);
    group.turn(0);
    assert!(group.has_answered(0, 1));
    group.read(0, 2);
    assert!(group.has_answered(0, 2), "by the lease");
    group
}

#[test]
fn l2_a_lease_ends_by_itself_and_the_next_read_is_a_check() {
    let mut group = leased(None);
    group.clocks[0] = group.clocks[0].plus(COUNTED);
    group.read(0, 3);
    assert!(!group.has_answered(0, 3));
    group.turn(1);
    group.turn(0);
    assert!(group.has_answered(0, 3));
}

#[test]
fn l1_nobody_leads_while_a_lease_holds_and_the_next_does_soon_after() {
    let mut group = leased(None);
    group.hold(&[(0, 1), (1, 0)]);
    let _slot = group.act(2, Action::Lead);
    let end = group.clocks[1].plus(LEASE);
    while group.status(2).role != Role::Leader {
        group.run(1);
        assert!(group.clocks[1] < end.plus(ms(5)), "in bounded time");
    }
    assert!(group.clocks[1] >= end, "not before");
}

/// Whether a leader still answers by its lease when another has decided, with one clock as fast and
/// one as slow as is allowed.
fn serves_too_long(bug: Option<Bug>) -> bool {
    let mut group = leased(bug);
    group.hold(&[(0, 1), (1, 0)]);
    let _slot = group.act(2, Action::Lead);
    let mut ticket = 10;
    for _ in 0..200 {
        // Half a millisecond of true time.
        group.clocks[0] = group.clocks[0].plus(Duration::from_micros(450));
        group.clocks[1] = group.clocks[1].plus(Duration::from_micros(550));
        group.clocks[2] = group.clocks[2].plus(Duration::from_micros(500));
        group.turn(1);
        group.turn(2);
        ticket += 1;
        group.read(0, ticket);
        let is_answered = group.has_answered(0, ticket);
        if is_answered && group.status(2).role == Role::Leader {
            return true;
        }
    }
    assert_eq!(group.status(2).role, Role::Leader);
    false
}

#[test]
fn l2_a_slow_leader_and_a_fast_acceptor_agree_on_who_reads() {
    assert!(!serves_too_long(None));
    assert!(serves_too_long(Some(Bug::IgnoreRate)));
}

/// An acceptor that stood still between being told the time and reading the question.
fn grants_from_an_old_time(bug: Option<Bug>) -> bool {
    let mut group = Group::led(bug, 3, 0);
    group.hold(&[(0, 2), (2, 0)]);
    let told = group.clocks[1];
    group.run(60);
    group.read(0, 1);
    // Its turn began sixty milliseconds ago.
    let now = core::mem::replace(&mut group.clocks[1], told.plus(ms(60)));
    assert!(now >= told.plus(ms(60)));
    group.turn(1);
    group.clocks[1] = now.plus(ms(60));
    group.turn(0);
    assert!(group.has_answered(0, 1));
    group.hold(&[(0, 1), (1, 0)]);
    let _slot = group.act(2, Action::Lead);
    group.turn(1);
    group.turn(2);
    group.turn(2);
    group.read(0, 2);
    group.has_answered(0, 2) && group.status(2).role == Role::Leader
}

#[test]
fn l1_a_grant_runs_from_a_time_that_was_told_after_the_question_came() {
    assert!(!grants_from_an_old_time(None));
    assert!(grants_from_an_old_time(Some(Bug::GrantFromOldTime)));
}

/// An acceptor that grants, dies and comes back.
fn forgets(bug: Option<Bug>) -> bool {
    let mut group = leased(bug);
    group.hold(&[(0, 1), (1, 0)]);
    group.kill(1);
    group.start(1, Start::Reattach);
    let _slot = group.act(2, Action::Lead);
    group.run(3);
    group.read(0, 9);
    group.has_answered(0, 9) && group.status(2).role == Role::Leader
}

#[test]
fn l3_a_process_that_comes_back_keeps_to_what_its_predecessor_granted() {
    assert!(!forgets(None));
    assert!(forgets(Some(Bug::ForgetGrant)));
}

/// Whether the leader of five, of which one grants and three follow another, answers by a lease
/// when the other has decided.
fn serves_by_one_grant(bug: Option<Bug>) -> bool {
    let mut group = Group::led(bug, 5, 0);
    for other in 2..5 {
        group.hold(&[(0, other), (other, 0), (1, other), (other, 1)]);
    }
    group.read(0, 1);
    group.turn(1);
    group.turn(0);
    let _slot = group.act(2, Action::Lead);
    for _ in 0..20 {
        (2..5).for_each(|member| group.turn(member));
    }
    assert_eq!(group.status(2).role, Role::Leader);
    group.propose(2, b"new");
    for _ in 0..20 {
        (2..5).for_each(|member| group.turn(member));
    }
    assert_eq!(group.world.delivered[2].last().map(Vec::as_slice), Some(&b"new"[..]));
    group.read(0, 2);
    group.has_answered(0, 2)
}

#[test]
fn one_grant_of_five_is_no_lease() {
    assert!(!serves_by_one_grant(None));
    assert!(serves_by_one_grant(Some(Bug::LeaseOfOne)));
}

/// A deposed member that is trusted still has granted a lease to the leader.
#[test]
fn l1_a_member_that_may_not_stand_yet_sleeps_until_it_may() {
    let mut group = Group::led(None, 3, 0);
    let _slot = group.act(2, Action::Lead);
    group.run(10);
    assert_eq!(group.status(2).role, Role::Leader);
    let _slot = group.act(0, Action::Lead);
    group.run(25);
    assert_eq!(group.status(0).role, Role::Leader);
    for ticket in 0..200 {
        group.read(0, ticket);
        group.run(1);
        let deadline = group.deadline(2).expect("it waits for the grant's end");
        assert!(deadline > group.clocks[2], "a turn at once, in turn {ticket}");
    }
    assert_eq!(group.status(0).role, Role::Leader);
}

/// A candidate asks twice: member 1, which has granted a lease to another, reads the second prepare
/// in the turn in which the grant ends.
#[test]
fn a_prepare_that_had_to_wait_does_not_end_a_later_stream() {
    let mut group = leased(None);
    group.hold(&[(0, 1), (1, 0)]);
    let _slot = group.act(2, Action::Lead);
    group.clocks[1] = group.clocks[1].plus(ms(1));
    group.turn(1);
    group.hold(&[(2, 1)]);
    group.clocks[2] = group.clocks[2].plus(PATIENCE);
    group.turn(2);
    assert_eq!(group.under_way(2, 1), 1, "the second");
    group.world.held.remove(&(2, 1));
    group.clocks[1] = group.clocks[1].plus(LEASE);
    group.turn(1);
    group.turn(2);
    assert_eq!(group.status(2).role, Role::Leader);
    group.propose(2, b"at once");
    group.turn(1);
    group.turn(2);
    assert_eq!(group.world.delivered[2], [b"at once"]);
}
