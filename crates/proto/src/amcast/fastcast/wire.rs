//! The messages between FastCast's processes.

use crate::amcast::{GroupSet, Message, MessageId, Timestamp};
use crate::codec::{self, Varints};
use alloc::sync::Arc;
use alloc::vec::Vec;
use base::Ballot;

codec::coded! {
    /// One decision of a group's consensus.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Entry in Varints {
        /// A message gets a local timestamp (SET-HARD).
        Hard {
            /// The message; an absent body delays the log.
            id: MessageId,
            /// Its destinations.
            dest: GroupSet,
            /// The timestamp.
            ts: Timestamp,
        } = 0,
        /// The group's clock passes this value (SYNC).
        Sync(Timestamp) = 1,
    }
}

codec::coded! {
    /// A message between processes of FastCast.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum FastcastWire in Varints {
        /// The leader's guess, before its group has decided (SEND-SOFT).
        Soft {
            /// The message.
            id: MessageId,
            /// Its destinations.
            dest: GroupSet,
            /// The timestamp.
            ts: Timestamp,
        } = 0,
        /// The group's decision (SEND-HARD).
        Hard {
            /// The message.
            id: MessageId,
            /// Its destinations.
            dest: GroupSet,
            /// The timestamp.
            ts: Timestamp,
        } = 1,
        /// A proposal of the leader.
        Append {
            /// The epoch of the leader.
            epoch: Ballot,
            /// The place in the log.
            index: u64,
            /// The entry.
            entry: Entry,
        } = 2,
        /// A report that the sender's log holds `length` entries of this epoch's leader.
        Accepted {
            /// The epoch.
            epoch: Ballot,
            /// The number of entries.
            length: u64,
        } = 3,
        /// A request for the message.
        Pull(MessageId) = 4,
        /// The requested message.
        Body(Arc<Message>) = 5,
        /// The sender wants to lead.
        NewEpoch(Ballot) = 6,
        /// A promise to the sender of `NewEpoch`.
        Promise {
            /// The epoch promised.
            epoch: Ballot,
            /// The epoch of the log.
            current: Ballot,
            /// The log.
            log: Vec<Entry>,
            /// Its messages.
            bodies: Vec<Arc<Message>>,
        } = 7,
        /// The new leader's log.
        NewState {
            /// The epoch of the leader.
            epoch: Ballot,
            /// The log.
            log: Vec<Entry>,
            /// Its messages.
            bodies: Vec<Arc<Message>>,
        } = 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::bytes::golden_bytes;

    #[test]
    fn golden_bytes_of_each_message() {
        let id = MessageId { sender: 3, sequence: 900 };
        let (dest, ts) = (GroupSet::all(3), Timestamp(5));
        let (epoch, current) = (Ballot(7), Ballot(300));
        let log = [Entry::Hard { id, dest, ts }, Entry::Sync(Timestamp(1 << 50))];
        let [hard, sync] = log.clone();
        let (log, message) = (log.to_vec(), Arc::new(Message::new(id, dest, *b"payload")));
        let bodies = [message.clone()].to_vec();
        let examples = [
            FastcastWire::Soft { id, dest, ts },
            FastcastWire::Hard { id, dest, ts },
            FastcastWire::Append { epoch, index: 200, entry: hard },
            FastcastWire::Append { epoch, index: 3, entry: sync },
            FastcastWire::Accepted { epoch, length: 201 },
            FastcastWire::Pull(id),
            FastcastWire::Body(message),
            FastcastWire::NewEpoch(epoch),
            FastcastWire::Promise { epoch, current, log: log.clone(), bodies: bodies.clone() },
            FastcastWire::NewState { epoch, log, bodies },
        ];
        golden_bytes("amcast/fastcast/scripts/bytes.txt", &examples);
    }
}
