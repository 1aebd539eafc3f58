//! Scripts, in Redis 7.0's words.

use super::super::{CommandSpec, flag, key_count, spec};
use crate::exec::Run;
use crate::script;

/// Scripts, in Redis 7.0's words.
pub(super) static SCRIPTS: [CommandSpec; 5] = [
    spec("eval", -3, flag::NOSCRIPT | flag::STALE | flag::SKIP_MONITOR | flag::NO_MANDATORY_KEYS | flag::MOVABLE_KEYS | flag::LOGGED)
        .doc("scripting", "2.6.0", "Depends on the script that is executed.", "Execute a Lua script server side")
        .categories(&["@slow", "@scripting"])
        .counted_keys(&[key_count("We cannot tell how the keys will be used so we assume the worst, RW and UPDATE", &["RW", "access", "update"], 2)])
        .run(Run::Write(script::eval)),
    spec("eval_ro", -3, flag::READONLY | flag::NOSCRIPT | flag::STALE | flag::SKIP_MONITOR | flag::NO_MANDATORY_KEYS | flag::MOVABLE_KEYS | flag::LOGGED)
        .doc("scripting", "7.0.0", "Depends on the script that is executed.", "Execute a read-only Lua script server side")
        .categories(&["@slow", "@scripting"])
        .counted_keys(&[key_count("We cannot tell how the keys will be used so we assume the worst, RO and ACCESS", &["RO", "access"], 2)])
        .run(Run::Write(script::eval)),
    spec("evalsha", -3, flag::NOSCRIPT | flag::STALE | flag::SKIP_MONITOR | flag::NO_MANDATORY_KEYS | flag::MOVABLE_KEYS | flag::LOGGED)
        .doc("scripting", "2.6.0", "Depends on the script that is executed.", "Execute a Lua script server side")
        .categories(&["@slow", "@scripting"])
        .counted_keys(&[key_count("", &["RW", "access", "update"], 2)])
        .run(Run::Write(script::eval)),
    spec("evalsha_ro", -3, flag::READONLY | flag::NOSCRIPT | flag::STALE | flag::SKIP_MONITOR | flag::NO_MANDATORY_KEYS | flag::MOVABLE_KEYS | flag::LOGGED)
        .doc("scripting", "7.0.0", "Depends on the script that is executed.", "Execute a read-only Lua script server side")
        .categories(&["@slow", "@scripting"])
        .counted_keys(&[key_count("", &["RO", "access"], 2)])
        .run(Run::Write(script::eval)),
    spec("script", -2, 0)
        .doc("scripting", "2.6.0", "Depends on subcommand.", "A container for Lua scripts management commands")
        .categories(&["@slow"])
        .subcommands(&[
            spec("script|debug", 3, flag::NOSCRIPT)
                .doc("scripting", "3.2.0", "O(1)", "Set the debug mode for executed scripts.")
                .categories(&["@slow", "@scripting"]),
            spec("script|exists", -3, flag::NOSCRIPT)
                .doc("scripting", "2.6.0", "O(N) with N being the number of scripts to check (so checking a single script is an O(1) operation).", "Check existence of scripts in the script cache.")
                .categories(&["@slow", "@scripting"])
                .tips(&["request_policy:all_shards", "response_policy:agg_logical_and"])
                .run(Run::Read(script::exists)),
            spec("script|flush", -2, flag::NOSCRIPT | flag::LOGGED)
                .doc("scripting", "2.6.0", "O(N) with N being the number of scripts in cache", "Remove all the scripts from the script cache.")
                .categories(&["@slow", "@scripting"])
                .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
                .run(Run::Write(script::flush)),
            spec("script|help", 2, flag::LOADING | flag::STALE)
                .doc("scripting", "5.0.0", "O(1)", "Show helpful text about the different subcommands")
                .categories(&["@slow", "@scripting"]),
            spec("script|kill", 2, flag::NOSCRIPT | flag::ALLOW_BUSY)
                .doc("scripting", "2.6.0", "O(1)", "Kill the script currently in execution.")
                .categories(&["@slow", "@scripting"])
                .tips(&["request_policy:all_shards", "response_policy:one_succeeded"]),
            spec("script|load", 3, flag::NOSCRIPT | flag::STALE | flag::LOGGED)
                .doc("scripting", "2.6.0", "O(N) with N being the length in bytes of the script body.", "Load the specified Lua script into the script cache.")
                .categories(&["@slow", "@scripting"])
                .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
                .run(Run::Write(script::load)),
        ]),
];
