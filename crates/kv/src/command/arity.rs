//! The command that a request's words name, or Redis's error about them.

use super::{CommandSpec, lookup, lookup_subcommand};
use crate::reply::Reply;

/// The most bytes that Redis quotes of an unknown word.
const QUOTED_BYTES_MAX: usize = 128;

/// Finds the command that `args` names and checks the number of arguments; a container is resolved
/// to its subcommand. On `None` the error has been written to `reply`. `args` is not empty.
pub fn resolve(args: &[&[u8]], reply: &mut Reply) -> Option<&'static CommandSpec> {
    let Some(command) = lookup(args[0]) else {
        unknown_command(args, reply);
        return None;
    };
    let spec = if command.subcommands.is_empty() || args.len() == 1 {
        command
    } else if let Some(sub) = lookup_subcommand(command, args[1]) {
        sub
    } else {
        unknown_subcommand(args, reply);
        return None;
    };
    if !spec.accepts(args.len()) {
        wrong_arity(spec, reply);
        return None;
    }
    Some(spec)
}

/// The error for a wrong number of arguments.
pub fn wrong_arity(spec: &CommandSpec, reply: &mut Reply) {
    reply.error_fmt(format_args!("ERR wrong number of arguments for '{}' command", spec.name));
}

fn unknown_command(args: &[&[u8]], reply: &mut Reply) {
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(printed(args[0], QUOTED_BYTES_MAX));
    text.extend_from_slice(b"', with args beginning with: ");
    let quoted_from = text.len();
    for arg in &args[1..] {
        let quoted = text.len() - quoted_from;
        if quoted >= QUOTED_BYTES_MAX {
            break;
        }
        text.push(b'\'');
        text.extend_from_slice(printed(arg, QUOTED_BYTES_MAX - quoted));
        text.extend_from_slice(b"' ");
    }
    reply.error(text);
}

fn unknown_subcommand(args: &[&[u8]], reply: &mut Reply) {
    let mut text = b"ERR unknown subcommand '".to_vec();
    text.extend_from_slice(printed(args[1], QUOTED_BYTES_MAX));
    text.extend_from_slice(b"'. Try ");
    text.extend_from_slice(&args[0].to_ascii_uppercase());
    text.extend_from_slice(b" HELP.");
    reply.error(text);
}

/// The bytes that C's `%.*s` prints of `bytes`: at most `most`, and none from a NUL on.
fn printed(bytes: &[u8], most: usize) -> &[u8] {
    let end = bytes.iter().take(most).position(|&byte| byte == 0);
    &bytes[..end.unwrap_or(bytes.len().min(most))]
}
