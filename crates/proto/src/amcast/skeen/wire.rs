//! The messages between Skeen's processes.

use crate::amcast::linear::{Listed, encode_listed};
use crate::amcast::wire::{Malformed, Reader, Wire};
use crate::amcast::{GroupSet, MessageId, Timestamp};
use alloc::vec::Vec;

/// A message between processes of Skeen's protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkeenWire {
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
    },
    /// Algorithm 4: the sender knows the final timestamp and its clock has passed it (ACK).
    Done {
        /// The message.
        id: MessageId,
        /// Its destinations.
        dest: GroupSet,
    },
    /// The sender's clock.
    Clock {
        /// The reading.
        clock: Timestamp,
        /// As in `Local`.
        listed: Vec<Listed>,
    },
    /// A request to raise the clock to `ts` and report it to these groups.
    Raise {
        /// The value to reach.
        ts: Timestamp,
        /// The groups that wait for it.
        to: GroupSet,
    },
}

impl Wire for SkeenWire {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            SkeenWire::Local { id, dest, ts, clock, listed } => {
                out.push(0);
                id.encode(out);
                dest.encode(out);
                ts.encode(out);
                clock.encode(out);
                encode_listed(listed, out);
            }
            SkeenWire::Done { id, dest } => {
                out.push(1);
                id.encode(out);
                dest.encode(out);
            }
            SkeenWire::Clock { clock, listed } => {
                out.push(2);
                clock.encode(out);
                encode_listed(listed, out);
            }
            SkeenWire::Raise { ts, to } => {
                out.push(3);
                ts.encode(out);
                to.encode(out);
            }
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.byte()? {
            0 => SkeenWire::Local {
                id: MessageId::decode(from)?,
                dest: GroupSet::decode(from)?,
                ts: Timestamp::decode(from)?,
                clock: Timestamp::decode(from)?,
                listed: from.list(Listed::decode)?,
            },
            1 => SkeenWire::Done { id: MessageId::decode(from)?, dest: GroupSet::decode(from)? },
            2 => SkeenWire::Clock {
                clock: Timestamp::decode(from)?,
                listed: from.list(Listed::decode)?,
            },
            3 => SkeenWire::Raise { ts: Timestamp::decode(from)?, to: GroupSet::decode(from)? },
            _ => return Err(Malformed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::GroupId;
    use super::*;
    use crate::amcast::linear::Level;
    use crate::amcast::wire::golden_bytes;

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
