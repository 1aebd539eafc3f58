//! COMMAND: the table, as clients see it. The connection answers it without a store.

use super::{CommandSpec, KeySpec, KeysError, all, flag, keys_of, lookup, lookup_subcommand};
use crate::exec::{SYNTAX, glob_matches, is_short};
use crate::reply::Reply;

/// Executes COMMAND or one of its subcommands; `spec` is what [`resolve`](super::resolve) found.
pub fn command(spec: &CommandSpec, args: &[&[u8]], reply: &mut Reply) {
    match spec.name.split_once('|').map_or("", |(_, sub)| sub) {
        "" => {
            reply.array(all().count());
            all().for_each(|spec| describe(spec, reply));
        }
        "count" => reply.integer(all().count() as i64),
        "info" if args.len() == 2 => {
            reply.array(all().count());
            all().for_each(|spec| describe(spec, reply));
        }
        "info" => {
            reply.array(args.len() - 2);
            for name in &args[2..] {
                match named(name) {
                    Some(spec) => describe(spec, reply),
                    None => reply.null(),
                }
            }
        }
        "docs" => {
            let wanted: Vec<_> = if args.len() == 2 {
                all().collect()
            } else {
                args[2..].iter().filter_map(|name| named(name)).collect()
            };
            reply.map(wanted.len());
            for spec in wanted {
                reply.bulk(spec.name.as_bytes());
                document(spec, reply);
            }
        }
        "list" => list(args, reply),
        "getkeys" => get_keys(args, false, reply),
        "getkeysandflags" => get_keys(args, true, reply),
        _ => help(reply),
    }
}

/// `get`, or `object|encoding` for a subcommand.
fn named(name: &[u8]) -> Option<&'static CommandSpec> {
    match name.iter().position(|&byte| byte == b'|') {
        Some(at) => lookup_subcommand(lookup(&name[..at])?, &name[at + 1..]),
        None => lookup(name),
    }
}

/// The tip for clients of sessions (docs/sessions.md): it uses a number up, and is no `write`.
const NUMBERED: &str = "gregale:numbered";

fn describe(spec: &CommandSpec, reply: &mut Reply) {
    reply.array(10);
    reply.bulk(spec.name.as_bytes());
    reply.integer(i64::from(spec.arity));
    let named = || flag::NAMES.iter().filter(|(bit, _)| spec.is(*bit));
    reply.set(named().count());
    named().for_each(|(_, name)| reply.simple(name));
    reply.integer(i64::from(spec.keys.first));
    reply.integer(i64::from(spec.keys.last));
    reply.integer(i64::from(spec.keys.step));
    reply.set(spec.categories.len());
    spec.categories.iter().for_each(|category| reply.simple(category));
    let numbered = Some(NUMBERED).filter(|_| spec.is(flag::LOGGED));
    let tips = || spec.tips.iter().copied().chain(numbered);
    reply.set(tips().count());
    tips().for_each(|tip| reply.bulk(tip.as_bytes()));
    reply.set(spec.key_specs.len());
    spec.key_specs.iter().for_each(|keys| describe_keys(keys, reply));
    if spec.subcommands.is_empty() {
        reply.set(0);
    } else {
        reply.array(spec.subcommands.len());
        spec.subcommands.iter().for_each(|sub| describe(sub, reply));
    }
}

fn describe_keys(keys: &KeySpec, reply: &mut Reply) {
    reply.map(if keys.notes.is_empty() { 3 } else { 4 });
    if !keys.notes.is_empty() {
        reply.bulk(b"notes");
        reply.bulk(keys.notes.as_bytes());
    }
    reply.bulk(b"flags");
    reply.set(keys.flags.len());
    keys.flags.iter().for_each(|flag| reply.simple(flag));
    reply.bulk(b"begin_search");
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(b"index");
    reply.bulk(b"spec");
    reply.map(1);
    reply.bulk(b"index");
    reply.integer(i64::from(keys.begin));
    reply.bulk(b"find_keys");
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(if keys.is_counted { b"keynum" } else { b"range" });
    reply.bulk(b"spec");
    reply.map(3);
    let fields = if keys.is_counted {
        [("keynumidx", 0), ("firstkey", 1), ("keystep", keys.step)]
    } else {
        [("lastkey", keys.last), ("keystep", keys.step), ("limit", 0)]
    };
    for (name, value) in fields {
        reply.bulk(name.as_bytes());
        reply.integer(i64::from(value));
    }
}

/// The help that a client shows. The grammar of arguments is omitted, which Redis allows.
/// out.
fn document(spec: &CommandSpec, reply: &mut Reply) {
    let deprecated = !spec.deprecated_since.is_empty();
    let extra = if deprecated { 3 } else { 0 } + usize::from(!spec.subcommands.is_empty());
    reply.map(4 + extra);
    for (name, value) in [
        ("summary", spec.summary),
        ("since", spec.since),
        ("group", spec.group),
        ("complexity", spec.complexity),
    ] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    if deprecated {
        reply.bulk(b"doc_flags");
        reply.set(1);
        reply.simple("deprecated");
        reply.bulk(b"deprecated_since");
        reply.bulk(spec.deprecated_since.as_bytes());
        reply.bulk(b"replaced_by");
        reply.bulk(spec.replaced_by.as_bytes());
    }
    if !spec.subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(spec.subcommands.len());
        for sub in spec.subcommands {
            reply.bulk(sub.name.as_bytes());
            document(sub, reply);
        }
    }
}

/// COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern].
fn list(args: &[&[u8]], reply: &mut Reply) {
    let every = || all().flat_map(|spec| std::iter::once(spec).chain(spec.subcommands));
    let is = |arg: &[u8], name: &str| arg.eq_ignore_ascii_case(name.as_bytes());
    let found: Vec<&CommandSpec> = match args[2..] {
        [] => all().collect(),
        [filter, kind, wanted] if is(filter, "filterby") && is(kind, "aclcat") => every()
            .filter(|spec| spec.categories.iter().any(|category| is(wanted, &category[1..])))
            .collect(),
        [filter, kind, wanted] if is(filter, "filterby") && is(kind, "pattern") => {
            if !is_short("pattern", wanted, reply) {
                return;
            }
            let wanted = wanted.to_ascii_lowercase();
            every().filter(|spec| glob_matches(&wanted, spec.name.as_bytes())).collect()
        }
        // There are no modules, so none of them has a command.
        [filter, kind, _] if is(filter, "filterby") && is(kind, "module") => Vec::new(),
        _ => {
            reply.error(SYNTAX);
            return;
        }
    };
    reply.array(found.len());
    found.iter().for_each(|spec| reply.bulk(spec.name.as_bytes()));
}

fn get_keys(args: &[&[u8]], with_flags: bool, reply: &mut Reply) {
    let request = &args[2..];
    let Some(mut spec) = lookup(request[0]) else {
        reply.error("ERR Invalid command specified");
        return;
    };
    if let Some(name) = request.get(1)
        && !spec.subcommands.is_empty()
    {
        let Some(sub) = lookup_subcommand(spec, name) else {
            reply.error("ERR Invalid command specified");
            return;
        };
        spec = sub;
    }
    let keys: Vec<usize> = match keys_of(spec, request) {
        Ok(keys) => keys.collect(),
        // As in Redis, a wrong number of keys is no key.
        Err(KeysError::Arity) if spec.accepts(request.len()) => Vec::new(),
        Err(error) => {
            reply.error_fmt(format_args!("{error}"));
            return;
        }
    };
    reply.array(keys.len());
    for at in keys {
        if !with_flags {
            reply.bulk(request[at]);
            continue;
        }
        reply.array(2);
        reply.bulk(request[at]);
        // Of several groups of keys, the last that begins at or before this one.
        let group = spec.key_specs.iter().rfind(|group| group.begin as usize <= at);
        let flags: &[&str] = match group.map_or(&[][..], |group| group.flags) {
            // SET and BITFIELD have several effects on their key.
            [.., "variable_flags"] if spec.name == "bitfield" && only_gets(&request[2..]) => {
                &["RO", "access"]
            }
            [.., "variable_flags"] if spec.name == "bitfield" || has_get(request) => {
                &["RW", "access", "update"]
            }
            [.., "variable_flags"] => &["OW", "update"],
            flags => flags,
        };
        reply.set(flags.len());
        flags.iter().for_each(|flag| reply.simple(flag));
    }
}

/// Whether these subcommands of BITFIELD change nothing.
fn only_gets(mut words: &[&[u8]]) -> bool {
    loop {
        words = match words {
            [] => return true,
            [get, _, _, rest @ ..] if get.eq_ignore_ascii_case(b"get") => rest,
            [overflow, _, rest @ ..] if overflow.eq_ignore_ascii_case(b"overflow") => rest,
            _ => return false,
        };
    }
}

/// Whether SET asks for the old value too.
fn has_get(request: &[&[u8]]) -> bool {
    request.iter().skip(3).any(|word| word.eq_ignore_ascii_case(b"get"))
}

fn help(reply: &mut Reply) {
    reply.help(&[
        "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "(no subcommand)",
        "    Return details about all Redis commands.",
        "COUNT",
        "    Return the total number of commands in this Redis server.",
        "LIST",
        "    Return a list of all commands in this Redis server.",
        "INFO [<command-name> ...]",
        "    Return details about multiple Redis commands.",
        "    If no command names are given, documentation details for all",
        "    commands are returned.",
        "DOCS [<command-name> ...]",
        "    Return documentation details about multiple Redis commands.",
        "    If no command names are given, documentation details for all",
        "    commands are returned.",
        "GETKEYS <full-command>",
        "    Return the keys from a full Redis command.",
        "GETKEYSANDFLAGS <full-command>",
        "    Return the keys and the access flags from a full Redis command.",
    ]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As clients of sessions do (docs/sessions.md).
    #[test]
    fn clients_are_told_of_each_command_whether_it_uses_a_number_up() {
        for spec in all().flat_map(|spec| std::iter::once(spec).chain(spec.subcommands)) {
            let mut reply = Reply::default();
            describe(&CommandSpec { subcommands: &[], ..*spec }, &mut reply);
            let facts = String::from_utf8(reply.take()).unwrap();
            let is_told =
                facts.contains("+write\r\n") || facts.contains("\r\ngregale:numbered\r\n");
            assert_eq!(is_told, spec.is_write(), "{}", spec.name);
        }
    }
}
