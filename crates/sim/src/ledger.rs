//! What the world knows and no node does: everything proposed, decided, asked and answered.

use crate::checks::agreement::Agreement;
use crate::checks::configurations::Configurations;
use crate::checks::copies::Copies;
use crate::checks::digest::Digests;
use crate::checks::state_time::StateTime;
use crate::checks::validity::Proposals;
use crate::history::Operation;
use base::Prefix;

/// What a node answers to a client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reply {
    /// Executed.
    Done { answer: u64, place: Option<u64> },
    /// Surely not executed; perhaps this one leads.
    NotLeader(Option<u8>),
    /// Perhaps executed, perhaps not, perhaps later.
    Unknown,
}

/// All that is recorded of one run.
pub(crate) struct Ledger {
    pub(crate) agreement: Agreement,
    pub(crate) digests: Digests,
    pub(crate) proposals: Proposals,
    pub(crate) operations: Vec<Operation>,
    pub(crate) replies: Vec<Reply>,
    pub(crate) ring_slots: u64,
    pub(crate) configurations: Configurations,
    pub(crate) copies: Copies,
    /// What was known to be committed when the liveness phase began: all disks are to hold it at
    /// its end, if all are well.
    pub(crate) to_be_held: Prefix,
    pub(crate) state_time: StateTime,
}

impl Ledger {
    pub(crate) fn new(ring_slots: u32) -> Ledger {
        Ledger {
            agreement: Agreement::default(),
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
