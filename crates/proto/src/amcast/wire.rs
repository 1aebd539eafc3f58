//! Encoding and decoding: varints and byte strings, checked once where they come in.

use super::{AFTER_MAX, Footprint, GroupId, GroupSet, Layout, Message, MessageId, Timestamp};
use alloc::sync::Arc;
use alloc::vec::Vec;
use base::{Ballot, MemberSet};
use core::fmt::Debug;

/// A message between processes.
pub trait Wire: Clone + Debug + PartialEq {
    /// Appends its bytes.
    fn encode(&self, out: &mut Vec<u8>);

    /// Reads a message.
    ///
    /// # Errors
    /// [`Malformed`]: the bytes end early, or are not from [`Wire::encode`].
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed>;

    /// Whether this is a request for something that may be long, which is repeated after a patience
    /// if no answer comes. A host may skip one that it has just handed on.
    fn asks(&self) -> bool {
        false
    }
}

/// The error of bytes that are not a valid message: drop the connection that they came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("a message of atomic multicast is cut off or garbled")
    }
}

impl core::error::Error for Malformed {}

/// The most elements that a list inside one message may claim.
const LIST_MAX: u64 = 1 << 20;

/// The bytes that are left to be read.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// The bytes that were not read.
    pub const fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Whether all bytes were read.
    pub const fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    /// One byte.
    ///
    /// # Errors
    /// [`Malformed`] at the end.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*first)
    }

    /// A number, seven bits a byte.
    ///
    /// # Errors
    /// [`Malformed`]: cut off, or more than 64 bits.
    pub fn number(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if part << shift >> shift != part {
                return Err(Malformed);
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    /// A byte string.
    ///
    /// # Errors
    /// [`Malformed`]: cut off.
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let n = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        let (bytes, rest) = self.0.split_at_checked(n).ok_or(Malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// A list, each element read by `one`.
    ///
    /// # Errors
    /// [`Malformed`]: an element is, or the list claims too many.
    pub fn list<T>(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let n = self.number()?;
        // An element takes a byte at least: a claim beyond what is there allocates nothing.
        if n > LIST_MAX || n > self.0.len() as u64 {
            return Err(Malformed);
        }
        (0..n).map(|_| one(self)).collect()
    }

    /// A flag.
    ///
    /// # Errors
    /// [`Malformed`]: neither 0 nor 1.
    pub fn flag(&mut self) -> Result<bool, Malformed> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }
}

/// Appends a number, seven bits a byte.
pub fn number(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a list, each element written by `one`.
pub fn list<T>(items: &[T], out: &mut Vec<u8>, mut one: impl FnMut(&T, &mut Vec<u8>)) {
    number(items.len() as u64, out);
    items.iter().for_each(|item| one(item, out));
}

macro_rules! as_number {
    ($($type:ty: $to:expr, $from:expr;)*) => {$(
        impl Wire for $type {
            fn encode(&self, out: &mut Vec<u8>) {
                number($to(*self), out);
            }

            fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
                let value = from.number()?;
                $from(value).ok_or(Malformed)
            }
        }
    )*};
}

as_number! {
    Timestamp: |ts: Timestamp| ts.0, |value| Some(Timestamp(value));
    Ballot: |epoch: Ballot| epoch.0, |value| Some(Ballot(value));
    GroupId: |group: GroupId| group.index() as u64, |value: u64| GroupId::new(value as usize);
    GroupSet: |set: GroupSet| u64::from(set.bits()),
        |value: u64| u32::try_from(value).ok().map(GroupSet::from_bits);
    MemberSet: |set: MemberSet| u64::from(set.bits()),
        |value: u64| u8::try_from(value).ok().map(MemberSet::from_bits);
}

impl Wire for MessageId {
    fn encode(&self, out: &mut Vec<u8>) {
        number(self.sender, out);
        number(self.sequence, out);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(MessageId { sender: from.number()?, sequence: from.number()? })
    }
}

impl Wire for Arc<Message> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.id.encode(out);
        self.dest.encode(out);
        self.after.encode(out);
        self.footprint.encode(out);
        number(self.payload.len() as u64, out);
        out.extend_from_slice(&self.payload);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let message = Message {
            id: MessageId::decode(from)?,
            dest: GroupSet::decode(from)?,
            after: Timestamp::decode(from)?,
            footprint: Footprint::decode(from)?,
            payload: from.bytes()?.into(),
        };
        // T5.
        if message.after > AFTER_MAX { Err(Malformed) } else { Ok(Arc::new(message)) }
    }
}

/// Whether a message addresses groups that exist, and at least one: checked where it comes in.
pub fn is_addressable(dest: GroupSet, layout: &Layout) -> bool {
    !dest.is_empty() && dest.is_within(layout.groups())
}

/// Encodes and decodes: for tests of what travels.
///
/// # Panics
/// If something is left over or cannot be read.
#[cfg(test)]
pub(crate) fn round_trip<W: Wire>(wire: &W) -> W {
    let mut bytes = Vec::new();
    wire.encode(&mut bytes);
    for cut in 0..bytes.len() {
        // A cut message is refused or is another message, but nothing panics.
        let _ = W::decode(&mut Reader::new(&bytes[..cut]));
    }
    let mut reader = Reader::new(&bytes);
    let back = W::decode(&mut reader).expect("it was just encoded");
    assert!(reader.is_at_end());
    back
}

/// Compares the bytes of each of `messages` with those in the file at `path`.
///
/// # Panics
/// If they differ.
#[cfg(test)]
pub(crate) fn golden_bytes<W: Wire>(path: &str, messages: &[W]) {
    use crate::stage::bytes::{self, Example};
    let example = |message: &W| {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        Example::new(message, bytes)
    };
    let examples: Vec<_> = messages.iter().map(example).collect();
    bytes::check(path, 0, &examples, &|bytes| {
        let mut from = Reader::new(bytes);
        let message = W::decode(&mut from).ok()?;
        from.is_at_end().then(|| example(&message))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_overlong_ones_are_refused() {
        let mut rng = base::Rng::new(1);
        for _ in 0..2000 {
            let value = rng.next_u64() >> rng.below(64);
            let mut bytes = Vec::new();
            number(value, &mut bytes);
            assert_eq!(Reader::new(&bytes).number(), Ok(value));
        }
        assert_eq!(Reader::new(&[0xff; 11]).number(), Err(Malformed));
        assert_eq!(
            Reader::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).number(),
            Err(Malformed)
        );
    }

    #[test]
    fn messages_come_back() {
        let message = Arc::new(Message {
            id: MessageId { sender: 700, sequence: 3 },
            dest: GroupSet::all(5),
            after: Timestamp(1 << 40),
            footprint: Footprint::NONE.reading(b"a").writing(b"b"),
            payload: (*b"payload").into(),
        });
        assert_eq!(round_trip(&message), message);
    }

    #[test]
    fn a_list_that_claims_more_than_there_is_allocates_nothing() {
        let mut bytes = Vec::new();
        number(LIST_MAX, &mut bytes);
        assert_eq!(Reader::new(&bytes).list(|from| from.byte()), Err(Malformed));
    }
}
