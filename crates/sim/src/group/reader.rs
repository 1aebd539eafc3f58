//! Messages that an application looks at some time after they were delivered, where they are.
//!
//! - I1 *As it was.* A message is what it was when it was delivered, however late its application
//!   looks, and whatever has become of its sender; also after the end of its own process.

use super::app;
use super::history::MessageId;
use proto::vsync::Payload;

/// The most turns after which a message is looked at: most of them soon, some of them late.
const SOON: u64 = 8;
const LATE: u64 = 200;

/// What an application has not looked at again.
#[derive(Default)]
pub(super) struct Reader {
    kept: Vec<(u64, MessageId, Payload)>,
}

impl Reader {
    /// Keeps a message that is delivered in this turn.
    pub(super) fn keep(&mut self, turn: u64, id: MessageId, message: Payload) {
        let after = id.ordinal.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let late = if after.is_multiple_of(16) { LATE } else { SOON };
        self.kept.push((turn + after % late, id, message));
    }

    /// Looks at what is due in this turn. The message that is another one now.
    pub(super) fn look(&mut self, turn: u64) -> Option<MessageId> {
        let due = self.kept.extract_if(.., |(due, ..)| *due <= turn);
        let mut wrong = due.filter(|(_, id, message)| {
            // Some are copied, and some are read where they are.
            let is_copied = id.ordinal.is_multiple_of(2);
            let name = if is_copied { app::name(message) } else { app::name(&bytes(message)) };
            name != Some(*id)
        });
        let first = wrong.next();
        first.map(|(_, id, _)| id)
    }
}

/// The bytes, without a copy in their holder's memory.
pub(super) fn bytes(message: &Payload) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(message.len());
    message.read(|some| bytes.extend_from_slice(some));
    bytes
}
