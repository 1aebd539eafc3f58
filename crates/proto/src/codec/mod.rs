//! One codec for the messages between members and the frames between their engines.
//!
//! A message is declared once, with [`coded!`](crate::coded). The declaration is the format: the
//! tag, then the fields in their order, each as its type and the message's [`Format`] say. A value
//! that is written in another way names that way (`field: u64 as Padded<1>`), and a type with rules
//! of its own implements [`Coded`] by hand.
//!
//! - C1 *What is decoded is what was encoded.* By construction: both sides follow from one
//!   declaration. `c1_` tests what is written by hand here; the golden bytes of each protocol
//!   (`scripts/bytes.txt`) keep the format what it is.
//! - C2 *No bytes make a decoder panic, read past its input, or allocate more than its input is
//!   long.* By construction: all bytes come from a [`Reader`]; `c2_` and the damaged messages of
//!   the golden bytes.

mod declare;
mod reader;
mod seats;

pub use crate::coded;
pub use reader::{Malformed, Out, Reader, list, number};

use alloc::boxed::Box;
use alloc::vec::Vec;
use base::{Ballot, Incarnation, Instant, Prefix, Rank, Slot};

/// A value that is written as `F` says, and read from bytes that live as long as `'a`.
pub trait Coded<'a, F>: Sized {
    /// Appends its bytes.
    fn put(&self, out: &mut impl Out);

    /// Reads it.
    ///
    /// # Errors
    /// [`Malformed`]: the bytes end early, or are not from [`Coded::put`].
    fn take(from: &mut Reader<'a>) -> Result<Self, Malformed>;
}

/// A message whose kind is told by a tag, for a format that writes the tag apart from the fields.
pub trait Tagged<'a, F>: Sized {
    /// The tag of its kind.
    fn tag(&self) -> u8;

    /// Appends what stands behind the tag.
    fn put_fields(&self, out: &mut impl Out);

    /// Reads what stands behind `tag`.
    ///
    /// # Errors
    /// [`Malformed`]: no kind has this tag, or its fields are not there.
    fn take_fields(tag: u8, from: &mut Reader<'a>) -> Result<Self, Malformed>;
}

/// Reads a message that takes all of `bytes`.
///
/// # Errors
/// [`Malformed`]: it takes more, or less, or is no message.
pub fn decode<'a, F, T: Coded<'a, F>>(bytes: &'a [u8]) -> Result<T, Malformed> {
    let mut from = Reader::new(bytes);
    let message = T::take(&mut from)?;
    if from.is_at_end() { Ok(message) } else { Err(Malformed) }
}

/// The way in which the parts of a message are written. Unless said otherwise: as words.
pub trait Format {
    /// Appends the tag of a message, and what stands before it.
    fn put_tag(tag: u8, out: &mut impl Out) {
        out.push(tag);
    }

    /// Reads the tag of a message.
    ///
    /// # Errors
    /// [`Malformed`], as all that read.
    fn tag(from: &mut Reader<'_>) -> Result<u8, Malformed> {
        from.byte()
    }

    /// Appends a number.
    fn put_number(number: u64, out: &mut impl Out) {
        out.extend_from_slice(&number.to_le_bytes());
    }

    /// Reads a number.
    ///
    /// # Errors
    /// [`Malformed`]: cut off.
    fn number(from: &mut Reader<'_>) -> Result<u64, Malformed> {
        from.word()
    }

    /// Appends a flag.
    fn put_flag(flag: bool, out: &mut impl Out) {
        Self::put_number(flag.into(), out);
    }

    /// Reads a flag.
    ///
    /// # Errors
    /// [`Malformed`]: neither 0 nor 1.
    fn flag(from: &mut Reader<'_>) -> Result<bool, Malformed> {
        match Self::number(from)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    /// Appends the length of a list.
    fn put_count(n: usize, out: &mut impl Out) {
        number(n as u64, out);
    }

    /// Reads the length of a list.
    ///
    /// # Errors
    /// [`Malformed`]: the list claims more elements than can be there.
    fn count(from: &mut Reader<'_>) -> Result<usize, Malformed> {
        from.count()
    }

    /// Appends a byte string. Among words it is the last: it ends with the message.
    fn put_bytes(bytes: &[u8], out: &mut impl Out) {
        out.extend_from_slice(bytes);
    }

    /// Reads a byte string.
    ///
    /// # Errors
    /// [`Malformed`]: cut off.
    fn bytes<'a>(from: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
        Ok(from.take_rest())
    }
}

/// Numbers and flags of eight bytes, little endian; the length of a list has seven bits a byte; a
/// byte string reaches to the end.
#[derive(Clone, Copy, Debug)]
pub enum Words {}

impl Format for Words {}

/// [`Words`] on the channel of the machines: that byte, the tag, and as many bytes that are zero
/// and are not looked at.
#[derive(Clone, Copy, Debug)]
pub enum Letter<const ZEROS: usize> {}

impl<const ZEROS: usize> Format for Letter<ZEROS> {
    fn put_tag(tag: u8, out: &mut impl Out) {
        out.extend_from_slice(&[crate::MESSAGE_CHANNEL, tag]);
        out.extend_from_slice(&[0; ZEROS]);
    }

    fn tag(from: &mut Reader<'_>) -> Result<u8, Malformed> {
        if from.byte()? != crate::MESSAGE_CHANNEL {
            return Err(Malformed);
        }
        let tag = from.byte()?;
        from.skip(ZEROS)?;
        Ok(tag)
    }
}

/// Numbers of seven bits a byte; flags of a byte; lists and byte strings behind their lengths.
#[derive(Clone, Copy, Debug)]
pub enum Varints {}

impl Format for Varints {
    fn put_number(value: u64, out: &mut impl Out) {
        number(value, out);
    }

    fn number(from: &mut Reader<'_>) -> Result<u64, Malformed> {
        from.number()
    }

    fn put_flag(flag: bool, out: &mut impl Out) {
        out.push(flag.into());
    }

    fn flag(from: &mut Reader<'_>) -> Result<bool, Malformed> {
        from.flag()
    }

    fn put_bytes(bytes: &[u8], out: &mut impl Out) {
        number(bytes.len() as u64, out);
        out.extend_from_slice(bytes);
    }

    fn bytes<'a>(from: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
        from.bytes()
    }
}

impl<F: Format> Coded<'_, F> for u64 {
    fn put(&self, out: &mut impl Out) {
        F::put_number(*self, out);
    }

    fn take(from: &mut Reader<'_>) -> Result<u64, Malformed> {
        F::number(from)
    }
}

/// A number as a word, then `N` words that are zero and are not looked at.
#[derive(Clone, Copy, Debug)]
pub enum Padded<const N: usize> {}

impl<const N: usize> Coded<'_, Padded<N>> for u64 {
    fn put(&self, out: &mut impl Out) {
        Words::put_number(*self, out);
        out.extend_from_slice([[0; 8]; N].as_flattened());
    }

    fn take(from: &mut Reader<'_>) -> Result<u64, Malformed> {
        let number = from.word()?;
        from.skip(8 * N)?;
        Ok(number)
    }
}

/// Writes types around a number as that number.
macro_rules! numbers {
    ($($type:ident)*) => {$(
        impl<'a, F> $crate::codec::Coded<'a, F> for $type
        where
            u64: $crate::codec::Coded<'a, F>,
        {
            fn put(&self, out: &mut impl $crate::codec::Out) {
                self.0.put(out);
            }

            fn take(
                from: &mut $crate::codec::Reader<'a>,
            ) -> Result<$type, $crate::codec::Malformed> {
                u64::take(from).map($type)
            }
        }
    )*};
}

pub(crate) use numbers;

numbers! { Ballot Incarnation Instant Prefix Slot }

impl Coded<'_, Varints> for u16 {
    fn put(&self, out: &mut impl Out) {
        number((*self).into(), out);
    }

    fn take(from: &mut Reader<'_>) -> Result<u16, Malformed> {
        u16::try_from(from.number()?).map_err(|_| Malformed)
    }
}

impl Coded<'_, Words> for u16 {
    fn put(&self, out: &mut impl Out) {
        out.extend_from_slice(&self.to_le_bytes());
    }

    fn take(from: &mut Reader<'_>) -> Result<u16, Malformed> {
        from.array().map(u16::from_le_bytes)
    }
}

impl Coded<'_, Words> for Rank {
    fn put(&self, out: &mut impl Out) {
        Words::put_number(self.index() as u64, out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Rank, Malformed> {
        usize::try_from(from.word()?).ok().and_then(Rank::seat).ok_or(Malformed)
    }
}

impl<F: Format> Coded<'_, F> for bool {
    fn put(&self, out: &mut impl Out) {
        F::put_flag(*self, out);
    }

    fn take(from: &mut Reader<'_>) -> Result<bool, Malformed> {
        F::flag(from)
    }
}

impl<'a: 'b, 'b, F: Format> Coded<'a, F> for &'b [u8] {
    fn put(&self, out: &mut impl Out) {
        F::put_bytes(self, out);
    }

    fn take(from: &mut Reader<'a>) -> Result<&'b [u8], Malformed> {
        F::bytes(from)
    }
}

impl<'a, F: Format, T: Coded<'a, F>> Coded<'a, F> for Option<T> {
    fn put(&self, out: &mut impl Out) {
        F::put_flag(self.is_some(), out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn take(from: &mut Reader<'a>) -> Result<Option<T>, Malformed> {
        if F::flag(from)? { T::take(from).map(Some) } else { Ok(None) }
    }
}

impl<'a, F: Format, T: Coded<'a, F>> Coded<'a, F> for Vec<T> {
    fn put(&self, out: &mut impl Out) {
        F::put_count(self.len(), out);
        self.iter().for_each(|one| one.put(out));
    }

    fn take(from: &mut Reader<'a>) -> Result<Vec<T>, Malformed> {
        (0..F::count(from)?).map(|_| T::take(from)).collect()
    }
}

impl Coded<'_, Varints> for Vec<u8> {
    fn put(&self, out: &mut impl Out) {
        Varints::put_bytes(self, out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
        from.bytes().map(<[u8]>::to_vec)
    }
}

impl<'a, F: Format, T: Coded<'a, F>> Coded<'a, F> for Box<T> {
    fn put(&self, out: &mut impl Out) {
        T::put(self, out);
    }

    fn take(from: &mut Reader<'a>) -> Result<Box<T>, Malformed> {
        T::take(from).map(Box::new)
    }
}

impl<'a, F: Format, T: Coded<'a, F>, const N: usize> Coded<'a, F> for [T; N]
where
    T: Copy + Default,
{
    fn put(&self, out: &mut impl Out) {
        self.iter().for_each(|one| one.put(out));
    }

    fn take(from: &mut Reader<'a>) -> Result<[T; N], Malformed> {
        let mut all = [T::default(); N];
        for one in &mut all {
            *one = T::take(from)?;
        }
        Ok(all)
    }
}

impl<'a, F: Format, A: Coded<'a, F>, B: Coded<'a, F>> Coded<'a, F> for (A, B) {
    fn put(&self, out: &mut impl Out) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(from: &mut Reader<'a>) -> Result<(A, B), Malformed> {
        Ok((A::take(from)?, B::take(from)?))
    }
}

impl<'a, F: Format, A: Coded<'a, F>, B: Coded<'a, F>, C: Coded<'a, F>> Coded<'a, F> for (A, B, C) {
    fn put(&self, out: &mut impl Out) {
        self.0.put(out);
        self.1.put(out);
        self.2.put(out);
    }

    fn take(from: &mut Reader<'a>) -> Result<(A, B, C), Malformed> {
        Ok((A::take(from)?, B::take(from)?, C::take(from)?))
    }
}
