//! Disks whose syncs all take long (L1).

use super::*;

/// The longest time within which one is elected and decides: some ten syncs of the slowest disk.
const WITHIN: u64 = 25_000;

/// The able member that all trust, as Ω would have it: the present one while it is able, and then
/// the lowest.
fn trust(group: &mut Group<Sound>, trusted: &mut Option<usize>) {
    let is_able = |group: &Group<Sound>, at: usize| group.is_up(at) && group.member(at).can_lead();
    if trusted.is_some_and(|at| is_able(group, at)) {
        return;
    }
    if let Some(before) = trusted.filter(|at| group.is_up(*at)) {
        group.follow(before);
    }
    *trusted = (0..group.len()).find(|at| is_able(group, *at));
    if let Some(next) = *trusted {
        group.lead(next);
    }
}

/// Whether a value is decided by a group that begins without a leader.
fn decides(group: &mut Group<Sound>) -> bool {
    let mut trusted = None;
    let mut is_proposed = false;
    for _ in 0..WITHIN {
        trust(group, &mut trusted);
        group.run(1);
        let leads = |at: usize| group.status(at).role == Role::Leader;
        if let Some(leader) = trusted.filter(|at| leads(*at)) {
            if !is_proposed {
                is_proposed = group.try_propose(leader, b"x").is_ok();
            }
            if group.values(leader).last().is_some_and(|last| last == b"x") {
                return true;
            }
        }
    }
    false
}

/// L1. The trap: a candidate that gives up after a fixed time, where its promise and a vote take a
/// sync each, is never elected, however healthy the disks say they are.
#[test]
fn disks_that_are_all_slow_elect_a_leader() {
    for sync_ms in [1, 20, 60, 80, 100, 160, 200, 400, 490, 510, 800, 1000, 2000] {
        let mut group = Group::new(Sound, 3);
        (0..3).for_each(|at| group.slow_disk(at, Duration::from_millis(sync_ms)));
        assert!(decides(&mut group), "syncs of {sync_ms} ms");
    }
}

/// L1. The trap: a candidate that measures its own disk alone. The newest log lies on a fast one,
/// and the vote that it needs on a slow one.
#[test]
fn a_fast_disk_with_the_newest_log_waits_for_a_slow_voter() {
    for sync_ms in [100, 400, 2000] {
        let mut group = Group::led(Sound, 3, 2);
        group.isolate(0);
        group.propose(2, b"not at r0");
        group.run(20);
        group.power_cut(2);
        group.heal();
        group.slow_disk(0, Duration::from_millis(sync_ms));
        assert!(decides(&mut group), "syncs of {sync_ms} ms");
    }
}

/// L1. The trap: two candidates with older logs, each of which waits for its own slow disk before
/// it is refused, take turns, and the one that could be elected never has its turn.
#[test]
fn all_have_their_turn_when_each_waits_for_its_disk() {
    let mut group = Group::led(Sound, 5, 4);
    // r2 and r3 hold what r0 and r1 do not.
    group.isolate(0);
    group.isolate(1);
    group.propose(4, b"decided");
    group.run(20);
    assert_eq!(group.values(4), [b"decided"]);
    group.power_cut(4);
    group.heal();
    (0..4).for_each(|at| group.slow_disk(at, Duration::from_millis(400)));
    assert!(decides(&mut group));
}

/// A voter whose disk takes nothing promises nothing: its candidate stands aside soon.
#[test]
fn a_candidate_does_not_wait_for_a_disk_that_hangs() {
    let mut group = Group::new(Sound, 3);
    group.power_cut(2);
    group.hold_disk(1);
    group.lead(0);
    group.run(600);
    let waits = |group: &Group<Sound>| matches!(group.member(0).office, Office::Candidate(_));
    assert!(waits(&group), "the voter says that its disk has not taken the promise yet");
    group.disk_event(1, DiskEvent::Stalled);
    group.run(200);
    assert!(!waits(&group) && !group.member(0).can_lead(), "it stands aside");
}

/// The time of a stop is no disk's: it would stand aside for hours, times the number of voters.
#[test]
fn a_candidate_that_was_stopped_stands_aside_no_longer_than_for_its_disks() {
    let mut group = Group::new(Sound, 3);
    group.hold_disk(0);
    group.lead(0);
    group.run(100_000);
    assert!(matches!(group.member(0).office, Office::Candidate(_)));
    group.isolate(0);
    group.release_disk(0);
    group.run(1000);
    assert!(!group.member(0).can_lead(), "no voter answers: it stands aside");
    group.run(30_000);
    assert!(group.member(0).can_lead());
}
