//! Two ends, and a link between them that the tests break.

use super::*;
use base::verb::Unsupported;
use base::{At, Rng, Token};
use std::collections::VecDeque;

const A: Rank = Rank::at(0);
const B: Rank = Rank::at(1);

/// Carries messages one way, as long as it has room.
#[derive(Default)]
struct Wire {
    messages: VecDeque<Vec<u8>>,
    room: usize,
}

impl Port for Wire {
    fn load(&self, _: At) -> u64 {
        0
    }
    fn load_into(&self, _: At, _: &mut [u64]) {}
    fn store(&mut self, _: At, _: u64) {}
    fn write(&mut self, _: Rank, _: At, _: &[u64], _: Option<Token>) {}
    fn read(&mut self, _: Rank, _: At, _: usize, _: Token) {}
    fn cas(&mut self, _: Rank, _: At, _: u64, _: u64, _: Option<Token>) {}
    fn fetch_add(&mut self, _: Rank, _: At, _: u64, _: Option<Token>) {}
    fn send(&mut self, _: Rank, message: &[u8]) -> bool {
        let fits = self.messages.len() < self.room;
        if fits {
            self.messages.push_back(message.to_vec());
        }
        fits
    }
    fn wake(&mut self, _: Rank) {}
    fn permit_writer(&mut self, _: At, _: Option<Rank>) -> Result<(), Unsupported> {
        Ok(())
    }
}

struct Pair {
    ends: [Streams; 2],
    wires: [Wire; 2],
    got: [Vec<Vec<u8>>; 2],
}

const KEPT: usize = 1 << 20;
const BACKLOG: usize = 1 << 16;

impl Pair {
    fn new() -> Pair {
        let end = |me, life| Streams::new(me, life, KEPT, BACKLOG);
        let mut wires: [Wire; 2] = Default::default();
        wires.iter_mut().for_each(|wire| wire.room = 100);
        Pair { ends: [end(A, 7), end(B, 8)], wires, got: Default::default() }
    }

    /// A new link, on which nothing of an old one is left (the fabric's T4 and T7).
    fn up(&mut self) {
        self.wires.iter_mut().for_each(|wire| wire.messages.clear());
        self.ends[0].on_link_up(B);
        self.ends[1].on_link_up(A);
    }

    /// The link breaks, with what is on it.
    fn down(&mut self) {
        self.ends[0].on_link_down(B);
        self.ends[1].on_link_down(A);
        self.wires.iter_mut().for_each(|wire| wire.messages.clear());
    }

    /// Each end sends, then takes up to `n` messages and all records in them.
    fn turn(&mut self, n: usize, tells: bool) {
        for (at, wire) in self.wires.iter_mut().enumerate() {
            self.ends[at].send(wire, tells);
        }
        for (at, peer) in [(0, B), (1, A)] {
            for _ in 0..n {
                let Some(message) = self.wires[1 - at].messages.pop_front() else { break };
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
    pair.ends[1] = Streams::new(B, 9, KEPT, BACKLOG);
    pair.up();
    pair.settle();
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
    for _ in 0..17 {
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
    for message in std::mem::take(&mut pair.wires[0].messages) {
        pair.ends[1].receive(A, &message);
    }
    pair.ends[1].send(&mut pair.wires[1], true);
    for message in std::mem::take(&mut pair.wires[1].messages) {
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
            (*channel, *kind) = (CHANNEL, rng.below(4) as u8);
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
