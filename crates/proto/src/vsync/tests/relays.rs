//! Relayed messages, at their sender, at relays and at receivers.

use super::super::relaying::Relayed;
use super::*;
use crate::rdmc::Schedule;
use base::{At, Bulk, Parcel};

/// Four blocks of a message of 60 bytes, the last one shorter.
const N_BYTES: u32 = 60;
const BLOCK_BYTES: u32 = 16;

fn shape(schedule: Schedule) -> Shape {
    let relaying = Relaying { schedule, block_bytes: BLOCK_BYTES, least_blocks: 2 };
    Shape { message_bytes: 64, relaying, ..SHAPE }
}

/// Message `index`.
fn message(index: u64) -> Vec<u8> {
    (0..N_BYTES as u8).map(|byte| byte.wrapping_mul(7) ^ index as u8).collect()
}

const fn header(index: u64) -> Header {
    Header::Packed { number: index + 1, n_bytes: N_BYTES }
}

/// A member of a view of four, whose first member has sent messages, along a chain: its memory,
/// which has the slots of them.
struct Chain<P> {
    rows: Rows,
    current: Current<P>,
    port: Region,
}

impl<P: Plantings> Chain<P> {
    /// The member on `me`; `n_sent` messages were sent to it.
    fn at(me: usize, n_sent: u64, planted: P) -> Chain<P> {
        let mut rows = Rows::with(4, shape(Schedule::Chain));
        rows.tell(0, |row, table| table.set(row.sent, 0, n_sent));
        let current = rows.read_by(me, planted);
        let n_words = super::super::region(&rows.layout.shape).n_words as usize;
        let sender = current.lane(0).senders[0];
        let parcels = Some(Default::default());
        let mut port = Region { words: vec![0; n_words], parcels, ..Region::default() };
        for index in 0..n_sent {
            let at = rows.layout.slot_of(sender.ring, index);
            port.words[at.0 as usize] = header(index).word();
        }
        port.words[sender.named.0 as usize] = 1;
        Chain { rows, current, port }
    }

    fn at_of(&self, index: u64, block: usize) -> At {
        let ring = self.current.lane(0).senders[0].ring;
        self.rows.layout.block_of(ring, index, block)
    }

    /// A block of message `index` comes from the member on `from`, tagged with this view.
    fn come(&mut self, from: usize, (index, block): (u64, usize), view: u64) {
        let all = message(index);
        let bytes = all.chunks(BLOCK_BYTES as usize).nth(block).expect("a block");
        let parcel = Parcel { tag: view << 40 | index, bulk: Bulk::copied(bytes) };
        let at = self.at_of(index, block);
        let [_, come] = self.port.parcels.as_mut().expect("parcels are carried");
        come.push((Rank::at(from), at, parcel));
    }

    /// The number of messages of the first member that this one tells as received.
    fn received(&mut self) -> Result<u64, End> {
        let Chain { current, port, .. } = self;
        current.note_received(0, port)?;
        Ok(current.received(0, current.me, Rank::at(0)))
    }

    /// What is posted now: to which seat, of which message, which block.
    fn posted(&mut self, renewed: &[usize]) -> Vec<(usize, u64, usize)> {
        self.current.relay(set(renewed), Instant::ZERO, &mut self.port);
        let [posted, _] = self.port.parcels.as_mut().expect("parcels are carried");
        let posted = core::mem::take(posted);
        let place = |(to, at, parcel): &(Rank, At, Parcel)| {
            let (index, n_blocks) = (parcel.tag & 0xff, N_BYTES.div_ceil(BLOCK_BYTES) as usize);
            assert_eq!(parcel.tag >> 40, 1, "the view");
            let block = (0..n_blocks).find(|block| self.at_of(index, *block) == *at);
            let block = block.expect("the place of a block");
            let (all, start) = (message(index), block * BLOCK_BYTES as usize);
            assert_eq!(&*parcel.bulk, &all[start..all.len().min(start + BLOCK_BYTES as usize)]);
            (to.index(), index, block)
        };
        posted.iter().map(place).collect()
    }

    /// The row of the member on `seat` tells that it has received so many messages of the first.
    fn tell(&mut self, seat: usize, received: u64) {
        self.rows.tell(seat, |row, table| table.set(row.received, 0, received));
        self.rows.show(&mut self.current);
    }
}

/// The first blocks of message `index`, to the member on `to`.
fn blocks(to: usize, index: u64, n: usize) -> Vec<(usize, u64, usize)> {
    (0..n).map(|block| (to, index, block)).collect()
}

#[test]
fn a_sender_sends_blocks_as_the_schedule_says_and_slots_to_all() {
    let all: Vec<(usize, u64, usize)> = (1..4).flat_map(|to| blocks(to, 0, 4)).collect();
    for (schedule, n_members, expected) in [
        (Schedule::Chain, 4, Some(blocks(1, 0, 4))),
        (Schedule::BinomialTree, 4, Some([blocks(1, 0, 4), blocks(2, 0, 4)].concat())),
        (Schedule::BinomialPipeline, 4, None),
        (Schedule::Sequential, 4, Some(Vec::new())),
        (Schedule::Chain, 3, Some(Vec::new())),
    ] {
        let rows = Rows::with(n_members, shape(schedule));
        let mut sender = Chain { current: rows.read_by(0, Sound), ..Chain::at(0, 0, Sound) };
        let mut outbox = Outbox::default();
        outbox.put(Payload::packed(Bulk::copied(&message(0))));
        let is_sent = sender.current.send(0, &mut outbox, &mut unlanded(Sound), &mut sender.port);
        assert!(is_sent);
        assert!(sender.port.written.iter().all(|(_, n_words)| *n_words == 2), "heads alone");
        assert_eq!(sender.port.written.len(), n_members - 1);
        let [whole, _] = sender.port.parcels.as_mut().expect("parcels are carried");
        let whole = core::mem::take(whole);
        let is_whole = expected.as_ref().is_some_and(Vec::is_empty);
        assert_eq!(whole.len(), if is_whole { n_members - 1 } else { 0 }, "{schedule:?}");
        let posted = sender.posted(&[]);
        match expected {
            Some(expected) => assert_eq!(posted, expected, "{schedule:?}"),
            // Each block once, and one of them twice.
            None => assert!(posted.len() < 6 && posted.iter().all(|one| all.contains(one))),
        }
        let own_bytes = sender.current.relayed().own_bytes;
        let n_copies = if is_whole { n_members as u64 - 1 } else { 0 };
        let of_blocks: u64 = posted.iter().map(|one| if one.2 == 3 { 12 } else { 16 }).sum();
        assert_eq!(own_bytes, n_copies * u64::from(N_BYTES) + of_blocks);
    }
}

#[test]
fn v26_a_block_is_taken_from_the_member_that_the_schedule_names() {
    let mut third = Chain::at(2, 1, Sound);
    for block in 0..4 {
        for from in [0, 3] {
            third.come(from, (0, block), 1);
        }
    }
    assert_eq!((third.received(), third.posted(&[])), (Ok(0), vec![]));
    (0..4).for_each(|block| third.come(1, (0, block), 1));
    assert_eq!((third.received(), third.posted(&[])), (Ok(1), blocks(3, 0, 4)));
}

#[test]
fn v27_what_is_received_has_all_of_its_blocks_and_they_are_passed_on_as_they_come() {
    fn without_last<P: Plantings>(planted: P) -> Chain<P> {
        let mut third = Chain::at(2, 1, planted);
        (0..3).for_each(|block| third.come(1, (0, block), 1));
        third
    }
    let mut hasty = without_last(Planted(Bug::CountedIncomplete));
    assert_eq!(hasty.received(), Ok(1));
    let mut third = without_last(Sound);
    assert!(!third.current.owes_blocks());
    assert_eq!((third.received(), third.posted(&[])), (Ok(0), blocks(3, 0, 3)));
    assert!(third.current.owes_blocks());
    third.come(1, (0, 3), 1);
    assert_eq!((third.received(), third.posted(&[])), (Ok(1), vec![(3, 0, 3)]));
    assert!(!third.current.owes_blocks());
    let sender = third.current.lane(0).senders[0];
    let read = third.current.read_slot(&sender, 0, &third.port).ok().flatten();
    assert_eq!(read.map(|read| read.message).as_deref(), Some(&message(0)[..]));
    let relayed = Relayed { relayed_bytes: 60, n_relayed: 4, ..Relayed::default() };
    assert_eq!(third.current.relayed(), relayed);
}

#[test]
fn v27_a_block_of_another_length_is_damage() {
    let mut third = Chain::at(2, 1, Sound);
    let (at, bulk) = (third.at_of(0, 3), Bulk::copied(&[1; 16]));
    let [_, come] = third.port.parcels.as_mut().expect("parcels are carried");
    come.push((Rank::at(1), at, Parcel { tag: 1 << 40, bulk }));
    assert_eq!(third.received(), Err(End::Damaged(Rank::at(1))));
    let mut long = Chain::at(2, 1, Sound);
    let sender = long.current.lane(0).senders[0];
    let at = long.rows.layout.slot_of(sender.ring, 0);
    long.port.words[at.0 as usize] = Header::Packed { number: 1, n_bytes: 65 }.word();
    assert_eq!(long.received(), Err(End::Damaged(Rank::at(0))));
}

/// The third member of four, which has all of a message and has sent all of it on.
fn done<P: Plantings>(planted: P) -> Chain<P> {
    let mut third = Chain::at(2, 1, planted);
    (0..4).for_each(|block| third.come(1, (0, block), 1));
    assert_eq!((third.received(), third.posted(&[])), (Ok(1), blocks(3, 0, 4)));
    third
}

#[test]
fn v28_what_a_link_has_lost_is_sent_again_until_the_other_has_received_it() {
    let mut third = done(Sound);
    assert_eq!(third.posted(&[]), []);
    assert_eq!(third.posted(&[0, 1]), [], "those are no members that it sends to");
    assert_eq!(third.posted(&[3]), blocks(3, 0, 4));
    assert_eq!(third.current.relayed().n_again, 4);
    third.tell(3, 1);
    assert_eq!(third.posted(&[3]), []);
    assert!(third.current.lane(0).routed.is_idle());
    assert_eq!(done(Planted(Bug::BlocksFreed)).posted(&[3]), []);
    assert_eq!(done(Planted(Bug::BlocksLost)).posted(&[3]), []);
}

#[test]
fn v28_a_message_is_kept_until_it_is_delivered() {
    let mut third = done(Sound);
    third.rows.tell(0, |row, table| table.set(row.received, 0, 1));
    (1..4).for_each(|seat| third.tell(seat, 1));
    let (mut outbox, Chain { current, port, .. }) = (Outbox::default(), &mut third);
    let mut delivered = Vec::new();
    assert!(current.lane(0).routed.whole(0, 0).is_some());
    let take = |one: super::super::Delivery| delivered.push(one.message.to_vec());
    current.deliver_before(0, 1, &mut outbox, port, take).expect("it is here");
    assert_eq!(delivered, [message(0)]);
    assert!(current.lane(0).routed.whole(0, 0).is_none());
}

#[test]
fn v29_a_block_of_an_earlier_view_or_message_is_dropped() {
    fn late<P: Plantings>(planted: P) -> Chain<P> {
        let mut third = Chain::at(2, 1, planted);
        (0..3).for_each(|block| third.come(1, (0, block), 1));
        // (An odd view has the same places.)
        third.come(1, (0, 3), 3);
        third
    }
    let mut third = late(Sound);
    assert_eq!((third.received(), third.current.relayed().n_late), (Ok(0), 1));
    // One of the message that was in this slot before.
    third.come(1, (4, 3), 1);
    assert_eq!((third.received(), third.current.relayed().n_late), (Ok(0), 2));
    third.come(1, (0, 3), 1);
    assert_eq!(third.received(), Ok(1));
    assert_eq!(late(Planted(Bug::BlockOfAnyMessage)).received(), Ok(1));
}

#[test]
fn v30_blocks_wait_until_a_link_has_room() {
    fn without_room<P: Plantings>(planted: P) -> Chain<P> {
        let mut third = Chain::at(2, 1, planted);
        third.port.is_full = true;
        (0..4).for_each(|block| third.come(1, (0, block), 1));
        assert_eq!(third.received(), Ok(1));
        third
    }
    let mut third = without_room(Sound);
    assert_eq!(third.current.next_act_at(), Instant(u64::MAX));
    assert_eq!(third.posted(&[]), []);
    assert_eq!(third.current.next_act_at(), Instant(200_000), "it looks again");
    assert!(third.current.owes_blocks());
    third.port.is_full = false;
    assert_eq!(third.posted(&[]), blocks(3, 0, 4));
    assert_eq!(third.current.next_act_at(), Instant(u64::MAX));
    assert_eq!(without_room(Planted(Bug::RelaysUnbounded)).posted(&[]), blocks(3, 0, 4));
}

#[test]
fn v31_a_member_that_has_wedged_sends_no_block() {
    let mut third = done(Sound);
    third.current.wedge();
    assert_eq!(third.posted(&[3]), []);
}

#[test]
fn v25_blocks_that_were_not_taken_go_with_their_view() {
    let mut third = Chain::at(2, 1, Sound);
    for from in [0, 1, 3] {
        (0..4).for_each(|block| third.come(from, (0, block), 1));
    }
    third.current.let_all_go(&mut third.port);
    let [_, left] = third.port.parcels.as_ref().expect("parcels are carried");
    assert_eq!(left.len(), 0);
}

#[test]
fn v26_all_members_have_the_same_routes() {
    use super::super::routes::Routed;
    for schedule in [Schedule::Chain, Schedule::BinomialTree, Schedule::BinomialPipeline] {
        for n_members in 4..=9 {
            let shape = shape(schedule);
            let mut members: Vec<Routed> =
                (0..n_members).map(|me| Routed::new(&shape, schedule, me, n_members)).collect();
            for sender in 0..n_members {
                members[sender].put(0, &Bulk::copied(&message(0)));
                let others = (0..n_members).filter(|member| *member != sender);
                for member in others {
                    assert!(members[member].begin(sender, 0, N_BYTES as usize));
                }
                // All messages come where all members send what they have.
                while (0..n_members).any(|member| members[member].whole(sender, 0).is_none()) {
                    let before: Vec<usize> =
                        (0..n_members).map(|one| had(&members[one], sender)).collect();
                    pass_on(&mut members, sender);
                    let after: Vec<usize> =
                        (0..n_members).map(|one| had(&members[one], sender)).collect();
                    assert!(
                        after.iter().sum::<usize>() > before.iter().sum(),
                        "{schedule:?} stands still"
                    );
                }
                assert!(members.iter().all(|one| one.is_idle()), "nothing is sent twice");
                let is_right =
                    |one: &Routed| one.whole(sender, 0).is_some_and(|all| **all == message(0)[..]);
                assert!(members.iter().all(is_right));
                members.iter_mut().for_each(|one| one.forget(sender, 0));
            }
        }
    }

    /// The number of blocks that a member has.
    fn had(one: &Routed, sender: usize) -> usize {
        let mut next = 0;
        let mut n_missing = 0;
        while let Some((block, ..)) = one.missing((sender, 0), next) {
            (next, n_missing) = (block + 1, n_missing + 1);
        }
        4 - n_missing
    }

    /// Each member sends to each other what it has; the other takes it if it awaits it from there.
    fn pass_on(members: &mut [Routed], sender: usize) {
        for from in 0..members.len() {
            for to in (0..members.len()).filter(|to| *to != from) {
                let mut sent = Vec::new();
                members[from].send(
                    to,
                    |_| 0,
                    Sound,
                    |one| {
                        sent.push((one.block, one.bulk.clone()));
                        true
                    },
                );
                for (block, bulk) in sent {
                    let awaited = members[to].missing((sender, 0), block);
                    assert_eq!(awaited, Some((block, from, bulk.len())));
                    members[to].take((sender, 0), block, bulk);
                }
            }
        }
    }
}
