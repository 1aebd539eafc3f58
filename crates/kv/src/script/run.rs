//! One execution of a script, in a Lua state of its own.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use mlua::chunk::ChunkMode;
use mlua::{
    Error, Function, HookTriggers, IntoLua, Lua, LuaOptions, LuaString, MultiValue, Result, StdLib,
    Table, Value, Variadic, VmState,
};
use sha1::{Digest, Sha1};

use super::call::Caller;
use super::hex;
use super::{host, library, order, pattern, values};
use crate::reply::Reply;

/// The most bytes that one script allocates. No garbage is collected while it runs, so the bound is
/// reached at the same instruction everywhere, and no finalizer or weak table reveals a collector.
pub const MEMORY_BYTES_MAX: usize = 32 << 20;

/// The number of steps that are charged at once.
const STEPS_AT_ONCE: u32 = 1_000;

/// The bytes in use for which a script's instructions cost their price once more: a single
/// instruction, a comparison of strings for instance, may touch all of them.
const BYTES_PER_CHARGE: usize = 16 << 10;

/// The cost of any host call, in instructions.
pub(super) const CROSSING_STEPS: u64 = 50;

/// The bytes of a text that cost a step where a text is looked through, or copied.
pub(super) const BYTES_PER_STEP: usize = 8;

pub(super) const SPENT: &str = "Script stopped: it takes too many steps (gregale's limit)";

/// The name of every script's chunk, as in Redis.
const CHUNK: &str = "@user_script";

/// The remaining steps.
#[derive(Debug)]
pub(super) struct Budget {
    left: Cell<u64>,
    is_spent: Cell<bool>,
    /// The memory of Lua before a script begins.
    free_bytes: Cell<usize>,
}

impl Budget {
    pub(super) fn new(steps: u64) -> Rc<Budget> {
        Rc::new(Budget {
            left: Cell::new(steps),
            is_spent: Cell::new(false),
            free_bytes: Cell::new(0),
        })
    }

    pub(super) fn left(&self) -> u64 {
        self.left.get()
    }

    pub(super) fn is_spent(&self) -> bool {
        self.is_spent.get()
    }

    pub(super) fn set_left(&self, left: u64) {
        self.left.set(left);
        self.is_spent.set(self.is_spent.get() || left == 0);
    }

    pub(super) fn charge(&self, steps: u64) -> Result<()> {
        self.set_left(self.left.get().saturating_sub(steps));
        if self.is_spent() { Err(Error::RuntimeError(SPENT.to_owned())) } else { Ok(()) }
    }

    /// Charges steps each of which may touch all the memory that the script uses.
    pub(super) fn charge_for_all(&self, lua: &Lua, steps: u64) -> Result<()> {
        let held = lua.used_memory().saturating_sub(self.free_bytes.get());
        self.charge(steps * (1 + held / BYTES_PER_CHARGE) as u64)
    }
}

/// The script to run.
pub(super) struct Script<'a> {
    pub(super) sha: super::Sha,
    /// The text without the line that begins with `#!`.
    pub(super) body: &'a [u8],
    pub(super) keys: &'a [&'a [u8]],
    pub(super) args: &'a [&'a [u8]],
}

/// Runs a script and appends its reply. False if it does not compile.
pub(super) fn run(
    script: &Script<'_>,
    caller: Caller<'_>,
    budget: &Rc<Budget>,
    reply: &mut Reply,
) -> bool {
    let outcome = new_lua().and_then(|lua| within(&lua, script, caller, budget, reply));
    outcome.unwrap_or_else(|error| {
        fail(&text_of(&error), script, reply);
        true
    })
}

/// The error that keeps `body` from being compiled.
pub(super) fn problem(body: &[u8]) -> Option<String> {
    let compiled = new_lua().and_then(|lua| {
        lua.set_memory_limit(lua.used_memory() + MEMORY_BYTES_MAX)?;
        lua.load(body).set_name(CHUNK).set_mode(ChunkMode::Text).into_function().map(drop)
    });
    compiled.err().map(|error| text_of(&error))
}

fn new_lua() -> Result<Lua> {
    let lua = Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH, LuaOptions::new())?;
    lua.gc_stop();
    Ok(lua)
}

fn within(
    lua: &Lua,
    script: &Script<'_>,
    caller: Caller<'_>,
    budget: &Rc<Budget>,
    reply: &mut Reply,
) -> Result<bool> {
    let seed = caller.seed;
    let caller = RefCell::new(caller);
    lua.scope(|scope| {
        let functions = host::functions(lua, budget, seed)?;
        let redis = lua.create_table()?;
        library::add_to(lua, &redis, budget)?;
        let call = |lua: &Lua, words: MultiValue| caller.borrow_mut().call(lua, &words);
        redis.raw_set("call", scope.create_function(call)?)?;
        let pcall = |lua: &Lua, words: MultiValue| caller.borrow_mut().pcall(lua, &words);
        redis.raw_set("pcall", scope.create_function(pcall)?)?;
        let set = |_: &Lua, args: MultiValue| {
            caller.borrow_mut().set_protocol(library::protocol(&args)?);
            Ok(())
        };
        redis.raw_set("setresp", scope.create_function(set)?)?;
        functions.raw_set("redis", redis)?;
        // One after the other: Lua has room for 8000 references at a time.
        let strings = |words: &[&[u8]]| {
            budget.charge(words.len() as u64)?;
            let table = lua.create_table_with_capacity(words.len(), 0)?;
            for (at, word) in words.iter().enumerate() {
                table.raw_set(at + 1, lua.create_string(word)?)?;
            }
            Ok::<Table, Error>(table)
        };
        let (keys, args) = (strings(script.keys)?, strings(script.args)?);
        let prelude = lua.load(include_str!("prelude.lua")).set_name("=prelude");
        let (environment, protect): (Table, Function) = prelude.call((functions, keys, args))?;
        lua.set_memory_limit(lua.used_memory() + MEMORY_BYTES_MAX)?;
        hook(lua, budget)?;
        let body = lua
            .load(script.body)
            .set_name(CHUNK)
            .set_mode(ChunkMode::Text)
            .set_environment(environment)
            .into_function();
        let body = match body {
            Ok(body) => body,
            Err(error) => {
                reply.error_fmt(format_args!(
                    "ERR Error compiling script (new function): {}",
                    text_of(&error)
                ));
                return Ok(false);
            }
        };
        let results: MultiValue = protect.call(body)?;
        let mut results = results.into_iter();
        let is_good = matches!(results.next(), Some(Value::Boolean(true)));
        let value = results.next().unwrap_or(Value::Nil);
        lua.remove_global_hook();
        if is_good {
            // The owner bounds the length of the reply, and the steps bound its time.
            let start = reply.len();
            let spoken = caller.borrow().protocol;
            if let Err(error) = values::put(lua, &value, spoken, budget, reply) {
                reply.truncate(start);
                fail(&text_of(&error), script, reply);
            }
        } else {
            put_error(&value, script, reply);
        }
        Ok(true)
    })
}

fn hook(lua: &Lua, budget: &Rc<Budget>) -> Result<()> {
    let budget = Rc::clone(budget);
    budget.free_bytes.set(lua.used_memory());
    let triggers = HookTriggers::new().every_nth_instruction(STEPS_AT_ONCE);
    lua.set_global_hook(triggers, move |lua, _| {
        budget.charge_for_all(lua, u64::from(STEPS_AT_ONCE))?;
        Ok(VmState::Continue)
    })
}

/// An uncaught error, in Redis's words.
fn put_error(error: &Value, script: &Script<'_>, reply: &mut Reply) {
    let Value::Table(table) = error else {
        let text = match error {
            Value::String(text) => text.to_string_lossy(),
            Value::Error(error) => text_of(error),
            _ => "execution failure".to_owned(),
        };
        return fail(&text, script, reply);
    };
    let field = |name: &str| table.raw_get::<Value>(name).unwrap_or(Value::Nil);
    let mut text = match field("err") {
        Value::String(text) => text.as_bytes().to_vec(),
        _ => b"ERR unknown error".to_vec(),
    };
    if let (Value::String(source), Some(line)) = (field("source"), values::number(&field("line"))) {
        let source = source.to_string_lossy();
        let place = format!(" script: {}, on {source}:{line}.", hex(&script.sha));
        text.extend_from_slice(place.as_bytes());
    }
    reply.error(text);
}

fn fail(text: &str, script: &Script<'_>, reply: &mut Reply) {
    reply.error_fmt(format_args!("ERR {text} script: {}", hex(&script.sha)));
}

/// The text of an error in Lua's own words.
pub(super) fn text_of(error: &Error) -> String {
    match error {
        Error::CallbackError { cause, .. } | Error::WithContext { cause, .. } => text_of(cause),
        Error::RuntimeError(text) | Error::SyntaxError { message: text, .. } => {
            text.lines().next().unwrap_or_default().to_owned()
        }
        Error::MemoryError(_) => "not enough memory".to_owned(),
        other => other.to_string(),
    }
}

/// The handler of errors: adds the position at which the error was raised.
pub(super) fn locate(lua: &Lua, error: Value) -> Result<Value> {
    let error = match error {
        Value::Error(error) => library::caught(lua, &error)?,
        other => other,
    };
    let error = match error {
        Value::Table(table) => table,
        other => {
            let text = match &other {
                Value::String(text) => text.as_bytes().to_vec(),
                other => lua
                    .coerce_string(other.clone())?
                    .map_or_else(|| other.type_name().into(), |text| text.as_bytes().to_vec()),
            };
            let table = lua.create_table()?;
            table.raw_set("err", lua.create_string([b"ERR ", &text[..]].concat())?)?;
            table
        }
    };
    for level in 0.. {
        let line = lua.inspect_stack(level, |debug| {
            let source = debug.source();
            let is_script = source.source.as_deref() == Some(CHUNK);
            is_script.then(|| debug.current_line()).flatten()
        });
        match line {
            None => break,
            Some(Some(line)) => {
                error.raw_set("source", CHUNK)?;
                error.raw_set("line", line)?;
                break;
            }
            Some(None) => {}
        }
    }
    Ok(Value::Table(error))
}

/// `string.find` and its relatives: one match. `plain` is the last argument of `string.find`, which
/// alone takes a `)` for a plain byte where no other byte is special, as in Lua.
pub(super) fn seek(
    lua: &Lua,
    budget: &Budget,
    (subject, wanted, init, anchors, plain): (LuaString, LuaString, usize, bool, Option<bool>),
) -> Result<MultiValue> {
    let (subject, wanted) = (subject.as_bytes(), wanted.as_bytes());
    let from = init - 1;
    budget.charge(CROSSING_STEPS + (wanted.len() / BYTES_PER_STEP) as u64)?;
    let mut left = budget.left();
    let is_special = |byte: &u8| b"^$*+?.([%-".contains(byte) || plain.is_none() && *byte == b')';
    let is_plain = plain == Some(true) || !wanted.iter().any(is_special);
    let found = if is_plain {
        let at = find_plain(&subject[from..], &wanted, &mut left);
        at.map(|at| {
            at.map(|at| pattern::Match {
                start: from + at,
                end: from + at + wanted.len(),
                captures: Vec::new(),
            })
        })
    } else {
        pattern::find(&subject, &wanted, from, anchors, &mut left)
    };
    budget.set_left(left);
    let found = match found {
        Err(pattern::PatternError::Spent) => {
            budget.set_left(0);
            return Err(Error::RuntimeError(SPENT.to_owned()));
        }
        Err(pattern::PatternError::Malformed(text)) => {
            let text = Value::String(lua.create_string(text)?);
            return Ok(MultiValue::from_vec(vec![Value::Boolean(false), text]));
        }
        Ok(None) => return Ok(MultiValue::new()),
        Ok(Some(found)) => found,
    };
    let mut results =
        vec![Value::Number(found.start as f64 + 1.0), Value::Number(found.end as f64)];
    for capture in found.captures {
        results.push(match capture {
            pattern::Capture::Bytes(start, end) => {
                Value::String(lua.create_string(&subject[start..end])?)
            }
            pattern::Capture::Position(at) | pattern::Capture::Open(at) => {
                Value::Number(at as f64 + 1.0)
            }
        });
    }
    Ok(MultiValue::from_vec(results))
}

fn find_plain(
    subject: &[u8],
    wanted: &[u8],
    left: &mut u64,
) -> std::result::Result<Option<usize>, pattern::PatternError> {
    if wanted.is_empty() {
        return Ok(Some(0));
    }
    for (at, window) in subject.windows(wanted.len()).enumerate() {
        let is_near = window[0] == wanted[0];
        let cost = if is_near { 1 + wanted.len() as u64 / 16 } else { 1 };
        *left = left.checked_sub(cost).ok_or(pattern::PatternError::Spent)?;
        if is_near && window == wanted {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// The text that replaces one match of `string.gsub`; false and the error if a capture is missing.
/// The text is made outside of Lua's memory, so it has a bound of its own.
pub(super) fn expand(
    lua: &Lua,
    budget: &Budget,
    (with, parts): (LuaString, Variadic<Value>),
) -> Result<(Value, Option<&'static str>)> {
    let mut out = Vec::new();
    let with = with.as_bytes();
    budget.charge(with.len() as u64)?;
    let mut bytes = with.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            Some(digit) if digit.is_ascii_digit() => {
                budget.charge(1)?;
                let mut at = usize::from(digit - b'0');
                // Without captures the first capture is the whole match.
                if at == 1 && parts.len() == 1 {
                    at = 0;
                }
                match parts.get(at).map(|part| lua.coerce_string(part.clone())).transpose()? {
                    Some(Some(text)) => {
                        let text = text.as_bytes();
                        budget.charge((text.len() / BYTES_PER_STEP) as u64)?;
                        if out.len() + text.len() > host::STRING_BYTES_MAX {
                            return Err(Error::MemoryError(String::new()));
                        }
                        out.extend_from_slice(&text);
                    }
                    _ => return Ok((Value::Boolean(false), Some("invalid capture index"))),
                }
            }
            Some(&other) => out.push(other),
            // Lua takes the NUL behind the text for the escaped byte.
            None => out.push(0),
        }
    }
    Ok((Value::String(lua.create_string(&out)?), None))
}

/// The SHA-1 of a text, in hexadecimal digits.
pub(super) fn sha1(text: &[u8]) -> String {
    hex(&Sha1::digest(text).into())
}

/// A table's keys, and the error if they have no order.
pub(super) fn keys(
    lua: &Lua,
    budget: &Budget,
    table: Table,
) -> Result<(Option<Table>, Option<&'static str>)> {
    let order::Found { steps, found } = order::sorted_keys(&table)?;
    budget.charge(CROSSING_STEPS + steps)?;
    let Some(keys) = found else { return Ok((None, Some(order::NO_ORDER))) };
    Ok((Some(lua.create_sequence_from(keys)?), None))
}

/// The key after another, and the error if the table's keys have no order.
pub(super) fn next(
    lua: &Lua,
    budget: &Budget,
    (table, last): (Table, Value),
) -> Result<(Option<Value>, Option<&'static str>)> {
    let order::Found { steps, found } = order::next_key(&table, &last)?;
    budget.charge(CROSSING_STEPS + steps)?;
    let Some(key) = found else { return Ok((None, Some(order::NO_ORDER))) };
    Ok((key.map(|key| key.into_lua(lua)).transpose()?, None))
}
