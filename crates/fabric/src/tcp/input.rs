//! The bytes of a connection that have arrived.

use super::status::{LinkCounters, LinkError};
use super::{socket, wire};
use std::os::fd::OwnedFd;

/// The bytes that have arrived: whole frames, and perhaps the start of one.
pub(super) struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    pub(super) fn new(n_bytes: usize) -> Input {
        Input { bytes: vec![0; n_bytes], start: 0, end: 0 }
    }

    /// The bytes that have arrived and were not consumed.
    pub(super) fn arrived(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(super) fn consume(&mut self, n_bytes: usize) {
        self.start += n_bytes;
        assert!(self.start <= self.end, "only what has arrived can be consumed");
    }

    /// Receives once; false if there was nothing.
    pub(super) fn fill(
        &mut self,
        from: &OwnedFd,
        counters: &mut LinkCounters,
    ) -> Result<bool, LinkError> {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.bytes.len() {
            // The start of a long frame fills the buffer. W4 has checked its length, so this is
            // bounded.
            assert!(self.end < wire::FRAME_BYTES_MAX, "L3: whole frames are consumed first");
            self.bytes.resize((2 * self.end).min(wire::FRAME_BYTES_MAX), 0);
        }
        match socket::receive(from, &mut self.bytes[self.end..]) {
            Ok(None) => Ok(false),
            Ok(Some(0)) => Err(LinkError::Closed),
            Ok(Some(n)) => {
                counters.receives += 1;
                counters.received_bytes += n as u64;
                self.end += n;
                Ok(true)
            }
            Err(errno) => Err(LinkError::Os { doing: "receive", errno }),
        }
    }
}
