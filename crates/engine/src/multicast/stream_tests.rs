//! Two ends, and a link between them that the tests break.

use super::*;
use crate::mock::Wire;
use base::Rng;
use proto::planted::Planted;

#[path = "stream/left_tests.rs"]
mod left;

const A: Rank = Rank::at(0);
const B: Rank = Rank::at(1);

/// The first message on its way.
fn first(wire: &mut Wire) -> Option<Vec<u8>> {
    let queue = wire.sent.iter_mut().find(|queue| !queue.is_empty())?;
    Some(queue.remove(0))
}

fn clear(wires: &mut [Wire; 2]) {
    wires.iter_mut().flat_map(|wire| &mut wire.sent).for_each(Vec::clear);
}

struct Pair {
    ends: [Streams; 2],
    wires: [Wire; 2],
    got: [Vec<Vec<u8>>; 2],
}

const KEPT: usize = 1 << 20;
const BACKLOG: usize = 1 << 16;

/// A founder.
fn who(life: u64, disk: u64) -> Who {
    Who { incarnation: FOUNDER, life, disk }
}

impl Pair {
    fn new() -> Pair {
        let end = |me, life| Streams::new(me, 2, who(life, 0), (KEPT, BACKLOG), Sound);
        let mut wires: [Wire; 2] = Default::default();
        wires.iter_mut().for_each(|wire| wire.room = 100);
        Pair { ends: [end(A, 7), end(B, 8)], wires, got: Default::default() }
    }

    /// Makes a new link, on which nothing of an old one is left (the fabric's T4 and T7).
    fn up(&mut self) {
        clear(&mut self.wires);
        self.ends[0].on_link_up(B);
        self.ends[1].on_link_up(A);
    }

    /// Breaks the link, with the bytes on it.
    fn down(&mut self) {
        self.ends[0].on_link_down(B);
        self.ends[1].on_link_down(A);
        clear(&mut self.wires);
    }

    /// Links another life of B, with this name and this disk.
    fn next_life_of_b(&mut self, life: u64, disk: u64) {
        self.ends[1] = Streams::new(B, 2, who(life, disk), (KEPT, BACKLOG), Sound);
        self.up();
        self.settle();
    }

    /// Has this process speak for B on a new link.
    fn b_is(&mut self, incarnation: u64, life: u64) {
        let who = Who { incarnation: Incarnation(incarnation), life, disk: 0 };
        self.down();
        self.ends[1] = Streams::new(B, 2, who, (KEPT, BACKLOG), Sound);
        self.up();
        self.settle();
    }

    fn said(&mut self, at: usize) -> Vec<String> {
        let got = std::mem::take(&mut self.got[at]);
        got.iter().map(|one| String::from_utf8_lossy(one).into_owned()).collect()
    }

    /// Has each end send, then take up to `n` messages and all records in them.
    fn turn(&mut self, n: usize, tells: bool) {
        for (at, wire) in self.wires.iter_mut().enumerate() {
            self.ends[at].send(wire, tells);
        }
        for (at, peer) in [(0, B), (1, A)] {
            for _ in 0..n {
                let Some(message) = first(&mut self.wires[1 - at]) else { break };
                self.ends[at].receive(peer, &message);
            }
            self.hand_up(at, peer);
        }
    }

    fn hand_up(&mut self, at: usize, peer: Rank) {
        let mut input = self.ends[at].take_input(peer);
        while let Some(record) = input.next().expect("whole records") {
            self.got[at].push(input.bytes(record).to_vec());
        }
        self.ends[at].put_input(peer, input);
    }

    fn settle(&mut self) {
        for _ in 0..200 {
            self.turn(100, true);
        }
    }
}

#[test]
fn s1_records_survive_broken_links_in_order_and_once() {
    for seed in 0..40 {
        let (mut pair, mut rng) = (Pair::new(), Rng::new(seed));
        let mut said: [Vec<Vec<u8>>; 2] = Default::default();
        for step in 0..400_u64 {
            match rng.below(12) {
                0 => pair.down(),
                1 | 2 => pair.up(),
                3 => pair.wires.iter_mut().for_each(|wire| wire.room = rng.below(4) as usize),
                4..8 => {
                    let at = rng.below(2) as usize;
                    let record: Vec<u8> = (0..rng.below(700)).map(|i| (step + i) as u8).collect();
                    let (head, body) = record.split_at(record.len().min(3));
                    pair.ends[at].push(if at == 0 { B } else { A }, head, body);
                    said[at].push(record);
                }
                _ => pair.turn(rng.below(5) as usize, rng.chance(1, 2)),
            }
        }
        pair.wires.iter_mut().for_each(|wire| wire.room = 100);
        pair.down();
        pair.up();
        pair.settle();
        assert!(pair.got[1] == said[0] && pair.got[0] == said[1], "S1, seed {seed}");
        assert!(!pair.ends[0].is_pending() && pair.ends[0].peers[1].kept() == 0);
    }
}

#[test]
fn s2_a_successor_is_not_listened_to() {
    let mut pair = Pair::new();
    pair.up();
    pair.settle();
    pair.down();
    pair.next_life_of_b(9, 0);
    assert_eq!(pair.ends[0].ended(B), Some(End::Replaced));
    pair.ends[1].push(A, b"I", b" am new");
    pair.settle();
    assert!(pair.got[0].is_empty());
}

#[test]
fn s3_who_lags_too_far_is_given_up_and_told() {
    let mut pair = Pair::new();
    pair.up();
    pair.settle();
    pair.down();
    let record = vec![0; 1 << 16];
    for _ in 0..18 {
        pair.ends[0].push(B, &[], &record);
    }
    assert_eq!(pair.ends[0].ended(B), Some(End::LeftBehind));
    assert_eq!(pair.ends[1].left_by(), None);
    pair.up();
    pair.settle();
    assert_eq!(pair.ends[1].left_by(), Some(A));
}

#[test]
fn s4_a_peer_that_hands_nothing_up_holds_its_senders_up() {
    let mut pair = Pair::new();
    pair.up();
    pair.settle();
    let record = vec![0; BACKLOG / 4];
    for _ in 0..5 {
        pair.ends[0].push(B, &[], &record);
    }
    pair.ends[0].send(&mut pair.wires[0], false);
    for message in pair.wires[0].take(B) {
        pair.ends[1].receive(A, &message);
    }
    pair.ends[1].send(&mut pair.wires[1], true);
    for message in pair.wires[1].take(A) {
        pair.ends[0].receive(B, &message);
    }
    assert!(pair.ends[0].is_behind(B), "received is not dealt with");
    pair.ends[0].on_failed(B);
    assert!(!pair.ends[0].is_behind(B), "the dead hold nobody up");
    pair.settle();
    assert!(!pair.ends[0].is_behind(B));
    assert_eq!(pair.got[1].len(), 5);
}

#[test]
fn garbage_ends_the_peer_and_panics_nowhere() {
    let mut rng = Rng::new(3);
    for _ in 0..500 {
        let mut pair = Pair::new();
        pair.up();
        pair.settle();
        let mut message: Vec<u8> = (0..rng.below(40)).map(|_| rng.next_u64() as u8).collect();
        if let [channel, kind, ..] = message.as_mut_slice() {
            (*channel, *kind) = (CHANNEL, rng.below(5) as u8);
        }
        pair.ends[0].receive(B, &message);
        let mut input = pair.ends[0].take_input(B);
        while let Ok(Some(_)) = input.next() {}
        pair.ends[0].put_input(B, input);
    }
    let mut pair = Pair::new();
    pair.up();
    pair.settle();
    pair.ends[0].receive(B, b"hello?");
    assert_eq!(pair.ends[0].ended(B), Some(End::Garbled));
}

/// Two ends with disks.
fn durable() -> Pair {
    let mut pair = Pair::new();
    pair.ends = [(A, 7, 70), (B, 8, 80)]
        .map(|(me, life, disk)| Streams::new(me, 2, who(life, disk), (KEPT, BACKLOG), Sound));
    pair
}

fn release_all(pair: &mut Pair) {
    for end in &mut pair.ends {
        let marks = end.marks();
        end.release(&marks);
    }
}

#[test]
fn s2_the_next_life_on_the_same_disk_begins_anew() {
    let mut pair = durable();
    pair.up();
    pair.settle();
    for body in [b"1", b"2"] {
        pair.ends[0].push(B, b"to B ", body);
        pair.ends[1].push(A, b"to A ", body);
    }
    release_all(&mut pair);
    pair.settle();
    pair.down();
    pair.ends[0].push(B, b"under", b" way");
    let earlier = pair.ends[0].life(B);
    pair.next_life_of_b(9, 80);
    assert_eq!(pair.ends[0].take_renewed().iter().collect::<Vec<_>>(), [B]);
    assert!(pair.ends[0].life(B) == Some(9) && earlier != Some(9), "R1 goes by it");
    pair.ends[0].push(B, b"to B", b" again");
    pair.ends[1].push(A, b"to A", b" again");
    release_all(&mut pair);
    pair.settle();
    let got = |at: usize| pair.got[at].iter().map(|one| String::from_utf8_lossy(one));
    assert_eq!(got(0).collect::<Vec<_>>(), ["to A 1", "to A 2", "to A again"]);
    assert_eq!(got(1).collect::<Vec<_>>(), ["to B 1", "to B 2", "to B again"]);
    // Another disk under the same name has forgotten the promises.
    pair.down();
    pair.next_life_of_b(10, 81);
    assert_eq!(pair.ends[0].ended(B), Some(End::Replaced));
}

#[test]
fn s2_a_disk_that_an_earlier_life_knew_is_the_only_one() {
    let mut pair = durable();
    let mut disks: Vec<u64> = pair.ends[0].disks().collect();
    disks[B.index()] = 99;
    pair.ends[0].know_disks(&disks);
    pair.up();
    pair.settle();
    assert_eq!(pair.ends[0].ended(B), Some(End::Replaced));
}

#[test]
fn s3_one_record_longer_than_what_is_kept_gives_nobody_up() {
    let mut pair = Pair::new();
    pair.up();
    pair.settle();
    let long = vec![7; 3 << 20];
    pair.ends[0].push(B, b"long", &long);
    pair.ends[0].push(B, b"and", b" more, before it has taken that");
    pair.ends[0].push(B, b"and", b" more");
    assert_eq!(pair.ends[0].ended(B), None);
    for _ in 0..100 {
        pair.settle();
    }
    assert_eq!(pair.got[1].iter().map(Vec::len).collect::<Vec<_>>(), [long.len() + 4, 34, 8]);
    // Two of them are more than one.
    (0..2).for_each(|_| pair.ends[0].push(B, b"long", &long));
    assert_eq!(pair.ends[0].ended(B), None);
    pair.ends[0].push(B, b"and", b" more");
    assert_eq!(pair.ends[0].ended(B), Some(End::LeftBehind));
}

#[test]
fn s3_who_was_given_up_is_spoken_to_in_its_next_life() {
    let mut pair = durable();
    pair.up();
    pair.settle();
    pair.down();
    let record = vec![0; 1 << 16];
    for _ in 0..18 {
        pair.ends[0].push(B, &[], &record);
    }
    assert_eq!(pair.ends[0].ended(B), Some(End::LeftBehind));
    pair.up();
    pair.settle();
    assert_eq!(pair.ends[1].left_by(), Some(A), "the same life has a gap");
    pair.down();
    pair.next_life_of_b(9, 80);
    assert_eq!((pair.ends[1].left_by(), pair.ends[0].ended(B)), (None, None));
    pair.ends[0].push(B, b"wel", b"come");
    release_all(&mut pair);
    pair.settle();
    assert_eq!(pair.got[1], [b"welcome"]);
}

#[test]
fn s5_nothing_leaves_before_it_is_released() {
    let mut pair = durable();
    pair.up();
    pair.settle();
    pair.ends[0].push(B, b"fir", b"st");
    let marks = pair.ends[0].marks();
    pair.ends[0].push(B, b"sec", b"ond");
    pair.settle();
    assert!(pair.got[1].is_empty() && pair.ends[0].holds(), "S5");
    pair.ends[0].release(&marks);
    pair.settle();
    assert_eq!(pair.got[1], [b"first"]);
    // A mark of a stream that has started again does not apply to the new one.
    pair.down();
    pair.ends[1] = Streams::new(B, 2, who(9, 80), (KEPT, BACKLOG), Sound);
    let marks = pair.ends[0].marks();
    pair.up();
    pair.settle();
    pair.ends[0].push(B, b"th", b"ird");
    pair.ends[0].release(&marks);
    pair.settle();
    assert!(pair.got[1].len() == 1 && pair.ends[0].holds(), "S5");
}

/// Two founders that are linked, of which A accepts newcomers.
fn founded() -> Pair {
    let mut pair = Pair::new();
    pair.ends[0].take_newcomers();
    pair.up();
    pair.settle();
    pair
}

#[test]
fn s6_a_higher_incarnation_begins_anew_and_nothing_of_the_one_before_is_taken() {
    let mut pair = founded();
    pair.ends[1].push(A, b"of the ", b"founder");
    pair.ends[1].send(&mut pair.wires[1], false);
    for message in pair.wires[1].take(A) {
        pair.ends[0].receive(B, &message); // and nothing is handed up yet
    }
    pair.ends[0].push(B, b"for the ", b"founder");
    pair.b_is(5, 9);
    assert_eq!(pair.ends[0].take_met().iter().collect::<Vec<_>>(), [B]);
    assert_eq!(pair.ends[0].take_renewed().iter().collect::<Vec<_>>(), [B]);
    assert_eq!(pair.ends[0].incarnation(B), Incarnation(5));
    pair.ends[0].push(B, b"for the ", b"next");
    pair.ends[1].push(A, b"of the ", b"next");
    pair.settle();
    assert_eq!(
        (pair.said(0), pair.said(1)),
        (vec!["of the next".into()], vec!["for the next".into()])
    );
    // Another link to the same process is not news.
    pair.down();
    pair.up();
    pair.settle();
    assert!(pair.ends[0].take_met().is_empty() && pair.ends[0].take_renewed().is_empty(), "S6");
}

#[test]
fn s6_a_lower_incarnation_is_refused_and_told() {
    let mut pair = founded();
    pair.b_is(5, 9);
    let next =
        std::mem::replace(&mut pair.ends[1], Streams::new(B, 2, who(8, 0), (KEPT, BACKLOG), Sound));
    // The founder was cut off, and has not died.
    pair.down();
    pair.up();
    pair.ends[0].push(B, b"for the ", b"next");
    pair.ends[1].push(A, b"of the ", b"founder");
    pair.settle();
    assert!(pair.got[0].is_empty() && pair.got[1].is_empty(), "S6");
    assert_eq!(pair.ends[1].refused_by(), Some((A, Refusal::Outdated)));
    assert_eq!((pair.ends[0].ended(B), pair.ends[0].incarnation(B)), (None, Incarnation(5)));
    // It does no harm: bytes sent meanwhile wait for the process that was met last.
    pair.down();
    pair.ends[1] = next;
    pair.up();
    pair.settle();
    assert_eq!(pair.said(1), ["for the next"]);
}

#[test]
fn s6_an_equal_incarnation_of_another_process_is_refused_and_a_higher_one_is_taken() {
    let mut pair = founded();
    pair.b_is(5, 9);
    pair.b_is(5, 10);
    assert_eq!(pair.ends[1].refused_by(), Some((A, Refusal::Forgetful)));
    pair.ends[1].push(A, b"of the ", b"double");
    pair.settle();
    assert_eq!((pair.said(0), pair.ends[0].ended(B)), (Vec::new(), Some(End::Replaced)));
    pair.b_is(6, 11);
    pair.ends[0].push(B, b"wel", b"come");
    pair.settle();
    assert_eq!((pair.said(1), pair.ends[1].refused_by()), (vec!["welcome".into()], None));
}

#[test]
fn s6_who_was_given_up_is_spoken_to_as_another_incarnation() {
    let mut pair = founded();
    pair.down();
    let record = vec![0; 1 << 16];
    for _ in 0..18 {
        pair.ends[0].push(B, &[], &record);
    }
    assert_eq!(pair.ends[0].ended(B), Some(End::LeftBehind));
    pair.b_is(5, 9);
    assert_eq!((pair.ends[1].left_by(), pair.ends[0].ended(B)), (None, None));
    pair.ends[0].push(B, b"wel", b"come");
    pair.settle();
    assert_eq!(pair.said(1), ["welcome"]);
}

#[test]
fn s6_where_members_are_kept_no_newcomer_is_listened_to() {
    let mut pair = Pair::new();
    pair.up();
    pair.settle();
    pair.b_is(5, 9);
    assert_eq!(pair.ends[1].refused_by(), Some((A, Refusal::Unwanted)));
    pair.ends[1].push(A, b"may ", b"I?");
    pair.settle();
    assert!(pair.got[0].is_empty() && pair.ends[0].take_met().is_empty());
}

#[test]
fn s7_late_bytes_of_an_earlier_incarnation_are_dropped() {
    let mut pair = founded();
    pair.ends[1].push(A, b"too ", b"late");
    pair.ends[1].send(&mut pair.wires[1], false);
    let late = pair.wires[1].take(A);
    assert_eq!(late.len(), 1);
    pair.b_is(5, 9);
    // Both streams begin at byte 0: the numbers alone would let the frame pass.
    for message in late {
        pair.ends[0].receive(B, &message);
    }
    pair.ends[1].push(A, b"in ", b"time");
    pair.settle();
    assert_eq!((pair.said(0), pair.ends[0].ended(B)), (vec!["in time".into()], None));
}

#[test]
fn what_was_written_before_anybody_was_met_waits_for_whoever_comes_first() {
    let mut pair = Pair::new();
    pair.ends[0].take_newcomers();
    pair.ends[0].push(B, b"who is ", b"there?");
    pair.b_is(5, 9);
    assert_eq!(pair.said(1), ["who is there?"]);
    assert_eq!(pair.ends[0].take_met().iter().collect::<Vec<_>>(), [B]);
}

#[test]
fn s3_a_planted_bug_gives_a_peer_up_for_one_record() {
    let planted = Planted(Bug::GivenUpForOne);
    let mut ends = Streams::new(A, 2, who(7, 0), (KEPT, BACKLOG), planted);
    ends.push(B, b"long", &vec![7; 3 << 20]);
    assert_eq!(ends.ended(B), None);
    ends.push(B, b"and", b" more");
    assert_eq!(ends.ended(B), Some(End::LeftBehind));
}

#[test]
fn s6_a_planted_bug_listens_to_a_lower_incarnation() {
    let hello = |incarnation: u64, life: u64| {
        let words = [incarnation, life, 0, 0, 0].map(u64::to_le_bytes).concat();
        [&[CHANNEL, HELLO][..], &words].concat()
    };
    fn heard<P: Planting<Bug>>(planted: P, hellos: [Vec<u8>; 2]) -> Incarnation {
        let mut ends = Streams::new(A, 2, who(7, 0), (KEPT, BACKLOG), planted);
        ends.take_newcomers();
        for hello in hellos {
            ends.on_link_up(B);
            assert!(!ends.receive(B, &hello));
        }
        ends.incarnation(B)
    }
    let hellos = || [hello(5, 9), hello(1, 8)];
    assert_eq!(heard(Sound, hellos()), Incarnation(5));
    assert_eq!(heard(Planted(Bug::OutdatedHeard), hellos()), Incarnation(1));
}

#[test]
fn s1_a_planted_bug_hands_a_record_up_again_when_its_link_is_back() {
    fn handed_up<P: Planting<Bug>>(planted: P) -> usize {
        let mut ends = [
            Streams::new(A, 2, who(7, 0), (KEPT, BACKLOG), planted),
            Streams::new(B, 2, who(8, 0), (KEPT, BACKLOG), planted),
        ];
        let mut wires: [Wire; 2] = Default::default();
        ends[0].push(B, b"a ", b"record");
        let mut n = 0;
        for _ in 0..2 {
            // The link is there, and breaks when everything is said.
            ends[0].on_link_up(B);
            ends[1].on_link_up(A);
            for _ in 0..4 {
                ends[0].send(&mut wires[0], false);
                ends[1].send(&mut wires[1], false);
                for bytes in wires[0].take(B) {
                    ends[1].receive(A, &bytes);
                }
                for bytes in wires[1].take(A) {
                    ends[0].receive(B, &bytes);
                }
                let mut input = ends[1].take_input(A);
                while input.next().expect("whole records").is_some() {
                    n += 1;
                }
                ends[1].put_input(A, input);
            }
            ends[0].on_link_down(B);
            ends[1].on_link_down(A);
        }
        n
    }
    assert_eq!(handed_up(Sound), 1);
    assert_eq!(handed_up(Planted(Bug::HandedTwice)), 2);
}
