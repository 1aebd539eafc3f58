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
//! A set of seats has a word for each 64 seats of the fabric.
//!
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

/// What the column `ends` has: three sets, a time, then a set for each subgroup.
#[derive(Clone, Copy)]
enum Set {
    Removed,
    Left,
    Joined,
    Bearers(usize),
}

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
            ends: columns.declare(Guarded, 1 + set_words(n_seats) * (3 + n_subgroups) + n_shards),
            proposer: columns.declare(Rising, 1),
            committed: columns.declare(Rising, 1),
            suspected: columns.declare(Growing, set_words(n_seats)),
        }
    }

    /// The places of a set in `ends`.
    const fn places(&self, of: Set) -> Range<usize> {
        let n = set_words(self.n_seats);
        let first = match of {
            Set::Removed => 0,
            Set::Left => n,
            Set::Joined => 2 * n,
            Set::Bearers(subgroup) => self.time() + 1 + subgroup * n,
        };
        first..first + n
    }

    /// The place of the next view's time in `ends`.
    const fn time(&self) -> usize {
        3 * set_words(self.n_seats)
    }

    /// The place of the trim of a shard in `ends`.
    const fn trim(&self, shard: usize) -> usize {
        self.places(Set::Bearers(self.n_subgroups)).start + shard
    }

    /// The members that the row of `seat` suspects.
    pub(super) fn suspected<P: Planting<bugs::Bug>>(
        &self,
        table: &Table<P>,
        seat: Rank,
    ) -> SeatSet {
        SeatSet::from_words(table.words(seat, self.suspected))
    }

    /// Says in the own row that its owner suspects these.
    pub(super) fn suspect<P: Planting<bugs::Bug>>(&self, table: &mut Table<P>, seats: SeatSet) {
        for at in 0..set_words(self.n_seats) {
            table.set(self.suspected, at, seats.words()[at]);
        }
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
        let ends = table.words(seat, self.ends);
        let set = |of| SeatSet::from_words(&ends[self.places(of)]);
        let joiner = |of: Rank| {
            let word = |n| table.get(seat, self.joiners, of.index() * JOINER_WORDS + n);
            Knock {
                seat: of,
                incarnation: Incarnation(word(0)),
                metadata: core::array::from_fn(|n| word(1 + n)),
            }
        };
        let joined = set(Set::Joined);
        let seats = joined.iter().filter(|seat| seat.index() < self.n_seats);
        Change {
            removed: set(Set::Removed),
            left: set(Set::Left),
            joined: seats.map(joiner).collect(),
            renewed: Vec::new(),
            time: Time(ends[self.time()]),
            bearers: (0..self.n_subgroups).map(|at| set(Set::Bearers(at))).collect(),
            trims: (0..self.n_shards).map(|at| ends[self.trim(at)]).collect(),
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
        let bearers = change.bearers.iter().enumerate();
        let bearers = bearers.map(|(at, bearers)| (Set::Bearers(at), *bearers));
        let sets =
            [(Set::Removed, change.removed), (Set::Left, change.left), (Set::Joined, joined)];
        for (of, set) in sets.into_iter().chain(bearers) {
            for (at, word) in self.places(of).zip(set.words()) {
                table.set(self.ends, at, *word);
            }
        }
        table.set(self.ends, self.time(), change.time.0);
        for (at, trim) in change.trims.iter().enumerate() {
            table.set(self.ends, self.trim(at), *trim);
        }
        table.set(self.proposer, 0, ballot(standing));
    }
}

/// The words of a set of seats in a row.
const fn set_words(n_seats: usize) -> usize {
    n_seats.div_ceil(64)
}

/// The value of the column `proposer` for a change that the leader of `standing` proposes.
pub(super) const fn ballot(standing: Standing) -> u64 {
    standing.0 as u64 + 1
}
