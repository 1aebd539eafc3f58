//! A member's own shard of one subgroup, in one view.

use super::bugs::Plantings;
use super::heard::Heard;
use super::layout::Layout;
use super::order::RoundRobin;
use super::shard::{Shard, ShardId};
use super::view::{Knock, Standing, View};
use alloc::vec::Vec;
use base::{At, Rank, SeatSet};

/// See the module's text.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) id: ShardId,
    /// The members of the shard, in the order of their turns.
    pub(super) senders: Vec<Sender>,
    /// Their seats.
    pub(super) seats: SeatSet,
    /// This member's turn.
    pub(super) turn: Standing,
    pub(super) order: RoundRobin,
    /// Whether the subgroup has enough members.
    pub(super) is_adequate: bool,
    /// What was heard in this shard, in this view and before.
    pub(super) heard: Heard,
}

/// A member of a shard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sender {
    pub(super) process: Knock,
    /// The place of its messages.
    pub(super) ring: At,
}

impl Lane {
    /// The lane of the member on `me` for its shard of `subgroup`, if it is in one.
    pub(super) fn of(
        view: &View,
        layout: &Layout,
        me: Rank,
        subgroup: usize,
        planted: impl Plantings,
    ) -> Option<Lane> {
        let id = view.shard_of(me, subgroup)?;
        let Shard { seats, .. } = view.shard(id)?;
        let sender = |seat: &Rank| {
            let process = view.member(*seat).expect("L2: a shard has members alone").process;
            Sender { process, ring: layout.ring_of(*seat, view.id.0, subgroup, planted) }
        };
        let turn = seats.iter().position(|seat| *seat == me)?;
        Some(Lane {
            id,
            senders: seats.iter().map(sender).collect(),
            seats: seats.iter().copied().collect(),
            turn: Standing(turn as u16),
            order: RoundRobin::new(seats.len()),
            is_adequate: view.roster[subgroup].is_adequate,
            heard: Heard::default(),
        })
    }

    /// The column words and sets of this lane are those of this subgroup.
    pub(super) const fn subgroup(&self) -> usize {
        self.id.subgroup as usize
    }
}
