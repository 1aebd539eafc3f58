//! The parent's orders to its worker processes, and their answers: one JSON line each.

use crate::member::Wait;
use base::MAX_MEMBERS;
use proto::registry::LogProtocol;
use report::Row;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FabricKind {
    /// Shared memory of one host.
    Shm,
    /// Loopback TCP.
    Tcp,
}

impl FabricKind {
    /// The name in reports and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            FabricKind::Shm => "shm",
            FabricKind::Tcp => "tcp",
        }
    }
}

/// The first line of a worker's input: its identity.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spec {
    /// The worker's part.
    pub part: Part,
    /// The provider.
    pub fabric: FabricKind,
    /// The position in the group, from 0.
    pub me: usize,
    /// The number of members.
    pub members: usize,
    /// The group's name.
    pub cluster: String,
    /// The directory of its regions.
    pub directory: PathBuf,
    /// The way in which an idle member waits.
    pub wait: Wait,
    /// The name of the protocol of a member that decides.
    pub protocol: String,
    /// The directory for the logs of the members, if the protocol needs a disk.
    pub data: Option<PathBuf>,
}

impl Spec {
    /// The protocol of a member that decides.
    ///
    /// # Errors
    /// No protocol of that name replicates a log.
    pub fn protocol(&self) -> Result<LogProtocol, String> {
        let found = LogProtocol::ALL.iter().copied().find(|one| one.name() == self.protocol);
        found.ok_or_else(|| format!("no log is replicated by {:?}", self.protocol))
    }
}

/// The part of a worker process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// A member that decides.
    Member,
    /// Memory that others may act on, by a process that acts on theirs.
    Memory,
    /// A sentinel that watches a member of a tcp group and reports its death to the others.
    Sentinel,
    /// A process that is busy with nothing until it is killed.
    Victim,
}

/// An order to a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Order {
    /// The addresses of all members, by rank; the first order for a worker of a tcp group.
    Peers(Vec<SocketAddr>),
    /// Allocate this many bytes more, and touch them all.
    Ballast(u64),
    /// While leading, decide one value after the other.
    Load {
        /// The values' size.
        value_bytes: usize,
        /// Whether this member proposes if it leads.
        propose: bool,
    },
    /// Decide one value after the other, and report the time of each.
    Decide {
        /// The values' size.
        value_bytes: usize,
        /// The way to wait for completions.
        wait: Wait,
        /// The time before the measurement.
        warm_up: Duration,
        /// The time of the measurement.
        span: Duration,
    },
    /// Report the events.
    Tell {
        /// The time (shared clock) from which the first values count.
        since_ns: u64,
        /// The beginning of the bins that count deliveries.
        from_ns: u64,
        /// The width of the bins.
        bin_ns: u64,
        /// The number of bins.
        bins: usize,
    },
    /// Act on the memory of member 2 and report the times.
    Verbs {
        /// The verb.
        verb: Verb,
        /// The number of words, or of bytes of a message divided by eight.
        n_words: usize,
        /// The number that is under way at once.
        depth: usize,
        /// The time of the measurement.
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
    /// The name in reports.
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

/// An answer of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The address at which it listens.
    Listening(SocketAddr),
    /// The worker's status, sent whenever it changes.
    Stands {
        /// Whether it leads.
        leads: bool,
        /// The number of its links.
        links: usize,
    },
    /// The order is carried out.
    Done,
    /// The answer to [`Order::Decide`] and [`Order::Verbs`]: times, their rate, and the cost of
    /// reading the clock.
    Took(Row),
    /// The answer to [`Order::Decide`] when another member leads.
    Deposed,
    /// The answer to [`Order::Tell`].
    Story(Story),
    /// The worker cannot continue, for this reason.
    Failed(String),
}

/// The events at a member, by the shared clock; 0: not (yet).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Story {
    /// The time at which the fabric reported the death of each member.
    pub failed_at: [u64; MAX_MEMBERS],
    /// The time at which this member last came to lead.
    pub leading_at: u64,
    /// The time at which the first value of each proposer was delivered here, since the given
    /// moment.
    pub first_seen_at: [u64; MAX_MEMBERS],
    /// The number of times that it fell so far behind that it needed a state.
    pub states_installed: u64,
    /// The deliveries per bin.
    pub bins: Vec<u32>,
}
