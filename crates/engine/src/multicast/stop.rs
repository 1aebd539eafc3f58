//! The reasons why a node stops.

use crate::multicast::stream::Refusal;
use base::Rank;
use proto::amcast::GroupId;

/// The reason why a node cannot begin, or must stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopError {
    /// Its node was a newcomer before.
    #[error(
        "this node came back as a new incarnation before, so it is no founder: start it as \
         another one (Start::Anew)"
    )]
    NoFounder,
    /// Its groups take in no newcomer.
    #[error("groups of this protocol keep their members")]
    NoNewcomers,
    /// Its disk lacks a member that it should have.
    #[error("the data directory is of another configuration")]
    OtherDirectory,
    /// Its disk holds something that no node writes.
    #[error("an entry of the log is not what this program writes")]
    Unreadable,
    /// Its disk holds it up for too long.
    #[error("its disk has synced nothing for a minute")]
    SilentDisk,
    /// It was given something that is no state.
    #[error("a member gave an invalid state: update all nodes")]
    Garbled,
    /// A peer has given it up (N4).
    #[error(
        "node {} has given this node up, since it lagged too far behind (N4): start it again if \
         it has a data directory, else as a new incarnation (Start::Anew), or raise \
         limits.kept_bytes", .0.member()
    )]
    LeftBehind(Rank),
    /// It has given up a majority of a group (N14).
    #[error(
        "this node was cut off from a majority of the group {0:?} until what it keeps for them \
         passed limits.kept_bytes (N14): start it again if it has a data directory, else as a new \
         incarnation (Start::Anew)"
    )]
    CutOff(GroupId),
    /// A peer refuses this process (N4).
    #[error("node {} {}", .0.member(), .1.text())]
    Refused(Rank, Refusal),
    /// Its groups have removed it.
    #[error(
        "its groups have removed this node: to have it take its seats again, start it as a new \
         incarnation (Start::Anew)"
    )]
    Removed,
}
