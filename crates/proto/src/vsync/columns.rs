//! The row of a member: its columns, in the order of knowledge (`sst`, S1).
//!
//! ```text
//! sent        messages and nulls in the owner's rings            guards the rings
//! received    for each seat, how many of its messages the owner holds without a gap
//! persisted   the lengths of the orders that the owner's disk holds    (durable groups)
//! delivered   the lengths of the orders that the owner has delivered
//! clock       the owner's clock: later messages have later stamps      guards `sent`
//! seen        the latest time that the owner knows of, once it has wedged
//! beat        a counter that rises while the owner runs
//! heard       for each seat, the last of its beats that the owner had seen (with leases)
//! leaving     the owner asked to leave
//! ready       the owner has the state of its shard
//! wedged      the owner sends and receives nothing more          guards all above
//! joiners     for each seat, the process that joins there
//! ends        sets of seats: removed, left, joined; the next view's time; bearers, trims
//! proposer    1 + standing of the leader whose change this is    guards joiners and ends
//! committed   the change is decided                              guards proposer
//! suspected   seats that the owner suspects                      a promise, see `change`
//! view        (the table's own, behind all)
//! ```
//! `sent`, `received`, `persisted`, `delivered` and `ready` are there once for each subgroup: a
//! *lane* of the row, which belongs to the owner's shard of that subgroup. Of those with a state
//! there is a set for each subgroup, and a trim for each shard.

use super::clock::Time;
use super::order::Standing;
use super::view::{Change, Knock, METADATA_WORDS};
use crate::planted::Planting;
use crate::sst::{Column, Columns, Kind, Table, bugs};
use alloc::vec::Vec;
use base::{Incarnation, Rank, SeatSet};
use core::ops::Range;

/// The words of one joiner: its incarnation, and its metadata.
const JOINER_WORDS: usize = 1 + METADATA_WORDS;

/// Handles of all columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    n_seats: usize,
    n_subgroups: usize,
    n_shards: usize,
    pub(super) sent: Column,
    pub(super) received: Column,
    pub(super) persisted: Column,
    pub(super) delivered: Column,
    pub(super) clock: Column,
    pub(super) seen: Column,
    pub(super) beat: Column,
    pub(super) heard: Column,
    pub(super) leaving: Column,
    pub(super) ready: Column,
    pub(super) wedged: Column,
    joiners: Column,
    ends: Column,
    pub(super) proposer: Column,
    pub(super) committed: Column,
    pub(super) suspected: Column,
}

/// Words of the column `ends`.
const REMOVED: usize = 0;
const LEFT: usize = 1;
const JOINED: usize = 2;
const TIME: usize = 3;
const BEARERS: usize = 4;

impl Row {
    /// Declares the columns of a row among so many seats, subgroups and shards.
    pub(super) fn declare(
        columns: &mut Columns,
        [n_seats, n_subgroups, n_shards]: [usize; 3],
    ) -> Row {
        use Kind::{Growing, Guarded, Rising};
        Row {
            n_seats,
            n_subgroups,
            n_shards,
            sent: columns.declare(Rising, n_subgroups),
            received: columns.declare(Rising, n_subgroups * n_seats),
            persisted: columns.declare(Rising, n_subgroups),
            delivered: columns.declare(Rising, n_subgroups),
            clock: columns.declare(Rising, 1),
            seen: columns.declare(Rising, 1),
            beat: columns.declare(Rising, 1),
            heard: columns.declare(Rising, n_seats),
            leaving: columns.declare(Rising, 1),
            ready: columns.declare(Rising, n_subgroups),
            wedged: columns.declare(Rising, 1),
            joiners: columns.declare(Guarded, n_seats * JOINER_WORDS),
            ends: columns.declare(Guarded, BEARERS + n_subgroups + n_shards),
            proposer: columns.declare(Rising, 1),
            committed: columns.declare(Rising, 1),
            suspected: columns.declare(Growing, 1),
        }
    }

    /// The place of the trim of a shard in `ends`.
    const fn trim(&self, shard: usize) -> usize {
        BEARERS + self.n_subgroups + shard
    }

    /// The places in `received` of a lane.
    pub(super) const fn lane(&self, subgroup: usize) -> Range<usize> {
        subgroup * self.n_seats..(subgroup + 1) * self.n_seats
    }

    /// The place in `received` of what was received of `sender` in a lane.
    pub(super) const fn of(&self, subgroup: usize, sender: Rank) -> usize {
        subgroup * self.n_seats + sender.index()
    }

    /// The change in the row of `seat`. It means something behind the row's `proposer` alone.
    pub(super) fn change<P: Planting<bugs::Bug>>(&self, table: &Table<P>, seat: Rank) -> Change {
        let end = |index| table.get(seat, self.ends, index);
        let set = |index| SeatSet::from_bits(end(index));
        let joiner = |of: Rank| {
            let word = |n| table.get(seat, self.joiners, of.index() * JOINER_WORDS + n);
            Knock {
                seat: of,
                incarnation: Incarnation(word(0)),
                metadata: core::array::from_fn(|n| word(1 + n)),
            }
        };
        let seats = set(JOINED).iter().filter(|seat| seat.index() < self.n_seats);
        Change {
            removed: set(REMOVED),
            left: set(LEFT),
            joined: seats.map(joiner).collect(),
            renewed: Vec::new(),
            time: Time(end(TIME)),
            bearers: (0..self.n_subgroups).map(|at| set(BEARERS + at)).collect(),
            trims: (0..self.n_shards).map(|at| end(self.trim(at))).collect(),
        }
    }

    /// Puts `change`, as the leader of `standing` proposes it, into the own row.
    pub(super) fn publish<P: Planting<bugs::Bug>>(
        &self,
        table: &mut Table<P>,
        change: &Change,
        standing: Standing,
    ) {
        for joiner in &change.joined {
            let at = joiner.seat.index() * JOINER_WORDS;
            table.set(self.joiners, at, joiner.incarnation.0);
            for (n, word) in joiner.metadata.iter().enumerate() {
                table.set(self.joiners, at + 1 + n, *word);
            }
        }
        let joined: SeatSet = change.joined.iter().map(|joiner| joiner.seat).collect();
        table.set(self.ends, REMOVED, change.removed.bits());
        table.set(self.ends, LEFT, change.left.bits());
        table.set(self.ends, JOINED, joined.bits());
        table.set(self.ends, TIME, change.time.0);
        for (at, bearers) in change.bearers.iter().enumerate() {
            table.set(self.ends, BEARERS + at, bearers.bits());
        }
        for (at, trim) in change.trims.iter().enumerate() {
            table.set(self.ends, self.trim(at), *trim);
        }
        table.set(self.proposer, 0, ballot(standing));
    }
}

/// The value of the column `proposer` for a change that the leader of `standing` proposes.
pub(super) const fn ballot(standing: Standing) -> u64 {
    standing.0 as u64 + 1
}
