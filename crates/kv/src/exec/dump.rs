//! DUMP and RESTORE: a value in Redis's own format of version 10 (Redis 7.0), so that payloads can
//! be exchanged with a Redis.
//!
//! ```text
//! payload = type (1, 0: a string) | string | version (2) | CRC-64 of all before (8)
//! string  = length | bytes
//!         | 0xc0, 0xc1, 0xc2 | an integer of 1, 2 or 4 bytes
//!         | 0xc3 | length compressed | length | bytes compressed by LZF
//! length  = 00 and 6 bits | 01 and 14 bits, big endian | 0x80 and 4 bytes, big endian
//!         | 0x81 and 8 bytes, big endian
//! ```
//! All other numbers are little endian. DUMP does not compress; RESTORE accepts compressed strings.

use super::{Call, NOT_AN_INTEGER, SYNTAX, integer_or_reply, number, steps, value_too_long};
use crate::reply::Reply;
use crate::store::{Expiry, Store, VALUE_BYTES_MAX};

/// The version of the format that is written, and the newest that is read.
const VERSION: u16 = 10;

const FOOTER_BYTES: usize = 2 + 8;
const TYPE_STRING: u8 = 0;
const INTEGER_8: u8 = 0xc0;
const INTEGER_16: u8 = 0xc1;
const INTEGER_32: u8 = 0xc2;
const COMPRESSED: u8 = 0xc3;

/// The longest spelling of an integer of 32 bits.
const INTEGER_TEXT_MAX: usize = 11;

const CRC: crc::Crc<u64> = crc::Crc::<u64>::new(&crc::CRC_64_REDIS);

pub(crate) fn dump(store: &Store, call: &Call<'_>, reply: &mut Reply) {
    match store.value(call.key(1)) {
        Some(value) if !steps::dumps(value.len(), reply) => {}
        Some(value) => reply.bulk(&encode(value)),
        None => reply.null(),
    }
}

fn encode(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len() + 9 + FOOTER_BYTES);
    out.push(TYPE_STRING);
    let integer = number::parse(value).filter(|_| value.len() <= INTEGER_TEXT_MAX);
    match integer.and_then(|integer| i32::try_from(integer).ok()) {
        Some(integer) => put_integer(integer, &mut out),
        None => {
            put_length(value.len(), &mut out);
            out.extend_from_slice(value);
        }
    }
    out.extend_from_slice(&VERSION.to_le_bytes());
    let check = CRC.checksum(&out);
    out.extend_from_slice(&check.to_le_bytes());
    out
}

fn put_integer(integer: i32, out: &mut Vec<u8>) {
    if let Ok(byte) = i8::try_from(integer) {
        out.push(INTEGER_8);
        out.extend_from_slice(&byte.to_le_bytes());
    } else if let Ok(short) = i16::try_from(integer) {
        out.push(INTEGER_16);
        out.extend_from_slice(&short.to_le_bytes());
    } else {
        out.push(INTEGER_32);
        out.extend_from_slice(&integer.to_le_bytes());
    }
}

fn put_length(len: usize, out: &mut Vec<u8>) {
    const _: () = assert!(VALUE_BYTES_MAX <= u32::MAX as usize);
    match len {
        0..0x40 => out.push(len as u8),
        0x40..0x4000 => out.extend_from_slice(&(0x4000 | len as u16).to_be_bytes()),
        _ => {
            out.push(0x80);
            out.extend_from_slice(&(len as u32).to_be_bytes());
        }
    }
}

/// The reason why a payload is not restored, as an error reply.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Refusal(String);

/// The value in a payload.
fn decode(payload: &[u8]) -> Result<Vec<u8>, Refusal> {
    let wrong_check = || Refusal("ERR DUMP payload version or checksum are wrong".into());
    let (rest, check) = payload.split_last_chunk::<8>().ok_or_else(wrong_check)?;
    let (body, version) = rest.split_last_chunk::<2>().ok_or_else(wrong_check)?;
    let is_good =
        u16::from_le_bytes(*version) <= VERSION && CRC.checksum(rest) == u64::from_le_bytes(*check);
    if !is_good {
        return Err(wrong_check());
    }
    match body {
        [TYPE_STRING, rest @ ..] => string(rest),
        _ => Err(Refusal("ERR Bad data format: gregale restores strings only".into())),
    }
}

fn string(mut rest: &[u8]) -> Result<Vec<u8>, Refusal> {
    let bad = || Refusal("ERR Bad data format".into());
    let Some((&kind, tail)) = rest.split_first() else { return Err(bad()) };
    let integer = match (kind, tail) {
        (INTEGER_8, &[byte]) => Some(i32::from(byte as i8)),
        (INTEGER_16, &[a, b]) => Some(i32::from(i16::from_le_bytes([a, b]))),
        (INTEGER_32, &[a, b, c, d]) => Some(i32::from_le_bytes([a, b, c, d])),
        _ => None,
    };
    if let Some(integer) = integer {
        return Ok(integer.to_string().into_bytes());
    }
    if kind == COMPRESSED {
        rest = tail;
        let compressed_len = take_length(&mut rest).ok_or_else(bad)?;
        let len = take_length(&mut rest).ok_or_else(bad)?;
        fits(len)?;
        let compressed = Some(rest).filter(|rest| rest.len() as u64 == compressed_len);
        return compressed.and_then(|bytes| decompress(bytes, len as usize)).ok_or_else(bad);
    }
    let len = take_length(&mut rest).ok_or_else(bad)?;
    fits(len)?;
    if rest.len() as u64 == len { Ok(rest.to_vec()) } else { Err(bad()) }
}

fn fits(len: u64) -> Result<(), Refusal> {
    if len > VALUE_BYTES_MAX as u64 { Err(Refusal(value_too_long())) } else { Ok(()) }
}

fn take_length(rest: &mut &[u8]) -> Option<u64> {
    let (len, tail) = match **rest {
        [first @ 0..0x40, ref tail @ ..] => (u64::from(first), tail),
        [first @ 0x40..0x80, second, ref tail @ ..] => {
            (u64::from(first & 0x3f) << 8 | u64::from(second), tail)
        }
        [0x80, ref tail @ ..] => {
            let (len, tail) = tail.split_first_chunk()?;
            (u64::from(u32::from_be_bytes(*len)), tail)
        }
        [0x81, ref tail @ ..] => {
            let (len, tail) = tail.split_first_chunk()?;
            (u64::from_be_bytes(*len), tail)
        }
        _ => return None,
    };
    *rest = tail;
    Some(len)
}

/// Decompresses `len` bytes from LZF: literal runs, and references to the output so far. `None` if
/// the input is invalid.
fn decompress(mut from: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(len);
    while let Some((&control, mut rest)) = from.split_first() {
        let control = usize::from(control);
        if control < 32 {
            let (run, tail) = rest.split_at_checked(control + 1)?;
            out.extend_from_slice(run);
            from = tail;
        } else {
            let mut n = control >> 5;
            if n == 7 {
                let (&more, tail) = rest.split_first()?;
                (n, rest) = (n + usize::from(more), tail);
            }
            let (&low, tail) = rest.split_first()?;
            let back = (control & 0x1f) << 8 | usize::from(low);
            let start = out.len().checked_sub(back + 1)?;
            // A reference may overlap the bytes that it writes.
            (start..start + n + 2).for_each(|at| out.push(out[at]));
            from = tail;
        }
        if out.len() > len {
            return None;
        }
    }
    (out.len() == len).then_some(out)
}

/// The options of RESTORE. Idle time and frequency are checked and ignored: nothing is evicted.
#[derive(Default)]
struct Options {
    replace: bool,
    is_absolute: bool,
}

impl Options {
    fn parse(words: &[&[u8]], reply: &mut Reply) -> Option<Options> {
        let (mut options, mut words) = (Options::default(), words.iter());
        let (mut has_idle_time, mut has_frequency) = (false, false);
        while let Some(word) = words.next() {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            if is("replace") {
                options.replace = true;
            } else if is("absttl") {
                options.is_absolute = true;
            } else if is("idletime")
                && !has_frequency
                && let Some(seconds) = words.next()
            {
                has_idle_time = true;
                if integer_or_reply(seconds, reply)? < 0 {
                    reply.error("ERR Invalid IDLETIME value, must be >= 0");
                    return None;
                }
            } else if is("freq")
                && !has_idle_time
                && let Some(frequency) = words.next()
            {
                has_frequency = true;
                if !(0..=255).contains(&integer_or_reply(frequency, reply)?) {
                    reply.error("ERR Invalid FREQ value, must be >= 0 and <= 255");
                    return None;
                }
            } else {
                reply.error(SYNTAX);
                return None;
            }
        }
        Some(options)
    }
}

pub(crate) fn restore(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    let Some(options) = Options::parse(&call.args[4..], reply) else { return };
    let key = call.key(1);
    if !options.replace && store.live(key).is_some() {
        reply.error("BUSYKEY Target key name already exists.");
        return;
    }
    let Some(ttl) = number::parse(call.args[2]) else {
        reply.error(NOT_AN_INTEGER);
        return;
    };
    let Ok(ttl) = u64::try_from(ttl) else {
        reply.error("ERR Invalid TTL value, must be >= 0");
        return;
    };
    let value = match decode(call.args[3]) {
        Ok(value) => value,
        Err(Refusal(why)) => {
            reply.error(why);
            return;
        }
    };
    let expiry = match ttl {
        0 => Expiry::Clear,
        at if options.is_absolute => Expiry::At(at),
        ms => Expiry::At(store.now_ms().saturating_add(ms)),
    };
    // An expiry in the past deletes the key, as in Redis.
    store.put(key, &value, expiry);
    reply.ok();
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_are_as_redis_writes_them() {
        for (len, bytes) in [
            (0, &[0][..]),
            (63, &[63]),
            (64, &[0x40, 64]),
            (0x3fff, &[0x7f, 0xff]),
            (0x4000, &[0x80, 0, 0, 0x40, 0]),
        ] {
            let mut out = Vec::new();
            put_length(len, &mut out);
            assert_eq!(out, bytes);
            assert_eq!(take_length(&mut &bytes[..]), Some(len as u64));
        }
    }

    #[test]
    fn what_is_compressed_badly_is_refused() {
        assert_eq!(decompress(&[0, b'a', 0x20, 0], 4).unwrap(), b"aaaa");
        // A reference to before the beginning, a run that is cut off, too much, too little.
        for bytes in [&[0x20, 0][..], &[5, b'a'], &[0, b'a', 0xe0, 200, 0], &[0, b'a']] {
            assert_eq!(decompress(bytes, 4), None);
        }
    }

    proptest! {
        #[test]
        fn what_is_dumped_is_restored(value: Vec<u8>, number: i64) {
            let short = (number as i16).to_string().into_bytes();
            for value in [value, number.to_string().into_bytes(), short] {
                prop_assert_eq!(decode(&encode(&value)), Ok(value));
            }
        }

        #[test]
        fn a_flipped_bit_is_noticed(value: Vec<u8>, at: prop::sample::Index) {
            let mut payload = encode(&value);
            let bit = at.index(payload.len() * 8);
            payload[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(decode(&payload).is_err());
        }

        #[test]
        fn any_bytes_are_refused_or_restored(bytes: Vec<u8>) {
            // Neither panics.
            let _ = (string(&bytes), decompress(&bytes, 100));
        }
    }
}
