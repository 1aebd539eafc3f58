//! CONFIG: what clients and benchmarks ask a Redis about, answered by what holds here.

use super::Config;
use crate::command::CommandSpec;
use crate::exec::glob_matches;
use crate::reply::Reply;
use crate::resp::BULK_BYTES_MAX;

/// Every parameter that CONFIG GET knows, with its value. A password is not one of them: it would
/// end up in logs and screens of whoever lists them all.
fn parameters(config: &Config) -> [(&'static str, String); 9] {
    [
        ("appendonly", "no".to_owned()),
        ("databases", "1".to_owned()),
        ("maxclients", config.connections_max.to_string()),
        ("maxmemory", config.memory_bytes_max.to_string()),
        ("maxmemory-policy", "noeviction".to_owned()),
        ("proto-max-bulk-len", BULK_BYTES_MAX.to_string()),
        ("save", String::new()),
        ("tcp-keepalive", "300".to_owned()),
        ("timeout", "0".to_owned()),
    ]
}

fn is(name: &str, given: &[u8]) -> bool {
    given.eq_ignore_ascii_case(name.as_bytes())
}

pub(super) fn config(
    config: &Config,
    spec: &'static CommandSpec,
    args: &[&[u8]],
    reply: &mut Reply,
) {
    match spec.name {
        "config|get" => {
            let mut found = Vec::new();
            for (name, value) in parameters(config) {
                // A name without wildcards comes back as it was spelled.
                let spelled = args[2..].iter().find(|arg| is(name, arg)).copied();
                let mut patterns = args[2..].iter().map(|arg| arg.to_ascii_lowercase());
                if spelled.is_some() || patterns.any(|arg| glob_matches(&arg, name.as_bytes())) {
                    found.push((spelled.unwrap_or(name.as_bytes()), value));
                }
            }
            reply.map(found.len());
            for (name, value) in found {
                reply.bulk(name);
                reply.bulk(value.as_bytes());
            }
        }
        "config|set" => set(config, &args[2..], reply),
        // Redis's own answer when it was started without a file, which is how it is here: members
        // are configured by their own file, before they start.
        "config|rewrite" => reply.error("ERR The server is running without a config file"),
        "config|resetstat" => {
            reply.error("ERR gregale does not reset its statistics; they count from the start");
        }
        _ => {
            let lines = [
                "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
                "GET <pattern>",
                "    Return parameters matching the glob-like <pattern> and their values.",
                "HELP",
                "    Prints this help.",
            ];
            reply.array(lines.len());
            lines.iter().for_each(|line| reply.simple(line));
        }
    }
}

/// Nothing can be set while a member runs: all members must agree, so it goes into their files.
fn set(config: &Config, pairs: &[&[u8]], reply: &mut Reply) {
    let known = parameters(config);
    let is_known = |given: &[u8]| known.iter().any(|(name, _)| is(name, given));
    let (text, name) = match pairs.iter().step_by(2).find(|name| !is_known(name)) {
        Some(name) => ("ERR Unknown option or number of arguments for CONFIG SET - '", *name),
        None if pairs.len() % 2 == 1 => {
            reply.error("ERR wrong number of arguments for 'config|set' command");
            return;
        }
        None => ("ERR CONFIG SET failed (possibly related to argument '", pairs[0]),
    };
    let mut text = text.as_bytes().to_vec();
    text.extend_from_slice(name);
    text.extend_from_slice(if text.starts_with(b"ERR Unknown") {
        b"'"
    } else {
        b"') - can't set immutable config"
    });
    reply.error(text);
}
