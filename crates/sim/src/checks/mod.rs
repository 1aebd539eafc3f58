//! The checked properties, one file each.
//!
//! Each file states the property, why a report is never a false alarm, and is tested on made-up
//! histories: a check that cannot fail checks nothing.

pub(crate) mod agreement;
pub(crate) mod answered;
pub(crate) mod ballots;
pub(crate) mod configurations;
pub(crate) mod copies;
pub(crate) mod decided;
pub(crate) mod digest;
pub(crate) mod elected;
pub(crate) mod ends;
pub(crate) mod held;
pub(crate) mod introduced;
pub(crate) mod linearizable;
pub(crate) mod order;
pub(crate) mod reads;
pub(crate) mod real_time;
pub(crate) mod safe;
pub(crate) mod served;
pub(crate) mod single_writer;
pub(crate) mod stamped;
pub(crate) mod state_time;
pub(crate) mod validity;
pub(crate) mod versions;
pub(crate) mod witnesses;

/// What the members of a cluster say that they have done.
#[derive(Default)]
pub(crate) struct Claimed {
    /// The prefix that some member has executed.
    pub(crate) executed: base::Prefix,
    /// The commands and reads of clients.
    pub(crate) answered: answered::Answered,
    /// The ends of states.
    pub(crate) ends: ends::Ends,
    /// What replicas keep of each key.
    pub(crate) versions: versions::Versions,
}
