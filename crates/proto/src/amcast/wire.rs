//! The bytes of what processes send, checked once where they come in.

use super::{AFTER_MAX, Footprint, GroupId, GroupSet, Layout, Message, MessageId, Timestamp};
use crate::codec::{Coded, Format, Out, Varints};
use alloc::sync::Arc;
use alloc::vec::Vec;
use base::MemberSet;
use core::fmt::Debug;

pub use crate::codec::{Malformed, Reader, list, number};

/// What travels between processes, or is kept on stable storage: in [`Varints`].
pub trait Wire: for<'a> Coded<'a, Varints> + Clone + Debug + PartialEq {
    /// Appends its bytes.
    fn encode(&self, out: &mut Vec<u8>) {
        self.put(out);
    }

    /// Reads it.
    ///
    /// # Errors
    /// [`Malformed`]: the bytes end early, or are not from [`Wire::encode`].
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Self::take(from)
    }
}

impl<T: for<'a> Coded<'a, Varints> + Clone + Debug + PartialEq> Wire for T {}

macro_rules! as_number {
    ($($type:ty: $to:expr, $from:expr;)*) => {$(
        impl Coded<'_, Varints> for $type {
            fn put(&self, out: &mut impl Out) {
                number($to(*self), out);
            }

            fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
                $from(from.number()?).ok_or(Malformed)
            }
        }
    )*};
}

as_number! {
    Timestamp: |ts: Timestamp| ts.0, |value| Some(Timestamp(value));
    GroupId: |group: GroupId| group.index() as u64, |value| GroupId::new(value as usize);
    GroupSet: |set: GroupSet| u64::from(set.bits()),
        |value| u32::try_from(value).ok().map(GroupSet::from_bits);
    MemberSet: |set: MemberSet| u64::from(set.bits()),
        |value| u8::try_from(value).ok().map(MemberSet::from_bits);
}

impl Coded<'_, Varints> for Arc<Message> {
    fn put(&self, out: &mut impl Out) {
        (self.id, self.dest, self.after).put(out);
        self.footprint.put(out);
        Varints::put_bytes(&self.payload, out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let message = Message {
            id: MessageId::take(from)?,
            dest: GroupSet::take(from)?,
            after: Timestamp::take(from)?,
            footprint: Footprint::take(from)?,
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
