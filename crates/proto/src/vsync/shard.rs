//! Subgroups and shards, as values: their orders, their descriptions, and what they are in a view.

use super::order::RoundRobin;
use crate::codec::{self, Words, numbers};
use crate::rdmc::Schedule;
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use base::{Rank, SEATS_MAX, SeatSet};
use core::fmt;

/// The number of a view. The first is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(alias = "epoch")]
pub struct ViewId(pub u64);

impl ViewId {
    /// That of a new group.
    pub const FIRST: ViewId = ViewId(1);

    /// The one after it.
    #[must_use]
    pub const fn next(self) -> ViewId {
        ViewId(self.0 + 1)
    }
}

numbers! { ViewId }

impl fmt::Display for ViewId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The most subgroups of a group.
pub const SUBGROUPS_MAX: usize = 8;
/// The most shards of all subgroups of a group.
pub const SHARDS_MAX: usize = 64;

/// The members that a shard can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Candidates {
    /// Any.
    All,
    /// Those on these seats.
    Seats(SeatSet),
    /// Those whose metadata has all of these tags ([`TAGS_WORD`](super::TAGS_WORD)).
    Tagged(u64),
}

impl Candidates {
    /// Whether a process on `seat` with these tags is one.
    pub const fn contain(self, seat: Rank, tags: u64) -> bool {
        match self {
            Candidates::All => true,
            Candidates::Seats(seats) => seats.contains(seat),
            Candidates::Tagged(asked) => tags & asked == asked,
        }
    }
}

/// The order in which the messages of a group are delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// One order, the same at all members, of what all members have received. In memory alone.
    #[default]
    Ordered,
    /// The same of what all members have synced to their disks (`durable`).
    Durable,
    /// Each sender's order, as soon as a message is received.
    #[doc(alias = "unreliable")]
    Unordered,
}

/// The description of a subgroup, the same at all members.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subgroup {
    /// The name.
    pub name: String,
    /// The members that each of its shards can have.
    pub shards: Vec<Candidates>,
    /// The number of members below which a shard does not work.
    pub n_least: usize,
    /// The number of members above which a shard gets no more.
    pub n_most: usize,
    /// The members that multicast there. The others only deliver, and no turn waits for them.
    pub senders: Candidates,
    /// The order of its messages, if it is not the group's: what is ordered in memory in a durable
    /// group, or has no order in one that has an order otherwise.
    pub mode: Option<Mode>,
    /// The schedule by which its large messages are relayed (`relay`), if it is not the group's.
    pub schedule: Option<Schedule>,
}

impl Subgroup {
    /// The only subgroup of a group without a layout: one shard, which has all members.
    pub fn whole() -> Subgroup {
        let shards = [Candidates::All].to_vec();
        let name = "all".to_owned();
        let (n_most, senders) = (SEATS_MAX, Candidates::All);
        Subgroup { name, shards, n_least: 1, n_most, senders, mode: None, schedule: None }
    }

    /// The order of its messages, in a group of this mode.
    pub(super) fn mode_in(&self, group: Mode) -> Mode {
        self.mode.unwrap_or(group)
    }
}

codec::coded! {
    /// A shard of a group: the number of its subgroup, and its own there.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct ShardId in Words {
        /// The subgroup, from 0.
        pub subgroup: u16,
        /// The shard, from 0.
        pub shard: u16,
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.subgroup, self.shard)
    }
}

/// A shard, and its order.
pub(super) type Ordered<'a> = (&'a Shard, &'a RoundRobin);

/// A shard in a view.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shard {
    /// The view in which it began, again if its state was lost. That of the view if it is empty.
    pub since: ViewId,
    /// The seats of its members, those first that have been there for longest: the order of turns.
    pub seats: Vec<Rank>,
    /// Those of them that had the shard's state when the view began.
    pub bearers: SeatSet,
    /// Those of them that multicast there.
    pub senders: SeatSet,
}

impl Shard {
    /// The seats of its members, as a set.
    pub fn members(&self) -> SeatSet {
        self.seats.iter().copied().collect()
    }

    /// The order of its messages.
    pub(super) fn order(&self) -> RoundRobin {
        RoundRobin::new(self.seats.iter().map(|seat| self.senders.contains(*seat)))
    }
}

/// A subgroup in a view.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Seating {
    /// Its shards.
    pub shards: Vec<Shard>,
    /// Whether each of them has enough members. If not, nothing is multicast in the subgroup.
    pub is_adequate: bool,
}

impl Seating {
    /// The number of the shard that has the member on `seat`.
    pub fn shard_of(&self, seat: Rank) -> Option<usize> {
        self.shards.iter().position(|shard| shard.seats.contains(&seat))
    }
}
