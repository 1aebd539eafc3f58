//! The messages between White-Box's processes.

use crate::amcast::{GroupId, GroupSet, Message, MessageId, Timestamp};
use crate::codec::{self, Coded, Malformed, Out, Reader, Varints, number};
use alloc::sync::Arc;
use alloc::vec::Vec;
use base::Ballot;

codec::coded! {
    /// The progress of one message at one process, as far as it outlives a leader.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Kept in Varints {
        /// The message.
        pub message: Arc<Message>,
        /// The own group's timestamp, accepted.
        pub local: Timestamp,
        /// The final one, if it is committed.
        pub global: Option<Timestamp> as OneMore,
    }
}

codec::coded! {
    /// A message between processes of White-Box.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum WhiteboxWire in Varints {
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
        } = 0,
        /// The sender has stored the proposals of all destinations' leaders.
        Ack {
            /// The message.
            id: MessageId,
            /// The ballots of those proposals.
            ballots: Vec<(GroupId, Ballot)>,
        } = 1,
        /// An order to deliver this message next.
        Deliver {
            /// The message.
            id: MessageId,
            /// The ballot of the leader.
            ballot: Ballot,
            /// Its final timestamp.
            global: Timestamp,
        } = 2,
        /// A request for the message.
        Pull(MessageId) = 3,
        /// The requested message.
        Body(Arc<Message>) = 4,
        /// The sender wants to lead.
        NewLeader(Ballot) = 5,
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
        } = 6,
        /// The new leader's state.
        NewState {
            /// The ballot of the leader.
            ballot: Ballot,
            /// The clock.
            clock: Timestamp,
            /// The state.
            kept: Vec<Kept>,
        } = 7,
        /// The state is taken over.
        NewStateAck(Ballot) = 8,
    }
}

/// Nothing as 0, and anything else as one more.
enum OneMore {}

impl Coded<'_, OneMore> for Option<Timestamp> {
    fn put(&self, out: &mut impl Out) {
        number(self.map_or(0, |ts| ts.0 + 1), out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(from.number()?.checked_sub(1).map(Timestamp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::bytes::golden_bytes;

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
