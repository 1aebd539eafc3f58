//! The two messages of Mu: a request to write into a log, and the answer.

use crate::codec::{self, Coded, Letter};
use base::{Ballot, Slot};

/// The length of a message: channel, kind, two zero bytes, then two words.
const BYTES: usize = 20;

codec::coded! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Message in Letter<2> {
        /// A request that `ballot` may write into the log. Its leader has applied everything before
        /// `from`.
        Request { ballot: Ballot, from: Slot } = 1,
        /// A grant: no other member may write any longer. No entry of this log is for `top` or
        /// later.
        Granted { ballot: Ballot, top: Slot } = 2,
        /// A refusal: `promised` came before.
        Denied { ballot: Ballot, promised: Ballot } = 3,
    }
}

impl Message {
    pub(super) fn encode(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        self.put(&mut &mut bytes[..]);
        bytes
    }

    /// Decodes a message: the only entry for foreign bytes. Anything else is dropped.
    pub(super) fn decode(bytes: &[u8]) -> Option<Message> {
        codec::decode(bytes).ok()
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
