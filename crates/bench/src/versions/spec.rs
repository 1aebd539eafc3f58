//! What the parent and the members of a measurement say to each other, one JSON line each.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The first line of a process's input: its identity and its work.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spec {
    /// The group's name.
    pub group: String,
    /// The directory of its memory.
    pub directory: PathBuf,
    /// The addresses of all seats, on TCP.
    pub addresses: Vec<SocketAddr>,
    /// The seat, from 1; the first founds the group.
    pub seat: usize,
    /// The number of members.
    pub members: usize,
    /// The shards of two members each; 0 for a group in one piece.
    pub n_shards: usize,
    /// The versions that each value keeps.
    pub n_kept: usize,
    /// The window.
    pub window: u32,
    /// The longest message.
    pub message_bytes: u32,
    /// The directory of its log, in a durable group.
    pub data: Option<PathBuf>,
    /// Whether the group has no object: bytes are multicast.
    pub is_raw: bool,
    /// The updates of this member.
    pub load: Option<Load>,
    /// The queries of this member.
    pub asks: Option<Asks>,
    /// The time before the measurement.
    pub warm_up: Duration,
    /// The time of the measurement.
    pub span: Duration,
}

/// What an update does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Update {
    /// Nothing.
    Ignore,
    /// Nothing, with arguments of several types.
    IgnoreList,
    /// It makes a version that is in memory alone.
    Volatile,
    /// It makes a version that is a part of the object's state.
    Persistent,
}

/// The updates of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// What each does.
    pub update: Update,
    /// The bytes of a value, 8 or more.
    pub value_bytes: usize,
    /// The number that is under way at once.
    pub depth: usize,
    /// Whether each is waited for until its time is final.
    pub until_stable: bool,
}

/// The queries of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Asks {
    /// One after the other, of the own copy, as of the clock and so many nanoseconds.
    Own {
        /// The nanoseconds, of the past if they are below 0.
        offset_ns: i64,
    },
    /// One member of each shard at once.
    Shards {
        /// As of when.
        when: When,
        /// The bytes of the values.
        value_bytes: usize,
        /// The number of cuts that are under way at once.
        depth: usize,
    },
}

/// The time of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum When {
    /// None: what the copy has.
    AsItIs,
    /// What the clock shows.
    Now,
    /// The time at which the values were there.
    Past,
}

/// The measurements of a member.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Took {
    /// The duration of the measurement.
    pub span_ns: u64,
    /// The processor time that the process used.
    pub cpu_ns: u64,
    /// The times from updates to their outcomes, and how often each occurred.
    pub done_ns: Vec<(u64, u64)>,
    /// The same to where their times were final.
    pub stable_ns: Vec<(u64, u64)>,
    /// The times that queries took.
    pub asked_ns: Vec<(u64, u64)>,
}
