//! Messages of Multi-Paxos.

use crate::{MESSAGE_CHANNEL, le_word};
use alloc::vec::Vec;
use base::{Ballot, Instant, Prefix, Slot};

/// Channel, kind and six zero bytes, then five words, little endian. A value may follow.
const HEAD_BYTES: usize = 8 + 8 * N_WORDS;
const N_WORDS: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message<'a> {
    /// Promise `ballot`, tell what you have accepted from `from` on, and begin this stream.
    Prepare { ballot: Ballot, stream: u64, from: Prefix },
    /// What the sender has accepted for `slot`, the `index`-th before its promise.
    Held { ballot: Ballot, stream: u64, index: u64, slot: Slot, accepted: Ballot, value: &'a [u8] },
    /// The promise, behind `n_held` messages of the kind before.
    Promise { ballot: Ballot, stream: u64, n_held: u64, floor: Prefix, position: Prefix },
    /// Not in `ballot`: `promised` came before.
    Denied { ballot: Ballot, promised: Ballot },
    /// Accept `value` for `slot`. Everything below `committed` is decided.
    Accept { ballot: Ballot, stream: u64, slot: Slot, committed: Prefix, value: &'a [u8] },
    /// Everything below `committed` is decided.
    Decided { ballot: Ballot, stream: u64, committed: Prefix },
    /// The sender has accepted in this ballot, or knows to be decided, what is below `position`;
    /// has room for a ring above `decided`; its state machine holds what is below `applied`.
    Accepted { ballot: Ballot, stream: u64, position: Prefix, decided: Prefix, applied: Prefix },
    /// The leader no longer holds what is below `start`: install a state.
    Behind { ballot: Ballot, start: Prefix },
    /// Have you promised nothing later? And promise nothing to others for a while.
    Ask { ballot: Ballot, number: u64, at: Instant },
    /// Nothing later, and nothing from some time after `at` of the asker's clock.
    Granted { ballot: Ballot, number: u64, at: Instant },
}

impl<'a> Message<'a> {
    /// Writes it into `bytes`, which keeps its capacity.
    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        let (kind, words, value): (u8, [u64; N_WORDS], &[u8]) = match *self {
            Message::Prepare { ballot, stream, from } => (1, [ballot.0, stream, from.0, 0, 0], &[]),
            Message::Held { ballot, stream, index, slot, accepted, value } => {
                (2, [ballot.0, stream, index, slot.0, accepted.0], value)
            }
            Message::Promise { ballot, stream, n_held, floor, position } => {
                (3, [ballot.0, stream, n_held, floor.0, position.0], &[])
            }
            Message::Denied { ballot, promised } => (4, [ballot.0, promised.0, 0, 0, 0], &[]),
            Message::Accept { ballot, stream, slot, committed, value } => {
                (5, [ballot.0, stream, slot.0, committed.0, 0], value)
            }
            Message::Decided { ballot, stream, committed } => {
                (6, [ballot.0, stream, committed.0, 0, 0], &[])
            }
            Message::Accepted { ballot, stream, position, decided, applied } => {
                (7, [ballot.0, stream, position.0, decided.0, applied.0], &[])
            }
            Message::Behind { ballot, start } => (8, [ballot.0, start.0, 0, 0, 0], &[]),
            Message::Ask { ballot, number, at } => (9, [ballot.0, number, at.0, 0, 0], &[]),
            Message::Granted { ballot, number, at } => (10, [ballot.0, number, at.0, 0, 0], &[]),
        };
        bytes.clear();
        bytes.extend_from_slice(&[MESSAGE_CHANNEL, kind, 0, 0, 0, 0, 0, 0]);
        words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        bytes.extend_from_slice(value);
    }

    /// The one gateway for foreign bytes: anything else is dropped.
    pub(super) fn decode(bytes: &'a [u8]) -> Option<Message<'a>> {
        let (head, value) = bytes.split_at_checked(HEAD_BYTES)?;
        if head[0] != MESSAGE_CHANNEL || head[2..8].iter().any(|byte| *byte != 0) {
            return None;
        }
        let word = |at: usize| le_word(&head[8 + 8 * at..]);
        let (ballot, stream) = (Ballot(word(0)), word(1));
        let message = match head[1] {
            1 => Message::Prepare { ballot, stream, from: Prefix(word(2)) },
            2 => {
                let (slot, accepted) = (Slot(word(3)), Ballot(word(4)));
                Message::Held { ballot, stream, index: word(2), slot, accepted, value }
            }
            3 => {
                let (floor, position) = (Prefix(word(3)), Prefix(word(4)));
                Message::Promise { ballot, stream, n_held: word(2), floor, position }
            }
            4 => Message::Denied { ballot, promised: Ballot(word(1)) },
            5 => {
                let (slot, committed) = (Slot(word(2)), Prefix(word(3)));
                Message::Accept { ballot, stream, slot, committed, value }
            }
            6 => Message::Decided { ballot, stream, committed: Prefix(word(2)) },
            7 => {
                let (position, decided) = (Prefix(word(2)), Prefix(word(3)));
                Message::Accepted { ballot, stream, position, decided, applied: Prefix(word(4)) }
            }
            8 => Message::Behind { ballot, start: Prefix(word(1)) },
            9 => Message::Ask { ballot, number: word(1), at: Instant(word(2)) },
            10 => Message::Granted { ballot, number: word(1), at: Instant(word(2)) },
            _ => return None,
        };
        let has_value = matches!(message, Message::Held { .. } | Message::Accept { .. });
        (has_value || value.is_empty()).then_some(message)
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
