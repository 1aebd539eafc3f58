//! Views and virtual synchrony over one-sided writes: Derecho's membership and ordered multicast
//! (paper 000, appendices A and B).
//!
//! **Purpose.** A group of processes has a *view*, a numbered list of its members. Each member can
//! multicast; all members deliver the same messages in the same order. (A view can be laid out in
//! subgroups of shards, `roster`: then that holds in each shard, of its own members.) When members
//! fail, leave or join, the survivors agree on the next view and on the end of this one, so that
//! all of them have delivered the same messages when it begins (*virtual synchrony*). Nothing is
//! sent between members but one-sided writes into rows and rings ([`sst`](crate::sst)); only a
//! process that is not a member yet sends messages.
//!
//! **Assumes.** Processes stop; they do not lie. At most a minority of each view fails, or is
//! suspected, before the next one begins; otherwise the group ends. Suspicions may be wrong. Of the
//! fabric: T1, T2, T4, T10; of a seat: a process is there only after the one before it has ended,
//! and nothing that one posted takes effect any longer (shm: its lock; tcp: its incarnation). A
//! process that lost its memory comes back with a higher incarnation, as another member. In memory,
//! what all members of a shard forget at once is lost; a durable group ([`Mode::Durable`]) has
//! disks (D1 to D5 of [`crate::disk`]) and is restarted from them. Leases alone assume something of
//! clocks (E3).
//!
//! **Invariants.** Those of the end of a view are C1 to C9 in `change`; V2 to V5 and V13, of
//! messages, are in `delivery`, V7 in `outbox`, V9 in `state`, V11 and V12 in `machine`, V14 and
//! V15 in `unordered`, V16 and V17 in `delivery`, V18 to V22, of large messages, in `landing`,
//! V23 to V25, of those over a network, in `packed`, V26 to V31, of relayed ones, in `relay`, V32,
//! of what is held and not delivered, in `ahead`, V33, of processes that ask to be let in, in
//! `knocks`, L1 to L5, of subgroups and shards, in `roster`; of durable groups W1 to W7 in
//! `durable`, R1 to R6 in `restart`, J1 to J3 in `journal`, P1 and P2 in `records`; K1 to K6, of
//! times, in `clock`, E1 to E4, of leases, in `lease`.
//! - V1 *View agreement.* All processes that install a view with one number install the same one,
//!   each in the order of numbers. From C8. Checked under seeds (`view_agreement`).
//! - V6 *Virtual synchrony.* Members that install two views one after the other, and are in one
//!   shard in the first, deliver the same messages of it between them: those before its trim. A
//!   survivor holds all of these, since its own wedged row counted in the trim (C6). Checked under
//!   seeds (`same_trim`, `virtual_synchrony`).
//! - V8 *Installed before the next.* A member of view v + 1 that was one of v has installed v: its
//!   row of v counted and was wedged when the change was made (C4). So when v + 2 begins, no member
//!   of it that was one of v + 1 reads places of v (`sst`, S3). One that v + 1 had removed may do
//!   so yet, and is told (`sst`, S6; `delivery`, V17).
//! - V10 *Later views.* A process that sees a row of a later view in a place of its own view was
//!   left behind, and stops. By [`Seen::Later`](crate::sst::Seen).
//!
//! **Liveness.** If a majority of a view is alive and connected, and no member of it suspects
//! another, the next view begins and every message of a member that stays is delivered. Every wait
//! ends: by a decision, or by suspicion of whatever is silent (`detector`), or by
//! [`End::Partitioned`].
//!
//! **Cost.** A message: one WRITE of it and one of a counter to each other member; one or two
//! WRITEs of counters at each receiver to each other member. A view change: wedge, propose, echo,
//! commit: three one-way delays after the suspicion, WRITEs from each member to each.
//!
//! **Differs from the paper**: see `docs/protocols/vsync.md`.

mod ahead;
pub mod bugs;
mod change;
mod clock;
mod columns;
mod current;
mod delivery;
mod detector;
mod durable;
mod heard;
mod journal;
mod landing;
mod lane;
mod layout;
mod lease;
mod machine;
mod order;
mod outbox;
mod packed;
mod payload;
mod place;
mod records;
mod relay;
mod relaying;
mod renewal;
mod restart;
mod roster;
mod routes;
mod shard;
mod slots;
mod spec;
mod state;
#[cfg(test)]
mod tests;
mod unordered;
mod view;
mod wire;

pub use clock::Time;
pub use delivery::FLIGHT_BYTES_MAX;
pub use landing::Blank;
pub use layout::Shape;
pub use machine::status::Ending;
pub use machine::{Machine, region, row_words};
pub use order::Standing;
pub use payload::Payload;
pub use records::{Accepted, UnreadableError, promised};
pub use relaying::{Relayed, Relaying};
pub use roster::TAGS_WORD;
pub use shard::{
    Candidates, Mode, SHARDS_MAX, SUBGROUPS_MAX, Seating, Shard, ShardId, Subgroup, ViewId,
};
pub use slots::WRITE_WORDS_MAX;
pub use spec::ROW;
pub use view::{Knock, METADATA_WORDS, Member, View};

use crate::codec::{self, Words};
use crate::rdmc::Schedule;
use alloc::vec::Vec;
use base::{Rank, SeatSet};
use core::time::Duration;

/// The spans after which a member acts, the same at every member.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// The time between two beats.
    pub beat_every: Duration,
    /// The silence after which a member is suspected.
    pub suspect_after: Duration,
    /// The time after which a process asks again: to join, or for the state.
    pub ask_every: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            beat_every: Duration::from_millis(10),
            suspect_after: Duration::from_millis(200),
            ask_every: Duration::from_millis(50),
        }
    }
}

/// How a process begins.
#[derive(Clone, Debug)]
pub enum Start {
    /// It is one of the founders, all of which begin with the same list and the same state.
    Found(Vec<Knock>),
    /// It asks to be let in.
    Join,
}

/// The parameters of a process in a group.
#[derive(Clone, Debug)]
pub struct Config {
    /// This process.
    pub me: Knock,
    /// The way in which it begins.
    pub start: Start,
    /// The sizes.
    pub shape: Shape,
    /// The spans.
    pub timing: Timing,
    /// The number of members below which a view is inadequate: nothing is multicast in it.
    pub n_adequate: usize,
    /// Whether the application has a state that a newcomer needs. Without one, a newcomer delivers
    /// from the beginning of its first view on (V9).
    pub keeps_state: bool,
    /// The time for which a view that has lost members answers nothing, so that members can have
    /// leases; without one they have none.
    pub lease: Option<Duration>,
    /// The name of the group, if this process founds it: another one each time. It is a part of
    /// every view, so that a log of another group is not taken for one of this.
    pub group: u64,
    /// In a durable group: the bytes in the log after which the state of each shard is written
    /// there again, and what these cover is freed; as many as all states have, if that is longer.
    pub keep_bytes: u64,
    /// The subgroups, the same at every member. None are one with one shard of all members.
    pub layout: Vec<Subgroup>,
}

impl Config {
    /// Whether there is one shard, which has all members.
    pub(crate) fn is_whole(&self) -> bool {
        self.layout.is_empty()
    }

    /// The order of the messages of a subgroup (`durable`, W7).
    pub(crate) fn mode(&self, subgroup: usize) -> Mode {
        let described = self.layout.get(subgroup);
        described.map_or(self.shape.mode, |of| of.mode_in(self.shape.mode))
    }

    /// Whether a newcomer needs the state of its shard of a subgroup: without an order there is
    /// none.
    pub(crate) fn keeps_state(&self, subgroup: usize) -> bool {
        self.keeps_state && self.mode(subgroup) != Mode::Unordered
    }

    /// Subgroups have the group's order, or take less. Without an order there is no common state,
    /// and a subgroup has one shard: a member that is moved could not say of its messages whether
    /// any member of its old shard has delivered them ([`Output::Unsent`]).
    fn assert_modes(&self) {
        let takes = |mode| match mode {
            Mode::Unordered => 0,
            Mode::Ordered => 1,
            Mode::Durable => 2,
        };
        let group = self.shape.mode;
        assert!(!(group == Mode::Unordered && self.keeps_state), "no order, and a state: {self:?}");
        for subgroup in &self.layout {
            let (mode, n_shards) = (subgroup.mode_in(group), subgroup.shards.len());
            assert!(takes(mode) <= takes(group), "{subgroup:?} takes more than {group:?}");
            assert!(mode != Mode::Unordered || n_shards == 1, "{subgroup:?}: no order, and shards");
        }
    }

    /// The schedule of a subgroup's large messages (`relay`). Without an order they go through
    /// rings.
    pub(crate) fn schedule(&self, subgroup: usize) -> Schedule {
        if self.mode(subgroup) == Mode::Unordered {
            return Schedule::Sequential;
        }
        let own = self.layout.get(subgroup).and_then(|described| described.schedule);
        own.unwrap_or(self.shape.relaying.schedule)
    }

    pub(crate) fn subgroups(&self) -> Vec<Subgroup> {
        if self.is_whole() { [Subgroup::whole()].to_vec() } else { self.layout.clone() }
    }
}

codec::coded! {
    /// A point of the order of a shard through all views: everything before `at` in `view`, and all
    /// earlier views.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Position in Words {
        /// The view.
        pub view: ViewId,
        /// The number of messages and nulls of the view before it.
        pub at: u64,
    }
}

/// A message that is delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The shard.
    pub shard: ShardId,
    /// Its position in the shard's order. Positions rise; between two there may be nulls.
    pub at: Position,
    /// Its time (K3). Zero without an order.
    pub time: Time,
    /// Its sender.
    pub sender: Knock,
    /// Its bytes.
    pub message: Payload,
}

/// What a machine tells the application, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A view begins.
    View {
        /// The view.
        view: View,
        /// The number of its members that may fail, without a loss of a shard's state: none, in a
        /// view of two.
        n_tolerated: usize,
        /// The members of the view before that have left, as they asked to. Others that are missing
        /// were suspected. Empty for a process's first view.
        left: SeatSet,
    },
    /// The view that began has fewer members than [`Config::n_adequate`].
    Inadequate {
        /// The number of its members.
        n_members: usize,
    },
    /// A message is delivered.
    Deliver(Delivery),
    /// A subgroup lacks members in the view that began: nothing is multicast in it, and what waits
    /// stays.
    InadequateSubgroup {
        /// Its number.
        subgroup: usize,
    },
    /// Own messages, the last ones that were taken for this shard, are not multicast: this process
    /// is no longer in it, and no member delivers them.
    Unsent {
        /// The shard.
        shard: ShardId,
        /// Their number.
        n_messages: usize,
    },
    /// The state of a shard, as it is at this point of the outputs, is wanted: call
    /// [`Machine::give`].
    GiveState {
        /// The newcomer.
        to: Rank,
        /// The shard.
        shard: ShardId,
        /// The position of the state.
        at: Position,
    },
    /// The state of a shard to which this process is a newcomer. Deliveries of the shard follow,
    /// the first at this position or behind it.
    TakeState {
        /// The shard.
        shard: ShardId,
        /// The position of the state.
        at: Position,
        /// What another member's application gave.
        bytes: Vec<u8>,
    },
    /// This process is no longer in the group, and does nothing more. Its own messages that were
    /// not delivered here may be delivered by others, unless it has left.
    Ended(End),
}

/// The reason why a process is no longer in the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It asked to leave, and has.
    Left,
    /// The others suspect it, or have moved to views without it.
    Excluded,
    /// It does not reach a majority of its view.
    Partitioned,
    /// No member that is left had the application's state.
    StateLost,
    /// The state did not come, and no more messages can be held for it.
    Overrun,
    /// The ring of the process on this seat held what no process writes.
    Damaged(Rank),
    /// The log on the disk is of another group.
    OtherGroup,
}

impl core::fmt::Display for End {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            End::Left => f.write_str("left, as it was asked to"),
            End::Excluded => f.write_str(
                "excluded: the others took this process for failed; start it again, to join",
            ),
            End::Partitioned => f.write_str(
                "no majority of the view can be reached; if others have it, start again, to join",
            ),
            End::StateLost => f.write_str(
                "the members that had the state failed before others had it: found the group again",
            ),
            End::Overrun => f.write_str("the state did not come in time: start again, to join"),
            End::OtherGroup => f.write_str(
                "the log is of another group: give this process its own directory, or an empty one",
            ),
            End::Damaged(seat) => {
                write!(f, "the memory of {seat}'s messages is damaged: exclude it, and join again")
            }
        }
    }
}

/// The reason why a message was not taken. Nothing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Too many messages wait: try again after a delivery.
    Full,
    /// The message is longer than [`Shape::message_bytes`].
    TooLong,
    /// The view has fewer members than [`Config::n_adequate`], or the subgroup lacks some.
    Inadequate,
    /// This process is not in the shard.
    OtherShard,
    /// This process does not multicast there ([`Subgroup::senders`]).
    NoSender,
    /// This process is not a member, not yet or no longer.
    NotMember,
}
