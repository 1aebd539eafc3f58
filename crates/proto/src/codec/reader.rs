//! What is left of bytes that are read, and numbers of seven bits a byte.

use alloc::vec::Vec;

/// The bytes to which a message is appended: a vector, or what is left of an array that is long
/// enough.
pub trait Out {
    /// Appends bytes.
    fn extend_from_slice(&mut self, bytes: &[u8]);

    /// Appends a byte.
    fn push(&mut self, byte: u8) {
        self.extend_from_slice(&[byte]);
    }
}

impl Out for Vec<u8> {
    fn extend_from_slice(&mut self, bytes: &[u8]) {
        Vec::extend_from_slice(self, bytes);
    }

    fn push(&mut self, byte: u8) {
        Vec::push(self, byte);
    }
}

impl Out for &mut [u8] {
    fn extend_from_slice(&mut self, bytes: &[u8]) {
        let (head, rest) = core::mem::take(self).split_at_mut(bytes.len());
        head.copy_from_slice(bytes);
        *self = rest;
    }
}

/// The error of bytes that are not a valid message: drop the connection that they came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("a message is cut off or garbled")
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

    /// The bytes that were not read: now they are.
    #[inline]
    pub fn take_rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.0)
    }

    /// Whether all bytes were read.
    pub const fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    /// Passes over `n` bytes.
    ///
    /// # Errors
    /// [`Malformed`]: there are fewer.
    #[inline]
    pub fn skip(&mut self, n: usize) -> Result<(), Malformed> {
        self.0 = self.0.get(n..).ok_or(Malformed)?;
        Ok(())
    }

    /// So many bytes.
    ///
    /// # Errors
    /// [`Malformed`]: there are fewer.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (first, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*first)
    }

    /// A number of eight bytes, little endian.
    ///
    /// # Errors
    /// [`Malformed`]: cut off.
    #[inline]
    pub fn word(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// One byte.
    ///
    /// # Errors
    /// [`Malformed`] at the end.
    #[inline]
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

    /// A byte string behind its length.
    ///
    /// # Errors
    /// [`Malformed`]: cut off.
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let n = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        let (bytes, rest) = self.0.split_at_checked(n).ok_or(Malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// The length of a list.
    ///
    /// # Errors
    /// [`Malformed`]: the list claims too many.
    pub(crate) fn count(&mut self) -> Result<usize, Malformed> {
        let n = self.number()?;
        // An element takes a byte at least: a claim beyond what is there allocates nothing.
        if n > LIST_MAX || n > self.0.len() as u64 {
            return Err(Malformed);
        }
        Ok(n as usize)
    }

    /// A list, each element read by `one`.
    ///
    /// # Errors
    /// [`Malformed`]: an element is, or the list claims too many.
    pub fn list<T>(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        (0..self.count()?).map(|_| one(self)).collect()
    }

    /// A flag.
    ///
    /// # Errors
    /// [`Malformed`]: neither 0 nor 1.
    #[inline]
    pub fn flag(&mut self) -> Result<bool, Malformed> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }
}

/// Appends a number, seven bits a byte.
pub fn number(mut value: u64, out: &mut impl Out) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a list, each element written by `one`.
pub fn list<T, O: Out>(items: &[T], out: &mut O, mut one: impl FnMut(&T, &mut O)) {
    number(items.len() as u64, out);
    items.iter().for_each(|item| one(item, out));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c1_numbers_come_back_and_overlong_ones_are_refused() {
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
    fn c2_a_list_that_claims_more_than_there_is_allocates_nothing() {
        let mut bytes = Vec::new();
        number(LIST_MAX, &mut bytes);
        assert_eq!(Reader::new(&bytes).list(|from| from.byte()), Err(Malformed));
    }
}
