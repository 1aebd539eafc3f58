//! The bytes of a connection that wait to be sent.

use super::socket;
use super::status::{LinkCounters, LinkError};
use std::os::fd::OwnedFd;

/// The bytes that wait to be sent.
pub(super) struct Output {
    bytes: Vec<u8>,
    sent: usize,
}

impl Output {
    /// Bytes that wait already.
    pub(super) fn new(bytes: Vec<u8>) -> Output {
        Output { bytes, sent: 0 }
    }

    /// The number of bytes.
    pub(super) fn pending(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// The buffer to which bytes are appended.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Sends everything with one call; true if the kernel took all of it.
    pub(super) fn flush(
        &mut self,
        to: &OwnedFd,
        counters: &mut LinkCounters,
    ) -> Result<bool, LinkError> {
        let n = socket::send(to, &self.bytes[self.sent..])
            .map_err(|errno| LinkError::Os { doing: "send", errno })?;
        counters.sends += 1;
        counters.sent_bytes += n as u64;
        self.sent += n;
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
        } else if self.sent > self.bytes.len() / 2 {
            // This moves less than was sent, so moves cost less than sends.
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
        Ok(self.pending() == 0)
    }
}
