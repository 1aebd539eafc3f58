//! The messages between White-Box's processes.

use crate::amcast::wire::{Malformed, Reader, Wire, list, number};
use crate::amcast::{GroupId, GroupSet, Message, MessageId, Timestamp};
use alloc::sync::Arc;
use alloc::vec::Vec;
use base::Ballot;

/// The progress of one message at one process, as far as it outlives a leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The message.
    pub message: Arc<Message>,
    /// The own group's timestamp, accepted.
    pub local: Timestamp,
    /// The final one, if it is committed.
    pub global: Option<Timestamp>,
}

/// A message between processes of White-Box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhiteboxWire {
    /// The leader of the sender's group proposes a local timestamp.
    Accept {
        /// The message.
        id: MessageId,
        /// Its destinations.
        dest: GroupSet,
        /// The ballot of the leader.
        ballot: Ballot,
        /// The timestamp.
        ts: Timestamp,
    },
    /// The sender has stored the proposals of all destinations' leaders.
    Ack {
        /// The message.
        id: MessageId,
        /// The ballots of those proposals.
        ballots: Vec<(GroupId, Ballot)>,
    },
    /// An order to deliver this message next.
    Deliver {
        /// The message.
        id: MessageId,
        /// The ballot of the leader.
        ballot: Ballot,
        /// Its final timestamp.
        global: Timestamp,
    },
    /// A request for the message.
    Pull(MessageId),
    /// The requested message.
    Body(Arc<Message>),
    /// The sender wants to lead.
    NewLeader(Ballot),
    /// A promise to the sender of `NewLeader`.
    NewLeaderAck {
        /// The ballot promised.
        ballot: Ballot,
        /// The ballot that the state belongs to.
        current: Ballot,
        /// The clock.
        clock: Timestamp,
        /// The state.
        kept: Vec<Kept>,
    },
    /// The new leader's state.
    NewState {
        /// The ballot of the leader.
        ballot: Ballot,
        /// The clock.
        clock: Timestamp,
        /// The state.
        kept: Vec<Kept>,
    },
    /// The state is taken over.
    NewStateAck(Ballot),
}

impl Wire for Kept {
    fn encode(&self, out: &mut Vec<u8>) {
        self.message.encode(out);
        self.local.encode(out);
        number(self.global.map_or(0, |ts| ts.0 + 1), out);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Kept {
            message: Wire::decode(from)?,
            local: Timestamp::decode(from)?,
            global: from.number()?.checked_sub(1).map(Timestamp),
        })
    }
}

impl Wire for WhiteboxWire {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            WhiteboxWire::Accept { id, dest, ballot, ts } => {
                out.push(0);
                id.encode(out);
                dest.encode(out);
                ballot.encode(out);
                ts.encode(out);
            }
            WhiteboxWire::Ack { id, ballots } => {
                out.push(1);
                id.encode(out);
                list(ballots, out, |(group, ballot), out| {
                    group.encode(out);
                    ballot.encode(out);
                });
            }
            WhiteboxWire::Deliver { id, ballot, global } => {
                out.push(2);
                id.encode(out);
                ballot.encode(out);
                global.encode(out);
            }
            WhiteboxWire::Pull(id) => {
                out.push(3);
                id.encode(out);
            }
            WhiteboxWire::Body(message) => {
                out.push(4);
                message.encode(out);
            }
            WhiteboxWire::NewLeader(ballot) => {
                out.push(5);
                ballot.encode(out);
            }
            WhiteboxWire::NewLeaderAck { ballot, current, clock, kept } => {
                out.push(6);
                ballot.encode(out);
                current.encode(out);
                clock.encode(out);
                list(kept, out, Wire::encode);
            }
            WhiteboxWire::NewState { ballot, clock, kept } => {
                out.push(7);
                ballot.encode(out);
                clock.encode(out);
                list(kept, out, Wire::encode);
            }
            WhiteboxWire::NewStateAck(ballot) => {
                out.push(8);
                ballot.encode(out);
            }
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.byte()? {
            0 => WhiteboxWire::Accept {
                id: MessageId::decode(from)?,
                dest: GroupSet::decode(from)?,
                ballot: Ballot::decode(from)?,
                ts: Timestamp::decode(from)?,
            },
            1 => WhiteboxWire::Ack {
                id: MessageId::decode(from)?,
                ballots: from.list(|from| Ok((GroupId::decode(from)?, Ballot::decode(from)?)))?,
            },
            2 => WhiteboxWire::Deliver {
                id: MessageId::decode(from)?,
                ballot: Ballot::decode(from)?,
                global: Timestamp::decode(from)?,
            },
            3 => WhiteboxWire::Pull(MessageId::decode(from)?),
            4 => WhiteboxWire::Body(Wire::decode(from)?),
            5 => WhiteboxWire::NewLeader(Ballot::decode(from)?),
            6 => WhiteboxWire::NewLeaderAck {
                ballot: Ballot::decode(from)?,
                current: Ballot::decode(from)?,
                clock: Timestamp::decode(from)?,
                kept: from.list(Kept::decode)?,
            },
            7 => WhiteboxWire::NewState {
                ballot: Ballot::decode(from)?,
                clock: Timestamp::decode(from)?,
                kept: from.list(Kept::decode)?,
            },
            8 => WhiteboxWire::NewStateAck(Ballot::decode(from)?),
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
        let dest = GroupSet::all(3);
        let (ballot, current, clock) = (Ballot(7), Ballot(300), Timestamp(1 << 50));
        let message = Arc::new(Message::new(id, dest, *b"payload"));
        let kept = [None, Some(Timestamp(9))];
        let kept = kept
            .map(|global| Kept { message: message.clone(), local: Timestamp(8), global })
            .to_vec();
        let examples = [
            WhiteboxWire::Accept { id, dest, ballot, ts: Timestamp(5) },
            WhiteboxWire::Ack { id, ballots: [0, 2].map(|at| (GroupId::at(at), ballot)).to_vec() },
            WhiteboxWire::Deliver { id, ballot, global: Timestamp(5) },
            WhiteboxWire::Pull(id),
            WhiteboxWire::Body(message),
            WhiteboxWire::NewLeader(ballot),
            WhiteboxWire::NewLeaderAck { ballot, current, clock, kept: kept.clone() },
            WhiteboxWire::NewState { ballot, clock, kept },
            WhiteboxWire::NewStateAck(ballot),
        ];
        golden_bytes("amcast/whitebox/scripts/bytes.txt", &examples);
    }
}
