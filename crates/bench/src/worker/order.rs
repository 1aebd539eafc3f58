//! What the parent asks of its worker processes, and what they answer: a JSON line each.

use crate::member::Wait;
use base::MAX_MEMBERS;
use report::Row;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Which provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FabricKind {
    /// Shared memory of one host.
    Shm,
    /// Loopback TCP.
    Tcp,
}

impl FabricKind {
    /// As in reports and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            FabricKind::Shm => "shm",
            FabricKind::Tcp => "tcp",
        }
    }
}

/// Who a worker is: its first line of input.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spec {
    /// Which part it plays.
    pub part: Part,
    /// Over which provider.
    pub fabric: FabricKind,
    /// Its position in the group, from 0.
    pub me: usize,
    /// How many members there are.
    pub members: usize,
    /// The group's name.
    pub cluster: String,
    /// Where its regions are.
    pub directory: PathBuf,
    /// How a member waits while it has nothing to do.
    pub wait: Wait,
}

/// What a worker process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// Decides.
    Member,
    /// Only has memory that others may act on, and acts on theirs.
    Memory,
    /// Watches over a member of a tcp group and tells the others of its death.
    Sentinel,
    /// Does nothing, busily, until it is killed.
    Victim,
}

/// What a worker is asked to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Order {
    /// Where all members listen, by rank; the first order for a worker of a tcp group.
    Peers(Vec<SocketAddr>),
    /// Hold so many bytes more, and touch them all.
    Ballast(u64),
    /// While leading, decide one value after the other.
    Load {
        /// The values' size.
        value_bytes: usize,
        /// Whether this member proposes if it leads.
        propose: bool,
    },
    /// Decide one value after the other, and tell how long each took.
    Decide {
        /// The values' size.
        value_bytes: usize,
        /// How to wait for completions.
        wait: Wait,
        /// For so long, uncounted.
        warm_up: Duration,
        /// For so long.
        span: Duration,
    },
    /// Tell what was seen.
    Tell {
        /// What was seen first after this moment (shared clock).
        since_ns: u64,
        /// Count deliveries from here on ...
        from_ns: u64,
        /// ... in bins of this width ...
        bin_ns: u64,
        /// ... so many of them.
        bins: usize,
    },
    /// Act on the memory of member 2 and tell how long it took.
    Verbs {
        /// Which.
        verb: Verb,
        /// On how many words, or bytes of a message divided by eight.
        n_words: usize,
        /// How many are under way at once.
        depth: usize,
        /// For so long.
        span: Duration,
    },
}

/// A verb to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verb {
    /// Signalled WRITE.
    Write,
    /// READ.
    Read,
    /// CAS that succeeds.
    Cas,
    /// FETCH-ADD.
    FetchAdd,
    /// A message there and one back.
    Message,
}

impl Verb {
    /// As in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Verb::Write => "write",
            Verb::Read => "read",
            Verb::Cas => "cas",
            Verb::FetchAdd => "fetch-add",
            Verb::Message => "message-echo",
        }
    }
}

/// What a worker says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// It listens here.
    Listening(SocketAddr),
    /// How it stands; said whenever that changes.
    Stands {
        /// It leads.
        leads: bool,
        /// It has links to so many others.
        links: usize,
    },
    /// What was ordered is done.
    Done,
    /// To [`Order::Decide`] and [`Order::Verbs`]: times, their rate, and what reading the clock
    /// cost.
    Took(Row),
    /// To [`Order::Decide`]: somebody else leads.
    Deposed,
    /// To [`Order::Tell`].
    Story(Story),
    /// It cannot go on.
    Failed(String),
}

/// What a member saw, by the shared clock; 0: not (yet).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Story {
    /// When the fabric reported the death of each.
    pub failed_at: [u64; MAX_MEMBERS],
    /// When this member came to lead last.
    pub leading_at: u64,
    /// When the first value of each proposer was delivered here, since the moment asked about.
    pub first_seen_at: [u64; MAX_MEMBERS],
    /// How often it fell so far behind that it needed a state.
    pub states_installed: u64,
    /// Deliveries a bin.
    pub bins: Vec<u32>,
}
