//! Single bits of values: SETBIT, GETBIT, BITCOUNT, BITPOS, BITOP. Bit 0 is the highest bit of the
//! first byte, as in Redis.

use super::{Call, SYNTAX, integer_or_reply, number, steps, value_too_long};
use crate::reply::Reply;
use crate::resp::BULK_BYTES_MAX;
use crate::store::{Expiry, Store, VALUE_BYTES_MAX};

/// The offset of a bit, or Redis's error: offsets reach to the longest string that Redis would
/// hold. `text` is a number; where `width` is given it may be `#n`, the n-th field of this width.
pub(super) fn offset_or_reply(text: &[u8], width: Option<u32>, reply: &mut Reply) -> Option<u64> {
    let parsed = match (text, width) {
        ([b'#', index @ ..], Some(width)) => {
            number::parse(index).and_then(|index| index.checked_mul(i64::from(width)))
        }
        _ => number::parse(text),
    };
    let offset = parsed.and_then(|at| u64::try_from(at).ok());
    let offset = offset.filter(|at| at >> 3 < BULK_BYTES_MAX as u64);
    if offset.is_none() {
        reply.error("ERR bit offset is not an integer or out of range");
    }
    offset
}

/// The number of bytes that a value needs to contain this bit, or an error about the longest value.
pub(super) fn room_or_reply(bit: u64, reply: &mut Reply) -> Option<usize> {
    let len = (bit >> 3) as usize + 1;
    if len > VALUE_BYTES_MAX {
        reply.error(value_too_long());
        return None;
    }
    Some(len)
}

/// Pays for the zeros with which the value of a command's key is filled up to `len` bytes, or
/// answers that no steps are left.
pub(super) fn grows_to(store: &Store, call: &Call<'_>, len: usize, reply: &mut Reply) -> bool {
    let present = store.value(call.key(1)).map_or(0, <[u8]>::len);
    steps::copies(len.saturating_sub(present), reply)
}

/// The number of bytes that are combined in the time of a step.
const BYTES_OF_A_STEP: usize = 16;

fn mask_of(bit: u64) -> u8 {
    0x80 >> (bit & 7)
}

pub(crate) fn setbit(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    let Some(offset) = offset_or_reply(call.args[2], None, reply) else { return };
    let Some(on @ (0 | 1)) = number::parse(call.args[3]) else {
        reply.error("ERR bit is not an integer or out of range");
        return;
    };
    let Some(len) = room_or_reply(offset, reply) else { return };
    if !grows_to(store, call, len, reply) {
        return;
    }
    let mask = mask_of(offset);
    let was = store.change_if(call.key(1), |value| {
        let grows = value.len() < len;
        if grows {
            value.resize(len, 0);
        }
        let byte = &mut value[len - 1];
        let was = *byte & mask != 0;
        *byte = if on == 1 { *byte | mask } else { *byte & !mask };
        (was, grows || was != (on == 1))
    });
    reply.integer(i64::from(was));
}

pub(crate) fn getbit(store: &Store, call: &Call<'_>, reply: &mut Reply) {
    let Some(offset) = offset_or_reply(call.args[2], None, reply) else { return };
    let byte = store.value(call.key(1)).and_then(|value| value.get((offset >> 3) as usize));
    reply.integer(i64::from(byte.is_some_and(|byte| byte & mask_of(offset) != 0)));
}

/// The unit, bytes or bits, that the last word of BITCOUNT and BITPOS names.
#[derive(Clone, Copy)]
enum Unit {
    Byte,
    Bit,
}

fn unit_or_reply(word: Option<&&[u8]>, reply: &mut Reply) -> Option<Unit> {
    match word {
        None => Some(Unit::Byte),
        Some(word) if word.eq_ignore_ascii_case(b"byte") => Some(Unit::Byte),
        Some(word) if word.eq_ignore_ascii_case(b"bit") => Some(Unit::Bit),
        Some(_) => {
            reply.error(SYNTAX);
            None
        }
    }
}

/// The bits from `start` to before the end to which the indices of a request refer in a value of
/// `len` bytes. `None` for an empty range.
fn bits_between(start: i64, end: Option<i64>, unit: Unit, len: usize) -> Option<(usize, usize)> {
    let (len, width) = match unit {
        Unit::Byte => (len as i64, 8),
        Unit::Bit => (len as i64 * 8, 1),
    };
    // An index below zero counts from the end; one before the beginning is the beginning.
    let index = |at: i64| if at < 0 { at.saturating_add(len).max(0) } else { at };
    let (start, end) = (index(start), end.map_or(len - 1, index).min(len - 1));
    (start <= end).then(|| (start as usize * width, (end as usize + 1) * width))
}

/// The bytes that hold the bits from `start` to before `end`, with all other bits masked out.
fn bytes_between(value: &[u8], start: usize, end: usize) -> impl Iterator<Item = (usize, u8, u8)> {
    let (first, last) = (start / 8, end.div_ceil(8));
    value[first..last].iter().enumerate().map(move |(at, &byte)| {
        let at = first + at;
        let mut mask = 0xff;
        if at == first {
            mask &= 0xff >> (start % 8);
        }
        if at + 1 == last && !end.is_multiple_of(8) {
            mask &= !(0xff >> (end % 8));
        }
        (at, byte, mask)
    })
}

pub(crate) fn bitcount(store: &Store, call: &Call<'_>, reply: &mut Reply) {
    let Some(value) = store.value(call.key(1)) else {
        reply.integer(0);
        return;
    };
    let (start, end, word) = match call.args[2..] {
        [] => (&b"0"[..], &b"-1"[..], None),
        [start, end] => (start, end, None),
        [start, end, ref word] => (start, end, Some(word)),
        _ => {
            reply.error(SYNTAX);
            return;
        }
    };
    let Some(start) = integer_or_reply(start, reply) else { return };
    let Some(end) = integer_or_reply(end, reply) else { return };
    // Redis answers this before it checks the unit.
    if start < 0 && end < 0 && start > end {
        reply.integer(0);
        return;
    }
    let Some(unit) = unit_or_reply(word, reply) else { return };
    let range = bits_between(start, Some(end), unit, value.len());
    if !steps::walks(range.map_or(0, |(start, end)| (end - start) / 8), reply) {
        return;
    }
    let count = range.map_or(0, |(start, end)| {
        bytes_between(value, start, end)
            .map(|(_, byte, mask)| u64::from((byte & mask).count_ones()))
            .sum()
    });
    reply.integer(count as i64);
}

pub(crate) fn bitpos(store: &Store, call: &Call<'_>, reply: &mut Reply) {
    let Some(bit) = integer_or_reply(call.args[2], reply) else { return };
    if bit != 0 && bit != 1 {
        reply.error("ERR The bit argument must be 1 or 0.");
        return;
    }
    let Some(value) = store.value(call.key(1)) else {
        // An absent key counts as an endless string of zeros.
        reply.integer(-bit);
        return;
    };
    let (start, end, word) = match call.args[3..] {
        [] => (None, None, None),
        [start] => (Some(start), None, None),
        [start, end] => (Some(start), Some(end), None),
        [start, end, ref word] => (Some(start), Some(end), Some(word)),
        _ => {
            reply.error(SYNTAX);
            return;
        }
    };
    let Some(start) = start.map_or(Some(0), |text| integer_or_reply(text, reply)) else { return };
    let Some(unit) = unit_or_reply(word, reply) else { return };
    let end = match end.map(|text| integer_or_reply(text, reply)) {
        Some(None) => return,
        Some(Some(end)) => Some(end),
        None => None,
    };
    let Some((from, to)) = bits_between(start, end, unit, value.len()) else {
        reply.integer(-1);
        return;
    };
    if !steps::begins(reply) {
        return;
    }
    let found = bytes_between(value, from, to).find_map(|(at, byte, mask)| {
        let wanted = if bit == 1 { byte } else { !byte } & mask;
        (wanted != 0).then(|| at * 8 + wanted.leading_zeros() as usize)
    });
    let end_of_walk = found.unwrap_or(to);
    steps::has_walked(end_of_walk.saturating_sub(from) / 8, reply);
    reply.integer(match found {
        Some(at) => at as i64,
        // If the end was not named, zeros follow the value.
        None if bit == 0 && end.is_none() => to as i64,
        None => -1,
    });
}

/// The operation of BITOP on two bytes.
#[derive(Clone, Copy)]
enum Op {
    And,
    Or,
    Xor,
    Not,
}

pub(crate) fn bitop(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    let is = |name: &str| call.args[1].eq_ignore_ascii_case(name.as_bytes());
    let op = match () {
        () if is("and") => Op::And,
        () if is("or") => Op::Or,
        () if is("xor") => Op::Xor,
        () if is("not") => Op::Not,
        () => {
            reply.error(SYNTAX);
            return;
        }
    };
    let sources = &call.args[3..];
    if matches!(op, Op::Not) && sources.len() != 1 {
        reply.error("ERR BITOP NOT must be called with a single source key.");
        return;
    }
    let values = || sources.iter().map(|key| store.value(call.of(key)).unwrap_or_default());
    let len = values().map(<[u8]>::len).max().unwrap_or(0);
    if len == 0 {
        store.remove(call.key(2));
        reply.integer(0);
        return;
    }
    if !reply.take_steps(sources.len().saturating_mul(len) / BYTES_OF_A_STEP) {
        reply.error("ERR BITOP of so many long values would stop the replica (gregale's limit)");
        return;
    }
    let mut result = vec![0; len];
    for (at, value) in values().enumerate() {
        if at == 0 {
            result[..value.len()].copy_from_slice(value);
            continue;
        }
        let (both, tail) = result.split_at_mut(value.len());
        let pairs = both.iter_mut().zip(value);
        match op {
            Op::And => {
                pairs.for_each(|(byte, other)| *byte &= other);
                tail.fill(0);
            }
            Op::Or => pairs.for_each(|(byte, other)| *byte |= other),
            Op::Xor => pairs.for_each(|(byte, other)| *byte ^= other),
            Op::Not => {}
        }
    }
    if matches!(op, Op::Not) {
        result.iter_mut().for_each(|byte| *byte = !*byte);
    }
    store.put(call.key(2), &result, Expiry::Clear);
    reply.integer(len as i64);
}
