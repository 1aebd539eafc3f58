//! Numbers in as few bytes as they need: seven bits a byte, the lowest first.

/// The bytes of the longest number.
pub(crate) const BYTES_MAX: usize = 10;

/// Appends `value`.
pub(crate) fn put(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The number of bytes that [`put`] appends.
pub(crate) fn len(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

/// Takes a number off the front; `None` if there is no complete one, or one over 64 bits.
#[inline]
pub(crate) fn take(rest: &mut &[u8]) -> Option<u64> {
    // Almost every number is a length below 128.
    if let [byte @ ..0x80, tail @ ..] = *rest {
        *rest = tail;
        return Some(u64::from(*byte));
    }
    take_long(rest)
}

#[inline(never)]
fn take_long(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (at, &byte) in rest.iter().enumerate().take(BYTES_MAX) {
        let bits = u64::from(byte & 0x7f);
        let shifted = bits << (7 * at);
        if shifted >> (7 * at) != bits {
            return None;
        }
        value |= shifted;
        if byte < 0x80 {
            *rest = &rest[at + 1..];
            return Some(value);
        }
    }
    None
}

/// Takes `len` bytes off the front, if there are that many.
#[inline]
pub(crate) fn take_bytes<'a>(rest: &mut &'a [u8], len: u64) -> Option<&'a [u8]> {
    let (bytes, tail) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    *rest = tail;
    Some(bytes)
}

/// Takes a length and that many bytes off the front, if there are that many.
#[inline]
pub(crate) fn take_counted<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = take(rest)?;
    take_bytes(rest, len)
}

/// Appends the length of `bytes` and `bytes`.
pub(crate) fn put_counted(bytes: &[u8], out: &mut Vec<u8>) {
    put(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edges() {
        for (value, bytes) in [
            (0, &[0][..]),
            (127, &[127]),
            (128, &[0x80, 1]),
            (u64::MAX, &[255, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
        ] {
            let mut out = Vec::new();
            put(value, &mut out);
            assert_eq!(out, bytes);
            assert_eq!(take(&mut &out[..]), Some(value));
        }
        assert_eq!(take(&mut &[][..]), None);
        assert_eq!(take(&mut &[0x80][..]), None);
        assert_eq!(take(&mut &[255, 255, 255, 255, 255, 255, 255, 255, 255, 2][..]), None);
        assert_eq!(take(&mut &[0x80; 11][..]), None);
    }

    proptest! {
        #[test]
        fn what_is_put_is_taken(value: u64, shift in 0..64u32, tail: Vec<u8>) {
            let value = value >> shift;
            let mut out = Vec::new();
            put(value, &mut out);
            prop_assert_eq!(out.len(), len(value));
            out.extend_from_slice(&tail);
            let mut rest = &out[..];
            prop_assert_eq!(take(&mut rest), Some(value));
            prop_assert_eq!(rest, &tail[..]);
        }
    }
}
