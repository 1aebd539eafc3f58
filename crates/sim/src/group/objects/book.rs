//! What the callers of a run's objects did and were told, and what the copies had: what the judge
//! looks at.

use super::super::history::ProcessId;
use base::Rank;
use group::Member;
use proto::vsync::ShardId;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;

/// The number of a call in its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) struct CallId(pub(super) u64);

/// The kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// One that is appended in the shard of its caller.
    Append,
    /// The same; each member replies.
    AppendEach,
    /// One that is appended in another shard, by a member of that.
    AppendThere,
    /// A p2p call of a process.
    Jot(ProcessId),
    /// A query of a member, of which this many calls of its shard are to be seen.
    Count(u64),
}

/// What its caller knows of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// It was executed: its place in the ledger, what a p2p call or a query returned.
    Executed(u64),
    /// It is not executed, and never will be.
    NotExecuted,
    /// It may be executed, or not.
    Unknown,
}

/// A life of a shard: from the view in which it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ShardLife {
    pub(super) shard: ShardId,
    pub(super) since: u64,
}

/// One call.
#[derive(Clone, Debug)]
pub(super) struct Called {
    pub(super) by: ProcessId,
    pub(super) what: What,
    /// The life of its shard, as its caller knew it.
    pub(super) life: ShardLife,
    pub(super) begun_ns: u64,
    /// The outcome, the time of the world, and the life of the shard as its caller knew it then.
    pub(super) ended: Option<(Known, u64, Option<ShardLife>)>,
    /// The replies of others, if each member replies.
    pub(super) replies: Vec<(Member, Option<u64>)>,
}

/// A copy, as it was at the end of its process or of the run.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) of: ProcessId,
    pub(super) life: ShardLife,
    pub(super) entries: Vec<CallId>,
    /// Whether it was there at the end of the run.
    pub(super) is_last: bool,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(super) calls: Vec<Called>,
    pub(super) copies: Vec<Seen>,
    /// The p2p calls that were executed, and where.
    pub(super) jots: Vec<(CallId, ProcessId)>,
}

impl Book {
    /// Notes a call that is about to be made.
    pub(super) fn enter(&mut self, called: Called) -> CallId {
        self.calls.push(called);
        CallId(self.calls.len() as u64 - 1)
    }

    pub(super) fn call_mut(&mut self, CallId(at): CallId) -> &mut Called {
        &mut self.calls[at as usize]
    }
}

thread_local! {
    static JOTS: RefCell<Vec<(CallId, ProcessId)>> = const { RefCell::new(Vec::new()) };
}

/// The p2p calls that were executed since they were taken last: a method of an object reaches
/// nothing of its simulation.
pub(super) struct Jots;

impl Jots {
    pub(super) fn add(call: CallId, at: Member) {
        JOTS.with_borrow_mut(|jots| jots.push((call, process_of(at))));
    }

    pub(super) fn take() -> Vec<(CallId, ProcessId)> {
        JOTS.take()
    }
}

/// The process that is this member.
pub(super) fn process_of(member: Member) -> ProcessId {
    ProcessId(Rank::at(member.seat - 1), base::Incarnation(member.incarnation))
}
