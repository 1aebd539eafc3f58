//! The two messages of Mu: a request to write into a log, and the answer.

use crate::{MESSAGE_CHANNEL, le_word};
use base::{Ballot, Slot};

/// The length of a message, little endian: channel, kind, two zero bytes, then two words.
const BYTES: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// A request that `ballot` may write into the log. Its leader has applied everything before
    /// `from`.
    Request { ballot: Ballot, from: Slot },
    /// A grant: no other member may write any longer. No entry of this log is for `top` or later.
    Granted { ballot: Ballot, top: Slot },
    /// A refusal: `promised` came before.
    Denied { ballot: Ballot, promised: Ballot },
}

impl Message {
    pub(super) fn encode(self) -> [u8; BYTES] {
        let (kind, first, second) = match self {
            Message::Request { ballot, from } => (1, ballot.0, from.0),
            Message::Granted { ballot, top } => (2, ballot.0, top.0),
            Message::Denied { ballot, promised } => (3, ballot.0, promised.0),
        };
        let mut bytes = [0; BYTES];
        bytes[..2].copy_from_slice(&[MESSAGE_CHANNEL, kind]);
        bytes[4..12].copy_from_slice(&first.to_le_bytes());
        bytes[12..].copy_from_slice(&second.to_le_bytes());
        bytes
    }

    /// Decodes a message: the only entry for foreign bytes. Anything else is dropped.
    pub(super) fn decode(bytes: &[u8]) -> Option<Message> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        if bytes[0] != MESSAGE_CHANNEL {
            return None;
        }
        let wide = |at: usize| le_word(&bytes[at..]);
        let ballot = Ballot(wide(4));
        match bytes[1] {
            1 => Some(Message::Request { ballot, from: Slot(wide(12)) }),
            2 => Some(Message::Granted { ballot, top: Slot(wide(12)) }),
            3 => Some(Message::Denied { ballot, promised: Ballot(wide(12)) }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::bytes::{self, Example};

    #[test]
    fn golden_bytes_of_each_message() {
        let ballot = Ballot(1 << 50);
        let example = |message: Message| Example::new(message, message.encode().to_vec());
        let examples = [
            Message::Request { ballot, from: Slot(76) },
            Message::Granted { ballot, top: Slot(77) },
            Message::Denied { ballot, promised: Ballot(9) },
        ];
        bytes::check("mu/scripts/bytes.txt", 1, &examples.map(example), &|bytes| {
            Message::decode(bytes).map(example)
        });
    }
}
