//! The reasons why a process is not in a group, and why a message was not taken.

use crate::event::Ended;
use crate::time::FarTimeError;
use fabric::OpenError;
use std::io;
use std::time::Duration;

/// The reason why a process could not found a group, join it, or leave in order.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The options contradict each other.
    #[error("{0}")]
    Options(String),
    /// Living processes have all the seats that were tried.
    #[error("no seat is free ({said}): let a process leave, or found a group with more seats")]
    NoSeat {
        /// What became of each seat.
        said: String,
    },
    /// The memory or the listener of this process cannot be made.
    #[error("cannot take seat {seat}: {source}")]
    Open {
        /// The seat.
        seat: usize,
        /// The cause.
        source: OpenError,
    },
    /// The process of another seat is of another group, version or configuration. Nothing changed.
    #[error("seat {seat} refuses, or is refused: {why}; this process has: {own}")]
    Refused {
        /// The other seat.
        seat: usize,
        /// What differs, with both values as far as they may be told.
        why: String,
        /// The configuration of this process.
        own: String,
    },
    /// The group exists already.
    #[error("this group exists: seat {seat} is in its view {view}; join it")]
    Exists {
        /// The seat that says so.
        seat: usize,
        /// The view.
        view: u64,
    },
    /// Another process founds the group at this moment.
    #[error("seat {seat} founds this group at this moment: join it")]
    FoundedElsewhere {
        /// The seat.
        seat: usize,
    },
    /// A process that may be in the group does not answer, so a second group could come into being.
    #[error(
        "the process on seat {seat} lives, and does not say within {span:?} whether it is in this \
         group: end it, or join"
    )]
    Silent {
        /// The seat.
        seat: usize,
        /// The wait.
        span: Duration,
    },
    /// No member let this process in.
    #[error("no member of the group {name:?} let this process in within {patience:?}: {said}")]
    NoAnswer {
        /// The group.
        name: String,
        /// The wait.
        patience: Duration,
        /// What each seat said.
        said: String,
    },
    /// The directory of this process's log cannot be used. Nothing in it was changed.
    #[error("the log in {path}: {why}; to join as a newcomer, name an empty directory")]
    Data {
        /// The directory.
        path: std::path::PathBuf,
        /// What is wrong, and the mend.
        why: String,
    },
    /// This process has no copy of the group's replicated object.
    #[error("{0}")]
    NoState(String),
    /// The process is no longer in the group.
    #[error("{0}")]
    Ended(#[from] Ended),
    /// The operating system refused something.
    #[error("cannot {doing}: {source}")]
    Os {
        /// The operation.
        doing: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn os(doing: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Os { doing, source }
    }
}

/// The reason why a message was not taken. Nothing of it left this process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// Too many messages of this process wait.
    #[error("{waiting} messages of this process wait to be sent: try again after a delivery")]
    Busy {
        /// Their number.
        waiting: usize,
    },
    /// The message is too long.
    #[error("a message of {bytes} bytes: the longest has {most} (Options::message_bytes)")]
    TooLong {
        /// The length of the message.
        bytes: usize,
        /// The longest.
        most: u32,
    },
    /// The view has too few members.
    #[error("the view has {members} members, and the group wants {adequate} to multicast")]
    Inadequate {
        /// The members of the view.
        members: usize,
        /// [`crate::Options::adequate`].
        adequate: usize,
    },
    /// A subgroup has too few members.
    #[error(
        "the subgroup {subgroup:?} has too few members in this view: one of its shards would have \
         fewer than {least}"
    )]
    InadequateSubgroup {
        /// Its name.
        subgroup: String,
        /// [`crate::Subgroup::least`].
        least: usize,
    },
    /// This process is not in the shard.
    #[error(
        "this process is not in shard {shard} of {subgroup:?} in this view: ask a member that is"
    )]
    OtherShard {
        /// The name of the subgroup.
        subgroup: String,
        /// The number of the shard.
        shard: u16,
    },
    /// This process does not multicast in the subgroup; of a call, no member of the shard does.
    #[error(
        "no sender of {subgroup:?} is at hand: the layout does not name this process, and no member \
         multicasts for it (Subgroup::senders)"
    )]
    NoSender {
        /// The name of the subgroup.
        subgroup: String,
    },
    /// A time that no group can have told.
    #[error(transparent)]
    FarTime(#[from] FarTimeError),
    /// Too many reads of this process wait.
    #[error("{waiting} reads of this process wait for deliveries: try again after one of them")]
    Reads {
        /// Their number.
        waiting: usize,
    },
    /// As many p2p calls of this process at one member as can follow one without an outcome.
    #[error(
        "a p2p call of this process at seat {seat} has no outcome yet, and 31 calls follow it: wait \
         for it"
    )]
    Open {
        /// The seat of the member.
        seat: usize,
    },
    /// As many calls to which each member replies as can follow one whose replies were not read.
    #[error(
        "the replies of a call were not read to their end, and 31 such calls follow it: read them, \
         or drop them"
    )]
    Unread,
    /// A method that is executed ahead of its turn, on a second copy, calls.
    #[error("nothing is called by a method that a query executes ahead of its turn")]
    Ahead,
    /// The process leaves.
    #[error("this process leaves the group")]
    Leaving,
    /// The process is no longer in the group.
    #[error("{0}")]
    Ended(#[from] Ended),
}
