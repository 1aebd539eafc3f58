//! The bytes of a connection that have arrived.
//!
//! - I1 *Around the buffer.* The value of a long parcel is received where its holders will read it.
//!   Of what comes before the parcel is known a little is copied, and of a short one all of it:
//!   each byte once. Tested by `parcels_of_every_length_arrive_whole_and_before_what_follows`.

use super::status::{LinkCounters, LinkError};
use super::wire::{PARCEL_HEAD_BYTES, ParcelHead};
use super::{socket, wire};
use base::{Bulk, Parcel};
use std::os::fd::OwnedFd;

/// The length from which on a parcel is received around the buffer: below it, a copy costs less
/// than a call of the kernel.
const LONG_BYTES_MIN: usize = 64 << 10;

/// The most bytes that are received at a time behind a long parcel, until there are so many: as a
/// rule there is another one, of which less is copied then.
const BEHIND_BYTES: usize = 4 << 10;

/// The bytes that have arrived: whole frames, and perhaps the start of one.
pub(super) struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// The long parcel whose value comes next.
    arriving: Option<Arriving>,
    /// Whether a long parcel has come, and little since.
    is_behind: bool,
}

/// A parcel of which a part has arrived.
struct Arriving {
    head: ParcelHead,
    bytes: Vec<u8>,
    /// The number of bytes that came by way of the buffer.
    n_copied: usize,
}

impl Input {
    pub(super) fn new(n_bytes: usize) -> Input {
        let bytes = vec![0; n_bytes];
        Input { bytes, start: 0, end: 0, arriving: None, is_behind: false }
    }

    /// The bytes that have arrived and were not consumed.
    pub(super) fn arrived(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(super) fn consume(&mut self, n_bytes: usize) {
        self.start += n_bytes;
        assert!(self.start <= self.end, "only what has arrived can be consumed");
    }

    /// Receives the rest of the parcel with which the buffer begins around it, if it is a long one.
    /// What has arrived is not a whole frame.
    pub(super) fn begin_parcel(&mut self, head: ParcelHead) {
        if head.n_bytes < LONG_BYTES_MIN {
            return;
        }
        let mut bytes = Vec::new();
        bytes.reserve_exact(head.n_bytes);
        bytes.extend_from_slice(&self.arrived()[PARCEL_HEAD_BYTES..]);
        let n_copied = bytes.len();
        assert!(n_copied < head.n_bytes, "I1: a whole parcel is a whole frame");
        self.consume(PARCEL_HEAD_BYTES + n_copied);
        self.arriving = Some(Arriving { head, bytes, n_copied });
    }

    /// Whether the value of a parcel comes next.
    pub(super) fn is_arriving(&self) -> bool {
        self.arriving.is_some()
    }

    /// The parcel that was arriving, if all of it is there.
    pub(super) fn take_parcel(&mut self) -> Option<(ParcelHead, Parcel)> {
        let is_whole = |one: &mut Arriving| one.bytes.len() == one.head.n_bytes;
        let Arriving { head, bytes, n_copied } = self.arriving.take_if(is_whole)?;
        self.is_behind = true;
        Some((head, Parcel { tag: head.tag, bulk: Bulk::new(bytes, n_copied) }))
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
        let received = match &mut self.arriving {
            Some(one) => {
                assert_eq!(self.end, 0, "I1: what came before the value was consumed");
                let received = socket::receive_behind(from, &mut one.bytes);
                // A vector may have more room than was asked for.
                if let Some(behind) = one.bytes.get(one.head.n_bytes..) {
                    self.bytes[..behind.len()].copy_from_slice(behind);
                    self.end = behind.len();
                    one.bytes.truncate(one.head.n_bytes);
                }
                received
            }
            None => {
                if self.end == self.bytes.len() {
                    // The start of a long frame fills the buffer. W4 has checked its length, so
                    // this is bounded.
                    assert!(
                        self.end < wire::FRAME_BYTES_MAX,
                        "L3: whole frames are consumed first"
                    );
                    self.bytes.resize((2 * self.end).min(wire::FRAME_BYTES_MAX), 0);
                }
                let most = if self.is_behind { BEHIND_BYTES } else { usize::MAX };
                let room = (self.bytes.len() - self.end).min(most);
                let received = socket::receive(from, &mut self.bytes[self.end..][..room]);
                if let Ok(Some(n)) = received {
                    self.end += n;
                    self.is_behind &= n < room;
                }
                received
            }
        };
        match received {
            Ok(None) => Ok(false),
            Ok(Some(0)) => Err(LinkError::Closed),
            Ok(Some(n)) => {
                counters.receives += 1;
                counters.received_bytes += n as u64;
                Ok(true)
            }
            Err(errno) => Err(LinkError::Os { doing: "receive", errno }),
        }
    }
}
