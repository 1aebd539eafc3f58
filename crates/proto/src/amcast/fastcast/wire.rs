//! The messages between FastCast's processes.

use crate::amcast::wire::{Malformed, Reader, Wire, list, number};
use crate::amcast::{GroupSet, Message, MessageId, Timestamp};
use alloc::sync::Arc;
use alloc::vec::Vec;
use base::Ballot;

/// One decision of a group's consensus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A message gets a local timestamp (SET-HARD).
    Hard {
        /// The message; an absent body delays the log.
        id: MessageId,
        /// Its destinations.
        dest: GroupSet,
        /// The timestamp.
        ts: Timestamp,
    },
    /// The group's clock passes this value (SYNC).
    Sync(Timestamp),
}

/// A message between processes of FastCast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FastcastWire {
    /// The leader's guess, before its group has decided (SEND-SOFT).
    Soft {
        /// The message.
        id: MessageId,
        /// Its destinations.
        dest: GroupSet,
        /// The timestamp.
        ts: Timestamp,
    },
    /// The group's decision (SEND-HARD).
    Hard {
        /// The message.
        id: MessageId,
        /// Its destinations.
        dest: GroupSet,
        /// The timestamp.
        ts: Timestamp,
    },
    /// A proposal of the leader.
    Append {
        /// The epoch of the leader.
        epoch: Ballot,
        /// The place in the log.
        index: u64,
        /// The entry.
        entry: Entry,
    },
    /// A report that the sender's log holds `length` entries of this epoch's leader.
    Accepted {
        /// The epoch.
        epoch: Ballot,
        /// The number of entries.
        length: u64,
    },
    /// A request for the message.
    Pull(MessageId),
    /// The requested message.
    Body(Arc<Message>),
    /// The sender wants to lead.
    NewEpoch(Ballot),
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
    },
    /// The new leader's log.
    NewState {
        /// The epoch of the leader.
        epoch: Ballot,
        /// The log.
        log: Vec<Entry>,
        /// Its messages.
        bodies: Vec<Arc<Message>>,
    },
}

impl Wire for Entry {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Entry::Hard { id, dest, ts } => {
                out.push(0);
                triple(*id, *dest, *ts, out);
            }
            Entry::Sync(ts) => {
                out.push(1);
                ts.encode(out);
            }
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match from.byte()? {
            0 => {
                let (id, dest, ts) = read_triple(from)?;
                Ok(Entry::Hard { id, dest, ts })
            }
            1 => Ok(Entry::Sync(Timestamp::decode(from)?)),
            _ => Err(Malformed),
        }
    }
}

fn triple(id: MessageId, dest: GroupSet, ts: Timestamp, out: &mut Vec<u8>) {
    id.encode(out);
    dest.encode(out);
    ts.encode(out);
}

fn read_triple(from: &mut Reader<'_>) -> Result<(MessageId, GroupSet, Timestamp), Malformed> {
    Ok((MessageId::decode(from)?, GroupSet::decode(from)?, Timestamp::decode(from)?))
}

impl Wire for FastcastWire {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            FastcastWire::Soft { id, dest, ts } => {
                out.push(0);
                triple(*id, *dest, *ts, out);
            }
            FastcastWire::Hard { id, dest, ts } => {
                out.push(1);
                triple(*id, *dest, *ts, out);
            }
            FastcastWire::Append { epoch, index, entry } => {
                out.push(2);
                epoch.encode(out);
                number(*index, out);
                entry.encode(out);
            }
            FastcastWire::Accepted { epoch, length } => {
                out.push(3);
                epoch.encode(out);
                number(*length, out);
            }
            FastcastWire::Pull(id) => {
                out.push(4);
                id.encode(out);
            }
            FastcastWire::Body(message) => {
                out.push(5);
                message.encode(out);
            }
            FastcastWire::NewEpoch(epoch) => {
                out.push(6);
                epoch.encode(out);
            }
            FastcastWire::Promise { epoch, current, log, bodies } => {
                out.push(7);
                epoch.encode(out);
                current.encode(out);
                list(log, out, Wire::encode);
                list(bodies, out, Wire::encode);
            }
            FastcastWire::NewState { epoch, log, bodies } => {
                out.push(8);
                epoch.encode(out);
                list(log, out, Wire::encode);
                list(bodies, out, Wire::encode);
            }
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.byte()? {
            0 => {
                let (id, dest, ts) = read_triple(from)?;
                FastcastWire::Soft { id, dest, ts }
            }
            1 => {
                let (id, dest, ts) = read_triple(from)?;
                FastcastWire::Hard { id, dest, ts }
            }
            2 => FastcastWire::Append {
                epoch: Ballot::decode(from)?,
                index: from.number()?,
                entry: Entry::decode(from)?,
            },
            3 => FastcastWire::Accepted { epoch: Ballot::decode(from)?, length: from.number()? },
            4 => FastcastWire::Pull(MessageId::decode(from)?),
            5 => FastcastWire::Body(Wire::decode(from)?),
            6 => FastcastWire::NewEpoch(Ballot::decode(from)?),
            7 => FastcastWire::Promise {
                epoch: Ballot::decode(from)?,
                current: Ballot::decode(from)?,
                log: from.list(Entry::decode)?,
                bodies: from.list(Wire::decode)?,
            },
            8 => FastcastWire::NewState {
                epoch: Ballot::decode(from)?,
                log: from.list(Entry::decode)?,
                bodies: from.list(Wire::decode)?,
            },
            _ => return Err(Malformed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amcast::wire::golden_bytes;

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
