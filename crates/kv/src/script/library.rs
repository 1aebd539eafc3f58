//! The library `redis`, except for the functions that access the store.
//!
//! Its functions are host functions: therefore the script's own frame is on the stack when one of
//! them raises, also as the last call of a function, and the error names the line.

use std::rc::Rc;

use mlua::{Error, Lua, LuaString, MultiValue, Result, Table, Value};

use super::run::{self, Budget, CROSSING_STEPS};
use super::values;
use crate::connection::REDIS_VERSION;

const VERSION_NUMBER: u32 = 0x0007_000f;

/// An error with a code, which a script that catches it finds in a table.
#[derive(Debug, thiserror::Error)]
#[error("{}", String::from_utf8_lossy(.0))]
struct Raised(Vec<u8>);

/// An error reply as an error of the script.
pub(super) fn raise(text: &[u8]) -> Error {
    Error::external(Raised(text.to_vec()))
}

/// The error as the script sees it: a table if it has a code, otherwise its text.
pub(super) fn caught(lua: &Lua, error: &Error) -> Result<Value> {
    match raised(error) {
        Some(text) => table_of(lua, "err", text),
        None => Ok(Value::String(lua.create_string(run::text_of(error))?)),
    }
}

fn raised(error: &Error) -> Option<&[u8]> {
    match error {
        Error::CallbackError { cause, .. } | Error::WithContext { cause, .. } => raised(cause),
        Error::ExternalError(error) => error.downcast_ref::<Raised>().map(|raised| &raised.0[..]),
        _ => None,
    }
}

fn table_of(lua: &Lua, field: &str, text: &[u8]) -> Result<Value> {
    let table = lua.create_table()?;
    table.raw_set(field, lua.create_string(text)?)?;
    Ok(Value::Table(table))
}

/// The functions and constants that need nothing but Lua.
pub(super) fn add_to(lua: &Lua, library: &Table, budget: &Rc<Budget>) -> Result<()> {
    let of = Rc::clone(budget);
    let sha1hex = move |lua: &Lua, args| sha1hex(lua, &of, args);
    library.raw_set("sha1hex", lua.create_function(sha1hex)?)?;
    let of = Rc::clone(budget);
    let error_reply = move |lua: &Lua, args| error_reply(lua, &of, args);
    library.raw_set("error_reply", lua.create_function(error_reply)?)?;
    let of = Rc::clone(budget);
    let status_reply = move |lua: &Lua, args| status_reply(lua, &of, args);
    library.raw_set("status_reply", lua.create_function(status_reply)?)?;
    library.raw_set("log", lua.create_function(log)?)?;
    library.raw_set("replicate_commands", lua.create_function(|_, ()| Ok(true))?)?;
    library.raw_set("set_repl", lua.create_function(|_, ()| Ok(()))?)?;
    library.raw_set("breakpoint", lua.create_function(|_, ()| Ok(false))?)?;
    library.raw_set("debug", lua.create_function(|_, ()| Ok(()))?)?;
    library.raw_set("REDIS_VERSION", REDIS_VERSION)?;
    library.raw_set("REDIS_VERSION_NUM", VERSION_NUMBER)?;
    let numbers = [
        ("LOG_DEBUG", 0),
        ("LOG_VERBOSE", 1),
        ("LOG_NOTICE", 2),
        ("LOG_WARNING", 3),
        ("REPL_NONE", 0),
        ("REPL_AOF", 1),
        ("REPL_SLAVE", 2),
        ("REPL_REPLICA", 2),
        ("REPL_ALL", 3),
    ];
    numbers.into_iter().try_for_each(|(name, number)| library.raw_set(name, number))
}

/// The protocol that `redis.setresp` chooses.
pub(super) fn protocol(args: &MultiValue) -> Result<u8> {
    let [version] = &values_of(args)[..] else {
        return Err(raise(b"ERR redis.setresp() requires one argument."));
    };
    match values::number(version) {
        Some(2.0) => Ok(2),
        Some(3.0) => Ok(3),
        _ => Err(raise(b"ERR RESP version must be 2 or 3.")),
    }
}

fn values_of(args: &MultiValue) -> Vec<&Value> {
    args.iter().collect()
}

fn sha1hex(lua: &Lua, budget: &Budget, args: MultiValue) -> Result<String> {
    let [value] = &values_of(&args)[..] else {
        return Err(raise(b"ERR wrong number of arguments"));
    };
    // A value that is not a text counts as the empty text, as in Redis.
    let text = lua.coerce_string((*value).clone())?;
    let text = match text {
        Some(text) => text,
        None => lua.create_string("")?,
    };
    let text = text.as_bytes();
    budget.charge(CROSSING_STEPS + text.len() as u64)?;
    Ok(run::sha1(&text))
}

/// The only text argument of a function, whose reading is paid for.
fn only_text(budget: &Budget, args: &MultiValue) -> Result<Option<LuaString>> {
    let [Value::String(text)] = &values_of(args)[..] else { return Ok(None) };
    budget.charge(CROSSING_STEPS + (text.as_bytes().len() / run::BYTES_PER_STEP) as u64)?;
    Ok(Some(text.clone()))
}

const NOT_A_TEXT: &[u8] = b"ERR wrong number or type of arguments";

/// Adds a code to an error without one.
fn error_reply(lua: &Lua, budget: &Budget, args: MultiValue) -> Result<Value> {
    let Some(text) = only_text(budget, &args)? else { return table_of(lua, "err", NOT_A_TEXT) };
    let text = text.as_bytes();
    let line = text.strip_prefix(b"-").unwrap_or(&text);
    let end = line.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |at| at + 1);
    let line = &line[..end];
    if line.contains(&b' ') {
        table_of(lua, "err", line)
    } else {
        table_of(lua, "err", &[b"ERR ", line].concat())
    }
}

fn status_reply(lua: &Lua, budget: &Budget, args: MultiValue) -> Result<Value> {
    match only_text(budget, &args)? {
        Some(text) => table_of(lua, "ok", &text.as_bytes()),
        None => table_of(lua, "err", NOT_A_TEXT),
    }
}

/// Members keep no log of scripts, so a valid message is dropped.
fn log(_: &Lua, args: MultiValue) -> Result<()> {
    let args = values_of(&args);
    if args.len() < 2 {
        return Err(raise(b"ERR redis.log() requires two arguments or more."));
    }
    match values::number(args[0]) {
        None => Err(raise(b"ERR First argument must be a number (log level).")),
        Some(level) if !(0.0..=3.0).contains(&level) => Err(raise(b"ERR Invalid debug level.")),
        Some(_) => Ok(()),
    }
}
