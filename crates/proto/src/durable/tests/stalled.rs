//! Disks and processes that stand still for long.

use super::*;
use crate::Refused;

/// D4. The trap: a follower reads from its ring as fast as the leader writes, however slow its disk
/// is.
#[test]
fn a_follower_whose_disk_stands_still_reads_no_more_than_may_wait_for_it() {
    let mut group = Group::led(Sound, 3, 0);
    group.hold_disk(1);
    let value = [7; 60];
    for _ in 0..400 {
        group.propose(0, &value);
        group.run(2);
    }
    group.run(20);
    assert_eq!(group.values(0).len(), 400, "the others decide without it");
    assert!(group.values(1).len() < 400, "it was sent more than its disk may hold back");
    group.release_disk(1);
    group.run(2000);
    assert_eq!(group.values(1).len(), 400, "it goes on where it stopped");
}

/// D4.
#[test]
fn a_leader_whose_disk_stands_still_takes_no_more_than_may_wait_for_it() {
    let mut group = Group::led(Sound, 3, 0);
    group.hold_disk(0);
    let mut n_taken = 0;
    while n_taken < 400 && group.try_propose(0, &[7; 60]) != Err(Refused::Full) {
        n_taken += 1;
        group.run(2);
    }
    assert!((30..400).contains(&n_taken), "{n_taken} values wait for one disk");
    group.release_disk(0);
    group.run(20);
    group.propose(0, b"more");
    group.run(20);
    assert_eq!(group.values(0).len(), n_taken + 1);
}

/// The number of streams that a leader has opened when one of two followers has stood still for 20
/// hours. The trap: a leader that opens one each 800 ms exhausts any number, and until then writes
/// the same again and again.
fn streams_after_a_follower_stood_still_for_days<P: Planting<Bug>>(
    planted: P,
    stop: fn(&mut Group<P>),
    n_looks: u64,
) -> u64 {
    let mut group = Group::led(planted, 3, 0);
    stop(&mut group);
    for _ in 0..60 {
        group.propose(0, b"while it stands still");
        group.run(2);
    }
    group.run_in_steps(n_looks, Duration::from_hours(20) / n_looks as u32);
    assert!(group.holds_office(0));
    let n_streams = group.n_streams(0);
    group.release_disk(1);
    group.resume(1);
    group.run_in_steps(100, Duration::from_millis(100));
    assert_eq!(group.values(1).len(), 60, "it goes on");
    n_streams
}

#[test]
fn a_follower_that_stands_still_for_days_leaves_its_leader_alive() {
    let stops: [fn(&mut Group<Sound>); 2] = [|group| group.hold_disk(1), |group| group.pause(1)];
    for stop in stops {
        let n = streams_after_a_follower_stood_still_for_days(Sound, stop, 2000);
        assert_eq!(n, 2, "streams to two followers");
    }
    let planted = Planted(Bug::BeginWhateverStandsStill);
    let stop: fn(&mut Group<Planted<Bug>>) = |group| group.pause(1);
    let n = streams_after_a_follower_stood_still_for_days(planted, stop, 80_000);
    assert!(n > 1 << 16, "the bug does not show: {n}");
}

/// I15. A record that never becomes whole, over a link that never broke, is the one fault that a
/// new stream repairs: the follower asks for it.
#[test]
fn a_follower_that_cannot_read_its_stream_is_sent_another() {
    let mut group = Group::led(Sound, 3, 0);
    group.cut_writes(0, 1);
    group.propose(0, b"lost on its way");
    group.run(5);
    group.heal();
    group.run(200);
    assert_eq!(group.values(1), [b"lost on its way"]);
    assert_eq!(group.n_streams(0), 3);
}

/// I15. The acknowledgement was lost on its way, over a link that never broke, and nothing more is
/// written: only the follower can repeat it.
#[test]
fn an_acknowledgement_that_was_lost_is_said_again_when_the_leader_asks() {
    let mut group = Group::led(Sound, 3, 0);
    group.power_cut(2);
    group.cut_writes(1, 0);
    group.propose(0, b"x");
    group.run(20);
    assert!(group.values(0).is_empty(), "the acknowledgement is lost");
    group.heal();
    group.run(200);
    assert_eq!(group.values(0), [b"x"]);
    assert_eq!(group.n_streams(0), 2, "the stream was never lost");
}

/// D5. The trap: damage in the middle of a delivery ended in a panic, and the text with the advice
/// was never seen.
#[test]
fn a_disk_that_fails_while_it_is_read_stops_the_delivery_and_nothing_else() {
    let mut group = Group::led(Sound, 3, 0);
    for _ in 0..100 {
        group.propose(0, b"kept");
        group.run(3);
    }
    group.run(20);
    group.power_cut(1);
    group.recover(1);
    group.spoil(1, Slot(5));
    group.reconnect(0, 1);
    group.run(50);
    assert_eq!(group.values(1).len(), 4, "slot 0 is a no-op, slot 5 is damaged");
    assert_eq!(group.status(0).role, Role::Leader);
}

/// D5, I11. The trap: the slots above the damage are decided and not executed, so a read would be
/// answered from a state without them before the process ends.
#[test]
fn a_leader_whose_disk_fails_while_it_is_read_does_not_serve() {
    for n_members in [1, 3] {
        let mut group = Group::led(Sound, n_members, 0);
        for _ in 0..20 {
            group.propose(0, b"acknowledged");
            group.run(3);
        }
        group.power_cut(0);
        group.recover(0);
        group.spoil(0, Slot(5));
        group.lead(0);
        group.run(30);
        let status = group.status(0);
        assert!(status.committed > Prefix(20), "its no-op is decided: {status:?}");
        assert_eq!((group.values(0).len(), status.role), (4, Role::Candidate));
        assert!(!group.read(0, 1), "a stale read");
        assert!(group.try_propose(0, b"more").is_err());
    }
}

/// The trap: its leader's stream continues its log, so no member told it that it lacks something,
/// and it was a learner for ever.
#[test]
fn a_member_whose_snapshot_is_damaged_and_whose_log_is_whole_asks_for_a_state() {
    let mut group = Group::led(Sound, 3, 0);
    for _ in 0..200 {
        group.propose(0, b"covered");
        group.run(3);
    }
    group.snapshotted(1, group.status(1).applied);
    group.run(20);
    group.power_cut(1);
    group.recover(1);
    group.reconnect(0, 1);
    group.run(50);
    assert_eq!(group.status(1).role, Role::Learner, "its log does not reach back to its state");
    assert!(group.asks_for_state(1));
}

/// A disk has room again and has moved again: the order in which a host hears of both is its own.
#[test]
fn a_disk_that_was_full_and_stood_still_is_well_when_both_are_over() {
    use DiskEvent::{Flowing, Full, Room, Stalled};
    for events in [[Full, Stalled, Flowing, Room], [Full, Stalled, Room, Flowing]] {
        let mut group = Group::led(Sound, 3, 0);
        let (last, before) = events.split_last().expect("there are four");
        for event in before {
            group.disk_event(0, *event);
            assert!(!group.member(0).can_lead(), "{event:?} of {events:?}");
        }
        group.disk_event(0, *last);
        assert!(group.member(0).can_lead(), "{events:?}");
    }
}
