//! What a group tells its application.

use crate::time::Time;
use base::{Incarnation, Rank};
use proto::vsync::{self, Knock, METADATA_WORDS, Payload, Position, ShardId};
use std::fmt;
use std::ops::RangeInclusive;

/// One thing that a process is told. Events come in the group's order: all members that install two
/// views one after the other are told the same messages between them, in the same order.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// A view begins.
    View(View),
    /// The view that began has fewer members than [`crate::Options::adequate`]: nothing is
    /// multicast in it, and what waits is sent in a later one.
    Inadequate {
        /// The number of its members.
        members: usize,
    },
    /// A subgroup lacks members in the view that began ([`Subgroup::least`]): nothing is multicast
    /// in it, and what waits stays.
    ///
    /// [`Subgroup::least`]: crate::Subgroup::least
    InadequateSubgroup {
        /// Its name.
        subgroup: String,
    },
    /// Messages of this process that were taken for a shard are not multicast: the process is no
    /// longer in the shard. No member delivers them.
    Unsent {
        /// The shard.
        shard: ShardId,
        /// Their numbers, as [`crate::Group::send_in`] returned them.
        numbers: RangeInclusive<u64>,
    },
    /// A message is delivered.
    Delivered(Delivered),
    /// A member has sent a letter to this process ([`crate::Group::tell`]). Letters of a member
    /// come in its order; they have no place in the group's.
    Letter {
        /// The member.
        from: Member,
        /// What it says.
        bytes: Vec<u8>,
    },
    /// A newcomer to a shard needs its state as it is now, after the events before this one:
    /// [`crate::Group::give`] it. (With [`crate::Options::keeps_state`].)
    StateWanted(StateWanted),
    /// The state of a shard as another member had it, from which this process begins there.
    /// Deliveries follow that it does not cover. (With [`crate::Options::keeps_state`], for a
    /// newcomer.)
    State {
        /// The shard.
        shard: ShardId,
        /// What the other member gave.
        bytes: Vec<u8>,
    },
    /// The order of a shard is final up to a time, which [`crate::Group::ask_final`] asked for:
    /// no message that follows has it, or an earlier one.
    Final {
        /// The shard.
        shard: ShardId,
        /// The time: the one that was asked for, or a later one.
        time: Time,
    },
    /// Everything is delivered that this process had received when [`crate::Group::catch_up`] was
    /// called with this token.
    CaughtUp {
        /// The token.
        token: u64,
        /// The number of the view in which that is so.
        view: u64,
    },
    /// What this process holds of the order of its shard and has not been delivered, which
    /// [`crate::Group::look_ahead`] asked for with this token: what is delivered next, in this
    /// order, if the view lasts until then.
    Ahead {
        /// The token.
        token: u64,
        /// The messages.
        messages: Vec<Delivered>,
    },
    /// This process is no longer in the group. Nothing follows.
    Ended(Ended),
}

/// A member of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// The seat of the process, from 1.
    pub seat: usize,
    /// The process: a later one on the same seat has a higher number.
    pub incarnation: u64,
    /// The words that it carries ([`crate::Options::metadata`]).
    pub metadata: [u64; METADATA_WORDS],
}

impl Member {
    pub(crate) fn of(process: &Knock) -> Member {
        let Knock { seat, incarnation: Incarnation(incarnation), metadata } = *process;
        Member { seat: number(seat), incarnation, metadata }
    }
}

/// An agreed membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The number. Each process is told consecutive ones.
    pub number: u64,
    /// The members, the eldest first.
    pub members: Vec<Member>,
    /// Those of them that were not in the view before.
    pub joined: Vec<Member>,
    /// Members of the view before that asked to leave. A process is not told those of its first
    /// view.
    pub left: Vec<Member>,
    /// Members of the view before that were suspected.
    pub failed: Vec<Member>,
    /// The number of members that may fail, without the loss of a shard's state: **none, in a view
    /// of one or two**. As the view begins: members that get a state later count in the next view.
    pub tolerates: usize,
    /// The shards of all subgroups, in order. (A group without a layout has one.)
    pub shards: Vec<Shard>,
}

/// A shard in a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Its number, and that of its subgroup in the layout.
    pub id: ShardId,
    /// The name of its subgroup.
    pub subgroup: String,
    /// Its members, those first that have been in it for longest.
    pub members: Vec<Member>,
    /// Those of them that multicast there ([`crate::Subgroup::senders`]).
    pub senders: Vec<Member>,
    /// The view in which it began. If that is this one, its state is the one in which every shard
    /// begins: **all that had another one are gone**, or there was none.
    pub begun: u64,
    /// Whether its subgroup has enough members.
    pub is_adequate: bool,
}

impl View {
    /// The member on `seat`.
    pub(crate) fn member(&self, seat: Rank) -> Option<Member> {
        self.members.iter().copied().find(|member| member.seat == number(seat))
    }

    /// A shard.
    pub fn shard(&self, id: ShardId) -> Option<&Shard> {
        self.shards.iter().find(|shard| shard.id == id)
    }

    /// The shard of a subgroup that has the member on `seat`, from 1.
    pub fn shard_of(&self, subgroup: u16, seat: usize) -> Option<&Shard> {
        let has = |shard: &&Shard| shard.members.iter().any(|member| member.seat == seat);
        self.shards.iter().filter(|shard| shard.id.subgroup == subgroup).find(has)
    }

    /// Whether there is one.
    pub(crate) fn has(&self, seat: Rank) -> bool {
        self.member(seat).is_some()
    }

    /// The view `after` as the successor of `before`.
    pub(crate) fn new(
        installed: &engine::group::Installed,
        before: Option<&View>,
        names: &[String],
    ) -> View {
        let view = &installed.view;
        let members: Vec<Member> =
            view.members.iter().map(|one| Member::of(&one.process)).collect();
        let is_new = |one: &&vsync::Member| one.since == view.id;
        let joined =
            view.members.iter().filter(is_new).map(|one| Member::of(&one.process)).collect();
        let old = before.map_or(&[][..], |before| &before.members);
        let gone = old.iter().filter(|one| !members.contains(one));
        let has_left =
            |one: &Member| Rank::seat(one.seat - 1).is_some_and(|at| installed.left.contains(at));
        let (left, failed) = gone.partition(|one| has_left(one));
        let (number, tolerates) = (view.id.0, installed.n_tolerated);
        let shards = view.shards().map(|(id, shard)| Shard::of(view, id, shard, names)).collect();
        View { number, joined, left, failed, tolerates, members, shards }
    }
}

impl Shard {
    fn of(view: &vsync::View, id: ShardId, shard: &vsync::Shard, names: &[String]) -> Shard {
        let member = |seat: &Rank| Some(Member::of(&view.member(*seat)?.process));
        let subgroup = usize::from(id.subgroup);
        Shard {
            id,
            subgroup: names[subgroup].clone(),
            members: shard.seats.iter().filter_map(member).collect(),
            senders: shard.senders.iter().filter_map(|seat| member(&seat)).collect(),
            begun: shard.since.0,
            is_adequate: view.roster[subgroup].is_adequate,
        }
    }
}

/// One line, for people.
impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seats = |members: &[Member]| {
            members.iter().map(|one| one.seat.to_string()).collect::<Vec<_>>().join(" ")
        };
        write!(f, "view {}: seats {}", self.number, seats(&self.members))?;
        let changes = [("joined", &self.joined), ("left", &self.left), ("failed", &self.failed)];
        for (what, members) in changes.into_iter().filter(|(_, members)| !members.is_empty()) {
            write!(f, "; {what} {}", seats(members))?;
        }
        match self.tolerates {
            0 => f.write_str("; survives no failure"),
            1 => f.write_str("; survives 1 failure"),
            n => write!(f, "; survives {n} failures"),
        }
    }
}

/// A message that is delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The shard in which it was multicast.
    pub shard: ShardId,
    /// The number of its view.
    pub view: u64,
    /// Its place in the order of the shard in the view. Places rise, with gaps.
    pub sequence: u64,
    /// Its time, the same at every member: times do not fall along the order of a shard, and a
    /// message is later than what its sender had been delivered. Zero without an order.
    pub time: Time,
    /// Its sender.
    pub sender: Member,
    /// Of a message of this process: the number that [`crate::Group::send`] returned.
    pub own: Option<u64>,
    /// Its bytes.
    pub bytes: Payload,
}

/// What became of a message of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is delivered here, which says that every member of its shard has it, and that no later
    /// view goes without it.
    Delivered,
    /// It is not multicast, and no member delivers it: the process was no longer in the shard.
    Unsent,
    /// It is on its way, or waits.
    Open,
}

/// A newcomer's wish for the state; see [`Event::StateWanted`].
#[derive(Debug, PartialEq, Eq)]
pub struct StateWanted {
    pub(crate) to: Rank,
    pub(crate) shard: ShardId,
    pub(crate) at: Position,
}

impl StateWanted {
    /// The shard.
    pub const fn shard(&self) -> ShardId {
        self.shard
    }
}

/// The reason why a process is no longer in its group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Ended {
    /// It asked to leave, and has: everything that it sent before was delivered.
    #[error("left, as it was asked to")]
    Left,
    /// It was asked to leave, and its patience ended first: not everything that it sent before was
    /// delivered here, or the group did not let it leave, and takes it for failed.
    #[error(
        "left in haste: what it had sent was not all delivered here in the time that it was given, \
         or the group did not let it leave; other members may have delivered the rest, or never do"
    )]
    LeftInHaste,
    /// The others suspect it, or have moved to views without it.
    #[error("{}", vsync::End::Excluded)]
    Excluded,
    /// It does not reach a majority of its view.
    #[error("{}", vsync::End::Partitioned)]
    Partitioned,
    /// No member that is left had the application's state.
    #[error("{}", vsync::End::StateLost)]
    StateLost,
    /// The state did not come, and no more messages can be held for it.
    #[error("{}", vsync::End::Overrun)]
    Overrun,
    /// The memory of the messages of this seat held what no process writes.
    #[error("the memory of the messages of seat {0} is damaged: exclude it, and join again")]
    Damaged(usize),
    /// The log in its directory is of another group.
    #[error("{}", vsync::End::OtherGroup)]
    OtherGroup,
    /// The group has to begin again, and no member has the object with which it began.
    #[error(
        "this group's founder was gone before the object with which it began was in a log, so \
         nothing was executed: remove the logs of its members, and found it again"
    )]
    NotBegun,
    /// The application did not take its events, and the group's messages could not wait longer.
    #[error(
        "the application took no event for {0:?}: the process has left, so that no member waits"
    )]
    Sluggish(std::time::Duration),
    /// A method of the replicated object panicked: the copy may be half changed.
    #[error(
        "the method `{method}` of the replicated object panicked at place {sequence} of view \
         {view}: this copy may be half changed, so its process has left the group"
    )]
    Panicked {
        /// The method.
        method: &'static str,
        /// The number of the call's view.
        view: u64,
        /// The call's place in the order of the view.
        sequence: u64,
    },
    /// A p2p method of the replicated object panicked: what this process has for itself may be half
    /// changed.
    #[error(
        "the p2p method `{method}` of the replicated object panicked: what is local to this copy \
         may be half changed, so its process has left the group"
    )]
    PanickedHere {
        /// The method.
        method: &'static str,
    },
    /// The state of the replicated object does not come back from its bytes, so it is not kept in
    /// place of the calls that led to it: the log still has them.
    #[error(
        "the state of `{object}` cannot be read from its own bytes, so the log keeps the calls \
         instead, and this process has left: take serde's skip_serializing_if, flatten, untagged \
         and tag off its fields, and start it again"
    )]
    StateUnreadable {
        /// The type.
        object: &'static str,
    },
    /// The operating system failed.
    #[error("the operating system failed: {0}")]
    Os(String),
}

impl Ended {
    pub(crate) const fn of(end: vsync::End) -> Ended {
        match end {
            vsync::End::Left => Ended::Left,
            vsync::End::Excluded => Ended::Excluded,
            vsync::End::Partitioned => Ended::Partitioned,
            vsync::End::StateLost => Ended::StateLost,
            vsync::End::Overrun => Ended::Overrun,
            vsync::End::Damaged(seat) => Ended::Damaged(number(seat)),
            vsync::End::OtherGroup => Ended::OtherGroup,
        }
    }
}

/// The number of a seat, from 1.
pub(crate) const fn number(seat: Rank) -> usize {
    seat.index() + 1
}
