//! `redis.call`: the access of a script to the store.

use std::rc::Rc;

use mlua::{Lua, MultiValue, Result, Value};

use super::run::Budget;
use super::{Scope, host, library, values};
use crate::command::{Args, CommandSpec, flag, keys_of, lookup, lookup_subcommand};
use crate::exec::keys::copy_target;
use crate::exec::{OUT_OF_MEMORY, database_or_reply};
use crate::reply::{Protocol, Reply};
use crate::resp::{ARGS_MAX, REQUEST_BYTES_MAX, too_long};
use crate::store::{Db, DbKey, Store};
use crate::text;

/// The cost of a call beside the bytes that it moves.
const CALL_STEPS: u64 = 100;

/// The cost of each argument of a call: a number is printed.
const WORD_STEPS: u64 = 8;

/// The number of bytes that cost a step.
const BYTES_PER_STEP: u64 = 4;

const UNDECLARED: &str = "ERR Script attempted to access a key that it did not declare, another \
                          database, or all keys, where keys live in partitions";

/// The script that calls, and what it may do.
pub(super) struct Caller<'a> {
    pub(super) store: &'a mut Store,
    pub(super) scope: Scope<'a>,
    /// The current database: SELECT changes it for the rest of the script.
    pub(super) db: Db,
    pub(super) seed: u64,
    pub(super) only_reads: bool,
    /// Whether the store was over its limit when the script began, and nothing has been written
    /// since.
    pub(super) refuses_growth: bool,
    pub(super) protocol: Protocol,
    pub(super) budget: Rc<Budget>,
    /// The bytes of values read or written that are not charged as steps yet.
    pub(super) touched: u64,
}

impl Caller<'_> {
    /// Sets the protocol of the answers that the script sees, 2 or 3.
    pub(super) fn set_protocol(&mut self, version: u8) {
        self.protocol = if version == 3 { Protocol::Resp3 } else { Protocol::Resp2 };
    }

    /// `redis.call`: the answer, raised if it is an error.
    pub(super) fn call(&mut self, lua: &Lua, values: &MultiValue) -> Result<Value> {
        let reply = self.answer(values)?;
        match reply.as_bytes().strip_prefix(b"-") {
            Some(text) => Err(library::raise(text.strip_suffix(b"\r\n").unwrap_or(text))),
            None => values::from_reply(lua, reply.as_bytes()),
        }
    }

    /// `redis.pcall`: the answer, returned even if it is an error.
    pub(super) fn pcall(&mut self, lua: &Lua, values: &MultiValue) -> Result<Value> {
        values::from_reply(lua, self.answer(values)?.as_bytes())
    }

    fn answer(&mut self, values: &MultiValue) -> Result<Reply> {
        let mut reply = Reply::new(self.protocol);
        self.budget.charge(CALL_STEPS + WORD_STEPS * values.len() as u64)?;
        // One long text may stand in many arguments, and each is copied.
        let bytes = host::bytes_of(values);
        if bytes > REQUEST_BYTES_MAX || values.len() > ARGS_MAX {
            reply.error(too_long());
            return Ok(reply);
        }
        self.budget.charge(bytes as u64 / BYTES_PER_STEP)?;
        let (left, mut used) = (self.budget.left() as usize, 0);
        match host::words(values) {
            _ if values.is_empty() => {
                reply.error("ERR Please specify at least one argument for this redis lib call");
            }
            None => {
                reply.error("ERR Lua redis lib command arguments must be strings or integers");
            }
            Some(words) => {
                let args: Args<'_> = words.iter().map(|word| &word[..]).collect();
                reply.bounded(text::ANSWER_TOO_LONG, |reply| {
                    // It is one of the script's commands, and has what those before it have left.
                    let spent = reply.steps_left() - left.min(reply.steps_left());
                    reply.take_steps(spent);
                    self.execute(&args, reply);
                });
                used = left.saturating_sub(reply.steps_left()) as u64;
            }
        }
        let bytes = reply.len() as u64 + std::mem::take(&mut self.touched);
        self.budget.charge(used + bytes / BYTES_PER_STEP)?;
        Ok(reply)
    }

    fn execute(&mut self, args: &Args<'_>, reply: &mut Reply) {
        if args.len() == 1 && args[0].eq_ignore_ascii_case(b"time") {
            return self.time(reply);
        }
        let Some(spec) = self.admitted(args, reply) else { return };
        match spec.name {
            "ping" if args.len() == 1 => reply.simple("PONG"),
            "ping" | "echo" => reply.bulk(args[1]),
            "select" => self.select(args[1], reply),
            _ if !spec.is_for_store() => {
                reply.error("ERR This Redis command is not allowed from script");
            }
            _ => {
                self.refuses_growth &= !spec.is_write();
                // A script that has written is not stopped in the middle, as in Redis.
                let admitted = self.store.admit_growth(true);
                self.store.execute(self.db, spec, args, self.seed, reply);
                self.store.admit_growth(admitted);
                self.touched += self.bytes_at(spec, args);
                self.seed = self.seed.rotate_left(17).wrapping_add(1);
            }
        }
    }

    /// The bytes stored at a command's keys: the command may have moved them.
    fn bytes_at(&self, spec: &CommandSpec, args: &Args<'_>) -> u64 {
        let Ok(keys) = keys_of(spec, args) else { return 0 };
        let values = keys
            .filter_map(|at| args.get(at))
            .filter_map(|key| self.store.value(DbKey { db: self.db, key }));
        values.map(|value| value.len() as u64).sum()
    }

    /// In partitions only the caller's database was lent (S4).
    fn select(&mut self, text: &[u8], reply: &mut Reply) {
        let Some(db) = database_or_reply(text, reply) else { return };
        if db != self.db && matches!(self.scope, Scope::Declared(_)) {
            return reply.error(UNDECLARED);
        }
        self.db = db;
        reply.ok();
    }

    /// State time, which is the same at every replica.
    fn time(&self, reply: &mut Reply) {
        let now_ms = self.store.now_ms();
        reply.array(2);
        reply.bulk((now_ms / 1000).to_string().as_bytes());
        reply.bulk((now_ms % 1000 * 1000).to_string().as_bytes());
    }

    /// The command, if the script may call it.
    fn admitted(&self, args: &Args<'_>, reply: &mut Reply) -> Option<&'static CommandSpec> {
        let spec = lookup(args[0]).and_then(|spec| {
            if spec.subcommands.is_empty() || args.len() == 1 {
                Some(spec)
            } else {
                lookup_subcommand(spec, args[1])
            }
        });
        let refusal = match spec {
            None => "ERR Unknown Redis command called from script",
            Some(spec) if !spec.accepts(args.len()) => {
                "ERR Wrong number of args calling Redis command from script"
            }
            Some(spec) if spec.is(flag::NOSCRIPT) => {
                "ERR This Redis command is not allowed from script"
            }
            Some(spec) if spec.is_write() && self.only_reads => {
                "ERR Write commands are not allowed from read-only scripts."
            }
            Some(spec) if spec.is(flag::DENYOOM) && self.refuses_growth => OUT_OF_MEMORY,
            Some(spec) if !self.reaches(spec, args) => UNDECLARED,
            Some(spec) => return Some(spec),
        };
        reply.error(refusal);
        None
    }

    /// Whether the keys are among the declared ones, where they have to be.
    fn reaches(&self, spec: &CommandSpec, args: &Args<'_>) -> bool {
        let Scope::Declared(declared) = self.scope else { return true };
        let leaves_database = match spec.name {
            "move" => true,
            "copy" => copy_target(&args[3..]).is_some_and(|db| db != self.db),
            _ => false,
        };
        match keys_of(spec, args) {
            Ok(_) if leaves_database => false,
            Ok(mut keys) => keys.all(|at| args.get(at).is_some_and(|key| declared.contains(key))),
            Err(_) => !spec.is_for_store() || spec.name == "publish",
        }
    }
}
