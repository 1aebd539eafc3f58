//! The command table: the commands, their arguments, and the effects that they are allowed to have.
//!
//! One table answers four questions: whether a request is well formed (arity), whether it must go
//! through the log (flags), which keys it touches, and what COMMAND tells a client about it. The
//! facts are Redis 7.0's; the oracle test compares COMMAND INFO with a real server byte by byte.
//!
//! - I1 a command that may change the store is flagged [`flag::WRITE`] or [`flag::LOGGED`] and runs
//!   through `Run::Write`, all others through `Run::Read`, which gets the store by shared
//!   reference: by type, a read cannot change replicated state. The pairing is checked by
//!   `i1_flags_agree_with_handlers`.
//! - I2 names are lower case, unique, and at most [`NAME_BYTES_MAX`] long; lookup ignores case.
//!   Checked when the index is built, at compile time.

mod arity;
mod index;
mod info;
mod keys;
mod run;
mod table;

pub use arity::{resolve, wrong_arity};
pub use index::{lookup, lookup_subcommand};
pub use info::command;
pub use keys::{KeysError, keys_of};
pub(crate) use run::{Call, Run};

/// The longest name in the table; a longer name in a request is unknown without a search.
pub const NAME_BYTES_MAX: usize = 16;

/// Arguments of one command, borrowed from the connection's buffer; the first is its name.
pub type Args<'a> = smallvec::SmallVec<[&'a [u8]; 8]>;

/// The properties of a command, as bits.
pub mod flag {
    /// May change the store: goes through the log.
    pub const WRITE: u32 = 1 << 0;
    /// Reads the store and never changes it.
    pub const READONLY: u32 = 1 << 1;
    /// Refused when the store is over its memory limit.
    pub const DENYOOM: u32 = 1 << 2;
    /// An operator's command.
    pub const ADMIN: u32 = 1 << 3;
    /// Not allowed in scripts.
    pub const NOSCRIPT: u32 = 1 << 4;
    /// Allowed while a server loads its data.
    pub const LOADING: u32 = 1 << 5;
    /// Allowed on a replica that is out of date.
    pub const STALE: u32 = 1 << 6;
    /// Not in the slow log.
    pub const SKIP_SLOWLOG: u32 = 1 << 7;
    /// Constant or logarithmic time.
    pub const FAST: u32 = 1 << 8;
    /// Allowed before AUTH.
    pub const NO_AUTH: u32 = 1 << 9;
    /// Allowed while a script keeps a server busy.
    pub const ALLOW_BUSY: u32 = 1 << 10;

    /// Concerns channels.
    pub const PUBSUB: u32 = 1 << 11;
    /// Not shown to MONITOR.
    pub const SKIP_MONITOR: u32 = 1 << 12;
    /// May have no keys.
    pub const NO_MANDATORY_KEYS: u32 = 1 << 13;
    /// Not allowed while a server loads a replica's data beside its own.
    pub const NO_ASYNC_LOADING: u32 = 1 << 14;
    /// Has keys whose places depend on its arguments.
    pub const MOVABLE_KEYS: u32 = 1 << 15;
    /// Goes through the log although Redis does not call it a write: EVAL and its family. Clients
    /// are told by a tip.
    pub const LOGGED: u32 = 1 << 31;

    /// The names in COMMAND INFO, in its order.
    pub(super) const NAMES: [(u32, &str); 16] = [
        (WRITE, "write"),
        (READONLY, "readonly"),
        (DENYOOM, "denyoom"),
        (ADMIN, "admin"),
        (PUBSUB, "pubsub"),
        (NOSCRIPT, "noscript"),
        (LOADING, "loading"),
        (STALE, "stale"),
        (SKIP_MONITOR, "skip_monitor"),
        (SKIP_SLOWLOG, "skip_slowlog"),
        (FAST, "fast"),
        (NO_AUTH, "no_auth"),
        (NO_MANDATORY_KEYS, "no_mandatory_keys"),
        (NO_ASYNC_LOADING, "no_async_loading"),
        (MOVABLE_KEYS, "movablekeys"),
        (ALLOW_BUSY, "allow_busy"),
    ];
}

/// The places of a command's keys among its arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyRange {
    /// Index of the first key; 0 when the command has none.
    pub first: i32,
    /// Index of the last key; negative counts from the end.
    pub last: i32,
    /// The distance from one key to the next.
    pub step: i32,
}

/// A group of keys with the command's effect on them, as COMMAND INFO describes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeySpec {
    notes: &'static str,
    flags: &'static [&'static str],
    begin: i32,
    last: i32,
    step: i32,
    /// The argument at `begin` is the number of keys, which follow it.
    is_counted: bool,
}

/// A command of the table.
#[derive(Debug)]
pub struct CommandSpec {
    /// The name in lower case; a subcommand's is `container|name`.
    pub name: &'static str,
    /// Number of arguments, the name included; `-n` means n or more.
    pub arity: i32,
    /// Bits of [`flag`].
    pub flags: u32,
    /// The places of its keys.
    pub keys: KeyRange,
    /// Redis's group: `string`, `generic`, `connection`, `server`, `transactions`.
    pub group: &'static str,
    /// Subcommands, sorted by name; empty for most.
    pub subcommands: &'static [CommandSpec],
    since: &'static str,
    complexity: &'static str,
    summary: &'static str,
    deprecated_since: &'static str,
    replaced_by: &'static str,
    categories: &'static [&'static str],
    tips: &'static [&'static str],
    key_specs: &'static [KeySpec],
    pub(crate) run: Run,
}

impl CommandSpec {
    /// Whether all of these bits of [`flag`] are set.
    pub const fn is(&self, flags: u32) -> bool {
        self.flags & flags == flags
    }

    /// Whether the command may change the store and so must go through the log.
    pub const fn is_write(&self) -> bool {
        self.flags & (flag::WRITE | flag::LOGGED) != 0
    }

    /// Whether the store executes the command; the connection itself executes the others.
    pub const fn is_for_store(&self) -> bool {
        !matches!(self.run, Run::Door)
    }

    /// Whether a request of `len` arguments, the name included, has the right number of them.
    pub const fn accepts(&self, len: usize) -> bool {
        let wanted = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { len >= wanted } else { len == wanted }
    }

    const fn doc(
        mut self,
        group: &'static str,
        since: &'static str,
        complexity: &'static str,
        summary: &'static str,
    ) -> CommandSpec {
        self.group = group;
        self.since = since;
        self.complexity = complexity;
        self.summary = summary;
        self
    }

    const fn deprecated(mut self, since: &'static str, replaced_by: &'static str) -> CommandSpec {
        self.deprecated_since = since;
        self.replaced_by = replaced_by;
        self
    }

    const fn categories(mut self, categories: &'static [&'static str]) -> CommandSpec {
        self.categories = categories;
        self
    }

    const fn tips(mut self, tips: &'static [&'static str]) -> CommandSpec {
        self.tips = tips;
        self
    }

    const fn keys(
        mut self,
        first: i32,
        last: i32,
        step: i32,
        specs: &'static [KeySpec],
    ) -> CommandSpec {
        self.keys = KeyRange { first, last, step };
        self.key_specs = specs;
        self
    }

    /// Keys whose number is an argument: clients have to read it.
    const fn counted_keys(mut self, specs: &'static [KeySpec]) -> CommandSpec {
        self.key_specs = specs;
        self
    }

    const fn subcommands(mut self, subcommands: &'static [CommandSpec]) -> CommandSpec {
        self.subcommands = subcommands;
        self
    }

    const fn run(mut self, run: Run) -> CommandSpec {
        self.run = run;
        self
    }
}

const fn spec(name: &'static str, arity: i32, flags: u32) -> CommandSpec {
    CommandSpec {
        name,
        arity,
        flags,
        keys: KeyRange { first: 0, last: 0, step: 0 },
        group: "",
        subcommands: &[],
        since: "",
        complexity: "",
        summary: "",
        deprecated_since: "",
        replaced_by: "",
        categories: &[],
        tips: &[],
        key_specs: &[],
        run: Run::Door,
    }
}

const fn key_spec(
    notes: &'static str,
    flags: &'static [&'static str],
    begin: i32,
    last: i32,
    step: i32,
) -> KeySpec {
    KeySpec { notes, flags, begin, last, step, is_counted: false }
}

/// Keys whose number stands at `begin`.
const fn key_count(notes: &'static str, flags: &'static [&'static str], begin: i32) -> KeySpec {
    KeySpec { notes, flags, begin, last: 0, step: 1, is_counted: true }
}

/// All commands, in the groups of the table.
pub fn all() -> impl Iterator<Item = &'static CommandSpec> {
    table::GROUPS.iter().flat_map(|group| group.iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i1_flags_agree_with_handlers() {
        for spec in all().flat_map(|spec| std::iter::once(spec).chain(spec.subcommands)) {
            match spec.run {
                Run::Write(_) => assert!(spec.is_write(), "{}", spec.name),
                Run::Read(_) => assert!(!spec.is_write(), "{}", spec.name),
                Run::Door => assert!(!spec.is_write(), "{}", spec.name),
            }
            assert!(!spec.is(flag::WRITE | flag::READONLY), "{}", spec.name);
        }
    }
}
