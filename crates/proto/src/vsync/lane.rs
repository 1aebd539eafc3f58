//! A member's own shard of one subgroup, in one view.

use super::Config;
use super::bugs::Plantings;
use super::clock::{Frontier, Time};
use super::heard::Heard;
use super::journal::Record;
use super::layout::Layout;
use super::lease::Answers;
use super::order::RoundRobin;
use super::order::Standing;
use super::payload::Payload;
use super::routes::Routed;
use super::shard::ShardId;
use super::view::{Knock, View};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use base::{At, Rank, SeatSet};

/// See the module's text.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) id: ShardId,
    /// The members of the shard, by their standing there. (Those that multicast have turns.)
    pub(super) senders: Vec<Sender>,
    /// Their seats.
    pub(super) seats: SeatSet,
    /// This member's standing.
    pub(super) turn: Standing,
    pub(super) order: RoundRobin,
    /// Whether the view and the subgroup have enough members.
    pub(super) is_adequate: bool,
    /// What was heard in this shard, in this view and before.
    pub(super) heard: Heard,
    /// The time of the last message that was delivered (K3).
    pub(super) time: Time,
    pub(super) frontier: Frontier,
    /// When this member may answer (`lease`).
    pub(super) answers: Answers,
    /// The length of the order that was put into the log (`durable`), and the time of its end.
    pub(super) logged: u64,
    pub(super) logged_time: Time,
    /// Lengths of the order that are not told as persisted yet, each with its last record.
    pub(super) marks: VecDeque<(u64, Record)>,
    /// The last records at which messages were put that are not delivered yet, with the length
    /// before each.
    pub(super) open: VecDeque<(u64, Record)>,
    /// By turn, the messages in landing areas and parcels that this member holds, each with its
    /// index.
    landed: Vec<VecDeque<(u64, Payload)>>,
    /// What this member has of relayed messages (`relay`).
    pub(super) routed: Routed,
}

/// A member of a shard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sender {
    pub(super) process: Knock,
    pub(super) turn: Standing,
    pub(super) subgroup: usize,
    /// The place of its messages.
    pub(super) ring: At,
    /// The word that names the view in which these are (`sst`, S6).
    pub(super) named: At,
}

impl Lane {
    /// The lane of `config`'s process for its shard of `subgroup`, if it is in one.
    pub(super) fn of(
        view: &View,
        layout: &Layout,
        config: &Config,
        subgroup: usize,
        planted: impl Plantings,
    ) -> Option<Lane> {
        let me = config.me.seat;
        let id = view.shard_of(me, subgroup)?;
        let shard = view.shard(id)?;
        let seats = &shard.seats;
        let sender = |(turn, seat): (u16, &Rank)| {
            let process = view.member(*seat).expect("L2: a shard has members alone").process;
            let ring = layout.ring_of(*seat, view.id.0, subgroup, planted);
            let named = layout.named_of(*seat, view.id.0, planted);
            Sender { process, turn: Standing(turn), subgroup, ring, named }
        };
        let turn = seats.iter().position(|seat| *seat == me)?;
        Some(Lane {
            id,
            senders: (0..).zip(seats).map(sender).collect(),
            seats: seats.iter().copied().collect(),
            turn: Standing(turn as u16),
            order: shard.order(),
            is_adequate: view.members.len() >= config.n_adequate
                && view.roster[subgroup].is_adequate,
            heard: Heard::default(),
            time: view.time,
            frontier: Frontier::default(),
            answers: Answers::Free,
            logged: 0,
            logged_time: view.time,
            marks: VecDeque::new(),
            open: VecDeque::new(),
            landed: seats.iter().map(|_| VecDeque::new()).collect(),
            routed: Routed::new(&layout.shape, config.schedule(subgroup), turn, seats.len()),
        })
    }

    /// Notes that the next position is in the log, in this record; a null is in none.
    pub(super) fn note_logged(&mut self, record: Option<Record>) {
        let last = self.marks.back().map_or(Record(0), |(_, record)| *record);
        let mark = record.unwrap_or(last);
        // (Positions of one record, or of none, are told together.)
        self.marks.pop_back_if(|(_, of)| *of == mark);
        self.marks.push_back((self.logged, mark));
        self.open.extend(record.map(|record| (self.logged - 1, record)));
    }

    /// The first record of a message from position `delivered` on; `next` if no such record exists.
    pub(super) fn first_open(&mut self, delivered: u64, next: Record) -> Record {
        while self.open.pop_front_if(|(at, _)| *at < delivered).is_some() {}
        self.open.front().map_or(next, |(_, record)| *record)
    }

    /// Keeps a message of a sender that this member has received (`landing`, V20; `packed`, V24).
    pub(super) fn hold(&mut self, turn: Standing, index: u64, message: Payload) {
        self.landed[turn.index()].push_back((index, message));
    }

    /// The message of a sender with this index that this member holds.
    pub(super) fn held(&self, turn: Standing, index: u64) -> Option<&Payload> {
        let landed = &self.landed[turn.index()];
        let at = landed.binary_search_by_key(&index, |(index, _)| *index).ok()?;
        Some(&landed[at].1)
    }

    /// Releases what it holds of a sender up to an index, whose message is delivered.
    pub(super) fn let_go(&mut self, turn: Standing, index: u64) {
        while self.landed[turn.index()].pop_front_if(|(at, _)| *at <= index).is_some() {}
        self.routed.forget(turn.index(), index);
    }

    /// Releases all that it holds.
    pub(super) fn let_all_go(&mut self) {
        self.landed.iter_mut().for_each(VecDeque::clear);
        self.routed.forget_all();
    }

    /// The column words and sets of this lane are those of this subgroup.
    pub(super) const fn subgroup(&self) -> usize {
        self.id.subgroup as usize
    }
}
