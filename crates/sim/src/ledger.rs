//! The knowledge of the world, which no node has: everything proposed, decided, asked and answered.

use crate::checks::agreement::Agreement;
use crate::checks::ballots::Ballots;
use crate::checks::configurations::Configurations;
use crate::checks::copies::Copies;
use crate::checks::digest::Digests;
use crate::checks::elected::Elected;
use crate::checks::safe::Accepted;
use crate::checks::state_time::StateTime;
use crate::checks::validity::Proposals;
use crate::history::Operation;
use base::{Prefix, Slot};

/// The answer of a node to a client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reply {
    /// The command was executed.
    Done { answer: u64, place: Option<u64> },
    /// The command was surely not executed; perhaps the named node leads.
    NotLeader(Option<u8>),
    /// The command was perhaps executed, perhaps not, perhaps later.
    Unknown,
}

/// The record of one run.
pub(crate) struct Ledger {
    pub(crate) agreement: Agreement,
    /// The slots that were delivered for the first time and are to be judged, with a hash of each
    /// one's value.
    pub(crate) firsts: Vec<(Slot, u64)>,
    pub(crate) elected: Elected,
    /// Of each node.
    pub(crate) ballots: [Ballots; base::MAX_MEMBERS],
    pub(crate) accepted: Accepted,
    pub(crate) digests: Digests,
    pub(crate) proposals: Proposals,
    pub(crate) operations: Vec<Operation>,
    pub(crate) replies: Vec<Reply>,
    pub(crate) ring_slots: u64,
    pub(crate) configurations: Configurations,
    pub(crate) copies: Copies,
    /// The prefix that was committed when the liveness phase began: all disks must hold it at its
    /// end, if all are well.
    pub(crate) to_be_held: Prefix,
    pub(crate) state_time: StateTime,
}

impl Ledger {
    pub(crate) fn new(ring_slots: u32) -> Ledger {
        Ledger {
            agreement: Agreement::default(),
            firsts: Vec::new(),
            elected: Elected::default(),
            ballots: Default::default(),
            accepted: Accepted::default(),
            digests: Digests::default(),
            proposals: Proposals::default(),
            operations: Vec::new(),
            replies: Vec::new(),
            ring_slots: u64::from(ring_slots),
            configurations: Configurations::default(),
            copies: Copies::default(),
            to_be_held: Prefix::ZERO,
            state_time: StateTime::default(),
        }
    }

    pub(crate) fn keep(&mut self, reply: Reply) -> u32 {
        self.replies.push(reply);
        (self.replies.len() - 1) as u32
    }
}
