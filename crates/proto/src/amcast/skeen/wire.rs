//! The messages between Skeen's processes.

use crate::amcast::linear::Listed;
use crate::amcast::{GroupSet, MessageId, Timestamp};
use crate::codec::{self, Varints};
use alloc::vec::Vec;

codec::coded! {
    /// A message between processes of Skeen's protocol.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum SkeenWire in Varints {
        /// The sender's local timestamp (LOCAL-TS).
        Local {
            /// The message.
            id: MessageId,
            /// Its destinations.
            dest: GroupSet,
            /// The timestamp.
            ts: Timestamp,
            /// The sender's clock.
            clock: Timestamp,
            /// `hop`: its undelivered messages that concern others.
            listed: Vec<Listed>,
        } = 0,
        /// Algorithm 4: the sender knows the final timestamp and its clock has passed it (ACK).
        Done {
            /// The message.
            id: MessageId,
            /// Its destinations.
            dest: GroupSet,
        } = 1,
        /// The sender's clock.
        Clock {
            /// The reading.
            clock: Timestamp,
            /// As in `Local`.
            listed: Vec<Listed>,
        } = 2,
        /// A request to raise the clock to `ts` and report it to these groups.
        Raise {
            /// The value to reach.
            ts: Timestamp,
            /// The groups that wait for it.
            to: GroupSet,
        } = 3,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::GroupId;
    use super::*;
    use crate::amcast::linear::Level;
    use crate::stage::bytes::golden_bytes;

    #[test]
    fn golden_bytes_of_each_message() {
        let id = MessageId { sender: 3, sequence: 900 };
        let dest = GroupSet::all(3).without(GroupId::at(1));
        let listed = [Listed { bound: Timestamp(7), id, dest, level: Level(1) }].to_vec();
        let (ts, clock) = (Timestamp(5), Timestamp(6));
        let examples = [
            SkeenWire::Local { id, dest, ts, clock, listed },
            SkeenWire::Done { id, dest },
            SkeenWire::Clock { clock: Timestamp(1 << 50), listed: Vec::new() },
            SkeenWire::Raise { ts: Timestamp(9), to: dest },
        ];
        golden_bytes("amcast/skeen/scripts/bytes.txt", &examples);
    }
}
