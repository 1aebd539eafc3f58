//! Execution: the effect of every command on a store, and its answer.
//!
//! One function per command, with Redis 7.0's replies and error texts. A function that reads gets
//! the store by shared reference, so that reads outside the log cannot change replicated state.
//!
//! - I1 the reply and the change are a function of the store, the arguments and the seed. By
//!   construction: this module can reach nothing else.
//! - I2 a command that answers an error has changed nothing. Each function checks before it
//!   changes; the oracle compares the stores after random commands.

pub(crate) mod bitfield;
pub(crate) mod bits;
pub(crate) mod channels;
pub(crate) mod dump;
pub(crate) mod expiry;
mod float;
mod glob;
pub(crate) mod keys;
mod later;
pub(crate) mod lcs;
pub(crate) mod memory;
mod number;
pub(crate) mod numbers;
pub(crate) mod object;
pub(crate) mod ranges;
pub(crate) mod scan;
pub(crate) mod steps;
pub(crate) mod strings;

pub(crate) use glob::matches as glob_matches;
pub use lcs::LCS_CELLS_MAX;
pub(crate) use number::parse as parse_integer;
pub(crate) use scan::is_short;

pub(crate) use crate::command::{Call, Run};
use crate::command::{CommandSpec, flag, keys_of};
use crate::reply::Reply;
use crate::store::{Db, KEY_BYTES_MAX, Store, VALUE_BYTES_MAX};
pub use crate::text::OUT_OF_MEMORY;

/// The most arguments of one command.
pub const ARGS_MAX: usize = 64 << 10;

pub(crate) const SYNTAX: &str = "ERR syntax error";
pub(crate) const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
const NOT_AN_INT: &str = "ERR value is out of range, value must between -2147483648 and 2147483647";
pub(crate) const NO_SUCH_KEY: &str = "ERR no such key";
pub(crate) const DB_OUT_OF_RANGE: &str = "ERR DB index is out of range";

impl Store {
    /// Executes a command of the store on a database, and appends its reply. `args` begins with the
    /// name and fits the arity of `spec`, as [`resolve`](crate::command::resolve) has checked.
    /// `seed` is the only randomness that the command may use (RANDOMKEY); for a write it comes
    /// with the command.
    ///
    /// # Panics
    /// If `spec` is not for the store ([`CommandSpec::is_for_store`]).
    pub fn execute(
        &mut self,
        db: Db,
        spec: &'static CommandSpec,
        args: &[&[u8]],
        seed: u64,
        reply: &mut Reply,
    ) {
        let Run::Write(run) = spec.run else {
            self.query(db, spec, args, seed, reply);
            return;
        };
        if let Err(refusal) = admit(spec, args) {
            reply.error(refusal);
        } else if spec.is(flag::DENYOOM) && self.is_over_memory() {
            reply.error(OUT_OF_MEMORY);
        } else {
            run(self, &Call { spec, db, args, seed }, reply);
        }
    }

    /// Executes a command that only reads.
    ///
    /// # Panics
    /// If `spec` is a write or not for the store.
    pub fn query(
        &self,
        db: Db,
        spec: &'static CommandSpec,
        args: &[&[u8]],
        seed: u64,
        reply: &mut Reply,
    ) {
        let Run::Read(run) = spec.run else { panic!("{} is not a read of the store", spec.name) };
        match admit(spec, args) {
            Ok(()) => run(self, &Call { spec, db, args, seed }, reply),
            Err(refusal) => reply.error(refusal),
        }
    }
}

/// Checks the limits of every command, before the door puts it into the log.
///
/// # Errors
/// The text of the error reply.
pub fn admit(spec: &CommandSpec, args: &[&[u8]]) -> Result<(), String> {
    assert!(spec.accepts(args.len()), "{}: the caller checks the arity", spec.name);
    if args.len() > ARGS_MAX {
        return Err(format!("ERR more than {ARGS_MAX} arguments (gregale's limit)"));
    }
    if args.iter().any(|arg| arg.len() > KEY_BYTES_MAX) {
        if args.iter().any(|arg| arg.len() > VALUE_BYTES_MAX) {
            return Err(value_too_long());
        }
        if let Ok(mut keys) = keys_of(spec, args)
            && keys.any(|at| args[at].len() > KEY_BYTES_MAX)
        {
            return Err(format!("ERR key is longer than {KEY_BYTES_MAX} bytes (gregale's limit)"));
        }
    }
    Ok(())
}

/// The database that SELECT names, or Redis's error.
pub(crate) fn database_or_reply(text: &[u8], reply: &mut Reply) -> Option<Db> {
    let error = match number::parse(text).map(i32::try_from) {
        Some(Ok(number)) => match Db::new(number.into()) {
            Some(db) => return Some(db),
            None => DB_OUT_OF_RANGE,
        },
        Some(Err(_)) => NOT_AN_INT,
        None => NOT_AN_INTEGER,
    };
    reply.error(error);
    None
}

pub(crate) fn value_too_long() -> String {
    format!("ERR string exceeds maximum allowed size (gregale's limit: {VALUE_BYTES_MAX} bytes)")
}

/// Parses an integer argument, or answers that it is not an integer.
pub(crate) fn integer_or_reply(arg: &[u8], reply: &mut Reply) -> Option<i64> {
    let value = number::parse(arg);
    if value.is_none() {
        reply.error(NOT_AN_INTEGER);
    }
    value
}

/// Answers a value, or null.
pub(crate) fn bulk_or_null(value: Option<&[u8]>, reply: &mut Reply) {
    match value {
        Some(value) => reply.bulk(value),
        None => reply.null(),
    }
}

#[cfg(test)]
mod tests;
