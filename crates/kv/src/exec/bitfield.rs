//! BITFIELD: integers of any width up to 64 bits within a value.

use super::bits::{grows_to, offset_or_reply, room_or_reply};
use super::{Call, SYNTAX, integer_or_reply, number};
use crate::reply::Reply;
use crate::store::Store;

/// The treatment of a number that does not fit its field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

/// The type of a field: `i5`, `u63`.
#[derive(Clone, Copy)]
struct Field {
    is_signed: bool,
    /// The width: 1 to 64, or to 63 without a sign.
    bits: u32,
}

#[derive(Clone, Copy)]
enum Kind {
    Get,
    Set(i64),
    Increment(i64),
}

#[derive(Clone, Copy)]
struct Operation {
    kind: Kind,
    field: Field,
    offset: u64,
    overflow: Overflow,
}

impl Field {
    fn parse(text: &[u8]) -> Option<Field> {
        // Redis reads the width as a C string, which a zero byte ends.
        let text = text.split(|&byte| byte == 0).next()?;
        let (is_signed, bits) = match text {
            [b'i', bits @ ..] => (true, bits),
            [b'u', bits @ ..] => (false, bits),
            _ => return None,
        };
        let bits_max = if is_signed { 64 } else { 63 };
        let bits = number::parse(bits).filter(|bits| (1..=bits_max).contains(bits))?;
        Some(Field { is_signed, bits: bits as u32 })
    }

    /// The bits above the field.
    fn beyond(self) -> u64 {
        if self.bits == 64 { 0 } else { u64::MAX << self.bits }
    }

    /// The number in the field; bits behind the value are zeros.
    fn read(self, value: &[u8], offset: u64) -> i64 {
        let bits = (offset..offset + u64::from(self.bits)).fold(0u64, |read, at| {
            let byte = value.get((at >> 3) as usize).copied().unwrap_or(0);
            read << 1 | u64::from(byte >> (7 - (at & 7)) & 1)
        });
        let is_negative = self.is_signed && bits >> (self.bits - 1) & 1 == 1;
        (if is_negative { bits | self.beyond() } else { bits }) as i64
    }

    fn write(self, value: &mut [u8], offset: u64, number: i64) {
        for at in 0..u64::from(self.bits) {
            let bit = number as u64 >> (u64::from(self.bits) - 1 - at) & 1 == 1;
            let place = offset + at;
            let (byte, mask) = (&mut value[(place >> 3) as usize], 0x80 >> (place & 7));
            *byte = if bit { *byte | mask } else { *byte & !mask };
        }
    }

    /// The result of `number` plus `by` if it overflows the field; `None` if it fits.
    fn beyond_limits(self, number: i64, by: i64, overflow: Overflow) -> Option<i64> {
        let limit = if self.is_signed {
            self.signed_limit(number, by)
        } else {
            self.unsigned_limit(number as u64, by)
        }?;
        Some(match overflow {
            Overflow::Saturate => limit,
            Overflow::Wrap | Overflow::Fail => self.wrapped(number.wrapping_add(by)),
        })
    }

    /// The limit that the sum exceeds. The conditions are Redis's, with its arithmetic: a number
    /// far below the least one, which only SET can give, counts as too high.
    fn signed_limit(self, number: i64, by: i64) -> Option<i64> {
        let max = (u64::MAX >> 1 >> (64 - self.bits)) as i64;
        let min = -max - 1;
        let (most, least) = (max.wrapping_sub(number), min.wrapping_sub(number));
        let is_narrow = self.bits != 64;
        if number > max || (is_narrow || number >= 0 && by > 0) && by > most {
            Some(max)
        } else if number < min || (is_narrow || number < 0 && by < 0) && by < least {
            Some(min)
        } else {
            None
        }
    }

    fn unsigned_limit(self, number: u64, by: i64) -> Option<i64> {
        let max = !self.beyond();
        let sum = i128::from(number) + i128::from(by);
        if number > max || by > 0 && sum > i128::from(max) {
            Some(max as i64)
        } else if by < 0 && sum < 0 {
            Some(0)
        } else {
            None
        }
    }

    fn wrapped(self, sum: i64) -> i64 {
        let bits = sum as u64 & !self.beyond();
        let is_negative = self.is_signed && bits >> (self.bits - 1) & 1 == 1;
        (if is_negative { bits | self.beyond() } else { bits }) as i64
    }
}

impl Operation {
    fn last_bit(self) -> u64 {
        self.offset + u64::from(self.field.bits) - 1
    }

    /// The value to write and the answer; `None` if the operation fails.
    fn outcome(self, old: i64) -> Option<(i64, i64)> {
        let (number, by) = match self.kind {
            Kind::Get => return Some((old, old)),
            Kind::Set(number) => (number, 0),
            Kind::Increment(by) => (old, by),
        };
        let beyond = self.field.beyond_limits(number, by, self.overflow);
        if beyond.is_some() && self.overflow == Overflow::Fail {
            return None;
        }
        let new = beyond.unwrap_or(number.wrapping_add(by));
        Some((new, if matches!(self.kind, Kind::Set(_)) { old } else { new }))
    }
}

/// The operations of a request, or an error.
fn parse(words: &[&[u8]], reply: &mut Reply) -> Option<Vec<Operation>> {
    let (mut operations, mut overflow, mut rest) = (Vec::new(), Overflow::Wrap, words);
    while let [name, tail @ ..] = rest {
        let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
        if let ([how, tail @ ..], true) = (tail, is("overflow")) {
            let is = |word: &str| how.eq_ignore_ascii_case(word.as_bytes());
            overflow = match () {
                () if is("wrap") => Overflow::Wrap,
                () if is("sat") => Overflow::Saturate,
                () if is("fail") => Overflow::Fail,
                () => {
                    reply.error("ERR Invalid OVERFLOW type specified");
                    return None;
                }
            };
            rest = tail;
            continue;
        }
        let n_words = match () {
            () if is("get") => 2,
            () if is("set") || is("incrby") => 3,
            () => usize::MAX,
        };
        let Some((words, tail)) = tail.split_at_checked(n_words) else {
            reply.error(SYNTAX);
            return None;
        };
        let Some(field) = Field::parse(words[0]) else {
            reply.error(
                "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not \
                 supported but i64 is.",
            );
            return None;
        };
        let offset = offset_or_reply(words[1], Some(field.bits), reply)?;
        let kind = match words.get(2) {
            None => Kind::Get,
            Some(number) if is("set") => Kind::Set(integer_or_reply(number, reply)?),
            Some(number) => Kind::Increment(integer_or_reply(number, reply)?),
        };
        operations.push(Operation { kind, field, offset, overflow });
        rest = tail;
    }
    Some(operations)
}

fn get(operations: &[Operation], value: &[u8], reply: &mut Reply) {
    reply.array(operations.len());
    for operation in operations {
        reply.integer(operation.field.read(value, operation.offset));
    }
}

fn writes(operation: &&Operation) -> bool {
    !matches!(operation.kind, Kind::Get)
}

pub(crate) fn bitfield(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    let key = call.key(1);
    let Some(operations) = parse(&call.args[2..], reply) else { return };
    let last_bit = operations.iter().filter(writes).map(|operation| operation.last_bit()).max();
    let Some(last_bit) = last_bit else {
        get(&operations, store.value(key).unwrap_or_default(), reply);
        return;
    };
    let Some(len) = room_or_reply(last_bit, reply) else { return };
    if !grows_to(store, call, len, reply) {
        return;
    }
    let answers = store.change_if(key, |value| {
        let grows = value.len() < len;
        if grows {
            value.resize(len, 0);
        }
        let mut has_changed = false;
        let mut answers = Vec::with_capacity(operations.len());
        for operation in &operations {
            let old = operation.field.read(value, operation.offset);
            let outcome = operation.outcome(old);
            answers.push(outcome.map(|(_, answer)| answer));
            if let Some((new, _)) = outcome.filter(|_| writes(&operation)) {
                operation.field.write(value, operation.offset, new);
                has_changed |= new != old;
            }
        }
        (answers, grows || has_changed)
    });
    reply.array(answers.len());
    for answer in answers {
        match answer {
            Some(number) => reply.integer(number),
            None => reply.null(),
        }
    }
}

pub(crate) fn bitfield_ro(store: &Store, call: &Call<'_>, reply: &mut Reply) {
    let Some(operations) = parse(&call.args[2..], reply) else { return };
    if operations.iter().any(|operation| writes(&operation)) {
        reply.error("ERR BITFIELD_RO only supports the GET subcommand");
        return;
    }
    get(&operations, store.value(call.key(1)).unwrap_or_default(), reply);
}
