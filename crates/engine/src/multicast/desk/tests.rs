//! Tests of refusals, and of the outcomes of accepted messages.

use super::*;
use crate::multicast::places::Places;
use core::time::Duration;

fn desk(window: usize) -> Desk {
    let alone = vec![Rank::at(0)];
    let places = Places::new(1, vec![alone.clone(), alone]);
    Desk::new(&places, sender_of(Rank::at(0), 1), (window, 1000))
}

#[test]
fn d1_each_message_gets_one_outcome() {
    let mut desk = desk(10);
    let options = Options { patience: Duration::from_millis(10), ..Options::default() };
    let dest = GroupSet::all(2);
    let ids: Vec<_> = (0..3).map(|_| desk.multicast(dest, *b"x", &options).unwrap()).collect();
    let of_an_earlier_life = MessageId { sender: sender_of(Rank::at(0), 0), ..ids[0] };
    desk.own.complete(of_an_earlier_life, Timestamp(3));
    desk.own.complete(ids[1], Timestamp(4));
    desk.own.complete(ids[1], Timestamp(4));
    desk.now = Instant::ZERO.plus(Duration::from_millis(20));
    assert!(desk.own.deadline().is_some_and(|at| at <= desk.now));
    desk.own.sweep(desk.now);
    desk.own.complete(ids[0], Timestamp(5));
    let expected = [
        (ids[1], Outcome::Delivered(Timestamp(4))),
        (ids[0], Outcome::Unknown),
        (ids[2], Outcome::Unknown),
    ];
    assert_eq!(desk.own.outcomes, expected);
    assert_eq!((desk.n_open(), desk.own.deadline()), (0, None));
    assert!(desk.multicast(dest, *b"x", &options).unwrap() > ids[2], "names rise");
}

#[test]
fn d3_the_bytes_under_way_are_bounded_and_one_message_is_let_through() {
    let mut desk = desk(10);
    let (dest, options) = (GroupSet::all(2), Options::default());
    let id = desk.multicast(dest, vec![7; 3000], &options).expect("it is the only one");
    let refused = desk.multicast(dest, *b"x", &options);
    assert!(matches!(refused, Err(Refused::TooMuchUnderWay { n_bytes, .. }) if n_bytes > 3000));
    // Its outcome is unknown: it may still have to be sent.
    desk.now = Instant::ZERO.plus(Duration::from_secs(20));
    desk.own.sweep(desk.now);
    assert!(desk.multicast(dest, *b"x", &options).is_err());
    (0..2).for_each(|group| desk.own.settle(id.sender, &[id.sequence], GroupId::at(group)));
    let sent = || desk.multicast(dest, vec![7; 100], &options).is_ok();
    assert_eq!(std::iter::repeat_with(sent).take_while(|is_ok| *is_ok).count(), 6);
}

/// They count for all groups: the refusal names those without which it does not end.
#[test]
fn d3_a_refusal_names_the_groups_that_have_not_delivered() {
    let mut desk = desk(10);
    let options = Options { patience: Duration::from_millis(10), ..Options::default() };
    let (near, far) = (GroupId::at(0), GroupId::at(1));
    let id = desk.multicast(near.alone(), *b"x", &options).expect("nothing is under way");
    desk.multicast(far.alone(), vec![7; 800], &options).expect("there is room");
    desk.own.settle(id.sender, &[id.sequence], near);
    desk.own.complete(id, Timestamp(1));
    desk.now = Instant::ZERO.plus(Duration::from_millis(20));
    desk.own.sweep(desk.now);
    let refused = desk.multicast(near.alone(), vec![7; 100], &options);
    let Err(Refused::TooMuchUnderWay { groups, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(groups, far.alone());
}

#[test]
fn d2_what_is_refused_leaves_nothing_behind() {
    let mut desk = desk(1);
    let options = Options::default();
    let both = GroupSet::all(2);
    for dest in [GroupSet::EMPTY, GroupSet::all(3)] {
        let refused = desk.multicast(dest, *b"x", &options);
        assert_eq!(refused, Err(Refused::NoSuchGroup { dest, n_groups: 2 }));
    }
    let long = vec![0; PAYLOAD_BYTES_MAX + 1];
    let n_bytes = long.len();
    assert_eq!(desk.multicast(both, long, &options), Err(Refused::TooLong { n_bytes }));
    desk.lagging = GroupId::at(1).alone();
    let groups = desk.lagging;
    assert_eq!(desk.multicast(both, *b"x", &options), Err(Refused::Lagging { groups }));
    (desk.lagging, desk.kept) = (GroupSet::EMPTY, groups);
    assert_eq!(desk.multicast(both, *b"x", &options), Err(Refused::Kept { groups }));
    assert!(desk.own.started.is_empty() && desk.n_open() == 0, "D2");
    assert!(desk.multicast(GroupId::at(0).alone(), *b"x", &options).is_ok());
    let refused = desk.multicast(GroupId::at(0).alone(), *b"x", &options);
    assert_eq!(refused, Err(Refused::WindowFull { window: 1 }));
    assert_eq!(desk.own.started.len(), 1, "D2");
}

#[test]
fn w1_a_message_whose_outcome_is_unknown_holds_later_ones_back() {
    let mut desk = desk(10);
    let options = Options { patience: Duration::from_millis(10), ..Options::default() };
    let (near, far) = (GroupId::at(0), GroupId::at(1));
    let old = desk.multicast(GroupSet::all(2), *b"x", &options).unwrap();
    desk.now = Instant::ZERO.plus(Duration::from_millis(20));
    desk.own.sweep(desk.now);
    assert_eq!(desk.own.outcomes, [(old, Outcome::Unknown)]);
    for _ in 1..WINDOW - 1 {
        let id = desk.multicast(near.alone(), *b"x", &options).unwrap();
        desk.own.complete(id, Timestamp(1));
        desk.own.settle(id.sender, &[id.sequence], near);
    }
    assert_eq!(desk.own.open().map(|message| message.id).collect::<Vec<_>>(), [old], "said again");
    let n_started = desk.own.started.len();
    desk.own.settle(old.sender, &[old.sequence], near);
    assert_eq!(desk.own.open().count(), 0, "who has delivered it has it");
    let refused = desk.multicast(near.alone(), *b"x", &options);
    assert_eq!(refused, Err(Refused::TooFarAhead { groups: far.alone() }));
    assert_eq!(desk.own.started.len(), n_started, "D2");
    desk.own.settle(old.sender, &[old.sequence], far);
    assert!(desk.multicast(near.alone(), *b"x", &options).is_ok());
}

#[test]
fn messages_whose_outcome_is_unknown_fill_the_window() {
    let mut desk = desk(2);
    let options = Options { patience: Duration::from_millis(10), ..Options::default() };
    let near = GroupId::at(0);
    let old = desk.multicast(near.alone(), *b"x", &options).unwrap();
    desk.now = Instant::ZERO.plus(Duration::from_millis(20));
    desk.own.sweep(desk.now);
    assert_eq!(desk.own.outcomes, [(old, Outcome::Unknown)]);
    assert!(desk.multicast(near.alone(), *b"x", &options).is_ok());
    let refused = desk.multicast(near.alone(), *b"x", &options);
    assert_eq!(refused, Err(Refused::WindowFull { window: 2 }), "it is still said again");
    desk.own.settle(old.sender, &[old.sequence], near);
    assert!(desk.multicast(near.alone(), *b"x", &options).is_ok());
}

#[test]
fn a_timestamp_at_the_end_of_time_is_refused() {
    let mut desk = desk(10);
    for after in [Timestamp(u64::MAX), Timestamp(AFTER_MAX.0 + 1)] {
        let options = Options { after, ..Options::default() };
        let refused = desk.multicast(GroupSet::all(2), *b"x", &options);
        assert_eq!(refused, Err(Refused::AfterTooHigh { after }));
    }
    let options = Options { after: AFTER_MAX, ..Options::default() };
    assert!(desk.multicast(GroupSet::all(2), *b"x", &options).is_ok());
}

#[test]
fn d2_who_has_no_seat_yet_multicasts_nothing() {
    let mut desk = desk(1);
    desk.is_seated = false;
    let dest = GroupSet::all(2);
    assert_eq!(desk.multicast(dest, *b"x", &Options::default()), Err(Refused::NoSeat));
    assert!(desk.own.started.is_empty(), "D2");
    desk.is_seated = true;
    assert!(desk.multicast(dest, *b"x", &Options::default()).is_ok());
}

#[test]
fn a_removal_is_refused_with_its_reason() {
    let mut desk = desk(1);
    for node in [0, 2] {
        assert_eq!(desk.remove(node), Err(NoRemoval::NoSuchNode { node, nodes: 1 }));
    }
    assert_eq!(desk.remove(1), Err(NoRemoval::Fixed));
    desk.changes_members = true;
    let groups = GroupSet::all(2);
    assert_eq!(desk.remove(1), Err(NoRemoval::LastMember { node: 1, groups }));
    assert!(desk.removals.is_empty());
}

#[test]
fn a_sender_names_its_node() {
    for node in Rank::all(base::FABRIC_SEATS_MAX) {
        assert_eq!(node_of_sender(sender_of(node, 3)), Some(node));
        assert_ne!(sender_of(node, 3), sender_of(node, 4));
    }
}
