//! The functions that the prelude gets from the host, except those that access the store.

use std::cell::Cell;
use std::rc::Rc;

use mlua::chunk::ChunkMode;
use mlua::{Error, Lua, LuaString, MultiValue, Result, Table, Value};

use super::run::{self, Budget};
use super::{library, values};

/// The longest string that `string.rep`, or one replacement of `string.gsub`, may make.
pub(super) const STRING_BYTES_MAX: usize = run::MEMORY_BYTES_MAX / 2;

/// A table of all host functions.
pub(super) fn functions(lua: &Lua, budget: &Rc<Budget>, seed: u64) -> Result<Table> {
    let host = lua.create_table()?;
    host.raw_set("spent_text", run::SPENT)?;
    host.raw_set("string_max", STRING_BYTES_MAX)?;
    host.raw_set("guard", lua.create_function(guard)?)?;
    host.raw_set("locate", lua.create_function(run::locate)?)?;
    host.raw_set("load", lua.create_function(load)?)?;
    host.raw_set("math", math(lua, budget)?)?;
    host.raw_set("caught", lua.create_function(caught)?)?;
    host.raw_set("has_tostring", lua.create_function(has_tostring)?)?;
    with_budget(lua, &host, budget)?;
    random(lua, &host, seed)?;
    Ok(host)
}

fn with_budget(lua: &Lua, host: &Table, budget: &Rc<Budget>) -> Result<()> {
    let of = Rc::clone(budget);
    host.raw_set("spent", lua.create_function(move |_, ()| Ok(of.is_spent()))?)?;
    let of = Rc::clone(budget);
    let charge = move |_: &Lua, n: f64| of.charge(run::CROSSING_STEPS + n as u64);
    host.raw_set("charge", lua.create_function(charge)?)?;
    let of = Rc::clone(budget);
    let charge = move |lua: &Lua, n: f64| of.charge_for_all(lua, run::CROSSING_STEPS + n as u64);
    host.raw_set("charge_for_all", lua.create_function(charge)?)?;
    let of = Rc::clone(budget);
    host.raw_set("seek", lua.create_function(move |lua, args| run::seek(lua, &of, args))?)?;
    let of = Rc::clone(budget);
    host.raw_set("expand", lua.create_function(move |lua, args| run::expand(lua, &of, args))?)?;
    let of = Rc::clone(budget);
    host.raw_set("keys", lua.create_function(move |lua, table| run::keys(lua, &of, table))?)?;
    let of = Rc::clone(budget);
    host.raw_set("next", lua.create_function(move |lua, args| run::next(lua, &of, args))?)
}

/// Redis's own generator, which begins with the command's seed.
fn random(lua: &Lua, host: &Table, seed: u64) -> Result<()> {
    const SEED_LOW: u64 = 0x330e;
    let start = |seed: u32| (u64::from(seed) << 16) | SEED_LOW;
    let state = Rc::new(Cell::new(start((seed ^ (seed >> 32)) as u32)));
    let of = Rc::clone(&state);
    let draw = move |_: &Lua, ()| {
        let next = of.get().wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & ((1 << 48) - 1);
        of.set(next);
        const MOST: u64 = i32::MAX as u64;
        Ok(((next >> 17) % MOST) as f64 / MOST as f64)
    };
    host.raw_set("random", lua.create_function(draw)?)?;
    let seed = move |_: &Lua, seed: f64| {
        state.set(start(seed as i64 as u32));
        Ok(())
    };
    host.raw_set("seed", lua.create_function(seed)?)
}

type OfOne = fn(f64) -> f64;
type OfTwo = fn(f64, f64) -> f64;

/// The functions whose last digit depends on the C library and the processor, replaced by ones
/// whose result does not.
fn math(lua: &Lua, budget: &Rc<Budget>) -> Result<Table> {
    let table = lua.create_table()?;
    let one: [(&str, OfOne); 12] = [
        ("acos", libm::acos),
        ("asin", libm::asin),
        ("atan", libm::atan),
        ("cos", libm::cos),
        ("cosh", libm::cosh),
        ("exp", libm::exp),
        ("log", libm::log),
        ("log10", libm::log10),
        ("sin", libm::sin),
        ("sinh", libm::sinh),
        ("tan", libm::tan),
        ("tanh", libm::tanh),
    ];
    for (name, function) in one {
        let of = Rc::clone(budget);
        let charged = move |_: &Lua, x: f64| of.charge(run::CROSSING_STEPS).map(|()| function(x));
        table.raw_set(name, lua.create_function(charged)?)?;
    }
    let two: [(&str, OfTwo); 2] = [("atan2", libm::atan2), ("pow", |x, y| pow::pow(x, y))];
    for (name, function) in two {
        let of = Rc::clone(budget);
        let charged = move |_: &Lua, (x, y): (f64, f64)| {
            of.charge(run::CROSSING_STEPS).map(|()| function(x, y))
        };
        table.raw_set(name, lua.create_function(charged)?)?;
    }
    Ok(table)
}

/// The globals of a script: reads go to `inner`, and writes are refused.
fn guard(lua: &Lua, inner: Table) -> Result<Table> {
    let of = inner.clone();
    let outer = lua.create_table()?;
    let guard = lua.create_table()?;
    let refuse = |lua: &Lua, text: String| -> Result<Value> {
        Err(Error::RuntimeError(format!("{}{text}", place(lua))))
    };
    let read = move |lua: &Lua, (_, name): (Value, Value)| match of
        .raw_get::<Value>(name.clone())?
    {
        Value::Nil => {
            let name = lua.coerce_string(name)?.map(|name| shown(&name));
            let name = name.unwrap_or_default();
            refuse(lua, format!("Script attempted to access nonexistent global variable '{name}'"))
        }
        value => Ok(value),
    };
    guard.raw_set("__index", lua.create_function(read)?)?;
    let write = move |lua: &Lua, _: (Value, Value, Value)| {
        refuse(lua, "Attempt to modify a readonly table".to_owned())
    };
    guard.raw_set("__newindex", lua.create_function(write)?)?;
    guard.raw_set("__metatable", false)?;
    outer.set_metatable(Some(guard))?;
    Ok(outer)
}

/// The most bytes of a name that an error shows. Lua keeps each error of the host until a script
/// ends, and counts no byte of its text as memory.
const SHOWN_BYTES_MAX: usize = 128;

fn shown(name: &LuaString) -> String {
    let name = name.as_bytes();
    let (start, rest) = name.split_at(name.len().min(SHOWN_BYTES_MAX));
    let end = if rest.is_empty() { "" } else { "..." };
    format!("{}{end}", String::from_utf8_lossy(start))
}

/// The position in the script, in the form in which Lua puts it before an error.
fn place(lua: &Lua) -> String {
    let found = lua.inspect_stack(1, |debug| {
        let source = debug.source();
        Some(format!("{}:{}: ", source.short_src?, debug.current_line()?))
    });
    found.flatten().unwrap_or_default()
}

/// Compiles text, but never Lua's binary format, which can crash a process.
fn load(
    lua: &Lua,
    (text, name, environment): (LuaString, LuaString, Table),
) -> Result<(Value, Option<String>)> {
    let name = name.to_string_lossy();
    let chunk = lua.load(text.as_bytes().to_vec()).set_name(name).set_mode(ChunkMode::Text);
    match chunk.set_environment(environment).into_function() {
        Ok(function) => Ok((Value::Function(function), None)),
        Err(error) => Ok((Value::Nil, Some(run::text_of(&error)))),
    }
}

/// An error of the host, as the script sees it.
fn caught(lua: &Lua, error: Value) -> Result<Value> {
    match error {
        Value::Error(error) => library::caught(lua, &error),
        other => Ok(Value::String(lua.create_string(other.type_name())?)),
    }
}

/// Whether a table defines its own text form.
fn has_tostring(_: &Lua, table: Table) -> Result<bool> {
    let Some(metatable) = table.metatable() else { return Ok(false) };
    Ok(!matches!(metatable.raw_get::<Value>("__tostring")?, Value::Nil))
}

/// The bytes of the strings among the arguments of a command in a script.
pub(super) fn bytes_of(values: &MultiValue) -> usize {
    let bytes =
        |value: &Value| if let Value::String(text) = value { text.as_bytes().len() } else { 0 };
    values.iter().map(bytes).sum()
}

/// The arguments of a command in a script: strings, and numbers as C prints them. The caller bounds
/// their length, which is not among Lua's memory.
pub(super) fn words(values: &MultiValue) -> Option<Vec<Vec<u8>>> {
    let word = |value: &Value| match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        other => values::number(other).map(|number| values::text_of(number).into_bytes()),
    };
    values.iter().map(word).collect()
}
