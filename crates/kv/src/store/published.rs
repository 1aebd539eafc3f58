//! Messages that were published by what was executed, until their owner takes them.
//!
//! They are no part of the state: neither a snapshot nor a digest has them, and beyond a bound they
//! are dropped. Whoever subscribes hears them at most once.

/// The most bytes that wait for their owner.
pub const PUBLISHED_BYTES_MAX: usize = 16 << 20;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// Where it was published.
    pub channel: Vec<u8>,
    /// What it says.
    pub message: Vec<u8>,
}

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox {
    messages: Vec<Published>,
    bytes: usize,
}

impl Outbox {
    /// Takes a message, if there is room.
    pub(crate) fn push(&mut self, channel: &[u8], message: &[u8]) {
        let bytes = channel.len() + message.len() + 64;
        if self.bytes + bytes <= PUBLISHED_BYTES_MAX {
            self.bytes += bytes;
            self.messages.push(Published { channel: channel.to_vec(), message: message.to_vec() });
        }
    }

    /// Takes another's messages.
    pub(crate) fn append(&mut self, other: &mut Outbox) {
        for Published { channel, message } in other.take() {
            self.push(&channel, &message);
        }
    }

    /// All of them, in the order in which they were published.
    pub(crate) fn take(&mut self) -> Vec<Published> {
        self.bytes = 0;
        std::mem::take(&mut self.messages)
    }
}
