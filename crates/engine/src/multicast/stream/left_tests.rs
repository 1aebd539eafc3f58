//! Peers that were given up, and what they are told.

use super::*;

/// Has `at` keep more for the other end than it may.
fn give_up(pair: &mut Pair, at: usize) {
    let record = vec![0; 1 << 16];
    let to = [B, A][at];
    (0..18).for_each(|_| pair.ends[at].push(to, &[], &record));
    assert_eq!(pair.ends[at].ended(to), Some(End::LeftBehind));
}

#[test]
fn s9_of_two_that_have_given_each_other_up_without_a_link_one_stops() {
    let mut pair = Pair::new();
    pair.up();
    pair.settle();
    pair.down();
    (0..2).for_each(|at| give_up(&mut pair, at));
    // The fabric takes a message without a link, and loses it.
    (0..2).for_each(|at| pair.ends[at].send(&mut pair.wires[at], true));
    pair.up();
    pair.settle();
    assert_eq!((pair.ends[0].left_by(), pair.ends[1].left_by()), (None, Some(A)));
}

/// The ends that are told to stop when a link between two comes that have not met a process of each
/// other, and have given each other up.
fn told_of_two_that_never_met(knows_disks: bool) -> [Option<Rank>; 2] {
    let mut pair = if knows_disks { durable() } else { Pair::new() };
    if knows_disks {
        pair.ends.iter_mut().for_each(|end| end.know_disks(&[70, 80]));
    }
    (0..2).for_each(|at| give_up(&mut pair, at));
    pair.up();
    pair.settle();
    [pair.ends[0].left_by(), pair.ends[1].left_by()]
}

#[test]
fn s9_of_two_that_never_met_and_have_given_each_other_up_one_stops() {
    assert_eq!(told_of_two_that_never_met(false), [None, Some(A)]);
    assert_eq!(told_of_two_that_never_met(true), [None, Some(A)], "with disks");
}

/// The word to a process that was never met names no life: one that has given nothing up is met by
/// its HELLO.
#[test]
fn s9_a_word_without_a_life_stops_no_process_that_has_not_given_its_sender_up() {
    let mut pair = Pair::new();
    give_up(&mut pair, 0);
    pair.ends[0].on_link_up(B);
    pair.ends[1].on_link_up(A);
    pair.ends[0].send(&mut pair.wires[0], false);
    for message in pair.wires[0].take(B) {
        pair.ends[1].receive(A, &message);
    }
    assert_eq!((pair.ends[1].left_by(), pair.ends[1].ended(A)), (None, None));
    pair.settle();
    assert_eq!(pair.ends[1].left_by(), Some(A), "its life is known now");
}

/// B is given up before A has met a process of it, which then comes and has met this life of A, or
/// none.
fn is_told_though_it_was_never_met(of: u64) -> bool {
    let mut pair = durable();
    let disks = [70, 80];
    pair.ends[0].know_disks(&disks);
    give_up(&mut pair, 0);
    pair.ends[0].on_link_up(B);
    let hello = [FOUNDER.0, 8, 80, of, 0].map(u64::to_le_bytes).concat();
    pair.ends[0].receive(B, &[&[CHANNEL, HELLO][..], &hello].concat());
    pair.ends[0].send(&mut pair.wires[0], false);
    let is_renewed = pair.ends[0].take_renewed().contains(B);
    assert_eq!(is_renewed, pair.ends[0].ended(B).is_none());
    pair.wires[0].take(B).iter().any(|message| message.starts_with(&[CHANNEL, LEFT]))
}

#[test]
fn s3_who_begins_after_it_was_given_up_is_not_told() {
    assert!(!is_told_though_it_was_never_met(0), "its bytes were dropped before its life");
    assert!(
        is_told_though_it_was_never_met(6),
        "it knew an earlier life, and lacks what it missed"
    );
}

#[test]
fn s6_an_incarnation_that_comes_after_the_first_was_given_up_is_not_told() {
    let mut pair = Pair::new();
    pair.ends[0].take_newcomers();
    give_up(&mut pair, 0);
    pair.b_is(5, 9);
    assert_eq!((pair.ends[1].left_by(), pair.ends[0].ended(B)), (None, None));
    pair.ends[0].push(B, b"wel", b"come");
    pair.settle();
    assert_eq!(pair.said(1), ["welcome"]);
}
