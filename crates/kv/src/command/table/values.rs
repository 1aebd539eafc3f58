//! DUMP and RESTORE, MEMORY, TIME.

use super::super::{CommandSpec, Run, flag, key_spec, spec};
use crate::exec::{dump, memory};

/// The commands on values as a whole, and on time.
pub(super) static VALUES: [CommandSpec; 4] = [
    spec("dump", 2, flag::READONLY)
        .doc("generic", "2.6.0", "O(1) to access the key and additional O(N*M) to serialize it, where N is the number of Redis objects composing the value and M their average size. For small string values the time complexity is thus O(1)+O(1*M) where M is small, so simply O(1).", "Return a serialized version of the value stored at the specified key.")
        .categories(&["@keyspace", "@read", "@slow"])
        .tips(&["nondeterministic_output"])
        .keys(1, 1, 1, &[key_spec("", &["RO", "access"], 1, 0, 1)])
        .run(Run::Read(dump::dump)),
    spec("restore", -4, flag::WRITE | flag::DENYOOM)
        .doc("generic", "2.6.0", "O(1) to create the new key and additional O(N*M) to reconstruct the serialized value, where N is the number of Redis objects composing the value and M their average size. For small string values the time complexity is thus O(1)+O(1*M) where M is small, so simply O(1). However for sorted set values the complexity is O(N*M*log(N)) because inserting values into sorted sets is O(log(N)).", "Create a key using the provided serialized value, previously obtained using DUMP.")
        .categories(&["@keyspace", "@write", "@slow", "@dangerous"])
        .keys(1, 1, 1, &[key_spec("", &["OW", "update"], 1, 0, 1)])
        .run(Run::Write(dump::restore)),
    spec("memory", -2, 0)
        .doc("server", "4.0.0", "Depends on subcommand.", "A container for memory diagnostics commands")
        .categories(&["@slow"])
        .subcommands(&[
            spec("memory|doctor", 2, 0)
                .doc("server", "4.0.0", "O(1)", "Outputs memory problems report")
                .categories(&["@slow"])
                .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"]),
            spec("memory|help", 2, flag::LOADING | flag::STALE)
                .doc("server", "4.0.0", "O(1)", "Show helpful text about the different subcommands")
                .categories(&["@slow"])
                .run(Run::Read(memory::help)),
            spec("memory|malloc-stats", 2, 0)
                .doc("server", "4.0.0", "Depends on how much memory is allocated, could be slow", "Show allocator internal stats")
                .categories(&["@slow"])
                .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"]),
            spec("memory|purge", 2, 0)
                .doc("server", "4.0.0", "Depends on how much memory is allocated, could be slow", "Ask the allocator to release memory")
                .categories(&["@slow"])
                .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
            spec("memory|stats", 2, 0)
                .doc("server", "4.0.0", "O(1)", "Show memory usage details")
                .categories(&["@slow"])
                .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"]),
            spec("memory|usage", -3, flag::READONLY)
                .doc("server", "4.0.0", "O(N) where N is the number of samples.", "Estimate the memory usage of a key")
                .categories(&["@read", "@slow"])
                .keys(2, 2, 1, &[key_spec("", &["RO"], 2, 0, 1)])
                .run(Run::Read(memory::usage)),
        ]),
    spec("time", 1, flag::LOADING | flag::STALE | flag::FAST)
        .doc("server", "2.6.0", "O(1)", "Return the current server time")
        .categories(&["@fast"])
        .tips(&["nondeterministic_output"])
        .run(Run::Read(memory::time)),
];
