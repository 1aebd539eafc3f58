//! Messages that executed commands have published, until their owner takes them.
//!
//! They are not part of the state: neither a snapshot nor a digest contains them, and above a bound
//! they are dropped. A subscriber gets each message at most once.

/// The most bytes that wait for their owner.
pub const PUBLISHED_BYTES_MAX: usize = 16 << 20;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The channel.
    pub channel: Vec<u8>,
    /// The content.
    pub message: Vec<u8>,
}

/// The published messages; see the module's text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox {
    messages: Vec<Published>,
    bytes: usize,
}

impl Outbox {
    /// Adds a message, if there is room.
    pub(crate) fn push(&mut self, channel: &[u8], message: &[u8]) {
        self.add(Published { channel: channel.to_vec(), message: message.to_vec() });
    }

    /// Adds the messages of another store.
    pub(crate) fn append(&mut self, other: &mut Outbox) {
        other.take().into_iter().for_each(|published| self.add(published));
    }

    fn add(&mut self, published: Published) {
        let bytes = published.channel.len() + published.message.len() + 64;
        if self.bytes + bytes <= PUBLISHED_BYTES_MAX {
            self.bytes += bytes;
            self.messages.push(published);
        }
    }

    /// Takes all messages, in the order in which they were published.
    pub(crate) fn take(&mut self) -> Vec<Published> {
        self.bytes = 0;
        std::mem::take(&mut self.messages)
    }
}
