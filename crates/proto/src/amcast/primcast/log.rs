//! The log of a group at one process: the listings' T, without the records of its messages.

use super::turns::Turns;
use crate::amcast::{MessageId, Place};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// The proposals of the own group.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    /// The proposals that are remembered, in order.
    pub(super) names: Vec<MessageId>,
    /// The number of entries that the log ever had.
    pub(super) length: u64,
    /// The place at or below which the messages missing in the log were delivered (P7).
    pub(super) floor: Place,
    /// The turns of the proposals of the current epoch's primary (P4).
    pub(super) turns: Turns,
    /// The messages that have come to a primary and that it may have to propose.
    pub(super) unproposed: Vec<MessageId>,
    /// The messages proposed and undelivered, by lower bound of the final timestamp.
    pub(super) pending: BTreeSet<Place>,
}
