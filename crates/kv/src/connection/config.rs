//! CONFIG: the parameters that clients and benchmarks read from a Redis, with the values that hold
//! here.

use super::Config;
use crate::command::CommandSpec;
use crate::exec::{glob_matches, is_short};
use crate::reply::Reply;
use crate::resp::BULK_BYTES_MAX;
use crate::store::DATABASES;

const OUTPUT_LIMIT: &str = "client-output-buffer-limit";

/// The parameters that CONFIG GET knows, with their values. The password is not one of them: it
/// would end up in the logs and on the screens of clients that list all parameters.
fn parameters(config: &Config) -> [(&'static str, String); 11] {
    [
        ("appendonly", "no".to_owned()),
        (OUTPUT_LIMIT, config.output_limits.describe()),
        ("daemonize", "no".to_owned()),
        ("databases", DATABASES.to_string()),
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
            if !args[2..].iter().all(|pattern| is_short("pattern", pattern, reply)) {
                return;
            }
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
        // Redis's own answer when it was started without a file. The same holds here: members are
        // configured by their own file, before they start.
        "config|rewrite" => reply.error("ERR The server is running without a config file"),
        // The counts of commands are reset; other counts continue from the start.
        "config|resetstat" => {
            config.counts.reset();
            reply.ok();
        }
        _ => reply.help(&[
            "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            "GET <pattern>",
            "    Return parameters matching the glob-like <pattern> and their values.",
        ]),
    }
}

/// Parameters that concern only one member can be set while it runs, until it ends. The members
/// must agree on all others, so those are set in their files; setting one to the value that it has
/// succeeds.
fn set(config: &Config, pairs: &[&[u8]], reply: &mut Reply) {
    let known = parameters(config);
    let is_known = |given: &[u8]| known.iter().any(|(name, _)| is(name, given));
    if let Some(name) = pairs.iter().step_by(2).find(|name| !is_known(name)) {
        let head = "ERR Unknown option or number of arguments for CONFIG SET - '";
        return reply.error([head.as_bytes(), name, b"'"].concat());
    }
    if pairs.len() % 2 == 1 {
        return reply.error("ERR wrong number of arguments for 'config|set' command");
    }
    let mut refuse = |name: &[u8], why: &str| {
        let head = "ERR CONFIG SET failed (possibly related to argument '";
        reply.error([head.as_bytes(), name, b"') - ", why.as_bytes()].concat());
    };
    let (pairs, _) = pairs.as_chunks::<2>();
    let is_again = |(at, [name, _]): &(usize, &[&[u8]; 2])| {
        pairs[..*at].iter().any(|[other, _]| other.eq_ignore_ascii_case(name))
    };
    if let Some((_, [name, _])) = pairs.iter().enumerate().find(is_again) {
        return refuse(name, "duplicate parameter");
    }
    let is_so = |[name, value]: &[&[u8]; 2]| {
        known.iter().any(|(known, now)| is(known, name) && now.as_bytes() == *value)
    };
    let is_fixed = |pair: &&[&[u8]; 2]| !is(OUTPUT_LIMIT, pair[0]) && !is_so(pair);
    if let Some([name, _]) = pairs.iter().find(is_fixed) {
        return refuse(name, "can't set immutable config");
    }
    for [name, value] in pairs.iter().filter(|[name, _]| is(OUTPUT_LIMIT, name)) {
        if let Err(why) = config.output_limits.set(value) {
            return refuse(name, why);
        }
    }
    reply.ok();
}
