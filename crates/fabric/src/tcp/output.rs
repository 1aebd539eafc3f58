//! The bytes of a connection that wait to be sent.
//!
//! - O1 *Order.* The values of parcels are sent where they were put, between the bytes around them,
//!   each once, from the memory that their senders share. Tested by
//!   `o1_values_are_sent_where_they_were_put`.

use super::socket;
use super::status::{LinkCounters, LinkError};
use super::wire::{self, ParcelHead};
use base::{At, Bulk, Parcel};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::OwnedFd;

/// The most pieces of memory that one call sends.
const SLICES_MAX: usize = 32;

/// The bytes that wait to be sent.
pub(super) struct Output {
    bytes: Vec<u8>,
    sent: usize,
    /// Values of parcels, each with the number of `bytes` that are sent before it.
    values: VecDeque<(usize, Bulk)>,
    /// The number of bytes of the first value that were sent.
    value_sent: usize,
    /// The number of bytes of all values that were not sent.
    values_pending: usize,
}

impl Output {
    /// Bytes that wait already.
    pub(super) fn new(bytes: Vec<u8>) -> Output {
        let values = VecDeque::new();
        Output { bytes, sent: 0, values, value_sent: 0, values_pending: 0 }
    }

    /// The number of bytes.
    pub(super) fn pending(&self) -> usize {
        self.bytes.len() - self.sent + self.values_pending
    }

    /// The buffer to which bytes are appended.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends a parcel, whose value is not copied.
    pub(super) fn put_parcel(&mut self, at: At, Parcel { tag, bulk }: &Parcel) {
        let n_bytes = bulk.len();
        wire::put_parcel_head(&mut self.bytes, &ParcelHead { at, tag: *tag, n_bytes });
        if n_bytes > 0 {
            self.values.push_back((self.bytes.len(), bulk.clone()));
            self.values_pending += n_bytes;
        }
    }

    /// Sends as much as one call does; true if the kernel took all of it.
    pub(super) fn flush(
        &mut self,
        to: &OwnedFd,
        counters: &mut LinkCounters,
    ) -> Result<bool, LinkError> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let n_slices = self.slices(&mut slices);
        let n = socket::send_pieces(to, &slices[..n_slices])
            .map_err(|errno| LinkError::Os { doing: "send", errno })?;
        counters.sends += 1;
        counters.sent_bytes += n as u64;
        self.advance(n);
        Ok(self.pending() == 0)
    }

    /// The first bytes that wait, as pieces of memory. Returns their number.
    fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let (mut n, mut from, mut skipped) = (0, self.sent, self.value_sent);
        for (before, value) in &self.values {
            if n + 2 > slices.len() {
                return n;
            }
            if *before > from {
                slices[n] = IoSlice::new(&self.bytes[from..*before]);
                (n, from) = (n + 1, *before);
            }
            slices[n] = IoSlice::new(&value[skipped..]);
            (n, skipped) = (n + 1, 0);
        }
        if n < slices.len() && from < self.bytes.len() {
            slices[n] = IoSlice::new(&self.bytes[from..]);
            n += 1;
        }
        n
    }

    /// Forgets the first `n` bytes, which were sent.
    fn advance(&mut self, mut n: usize) {
        while n > 0 {
            let before = self.values.front().map_or(self.bytes.len(), |(before, _)| *before);
            let step = n.min(before - self.sent);
            (self.sent, n) = (self.sent + step, n - step);
            let Some((_, value)) = self.values.front() else { break };
            let step = n.min(value.len() - self.value_sent);
            (self.value_sent, n) = (self.value_sent + step, n - step);
            self.values_pending -= step;
            if self.value_sent == value.len() {
                self.values.pop_front();
                self.value_sent = 0;
            }
        }
        assert_eq!(n, 0, "O1: only what waits is sent");
        if self.sent > self.bytes.len() / 2 {
            // This moves less than was sent, so moves cost less than sends.
            self.bytes.drain(..self.sent);
            self.values.iter_mut().for_each(|(before, _)| *before -= self.sent);
            self.sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that waits, by pieces of at most `step` bytes.
    fn drained(mut output: Output, step: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while output.pending() > 0 {
            let mut slices = [IoSlice::new(&[]); 4];
            let n_slices = output.slices(&mut slices);
            let bytes = slices[..n_slices].iter().flat_map(|slice| slice.iter().copied());
            let some: Vec<u8> = bytes.take(step).collect();
            assert!(!some.is_empty());
            output.advance(some.len());
            all.extend(some);
        }
        assert!(output.values.is_empty() && output.bytes.is_empty());
        all
    }

    #[test]
    fn o1_values_are_sent_where_they_were_put() {
        let parcel = |tag: u64, n: usize| Parcel { tag, bulk: Bulk::copied(&vec![tag as u8; n]) };
        let filled = || {
            let mut output = Output::new(b"begins".to_vec());
            output.put_parcel(At(1), &parcel(1, 5));
            output.put_parcel(At(2), &parcel(2, 0));
            output.put_parcel(At(3), &parcel(3, 700));
            output.buffer().extend_from_slice(b"between");
            output.put_parcel(At(4), &parcel(4, 9));
            output.put_parcel(At(5), &parcel(5, 1));
            output
        };
        let mut expected = b"begins".to_vec();
        for (tag, n_bytes) in [(1, 5), (2, 0), (3, 700), (4, 9), (5, 1)] {
            if tag == 4 {
                expected.extend_from_slice(b"between");
            }
            let head = ParcelHead { at: At(tag as u32), tag, n_bytes };
            wire::put_parcel_head(&mut expected, &head);
            expected.resize(expected.len() + n_bytes, tag as u8);
        }
        assert_eq!(filled().pending(), expected.len());
        for step in [1, 2, 3, 7, 24, 31, 100, 10_000] {
            assert_eq!(drained(filled(), step), expected, "{step} bytes at a time");
        }
    }
}
