//! Scripts: EVAL and its family, in Lua 5.1, executed by every replica alike.
//!
//! A script is a command of the log, named by its text or by the hash of a text that came through
//! the log before. Every replica runs it to the same end, or to the same point of failure: its
//! writes until then stay, as in Redis.
//!
//! - S1 the effect of a script is a function of the store, its text, its keys and arguments, and
//!   the seed. It has no clock (TIME answers state time), file, module or debugger; random numbers
//!   come from the seed; addresses are not shown; a table is walked in the order of its keys
//!   (`order`); only the store outlives a script. Test `s1_two_replicas_run_a_script_alike`.
//! - S2 the cost of a script is bounded: in steps, by a hook on instructions, with a charge for all
//!   work that no instruction shows, out of the steps of its command or transaction
//!   ([`STEPS_MAX`](crate::reply::STEPS_MAX)); in memory by [`MEMORY_BYTES_MAX`], and what is made
//!   for it outside of Lua by bounds of its own: the text that replaces a match, the arguments of
//!   a command, which are no longer than a client's, and the text of an error, which Lua keeps. A
//!   script cannot catch the end of its steps, and its earlier writes stay. Tests
//!   `s2_a_script_without_end_is_stopped`,
//!   `s2_a_script_is_stopped_at_the_same_step_at_every_replica_and_what_it_wrote_stays`,
//!   `s2_the_text_that_replaces_a_match_is_bounded_and_paid_for`,
//!   `s2_a_command_of_a_script_is_no_longer_than_a_client_s` and
//!   `s2_an_error_that_lua_keeps_shows_the_beginning_of_a_long_name`. Almost all
//!   scripts end within some 0.1 s. A script written for the purpose takes some 20 s: an
//!   instruction may join, compare or add long texts, which a hook does not see; instructions cost
//!   more while a script holds more memory, but not as much more as that takes.
//! - S3 the known scripts are state: in snapshots and in the digest, and bounded. Test
//!   `s3_a_snapshot_brings_the_scripts`.
//! - S4 a script that calls only commands of declared keys is executed at one point of the order,
//!   also where its keys live in several partitions. There, any other key is refused:
//!   `Scope::Declared`. Test `s4_undeclared_keys_are_refused_in_partitions`.
//!
//! All members must run one build, on one architecture: the sizes of Lua's objects decide when
//! memory runs out, and `%` rounds differently where a compiler fuses multiplications. The text of
//! numbers comes from the C library, which rounds correctly; the functions of `math` that do not
//! are replaced, and so is `^` (`pow`).
//!
//! One case still violates S1; its test is ignored until it is fixed. A table with a table, a
//! function or a thread as a key grows when such keys collide, which depends on addresses; `#` of a
//! table with holes, and the memory in use, depend on that:
//! `s1_the_length_of_a_table_depends_on_no_address`.
//!
//! Differences from Redis: `cjson`, `cmsgpack`, `struct` and `bit` are absent; a script that runs
//! too long is stopped and keeps its writes, where Redis would wait for SCRIPT KILL; EVAL_RO and
//! EVALSHA_RO go through the log, too; the error of a library's function that is the last call of a
//! function names no line.

mod call;
mod host;
mod library;
mod order;
mod pattern;
mod run;
#[cfg(test)]
mod tests;
mod values;

pub use crate::store::scripts::{BYTES_MAX, EVALUATED_MAX};
pub(crate) use crate::store::scripts::{ScriptRef, Sha, hex, parse_sha, sha_of};
pub use run::MEMORY_BYTES_MAX;

use std::rc::Rc;
use std::sync::Arc;

use crate::command::CommandSpec;
use crate::exec::{Call, NOT_AN_INTEGER, OUT_OF_MEMORY, parse_integer, steps};
use crate::reply::{Protocol, Reply};
use crate::store::Store;
use call::Caller;
use run::{Budget, Script};

const NO_SCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";

/// The keys that a script may touch.
#[derive(Clone, Copy)]
pub(crate) enum Scope<'a> {
    /// All keys.
    Any,
    /// The declared keys.
    Declared(&'a [&'a [u8]]),
}

/// EVAL, EVALSHA, EVAL_RO, EVALSHA_RO where all keys are available.
pub(crate) fn eval(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    eval_within(store, call, false, reply);
}

/// Runs a script; `declared` where it may touch only declared keys.
pub(crate) fn eval_within(store: &mut Store, call: &Call<'_>, declared: bool, reply: &mut Reply) {
    let by_hash = call.spec.name.starts_with("evalsha");
    let words = match declared_words(call.args) {
        Ok(words) => words,
        Err(refusal) => return reply.error(refusal),
    };
    let (text, sha) = if by_hash {
        match parse_sha(call.args[1]).map(|sha| (store.scripts().get(&sha), sha)) {
            Some((Some(text), sha)) => (text, sha),
            _ => return reply.error(NO_SCRIPT),
        }
    } else {
        (Arc::from(call.args[1]), sha_of(call.args[1]))
    };
    let (body, flags) = match shebang(&text) {
        Ok(parsed) => parsed,
        Err(refusal) => return reply.error(refusal),
    };
    let is_read_only = call.spec.name.ends_with("_ro");
    if is_read_only && flags.is_some_and(|flags| !flags.no_writes) {
        return reply.error("ERR Can not execute a script with write flag using *_ro command.");
    }
    let is_over = store.is_over_memory();
    if is_over && flags.is_some_and(|flags| !flags.no_writes && !flags.allow_oom) {
        return reply.error(OUT_OF_MEMORY);
    }
    if !steps::compiles(body.len(), reply) {
        return;
    }
    let (keys, args) = words;
    let budget = Budget::new(reply.steps_left() as u64);
    let before = budget.left();
    let caller = Caller {
        scope: if declared { Scope::Declared(keys) } else { Scope::Any },
        db: call.db,
        seed: call.seed,
        touched: 0,
        only_reads: is_read_only || flags.is_some_and(|flags| flags.no_writes),
        refuses_growth: is_over && !flags.is_some_and(|flags| flags.allow_oom),
        protocol: Protocol::Resp2,
        budget: Rc::clone(&budget),
        store,
    };
    let is_script = run::run(&Script { sha, body, keys, args }, caller, &budget, reply);
    if is_script && !by_hash {
        store.scripts_mut().evaluate(sha, text);
    }
    reply.take_steps((before - budget.left()) as usize);
}

/// The script name in these bytes: forty hexadecimal digits.
pub fn name_of(bytes: &[u8]) -> String {
    hex(&sha_of(bytes))
}

/// Whether a command runs a script.
pub(crate) fn is_script(spec: &CommandSpec) -> bool {
    matches!(spec.name, "eval" | "eval_ro" | "evalsha" | "evalsha_ro")
}

/// The text of the script that a command names by its hash, if `known` has it.
pub(crate) fn known_text(
    call: &Call<'_>,
    known: impl Fn(&Sha) -> Option<Arc<[u8]>>,
) -> Option<Arc<[u8]>> {
    let is_by_hash = call.spec.name.starts_with("evalsha");
    is_by_hash.then(|| parse_sha(call.args[1])).flatten().and_then(|sha| known(&sha))
}

/// SCRIPT LOAD.
pub(crate) fn load(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    let text = call.args[2];
    let sha = sha_of(text);
    if let Err(refusal) = shebang(text) {
        reply.error(refusal);
    } else if !steps::compiles(text.len(), reply) {
        // It is answered.
    } else if let Some(problem) = shebang(text).ok().and_then(|(body, _)| run::problem(body)) {
        reply.error_fmt(format_args!("ERR Error compiling script (new function): {problem}"));
    } else if store.scripts_mut().load(sha, text) {
        reply.bulk(hex(&sha).as_bytes());
    } else {
        reply.error_fmt(format_args!(
            "ERR the scripts are longer than {BYTES_MAX} bytes (gregale's limit); SCRIPT FLUSH \
             makes room"
        ));
    }
}

/// SCRIPT EXISTS.
pub(crate) fn exists(store: &Store, call: &Call<'_>, reply: &mut Reply) {
    reply.array(call.args.len() - 2);
    for name in &call.args[2..] {
        let known = parse_sha(name).and_then(|sha| store.scripts().get(&sha));
        reply.integer(i64::from(known.is_some()));
    }
}

/// SCRIPT FLUSH.
pub(crate) fn flush(store: &mut Store, call: &Call<'_>, reply: &mut Reply) {
    match call.args[2..] {
        [] => {}
        [how] if how.eq_ignore_ascii_case(b"async") || how.eq_ignore_ascii_case(b"sync") => {}
        _ => return reply.error("ERR SCRIPT FLUSH only support SYNC|ASYNC option"),
    }
    store.scripts_mut().flush();
    reply.ok();
}

/// The answers of SCRIPT that need no store.
pub(crate) fn beside(name: &str, args: &[&[u8]], reply: &mut Reply) {
    match name {
        "script|kill" => reply.error("NOTBUSY No scripts in execution right now."),
        "script|debug" if args[2].eq_ignore_ascii_case(b"no") => reply.ok(),
        "script|debug" => reply.error("ERR gregale has no debugger of scripts"),
        _ => help(reply),
    }
}

fn help(reply: &mut Reply) {
    reply.help(&[
        "SCRIPT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "DEBUG (YES|SYNC|NO)",
        "    Set the debug mode for subsequent scripts executed.",
        "EXISTS <sha1> [<sha1> ...]",
        "    Return information about the existence of the scripts in the script cache.",
        "FLUSH [ASYNC|SYNC]",
        "    Flush the Lua scripts cache. Very dangerous on replicas.",
        "    When called without the optional mode argument, the behavior is determined",
        "    by the lazyfree-lazy-user-flush configuration directive. Valid modes are:",
        "    * ASYNC: Asynchronously flush the scripts cache.",
        "    * SYNC: Synchronously flush the scripts cache.",
        "KILL",
        "    Kill the currently executing Lua script.",
        "LOAD <script>",
        "    Load a script into the scripts cache without executing it.",
    ]);
}

/// The keys and the arguments of a script.
type Words<'a> = (&'a [&'a [u8]], &'a [&'a [u8]]);

fn declared_words<'a>(args: &'a [&'a [u8]]) -> Result<Words<'a>, &'static str> {
    let n_keys = parse_integer(args[2]).ok_or(NOT_AN_INTEGER)?;
    let n_keys = usize::try_from(n_keys).map_err(|_| "ERR Number of keys can't be negative")?;
    args[3..]
        .split_at_checked(n_keys)
        .ok_or("ERR Number of keys can't be greater than number of args")
}

/// The declarations in the first line of a script.
#[derive(Clone, Copy, Default)]
struct Flags {
    no_writes: bool,
    allow_oom: bool,
}

/// Splits off the line that begins with `#!`; `None` without such a line, where the old rules
/// apply.
fn shebang(text: &[u8]) -> Result<(&[u8], Option<Flags>), String> {
    if !text.starts_with(b"#!") {
        return Ok((text, None));
    }
    let end = text.iter().position(|&byte| byte == b'\n').ok_or("ERR Invalid script shebang")?;
    let (line, body) = text.split_at(end);
    let line = String::from_utf8_lossy(line).into_owned();
    let mut words = line.split_ascii_whitespace();
    let engine = words.next().unwrap_or_default();
    if engine != "#!lua" {
        return Err(format!("ERR Unexpected engine in script shebang: {engine}"));
    }
    let mut flags = Flags::default();
    for word in words {
        let Some(list) = word.strip_prefix("flags=") else {
            return Err(format!("ERR Unknown lua shebang option: {word}"));
        };
        for flag in list.split(',').filter(|flag| !flag.is_empty()) {
            match flag {
                "no-writes" => flags.no_writes = true,
                "allow-oom" => flags.allow_oom = true,
                // Every member answers from the newest state, and keys may be in any partition.
                "allow-stale" | "no-cluster" | "allow-cross-slot-keys" => {}
                _ => return Err(format!("ERR Unexpected flag in script shebang: {flag}")),
            }
        }
    }
    Ok((body, Some(flags)))
}
