//! The commands that the connection itself executes: identity, transactions, server.

use super::super::{CommandSpec, flag, key_spec, spec};

/// The commands that the connection itself executes: identity, transactions, server.
pub(super) static DOOR: [CommandSpec; 17] = [
    spec("auth", -2, flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::FAST | flag::NO_AUTH | flag::ALLOW_BUSY)
        .doc("connection", "1.0.0", "O(N) where N is the number of passwords defined for the user", "Authenticate to the server")
        .categories(&["@fast", "@connection"]),
    spec("client", -2, 0)
        .doc("connection", "2.4.0", "Depends on subcommand", "A container for client connection commands")
        .categories(&["@slow"])
        .subcommands(&[
            spec("client|caching", 3, flag::NOSCRIPT | flag::LOADING | flag::STALE)
                .doc("connection", "6.0.0", "O(1)", "Instruct the server about tracking or not keys in the next request")
                .categories(&["@slow", "@connection"]),
            spec("client|getname", 2, flag::NOSCRIPT | flag::LOADING | flag::STALE)
                .doc("connection", "2.6.9", "O(1)", "Get the current connection name")
                .categories(&["@slow", "@connection"]),
            spec("client|getredir", 2, flag::NOSCRIPT | flag::LOADING | flag::STALE)
                .doc("connection", "6.0.0", "O(1)", "Get tracking notifications redirection client ID if any")
                .categories(&["@slow", "@connection"]),
            spec("client|help", 2, flag::LOADING | flag::STALE)
                .doc("connection", "5.0.0", "O(1)", "Show helpful text about the different subcommands")
                .categories(&["@slow", "@connection"]),
            spec("client|id", 2, flag::NOSCRIPT | flag::LOADING | flag::STALE)
                .doc("connection", "5.0.0", "O(1)", "Returns the client ID for the current connection")
                .categories(&["@slow", "@connection"]),
            spec("client|info", 2, flag::NOSCRIPT | flag::LOADING | flag::STALE)
                .doc("connection", "6.2.0", "O(1)", "Returns information about the current client connection.")
                .categories(&["@slow", "@connection"])
                .tips(&["nondeterministic_output"]),
            spec("client|kill", -3, flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE)
                .doc("connection", "2.4.0", "O(N) where N is the number of client connections", "Kill the connection of a client")
                .categories(&["@admin", "@slow", "@dangerous", "@connection"]),
            spec("client|list", -2, flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE)
                .doc("connection", "2.4.0", "O(N) where N is the number of client connections", "Get the list of client connections")
                .categories(&["@admin", "@slow", "@dangerous", "@connection"])
                .tips(&["nondeterministic_output"]),
            spec("client|no-evict", 3, flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE)
                .doc("connection", "7.0.0", "O(1)", "Set client eviction mode for the current connection")
                .categories(&["@admin", "@slow", "@dangerous", "@connection"]),
            spec("client|pause", -3, flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE)
                .doc("connection", "2.9.50", "O(1)", "Stop processing commands from clients for some time")
                .categories(&["@admin", "@slow", "@dangerous", "@connection"]),
            spec("client|reply", 3, flag::NOSCRIPT | flag::LOADING | flag::STALE)
                .doc("connection", "3.2.0", "O(1)", "Instruct the server whether to reply to commands")
                .categories(&["@slow", "@connection"]),
            spec("client|setname", 3, flag::NOSCRIPT | flag::LOADING | flag::STALE)
                .doc("connection", "2.6.9", "O(1)", "Set the current connection name")
                .categories(&["@slow", "@connection"]),
            spec("client|tracking", -3, flag::NOSCRIPT | flag::LOADING | flag::STALE)
                .doc("connection", "6.0.0", "O(1)", "Enable or disable server assisted client side caching support")
                .categories(&["@slow", "@connection"]),
            spec("client|trackinginfo", 2, flag::NOSCRIPT | flag::LOADING | flag::STALE)
                .doc("connection", "6.2.0", "O(1)", "Return information about server assisted client side caching for the current connection")
                .categories(&["@slow", "@connection"]),
            spec("client|unblock", -3, flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE)
                .doc("connection", "5.0.0", "O(log N) where N is the number of client connections", "Unblock a client blocked in a blocking command from a different connection")
                .categories(&["@admin", "@slow", "@dangerous", "@connection"]),
            spec("client|unpause", 2, flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE)
                .doc("connection", "6.2.0", "O(N) Where N is the number of paused clients", "Resume processing of clients that were paused")
                .categories(&["@admin", "@slow", "@dangerous", "@connection"]),
        ]),
    spec("command", -1, flag::LOADING | flag::STALE)
        .doc("server", "2.8.13", "O(N) where N is the total number of Redis commands", "Get array of Redis command details")
        .categories(&["@slow", "@connection"])
        .tips(&["nondeterministic_output_order"])
        .subcommands(&[
            spec("command|count", 2, flag::LOADING | flag::STALE)
                .doc("server", "2.8.13", "O(1)", "Get total number of Redis commands")
                .categories(&["@slow", "@connection"]),
            spec("command|docs", -2, flag::LOADING | flag::STALE)
                .doc("server", "7.0.0", "O(N) where N is the number of commands to look up", "Get array of specific Redis command documentation")
                .categories(&["@slow", "@connection"])
                .tips(&["nondeterministic_output_order"]),
            spec("command|getkeys", -4, flag::LOADING | flag::STALE)
                .doc("server", "2.8.13", "O(N) where N is the number of arguments to the command", "Extract keys given a full Redis command")
                .categories(&["@slow", "@connection"]),
            spec("command|getkeysandflags", -4, flag::LOADING | flag::STALE)
                .doc("server", "7.0.0", "O(N) where N is the number of arguments to the command", "Extract keys and access flags given a full Redis command")
                .categories(&["@slow", "@connection"]),
            spec("command|help", 2, flag::LOADING | flag::STALE)
                .doc("server", "5.0.0", "O(1)", "Show helpful text about the different subcommands")
                .categories(&["@slow", "@connection"]),
            spec("command|info", -2, flag::LOADING | flag::STALE)
                .doc("server", "2.8.13", "O(N) where N is the number of commands to look up", "Get array of specific Redis command details, or all when no argument is given.")
                .categories(&["@slow", "@connection"])
                .tips(&["nondeterministic_output_order"]),
            spec("command|list", -2, flag::LOADING | flag::STALE)
                .doc("server", "7.0.0", "O(N) where N is the total number of Redis commands", "Get an array of Redis command names")
                .categories(&["@slow", "@connection"])
                .tips(&["nondeterministic_output_order"]),
        ]),
    spec("config", -2, 0)
        .doc("server", "2.0.0", "Depends on subcommand", "A container for server configuration commands")
        .categories(&["@slow"])
        .subcommands(&[
            spec("config|get", -3, flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE)
                .doc("server", "2.0.0", "O(N) when N is the number of configuration parameters provided", "Get the values of configuration parameters")
                .categories(&["@admin", "@slow", "@dangerous"]),
            spec("config|help", 2, flag::LOADING | flag::STALE)
                .doc("server", "5.0.0", "O(1)", "Show helpful text about the different subcommands")
                .categories(&["@slow"]),
            spec("config|resetstat", 2, flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE)
                .doc("server", "2.0.0", "O(1)", "Reset the stats returned by INFO")
                .categories(&["@admin", "@slow", "@dangerous"]),
            spec("config|rewrite", 2, flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE)
                .doc("server", "2.8.0", "O(1)", "Rewrite the configuration file with the in memory configuration")
                .categories(&["@admin", "@slow", "@dangerous"]),
            spec("config|set", -4, flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE)
                .doc("server", "2.0.0", "O(N) when N is the number of configuration parameters provided", "Set configuration parameters to the given values")
                .categories(&["@admin", "@slow", "@dangerous"])
                .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
        ]),
    spec("discard", 1, flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::FAST | flag::ALLOW_BUSY)
        .doc("transactions", "2.0.0", "O(N), when N is the number of queued commands", "Discard all commands issued after MULTI")
        .categories(&["@fast", "@transaction"]),
    spec("echo", 2, flag::LOADING | flag::STALE | flag::FAST)
        .doc("connection", "1.0.0", "O(1)", "Echo the given string")
        .categories(&["@fast", "@connection"]),
    spec("exec", 1, flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::SKIP_SLOWLOG)
        .doc("transactions", "1.2.0", "Depends on commands in the transaction", "Execute all commands issued after MULTI")
        .categories(&["@slow", "@transaction"]),
    spec("hello", -1, flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::FAST | flag::NO_AUTH | flag::ALLOW_BUSY)
        .doc("connection", "6.0.0", "O(1)", "Handshake with Redis")
        .categories(&["@fast", "@connection"]),
    spec("info", -1, flag::LOADING | flag::STALE)
        .doc("server", "1.0.0", "O(1)", "Get information and statistics about the server")
        .categories(&["@slow", "@dangerous"])
        .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"]),
    spec("multi", 1, flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::FAST | flag::ALLOW_BUSY)
        .doc("transactions", "1.2.0", "O(1)", "Mark the start of a transaction block")
        .categories(&["@fast", "@transaction"]),
    spec("ping", -1, flag::FAST)
        .doc("connection", "1.0.0", "O(1)", "Ping the server")
        .categories(&["@fast", "@connection"])
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
    spec("quit", -1, flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::FAST | flag::NO_AUTH | flag::ALLOW_BUSY)
        .doc("connection", "1.0.0", "O(1)", "Close the connection")
        .categories(&["@fast", "@connection"]),
    spec("reset", 1, flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::FAST | flag::NO_AUTH | flag::ALLOW_BUSY)
        .doc("connection", "6.2.0", "O(1)", "Reset the connection")
        .categories(&["@fast", "@connection"]),
    spec("select", 2, flag::LOADING | flag::STALE | flag::FAST)
        .doc("connection", "1.0.0", "O(1)", "Change the selected database for the current connection")
        .categories(&["@fast", "@connection"]),
    spec("unwatch", 1, flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::FAST | flag::ALLOW_BUSY)
        .doc("transactions", "2.2.0", "O(1)", "Forget about all watched keys")
        .categories(&["@fast", "@transaction"]),
    spec("wait", 3, flag::NOSCRIPT)
        .doc("generic", "3.0.0", "O(1)", "Wait for the synchronous replication of all the write commands sent in the context of the current connection")
        .categories(&["@slow", "@connection"])
        .tips(&["request_policy:all_shards", "response_policy:agg_min"]),
    spec("watch", -2, flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::FAST | flag::ALLOW_BUSY)
        .doc("transactions", "2.2.0", "O(1) for every key", "Watch the given keys to determine execution of the MULTI/EXEC block")
        .categories(&["@fast", "@transaction"])
        .keys(1, -1, 1, &[key_spec("", &["RO"], 1, -1, 1)]),
];
