//! The string commands, with what Redis 7.0 answers about them in COMMAND INFO and COMMAND DOCS.

use super::super::{CommandSpec, Run, flag, key_spec, spec};
use crate::exec::{lcs, numbers, ranges, strings};

/// The string commands, with what Redis 7.0 answers about them in COMMAND INFO and COMMAND DOCS.
pub(super) static STRINGS: [CommandSpec; 22] = [
    spec("append", 3, flag::WRITE | flag::DENYOOM | flag::FAST)
        .doc("string", "2.0.0", "O(1)", "Append a value to a key")
        .categories(&["@write", "@string", "@fast"])
        .keys(1, 1, 1, &[key_spec("", &["RW", "insert"], 1, 0, 1)])
        .run(Run::Write(ranges::append)),
    spec("decr", 2, flag::WRITE | flag::DENYOOM | flag::FAST)
        .doc("string", "1.0.0", "O(1)", "Decrement the integer value of a key by one")
        .categories(&["@write", "@string", "@fast"])
        .keys(1, 1, 1, &[key_spec("", &["RW", "access", "update"], 1, 0, 1)])
        .run(Run::Write(numbers::decr)),
    spec("decrby", 3, flag::WRITE | flag::DENYOOM | flag::FAST)
        .doc("string", "1.0.0", "O(1)", "Decrement the integer value of a key by the given number")
        .categories(&["@write", "@string", "@fast"])
        .keys(1, 1, 1, &[key_spec("", &["RW", "access", "update"], 1, 0, 1)])
        .run(Run::Write(numbers::decrby)),
    spec("get", 2, flag::READONLY | flag::FAST)
        .doc("string", "1.0.0", "O(1)", "Get the value of a key")
        .categories(&["@read", "@string", "@fast"])
        .keys(1, 1, 1, &[key_spec("", &["RO", "access"], 1, 0, 1)])
        .run(Run::Read(strings::get)),
    spec("getdel", 2, flag::WRITE | flag::FAST)
        .doc("string", "6.2.0", "O(1)", "Get the value of a key and delete the key")
        .categories(&["@write", "@string", "@fast"])
        .keys(1, 1, 1, &[key_spec("", &["RW", "access", "delete"], 1, 0, 1)])
        .run(Run::Write(strings::getdel)),
    spec("getex", -2, flag::WRITE | flag::FAST)
        .doc("string", "6.2.0", "O(1)", "Get the value of a key and optionally set its expiration")
        .categories(&["@write", "@string", "@fast"])
        .keys(
            1,
            1,
            1,
            &[key_spec(
                "RW and UPDATE because it changes the TTL",
                &["RW", "access", "update"],
                1,
                0,
                1,
            )],
        )
        .run(Run::Write(strings::getex)),
    spec("getrange", 4, flag::READONLY)
        .doc(
            "string",
            "2.4.0",
            "O(N) where N is the length of the returned string",
            "Get a substring of the string stored at a key",
        )
        .categories(&["@read", "@string", "@slow"])
        .keys(1, 1, 1, &[key_spec("", &["RO", "access"], 1, 0, 1)])
        .run(Run::Read(ranges::getrange)),
    spec("getset", 3, flag::WRITE | flag::DENYOOM | flag::FAST)
        .doc("string", "1.0.0", "O(1)", "Set the string value of a key and return its old value")
        .categories(&["@write", "@string", "@fast"])
        .keys(1, 1, 1, &[key_spec("", &["RW", "access", "update"], 1, 0, 1)])
        .deprecated("6.2.0", "`SET` with the `!GET` argument")
        .run(Run::Write(strings::getset)),
    spec("incr", 2, flag::WRITE | flag::DENYOOM | flag::FAST)
        .doc("string", "1.0.0", "O(1)", "Increment the integer value of a key by one")
        .categories(&["@write", "@string", "@fast"])
        .keys(1, 1, 1, &[key_spec("", &["RW", "access", "update"], 1, 0, 1)])
        .run(Run::Write(numbers::incr)),
    spec("incrby", 3, flag::WRITE | flag::DENYOOM | flag::FAST)
        .doc("string", "1.0.0", "O(1)", "Increment the integer value of a key by the given amount")
        .categories(&["@write", "@string", "@fast"])
        .keys(1, 1, 1, &[key_spec("", &["RW", "access", "update"], 1, 0, 1)])
        .run(Run::Write(numbers::incrby)),
    spec("incrbyfloat", 3, flag::WRITE | flag::DENYOOM | flag::FAST)
        .doc("string", "2.6.0", "O(1)", "Increment the float value of a key by the given amount")
        .categories(&["@write", "@string", "@fast"])
        .keys(1, 1, 1, &[key_spec("", &["RW", "access", "update"], 1, 0, 1)])
        .run(Run::Write(numbers::incrbyfloat)),
    spec("lcs", -3, flag::READONLY)
        .doc(
            "string",
            "7.0.0",
            "O(N*M) where N and M are the lengths of s1 and s2, respectively",
            "Find longest common substring",
        )
        .categories(&["@read", "@string", "@slow"])
        .keys(1, 2, 1, &[key_spec("", &["RO", "access"], 1, 1, 1)])
        .run(Run::Read(lcs::lcs)),
    spec("mget", -2, flag::READONLY | flag::FAST)
        .doc(
            "string",
            "1.0.0",
            "O(N) where N is the number of keys to retrieve",
            "Get the values of all the given keys",
        )
        .categories(&["@read", "@string", "@fast"])
        .tips(&["request_policy:multi_shard"])
        .keys(1, -1, 1, &[key_spec("", &["RO", "access"], 1, -1, 1)])
        .run(Run::Read(strings::mget)),
    spec("mset", -3, flag::WRITE | flag::DENYOOM)
        .doc(
            "string",
            "1.0.1",
            "O(N) where N is the number of keys to set",
            "Set multiple keys to multiple values",
        )
        .categories(&["@write", "@string", "@slow"])
        .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"])
        .keys(1, -1, 2, &[key_spec("", &["OW", "update"], 1, -1, 2)])
        .run(Run::Write(strings::mset)),
    spec("msetnx", -3, flag::WRITE | flag::DENYOOM)
        .doc(
            "string",
            "1.0.1",
            "O(N) where N is the number of keys to set",
            "Set multiple keys to multiple values, only if none of the keys exist",
        )
        .categories(&["@write", "@string", "@slow"])
        .tips(&["request_policy:multi_shard", "response_policy:agg_min"])
        .keys(1, -1, 2, &[key_spec("", &["OW", "insert"], 1, -1, 2)])
        .run(Run::Write(strings::msetnx)),
    spec("psetex", 4, flag::WRITE | flag::DENYOOM)
        .doc("string", "2.6.0", "O(1)", "Set the value and expiration in milliseconds of a key")
        .categories(&["@write", "@string", "@slow"])
        .keys(1, 1, 1, &[key_spec("", &["OW", "update"], 1, 0, 1)])
        .run(Run::Write(strings::psetex)),
    spec("set", -3, flag::WRITE | flag::DENYOOM)
        .doc("string", "1.0.0", "O(1)", "Set the string value of a key")
        .categories(&["@write", "@string", "@slow"])
        .keys(
            1,
            1,
            1,
            &[key_spec(
                "RW and ACCESS due to the optional `GET` argument",
                &["RW", "access", "update", "variable_flags"],
                1,
                0,
                1,
            )],
        )
        .run(Run::Write(strings::set)),
    spec("setex", 4, flag::WRITE | flag::DENYOOM)
        .doc("string", "2.0.0", "O(1)", "Set the value and expiration of a key")
        .categories(&["@write", "@string", "@slow"])
        .keys(1, 1, 1, &[key_spec("", &["OW", "update"], 1, 0, 1)])
        .run(Run::Write(strings::setex)),
    spec("setnx", 3, flag::WRITE | flag::DENYOOM | flag::FAST)
        .doc("string", "1.0.0", "O(1)", "Set the value of a key, only if the key does not exist")
        .categories(&["@write", "@string", "@fast"])
        .keys(1, 1, 1, &[key_spec("", &["OW", "insert"], 1, 0, 1)])
        .run(Run::Write(strings::setnx)),
    spec("setrange", 4, flag::WRITE | flag::DENYOOM)
        .doc(
            "string",
            "2.2.0",
            "O(1), not counting the time taken to copy the new string in place",
            "Overwrite part of a string at key starting at the specified offset",
        )
        .categories(&["@write", "@string", "@slow"])
        .keys(1, 1, 1, &[key_spec("", &["RW", "update"], 1, 0, 1)])
        .run(Run::Write(ranges::setrange)),
    spec("strlen", 2, flag::READONLY | flag::FAST)
        .doc("string", "2.2.0", "O(1)", "Get the length of the value stored in a key")
        .categories(&["@read", "@string", "@fast"])
        .keys(1, 1, 1, &[key_spec("", &["RO"], 1, 0, 1)])
        .run(Run::Read(ranges::strlen)),
    spec("substr", 4, flag::READONLY)
        .doc(
            "string",
            "1.0.0",
            "O(N) where N is the length of the returned string",
            "Get a substring of the string stored at a key",
        )
        .categories(&["@read", "@string", "@slow"])
        .keys(1, 1, 1, &[key_spec("", &["RO", "access"], 1, 0, 1)])
        .deprecated("2.0.0", "`GETRANGE`")
        .run(Run::Read(ranges::getrange)),
];
