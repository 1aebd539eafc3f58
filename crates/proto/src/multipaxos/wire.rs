//! Messages of Multi-Paxos: channel, kind and six zero bytes, then five words, little endian. A
//! value may follow.

use crate::codec::{self, Coded, Letter, Padded};
use alloc::vec::Vec;
use base::{Ballot, Instant, Prefix, Slot};

codec::coded! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Message<'a> in Letter<6> {
        /// Promise `ballot`, tell what you have accepted from `from` on, and begin this stream.
        Prepare { ballot: Ballot, stream: u64, from: Prefix as Padded<2> } = 1,
        /// What the sender has accepted for `slot`, the `index`-th before its promise.
        Held {
            ballot: Ballot,
            stream: u64,
            index: u64,
            slot: Slot,
            accepted: Ballot,
            value: &'a [u8],
        } = 2,
        /// The promise, behind `n_held` messages of the kind before.
        Promise { ballot: Ballot, stream: u64, n_held: u64, floor: Prefix, position: Prefix } = 3,
        /// Not in `ballot`: `promised` came before.
        Denied { ballot: Ballot, promised: Ballot as Padded<3> } = 4,
        /// Accept `value` for `slot`. Everything below `committed` is decided.
        Accept {
            ballot: Ballot,
            stream: u64,
            slot: Slot,
            committed: Prefix as Padded<1>,
            value: &'a [u8],
        } = 5,
        /// Everything below `committed` is decided.
        Decided { ballot: Ballot, stream: u64, committed: Prefix as Padded<2> } = 6,
        /// The sender has accepted in this ballot, or knows to be decided, what is below
        /// `position`; has room for a ring above `decided`; its state machine holds what is below
        /// `applied`.
        Accepted {
            ballot: Ballot,
            stream: u64,
            position: Prefix,
            decided: Prefix,
            applied: Prefix,
        } = 7,
        /// The leader no longer holds what is below `start`: install a state.
        Behind { ballot: Ballot, start: Prefix as Padded<3> } = 8,
        /// Have you promised nothing later? And promise nothing to others for a while.
        Ask { ballot: Ballot, number: u64, at: Instant as Padded<2> } = 9,
        /// Nothing later, and nothing from some time after `at` of the asker's clock.
        Granted { ballot: Ballot, number: u64, at: Instant as Padded<2> } = 10,
    }
}

impl<'a> Message<'a> {
    /// Writes it into `bytes`, which keeps its capacity.
    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.clear();
        self.put(bytes);
    }

    /// The one gateway for foreign bytes: anything else is dropped.
    pub(super) fn decode(bytes: &'a [u8]) -> Option<Message<'a>> {
        let zeros = bytes.get(2..8)?;
        zeros.iter().all(|byte| *byte == 0).then(|| codec::decode(bytes).ok())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::bytes::{self, Example};

    fn example(message: Message<'_>) -> Example {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        Example::new(message, bytes)
    }

    #[test]
    fn golden_bytes_of_each_message() {
        let (ballot, stream, at) = (Ballot(1 << 50), 5, Instant(77));
        let (slot, from, floor) = (Slot(9), Prefix(12), Prefix(4));
        let (decided, applied) = (Prefix(8), Prefix(7));
        let (accepted, value) = (Ballot(3), &b"value"[..]);
        let examples = [
            Message::Prepare { ballot, stream, from },
            Message::Held { ballot, stream, index: 2, slot, accepted, value },
            Message::Promise { ballot, stream, n_held: 3, floor, position: from },
            Message::Denied { ballot, promised: Ballot(1 << 51) },
            Message::Accept { ballot, stream, slot, committed: from, value },
            Message::Accept { ballot, stream, slot, committed: from, value: &[] },
            Message::Decided { ballot, stream, committed: from },
            Message::Accepted { ballot, stream, position: from, decided, applied },
            Message::Behind { ballot, start: from },
            Message::Ask { ballot, number: 6, at },
            Message::Granted { ballot, number: 6, at },
        ];
        bytes::check("multipaxos/scripts/bytes.txt", 1, &examples.map(example), &|bytes| {
            Message::decode(bytes).map(example)
        });
    }
}
