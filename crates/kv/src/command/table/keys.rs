//! The commands on keys of any type and on expiry.

use super::super::{CommandSpec, Run, flag, key_spec, spec};
use crate::exec::{expiry, keys, object, scan};

/// The commands on keys of any type and on expiry.
pub(super) static KEYS: [CommandSpec; 26] = [
    spec("copy", -3, flag::WRITE | flag::DENYOOM)
        .doc("generic", "6.2.0", "O(N) worst case for collections, where N is the number of nested items", "Copy a key")
        .categories(&["@keyspace", "@write", "@slow"])
        .keys(1, 2, 1, &[key_spec("", &["RO", "access"], 1, 0, 1), key_spec("", &["OW", "update"], 2, 0, 1)])
        .run(Run::Write(keys::copy)),
    spec("dbsize", 1, flag::READONLY | flag::FAST)
        .doc("server", "1.0.0", "O(1)", "Return the number of keys in the selected database")
        .categories(&["@keyspace", "@read", "@fast"])
        .tips(&["request_policy:all_shards", "response_policy:agg_sum"])
        .run(Run::Read(keys::dbsize)),
    spec("del", -2, flag::WRITE)
        .doc("generic", "1.0.0", "O(N) where N is the number of keys that will be removed", "Delete a key")
        .categories(&["@keyspace", "@write", "@slow"])
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .keys(1, -1, 1, &[key_spec("", &["RM", "delete"], 1, -1, 1)])
        .run(Run::Write(keys::del)),
    spec("exists", -2, flag::READONLY | flag::FAST)
        .doc("generic", "1.0.0", "O(N) where N is the number of keys to check", "Determine if a key exists")
        .categories(&["@keyspace", "@read", "@fast"])
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .keys(1, -1, 1, &[key_spec("", &["RO"], 1, -1, 1)])
        .run(Run::Read(keys::exists)),
    spec("expire", -3, flag::WRITE | flag::FAST)
        .doc("generic", "1.0.0", "O(1)", "Set a key's time to live in seconds")
        .categories(&["@keyspace", "@write", "@fast"])
        .keys(1, 1, 1, &[key_spec("", &["RW", "update"], 1, 0, 1)])
        .run(Run::Write(expiry::expire)),
    spec("expireat", -3, flag::WRITE | flag::FAST)
        .doc("generic", "1.2.0", "O(1)", "Set the expiration for a key as a UNIX timestamp")
        .categories(&["@keyspace", "@write", "@fast"])
        .keys(1, 1, 1, &[key_spec("", &["RW", "update"], 1, 0, 1)])
        .run(Run::Write(expiry::expireat)),
    spec("expiretime", 2, flag::READONLY | flag::FAST)
        .doc("generic", "7.0.0", "O(1)", "Get the expiration Unix timestamp for a key")
        .categories(&["@keyspace", "@read", "@fast"])
        .keys(1, 1, 1, &[key_spec("", &["RO", "access"], 1, 0, 1)])
        .run(Run::Read(expiry::expiretime)),
    spec("flushall", -1, flag::WRITE)
        .doc("server", "1.0.0", "O(N) where N is the total number of keys in all databases", "Remove all keys from all databases")
        .categories(&["@keyspace", "@write", "@slow", "@dangerous"])
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .run(Run::Write(keys::flushall)),
    spec("flushdb", -1, flag::WRITE)
        .doc("server", "1.0.0", "O(N) where N is the number of keys in the selected database", "Remove all keys from the current database")
        .categories(&["@keyspace", "@write", "@slow", "@dangerous"])
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .run(Run::Write(keys::flushdb)),
    spec("keys", 2, flag::READONLY)
        .doc("generic", "1.0.0", "O(N) with N being the number of keys in the database, under the assumption that the key names in the database and the given pattern have limited length", "Find all keys matching the given pattern")
        .categories(&["@keyspace", "@read", "@slow", "@dangerous"])
        .tips(&["request_policy:all_shards", "nondeterministic_output_order"])
        .run(Run::Read(scan::keys)),
    spec("move", 3, flag::WRITE | flag::FAST)
        .doc("generic", "1.0.0", "O(1)", "Move a key to another database")
        .categories(&["@keyspace", "@write", "@fast"])
        .keys(1, 1, 1, &[key_spec("", &["RW", "access", "update"], 1, 0, 1)])
        .run(Run::Write(keys::move_to)),
    spec("object", -2, 0)
        .doc("generic", "2.2.3", "Depends on subcommand", "A container for object introspection commands")
        .categories(&["@slow"])
        .subcommands(&[
            spec("object|encoding", 3, flag::READONLY)
                .doc("generic", "2.2.3", "O(1)", "Inspect the internal encoding of a Redis object")
                .categories(&["@keyspace", "@read", "@slow"])
                .tips(&["nondeterministic_output"])
                .keys(2, 2, 1, &[key_spec("", &["RO"], 2, 0, 1)])
                .run(Run::Read(object::encoding)),
            spec("object|freq", 3, flag::READONLY)
                .doc("generic", "4.0.0", "O(1)", "Get the logarithmic access frequency counter of a Redis object")
                .categories(&["@keyspace", "@read", "@slow"])
                .tips(&["nondeterministic_output"])
                .keys(2, 2, 1, &[key_spec("", &["RO"], 2, 0, 1)])
                .run(Run::Read(object::freq)),
            spec("object|help", 2, flag::LOADING | flag::STALE)
                .doc("generic", "6.2.0", "O(1)", "Show helpful text about the different subcommands")
                .categories(&["@keyspace", "@slow"])
                .run(Run::Read(object::help)),
            spec("object|idletime", 3, flag::READONLY)
                .doc("generic", "2.2.3", "O(1)", "Get the time since a Redis object was last accessed")
                .categories(&["@keyspace", "@read", "@slow"])
                .tips(&["nondeterministic_output"])
                .keys(2, 2, 1, &[key_spec("", &["RO"], 2, 0, 1)])
                .run(Run::Read(object::idletime)),
            spec("object|refcount", 3, flag::READONLY)
                .doc("generic", "2.2.3", "O(1)", "Get the number of references to the value of the key")
                .categories(&["@keyspace", "@read", "@slow"])
                .tips(&["nondeterministic_output"])
                .keys(2, 2, 1, &[key_spec("", &["RO"], 2, 0, 1)])
                .run(Run::Read(object::refcount)),
        ]),
    spec("persist", 2, flag::WRITE | flag::FAST)
        .doc("generic", "2.2.0", "O(1)", "Remove the expiration from a key")
        .categories(&["@keyspace", "@write", "@fast"])
        .keys(1, 1, 1, &[key_spec("", &["RW", "update"], 1, 0, 1)])
        .run(Run::Write(expiry::persist)),
    spec("pexpire", -3, flag::WRITE | flag::FAST)
        .doc("generic", "2.6.0", "O(1)", "Set a key's time to live in milliseconds")
        .categories(&["@keyspace", "@write", "@fast"])
        .keys(1, 1, 1, &[key_spec("", &["RW", "update"], 1, 0, 1)])
        .run(Run::Write(expiry::pexpire)),
    spec("pexpireat", -3, flag::WRITE | flag::FAST)
        .doc("generic", "2.6.0", "O(1)", "Set the expiration for a key as a UNIX timestamp specified in milliseconds")
        .categories(&["@keyspace", "@write", "@fast"])
        .keys(1, 1, 1, &[key_spec("", &["RW", "update"], 1, 0, 1)])
        .run(Run::Write(expiry::pexpireat)),
    spec("pexpiretime", 2, flag::READONLY | flag::FAST)
        .doc("generic", "7.0.0", "O(1)", "Get the expiration Unix timestamp for a key in milliseconds")
        .categories(&["@keyspace", "@read", "@fast"])
        .keys(1, 1, 1, &[key_spec("", &["RO", "access"], 1, 0, 1)])
        .run(Run::Read(expiry::pexpiretime)),
    spec("pttl", 2, flag::READONLY | flag::FAST)
        .doc("generic", "2.6.0", "O(1)", "Get the time to live for a key in milliseconds")
        .categories(&["@keyspace", "@read", "@fast"])
        .tips(&["nondeterministic_output"])
        .keys(1, 1, 1, &[key_spec("", &["RO", "access"], 1, 0, 1)])
        .run(Run::Read(expiry::pttl)),
    spec("randomkey", 1, flag::READONLY)
        .doc("generic", "1.0.0", "O(1)", "Return a random key from the keyspace")
        .categories(&["@keyspace", "@read", "@slow"])
        .tips(&["request_policy:all_shards", "nondeterministic_output"])
        .run(Run::Read(scan::randomkey)),
    spec("rename", 3, flag::WRITE)
        .doc("generic", "1.0.0", "O(1)", "Rename a key")
        .categories(&["@keyspace", "@write", "@slow"])
        .keys(1, 2, 1, &[key_spec("", &["RW", "access", "delete"], 1, 0, 1), key_spec("", &["OW", "update"], 2, 0, 1)])
        .run(Run::Write(keys::rename)),
    spec("renamenx", 3, flag::WRITE | flag::FAST)
        .doc("generic", "1.0.0", "O(1)", "Rename a key, only if the new key does not exist")
        .categories(&["@keyspace", "@write", "@fast"])
        .keys(1, 2, 1, &[key_spec("", &["RW", "access", "delete"], 1, 0, 1), key_spec("", &["OW", "insert"], 2, 0, 1)])
        .run(Run::Write(keys::renamenx)),
    spec("scan", -2, flag::READONLY)
        .doc("generic", "2.8.0", "O(1) for every call", "Incrementally iterate the keys space")
        .categories(&["@keyspace", "@read", "@slow"])
        .tips(&["nondeterministic_output", "request_policy:special"])
        .run(Run::Read(scan::scan)),
    spec("swapdb", 3, flag::WRITE | flag::FAST)
        .doc("server", "4.0.0", "O(N) where N is the count of clients watching or blocking on keys from both databases.", "Swaps two Redis databases")
        .categories(&["@keyspace", "@write", "@fast", "@dangerous"])
        .run(Run::Write(keys::swapdb)),
    spec("touch", -2, flag::READONLY | flag::FAST)
        .doc("generic", "3.2.1", "O(N) where N is the number of keys that will be touched", "Alters the last access time of a key(s). Returns the number of existing keys specified.")
        .categories(&["@keyspace", "@read", "@fast"])
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .keys(1, -1, 1, &[key_spec("", &["RO"], 1, -1, 1)])
        .run(Run::Read(keys::exists)),
    spec("ttl", 2, flag::READONLY | flag::FAST)
        .doc("generic", "1.0.0", "O(1)", "Get the time to live for a key in seconds")
        .categories(&["@keyspace", "@read", "@fast"])
        .tips(&["nondeterministic_output"])
        .keys(1, 1, 1, &[key_spec("", &["RO", "access"], 1, 0, 1)])
        .run(Run::Read(expiry::ttl)),
    spec("type", 2, flag::READONLY | flag::FAST)
        .doc("generic", "1.0.0", "O(1)", "Determine the type stored at key")
        .categories(&["@keyspace", "@read", "@fast"])
        .keys(1, 1, 1, &[key_spec("", &["RO"], 1, 0, 1)])
        .run(Run::Read(keys::type_of)),
    spec("unlink", -2, flag::WRITE | flag::FAST)
        .doc("generic", "4.0.0", "O(1) for each key removed regardless of its size", "Delete a key asynchronously in another thread. Otherwise it is just as DEL, but non blocking.")
        .categories(&["@keyspace", "@write", "@fast"])
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .keys(1, -1, 1, &[key_spec("", &["RM", "delete"], 1, -1, 1)])
        .run(Run::Write(keys::del)),
];
