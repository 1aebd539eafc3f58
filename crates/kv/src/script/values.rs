//! Conversion between replies and Lua values, both ways, by the rules of Redis's EVAL.

use mlua::{IntoLua, Lua, LuaString, Result, Table, Value};

use super::order::{self, Key};
use super::run::Budget;
use crate::reply::{Protocol, Reply};

/// The deepest table that becomes a reply.
const DEPTH_MAX: usize = 100;

/// The answer of a command, as a script sees it. `reply` is complete and our own.
pub(super) fn from_reply(lua: &Lua, reply: &[u8]) -> Result<Value> {
    let mut rest = reply;
    take(lua, &mut rest)
}

fn take(lua: &Lua, rest: &mut &[u8]) -> Result<Value> {
    let end = rest.windows(2).position(|two| two == b"\r\n").expect("our own reply is whole");
    let (kind, line) = (rest[0], &rest[1..end]);
    *rest = &rest[end + 2..];
    let number = || std::str::from_utf8(line).ok().and_then(|text| text.parse::<i64>().ok());
    let text = |field: &str, bytes: &[u8]| {
        let table = lua.create_table()?;
        table.raw_set(field, lua.create_string(bytes)?)?;
        Ok(Value::Table(table))
    };
    match kind {
        b'+' => text("ok", line),
        b'-' => text("err", line),
        b':' => Ok(Value::Number(number().unwrap_or_default() as f64)),
        b'=' => {
            // The format has three letters, and a colon behind them.
            let len = number().and_then(|len| usize::try_from(len).ok()).unwrap_or_default();
            let (text, after) = rest.split_at(len);
            *rest = &after[2..];
            let inner = lua.create_table()?;
            inner.raw_set("format", lua.create_string(&text[..3])?)?;
            inner.raw_set("string", lua.create_string(&text[4..])?)?;
            let outer = lua.create_table()?;
            outer.raw_set("verbatim_string", inner)?;
            Ok(Value::Table(outer))
        }
        b'$' => match number().and_then(|len| usize::try_from(len).ok()) {
            Some(len) => {
                let value = lua.create_string(&rest[..len])?;
                *rest = &rest[len + 2..];
                Ok(Value::String(value))
            }
            None => Ok(Value::Boolean(false)),
        },
        b'*' => match number().and_then(|len| usize::try_from(len).ok()) {
            Some(len) => {
                let table = lua.create_table()?;
                for at in 1..=len {
                    table.raw_set(at, take(lua, rest)?)?;
                }
                Ok(Value::Table(table))
            }
            None => Ok(Value::Boolean(false)),
        },
        b'%' | b'~' => {
            let inner = lua.create_table()?;
            for _ in 0..number().unwrap_or_default() {
                let key = take(lua, rest)?;
                let value = if kind == b'%' { take(lua, rest)? } else { Value::Boolean(true) };
                inner.raw_set(key, value)?;
            }
            let outer = lua.create_table()?;
            outer.raw_set(if kind == b'%' { "map" } else { "set" }, inner)?;
            Ok(Value::Table(outer))
        }
        b',' => {
            let double = std::str::from_utf8(line).ok().and_then(|text| text.parse::<f64>().ok());
            let table = lua.create_table()?;
            table.raw_set("double", double.unwrap_or(f64::NAN))?;
            Ok(Value::Table(table))
        }
        b'(' => text("big_number", line),
        b'#' => Ok(Value::Boolean(line == b"t")),
        _ => Ok(Value::Nil),
    }
}

/// The cost of a returned value, in instructions, beside its length.
const VALUE_STEPS: u64 = 50;

/// The cost of looking whether a returned array has another element.
const ELEMENT_STEPS: u64 = 5;

/// The bytes of a returned string that cost a step.
const STRING_BYTES_PER_STEP: usize = 16;

/// The bytes of a returned line that cost a step: line breaks are sought in it.
const LINE_BYTES_PER_STEP: usize = 4;

/// Appends the value that a script has returned. `spoken` is the protocol that the script has
/// chosen: in RESP 2, true is 1 and false is null, whatever protocol its client speaks. A table
/// that occurs in several places is written in each, so every value is charged.
///
/// # Errors
/// The steps are used up: the appended reply is incomplete.
pub(super) fn put(
    lua: &Lua,
    value: &Value,
    spoken: Protocol,
    budget: &Budget,
    reply: &mut Reply,
) -> Result<()> {
    Answer { lua, spoken, budget, reply }.put(value, 0)
}

struct Answer<'a> {
    lua: &'a Lua,
    spoken: Protocol,
    budget: &'a Budget,
    reply: &'a mut Reply,
}

impl Answer<'_> {
    fn put(&mut self, value: &Value, depth: usize) -> Result<()> {
        self.budget.charge(VALUE_STEPS)?;
        if self.reply.is_cut() {
            return Ok(());
        }
        match value {
            Value::String(text) => {
                let text = text.as_bytes();
                self.pay(text.len(), STRING_BYTES_PER_STEP)?;
                self.reply.bulk(&text);
            }
            Value::Integer(number) => self.reply.integer(*number),
            Value::Number(number) => self.reply.integer(integer_of(*number)),
            Value::Boolean(value) if self.spoken == Protocol::Resp3 => self.reply.boolean(*value),
            Value::Boolean(true) => self.reply.integer(1),
            Value::Table(_) if depth == DEPTH_MAX => {
                self.reply.error("ERR reached lua stack limit");
            }
            Value::Table(table) => return self.put_table(table, depth + 1),
            _ => self.reply.null(),
        }
        Ok(())
    }

    fn put_table(&mut self, table: &Table, depth: usize) -> Result<()> {
        let field = |name: &str| table.raw_get::<Value>(name);
        if let Value::String(text) = field("err")? {
            let text = text.as_bytes();
            self.pay(text.len(), LINE_BYTES_PER_STEP)?;
            self.reply.error(&text);
        } else if let Value::String(text) = field("ok")? {
            let text = text.as_bytes();
            self.pay(text.len(), LINE_BYTES_PER_STEP)?;
            self.reply.simple(&String::from_utf8_lossy(&text));
        } else if let Some(double) = number(&field("double")?) {
            self.reply.double(&text_of(double));
        } else if let Value::String(digits) = field("big_number")? {
            let digits = digits.as_bytes();
            self.pay(digits.len(), LINE_BYTES_PER_STEP)?;
            let digits = String::from_utf8_lossy(&digits).replace(['\r', '\n'], " ");
            self.reply.big_number(&digits);
        } else if let Some((format, text)) = verbatim(&field("verbatim_string")?)? {
            let text = text.as_bytes();
            self.pay(text.len(), STRING_BYTES_PER_STEP)?;
            self.reply.verbatim_of(format, &text);
        } else if let Value::Table(map) = field("map")? {
            let keys = self.keys(&map)?;
            self.reply.map(keys.len());
            for key in keys {
                let key = key.into_lua(self.lua)?;
                self.put(&key, depth)?;
                self.put(&map.raw_get(key)?, depth)?;
            }
        } else if let Value::Table(set) = field("set")? {
            let keys = self.keys(&set)?;
            self.reply.set(keys.len());
            for key in keys {
                self.put(&key.into_lua(self.lua)?, depth)?;
            }
        } else {
            return self.put_array(table, depth);
        }
        Ok(())
    }

    /// The keys of a map or a set; none if they have no order.
    fn keys(&self, table: &Table) -> Result<Vec<Key>> {
        let order::Found { steps, found } = order::sorted_keys(table)?;
        self.budget.charge(steps)?;
        Ok(found.unwrap_or_default())
    }

    /// One element after the other: Lua has room for 8000 references at a time.
    fn put_array(&mut self, table: &Table, depth: usize) -> Result<()> {
        let mut n = 0;
        while !table.raw_get::<Value>(n + 1)?.is_nil() {
            self.budget.charge(ELEMENT_STEPS)?;
            n += 1;
        }
        self.reply.array(n);
        (1..=n).try_for_each(|at| self.put(&table.raw_get(at)?, depth))
    }

    fn pay(&self, bytes: usize, bytes_per_step: usize) -> Result<()> {
        self.budget.charge((bytes / bytes_per_step) as u64)
    }
}

/// The format and the text of a verbatim string. A format is cut, or filled up, to three letters.
fn verbatim(value: &Value) -> Result<Option<([u8; 3], LuaString)>> {
    let Value::Table(table) = value else { return Ok(None) };
    let (Value::String(name), Value::String(text)) =
        (table.raw_get::<Value>("format")?, table.raw_get::<Value>("string")?)
    else {
        return Ok(None);
    };
    let mut format = *b"   ";
    let name = name.as_bytes();
    format.iter_mut().zip(name.iter()).for_each(|(to, from)| *to = *from);
    Ok(Some((format, text)))
}

/// A number as an integer. Each one out of range is the least integer, as in Redis.
fn integer_of(number: f64) -> i64 {
    const LIMIT: f64 = (1u64 << 63) as f64;
    if (-LIMIT..LIMIT).contains(&number) { number as i64 } else { i64::MIN }
}

/// The number that a value represents.
pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        _ => None,
    }
}

/// A number as C's `%.17g` prints it, which is the form of a command's argument.
pub(super) fn text_of(number: f64) -> String {
    const DIGITS: i32 = 17;
    if !number.is_finite() {
        let text = if number.is_nan() { "nan" } else { "inf" };
        return if number.is_sign_negative() { format!("-{text}") } else { text.to_owned() };
    }
    let scientific = format!("{:.*e}", DIGITS as usize - 1, number);
    let (digits, exponent) = scientific.split_once('e').expect("it was just written so");
    let exponent: i32 = exponent.parse().expect("it was just written so");
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..DIGITS).contains(&exponent) {
        return trimmed(&format!("{:.*}", (DIGITS - 1 - exponent) as usize, number));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(digits), exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_returned_text_is_paid_for_by_its_length_until_the_reply_is_cut() {
        let put_many = |field: &str, n: usize| {
            let lua = Lua::new();
            let text = format!(
                "local x = {{{field} = ('x'):rep(1e6)}} \
                 local t = {{}} for i = 1, {n} do t[i] = x end return t"
            );
            let value = lua.load(text).eval().unwrap();
            let budget = Budget::new(16_000_000);
            let mut reply = Reply::default();
            reply.bounded("ERR too long", |reply| {
                put(&lua, &value, Protocol::Resp2, &budget, reply).unwrap();
            });
            (reply.len(), 16_000_000 - budget.left())
        };
        for field in ["ok", "err"] {
            assert_eq!(put_many(field, 10), (10_000_035, 50 + 10 * (5 + 50 + 250_000)));
            assert_eq!(put_many(field, 1000), (15, 50 + 1000 * (5 + 50) + 17 * 250_000));
        }
        assert_eq!(put_many("big_number", 10).1, 50 + 10 * (5 + 50 + 250_000));
    }

    #[test]
    fn numbers_are_printed_with_seventeen_digits_as_c_does() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-25.0, "-25"),
            (0.1, "0.10000000000000001"),
            (3.5, "3.5"),
            (1e15, "1000000000000000"),
            (1e17, "1e+17"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (0.00001, "1.0000000000000001e-05"),
            (9007199254740993.0, "9007199254740992"),
            (f64::INFINITY, "inf"),
        ];
        for (number, text) in cases {
            assert_eq!(text_of(number), text);
        }
    }
}
